"""Kinds that sum up parts: products of matrices, phases, taps, channels, groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
    TILED,
    Case,
    Value,
    const,
    convolution,
    flipped,
    floats,
    layer,
    pad,
    rank_of,
    reshape,
    size,
    sizes_of,
    times,
    window,
)
from support.rewritings_zeros import merged

# K == S: a product of matrices, whose columns are moved into place


def placed(case: Case, y: Value, sizes: list[Any]) -> Value:
    """[N, M, *I, *K] -> [N, M, I0 K0, I1 K1, ...] -> the window."""
    rank = case.rank
    order = [0, 1, *(a for i in range(rank) for a in (2 + i, 2 + rank + i))]
    y = op.transpose(y, const(order))
    n, *wide = sizes
    wide = [times(i, k) for i, k in zip(wide, case.kernel, strict=True)]
    return window(case, reshape(y, n, case.channels, *wide))


def flat(case: Case, x: Value) -> tuple[Value, list[Any]]:
    """[N, g, C/g, prod I], and N with the sizes."""
    n, _, *sizes = sizes_of(x)
    area = prod(sizes) if all(isinstance(s, int) for s in sizes) else -1
    return reshape(x, n, case.groups, case.filter[1], area), [n, *sizes]


@layer("gemm: MatMul of rows, Reshape, Transpose", *TILED)
def matmul_rows(case: Case, x: Value) -> Value:
    rows, (n, *sizes) = flat(case, x)
    rows = op.transpose(rows, const([0, 1, 3, 2]))
    g, c, m = case.filter[:3]
    y = op.matmul(rows, floats(case.weights.reshape(g, c, -1)), False, False)
    y = reshape(y, n, g, *sizes, m, *case.kernel)
    rank = case.rank
    order = [0, 1, 2 + rank, *range(2, 2 + rank), *range(3 + rank, 3 + 2 * rank)]
    y = op.transpose(y, const(order))
    return placed(case, reshape(y, n, g * m, *sizes, *case.kernel), [n, *sizes])


@layer("gemm: MatMul with transposed arguments", *TILED)
def matmul_columns(case: Case, x: Value) -> Value:
    columns, (n, *sizes) = flat(case, x)
    g, c, m = case.filter[:3]
    y = op.matmul(floats(case.weights.reshape(g, c, -1)), columns, True, False)
    y = reshape(y, n, g, m, *case.kernel, *sizes)
    rank = case.rank
    order = [0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank)]
    y = op.transpose(y, const(order))
    return placed(case, reshape(y, n, g * m, *sizes, *case.kernel), [n, *sizes])


@layer("gemm: Einsum", *TILED)
def einsum(case: Case, x: Value) -> Value:
    n, _, *sizes = sizes_of(x)
    g, c, m = case.filter[:3]
    spatial, taps = "hwd"[: case.rank], "klj"[: case.rank]
    pairs = "".join(a + b for a, b in zip(spatial, taps, strict=True))
    x = reshape(x, n, g, c, *sizes)
    y = op.einsum([x, floats(case.weights)], f"ngc{spatial},gcm{taps}->ngm{pairs}")
    wide = [times(i, k) for i, k in zip(sizes, case.kernel, strict=True)]
    return window(case, reshape(y, n, g * m, *wide))


def columns(case: Case, x: Value, blocks_first: bool = False) -> Value:
    """A 1x1 convolution to [N, M prod K, *I] (blocks first, with one group: [N, prod K M, *I])."""
    g, c, m = case.filter[:3]
    rows = case.weights.reshape(g, c, m, -1).transpose(0, 2, 3, 1)
    if blocks_first:
        rows = rows.swapaxes(1, 2)
    none = [0] * case.rank
    return convolution(x, rows.reshape(g, -1, c, *[1] * case.rank), none, none)


@layer("gemm: 1x1 convolution, Reshape, Transpose", *TILED)
def one_by_one(case: Case, x: Value) -> Value:
    n, _, *sizes = sizes_of(x)
    y = reshape(columns(case, x), n, case.channels, *case.kernel, *sizes)
    rank = case.rank
    order = [0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)]
    return placed(case, op.transpose(y, const(order)), [n, *sizes])


TWOS = Case((2, 4, 2, 3), (2, 2, 3, 2, 2), (2, 2))
TWOS_OPEN = Case((1, 3, 2, 3), (1, 3, 2, 2, 2), (2, 2), open_axes=(0, 2, 3))
THREES = Case((2, 3, 2, 3), (1, 3, 2, 3, 3), (3, 3), (1, 0), (0, 2))


@layer("gemm: 1x1 convolution, DepthToSpace depth first", TWOS, THREES, TWOS_OPEN)
def depth_first(case: Case, x: Value) -> Value:
    return window(case, op.depth_to_space(columns(case, x), "depth_first", case.strides[0]))


@layer("gemm: 1x1 convolution, DepthToSpace blocks first", THREES, TWOS_OPEN)
def blocks_first(case: Case, x: Value) -> Value:
    y = columns(case, x, blocks_first=True)
    return window(case, op.depth_to_space(y, "blocks_first", case.strides[0]))


SHORT = Case((2, 3, 4), (1, 3, 2, 2), (3,), (1,), (0,))
SHORT_PLANE = Case((1, 4, 2, 3), (2, 2, 3, 1, 2), (2, 3), extra=(1, 0), open_axes=(2,))


@layer("gemm: K < S, the filter filled up with zeros", SHORT, SHORT_PLANE)
def short_kernel(case: Case, x: Value) -> Value:
    more = [(0, s - k) for s, k in zip(case.strides, case.kernel, strict=True)]
    weights = np.pad(case.weights, [(0, 0)] * 3 + more)
    n, _, *sizes = sizes_of(x)
    g, c, m = case.filter[:3]
    rows = weights.reshape(g, c, -1).transpose(0, 2, 1).reshape(g, -1, c, *[1] * case.rank)
    y = convolution(x, rows, [0] * case.rank, [0] * case.rank)
    y = reshape(y, n, g * m, *case.strides, *sizes)
    rank = case.rank
    order = [0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i))]
    wide = [times(i, s) for i, s in zip(sizes, case.strides, strict=True)]
    y = reshape(op.transpose(y, const(order)), n, g * m, *wide)
    return window(case, y, tuple(high for _, high in more))


LONG = Case((2, 3, 4), (1, 3, 2, 6), (2,), (1,), (2,))
LONG_PLANE = Case((1, 3, 2, 3), (1, 3, 2, 4, 3), (2, 3), (1, 1), (1, 0), open_axes=(0, 2, 3))


@layer("gemm: K a multiple of S, blocks moved and added", LONG, LONG_PLANE)
def overlapped(case: Case, x: Value) -> Value:
    counts = [k // s for k, s in zip(case.kernel, case.strides, strict=True)]
    none = (0,) * case.rank
    total = None
    for block in itertools.product(*map(range, counts)):
        cut = tuple(slice(b * s, b * s + s) for b, s in zip(block, case.strides, strict=True))
        weights = case.weights[(..., *cut)]
        n, _, *sizes = sizes_of(x)
        rows = np.moveaxis(weights[0], 0, -1).reshape(-1, case.filter[1], *[1] * case.rank)
        y = convolution(x, rows[None], [0] * case.rank, [0] * case.rank)
        y = reshape(y, n, case.channels, *case.strides, *sizes)
        rank = case.rank
        order = [0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)]
        tile = replace(case.within(none, none), filter=(*case.filter[:3], *case.strides))
        y = placed(tile, op.transpose(y, const(order)), [n, *sizes])
        before = [b * s for b, s in zip(block, case.strides, strict=True)]
        behind = [(k - 1 - b) * s for b, k, s in zip(block, counts, case.strides, strict=True)]
        y = pad(y, [0, 0, *before], [0, 0, *behind])
        total = y if total is None else op.add(total, y)
    return window(case, total)


# Phases: outputs of a residue modulo S, each a convolution of the data, then interleaved


def phases(case: Case, x: Value) -> tuple[Iterator[tuple[tuple[int, ...], Value]], tuple[int, ...]]:
    """Yield residues with their [N, M, *Q], Q = I + ceil(K/S) - 1; return zeros behind, too."""
    most = [-(-k // s) for k, s in zip(case.kernel, case.strides, strict=True)]
    trailing = tuple(s * t - k for s, t, k in zip(case.strides, most, case.kernel, strict=True))

    def parts() -> Iterator[tuple[tuple[int, ...], Value]]:
        for residue in itertools.product(*map(range, case.strides)):
            taps = tuple(slice(r, None, s) for r, s in zip(residue, case.strides, strict=True))
            weights = case.weights[(..., *taps)]
            if not weights.size:
                weights = np.zeros((*case.filter[:3], *[1] * case.rank), np.float32)
            begin = [k - 1 for k in weights.shape[3:]]
            end = [t - 1 for t in most]
            yield residue, convolution(x, flipped(weights), begin, end)

    return parts(), trailing


Join = Callable[[Case, dict[tuple[int, ...], Value]], Value]
WIDE = Case((2, 3, 4), (1, 3, 2, 5), (3,), (2,), (0,), extra=(1,))
FLAT = Case((2, 4, 3, 2), (2, 2, 3, 3, 4), (2, 3), (1, 2), (0, 1))
FLAT_OPEN = Case((1, 3, 3, 2), (1, 3, 2, 3, 4), (2, 2), (1, 1), (0, 1), open_axes=(0, 2, 3))
EVEN = Case((2, 4, 3, 2), (2, 2, 3, 4, 3), (2, 2), (1, 1), (1, 0))
SOLID = Case((1, 2, 2, 2, 2), (1, 2, 2, 3, 2, 2), (2, 2, 2), (1, 0, 0), (0, 1, 0))


def interleaved(name: str, *cases: Case) -> Callable[[Join], Join]:
    """Add a kind that interleaves phases."""

    def add(join: Join) -> Join:
        @layer(name, *cases)
        def step(case: Case, x: Value) -> Value:
            parts, trailing = phases(case, x)
            return window(case, join(case, dict(parts)), trailing)

        return join

    return add


def joined(parts: dict[tuple[int, ...], Value], strides: tuple[int, ...], one: Any) -> Value:
    """Join the last axis, for each residue of the others, then the one before it, and so on."""
    while strides:
        *rest, stride = strides
        heads = list(itertools.product(*map(range, rest)))
        parts = {
            head: one([parts[(*head, r)] for r in range(stride)], 1 + len(strides), stride)
            for head in heads
        }
        strides = tuple(rest)
    return parts[()]


@interleaved("phases: Unsqueeze, Concat, Reshape", WIDE, FLAT, FLAT_OPEN, SOLID)
def by_reshape(case: Case, parts: Any) -> Value:
    def one(phases: list[Value], axis: int, stride: int) -> Value:
        behind = [op.unsqueeze(p, const([axis + 1])) for p in phases]
        return merged(op.concat(behind, axis + 1), axis)

    return joined(parts, case.strides, one)


@interleaved("phases: each spread by zeros, added up", WIDE, FLAT, FLAT_OPEN)
def by_sum(case: Case, parts: Any) -> Value:
    total = None
    for residue, y in parts.items():
        for axis, (r, stride) in enumerate(zip(residue, case.strides, strict=True), 2):
            y = op.unsqueeze(y, const([axis + 1]))
            none = [0] * rank_of(y)
            before = [r if a == axis + 1 else 0 for a in range(rank_of(y))]
            behind = [stride - 1 - r if a == axis + 1 else 0 for a in range(rank_of(y))]
            y = merged(pad(y, before if r else none, behind), axis)
        total = y if total is None else op.add(y, total)
    return total


@interleaved("phases: Concat of channels, DepthToSpace", EVEN, FLAT_OPEN, SOLID)
def by_depth(case: Case, parts: Any) -> Value:
    return op.depth_to_space(op.concat(list(parts.values()), 1), "blocks_first", case.strides[0])


@interleaved("phases: Concat of batches, BatchToSpace", FLAT, FLAT_OPEN, SOLID)
def by_batch(case: Case, parts: Any) -> Value:
    none = const([0] * (2 + case.rank))
    y = op.concat(list(parts.values()), 0)
    return op.batch_to_space(y, const([1, 1, *case.strides]), none, none)


@interleaved("phases: ScatterNDUpdate", WIDE, FLAT)
def by_scatter_nd(case: Case, parts: Any) -> Value:
    first = next(iter(parts.values()))
    n, m, *sizes = sizes_of(first)
    forth = const([*range(2, 2 + case.rank), 0, 1])
    wide = [q * s for q, s in zip(sizes, case.strides, strict=True)]
    y = floats(np.zeros([*wide, n, m]))
    for residue, part in parts.items():
        lines = [np.arange(q) * s + r for q, s, r in zip(sizes, case.strides, residue, strict=True)]
        where = np.stack(np.meshgrid(*lines, indexing="ij"), -1)
        y = op.scatter_nd_update(y, const(where), op.transpose(part, forth))
    return op.transpose(y, const([case.rank, case.rank + 1, *range(case.rank)]))


@interleaved("phases: ScatterUpdate", WIDE, FLAT)
def by_scatter(case: Case, parts: Any) -> Value:
    def one(phases: list[Value], axis: int, stride: int) -> Value:
        shape = sizes_of(phases[0])
        length = shape[axis]
        shape[axis] = length * stride
        y = floats(np.zeros(shape))
        for r, part in enumerate(phases):
            y = op.scatter_update(y, const(np.arange(length) * stride + r), part, const(axis))
        return y

    return joined(parts, case.strides, one)


@interleaved("phases: Concat, Gather", WIDE, FLAT)
def by_gather(case: Case, parts: Any) -> Value:
    def one(phases: list[Value], axis: int, stride: int) -> Value:
        length = size(phases[0], axis)
        where = np.arange(stride * length)
        where = (where % stride) * length + where // stride
        return op.gather(op.concat(phases, axis), const(where), const(axis))

    return joined(parts, case.strides, one)


@interleaved("phases: Concat in front, Reshape, Transpose", WIDE, FLAT, FLAT_OPEN)
def by_transpose(case: Case, parts: Any) -> Value:
    n, m, *sizes = sizes_of(next(iter(parts.values())))
    y = op.concat([op.unsqueeze(p, const([0])) for p in parts.values()], 0)
    y = reshape(y, *case.strides, n, m, *sizes)
    rank = case.rank
    order = [rank, rank + 1, *(a for i in range(rank) for a in (rank + 2 + i, i))]
    wide = [times(q, s) for q, s in zip(sizes, case.strides, strict=True)]
    return reshape(op.transpose(y, const(order)), n, m, *wide)


@layer("phases: one convolution for all, DepthToSpace", EVEN, FLAT_OPEN, SOLID)
def stacked(case: Case, x: Value) -> Value:
    most = [-(-k // s) for k, s in zip(case.kernel, case.strides, strict=True)]
    behind = [s * t - k for s, t, k in zip(case.strides, most, case.kernel, strict=True)]
    filled = np.pad(case.weights, [(0, 0)] * 3 + [(0, b) for b in behind])
    residues = itertools.product(*map(range, case.strides))
    cuts = [
        filled[(..., *(slice(r, None, s) for r, s in zip(residue, case.strides, strict=True)))]
        for residue in residues
    ]
    weights = np.stack(cuts, 3).reshape(*case.filter[:2], -1, *most)  # M/g, residues
    ends = [t - 1 for t in most]
    y = convolution(x, flipped(weights), ends, ends)
    y = op.depth_to_space(y, "depth_first", case.strides[0])
    return window(case, y, tuple(behind))
