"""Kinds that have no tensor of more axes than the data: zeros between elements, interleaving."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
    CROPS,
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
    sizes_of,
    times,
    vector,
)

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
FEW_AXES = (*FEW_AXES, GAPS, OPEN)


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
