"""Kinds that stay within limits of devices: kernels, groups, channels, axes, strides, tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
    GROUPS,
    OPEN,
    PLANE,
    S2,
    SPACE,
    Case,
    Value,
    const,
    convolution,
    deconvolution,
    flipped,
    floats,
    layer,
    reshape,
    shape_of,
    size,
    sizes_of,
)
from support.rewritings_few import (
    LINE_OPEN,
    SPACE_OPEN,
    cut,
    old_pad,
    pad_and_cut,
    product,
    spread,
)

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
