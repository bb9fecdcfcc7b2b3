"""The deconvolution that a target has: layers are brought into the shape that it takes.

The form applies to targets that list ConvolutionBackpropData. Pads become a crop or
output_padding, groups a block-diagonal filter, dilations and sizes of kernels zeros in the filter;
a kernel beyond a limit is split into parts that start at multiples of the stride, each of which
reads the data shifted by whole elements.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.geometry import IntVector, extent
from irdeconv.ir.spec import is_static
from irdeconv.ops import core
from irdeconv.ops.dialect_openvino import backprop_data
from irdeconv.ops.movement import Concat
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.vectors import sizes, vector
from irdeconv.rewrite import layer_rules
from irdeconv.rewrite.builder import Skip
from irdeconv.rewrite.convolving import AXIS_0, ConvolutionLayer, convolution_facts, convolve
from irdeconv.rewrite.emit import (
    DeconvolutionInputs,
    FormBuilder,
    Option,
    RuleCall,
    X,
    add_bias,
    crop,
    reshaped,
)
from irdeconv.rewrite.target_conditions import Facts

Ints = tuple[int, ...]
MOST_NATIVE_PARTS, LARGEST_PART = 16, 40  # of a kernel; taps of a part
OPERATIONS = ("ConvolutionBackpropData", "GroupConvolutionBackpropData")


@dataclass(frozen=True)
class DeconvolutionLayer(Generic[X]):
    """A deconvolution of data x (N, C, *I) with a filter w (g, C/g, M/g, *K) and a bias.

    The output is the scatter without its first `begin` and last `end` elements per axis; negative
    numbers extend it by zeros. `stage` is that of the last rule that made it.
    """

    x: X
    w: X
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints
    bias: X | None = None
    stage: int = 0


def native(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X | Skip:
    """core.Deconvolution -> a deconvolution that the target has, and crops."""
    pads = vector(b, of.pads_begin), vector(b, of.pads_end)
    if not is_static(b.spec(of.w).shape) or not all(isinstance(p, IntVector) for p in pads):
        return Skip("the filter's shape or the pads are known only at run time")
    begin, end = (p.values for p in pads if isinstance(p, IntVector))
    layer = DeconvolutionLayer(of.x, of.w, op.strides, op.dilations, begin, end, of.bias)
    return deconvolve(b, _without_joined_zeros(b, layer))


def _without_joined_zeros(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> DeconvolutionLayer[X]:
    """Let zeros in the kernel take the place of zeros that join the output."""
    less = [max(-p, 0) for p in layer.begin]
    more = [max(-p - s + 1, 0) for p, s in zip(layer.end, layer.strides, strict=True)]
    if not any((*less, *more)):
        return layer
    ones = (1,) * len(less)
    w = layer_rules.spread_taps(b, layer.w, layer.dilations)
    for a, (front, back) in enumerate(zip(less, more, strict=True)):
        w = layer_rules.padded_axis(b, w, 3 + a, back, front)
    begin = tuple(p + n for p, n in zip(layer.begin, less, strict=True))
    end = tuple(p + n for p, n in zip(layer.end, more, strict=True))
    return replace(layer, w=w, dilations=ones, begin=begin, end=end)


def deconvolve(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Emit a deconvolution, or what a rule makes of it if the target cannot run it."""
    return b.attempt(layer, partial(_plain, b, layer))


