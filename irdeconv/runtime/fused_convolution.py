"""A convolution fused with what stands in front of it: zero-insertion and pads.

A convolution of stride 1 behind ZeroInsertion and Pad is a deconvolution; a Pad alone becomes pads
of the convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.shared.problem import ConvProblem, reversed_filter
from irdeconv.ops.binding import shape_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import Deconvolution, ZeroInsertion
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.strided import StridedSlice
from irdeconv.spec import Array, Spec, is_static

AXES = range(1, 4)  # spatial axes that the kernels know


class Readers(Protocol):
    """Tells who reads a value."""

    def only(self, value: Value) -> int | None:
        """Return the single reader."""


@dataclass(frozen=True)
class FusedConvolution:
    """A convolution or deconvolution and the nodes that it stands for, producers first.

    `reversed` says that `filter` is the one of the convolution in a zero-insertion form.
    """

    nodes: tuple[Node, ...]
    deconvolution: bool
    problem: ConvProblem
    data: Value
    filter: Value
    reversed: bool = False

    def arrange(self, filter: Array) -> Array:
        """Return a constant filter as the kernels want it."""
        w, rank = filter, self.problem.rank
        if w.ndim != rank + 3:
            w = w.reshape(self.problem.groups, -1, *w.shape[1:])
        if self.reversed:
            w = reversed_filter(w)
        return w


def fuse_convolution(
    graph: Graph, node: Node, constants: Mapping[Value, Array], readers: Readers
) -> FusedConvolution | None:
    """Return the layer that ends in a convolution or core.Deconvolution; None where sizes are open.

    Also None for layers without elements, which need no kernel.
    """
    specs = (*graph.input_specs(node.id), node.spec())
    if not all(is_static(s.shape) and 0 not in s.shape for s in specs):
        return None
    if isinstance(node.op, Deconvolution):
        return _direct(graph, node, specs, constants)
    assert isinstance(node.op, ConvolutionBase)
    plain = _convolution(graph, node, node.op, specs)
    return None if plain is None else _with_pads(graph, plain, constants, readers)


def _direct(
    graph: Graph, node: Node, specs: tuple[Spec, ...], constants: Mapping[Value, Array]
) -> FusedConvolution | None:
    data, filter, begin, _ = graph.inputs_of(node.id)
    x, w, y = shape_of(specs[0]), shape_of(specs[1]), shape_of(specs[-1])
    op = node.op
    assert isinstance(op, Deconvolution)
    if begin not in constants:
        return None
    pads = tuple(int(v) for v in constants[begin])
    problem = op.problem(x, w, pads, y[2:], _type_name(specs[0]))
    if problem.rank not in AXES:
        return None
    return FusedConvolution(
        nodes=(node,), deconvolution=True, problem=problem, data=data, filter=filter
    )


def _convolution(
    graph: Graph, node: Node, op: ConvolutionBase, specs: tuple[Spec, ...]
) -> FusedConvolution | None:
    data, filter = graph.inputs_of(node.id)
    x, w, y = shape_of(specs[0]), shape_of(specs[1]), shape_of(specs[-1])
    if len(x) - 2 not in AXES:
        return None
    problem = op.problem(x, w, y[2:], _type_name(specs[0]))
    return FusedConvolution(
        nodes=(node,), deconvolution=False, problem=problem, data=data, filter=filter
    )


def _type_name(spec: Spec) -> str:
    return str(spec.dtype.container) if spec.dtype is not None else ""


def _with_pads(
    graph: Graph, layer: FusedConvolution, constants: Mapping[Value, Array], readers: Readers
) -> FusedConvolution:
    """Take in Pads and crops, and a ZeroInsertion in front of them."""
    while pads := _pad_in_front(graph, layer, constants, readers):
        pad, begin, end = pads
        outer = layer.problem.begin
        if not all(_combines(*row) for row in zip(begin, end, outer, _reach(layer), strict=True)):
            break
        data = graph.inputs_of(pad.id)[0]
        total = tuple(b + o for b, o in zip(begin, outer, strict=True))
        problem = replace(layer.problem, shape=shape_of(graph.spec(data)), begin=total)
        layer = replace(layer, nodes=(pad, *layer.nodes), problem=problem, data=data)
    return _as_deconvolution(graph, layer, readers) or layer


def _reach(layer: FusedConvolution) -> list[int]:
    """Return per axis how far behind the data's end the windows read."""
    w = layer.problem
    rows = zip(w.sizes, w.strides, w.dilations, w.kernel, w.begin, w.shape[2:], strict=True)
    return [(o - 1) * s + d * (k - 1) + 1 - b - i for o, s, d, k, b, i in rows]


