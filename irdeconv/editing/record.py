"""What flows into a piece when the whole runs: computed, or taken from saved arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from irdeconv.constant import ArrayData
from irdeconv.editing.extract import Piece, PieceEnd, up_to, with_specs
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.basic import Const
from irdeconv.ops.state import ReadValue6
from irdeconv.runtime.feeds import Binder
from irdeconv.runtime.plan import build_plan
from irdeconv.runtime.schedule import Settings
from irdeconv.spec import Array, is_static

Execute = Callable[[Graph, Mapping[str, Array]], Iterable[Array]]


def node_by_node(graph: Graph, inputs: Mapping[str, Array]) -> Iterable[Array]:
    """Execute a graph as it stands; returns its outputs in order."""
    return build_plan(graph, settings=Settings(fuse=False)).run(inputs).values()


def record(
    whole: Graph,
    piece: Piece,
    inputs: Mapping[str, Array],
    execute: Execute = node_by_node,
) -> dict[str, Array]:
    """Run a graph up to a piece of it; return what flows into the piece, by its input names.

    `inputs` names the inputs of the whole, or those among them that the piece depends on. `execute`
    runs a graph; of a variable it gets the value before the first inference. Raises UsageError for
    inputs that do not fit, UnsupportedError for what cannot be executed.
    """
    head = _head(whole, piece)
    known = {alias: node.id for alias, node in whole.input_names().items()}
    given = {known[name]: array for name, array in inputs.items() if name in known}
    feeds = {e.name: given[e.source.node] for e in head.inputs if e.source.node in given}
    made = execute(head.graph, feeds)
    arrays = dict(zip((e.source for e in head.outputs), made, strict=True))
    return {e.name: arrays[e.source] for e in piece.inputs}


def needed(whole: Graph, piece: Piece) -> list[str]:
    """Return the inputs of the whole that what flows into a piece depends on."""
    names = dict(zip((n.id for n in whole.parameters), whole.inputs, strict=True))
    return [names[e.source.node] for e in _head(whole, piece).inputs]


def recorded(whole: Graph, piece: Piece, arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """Take what flows into a piece from arrays by tensor or layer name; None where some is missing.

    The names may be those of `run --dump`: `dump/NAME`, and `NAME.1` for the second output.
    """
    found = {}
    for end in piece.inputs:
        node, port = whole.node(end.source.node), end.source.port
        names = [end.name, *node.names_of(port), node.output_key(port)]
        name = next((n for k in names for n in (f"dump/{k}", k) if n in arrays), None)
        if name is None:
            return None
        found[end.name] = arrays[name]
    return dict(zip(found, Binder.of(piece.graph).bind(found), strict=True))


def _head(whole: Graph, piece: Piece) -> Piece:
    """Return the part of the whole that computes what flows into a piece."""
    graph = with_specs(whole).copy()
    begins = {Value(n.id): _first_value(graph, n) for n in list(graph.nodes("ReadValue"))}
    for read, begin in begins.items():
        graph.replace_uses(read, begin)
    sources = [e.source for e in piece.inputs]
    head = up_to(graph, [begins.get(v, v) for v in sources])
    ends = [PieceEnd(e.name, v, e.why) for e, v in zip(head.outputs, sources, strict=True)]
    return Piece(head.graph, head.inputs, tuple(ends))


def _first_value(graph: Graph, node: Node) -> Value:
    """Return what a ReadValue gives before anything is assigned: its input, or zeros."""
    inputs = graph.inputs_of(node.id)
    if inputs or not isinstance(node.op, ReadValue6):
        return inputs[0] if inputs else Value(node.id)
    dtype, shape = node.op.variable_type, node.op.variable_shape
    if not is_static(shape):
        return Value(node.id)
    zeros = ArrayData.of(node.op.zeros(), dtype)
    op = Const(element_type=dtype, shape=shape, data=zeros)
    specs = (node.spec(),)
    return Value(graph.add(op, name=f"{node.name}/zeros", specs=specs).id)
