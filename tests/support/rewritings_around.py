"""Kinds that change what stands around a deconvolution: bias, scales, ranks, pads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
    FEW,
    ONES,
    OPEN,
    PLANE,
    S2,
    Case,
    Pair,
    Value,
    const,
    convolution,
    deconvolution,
    flipped,
    floats,
    layer,
    model,
    pad,
    pair,
    reshape,
    sizes_of,
    window,
)
from support.rewritings_parts import lowered
from support.rewritings_sums import FLAT, FLAT_OPEN, WIDE, by_reshape, phases
from support.rewritings_zeros import spread_out

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
