"""Convolutions of a lowered graph, and their facts for targets.

A convolution of a lowered graph: its pads and its bias, and the rules that make it legal.

The facts of an operation that a plan emits, for the conditions of a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic

import numpy as np

from irdeconv.ir.geometry import IntVector, Vector, extent, filled
from irdeconv.ir.op import Op
from irdeconv.ir.spec import DYNAMIC, Dim, Shape, Spec, bounds, ints, is_static
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convolution import Convolution, ConvolutionBase, GroupConvolution
from irdeconv.ops.dialect_openvino import BackpropData
from irdeconv.ops.image import Interpolate4
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import PadBase
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.slicing import StridedSlice
from irdeconv.rewrite.emit import (
    FormBuilder,
    Option,
    X,
    add_bias,
    crop,
    needs,
    pad_spatial,
    zeros_beside,
)
from irdeconv.rewrite.target_conditions import Facts

Ints = tuple[int, ...]
AXIS_0 = np.array([0], np.int64)


@dataclass(frozen=True)
class ConvolutionLayer(Generic[X]):
    """A convolution of data x (N, C, *I) with a filter w (g, M/g, C/g, *K) and a bias.

    The pads `begin` and `end` have one number per spatial axis; negative ones crop. The bias
    [1, M, 1, ...] is added directly behind. `pads_apart` says that pads should be a Pad in front.
    `spared` says that two outputs of the last axis are not used. `stage` is that of the last rule
    that made it.
    """

    x: X
    w: X
    strides: Ints
    dilations: Ints
    begin: Vector
    end: Vector
    bias: X | None = None
    pads_apart: bool = False
    spared: bool = False
    stage: int = 0
    forward: ClassVar[bool] = True  # the filter has the outputs in front of the inputs

    def known_pads(self) -> tuple[Ints, Ints]:
        """Return the pads; they must be known."""
        assert isinstance(self.begin, IntVector)
        assert isinstance(self.end, IntVector)
        return self.begin.values, self.end.values

    @property
    def has_known_pads(self) -> bool:
        """Whether the pads are known."""
        return isinstance(self.begin, IntVector) and isinstance(self.end, IntVector)

    def padded(
        self, begin: Sequence[int], end: Sequence[int], **changes: Any
    ) -> ConvolutionLayer[X]:
        """Return the layer with other pads and other changes."""
        pads: dict[str, Any] = {"begin": IntVector(tuple(begin)), "end": IntVector(tuple(end))}
        return replace(self, **pads, **changes)

    def emit(self, b: FormBuilder[X]) -> X:
        """Emit it, or what a rule makes of it if the target cannot run it."""
        return convolve(b, self)


def convolve(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    """Emit a convolution, or what a rule makes of it if the target cannot run it."""
    return b.attempt(layer, partial(plain_convolution, b, layer))


def plain_convolution(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    """Emit a convolution with its own pads, or behind a Pad, or behind a Concat with zeros."""
    if _may_have_one_output(b, layer):
        axes = len(layer.strides)  # so two more outputs than wanted, which are cut off
        more = IntVector((*(0,) * (axes - 1), 2 * layer.strides[-1]))
        y = plain_convolution(b, replace(layer, end=layer.end + more, spared=True))
        return crop(b, y, (0,) * (axes + 2), (*(0,) * (axes + 1), 2))
    own = Option("own pads", partial(_with_own_pads, b, layer))
    if not layer.has_known_pads:
        return _behind_pads(b, layer, pad_spatial)
    needed = any(p > 0 for p in sum(layer.known_pads(), ()))
    apart = Option("Pad", partial(_behind_pads, b, layer, pad_spatial), needs("Pad"))
    joins = Option("Concat", partial(_behind_pads, b, layer, pad_by_concat), needs("Concat"))
    others = [joins] if needed and is_static(b.spec(layer.x).shape) else []
    crops = any(p < 0 for p in sum(layer.known_pads(), ()))
    first = layer.pads_apart and not b.style.own_pads and not crops
    options = [apart, own] if first else [own, apart]
    return b.choose([*options, *others] if needed else [apart])


def _with_own_pads(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    begin, end = layer.known_pads()
    shape = b.spec(layer.x).shape or (DYNAMIC,) * (len(begin) + 2)
    rows = zip(shape[2:], begin, end, strict=True)
    apart = [min(p, q) < 0 < max(p, q) and bounds(n)[0] <= -min(p, q) for n, p, q in rows]
    # A crop may reach into the pad of the other end only if that one is written in front. OpenVINO
    # leaves outputs unwritten if nothing but pads is left.
    outside = [
        IntVector(tuple(p if a else min(p, 0) for a, p in zip(apart, v, strict=True)))
        for v in (begin, end)
    ]
    x = pad_spatial(b, layer.x, outside[0], outside[1])
    own = [
        tuple(0 if a else max(p, 0) for a, p in zip(apart, v, strict=True)) for v in (begin, end)
    ]
    return add_bias(b, emit_convolution(b, x, layer, own[0], own[1]), layer.bias)


def _behind_pads(b: FormBuilder[X], layer: ConvolutionLayer[X], pad: Callable[..., X]) -> X:
    x, zero = pad(b, layer.x, layer.begin, layer.end), (0,) * len(layer.strides)
    return add_bias(b, emit_convolution(b, x, layer, zero, zero), layer.bias)


def pad_by_concat(b: FormBuilder[X], x: X, begin: IntVector, end: IntVector) -> X:
    """Pad the spatial axes by Concats with zeros; negative amounts crop, after the padding."""
    for axis, pads in enumerate(zip(begin.values, end.values, strict=True), 2):
        front, back = ([zeros_beside(b, x, axis, p)] if p > 0 else [] for p in pads)
        if front or back:
            x = b.add(Concat(axis), *front, x, *back)
    amounts = ([0, 0, *(max(-p, 0) for p in v.values)] for v in (begin, end))
    return crop(b, x, *amounts)


def emit_convolution(
    b: FormBuilder[X], x: X, layer: ConvolutionLayer[X], begin: Ints, end: Ints
) -> X:
    """Add the convolution of x with the layer's filter: a plain one for one group."""
    w, shape, size = layer.w, b.spec(layer.w).shape, b.spec(x).shape
    axes, strides = len(layer.strides), layer.strides
    if (rest := _beyond_one_output(layer, shape, size, begin[-1] + end[-1])) is not None:
        # Of one channel, oneDNN (OpenVINO 2026.4.1) reads other elements with a stride there.
        cut = max(rest - end[-1], 0)
        x, strides = crop(b, x, (0,) * (axes + 2), (*(0,) * (axes + 1), cut)), (*strides[:-1], 1)
        end = (*end[:-1], end[-1] - rest + cut)
    # An output of size 0 and a fourth spatial axis are legal in the source layer.
    beyond = axes > 3 or _may_be_empty(size, shape, layer.dilations, (begin, end))
    grouped = shape is None or shape[0] != 1
    w = w if grouped else b.add(Squeeze1(), w, b.const(AXIS_0))
    operation = GroupConvolution if grouped else Convolution
    op = operation(strides, begin, end, layer.dilations, "explicit", beyond)
    return b.add(op, x, w)


