"""Kinds that cut a deconvolution by channels, groups, batches or taps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
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
    window,
)
from support.rewritings_zeros import spread_out


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
