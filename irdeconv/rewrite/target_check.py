"""Whether a target can run the layers of a graph: each layer against the target's list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from irdeconv.base.source import Location
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import is_static
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Add
from irdeconv.rewrite.target_conditions import Facts
from irdeconv.rewrite.target_facts import facts_of
from irdeconv.rewrite.targets import Target

NOT_EXECUTED = ("Parameter", "Result", "Const", "Constant", "Identity")
CONVOLVING = (ConvolutionBase, DialectDeconvolution)


@dataclass(frozen=True)
class Violation:
    """A layer that the target cannot run, and the condition that it does not meet."""

    layer: str
    operation: str
    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return f'{self.operation} "{self.layer}": {self.text}'


def check_graph(
    graph: Graph, target: Target, only: Callable[[Node], bool] = lambda node: True
) -> list[Violation]:
    """Return the conditions of a target that layers of an inferred graph do not meet.

    `only` chooses the layers. All others, constants and layers that depend on constants alone are
    not checked. Bodies of Loop, If and TensorIterator are.
    """
    out = []
    for top, node, name, facts in executed(graph, only):
        title = node.name if top is node else f'{node.name} (in {top.type} "{top.name}")'
        out += [Violation(title, name, t, node.location) for t in target.failures(name, facts)]
    return out


def executed(
    graph: Graph, only: Callable[[Node], bool] = lambda node: True, given: Collection[int] = ()
) -> Iterator[tuple[Node, Node, str, Facts]]:
    """Yield the layers that a device executes: node, name of the operation, facts.

    The first node is the layer of the graph: of a layer in a body the operation around it. `given`
    are Parameters of a body that are constant.
    """
    constant = set(given)
    for node in graph.topological():
        read = [v.node for v in graph.inputs_of(node.id)]
        if node.type == "Const" or (read and node.op.pure and constant.issuperset(read)):
            constant.add(node.id)
            continue
        for body in bodies_of(node):
            carried = body.carried()
            fixed = [i for i in body.inputs if i.port is not None and read[i.port] in constant]
            same = [i.parameter for i in fixed if i.parameter not in carried]
            for _, inner, name, facts in executed(body.graph, only, same):
                yield node, inner, name, facts
        if node.type not in NOT_EXECUTED and only(node) and not _is_bias(graph, node):
            outputs = [node.spec(port) for port in range(node.outputs)]
            known = node.op, graph.input_specs(node.id), outputs, [i in constant for i in read]
            biased = isinstance(node.op, CONVOLVING) and _bias(graph, node) is not None
            yield node, node, *facts_of(*known, biased)


def _bias(graph: Graph, node: Node) -> Node | None:
    """Return the Add of a constant per channel that is the only reader of a convolution."""
    users = graph.users(Value(node.id))
    add = graph.node(users[0][0]) if len(users) == 1 else None
    if add is None or not isinstance(add.op, Add):
        return None
    other = graph.node(graph.inputs_of(add.id)[1 - users[0][1]].node)
    shape, rank = other.spec().shape, node.spec().rank
    per_channel = (
        other.type == "Const"
        and is_static(shape)
        and rank is not None
        and len(shape) <= rank
        and all(d == 1 for a, d in enumerate(shape, rank - len(shape)) if a != 1)
    )
    return add if per_channel else None


def _is_bias(graph: Graph, node: Node) -> bool:
    """Whether a node is the Add of a convolution's bias, which counts with the convolution."""
    if not isinstance(node.op, Add):
        return False
    sources = (graph.node(v.node) for v in graph.inputs_of(node.id))
    return any(isinstance(s.op, CONVOLVING) and _bias(graph, s) is node for s in sources)
