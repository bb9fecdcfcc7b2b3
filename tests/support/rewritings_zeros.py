"""Kinds that put zeros between the data and convolve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset13 as op

from support.rewritings import (
    ANY,
    CROPS,
    FEW,
    OPEN,
    PLANE,
    S2,
    SPACE,
    Case,
    Value,
    const,
    correlate,
    floats,
    layer,
    pad,
    rank_of,
    reshape,
    reverse,
    size,
    sizes_of,
    slice_axis,
    times,
    vector,
    window,
)

Spread = Callable[[Value, int, int], Value]  # x, axis, stride: every axis becomes S times as long


def pulse(axis: int, rank: int, stride: int) -> Any:
    """1, 0, 0 along one of `rank` axes."""
    values = np.zeros(stride, np.float32)
    values[0] = 1
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


def merged(x: Value, axis: int) -> Value:
    """Merge an axis with the one behind it."""
    sizes = sizes_of(x)
    if all(isinstance(n, int) for n in sizes):
        return reshape(x, *sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :])
    stride = sizes[axis + 1]
    return reshape(x, *sizes[:axis], times(sizes[axis], stride), *sizes[axis + 2 :])


def lifted(x: Value, axis: int) -> Value:
    return op.unsqueeze(x, const([axis + 1]))


def by_axes(name: str, *cases: Case) -> Callable[[Spread], Spread]:
    """Add a kind that treats one axis after the other."""

    def add(spread: Spread) -> Spread:
        @layer(name, *cases)
        def step(case: Case, x: Value) -> Value:
            for axis, stride in enumerate(case.strides, 2):
                if stride > 1:
                    x = spread(x, axis, stride)
            return correlate(case, x, case.trailing)

        return spread

    return add


@by_axes("zeros: Unsqueeze, Pad, Reshape", *ANY)
def padded(x: Value, axis: int, stride: int) -> Value:
    none = [0] * (rank_of(x) + 1)
    behind = none.copy()
    behind[axis + 1] = stride - 1
    return merged(pad(lifted(x, axis), none, behind), axis)


@by_axes("zeros: Concat with zeros, Reshape", *FEW, SPACE)
def concatenated(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    zeros = op.multiply(y, const(0, np.float32))
    if all(isinstance(n, int) for n in sizes_of(y)):
        zeros = floats(np.zeros(sizes_of(y)))
    else:
        zeros = op.broadcast(const(0, np.float32), op.shape_of(y))
    return merged(op.concat([y, *[zeros] * (stride - 1)], axis + 1), axis)


@by_axes("zeros: Tile, mask", *FEW)
def tiled(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    repeats = [stride if a == axis + 1 else 1 for a in range(rank_of(y))]
    mask = floats(pulse(axis + 1, rank_of(y), stride))
    return merged(op.multiply(op.tile(y, const(repeats)), mask), axis)


@by_axes("zeros: Broadcast, mask", *FEW)
def broadcast(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    target = sizes_of(y)
    target[axis + 1] = stride
    mask = floats(pulse(axis + 1, rank_of(y), stride))
    return merged(op.multiply(mask, op.broadcast(y, vector(*target))), axis)


@by_axes("zeros: product with a pulse", *FEW, SPACE)
def multiplied(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    return merged(op.multiply(y, floats(pulse(axis + 1, rank_of(y), stride))), axis)


@by_axes("zeros: Broadcast bidirectional, Select", *FEW)
def selected(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    mask = pulse(axis + 1, rank_of(y), stride)
    copies = op.broadcast(y, const(mask.shape), broadcast_spec="BIDIRECTIONAL")
    chosen = op.select(const(mask, bool), copies, const(0, np.float32))
    return merged(chosen, axis)


@by_axes("zeros: Pad in front of the axis, Transpose", *FEW)
def padded_before(x: Value, axis: int, stride: int) -> Value:
    y = op.unsqueeze(x, const([0]))
    rank = rank_of(y)
    y = pad(y, [0] * rank, [stride - 1, *[0] * (rank - 1)])
    order = [*range(1, axis + 2), 0, *range(axis + 2, rank)]
    return merged(op.transpose(y, const(order)), axis)


def spread_out(case: Case, x: Value) -> Value:
    for axis, stride in enumerate(case.strides, 2):
        if stride > 1:
            x = padded(x, axis, stride)
    return x


def interpolated(x: Value, axes: list[int], strides: list[int], by_sizes: bool) -> Value:
    shown = vector(*(times(size(x, a), s) for a, s in zip(axes, strides, strict=True)))
    target = shown if by_sizes else floats(strides)
    mode = "sizes" if by_sizes else "scales"
    return op.interpolate(
        x,
        target,
        "nearest",
        mode,
        None,
        None,
        "asymmetric",
        "floor",
        False,
        -0.75,
        const(axes),
    )


def masked_enlargement(case: Case, x: Value, by_sizes: bool) -> Value:
    axes = list(range(2, 2 + case.rank))
    big = interpolated(x, axes, list(case.strides), by_sizes)
    for axis, stride in enumerate(case.strides, 2):
        mask = floats(pulse(axis, rank_of(x), stride))
        repeats = vector(*(size(x, a) if a == axis else 1 for a in range(rank_of(x))))
        big = op.multiply(big, op.tile(mask, repeats))
    return correlate(case, big, case.trailing)


@layer("zeros: Interpolate nearest by scales, mask", S2, PLANE, OPEN)
def nearest_scales(case: Case, x: Value) -> Value:
    return masked_enlargement(case, x, by_sizes=False)


@layer("zeros: Interpolate nearest by sizes, mask", S2, PLANE, OPEN)
def nearest_sizes(case: Case, x: Value) -> Value:
    return masked_enlargement(case, x, by_sizes=True)


@layer("zeros: product with a whole mask", S2, PLANE, SPACE)
def whole_mask(case: Case, x: Value) -> Value:
    axes = list(range(2, 2 + case.rank))
    mask = np.zeros([1, 1, *(n * s for n, s in zip(case.data[2:], case.strides, strict=True))])
    mask[(..., *(slice(None, None, s) for s in case.strides))] = 1
    big = interpolated(x, axes, list(case.strides), by_sizes=False)
    return correlate(case, op.multiply(big, floats(mask)), case.trailing)


@layer("zeros: Reshape, one Pad, Reshape", *ANY)
def padded_at_once(case: Case, x: Value) -> Value:
    n, c, *sizes = sizes_of(x)
    ones = [part for n in sizes for part in (n, 1)]
    behind = [part for s in case.strides for part in (0, s - 1)]
    y = pad(reshape(x, n, c, *ones), [0] * (2 + len(ones)), [0, 0, *behind])
    wide = [times(n, s) for n, s in zip(sizes, case.strides, strict=True)]
    return correlate(case, reshape(y, n, c, *wide), case.trailing)


@layer("zeros: cut to S(I-1)+1 by StridedSlice", *FEW)
def cut_to_last(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    rank = rank_of(x)
    keep = [1, 1] + [0] * case.rank
    ends = [0, 0, *(1 - s if s > 1 else 2**31 - 1 for s in case.strides)]
    cut = op.strided_slice(x, const([0] * rank), const(ends), const([1] * rank), keep, keep)
    return correlate(case, cut)


def grid(case: Case) -> tuple[list[int], Any]:
    """Shape of the data with zeros between, and where each element stands in it (spatial axes)."""
    sizes = [s * (n - 1) + 1 for n, s in zip(case.data[2:], case.strides, strict=True)]
    axes = [np.arange(n) * s for n, s in zip(case.data[2:], case.strides, strict=True)]
    return sizes, np.stack(np.meshgrid(*axes, indexing="ij"), -1)


@layer("zeros: ScatterNDUpdate", S2, PLANE, SPACE, CROPS)
def scatter_nd(case: Case, x: Value) -> Value:
    sizes, where = grid(case)
    forth = [*range(2, 2 + case.rank), 0, 1]
    back = [case.rank, case.rank + 1, *range(case.rank)]
    zeros = floats(np.zeros([*sizes, *case.data[:2]]))
    y = op.scatter_nd_update(zeros, const(where), op.transpose(x, const(forth)))
    return correlate(case, op.transpose(y, const(back)))


@layer("zeros: ScatterNDUpdate of all indices", S2, PLANE)
def scatter_all(case: Case, x: Value) -> Value:
    sizes, where = grid(case)
    n, c = np.meshgrid(*map(np.arange, case.data[:2]), indexing="ij")
    spatial = (1,) * case.rank
    head = [np.broadcast_to(a.reshape(*a.shape, *spatial), case.data) for a in (n, c)]
    tail = [np.broadcast_to(a, case.data) for a in np.moveaxis(where, -1, 0)]
    zeros = floats(np.zeros([*case.data[:2], *sizes]))
    indices = const(np.stack([*head, *tail], -1), np.int32)
    return correlate(case, op.scatter_nd_update(zeros, indices, x))


@layer("zeros: ScatterUpdate", S2, PLANE, SPACE)
def scatter_update(case: Case, x: Value) -> Value:
    shape = list(case.data)
    for axis, stride in enumerate(case.strides, 2):
        indices = const(np.arange(shape[axis]) * stride)
        shape[axis] = stride * (shape[axis] - 1) + 1
        x = op.scatter_update(floats(np.zeros(shape)), indices, x, const(axis))
    return correlate(case, x)


@layer("zeros: ScatterElementsUpdate", S2, PLANE, SPACE)
def scatter_elements(case: Case, x: Value) -> Value:
    shape = list(case.data)
    for axis, stride in enumerate(case.strides, 2):
        line = np.arange(shape[axis]) * stride
        line = line.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        indices = const(np.broadcast_to(line, shape), np.int32)
        shape[axis] = stride * (shape[axis] - 1) + 1
        x = op.scatter_elements_update(floats(np.zeros(shape)), indices, x, const(axis))
    return correlate(case, x)


@layer("zeros: Gather from data with a zero behind", S2, PLANE, SPACE)
def gathered(case: Case, x: Value) -> Value:
    for axis, (n, stride) in enumerate(zip(case.data[2:], case.strides, strict=True), 2):
        behind = [1 if a == axis else 0 for a in range(rank_of(x))]
        indices = np.full(stride * (n - 1) + 1, n)
        indices[::stride] = np.arange(n)
        x = op.gather(pad(x, [0] * rank_of(x), behind), const(indices), const(axis))
    return correlate(case, x)


def zeros_like(x: Value, case: Case) -> Value:
    if case.open_axes:
        return op.broadcast(const(0, np.float32), op.shape_of(x))
    return floats(np.zeros(sizes_of(x)))


SQUARE = Case((2, 4, 3, 4), (2, 2, 3, 3, 2), (2, 2), (1, 0), (0, 2), (1, 2), (1, 0))
THREES = Case((1, 2, 2, 3), (1, 2, 2, 4, 2), (3, 3), (0, 1), (2, 0))


@layer("zeros: Concat of channels, DepthToSpace blocks first", SQUARE, THREES, OPEN)
def depth_blocks(case: Case, x: Value) -> Value:
    stride = case.strides[0]
    zeros = zeros_like(x, case)
    y = op.concat([x, *[zeros] * (stride**case.rank - 1)], 1)
    y = op.depth_to_space(y, "blocks_first", stride)
    return correlate(case, y, case.trailing)


@layer("zeros: Concat of channels, DepthToSpace depth first", SQUARE, THREES, OPEN)
def depth_first(case: Case, x: Value) -> Value:
    stride = case.strides[0]
    blocks = stride**case.rank
    n, c, *sizes = sizes_of(x)
    y = op.unsqueeze(x, const([2]))
    y = op.concat([y, *[zeros_like(y, case)] * (blocks - 1)], 2)
    y = op.depth_to_space(reshape(y, n, times(c, blocks), *sizes), "depth_first", stride)
    return correlate(case, y, case.trailing)


@layer("zeros: Concat of batches, BatchToSpace", S2, PLANE, OPEN)
def batch_to_space(case: Case, x: Value) -> Value:
    none = [0] * (2 + case.rank)
    blocks = int(np.prod(case.strides))
    if case.rank == 1:  # the runtime knows it for four and five axes alone
        x = op.unsqueeze(x, const([3]))
    y = op.concat([x, *[zeros_like(x, case)] * (blocks - 1)], 0)
    strides = [1, 1, *case.strides, *[1] * (case.rank == 1)]
    cut = [*none, *[0] * (case.rank == 1)]
    y = op.batch_to_space(y, const(strides), const(cut), const(cut))
    if case.rank == 1:
        y = op.squeeze(y, const([3]))
    return correlate(case, y, case.trailing)


@layer("zeros: product with a matrix of zeros and ones", S2, PLANE)
def by_matrix(case: Case, x: Value) -> Value:
    for axis, (n, stride) in enumerate(zip(case.data[2:], case.strides, strict=True), 2):
        matrix = np.zeros((n, stride * (n - 1) + 1))
        matrix[np.arange(n), np.arange(n) * stride] = 1
        order = list(range(rank_of(x)))
        order[axis], order[-1] = order[-1], order[axis]
        y = op.matmul(op.transpose(x, const(order)), floats(matrix), False, False)
        x = op.transpose(y, const(order))
    return correlate(case, x)


@layer("zeros: Pads of their own for the borders", *ANY)
def separate_pads(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    before = [r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True)]
    sums = zip(case.reaches, case.edges, case.strides, strict=True)
    behind = [r - e - s + 1 for r, (_, e), s in sums]
    none = [0] * rank_of(x)
    x = pad(pad(x, [0, 0, *before], none), none, [0, 0, *behind])
    return correlate(case.within(case.reaches, case.reaches), x)


@layer("zeros: borders by Concat, cropped by Slice", S2, PLANE, SPACE)
def concatenated_borders(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    for axis in range(2, 2 + case.rank):
        reach, (begin, end) = case.reaches[axis - 2], case.edges[axis - 2]
        before, behind = reach - begin, reach - end - case.strides[axis - 2] + 1
        length = size(x, axis)
        if before < 0 or behind < 0:
            x = slice_axis(x, axis, max(0, -before), length + min(0, behind))
        rows = [
            floats(np.zeros([n if a == axis else m for a, m in enumerate(sizes_of(x))]))
            for n in (max(0, before), max(0, behind))
        ]
        x = op.concat([rows[0], x, rows[1]], axis)
    return correlate(case.within(case.reaches, case.reaches), x)


@layer("zeros: all of the scatter, then cropped", *ANY)
def cropped_behind(case: Case, x: Value) -> Value:
    none = (0,) * case.rank
    return window(case, correlate(case.within(none, none), spread_out(case, x), case.trailing))


@layer("zeros: data reversed, filter as it is, reversed again", *FEW)
def reversed_twice(case: Case, x: Value) -> Value:
    axes = list(range(2, 2 + case.rank))
    begin = [e + t for (_, e), t in zip(case.edges, case.trailing, strict=True)]
    mirrored = case.within(begin, [b for b, _ in case.edges])
    y = reverse(spread_out(case, x), axes)
    return reverse(correlate(mirrored, y, filter=np.swapaxes(case.weights, 1, 2)), axes)