def _combines(begin: int, end: int, outer: int, reach: int) -> bool:
    """Whether padding and then reading beyond the end is reading one zero-extended signal.

    It is not where the Pad cut off what the convolution's own pads would show again.
    """
    return not (begin < 0 < outer) and not (end < 0 < reach)


def _pad_in_front(
    graph: Graph, layer: FusedConvolution, constants: Mapping[Value, Array], readers: Readers
) -> tuple[Node, tuple[int, ...], tuple[int, ...]] | None:
    """Return a Pad with zeros or a crop of spatial axes that only this layer reads, its amounts."""
    pad = graph.node(layer.data.node)
    if readers.only(layer.data) is None:
        return None
    amounts = _amounts(graph, pad, constants)
    shape = None if amounts is None else graph.spec(graph.inputs_of(pad.id)[0]).shape
    if amounts is None or not is_static(shape) or 0 in shape:
        return None
    begin, end = amounts
    if any(begin[:2]) or any(end[:2]) or len(begin) != len(shape):
        return None
    return pad, begin[2:], end[2:]


def _amounts(
    graph: Graph, pad: Node, constants: Mapping[Value, Array]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return by how much a Pad with zeros extends each axis, or a StridedSlice crops it."""
    data, *others = graph.inputs_of(pad.id) or (None,)
    if data is None or any(v not in constants for v in others):
        return None
    lists = [constants[v].reshape(-1).tolist() for v in others]
    if isinstance(pad.op, Pad1 | Pad12):
        zero = not any(v != 0 for value in lists[2:] for v in value)
        return (
            (tuple(lists[0]), tuple(lists[1])) if zero and pad.op.pad_mode == "constant" else None
        )
    if not isinstance(pad.op, StridedSlice) or any(s != 1 for v in lists[2:] for s in v):
        return None
    op, size, left = pad.op, graph.spec(data).shape, pad.spec().shape
    odd = (*op.new_axis_mask, *op.shrink_axis_mask, *op.ellipsis_mask)
    if not is_static(size) or not is_static(left) or any(odd):
        return None
    rows = zip(lists[0], size, (*op.begin_mask, *(0,) * len(size)), strict=False)
    begin = [0 if m else min(b + n if b < 0 else b, n) for b, n, m in rows]
    begin += [0] * (len(size) - len(begin))
    end = (n - b - o for n, b, o in zip(size, begin, left, strict=True))
    return tuple(-b for b in begin), tuple(-e for e in end)


def _as_deconvolution(
    graph: Graph, layer: FusedConvolution, readers: Readers
) -> FusedConvolution | None:
    insertion = graph.node(layer.data.node)
    w = layer.problem
    if not isinstance(insertion.op, ZeroInsertion) or any(s != 1 for s in w.strides):
        return None
    if readers.only(layer.data) is None:
        return None
    data = graph.inputs_of(insertion.id)[0]
    shape = graph.spec(data).shape
    if not is_static(shape) or 0 in shape:
        return None
    reach = (d * (k - 1) for d, k in zip(w.dilations, w.kernel, strict=True))
    begin = tuple(r - b for r, b in zip(reach, w.begin, strict=True))
    problem = replace(w, shape=shape, strides=insertion.op.strides, begin=begin)
    return FusedConvolution(
        nodes=(insertion, *layer.nodes),
        deconvolution=True,
        problem=problem,
        data=data,
        filter=layer.filter,
        reversed=True,
    )
