"""Kinds that sum up parts, and those that make the filter while the model runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino import opset16

from rewritings import (
    FEW,
    SPACE,
    TILED,
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
    merged,
    model,
    pad,
    pair,
    rank_of,
    reshape,
    reverse,
    size,
    sizes_of,
    slice_axis,
    spread_out,
    times,
    vector,
    window,
)

# Kinds that sum up parts: products of matrices, phases, taps, channels, groups.

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


# Kinds whose filter is computed in the graph, and operations that do nothing.

Filter = Callable[[Case], Value]


def turned(case: Case) -> Any:
    """The filter of the convolution as an array [M, C, *K] or [g, M/g, C/g, *K]."""
    weights = flipped(case.weights)
    return np.ascontiguousarray(weights[0] if case.groups == 1 else weights)


def unturned(case: Case) -> Any:
    """The same, taps in the order of the deconvolution."""
    return np.ascontiguousarray(turned(case)[spatial(case, slice(None, None, -1))])


def spatial(case: Case, cut: slice) -> Any:
    return (..., *[cut] * case.rank)


def axes_of(case: Case) -> list[int]:
    """Axes of taps in the filter of the convolution."""
    first = 2 if case.groups == 1 else 3
    return list(range(first, first + case.rank))


def with_filter(case: Case, x: Value, filter: Value) -> Value:
    return correlate(case, spread_out(case, x), case.trailing, filter)


def filter_of(name: str, *cases: Case) -> Callable[[Filter], Filter]:
    """Add a kind whose convolution takes a computed filter."""

    def add(make: Filter) -> Filter:
        layer(name, *cases)(lambda case, x: with_filter(case, x, make(case)))
        return make

    return add


@filter_of("filter: reversed by Slice", *FEW, SPACE)
def by_slice(case: Case) -> Value:
    return reverse(floats(unturned(case)), axes_of(case))


@filter_of("filter: reversed by StridedSlice", *FEW)
def by_strided_slice(case: Case) -> Value:
    rank, axes = unturned(case).ndim, axes_of(case)
    mask = [1] * rank
    steps = [-1 if a in axes else 1 for a in range(rank)]
    none = const([0] * rank)
    return op.strided_slice(floats(unturned(case)), none, none, const(steps), mask, mask)


@filter_of("filter: reversed by Gather", *FEW)
def filter_by_gather(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.gather(filter, const(np.arange(k)[::-1]), const(axis))
    return filter


@filter_of("filter: reversed by Gather with negative indices", *FEW)
def by_negative_gather(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.gather(filter, const(-1 - np.arange(k)), const(axis - filter_rank(case)))
    return filter


def filter_rank(case: Case) -> int:
    return int(turned(case).ndim)


@filter_of("filter: reversed by ReverseSequence", *FEW)
def by_reverse_sequence(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.reverse_sequence(filter, const([k] * turned(case).shape[0]), 0, axis)
    return filter


def as_reverse(text: str) -> str:
    """Write Reverse, which Python cannot build, where an operation of the same inputs stands."""
    root = ElementTree.fromstring(text)
    for element in root.iter("layer"):
        if element.get("type") == "NormalizeL2":
            element.set("type", "Reverse")
            data = element.find("data")
            assert data is not None
            data.attrib.clear()
            data.set("mode", "index")
    return ElementTree.tostring(root, "unicode")


@pair("filter: reversed by Reverse", *FEW, edit=as_reverse)
def by_reverse(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    turned = op.normalize_l2(floats(unturned(target)), const(axes_of(target)), 1.0, "add")
    return model([x], deconvolution(source, x)), model([z], with_filter(target, z, turned))


@filter_of("filter: transposed in the graph", *FEW)
def filter_by_transpose(case: Case) -> Value:
    backwards = floats(turned(case).T)
    return op.transpose(backwards, const(np.arange(filter_rank(case))[::-1]))


@filter_of("filter: reshaped in the graph", *FEW)
def filter_by_reshape(case: Case) -> Value:
    shape = list(turned(case).shape)
    return op.reshape(floats(turned(case).ravel()), const([*shape[:-1], -1]), False)


@filter_of("filter: put together by Concat and Add", *FEW)
def by_concat(case: Case) -> Value:
    first, *rest = np.split(turned(case), turned(case).shape[-1], -1)
    rows = op.concat([floats(part) for part in (first * 0.5, *rest)], -1)
    return op.add(rows, pad_last(first * 0.5, len(rest)))


def pad_last(array: Any, more: int) -> Value:
    filled = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)])
    return floats(filled)


@pair("filter: a parameter, reversed in the graph", *FEW)
def given(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    shape = source.filter if source.groups > 1 else source.filter[1:]
    w, v = (op.parameter(list(shape), np.float32, name="w") for _ in (x, z))
    for node in (w, v):
        node.output(0).set_names({"w"})
    rank, axes = len(shape), axes_of(source)
    order = list(range(rank))
    order[axes[0] - 2], order[axes[0] - 1] = order[axes[0] - 1], order[axes[0] - 2]
    kept = axes[:-1] if target.changed else axes  # a near miss: an axis is not reversed
    turned = op.transpose(reverse(v, kept), const(order))
    return model([x, w], deconvolution(source, x, w)), model([z, v], with_filter(target, z, turned))


# Compressed filters


def quantised(name: str, dtype: Any, zero: int, scales: tuple[float, ...], *cases: Case) -> None:
    """Add a kind whose filter is stored in `dtype`, with a zero point and scales per channel."""

    def stored(case: Case) -> tuple[Any, Any]:
        """Integers [.., M, C, *K] and what they stand for."""
        low, high = (0, 15) if dtype == ov.Type.u4 else (-128, 127) if zero <= 0 else (0, 255)
        shape = turned(case).shape
        count = int(np.prod(shape))
        values = (np.arange(count) * 7 + 3) % (high - low) + low
        if case.changed:
            values[count // 2] += 1
        values = values.reshape(shape)
        factors = np.resize(scales, shape[axes_of(case)[0] - 2])
        factors = factors.reshape(-1, *[1] * (case.rank + 1)).astype(np.float32)
        return values, factors

    def build(source: Case, target: Case) -> Pair:
        x, z = source.parameter(), target.parameter()
        values, factors = stored(source)
        whole = flipped(((values - zero) * factors).astype(np.float32))
        if source.groups > 1:
            whole = whole.reshape(source.filter)
        else:
            whole = flipped(((values - zero) * factors).astype(np.float32)[None])[0]
        values, factors = stored(target)
        node = op.constant(values.astype(np.uint8 if zero > 0 else np.int8))
        if dtype == ov.Type.u4:
            node = op.constant(ov.Tensor(packed(values), ov.Shape(values.shape), ov.Type.u4))
        filter = op.convert(node, np.float32)
        if zero:
            filter = op.subtract(filter, op.convert(const(zero, np.uint8), np.float32))
        filter = op.multiply(filter, floats(factors))
        return (
            model([x], deconvolution(source, x, floats(whole))),
            model([z], with_filter(target, z, filter)),
        )

    pair(name, *cases)(build)


def packed(values: Any) -> Any:
    """Two 4-bit numbers in a byte, the first one low."""
    flat = np.append(values.ravel(), [0] * (values.size % 2)).astype(np.uint8)
    return np.ascontiguousarray(flat[0::2] | (flat[1::2] << 4))


quantised("filter: i8 with scales per channel", np.int8, 0, (0.5, 2, 0.25), *FEW)
quantised("filter: u8 with a zero point and scales", np.uint8, 128, (0.5, 4, 1), *FEW)
quantised("filter: u4 with a zero point and a scale", ov.Type.u4, 8, (0.25,), *FEW)


@filter_of("filter: f16 and Convert", *FEW)
def half(case: Case) -> Value:
    return op.convert(const(turned(case), np.float16), np.float32)


@filter_of("filter: i32 and Convert, scaled by powers of two", *FEW)
def scaled(case: Case) -> Value:
    filter = op.convert(const(turned(case) * 4, np.int32), np.float32)
    return op.multiply(filter, const(0.25, np.float32))


# Operations that do nothing


def idle(name: str, *operations: Callable[[Value], Value]) -> None:
    """Add a kind with operations that do nothing before, between and behind the others."""

    def step(case: Case, x: Value) -> Value:
        values = iter(operations * 3)

        def calm(x: Value) -> Value:
            for _ in operations:
                x = next(values)(x)
            return x

        x = spread_out(case, calm(x))
        return calm(correlate(case, calm(x), case.trailing))

    layer(name, *FEW)(step)


def to_last(x: Value) -> Value:
    """Channels to the end and back."""
    rank = rank_of(x)
    last = op.transpose(x, const([0, *range(2, rank), 1]))
    return op.transpose(last, const([0, rank - 1, *range(1, rank - 1)]))


def lifted(x: Value) -> Value:
    return op.squeeze(op.unsqueeze(x, const([1])), const([1]))


def halved(x: Value) -> Value:
    parts = op.split(op.concat([x, x], 1), const(1), 2).outputs()
    return op.concat([parts[1]], 1)


idle("nothing: Convert to the same type", lambda x: op.convert(x, np.float32))
idle(
    "nothing: times 1, plus 0, minus 0, divided by 1",
    lambda x: op.multiply(x, const(1, np.float32)),
    lambda x: op.add(const(0, np.float32), x),
    lambda x: op.subtract(x, floats(np.zeros([1] * rank_of(x)))),
    lambda x: op.divide(x, const(1, np.float32)),
)
idle("nothing: Identity", opset16.identity)
idle(
    "nothing: Reshape and Transpose",
    lambda x: op.reshape(x, const([0] * rank_of(x)), True),
    lambda x: op.reshape(x, vector(*sizes_of(x)), False),
    lambda x: op.transpose(x, const(np.arange(rank_of(x)))),
)
idle(
    "nothing: Pad, Slice, StridedSlice",
    lambda x: op.pad(x, *(const([0] * rank_of(x)),) * 2, "constant", const(3, np.float32)),
    lambda x: slice_axis(x, 1, 0, 2**63 - 1),
    lambda x: op.strided_slice(
        x, *(const([0] * rank_of(x)),) * 2, const([1] * rank_of(x)), *([1] * rank_of(x),) * 2
    ),
)
idle("nothing: Concat of one, Squeeze of Unsqueeze", lambda x: op.concat([x], 1), lifted)
idle(
    "nothing: Tile by 1, Broadcast to its own shape",
    lambda x: op.tile(x, const([1] * rank_of(x))),
    lambda x: op.broadcast(x, op.shape_of(x)),
)
idle("nothing: channels to the end and back, Concat and Split", to_last, halved)
