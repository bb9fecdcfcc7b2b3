"""Standard operations only: how irdeconv's own operations are spelled for writing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from irdeconv import garbage, geometry_conv
from irdeconv.dialects.openvino import (
    BackpropData,
    ConvolutionBackpropData,
    GroupConvolutionBackpropData,
)
from irdeconv.dtypes import i64
from irdeconv.errors import Collector, OpError, UnsupportedError
from irdeconv.geometry import IntVector
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Builder, SugarOp
from irdeconv.ops import core
from irdeconv.ops.activation import ReLU
from irdeconv.ops.bodies import change_bodies
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.elementwise import Maximum, Multiply, Subtract
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze1
from irdeconv.ops.strided import StridedSlice
from irdeconv.ops.vectors import vector
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.emit import X, pad_spatial
from irdeconv.passes.infer_specs import fill_specs, inferred
from irdeconv.passes.recognise import mark
from irdeconv.passes.rewrite import expand, remove_dead, replace_node, unique_names
from irdeconv.passes.spreading import spell_zero_insertion
from irdeconv.passes.stored import constant
from irdeconv.spec import is_static


@garbage.paused()
def standardize(graph: Graph) -> Graph:
    """Return an inferred copy of a graph in operations that OpenVINO knows, computing the same.

    Raises UnsupportedError with every operation that has no such spelling, InferenceError where
    the graph does not fit together.
    """
    out, problems = inferred(graph), Collector()
    _standardize_graph(out, problems)
    if problems.errors:
        raise UnsupportedError(problems.diagnostics)
    fill_specs(out)
    return out


def _standardize_graph(out: Graph, problems: Collector) -> Graph:
    """Spell a graph in standard operations in place, and its bodies; returns it."""
    change_bodies(out, lambda body: _standardize_graph(body.copy(), problems))
    dead = {n.id for n in out.nodes()} - out.live()
    for node in out.topological():
        if node.id not in out or not _needs(node):
            continue
        try:
            _standardize(out, node)
        except OpError as e:
            problems.add(
                "E402",
                f'{node.type} "{node.name}" cannot be written in standard operations: {e}',
                location=node.location,
                layer=node.name,
            )
    for node in list(out.nodes("Pad")):
        if node.origins and isinstance(node.op, Pad12) and _pads_at_run_time(out, node):
            _split_pad(out, node)
    for node in list(out.nodes("GroupConvolution")):
        if node.origins:
            _scale_by_output(out, node)
    remove_dead(out, dead)
    unique_names(out)
    return out


def _scale_by_output(graph: Graph, node: Node) -> None:
    """Repeat a scale [g, 1, ...] of a stored filter for each output channel of the groups.

    OpenVINO's int8 pipeline compiles no grouped convolution with several outputs and one scale a
    group (runtime_faults.py).
    """
    filter = graph.node(graph.inputs_of(node.id)[1].node)
    shape = filter.spec().shape
    if not isinstance(filter.op, Multiply) or not is_static(shape) or shape[1] == 1:
        return
    for port, value in enumerate(graph.inputs_of(filter.id)):
        scale = constant(graph, value)
        if scale is not None and scale.shape == (shape[0], *(1,) * (len(shape) - 1)):
            b = GraphBuilder(graph, node)
            wide = np.broadcast_to(scale, (*shape[:2], *scale.shape[2:]))
            graph.set_input(filter.id, port, b.const(wide, graph.spec(value).dtype))


def _needs(node: Node) -> bool:
    op = node.op
    if isinstance(op, BackpropData):
        return op.semantics == "document"
    if isinstance(op, ConvolutionBase) and op.unrestricted:
        return True
    return not op.standard


def _standardize(graph: Graph, node: Node) -> None:
    op = node.op
    if isinstance(op, core.ZeroInsertion):
        _zero_insertion(graph, node, op)
    elif isinstance(op, core.Deconvolution):
        replace_node(graph, node, _deconvolution)
    elif isinstance(op, ConvolutionBase):
        rank = graph.spec(graph.inputs_of(node.id)[0]).rank or 0
        if rank > 5:
            raise OpError(f"OpenVINO convolves 1 to 3 spatial axes, not {rank - 2}")
        replace_node(graph, node, _empty_convolution)
    elif isinstance(op, SugarOp):
        change = replace_node(graph, node, expand)
        for made in map(graph.node, change.made):
            if made.id in graph and _needs(made):
                _standardize(graph, made)
    else:
        raise OpError("no spelling is defined")


def _zero_insertion(graph: Graph, node: Node, op: core.ZeroInsertion) -> None:
    """Spell zero-insertion; the last Reshape is marked, so that reading recognises it."""
    change = replace_node(graph, node, spell_zero_insertion)
    if change.skipped:
        raise OpError(change.skipped)
    last = [n for n in map(graph.node, change.made) if isinstance(n.op, Reshape)][-1]
    last.rt_info = mark(op.strides)


def _pads_at_run_time(graph: Graph, pad: Node) -> bool:
    """Whether the amounts of a Pad with zeros are known only at run time."""
    amounts = graph.inputs_of(pad.id)[1:]
    return len(amounts) == 2 and any(graph.spec(v).known is None for v in amounts)


def _split_pad(graph: Graph, node: Node) -> None:
    """Pad first and crop afterwards: by amounts computed at run time.

    One Pad that crops more than the tensor has and pads at the other end corrupts the heap of
    OpenVINO's CPU plugin. If computed pads have a lower but no upper bound, OpenVINO infers that
    they never crop, and fails if they do; it follows no bounds through ReLU.
    """

    def build(op: Pad12, b: GraphBuilder, x: Value, begin: Value, end: Value, *_: Value) -> Value:
        zero = b.const(np.zeros(1, np.int64))
        padded = b.add(Pad1("constant"), x, *(b.add(Maximum(), v, zero) for v in (begin, end)))
        first = b.add(ReLU(), b.add(Subtract(), zero, begin))
        surplus = b.add(ReLU(), b.add(Subtract(), zero, end))
        last = b.add(Subtract(), b.add(ShapeOf(i64), padded), surplus)
        steps = b.const(np.ones(b.spec(x).rank or 0, np.int64))
        masks = ((0,) * (b.spec(x).rank or 0),) * 2
        return b.add(StridedSlice(*masks), padded, first, last, steps)

    replace_node(graph, node, build)


def _empty_convolution(op: ConvolutionBase, b: GraphBuilder, x: Value, w: Value) -> Value:
    """Spell a convolution in which no window fits: one that just fits, its only output cut off."""
    data, taps = (b.spec(x).shape or ())[2:], (b.spec(w).shape or ())[2 + op.grouped :]
    out = (op.infer(b.spec(x), b.spec(w)).shape or ())[2:]
    lack, surplus = [0] * len(out), [0] * len(out)
    for axis, (o, i, k) in enumerate(zip(out, data, taps, strict=False)):  # a rank may be unknown
        if o == 0 and isinstance(i, int) and isinstance(k, int):
            own = op.pads_begin[axis] + op.pads_end[axis]
            lack[axis], surplus[axis] = geometry_conv.extent(k, op.dilations[axis]) - i - own, -1
    none = IntVector((0,) * len(out))
    padded = pad_spatial(b, x, none, IntVector(tuple(lack)))
    y = b.add(replace(op, unrestricted=False), padded, w)
    return pad_spatial(b, y, none, IntVector(tuple(surplus)))


def _deconvolution(
    op: core.Deconvolution, b: Builder[X], x: X, w: X, pads_begin: X, pads_end: X
) -> X:
    """Spell the canonical deconvolution: pads that only cut off natively, others by a Pad."""
    axes = len(op.strides)
    begin, end = vector(b, pads_begin), vector(b, pads_end)
    native = [(0,) * axes, (0,) * axes]
    pads = [v.values for v in (begin, end) if isinstance(v, IntVector)]
    # With a negative pad beside it, cutting natively may leave less than nothing.
    if len(pads) == 2 and min(itertools.chain(*pads)) >= 0:
        native = pads
    lists = (op.strides, native[0], native[1], op.dilations)
    zeros = (0,) * axes
    shape = b.spec(w).shape
    if shape is not None and shape[0] == 1:
        squeezed = b.add(Squeeze1(), w, b.const(np.array([0], np.int64)))
        y = b.add(ConvolutionBackpropData(*lists, "explicit", zeros), x, squeezed)
    else:
        y = b.add(GroupConvolutionBackpropData(*lists, "explicit", zeros), x, w)
    zero = IntVector((0,) * axes)
    return pad_spatial(
        b, y, zero - (begin - IntVector(native[0])), zero - (end - IntVector(native[1]))
    )
