"""Reading back: the written spelling of ZeroInsertion becomes ZeroInsertion again.

The writer marks the last node of the spelling in its rt_info, which other readers ignore. The mark
is only a hint: the three nodes must also be what the writer makes of it, by shapes that follow from
the model's inputs. What ports declare says nothing, nor do the outputs of unknown operations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from irdeconv.errors import Diagnostic
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops import core
from irdeconv.ops.bodies import change_bodies, every_node
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Reshape, Unsqueeze
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.rewrite import replace_node, sweep
from irdeconv.passes.stored import constant
from irdeconv.spec import DYNAMIC, Array, Shape, Spec, bounds, compatible, format_shape, is_static

MARK = "irdeconv_zero_insertion"
_MARKED = re.compile(
    rf'<attribute name="{MARK}" version="0" strides="(\d{{1,9}}(?:,\d{{1,9}}){{0,5}})"'
    r'( trailing="true")?',
    re.ASCII,
)


def mark(strides: tuple[int, ...], trailing: bool) -> str:
    """Return the rt_info that marks a spelled zero-insertion."""
    text = ",".join(map(str, strides))
    more = ' trailing="true"' if trailing else ""
    return f'<rt_info><attribute name="{MARK}" version="0" strides="{text}"{more} /></rt_info>'


def recognise(graph: Graph, shapes: Mapping[int, Shape | None] | None = None) -> int:
    """Replace marked spellings in place by ZeroInsertion and Pad; returns how many.

    `shapes` overrides those of Parameters by node id. A graph that does not fit together stays.
    """
    if not any(_marks(n) for n in every_node(graph)):
        return 0
    problems = infer_specs(graph, shapes, believe=False)
    if not any(d.severity == "error" for d in problems):
        return _recognise_all(graph)
    for node in graph.nodes():
        node.specs = None
    return 0


def _marks(node: Node) -> re.Match[str] | None:
    return _MARKED.search(node.rt_info or "") if node.type == "Reshape" else None


def _recognise_all(graph: Graph) -> int:
    """Replace marked spellings of an inferred graph and its bodies; gives up all specs."""
    count, before = 0, {n.id for n in graph.nodes()}

    def inside(body: Graph) -> Graph:
        nonlocal count
        out = body.copy()
        count += _recognise_all(out)
        return out

    change_bodies(graph, inside)
    for node, found in [(n, m) for n in graph.nodes() if (m := _marks(n)) is not None]:
        strides = tuple(map(int, found[1].split(",")))
        insertion = core.ZeroInsertion(strides, bool(found[2]))
        count += 0 not in strides and _recognise(graph, node, insertion)
    for node in graph.nodes():
        if node.id not in before and node.specs is not None:
            node.declared = tuple(s.without_value() for s in node.specs)
        node.specs = None
    return count


def misfits(graph: Graph) -> list[Diagnostic]:
    """Return an error (E300) for each recognised zero-insertion that the file fixes to other sizes.

    A file that states the target of the Reshape as numbers computes nothing else where the model's
    inputs are given other shapes after it was read.
    """
    return [
        Diagnostic(
            "E300",
            "error",
            f'ZeroInsertion "{node.name}": the file spells it by a Reshape to '
            f"{format_shape(node.declared[0].shape)}, which does not fit the data "
            f"{graph.spec(graph.inputs_of(node.id)[0])}",
            node.location,
            layer=node.name,
            hint="lower the original at these shapes, or with open ones",
        )
        for node in graph.nodes("ZeroInsertion")
        if node.declared and not compatible(node.declared[0].shape, node.spec().shape)
    ]


def _recognise(graph: Graph, reshape: Node, insertion: core.ZeroInsertion) -> bool:
    """Replace a spelling, and unless it is trailing the Pad behind it, which lacks zeros."""
    source = _spread_source(graph, reshape, insertion)
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
    fixed = constant(graph, graph.inputs_of(reshape.id)[1]) is not None
    reshape.rt_info = None
    made = replace_node(graph, reshape, lambda _, b, *__: b.add(insertion, source)).made
    if not fixed:  # the file computes the target: it suits other shapes of the inputs as well
        spread = graph.node(made[-1])
        spread.specs = tuple(Spec(s.dtype, (DYNAMIC,) * (s.rank or 0)) for s in spread.specs or ())
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

    replace_node(graph, pad, longer)


def _spread_source(graph: Graph, reshape: Node, insertion: core.ZeroInsertion) -> Value | None:
    """Return what is spread, where the nodes in front of `reshape` are the spelling."""
    strides = insertion.strides
    pad = graph.node(graph.inputs_of(reshape.id)[0].node)
    if not isinstance(reshape.op, Reshape) or not isinstance(pad.op, Pad12):
        return None
    data, begin, end, *fill = graph.inputs_of(pad.id)
    unsqueezed = graph.node(data.node)
    if not isinstance(unsqueezed.op, Unsqueeze) or fill or pad.op.pad_mode != "constant":
        return None
    source, axes = graph.inputs_of(unsqueezed.id)
    shape = graph.spec(source).shape
    if shape is None or len(shape) != 2 + len(strides):
        return None
    rows = zip(shape[2:], strides, strict=True)
    if not insertion.trailing and any(s > 1 and bounds(d)[0] == 0 for d, s in rows):
        return None  # of an empty axis the surplus zeros are not what ZeroInsertion leaves out
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
    if not is_static(shape):
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
