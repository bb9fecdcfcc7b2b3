"""Rewriting: one node is replaced by others, or a rule says why it does not apply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from irdeconv.graph import FreshNames, Graph, Node, Value
from irdeconv.op import SugarOp
from irdeconv.passes.builder import GraphBuilder, NodeBudget
from irdeconv.passes.emit import Decision, Style

DEFAULT_STYLE = Style()


@dataclass(frozen=True)
class Skip:
    """A rule's answer that it does not apply, with the reason."""

    reason: str


@dataclass(frozen=True)
class Change:
    """What a rule did to one node: the nodes it made, or why it did not apply."""

    made: tuple[int, ...] = ()
    skipped: str | None = None


def replace_node(
    graph: Graph,
    node: Node,
    build: Callable[..., Value | Skip],
    budget: NodeBudget | None = None,
    style: Style = DEFAULT_STYLE,
    decisions: Iterable[Decision] = (),
) -> Change:
    """Replace a node with one output by what `build(op, builder, *inputs)` makes.

    The last new node takes over the name and the tensor names; all of them inherit place and
    origins. It stays where nothing read the node. On Skip, or when `build` raises, the graph is as
    before. What stays is taken from the budget.
    """
    builder = GraphBuilder(graph, node, budget=budget, style=style, decisions=iter(decisions))
    try:
        result = build(node.op, builder, *graph.inputs_of(node.id))
    except BaseException:
        _undo(graph, builder.made)
        raise
    if isinstance(result, Skip):
        _undo(graph, builder.made)
    else:
        _take_over(graph, node, result, builder.made)
    made = tuple(i for i in builder.made if i in graph)
    if budget is not None:
        budget.left += len(builder.made) - len(made)
    return Change(skipped=result.reason) if isinstance(result, Skip) else Change(made)


def expand(op: SugarOp, b: GraphBuilder, *inputs: Value) -> Value:
    """Build what an operation is defined by, for `replace_node`."""
    value: Value = op.expand(b, *inputs)
    return value


def _take_over(graph: Graph, old: Node, value: Value, made: list[int]) -> None:
    new = graph.node(value.node)
    if new.id in made:
        new.name = old.name
        new.tensor_names = old.tensor_names
        new.rt_info = new.rt_info or old.rt_info
        new.port_rt_info = tuple(r for r in old.port_rt_info if r[0] == "output")
    else:
        # The replacement is an existing value: its names join those of the producer.
        new.add_names(value.port, old.names_of(0))
    graph.replace_uses(Value(old.id), value)
    graph.remove(old.id)
    sweep(graph, [i for i in made if i != value.node])


def _undo(graph: Graph, made: list[int]) -> None:
    for i in reversed(made):
        graph.remove(i)


def sweep(graph: Graph, candidates: list[int]) -> None:
    """Remove those of the candidates that nothing uses, the latest first."""
    for i in sorted(candidates, reverse=True):
        if i in graph and not graph.successors(i) and graph.node(i).type != "Result":
            graph.remove(i)


def remove_dead(graph: Graph, keep: set[int]) -> int:
    """Remove the nodes that no Result needs, but for Parameters and `keep`; return how many.

    What the nodes of `keep` read stays as well.
    """
    live = graph.live()
    order = graph.topological()
    for node in reversed(order):
        if node.id in keep or any(i in live for i in graph.successors(node.id)):
            live.add(node.id)
    dead = [n.id for n in order if n.id not in live and n.type != "Parameter"]
    for i in reversed(dead):
        graph.remove(i)
    return len(dead)


def products(graph: Graph, nodes: Iterable[Node]) -> int | None:
    """Return the multiply-accumulates of nodes; None where some are unknown."""
    macs = [n.op.macs(graph.input_specs(n.id), n.specs or ()) for n in nodes]
    return None if None in macs else sum(m or 0 for m in macs)


def unique_names(graph: Graph, keep: Collection[int] = ()) -> None:
    """Give nodes that rewriting made names of their own; those of source layers and `keep` stay."""
    made = [n for n in graph.nodes() if n.origins and n.id not in keep]
    names = FreshNames({n.name for n in graph.nodes() if not n.origins or n.id in keep})
    for node in made:
        node.name = names.fresh(node.name)
