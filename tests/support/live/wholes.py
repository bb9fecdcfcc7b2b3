"""What graphs have that no layer alone has: loops, states, constants; see conditions.py."""

import re
from collections.abc import Iterator

from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Shape
from irdeconv.ops.basic import Const, ReadingOp, VariableOp
from irdeconv.ops.bodies import Slicing, bodies_of


def graphs(graph: Graph) -> Iterator[Graph]:
    """Yield the graph and those of bodies."""
    yield graph
    for node in graph.nodes():
        for body in bodies_of(node):
            yield from graphs(body.graph)


def nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes, those of bodies included."""
    return (node for each in graphs(graph) for node in each.nodes())


def _first(graph: Graph, node: Node, port: int) -> int | None:
    """Return what a Loop counts to or begins with, where that is known."""
    known = graph.spec(graph.inputs_of(node.id)[port]).known
    return None if known is None or not known.size else int(known.reshape(-1)[0])


def counts_below(graph: Graph) -> bool:
    """Whether a Loop has a trip_count below -1."""
    return any((_first(graph, n, 0) or 0) < -1 for n in graph.nodes("Loop"))


def never_begins(graph: Graph) -> bool:
    """Whether a Loop runs its body in no iteration."""
    loops = ((each, n) for each in graphs(graph) for n in each.nodes("Loop"))
    return any(0 in (_first(each, n, 0), _first(each, n, 1)) for each, n in loops)


def may_end_early(graph: Graph) -> bool:
    """Whether a Loop counts to a known number and asks its body whether to go on."""
    return any((_first(graph, n, 0) or 0) > 0 for n in graph.nodes("Loop"))


def _joined(graph: Graph) -> Iterator[tuple[Slicing, Shape | None]]:
    """Yield how Loops of unknown length cut their outputs, and the shapes of a part."""
    for node in graph.nodes("Loop"):
        (body,) = bodies_of(node)
        for output in body.outputs if (_first(graph, node, 0) or -1) < 0 else ():
            if output.slicing is not None:
                yield output.slicing, body.graph.node(output.result).spec().shape


def joins_other_parts(graph: Graph) -> bool:
    """Whether a Loop of unknown length joins parts that are, or may be, no `part_size` wide."""
    return any(s is None or s[cut.axis] != cut.part_size for cut, s in _joined(graph))


def joins_empty_parts(graph: Graph) -> bool:
    """Whether a Loop of unknown length joins parts without elements."""
    return any(shape is not None and 0 in shape for _, shape in _joined(graph))


def ends_elsewhere(graph: Graph) -> bool:
    """Whether a joined output of a loop begins or ends within the tensor."""
    bodies = (b for n in nodes(graph) for b in bodies_of(n))
    cuts = (o.slicing for b in bodies for o in b.outputs if o.slicing is not None)
    return any({cut.start, cut.end} != {0, -1} for cut in cuts)


def has_other_bytes(graph: Graph) -> bool:
    """Whether a constant of booleans has another byte than 0 and 1."""
    constants = [n.op for n in nodes(graph) if isinstance(n.op, Const)]
    flags = [op.data.raw() for op in constants if op.element_type.kind == "bool"]
    return any(max(bytes(raw), default=0) > 1 for raw in flags)


def reads_only(graph: Graph) -> bool:
    """Whether a variable is read that nothing assigns."""
    held = [n.op for n in nodes(graph) if isinstance(n.op, VariableOp)]
    written = {op.variable_id for op in held if not isinstance(op, ReadingOp)}
    return any(op.variable_id not in written for op in held)


def leaves_out(graph: Graph, error: str) -> bool:
    """Whether all that reads the layer of an error is known without it, as its shape is."""
    found: set[int] = set()
    rest = [n.id for n in graph.nodes() if n.type in ("Result", "Assign")]
    while rest:
        node = graph.node(rest.pop())
        known = bool(node.specs) and all(s.known is not None for s in node.specs or ())
        if node.id not in found and not known:
            found.add(node.id)
            rest += [v.node for v in graph.inputs_of(node.id)]
    named = re.search(r'error\[E\d+\]: \w+ "([^"\n]*)"', error)
    return named is not None and named.group(1) not in {graph.node(n).name for n in found}