def _beyond_one_output(
    layer: ConvolutionLayer[X], filter: Shape | None, size: Shape | None, pads: int
) -> int | None:
    """Return how many elements a stride leaves behind the only output of the last axis.

    None: that is not known, there are more outputs, no stride, or several input channels.
    """
    if filter is None or size is None or (filter[0], filter[2]) != (1, 1):
        return None
    if not isinstance(size[-1], int) or not isinstance(filter[-1], int):
        return None
    rest = size[-1] + pads - extent(filter[-1], layer.dilations[-1])
    return rest if 0 <= rest < layer.strides[-1] != 1 else None


def _may_have_one_output(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> bool:
    """Whether a convolution of one channel may meet the fault of `emit_convolution` at some size.

    A last axis of known size is left to that function.
    """
    size, filter = b.spec(layer.x).shape, b.spec(layer.w).shape
    strided = len(layer.strides) > 1 and layer.strides[-1] > 1
    if layer.spared or not strided or filter is None or (filter[0], filter[2]) != (1, 1):
        return False
    return size is None or not (isinstance(size[-1], int) and isinstance(filter[-1], int))


def _may_be_empty(
    size: Shape | None, filter: Shape | None, dilations: Ints, pads: tuple[Ints, Ints]
) -> bool:
    """Whether a filter (g, M/g, C/g, *K) may not fit into padded data (N, C, *I)."""
    if size is None or filter is None:
        return True
    rows = zip(size[2:], filter[3:], dilations, *pads, strict=True)
    for i, k, d, p, q in rows:
        most = bounds(k)[1]
        if most is None or bounds(i)[0] + p + q < extent(most, d):
            return True
    return False


Axes = Mapping[str, tuple[int | None, ...]]


def operation_of(op: Op) -> str:
    """Return the name of an operation in a target's file."""
    return "Slice" if op.type == "StridedSlice" else op.type


def facts_of(op: Op, inputs: Sequence[Spec], output: Spec, constants: Sequence[bool]) -> Facts:
    """Return what a condition may ask of an operation that is applied to these inputs."""
    data = next((s for s, c in zip(inputs, constants, strict=True) if not c), inputs[0])
    shape = data.shape or ()
    moving = [s for s, c in zip(inputs, constants, strict=True) if not c] + [output]
    values: dict[str, Any] = {
        "rank": max(s.rank or 0 for s in moving),
        "batch": _known(shape[0]) if shape else 1,
        "channels": _known(shape[1]) if len(shape) > 1 else 1,
        "type": data.dtype.name if data.dtype else None,
    }
    axes: dict[str, tuple[int | None, ...]] = {"size": tuple(map(_known, shape[2:]))}
    more, by_axis = _own(op, inputs, output, constants)
    return Facts({**values, **more}, {**axes, **by_axis})


def convolution_facts(
    data: Shape, filter: Shape, grouped: bool, lists: Axes, constant: bool, bias: bool = False
) -> tuple[dict[str, Any], Axes]:
    """Return the facts of a convolution with a filter [M, C, *K] or [g, M/g, C/g, *K]."""
    groups = filter[0] if grouped else 1
    rest = filter[grouped:]
    outputs, inputs = _times(groups, rest[0]), _times(groups, rest[1])
    values = {
        "spatial_axes": len(rest) - 2,
        "inputs": inputs,
        "outputs": outputs,
        "groups": _known(groups),
        "depthwise": None if inputs is None else groups == inputs and inputs > 1,
        "multiplier": _known(rest[0]),
        "constant_filter": constant,
        "has_bias": bias,
    }
    return values, {"kernel": tuple(map(_known, rest[2:])), **lists}


def _of_convolution(
    op: ConvolutionBase | BackpropData, inputs: Sequence[Spec], axes: int, constant: bool
) -> tuple[dict[str, Any], Axes]:
    """Return the facts of a convolution or deconvolution of so many spatial axes."""
    lists = {
        "stride": filled(op.strides, axes, 1),
        "dilation": filled(op.dilations, axes, 1),
        "pad_begin": filled(op.pads_begin, axes, 0),
        "pad_end": filled(op.pads_end, axes, 0),
    }
    x, w = (s.shape or () for s in inputs[:2])
    if isinstance(op, ConvolutionBase):
        return convolution_facts(x, w, bool(op.grouped), lists, constant)
    g = op.group_count is None
    swapped = (*w[:g], w[g + 1], w[g], *w[g + 2 :])
    lists["output_padding"] = filled(op.output_padding, axes, 0)
    return convolution_facts(x, swapped, g, lists, constant)


def _own(
    op: Op, inputs: Sequence[Spec], output: Spec, constants: Sequence[bool]
) -> tuple[dict[str, Any], Axes]:
    """Return the facts that only some operations have."""
    if isinstance(op, ConvolutionBase | BackpropData):
        return _of_convolution(op, inputs, (output.rank or 2) - 2, constants[1])
    if isinstance(op, PadBase):
        begin, end = (ints(s) or (None,) * (output.rank or 0) for s in inputs[1:3])
        return {"mode": op.pad_mode, "value": 0}, {"amount_begin": begin, "amount_end": end}
    if isinstance(op, StridedSlice):
        return _slicing(op, inputs, output), {}
    if isinstance(op, Concat):
        channels = tuple(_known(s.shape[1]) if s.shape and len(s.shape) > 1 else 1 for s in inputs)
        return {"axis": op.axis, "parts": len(inputs), "channels": channels}, {}
    if isinstance(op, Transpose):
        return {"order": ints(inputs[1])}, {}
    if isinstance(op, DepthToSpace):
        return {"block": op.block_size, "mode": op.mode}, {}
    if isinstance(op, Interpolate4):
        rows = zip((inputs[0].shape or ())[2:], (output.shape or ())[2:], strict=True)
        return {"mode": op.mode}, {"scale": tuple(_ratio(i, o) for i, o in rows)}
    return {}, {}


def _slicing(op: StridedSlice, inputs: Sequence[Spec], output: Spec) -> dict[str, Any]:
    """Return the axes that a slice does not take as a whole, and their steps."""
    sizes = list(zip(inputs[0].shape or (), output.shape or (), strict=True))
    step = ints(inputs[3]) or (1,) * len(sizes)
    masks = zip(op.begin_mask, op.end_mask, strict=True)
    whole = [s == 1 and all(m) for s, m in zip(step, masks, strict=True)]
    same = [_known(i) is not None and i == o for i, o in sizes]
    axis = tuple(a for a in range(len(sizes)) if not (whole[a] or (same[a] and step[a] == 1)))
    return {"axis": axis, "step": tuple(step[a] for a in axis)}


def _known(d: Dim) -> int | None:
    return d if isinstance(d, int) else None


def _times(*factors: Dim) -> int | None:
    known = [d for d in factors if isinstance(d, int)]
    return math.prod(known) if len(known) == len(factors) else None


def _ratio(before: Dim, after: Dim) -> int | None:
    sizes = _known(before), _known(after)
    return sizes[1] // sizes[0] if sizes[0] and sizes[1] is not None else None
