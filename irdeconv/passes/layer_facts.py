"""The facts of an operation that a plan emits, for the conditions of a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from irdeconv.dialects.openvino import BackpropData
from irdeconv.geometry import filled
from irdeconv.op import Op
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.interpolate import Interpolate4
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import PadBase
from irdeconv.ops.strided import StridedSlice
from irdeconv.spec import Dim, Shape, Spec, ints
from irdeconv.targets.conditions import Facts

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