def _plain(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Emit a deconvolution by its own pads, or with a larger output that is cropped."""
    windows = list(_windows(layer.strides, _extents(b, layer), layer.begin, layer.end))
    return b.choose([Option("pads", partial(_emit, b, layer, *w)) for w in windows])


def _extents(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> Ints:
    shape = b.spec(layer.w).shape
    assert is_static(shape)
    return tuple(extent(k, d) for k, d in zip(shape[3:], layer.dilations, strict=True))


def _windows(
    strides: Ints, extents: Ints, begin: Ints, end: Ints
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield pads_begin, pads_end, output_padding of outputs that contain the wanted one."""
    axes = range(len(strides))
    for more in range(max(strides)):
        padding = tuple(max(min(more, s - 1), -q) for s, q in zip(strides, end, strict=True))
        last = tuple(q + p for q, p in zip(end, padding, strict=True))
        yield begin, last, padding
    rest = tuple(max(-q, 0) for q in end)
    yield (0,) * len(begin), (0,) * len(begin), rest
    total = [max(e - s, 0) for e, s in zip(extents, strides, strict=True)]
    same = tuple(min(begin[a], total[a] // 2) for a in axes)
    yield same, tuple(total[a] - same[a] for a in axes), (0,) * len(begin)


def _emit(
    b: FormBuilder[X], layer: DeconvolutionLayer[X], begin: Ints, end: Ints, padding: Ints
) -> X:
    """Add the operation; raise OpError unless its output contains that of the layer."""
    shape = b.spec(layer.w).shape
    assert is_static(shape)
    front = [p - q for p, q in zip(layer.begin, begin, strict=True)]
    back = [p - (q - m) for p, q, m in zip(layer.end, end, padding, strict=True)]
    if min(*front, *back, *begin) < 0:  # ONNX has no negative pads
        raise OpError("the output would be too small", code="E400")
    w = layer.w if shape[0] > 1 else b.add(Squeeze1(), layer.w, b.const(AXIS_0))
    op = backprop_data(shape[0])(layer.strides, begin, end, layer.dilations, "explicit", padding)
    y = b.add(op, layer.x, w)
    return crop(b, add_bias(b, y, layer.bias), [0, 0, *front], [0, 0, *back])


def as_plane(b: FormBuilder[X], layer: DeconvolutionLayer[X], place: int) -> X:
    """1-D -> 2-D: (N, C, 1, W) with a kernel 1xK, or at place 1 (N, C, W, 1)."""

    def wide(values: Sequence[int], default: int) -> Ints:
        return (default, *values) if place == 0 else (*values, default)

    shape = b.spec(layer.w).shape
    assert is_static(shape)
    n, c, w = (sizes(b, layer.x, a, 1) for a in range(3))
    one = IntVector((1,))
    made = DeconvolutionLayer(
        x=reshaped(b, layer.x, n, c, *((one, w) if place == 0 else (w, one))),
        w=reshaped(b, layer.w, IntVector((*shape[:3], *wide(shape[3:], 1)))),
        strides=wide(layer.strides, 1),
        dilations=wide(layer.dilations, 1),
        begin=wide(layer.begin, 0),
        end=wide(layer.end, 0),
        bias=layer_rules.bias_of(b, layer.bias, 2),
        stage=1,
    )
    y = deconvolve(b, made)
    return reshaped(b, y, *(sizes(b, y, a, 1) for a in (0, 1, 3 - place)))


def dense(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Groups -> one group with a block-diagonal filter."""
    return deconvolve(b, replace(layer, w=layer_rules.block_diagonal(b, layer.w), stage=2))


def group_by_group(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Groups -> a deconvolution for each, concatenated."""
    shape = b.spec(layer.w).shape
    assert is_static(shape)
    g, c, m = shape[:3]

    def group(i: int) -> X:
        bias = None if layer.bias is None else layer_rules.window(b, layer.bias, 1, i * m, m)
        x, w = layer_rules.window(b, layer.x, 1, i * c, c), layer_rules.window(b, layer.w, 0, i, 1)
        return deconvolve(b, replace(layer, x=x, w=w, bias=bias, stage=2))

    key = (id(layer), "group")
    return b.add(Concat(1), *(b.repeat(key, partial(group, i)) for i in range(g)))


def undilated(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Dilation -> zeros between the taps of the filter."""
    w, ones = layer_rules.spread_taps(b, layer.w, layer.dilations), (1,) * len(layer.strides)
    return deconvolve(b, replace(layer, w=w, dilations=ones, stage=3))


def stride_in_steps(b: FormBuilder[X], layer: DeconvolutionLayer[X], first: Ints) -> X:
    """A stride -> zeros inserted by a deconvolution with one tap, and the rest of the stride."""
    ones, zero = (1,) * len(first), (0,) * len(first)
    channels = layer_rules.size_of(b, layer.x, 1)
    dtype = b.spec(layer.x).dtype
    copy = b.const(np.ones((channels, 1, 1, *ones), dtype.container if dtype else np.float32))
    ways = (copy, layer_rules.block_diagonal(b, copy))
    steps = (DeconvolutionLayer(layer.x, w, first, ones, zero, zero, stage=4) for w in ways)
    x = b.choose([Option("copy", partial(deconvolve, b, step)) for step in steps])
    rest = tuple(s // f for s, f in zip(layer.strides, first, strict=True))
    return deconvolve(b, _without_joined_zeros(b, replace(layer, x=x, strides=rest, stage=4)))


def filled_kernel(b: FormBuilder[X], layer: DeconvolutionLayer[X], kernel: Ints, front: Ints) -> X:
    """A kernel -> a larger one with `front` zeros in front and others behind."""
    w, have = layer.w, (b.spec(layer.w).shape or ())[3:]
    begin, end = list(layer.begin), list(layer.end)
    for a, (k, n, f) in enumerate(zip(have, kernel, front, strict=True)):
        assert isinstance(k, int)
        w = layer_rules.padded_axis(b, w, 3 + a, n - k - f, f)
        begin[a] += layer.dilations[a] * f
        end[a] += layer.dilations[a] * (n - k - f)
    made = replace(layer, w=w, begin=tuple(begin), end=tuple(end), stage=5)
    return deconvolve(b, made)


def _part_count(kernel: Ints, part: Ints) -> int:
    return math.prod(-(-k // n) for k, n in zip(kernel, part, strict=True))


@dataclass(frozen=True)
class _AxisParts:
    """The parts of a kernel along one axis: the shift of the data of each, and its taps.

    `taps[part][place]` is a tap of the kernel, or K for a zero. The parts read the data from place
    `low` of the shifted data to `high`.
    """

    shifts: Ints
    taps: tuple[Ints, ...]
    low: int
    high: int


def _axis_parts(k: int, n: int, stride: int, size: int, begin: int, end: int) -> _AxisParts:
    """Cover k taps by parts of n that start at multiples of the stride."""
    shifts, taps, tap = [], [], 0
    while tap < k:
        start = tap // stride * stride
        stop = min(start + n, k)
        if stop <= tap:
            raise OpError("the parts of the kernel are shorter than the stride", code="E400")
        taps.append(tuple(t if tap <= t < stop else k for t in range(start, start + n)))
        shifts.append(start // stride)
        tap = stop
    outputs = stride * (size - 1) + k - begin - end
    used = [
        s
        for shift, row in zip(shifts, taps, strict=True)
        for place, t in enumerate(row)
        if t < k
        for s in (
            max(shift, -((place - begin) // stride)),
            min(shift + size - 1, (begin + outputs - 1 - place) // stride),
        )
    ]
    return _AxisParts(tuple(shifts), tuple(taps), min(used), max(used))


def kernel_in_parts(
    b: FormBuilder[X], layer: DeconvolutionLayer[X], part: Ints, by_convolution: bool
) -> X:
    """A kernel -> parts: shifted copies of the data as channels of one deconvolution.

    Copies are made by crops, pads and a Concat, or by a convolution with one tap in each channel.
    """
    shape = b.spec(layer.w).shape
    assert is_static(shape)
    rows = zip(shape[3:], part, layer.strides, layer.begin, layer.end, strict=True)
    axes = [
        _axis_parts(k, n, s, layer_rules.size_of(b, layer.x, 2 + a), p, q)
        for a, (k, n, s, p, q) in enumerate(rows)
    ]
    x = (_shifted_by_convolution if by_convolution else _shifted)(b, layer.x, axes)
    w = layer_rules.taken_taps(b, layer.w, [a.taps for a in axes])
    begin, end = list(layer.begin), list(layer.end)
    for a, axis in enumerate(axes):
        size = layer_rules.size_of(b, layer.x, 2 + a)
        begin[a] -= axis.low * layer.strides[a]
        grown = axis.high - size + 1
        end[a] += layer.strides[a] * grown + part[a] - shape[3 + a]
    return deconvolve(b, replace(layer, x=x, w=w, begin=tuple(begin), end=tuple(end), stage=5))


def _shifted(b: FormBuilder[X], x: X, axes: Sequence[_AxisParts]) -> X:
    size = [layer_rules.size_of(b, x, 2 + a) for a in range(len(axes))]
    copies = []
    for shift in itertools.product(*(a.shifts for a in axes)):
        begin = [q - a.low for q, a in zip(shift, axes, strict=True)]
        rows = zip(shift, axes, size, strict=True)
        copies.append(layer_rules.outside(b, x, begin, [a.high - q - n + 1 for q, a, n in rows]))
    return b.add(Concat(1), *copies)


def _shifted_by_convolution(b: FormBuilder[X], x: X, axes: Sequence[_AxisParts]) -> X:
    channels, n = layer_rules.size_of(b, x, 1), len(axes)
    kernel = tuple(a.shifts[-1] + 1 for a in axes)
    shifts = list(itertools.product(*(a.shifts for a in axes)))
    dtype = b.spec(x).dtype
    taps = np.zeros((len(shifts), channels, channels, *kernel), dtype.container if dtype else "f4")
    for i, shift in enumerate(shifts):
        place = tuple(a.shifts[-1] - q for a, q in zip(axes, shift, strict=True))
        at: Any = (i, slice(None), slice(None), *place)
        taps[at] = np.eye(channels)
    w = b.const(taps.reshape(1, len(shifts) * channels, channels, *kernel))
    begin = IntVector(tuple(a.shifts[-1] - a.low for a in axes))
    size = (layer_rules.size_of(b, x, 2 + a) for a in range(n))
    end = IntVector(tuple(a.high - s + 1 for a, s in zip(axes, size, strict=True)))
    return convolve(b, ConvolutionLayer(x, w, (1,) * n, (1,) * n, begin, end))


def proposals(b: Any, layer: DeconvolutionLayer[Any]) -> list[RuleCall]:
    """Return the rules that may help a deconvolution that violates conditions."""
    shape = b.spec(layer.w).shape
    assert is_static(shape)
    judge = partial(_failures, b, layer, shape)
    texts = [t for w in _plain_windows(b, layer) for t in judge(window=w)]
    texts += judge(dense=True)
    words = set(re.findall(r"[A-Za-z_]+", " ".join(texts)))
    words |= {w[:-2] for w in words if w[-2:] in ("_d", "_h", "_w")}
    calls: list[RuleCall] = []
    if layer.stage < 1 and len(layer.strides) == 1 and words & {"spatial_axes", "rank", "max_rank"}:
        calls += [RuleCall(as_plane, (place,)) for place in (0, 1)]
    grouped = {"groups", "depthwise", "multiplier", OPERATIONS[1]}
    if layer.stage < 2 and shape[0] > 1 and words & grouped:
        calls += [RuleCall(dense), RuleCall(group_by_group)]
    if layer.stage < 3 and max(layer.dilations) > 1 and "dilation" in words:
        calls.append(RuleCall(undilated))
    if layer.stage <= 4 and "stride" in words:
        calls += _steps(layer, judge)
    if layer.stage < 5 and words & {
        "kernel",
        "pad",
        "pad_begin",
        "pad_end",
        "output_padding",
        "size",
    }:
        calls += _kernels(layer, shape, judge)
    return calls


def _plain_windows(b: Any, layer: DeconvolutionLayer[Any]) -> list[tuple[Ints, Ints, Ints]]:
    return list(_windows(layer.strides, _extents(b, layer), layer.begin, layer.end))


def _failures(b: Any, layer: DeconvolutionLayer[Any], shape: Ints, **changes: Any) -> list[str]:
    """Return the violated conditions of the layer with other numbers."""
    begin, end, padding = changes.get("window", ((0,) * len(layer.strides),) * 3)
    size = b.spec(layer.x).shape or ()
    known = tuple(n if isinstance(n, int) else None for n in size)
    lists = {
        "stride": changes.get("strides", layer.strides),
        "dilation": layer.dilations,
        "pad_begin": begin,
        "pad_end": end,
        "output_padding": padding,
        "size": known[2:],
    }
    g, c, m, *kernel = shape
    if changes.get("dense"):
        g, c, m = 1, g * c, g * m
    filter = (g, m, c, *changes.get("kernel", kernel))
    values, axes = convolution_facts((), filter, True, lists, True, layer.bias is not None)
    spec = b.spec(layer.x)
    dtype = spec.dtype.name if spec.dtype else None
    common = {"rank": len(size), "batch": known[0] if known else None, "type": dtype}
    found: list[str] = b.target.failures(OPERATIONS[g > 1], Facts({**common, **values}, axes))
    return found


def _steps(layer: DeconvolutionLayer[Any], judge: Any) -> Iterator[RuleCall]:
    now = len(judge())
    options = itertools.product(
        *([d for d in range(1, s + 1) if s % d == 0] for s in layer.strides)
    )
    for first in options:
        if max(first) > 1 and first != layer.strides and len(judge(strides=first)) < now:
            yield RuleCall(stride_in_steps, (first,))
            return


def _kernels(layer: DeconvolutionLayer[Any], shape: Ints, judge: Any) -> Iterator[RuleCall]:
    """Kernels filled with zeros in front or behind, or split into parts."""
    kernel, now = shape[3:], len(judge())
    ranges = [sorted({*range(k, k + 5), *kernel} - {*range(k)}) for k in kernel]
    counted = [(len(judge(kernel=k)), math.prod(k), k) for k in itertools.product(*ranges)]
    wider = [k for count, _, k in sorted(counted) if count <= now and k != kernel][:3]
    rows = zip(kernel, layer.end, layer.dilations, strict=True)
    whole = tuple(k - min(q, 0) // d for k, q, d in rows)  # zeros for the output padding
    if whole != kernel and whole not in wider:
        wider.append(whole)
    for n in wider:
        yield RuleCall(filled_kernel, (n, (0,) * len(n)))
        fronts = tuple(a - k for a, k in zip(n, kernel, strict=True))
        yield RuleCall(filled_kernel, (n, fronts))
    if max(layer.dilations) > 1:
        return
    below = (range(min(k, LARGEST_PART), 0, -1) for k in kernel)
    few = (n for n in itertools.product(*below) if _part_count(kernel, n) <= MOST_NATIVE_PARTS)
    sized = (n for n in few if len(judge(kernel=n)) < now)
    for n in itertools.islice(sized, 2):
        for by_convolution in (False, True):
            yield RuleCall(kernel_in_parts, (n, by_convolution))
