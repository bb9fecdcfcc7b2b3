"""Kinds of few axes, and those that stay within limits of devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from rewritings import (
    CROPS,
    GROUPS,
    OPEN,
    PLANE,
    S2,
    SPACE,
    Case,
    Pair,
    Size,
    Value,
    const,
    convolution,
    deconvolution,
    flipped,
    floats,
    layer,
    model,
    pair,
    reshape,
    shape_of,
    size,
    sizes_of,
    times,
    vector,
)

# Kinds that have no tensor of more axes than the data: zeros between elements, interleaving.

LINE_OPEN = Case((2, 4, 5), (2, 2, 3, 4), (3,), (1,), (0,), open_axes=(0, 2))
SPACE_OPEN = Case(
    (2, 2, 3, 4, 2), (1, 2, 3, 2, 3, 4), (2, 3, 2), (0, 1, 2), (1, 0, 1), open_axes=(0, 2, 3, 4)
)
ROWS = Case((2, 4, 3, 4), (2, 2, 3, 3, 1), (2, 1), (1, 0), (0, 0), open_axes=(0, 2, 3))
COLUMNS = Case((2, 4, 3, 4), (2, 2, 3, 1, 3), (1, 3), (0, 1), (0, 0), open_axes=(0, 3))
ONE_ROW = Case((2, 3, 1, 4), (1, 3, 2, 2, 3), (3, 2), (0, 1), (0, 1), open_axes=(0, 3))
ONE = Case((1, 3, 1, 1), (1, 3, 2, 4, 3), (2, 3), open_axes=(0,))
CROPS_OPEN = replace(CROPS, open_axes=(0, 2, 3))
GAPS = Case((2, 4, 3, 4), (2, 2, 3, 1, 2), (2, 3), (0, 0), (-1, -1), open_axes=(0, 2, 3))
FEW_AXES = (S2, PLANE, SPACE, CROPS, LINE_OPEN, SPACE_OPEN, ROWS, COLUMNS, ONE_ROW, ONE, CROPS_OPEN)
ONE_CHANNEL = Case((2, 1, 3, 4), (1, 1, 2, 3, 2), (2, 3), open_axes=(0,))
FEW_AXES = (*FEW_AXES, GAPS, ONE_CHANNEL, OPEN)


def product(*sizes: Size) -> Size:
    """Return a product, whose open factors are multiplied at run time."""
    known = math.prod(n for n in sizes if isinstance(n, int))
    open_ones = [n for n in sizes if not isinstance(n, int)]
    if not open_ones:
        return known
    out = open_ones[0]
    for n in open_ones[1:]:
        out = op.multiply(out, n)
    return out if known == 1 else times(out, known)


def old_pad(x: Value, begin: list[Any], end: list[Any]) -> Value:
    return op.pad(x, vector(*begin), vector(*end), "constant")


def cut(x: Value, begin: list[int], end: list[int]) -> Value:
    """Cut elements off the axes by a StridedSlice, whose end is computed where a size is open."""
    if not any(begin) and not any(end):
        return x
    ends = zip(sizes_of(x), end, strict=True)
    stops = [n - e if isinstance(n, int) else op.subtract(n, const([e])) for n, e in ends]
    none = [0] * len(begin)
    return op.strided_slice(x, vector(*begin), vector(*stops), const([1] * len(begin)), none, none)


def pad_and_cut(x: Value, begin: list[int], end: list[int]) -> Value:
    """Pads of at least 0 by Pad, then crops by StridedSlice."""
    front, back = [[max(v, 0) for v in row] for row in (begin, end)]
    if any(front + back):
        x = old_pad(x, front, back)
    return cut(x, [max(-v, 0) for v in begin], [max(-v, 0) for v in end])


def spread(case: Case, x: Value, zeros: Callable[[Value, int, int], Value]) -> Value:
    """Put zeros behind each element, two axes a step, the innermost first."""
    n, c, *space = sizes_of(x)
    made = list(space)
    axes = [a for a in range(case.rank) if case.strides[a] > 1]
    while axes:
        last = axes.pop()
        pair = [axes.pop(), last] if axes else [last]
        target, start = [], 0
        sizes = [n, c, *made]
        for a in pair:
            target += [product(*sizes[start : 3 + a]), 1]
            start = 3 + a
        if start < len(sizes):
            target.append(product(*sizes[start:]))
        x = reshape(x, *target)
        for i, a in enumerate(pair):
            x = zeros(x, 2 * i + 1, case.strides[a] - 1)
            made[a] = times(made[a], case.strides[a])
    return reshape(x, n, c, *made)


@layer("few axes: Reshape, Pad, Reshape", *FEW_AXES)
def padded(case: Case, x: Value) -> Value:
    def zeros(y: Value, axis: int, count: int) -> Value:
        none = [0] * len(shape_of(y))
        return old_pad(y, none, [count if a == axis else 0 for a in range(len(none))])

    return convolved(case, spread(case, x, zeros))


@layer("few axes: Reshape, Concat with zeros, Reshape", *FEW_AXES)
def joined(case: Case, x: Value) -> Value:
    def zeros(y: Value, axis: int, count: int) -> Value:
        sizes = sizes_of(y)
        sizes[axis] = count
        if all(isinstance(n, int) for n in sizes):
            return op.concat([y, floats(np.zeros(sizes))], axis)
        return op.concat([y, op.broadcast(const(0, np.float32), vector(*sizes))], axis)

    return convolved(case, spread(case, x, zeros))


def convolved(case: Case, x: Value) -> Value:
    """Pad, cut and convolve data between which zeros stand."""
    rows = list(zip(case.reaches, case.edges, case.trailing, strict=True))
    before = [r - b for r, (b, _), _ in rows]
    behind = [r - e - t for r, (_, e), t in rows]
    x = pad_and_cut(x, [0, 0, *before], [0, 0, *behind])
    return convolution(x, flipped(case.weights), [0] * case.rank, [0] * case.rank, case.dilations)


# Interleaving. `y` is [N, (M, *S), *I] or [N, (*S, M), *I].


def grown(case: Case, y: Value, n: Size, space: list[Size]) -> Value:
    """Reshape to [N, M, *(S I)]."""
    return reshape(y, n, case.channels, *map(times, space, case.strides))


def by_steps(case: Case, y: Value, first: bool = False) -> Value:
    """Two Transposes of at most four axes for each axis."""
    (n, _, *space), outputs = sizes_of(y), case.channels
    every = math.prod(case.strides)
    if first:
        y = reshape(y, n, every, outputs, product(*space))
        y = op.transpose(y, const([0, 2, 1, 3]))
    inner: list[Size] = []
    for a in reversed(range(case.rank)):
        s, front = case.strides[a], product(n, outputs, *case.strides[:a])
        if not inner:
            y = reshape(y, front, s, product(*space))
            y = op.transpose(y, const([0, 2, 1]))
        else:
            y = reshape(y, front, s, product(*space[: a + 1]), product(*inner))
            y = op.transpose(y, const([0, 2, 1, 3]))
        inner = [space[a], s, *inner]
    return grown(case, y, n, space)


def at_once(case: Case, y: Value, first: bool = False) -> Value:
    """One Transpose of 1 + 2 * rank axes, or 2 + 2 * rank."""
    (n, _, *space), k = sizes_of(y), case.rank
    if first:
        y = reshape(y, n, *case.strides, case.channels, *space)
        order = [0, k + 1, *(v for a in range(k) for v in (k + 2 + a, 1 + a))]
    else:
        y = reshape(y, product(n, case.channels), *case.strides, *space)
        order = [0, *(v for a in range(k) for v in (k + 1 + a, 1 + a))]
    y = op.transpose(y, const(order))
    return grown(case, y, n, space)


def stacked(case: Case, x: Value, first: bool = False) -> Value:
    """All residues as one convolution, whose outputs are longer than needed."""
    w = flipped(case.weights)[..., *(slice(None, None, -1),) * case.rank]  # [g, M/g, C/g, *K]
    reaches = [-(-(r + 1) // s) for r, s in zip(case.reaches, case.strides, strict=True)]
    g, m, c, *_ = w.shape
    out = np.zeros((g, m, *case.strides, c, *reaches), np.float32)
    for k in np.ndindex(*case.kernel):
        at = [d * i for d, i in zip(case.dilations, k, strict=True)]
        rest = [a % s for a, s in zip(at, case.strides, strict=True)]
        place = [e - 1 - a // s for e, a, s in zip(reaches, at, case.strides, strict=True)]
        out[(slice(None), slice(None), *rest, slice(None), *place)] = w[(..., *k)]
    if first:  # the residues in front of the channels of all groups: one group
        dense = np.zeros((g, m, g, *out.shape[2:]), np.float32)
        dense[range(g), :, range(g)] = out
        k = case.rank
        dense = dense.transpose(*range(3, 3 + k), 0, 1, 2, *range(3 + k, 4 + 2 * k))
        filter = dense.reshape(1, -1, g * c, *reaches)
    else:
        filter = out.reshape(g, -1, c, *reaches)
    pads = [e - 1 for e in reaches]
    return convolution(x, filter, pads, pads)


def cropped(case: Case, y: Value) -> Value:
    """Cut the output out of S * (I + E - 1) elements, E = ceil((D(K-1) + 1) / S)."""
    rows = zip(case.reaches, case.strides, case.edges, strict=True)
    before = [-b for b, _ in case.edges]
    behind = []
    for r, s, (_, e) in rows:
        whole = -(-(r + 1) // s)
        behind.append(-e - (s * (whole - 1) - (r + 1 - s)))
    return pad_and_cut(y, [0, 0, *before], [0, 0, *behind])


for _name, _how in (("Transposes by steps", by_steps), ("one Transpose", at_once)):
    for _first in (False, True):

        def _made(case: Case, x: Value, how: Any = _how, first: bool = _first) -> Value:
            return cropped(case, how(case, stacked(case, x, first), first))

        layer(f"few axes: {_name}, residues {'first' if _first else 'last'}", *FEW_AXES)(_made)


# Interleaving by Concat, the parts being residues in the order of itertools.product.


def zipped(case: Case, parts: list[Value]) -> Value:
    """Interleave [N, M, *I] of all residues, one axis after the other, the innermost first."""
    n, m, *space = sizes_of(parts[0])
    inner: list[Size] = []
    for a in reversed(range(case.rank)):
        s, front = case.strides[a], product(n, m, *space[:a])
        if s > 1:
            shape = [product(front, space[a]), 1, product(*inner)]
            if not inner:
                shape = [front, space[a], 1]
            rows = [reshape(y, *shape) for y in parts]
            at = 1 if inner else 2
            parts = [op.concat(rows[i : i + s], at) for i in range(0, len(rows), s)]
        inner = [times(space[a], s), *inner]
    return reshape(parts[0], n, m, *inner)


@layer("few axes: slices of channels, Concat", *FEW_AXES)
def slices(case: Case, x: Value) -> Value:
    y, count = stacked(case, x), math.prod(case.strides)
    starts = [const([i]) for i in range(count)]
    ends = const([2**31 - 1])
    parts = [op.slice(y, i, ends, const([count]), const([1])) for i in starts]
    return cropped(case, zipped(case, parts))


def phase(case: Case, x: Value, residues: tuple[int, ...]) -> Value | None:
    """One residue's convolution, with the size of the stacked one; None if it has no taps."""
    w = case.weights.swapaxes(1, 2)
    begin, end, dilations = [], [], []
    for a, (s, d, k, r) in enumerate(
        zip(case.strides, case.dilations, case.kernel, case.reaches, strict=True)
    ):
        taps = [t for t in range(k) if d * t % s == residues[a]]
        if not taps:
            return None
        w = w[(slice(None),) * (3 + a) + (taps[::-1],)]
        extent, whole = d * taps[-1] // s, -(-(r + 1) // s)
        dilations.append((d * taps[1] - d * taps[0]) // s if len(taps) > 1 else 1)
        begin.append(extent)
        end.append(whole - 1 - (d * taps[0]) // s)
    return convolution(x, w, begin, end, dilations)


def residues_of(case: Case) -> list[tuple[int, ...]]:
    return list(np.ndindex(*case.strides))


@layer("few axes: a convolution for each residue, Concat", *FEW_AXES)
def phases(case: Case, x: Value) -> Value:
    parts = [phase(case, x, r) for r in residues_of(case)]
    first = next(p for p in parts if p is not None)
    zeros = op.broadcast(const(0, np.float32), vector(*sizes_of(first)))
    return cropped(case, zipped(case, [zeros if p is None else p for p in parts]))


# A bias, which is part of both models.

Biased = Callable[[Case, Value, Any], Value]


def with_bias(name: str, *cases: Case) -> Callable[[Biased], Biased]:
    """Add a kind with a bias behind the original layer."""

    def add(step: Biased) -> Biased:
        def build(source: Case, lowered: Case) -> Pair:
            x, z, bias = source.parameter(), lowered.parameter(), bias_of(source)
            return model([x], op.add(deconvolution(source, x), floats(bias))), model(
                [z], step(lowered, z, bias_of(lowered))
            )

        pair(name, *cases)(build)
        return step

    return add


def bias_of(case: Case) -> Any:
    return (np.arange(case.channels, dtype=np.float32) * 3 - 2).reshape(-1, *(1,) * case.rank)


def tiled(case: Case, bias: Any, first: bool) -> Value:
    """The bias of stacked channels."""
    count = math.prod(case.strides)
    row = bias.reshape(-1)
    row = np.tile(row, count) if first else np.repeat(row, count)
    return floats(row.reshape(1, -1, *(1,) * case.rank))


SHRUNK = tuple(
    c
    for c in FEW_AXES
    if all(b >= 0 for b, _ in c.edges) and c not in (S2, PLANE, SPACE, CROPS, CROPS_OPEN)
)


@with_bias("few axes: a tiled bias, interleaved by Transposes", *SHRUNK)
def biased_steps(case: Case, x: Value, bias: Any) -> Value:
    y = op.add(stacked(case, x), tiled(case, bias, False))
    return cropped(case, by_steps(case, y))


@with_bias("few axes: a tiled bias, residues first, one Transpose", *SHRUNK)
def biased_once(case: Case, x: Value, bias: Any) -> Value:
    y = op.add(stacked(case, x, True), tiled(case, bias, True))
    return cropped(case, at_once(case, y, True))


@with_bias("few axes: a bias in each phase", *SHRUNK)
def biased_phases(case: Case, x: Value, bias: Any) -> Value:
    parts = [phase(case, x, r) for r in residues_of(case)]
    first = next(p for p in parts if p is not None)
    target = vector(*sizes_of(first))
    rows = [
        op.broadcast(floats(bias), target) if p is None else op.add(p, floats(bias[None]))
        for p in parts
    ]
    return cropped(case, zipped(case, rows))


@with_bias("few axes: a bias in each phase, added to zeros", *SHRUNK)
def biased_zeros(case: Case, x: Value, bias: Any) -> Value:
    parts = [phase(case, x, r) for r in residues_of(case)]
    first = next(p for p in parts if p is not None)
    zeros = op.broadcast(const(0, np.float32), vector(*sizes_of(first)))
    rows = [op.add(zeros if p is None else p, floats(bias[None])) for p in parts]
    return cropped(case, zipped(case, rows))


# Kinds that stay within limits of devices: kernels, groups, channels, axes, strides, tiles.

WIDE = Case((2, 4, 3, 4), (2, 2, 3, 5, 4), (2, 3), (1, 2), (2, 0))
WIDE_OPEN = replace(WIDE, open_axes=(0, 2, 3))
ROW = Case((2, 4, 3, 4), (1, 4, 3, 5, 2), (2, 1), (1, 0), (1, 0), open_axes=(0,))
LEGAL = (S2, PLANE, WIDE, SPACE, OPEN, WIDE_OPEN, ROW)


def ready(case: Case, x: Value) -> Value:
    """The data with zeros between elements, padded for a convolution without pads."""

    def zeros(y: Value, axis: int, count: int) -> Value:
        none = [0] * len(shape_of(y))
        return old_pad(y, none, [count if a == axis else 0 for a in range(len(none))])

    return edged(case, spread(case, x, zeros))


def edged(case: Case, x: Value) -> Value:
    """Pad or cut data between which zeros stand, for a convolution without pads."""
    rows = list(zip(case.reaches, case.edges, case.trailing, strict=True))
    before = [r - b for r, (b, _), _ in rows]
    behind = [r - e - t for r, (_, e), t in rows]
    return pad_and_cut(x, [0, 0, *before], [0, 0, *behind])


def plain(x: Value, w: Any, dilations: Any = None) -> Value:
    k = w.ndim - 3
    return convolution(x, w, [0] * k, [0] * k, dilations)


def windows(case: Case, u: Value, taps: list[tuple[int, int]], axis: int = 0) -> list[Value]:
    """For taps first..last of an axis, the window that a convolution with these reads."""
    d, k = case.dilations[axis], case.kernel[axis]
    out = []
    for first, last in taps:
        begin, end = [0] * (case.rank + 2), [0] * (case.rank + 2)
        begin[2 + axis], end[2 + axis] = d * first, d * (k - 1 - last)
        out.append(cut(u, begin, end))
    return out


def halves(case: Case) -> list[tuple[int, int]]:
    k = case.kernel[0]
    m = (k + 1) // 2
    return [(0, m - 1), (m, k - 1)]


@layer("legal: a kernel in parts, added", *LEGAL)
def added(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    parts = halves(case)
    rows = [
        plain(v, np.ascontiguousarray(w[:, :, :, a : b + 1]), case.dilations)
        for v, (a, b) in zip(windows(case, u, parts), parts, strict=True)
    ]
    return op.add(*rows)


@layer("legal: a kernel in parts, as channels", *LEGAL)
def as_channels(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    k, d = case.kernel[0], case.dilations[0]
    m = (k + 1) // 2
    w = np.concatenate([w, np.zeros_like(w[:, :, :, :1])], 3)[:, :, :, : 2 * m]
    short = [0] * (case.rank + 2)
    short[2] = d * (2 * m - k)
    u = old_pad(u, [0] * len(short), short) if any(short) else u
    wider = replace(case, filter=(*case.filter[:3], 2 * m, *case.filter[4:]))
    parts = windows(wider, u, [(0, m - 1), (m, 2 * m - 1)])
    g, c = case.groups, case.filter[1]
    if g > 1:
        n, _, *space = sizes_of(parts[0])
        parts = [reshape(p, product(n, g), c, size(p, 2), product(*sizes_of(p)[3:])) for p in parts]
        y = op.concat(parts, 1)
        y = reshape(y, n, 2 * g * c, *space)
    else:
        y = op.concat(parts, 1)
    filter = np.concatenate([w[:, :, :, :m], w[:, :, :, m:]], 2)
    return plain(y, np.ascontiguousarray(filter), case.dilations)


@layer("legal: each group a convolution", *[c for c in LEGAL if c.groups > 1], GROUPS)
def ungrouped(case: Case, x: Value) -> Value:
    u, w, c = ready(case, x), flipped(case.weights), case.filter[1]
    rows = []
    for i in range(case.groups):
        part = op.slice(u, const([i * c]), const([i * c + c]), const([1]), const([1]))
        rows.append(plain(part, w[i : i + 1], case.dilations))
    return op.concat(rows, 1)


@layer("legal: groups as one block-diagonal filter", *[c for c in LEGAL if c.groups > 1], GROUPS)
def diagonal(case: Case, x: Value) -> Value:
    u, w, g = ready(case, x), flipped(case.weights), case.groups
    dense = np.zeros((g, w.shape[1], g, *w.shape[2:]), np.float32)
    dense[range(g), :, range(g)] = w
    return plain(u, dense.reshape(1, g * w.shape[1], -1, *w.shape[3:]), case.dilations)


@layer("legal: input channels in parts, added", *LEGAL)
def channels_added(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    c = case.filter[1]
    rows = []
    for a in range(c):
        part = op.slice(u, const([a]), const([2**31 - 1]), const([c]), const([1]))
        rows.append(plain(part, np.ascontiguousarray(w[:, :, a : a + 1]), case.dilations))
    y = rows[0]
    for r in rows[1:]:
        y = op.add(y, r)
    return y


@layer("legal: tiles", S2, PLANE, WIDE, ROW)
def tiles(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    axis = case.rank + 1
    length = size(u, axis)
    r, half = case.reaches[-1], (length - case.reaches[-1]) // 2
    rows = []
    for a, b in ((0, half + r), (half, length)):
        part = op.slice(u, const([a]), const([b]), const([1]), const([axis]))
        rows.append(plain(part, w, case.dilations))
    return op.concat(rows, axis)


@layer("legal: resized, times a mask", S2, PLANE, WIDE, ROW)
def masked(case: Case, x: Value) -> Value:
    axes = list(range(2, 2 + case.rank))
    sizes = [size(x, a) * s for a, s in zip(axes, case.strides, strict=True)]
    args = ("nearest", "scales", None, None, "asymmetric", "floor", False, -0.75)
    scales = floats(np.array(case.strides))
    y = op.interpolate(x, scales, *args, const(axes))
    mask = np.zeros((1, 1, *sizes), np.float32)
    mask[(0, 0, *(slice(None, None, s) for s in case.strides))] = 1
    y = op.multiply(y, floats(mask))
    rows = list(zip(case.reaches, case.edges, case.trailing, strict=True))
    before = [r - b for r, (b, _), _ in rows]
    behind = [r - e - t for r, (_, e), t in rows]
    y = pad_and_cut(y, [0, 0, *before], [0, 0, *behind])
    return plain(y, flipped(case.weights), case.dilations)


@layer("legal: one axis as two", S2, LINE_OPEN)
def as_row(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    n, c, length = sizes_of(u)
    y = plain(reshape(u, n, c, 1, length), w[:, :, :, None], (1, *case.dilations))
    sizes = sizes_of(y)
    return reshape(y, *sizes[:2], sizes[3])


@layer("legal: depth as channels", SPACE, SPACE_OPEN)
def flat(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    n, c, depth, height, width = sizes_of(u)
    k, d = case.kernel[0], case.dilations[0]
    u = reshape(u, n, c, depth, product(height, width))
    rows = [cut(u, [0, 0, d * e, 0], [0, 0, d * (k - 1 - e), 0]) for e in range(k)]
    y = op.concat(rows, 1)
    made = size(y, 2)
    y = op.transpose(y, const([0, 2, 1, 3]))
    y = reshape(y, product(n, made), k * c, height, width)
    filter = np.moveaxis(w, 3, 2).reshape(1, w.shape[1], k * c, *w.shape[4:])
    y = plain(y, np.ascontiguousarray(filter), case.dilations[1:])
    (_, m, *space) = sizes_of(y)
    y = op.transpose(reshape(y, n, made, m, product(*space)), const([0, 2, 1, 3]))
    return reshape(y, n, m, made, *space)


# A deconvolution in the place of another one.


@layer("legal: a deconvolution without pads, cut", *LEGAL)
def unpadded(case: Case, x: Value) -> Value:
    y = deconvolution(case.within([0] * case.rank, [0] * case.rank), x)
    front = [0, 0, *(-b for b, _ in case.edges)]
    return pad_and_cut(y, front, [0, 0, *(-e for _, e in case.edges)])


@layer("legal: a deconvolution with zeros in its filter", *LEGAL)
def longer(case: Case, x: Value) -> Value:
    w = np.pad(case.weights, ((0, 0),) * 3 + ((0, 1),) * case.rank)
    wide = replace(case, filter=w.shape, extra=())
    wide = wide.within([0] * case.rank, [0] * case.rank)
    y = deconvolution(wide, x, w)
    front = [0, 0, *(-b for b, _ in case.edges)]
    behind = [-e - d for (_, e), d in zip(case.edges, case.dilations, strict=True)]
    return pad_and_cut(y, front, [0, 0, *behind])


@layer(
    "legal: a deconvolution with a block-diagonal filter",
    *[c for c in LEGAL if c.groups > 1],
    GROUPS,
)
def one_group(case: Case, x: Value) -> Value:
    w, g = case.weights, case.groups
    dense = np.zeros((g, w.shape[1], g, *w.shape[2:]), np.float32)
    dense[range(g), :, range(g)] = w
    dense = dense.reshape(1, g * w.shape[1], -1, *w.shape[3:])
    whole = replace(case, filter=dense.shape).within(*map(list, zip(*case.edges, strict=True)))
    y = deconvolution(whole.within([0] * case.rank, [0] * case.rank), x, dense)
    front = [0, 0, *(-b for b, _ in case.edges)]
    return pad_and_cut(y, front, [0, 0, *(-e for _, e in case.edges)])


# A convolution or deconvolution that only copies, in front of another one.


def unit(case: Case, taps: list[int], length: int) -> Any:
    """A filter [g, n*C/g, C/g, length, 1, ...]: channel (t, c) of a group is c at taps[t]."""
    g, c = case.filter[:2]
    w = np.zeros((g, len(taps), c, c, length), np.float32)
    for i, t in enumerate(taps):
        w[:, i, range(c), range(c), t] = 1
    return w.reshape(g, len(taps) * c, c, length, *(1,) * (case.rank - 1))


def copies_filter(case: Case) -> Any:
    """The data, and the data moved by D along the first axis."""
    return unit(case, [case.dilations[0], 0], case.dilations[0] + 1)


def of_copies(case: Case, x: Value, filter: Any) -> Value:
    """Taps from S on are those from 0 on of the data moved by D."""
    (g, c, m, k, *others), s, d = case.filter, case.strides[0], case.dilations[0]
    ends = [d, *(0 for _ in others)]
    y = convolution(x, filter, ends, ends)
    half = max(s, k - s)
    w = np.zeros((g, 2, c, m, half, *others), np.float32)
    w[:, 0, :, :, : min(k, s)] = case.weights[:, :, :, :s]
    if k > s:
        w[:, 1, :, :, : k - s] = case.weights[:, :, :, s:]
    w = w.reshape(g, 2 * c, m, half, *others)
    begin, end = ([e[i] for e in case.edges] for i in (0, 1))
    end[0] += s * d + d * (half - k)
    pads = [max(v, 0) for v in begin], [max(v, 0) for v in end]
    y = deconvolution(replace(case, filter=w.shape).within(*pads), y, w)
    rest = [
        [p - v for p, v in zip(*row, strict=True)] for row in ((pads[0], begin), (pads[1], end))
    ]
    return pad_and_cut(y, [0, 0, *rest[0]], [0, 0, *rest[1]])


@layer("legal: copies by a convolution, a deconvolution", *LEGAL)
def copied(case: Case, x: Value) -> Value:
    return of_copies(case, x, copies_filter(case))


@layer("legal: windows as channels by a convolution", *LEGAL)
def windowed(case: Case, x: Value) -> Value:
    u, w = ready(case, x), flipped(case.weights)
    (g, m, c, k, *others) = w.shape
    u = plain(u, unit(case, [*range(k)], k), (case.dilations[0], *(1 for _ in others)))
    w = np.moveaxis(w, 3, 2).reshape(g, m, k * c, 1, *others)
    return plain(u, np.ascontiguousarray(w), case.dilations)


@layer("legal: zeros by a deconvolution of one tap", *LEGAL)
def spread_by_one(case: Case, x: Value) -> Value:
    one = unit(case, [0], 1)
    bare = replace(case, filter=one.shape, dilations=(), begin=(), end=(), extra=case.trailing)
    y = deconvolution(replace(bare, moved=0), x, one)
    return plain(edged(case, y), flipped(case.weights), case.dilations)
