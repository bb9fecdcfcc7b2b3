"""Kinds that change what stands around a layer, and that take it apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from rewritings import (
    FEW,
    GROUPS,
    ONES,
    OPEN,
    PLANE,
    S2,
    SPACE,
    STRIDELESS,
    Case,
    Pair,
    Value,
    const,
    convolution,
    correlate,
    deconvolution,
    flipped,
    floats,
    layer,
    model,
    pad,
    pair,
    reshape,
    sizes_of,
    slice_axis,
    spread_out,
    window,
)
from rewritings_sums import FLAT, FLAT_OPEN, WIDE, by_reshape, phases

# Kinds that change what stands around a deconvolution: bias, scales, ranks, pads.

Behind = Callable[[Case, Value], Value]


def bias_of(case: Case) -> Any:
    return (np.arange(case.channels, dtype=np.float32) * 3 - 4).reshape(-1, *[1] * case.rank)


def scales_of(case: Case) -> Any:
    """Powers of two, one per channel."""
    return np.resize([2.0, 0.5, 4.0], case.channels).astype(np.float32).reshape(bias_of(case).shape)


def both(name: str, *cases: Case) -> Any:
    """Add a kind: a function of the case, the data and whether it is the original."""

    def add(step: Callable[[Case, Value, bool], Value]) -> Any:
        def build(source: Case, target: Case) -> Pair:
            x, z = source.parameter(), target.parameter()
            return model([x], step(source, x, True)), model([z], step(target, z, False))

        pair(name, *cases)(build)
        return step

    return add


def scaled_filter(case: Case, scales: Any) -> Any:
    """The filter times a number per output channel."""
    g, _, m = case.filter[:3]
    return case.weights * scales.reshape(g, 1, m, *[1] * case.rank)


# Bias, scales, activations


@both("bias: Subtract of its negative", *FEW)
def subtracted(case: Case, x: Value, original: bool) -> Value:
    bias = bias_of(case)[None]
    if original:
        return op.add(deconvolution(case, x), floats(bias))
    return op.subtract(lowered(case, x), floats(-bias))


@both("bias: Add in another shape, on the other side", *FEW)
def reshaped(case: Case, x: Value, original: bool) -> Value:
    bias = bias_of(case)
    if original:
        return op.relu(op.add(deconvolution(case, x), floats(bias[None])))
    return op.relu(op.add(floats(bias), lowered(case, x)))


@both("bias: a whole tensor", S2, PLANE)
def whole_bias(case: Case, x: Value, original: bool) -> Value:
    if original:
        return op.add(deconvolution(case, x), floats(bias_of(case)[None]))
    y = lowered(case, x)
    return op.add(y, floats(np.broadcast_to(bias_of(case), sizes_of(y))))


@both("bias: folded in front of a scale", *FEW)
def bias_before_scale(case: Case, x: Value, original: bool) -> Value:
    bias, scales = bias_of(case), scales_of(case)
    if original:
        return op.multiply(op.add(deconvolution(case, x), floats(bias)), floats(scales))
    y = lowered(case, x, scaled_filter(case, scales))
    return op.add(y, floats(bias * scales))


@both("bias: added to every phase", WIDE, FLAT, FLAT_OPEN)
def phase_bias(case: Case, x: Value, original: bool) -> Value:
    if original:
        return op.add(deconvolution(case, x), floats(bias_of(case)))
    parts, trailing = phases(case, x)
    joined = by_reshape(case, {r: op.add(y, floats(bias_of(case))) for r, y in parts})
    return window(case, joined, trailing)


INNER = Case((2, 3, 4), (1, 3, 2, 5), (3,), (2,), (1,))
INNER_OPEN = Case((1, 3, 3, 2), (1, 3, 2, 3, 4), (2, 2), (1, 1), (1, 1), open_axes=(0, 2, 3))


@both("activation: ReLU on every phase", INNER, INNER_OPEN)
def phase_relu(case: Case, x: Value, original: bool) -> Value:
    if original:
        return op.relu(deconvolution(case, x))
    parts, trailing = phases(case, x)
    return window(case, by_reshape(case, {r: op.relu(y) for r, y in parts}), trailing)


@both("scale: behind, folded into the filter", *FEW)
def scale_behind(case: Case, x: Value, original: bool) -> Value:
    if original:
        return op.multiply(deconvolution(case, x), floats(scales_of(case)))
    return lowered(case, x, scaled_filter(case, scales_of(case)))


@both("scale: in front, folded into the filter", *FEW)
def scale_before(case: Case, x: Value, original: bool) -> Value:
    if original:
        return deconvolution(case, op.multiply(x, const(0.25, np.float32)))
    return lowered(case, x, case.weights * np.float32(0.25))


@both("scale: taken out of the filter", *FEW)
def scale_out(case: Case, x: Value, original: bool) -> Value:
    if original:
        return deconvolution(case, x)
    y = lowered(case, x, scaled_filter(case, scales_of(case)))
    return op.divide(y, floats(scales_of(case)))


@both("scale: taken out, in front of the convolution", *FEW)
def scale_out_before(case: Case, x: Value, original: bool) -> Value:
    if original:
        return deconvolution(case, x)
    return lowered(case, op.multiply(x, const(0.5, np.float32)), case.weights * np.float32(2))


@both("scale: BatchNormInference folded", S2, PLANE)
def batch_norm(case: Case, x: Value, original: bool) -> Value:
    """Variance 1/4 without epsilon: exactly a factor of 2."""
    count = case.channels
    gamma = np.arange(1, count + 1, dtype=np.float32)
    beta, mean = gamma - 3, 2 * gamma
    if original:
        parts = [floats(v) for v in (gamma, beta, mean, np.full(count, 0.25))]
        return op.batch_norm_inference(deconvolution(case, x), *parts, 0.0)
    shape = bias_of(case).shape
    y = lowered(case, x, scaled_filter(case, 2 * gamma))
    return op.add(y, floats((beta - 2 * gamma * mean).reshape(shape)))


# Ranks and axes


@layer("rank: a 3D convolution on unsqueezed data", *[c for c in FEW if c.rank == 2], PLANE)
def as_space(case: Case, x: Value) -> Value:
    return raised(case, x)


def raised(case: Case, x: Value) -> Value:
    """Convolve with one axis more, of size 1, in front of the others."""
    y = op.unsqueeze(spread_out(case, x), const([2]))
    before = [0, *(r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True))]
    sums = zip(case.reaches, case.edges, case.strides, strict=True)
    behind = [0, *(r - e - s + 1 for r, (_, e), s in sums)]
    y = pad(y, [0, 0, *before], [0, 0, *behind])
    none = [0] * (case.rank + 1)
    weights = np.expand_dims(flipped(case.weights), 3)
    return op.squeeze(convolution(y, weights, none, none, (1, *case.dilations)), const([2]))


@layer("rank: a 2D convolution on unsqueezed data", S2, WIDE)
def as_plane(case: Case, x: Value) -> Value:
    return raised(case, x)


ROWS = Case((2, 3, 4, 3), (1, 3, 2, 1, 4), (1, 2), (0, 1), (0, 2))
ROWS_OPEN = replace(ROWS, open_axes=(0, 2, 3))


@layer("rank: K = 1 along an axis, moved into the batch", ROWS, ROWS_OPEN)
def as_line(case: Case, x: Value) -> Value:
    y = op.transpose(x, const([0, 2, 1, 3]))
    n, h, c, w = sizes_of(y)
    lines = op.reshape(y, const([-1, c, w]) if isinstance(w, int) else joined(-1, c, w), False)
    inner = replace(case, data=(1, c, 1), filter=(*case.filter[:3], case.kernel[1]))
    fields = {k: getattr(case, k)[1:] for k in ("strides", "begin", "end", "dilations", "extra")}
    inner = replace(inner, **fields, open_axes=(), moved=0)
    if case.moved:
        inner = replace(inner, begin=(inner.begin[0] + 1,), end=(inner.end[0] - 1,))
    y = lowered(inner, lines)
    y = reshape(y, n, h, case.channels, sizes_of(y)[2])
    return op.transpose(y, const([0, 2, 1, 3]))


def joined(*sizes: Any) -> Value:
    return op.concat([const([s]) if isinstance(s, int) else s for s in sizes], 0)


@layer("axes: exchanged before and behind", PLANE, OPEN)
def exchanged(case: Case, x: Value) -> Value:
    order = const([0, 1, 3, 2])
    swap = {k: getattr(case, k)[::-1] for k in ("strides", "begin", "end", "dilations", "extra")}
    mirrored = replace(case, **swap, filter=(*case.filter[:3], *case.kernel[::-1]), moved=0)
    if case.moved:
        begin, end = mirrored.begin, mirrored.end
        mirrored = replace(mirrored, begin=(begin[0], begin[1] + 1), end=(end[0], end[1] - 1))
    y = lowered(mirrored, op.transpose(x, order), case.weights.swapaxes(-1, -2))
    return op.transpose(y, order)


# Stride 1, pads and sizes

ODD = Case((2, 3, 4, 5), (1, 3, 2, 3, 5), (1, 1), (1, 2), (1, 2))
ODD_OPEN = Case((2, 4, 4, 5), (2, 2, 3, 3, 2), (1, 1), (1, 1), (1, 0), open_axes=(0, 2, 3))


@layer("pads: stride 1 with auto_pad", ODD, ODD_OPEN)
def automatic(case: Case, x: Value) -> Value:
    mode = "valid" if case.moved else "same_upper"
    if case.moved:  # a near miss
        x = pad(
            x,
            [0, 0, *(r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True))],
            [0, 0, *(r - e for r, (_, e) in zip(case.reaches, case.edges, strict=True))],
        )
    ones, none = [1] * case.rank, [0] * case.rank
    weights = flipped(case.weights)
    if case.groups == 1:
        return op.convolution(x, floats(weights[0]), ones, none, none, ones, mode)
    return op.group_convolution(x, floats(weights), ones, none, none, ones, mode)


@layer("pads: stride 1 with pads of its own and auto_pad valid", ONES)
def valid(case: Case, x: Value) -> Value:
    before = [r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True)]
    behind = [r - e for r, (_, e) in zip(case.reaches, case.edges, strict=True)]
    x = pad(x, [0, 0, *before], [0, 0, *behind])
    ones, none = [1] * case.rank, [9] * case.rank  # pads that auto_pad overrules
    return op.convolution(x, floats(flipped(case.weights)[0]), ones, none, none, ones, "valid")


@both("sizes: output_shape in the original", S2, PLANE)
def sized(case: Case, x: Value, original: bool) -> Value:
    """Half of what is too much, rounded up, is cut off in front, the rest behind."""
    full = [
        s * (i - 1) + r + 1
        for s, i, r in zip(case.strides, case.data[2:], case.reaches, strict=True)
    ]
    more = [3, 2][: case.rank]
    wanted = [f - m for f, m in zip(full, more, strict=True)]
    if original:
        make, weights = op.group_convolution_backprop_data, case.weights
        if case.groups == 1:
            make, weights = op.convolution_backprop_data, case.weights[0]
        shape, dilations = const(wanted), list(case.dilations)
        return make(
            x,
            floats(weights),
            list(case.strides),
            shape,
            dilations=dilations,
            auto_pad="same_upper",
        )
    begin = [m - m // 2 for m in more]
    end = [m - b for m, b in zip(more, begin, strict=True)]
    moved = case.within(begin, end)
    return lowered(replace(moved, moved=case.moved), x)


# Kinds that cut a deconvolution by channels, groups, batches or taps.


def lowered(case: Case, x: Value, weights: Any = None) -> Value:
    """Spread the data by zeros and convolve with a filter [g, C/g, M/g, *K]."""
    weights = case.weights if weights is None else weights
    return correlate(case, spread_out(case, x), case.trailing, flipped(weights))


def summed(parts: Any) -> Value:
    first, *rest = parts
    for part in rest:
        first = op.add(first, part)
    return first


# Channels, groups, batches

EVEN = Case((2, 4, 3, 2), (1, 4, 3, 3, 2), (2, 2), (1, 0), (0, 1))


@layer("channels: Split of the input, convolutions, Add", EVEN, GROUPS)
def split_inputs(case: Case, x: Value) -> Value:
    g, c = case.filter[:2]
    n, _, *sizes = sizes_of(x)
    halves = op.split(reshape(x, n, g, c, *sizes), const(2), 2).outputs()
    inputs = [reshape(half, n, g * c // 2, *sizes) for half in halves]
    filters = np.split(case.weights, 2, 1)
    return summed(lowered(case, y, w) for y, w in zip(inputs, filters, strict=True))


@layer("channels: VariadicSplit of the input, Add", *FEW)
def split_unevenly(case: Case, x: Value) -> Value:
    if case.groups > 1:
        weights, parts = case.weights, []
        for group, y in enumerate(op.split(x, const(1), case.groups).outputs()):
            parts.append(halves(case, y, weights[group : group + 1]))
        return op.concat(parts, 1)
    return halves(case, x, case.weights)


def halves(case: Case, x: Value, weights: Any) -> Value:
    parts = op.variadic_split(x, const(1), const([1, -1])).outputs()
    return op.add(lowered(case, parts[1], weights[:, 1:]), lowered(case, parts[0], weights[:, :1]))


@layer("channels: convolutions for parts of the output, Concat", S2, SPACE, OPEN)
def split_outputs(case: Case, x: Value) -> Value:
    spread = spread_out(case, x)
    parts = np.split(case.weights, case.filter[2], 2)
    return op.concat([correlate(case, spread, case.trailing, flipped(w)) for w in parts], 1)


@layer("groups: a convolution for each, Concat", PLANE, GROUPS)
def ungrouped(case: Case, x: Value) -> Value:
    parts = op.split(x, const(1), case.groups).outputs()
    weights = np.split(case.weights, case.groups, 0)
    return op.concat([lowered(case, y, w) for y, w in zip(parts, weights, strict=True)], 1)


@layer("groups: one convolution with zeros in the filter", PLANE, GROUPS)
def block_diagonal(case: Case, x: Value) -> Value:
    g, c, m = case.filter[:3]
    weights = np.zeros((1, g * c, g * m, *case.kernel), np.float32)
    for i in range(g):
        weights[0, i * c : i * c + c, i * m : i * m + m] = case.weights[i]
    return lowered(case, x, weights)


@layer("groups: the batch as groups", S2, PLANE)
def batch_as_groups(case: Case, x: Value) -> Value:
    n, c, *sizes = sizes_of(x)
    weights = np.concatenate([case.weights] * n)
    y = lowered(case, reshape(x, 1, n * c, *sizes), weights)
    return reshape(y, n, case.channels, *sizes_of(y)[2:])


@layer("channels: gathered in another order", *FEW)
def permuted(case: Case, x: Value) -> Value:
    c, m = case.filter[1:3]
    order, outer = np.arange(c)[::-1], np.roll(np.arange(m), 1)
    groups = np.arange(case.groups)[:, None]
    x = op.gather(x, const((groups * c + order).ravel()), const(1))
    y = lowered(case, x, case.weights[:, order][:, :, outer])
    back = (groups * m + np.argsort(outer)).ravel()
    return op.gather(y, const(back), const(1))


SINGLE = Case((2, 3, 4), (3, 1, 1, 1), (1,))
SINGLES = Case((1, 2, 3, 4), (2, 1, 1, 1, 1), (2, 1), (0, 1), (1, 0), open_axes=(0, 2, 3))


@layer("taps: K = 1 in depth as Multiply", SINGLE, SINGLES)
def scaled(case: Case, x: Value) -> Value:
    factors = case.weights.reshape(1, -1, *[1] * case.rank)
    return window(case, spread_out(case, op.multiply(x, floats(factors))), case.trailing)


# Taps


def taps(case: Case) -> Any:
    return itertools.product(*map(range, case.kernel))


@layer("taps: a 1x1 convolution each, spread, padded, added up", *FEW)
def tap_by_tap(case: Case, x: Value) -> Value:
    parts = []
    for tap in taps(case):
        weights = case.weights[(..., *tap)].reshape(*case.filter[:3], *[1] * case.rank)
        none = [0] * case.rank
        y = spread_out(case, convolution(x, flipped(weights), none, none))
        before = [k * d for k, d in zip(tap, case.dilations, strict=True)]
        behind = [r - b for r, b in zip(case.reaches, before, strict=True)]
        parts.append(pad(y, [0, 0, *before], [0, 0, *behind]))
    return window(case, summed(parts), case.trailing)


def cut(case: Case, padded: Value, tap: Any) -> Value:
    """Of data with reach zeros on all sides: what one tap meets."""
    for axis, (k, d, r) in enumerate(zip(tap, case.dilations, case.reaches, strict=True), 2):
        stop = -k * d if k else 2**31 - 1
        padded = slice_axis(padded, axis, r - k * d, stop)
    return padded


def surrounded(case: Case, x: Value) -> Value:
    return pad(spread_out(case, x), [0, 0, *case.reaches], [0, 0, *case.reaches])


@layer("taps: slices of padded data, 1x1 convolutions, Add", *STRIDELESS, S2)
def slice_by_slice(case: Case, x: Value) -> Value:
    whole, parts, none = surrounded(case, x), [], [0] * case.rank
    for tap in taps(case):
        weights = case.weights[(..., *tap)].reshape(*case.filter[:3], *[1] * case.rank)
        parts.append(convolution(cut(case, whole, tap), flipped(weights), none, none))
    return window(case, summed(parts), case.trailing)


@layer("taps: im2col by Concat of slices, one 1x1 convolution", ONES, S2)
def im2col(case: Case, x: Value) -> Value:
    whole = surrounded(case, x)
    rows = op.concat([cut(case, whole, tap) for tap in taps(case)], 1)
    weights = case.weights[0].reshape(*case.filter[1:3], -1)
    weights = weights.transpose(1, 2, 0).reshape(1, case.channels, -1, *[1] * case.rank)
    none = [0] * case.rank
    return window(case, convolution(rows, weights, none, none), case.trailing)


@layer("taps: slices times numbers, added up", replace(ONES, filter=(3, 1, 1, 3, 2)))
def numbers(case: Case, x: Value) -> Value:
    whole = surrounded(case, x)
    parts = []
    for tap in taps(case):
        factors = case.weights[(..., *tap)].reshape(1, -1, *[1] * case.rank)
        parts.append(op.multiply(floats(factors), cut(case, whole, tap)))
    return window(case, summed(parts), case.trailing)


def separable(case: Case) -> tuple[Any, Any]:
    """Two factors [g, 1, 1, K0, 1] and [g, 1, 1, 1, K1]."""
    g, _, _, high, wide = case.filter
    first = np.arange(1, g * high + 1, dtype=np.float32).reshape(g, 1, 1, high, 1)
    second = np.arange(2, g * wide + 2, dtype=np.float32).reshape(g, 1, 1, 1, wide)
    if case.changed:
        first.flat[-1] += 1
    return first, second


@pair(
    "taps: a separable filter as two convolutions",
    Case((1, 2, 3, 4), (2, 1, 1, 3, 2), (2, 1), (1, 0), (0, 1)),
)
def two_convolutions(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    first, second = separable(source)
    whole = deconvolution(source, x, floats(first * second))
    first, second = separable(target)
    none = (0,) * target.rank
    y = spread_out(target, z)
    rows = replace(target, filter=(2, 1, 1, 3, 1), dilations=(1, 1)).within(none, none)
    y = correlate(rows, y, (0, 0), flipped(first))
    lines = replace(target, filter=(2, 1, 1, 1, 2)).within(none, none)
    y = correlate(lines, y, target.trailing, flipped(second))
    return model([x], whole), model([z], window(target, y))


# Dilation


@layer(
    "dilation: SpaceToBatch, convolution, BatchToSpace",
    Case((2, 3, 4, 5), (1, 3, 2, 3, 2), (1, 1), (1, 2), (3, 1), (2, 3)),
)
def by_batches(case: Case, x: Value) -> Value:
    """Pad to multiples of the dilation, convolve each residue by itself, undo."""
    before, behind, crop = [], [], []
    for n, reach, (begin, end), d in zip(
        case.data[2:], case.reaches, case.edges, case.dilations, strict=True
    ):
        total = n + 2 * reach - begin - end
        more = -total % d
        before.append(reach - begin)
        behind.append(reach - end + more)
        crop.append(more)
    ones = [1, 1, *case.dilations]
    y = op.space_to_batch(x, const(ones), const([0, 0, *before]), const([0, 0, *behind]))
    none = [0] * case.rank
    y = convolution(y, flipped(case.weights), none, none)
    return op.batch_to_space(y, const(ones), const([0, 0, *none]), const([0, 0, *crop]))


@layer(
    "dilation: SpaceToDepth, groups, DepthToSpace",
    Case((2, 3, 4, 6), (1, 3, 2, 3, 2), (1, 1), (0, 0), (0, 0), (2, 2)),
)
def by_depth(case: Case, x: Value) -> Value:
    """Residues become groups; the sizes are even before and behind."""
    d = case.dilations[0]
    blocks = d**case.rank
    y = pad(x, [0, 0, *case.reaches], [0, 0, *case.reaches])
    y = op.space_to_depth(y, "blocks_first", d)
    weights = np.concatenate([case.weights] * blocks)
    none = [0] * case.rank
    y = convolution(y, flipped(weights), none, none)
    return window(case, op.depth_to_space(y, "blocks_first", d))
