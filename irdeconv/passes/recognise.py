"""Reading back: the written spelling of ZeroInsertion becomes ZeroInsertion again.

The writer marks the last node of the spelling in its rt_info, which other readers ignore. The mark
is only a hint: the three nodes must also be what the writer makes of it.
"""

from __future__ import annotations

import re

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.ops import core
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Reshape, Unsqueeze
from irdeconv.passes.builder import GraphBuilder, constant
from irdeconv.passes.rewrite import replace_node, sweep
from irdeconv.spec import Array, is_static

MARK = "irdeconv_zero_insertion"
_MARKED = re.compile(
    rf'<attribute name="{MARK}" version="0" strides="([0-9,]+)"( trailing="true")?'
)


def mark(strides: tuple[int, ...], trailing: bool) -> str:
    """Return the rt_info that marks a spelled zero-insertion."""
    text = ",".join(map(str, strides))
    more = ' trailing="true"' if trailing else ""
    return f'<rt_info><attribute name="{MARK}" version="0" strides="{text}"{more} /></rt_info>'


def recognise(graph: Graph) -> int:
    """Replace marked spellings in place by ZeroInsertion and Pad; returns how many."""
    count = 0
    for node in list(graph.nodes("Reshape")):
        marked = _MARKED.search(node.rt_info or "")
        if marked:
            strides = tuple(map(int, marked[1].split(",")))
            count += _recognise(graph, node, core.ZeroInsertion(strides, bool(marked[2])))
    for node in graph.nodes() if count else ():
        if node.specs is not None:
            node.declared, node.specs = tuple(s.without_value() for s in node.specs), None
    return count


def _recognise(graph: Graph, reshape: Node, insertion: core.ZeroInsertion) -> bool:
    """Replace a spelling, and unless it is trailing the Pad behind it, which lacks zeros."""
    source = _spread_source(graph, reshape, insertion.strides)
    users = graph.users(Value(reshape.id))
    if source is None or (not insertion.trailing and len(users) != 1):
        return False
    before = _upstream(graph, reshape)
    pad = end = None
    if not insertion.trailing:
        pad = graph.node(users[0][0])
        end = _longer_end(graph, pad, tuple(s - 1 for s in insertion.strides))
        before |= {i.node for i in graph.inputs_of(pad.id)}
        if end is None:
            return False
    reshape.rt_info = None
    replace_node(graph, reshape, lambda _, b, *__: b.add(insertion, source))
    if pad is not None and end is not None:
        _lengthen(graph, pad, end)
    sweep(graph, sorted(before))
    return True


def _lengthen(graph: Graph, pad: Node, end: Array | Value) -> None:
    """Give a Pad its pads_end back; without pads it goes."""
    data, begin = graph.inputs_of(pad.id)[:2]
    known = constant(graph, begin)
    if isinstance(end, np.ndarray) and not end.any() and known is not None and not known.any():
        graph.node(data.node).name = pad.name
        graph.replace_uses(Value(pad.id), data)
        graph.remove(pad.id)
        return

    def longer(op: Pad12, b: GraphBuilder, x: Value, begin: Value, *_: Value) -> Value:
        return b.add(op, x, begin, b.const(end) if isinstance(end, np.ndarray) else end)

    made = replace_node(graph, pad, longer).made
    graph.node(made[-1]).specs = pad.declared  # the same tensor as before


def _spread_source(graph: Graph, reshape: Node, strides: tuple[int, ...]) -> Value | None:
    """Return what is spread, where the nodes in front of `reshape` are the spelling."""
    pad = graph.node(graph.inputs_of(reshape.id)[0].node)
    if not isinstance(reshape.op, Reshape) or not isinstance(pad.op, Pad12):
        return None
    data, begin, end, *fill = graph.inputs_of(pad.id)
    unsqueezed = graph.node(data.node)
    if not isinstance(unsqueezed.op, Unsqueeze) or fill or pad.op.pad_mode != "constant":
        return None
    source, axes = graph.inputs_of(unsqueezed.id)
    behind = np.arange(3, 3 + 2 * len(strides), 2)
    wanted = np.zeros(2 + 2 * len(strides), np.int64)
    wanted[behind] = [s - 1 for s in strides]
    pairs = ((axes, behind), (end, wanted), (begin, np.zeros_like(wanted)))
    if not all(_equal(graph, a, b) for a, b in pairs):
        return None
    return source if _keeps_elements(graph, reshape, source, strides) else None


def _keeps_elements(graph: Graph, reshape: Node, source: Value, strides: tuple[int, ...]) -> bool:
    """Whether the target shape is that of `source` times (1, 1, *strides)."""
    target = graph.inputs_of(reshape.id)[1]
    factors = np.array((1, 1, *strides), np.int64)
    known = constant(graph, target)
    if known is None:
        times = graph.node(target.node)
        if not isinstance(times.op, Multiply):
            return False
        size, by = graph.inputs_of(times.id)
        return _equal(graph, by, factors) and (
            graph.node(size.node).type == "ShapeOf"
            and graph.inputs_of(size.node)[0] == source
            and not reshape.op.special_zero  # type: ignore[attr-defined]
        )
    shape = graph.spec(source).shape
    if shape is None or len(shape) != len(factors) or not is_static(shape):
        return False
    if reshape.op.special_zero and not known.all():  # type: ignore[attr-defined]
        return False
    return np.array_equal(known, np.array(shape, np.int64) * factors)


def _equal(graph: Graph, value: Value, wanted: Array) -> bool:
    array = constant(graph, value)
    return array is not None and np.array_equal(array, wanted)


def _longer_end(graph: Graph, pad: Node, surplus: tuple[int, ...]) -> Array | Value | None:
    """Return the pads_end that the Pad had before the surplus zeros were taken off."""
    inputs = graph.inputs_of(pad.id)
    if not isinstance(pad.op, Pad12) or len(inputs) != 3 or pad.op.pad_mode != "constant":
        return None
    less = np.array((0, 0, *surplus), np.int64)
    known = constant(graph, inputs[2])
    if known is not None:
        return known + less if known.shape == less.shape else None
    minus = graph.node(inputs[2].node)
    if isinstance(minus.op, Subtract):
        left, right = graph.inputs_of(minus.id)
        if _equal(graph, right, less):
            return left
    return None


def _upstream(graph: Graph, reshape: Node) -> set[int]:
    """Return the ids of the spelling's nodes and of what computes the target shape."""
    pad = graph.inputs_of(reshape.id)[0].node
    nodes = {v.node for v in graph.inputs_of(reshape.id)} | {v.node for v in graph.inputs_of(pad)}
    unsqueeze = graph.inputs_of(pad)[0].node
    nodes.add(graph.inputs_of(unsqueeze)[1].node)
    target = graph.inputs_of(reshape.id)[1].node
    stack = [target]
    while stack:
        for v in graph.inputs_of(stack.pop()):
            if graph.node(v.node).type in ("ShapeOf", "Const"):
                nodes.add(v.node)
                stack += [v.node] if graph.node(v.node).type == "Const" else []
    return nodes
