"""Convolution as a product of the filter with columns, the patches that the windows see.

Per block of rows of the output, patches are gathered as a matrix `[g, C/g * taps, positions]` and
multiplied by the filter. Where the row axis is left out of the gathering (`shifted`), taps of one
column phase read the same matrix at a distance of whole rows: less is copied, but the products
must be added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.kernels.convolution.canonical import (
    COLUMN,
    ROW,
    Blockwise,
    Frame,
    Volume,
    deliver,
    frame,
    overlapping,
)
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import ITEMS, pieces, shares
from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.team import Space
from irdeconv.spec import Array

LONG_WINDOW = 16  # a copy of windows longer than this costs no more than its elements
SHORT_ROW = 64  # a copy of rows shorter than this costs more than its elements


@dataclass(frozen=True)
class Block:
    """`rows` rows of an output depth, for some images and groups.

    `channels` and `positions` are its place in the output `[N, M, positions]`, `frame` is what its
    windows see.
    """

    image: int
    images: int
    groups: slice
    count: int
    rows: int
    channels: slice
    positions: slice
    frame: Frame


def partition(v: Volume, share: int, merge: bool) -> list[Block]:
    """Split the output into blocks of `im2col_bytes`, of `least_columns` where it can be helped.

    `share` are the bytes per position of one group. Blocks of whole planes take more groups and,
    if `merge`, more images.
    """
    sizes = blocking.SIZES
    limit, least = sizes.im2col_bytes, sizes.least_columns
    depth, height, width = v.sizes
    positions = max(limit // share, least)
    rows = max(1, min(height, positions // width))
    # Equal blocks: a narrow last one would be an inefficient product.
    some = max(-(-height // rows), min(ITEMS, height, height * width // sizes.shared_columns))
    rows = shares(height, some)
    groups = max(1, min(v.groups, limit // (share * rows * width)))
    images = 1
    if merge and rows == height and depth == 1 and groups == v.groups:
        room = max(1, min(v.images, positions // (rows * width)))
        some = max(-(-v.images // room), min(ITEMS, v.images * rows * width // least))
        images = shares(v.images, some)
    return [
        block(v, n, g, d, h, rows)
        for n in pieces(v.images, images)
        for g in pieces(v.groups, groups)
        for d in range(depth)
        for h in range(0, height, rows)
    ]


def block(v: Volume, images: slice, groups: slice, d: int, h: int, rows: int) -> Block:
    """Describe up to `rows` rows from `h` on of the output depth `d`."""
    depth, row, column = v.axes
    rows = min(rows, row.out - h)
    start = (d * row.out + h) * column.out
    box = (
        (d * depth.stride - depth.begin, depth.kernel, depth.dilation),
        (h * row.stride - row.begin, row.span(rows), 1),
        (-column.begin, column.span(column.out), 1),
    )
    return Block(
        images.start,
        images.stop - images.start,
        groups,
        groups.stop - groups.start,
        rows,
        slice(groups.start * v.outputs, groups.stop * v.outputs),
        slice(start, start + rows * column.out),
        frame(v, images, slice(groups.start * v.channels, groups.stop * v.channels), box),
    )


def column_blocks(v: Volume) -> list[Block]:
    """Split the output for `Columns`."""
    return partition(v, v.channels * v.taps * v.itemsize, True)


@dataclass(frozen=True)
class Columns(Blockwise[Block]):
    """Gather every tap, multiply once; `matrix` is `[g, M/g, C/g * taps]`, rows innermost."""

    matrix: Array

    def _block(
        self, x: Array, out: Array, b: Block, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        cols = gather(b.frame.of(x, space), b, v, space)
        right = cols.reshape(b.count, v.channels * v.taps, -1)
        left = self.matrix[b.groups]
        target = out[b.image, b.channels, b.positions]
        size = target.shape[1]
        if v.direct and b.images == 1:
            np.matmul(left, right, out=target.reshape(b.count, v.outputs, size))
            deliver(target, target, epilogue, b.image, b.channels, b.positions)
            return
        total = space.array((b.count, v.outputs, b.images * size), v.compute)
        np.matmul(left, right, out=total)
        tiles = total.reshape(-1, b.images, size)
        for i in range(b.images):
            target = out[b.image + i, b.channels, b.positions]
            deliver(tiles[:, i], target, epilogue, b.image + i, b.channels, b.positions)


def gather(f: Array, b: Block, v: Volume, space: Space) -> Array:
    """Return the patches `[channels, depth, column, row, images, rows, columns]` of a frame."""
    depth, row, column = v.axes
    plain = v.taps == row.stride == column.stride == 1
    if plain and b.images == 1 and f.flags.c_contiguous:
        return f
    if by_windows(v):
        return windows_of(f, b, v, space)
    cols = space.array(
        (f.shape[1], depth.kernel, column.kernel, row.kernel, b.images, b.rows, column.out),
        v.compute,
    )
    if two_steps(v):
        rows = spread(f, 0, 1, row.span(b.rows), v, space)
        n, c, d, k, r, e = rows.strides
        steps = (c, d, k, r * row.dilation, n, r * row.stride, e)
        cols[...] = overlapping(rows, cols.shape, steps)
    else:
        n, c, d, r, e = f.strides
        steps = (c, d, e * column.dilation, r * row.dilation, n, r * row.stride, e * column.stride)
        cols[...] = overlapping(f, cols.shape, steps)
    return cols


def by_windows(v: Volume) -> bool:
    """Whether to gather window by window: a long kernel and a stride along a single axis."""
    _, row, column = v.axes
    single = column.out == column.kernel == 1 and row.dilation == v.groups == 1
    return single and row.stride > 1 and row.kernel >= LONG_WINDOW


def windows_of(f: Array, b: Block, v: Volume, space: Space) -> Array:
    """Return the patches of a single axis `[1, channels * taps, images * rows]`, transposed."""
    row = v.axes[ROW]
    n, c, d, r, _ = f.strides
    shape = (b.images, b.rows, f.shape[1], f.shape[2], row.kernel)
    seen = overlapping(f, shape, (n, r * row.stride, c, d, r))
    if shape[0] == shape[2] == shape[3] == 1 and row.kernel <= row.stride and r == v.itemsize:
        return seen.reshape(1, b.rows, row.kernel).swapaxes(1, 2)
    cols = space.array(shape, v.compute)
    cols[...] = seen
    return cols.reshape(1, b.images * b.rows, -1).swapaxes(1, 2)


def two_steps(v: Volume) -> bool:
    """Whether to gather along the columns first: copies of short or strided rows are slow."""
    _, row, column = v.axes
    shared = row.kernel > row.stride and column.kernel > 1
    return shared and (column.out < SHORT_ROW or column.stride > 1)


def spread(f: Array, first: int, step: int, count: int, v: Volume, space: Space) -> Array:
    """Gather along the columns: rows `first + j*step` of a frame as `[n, c, d, column, j, *]`."""
    column = v.axes[2]
    n, c, d, r, e = f.strides
    if column.kernel == column.stride == step == 1 and r == column.out * e:
        return f[:, :, :, None, first : first + count]
    rows = space.array((*f.shape[:3], column.kernel, count, column.out), v.compute)
    steps = (n, c, d, e * column.dilation, r * step, e * column.stride)
    rows[...] = overlapping(f, rows.shape, steps, first)
    return rows


@dataclass(frozen=True)
class Taps:
    """Taps of the row axis, `cut`, that read the rows `first + j*stride`, each `step` rows on."""

    cut: slice
    count: int
    first: int
    step: int


def row_taps(v: Volume) -> list[Taps]:
    """Split the row axis's taps by what they read modulo its stride."""
    row = v.axes[ROW]
    apart = row.stride // math.gcd(row.stride, row.dilation)
    return [
        Taps(
            slice(k, None, apart),
            len(range(k, row.kernel, apart)),
            k * row.dilation,
            apart * row.dilation // row.stride,
        )
        for k in range(min(apart, row.kernel))
    ]


def shifted_blocks(v: Volume, stacked: bool) -> list[Block]:
    """Split the output for `Shifted`."""
    row = v.axes[ROW]
    gathered = v.channels * v.taps // row.kernel * min(row.stride, row.kernel)
    terms = v.outputs * (row.kernel if stacked else 1)
    return partition(v, (gathered + terms) * v.itemsize, False)


@dataclass(frozen=True)
class Shifted(Blockwise[Block]):
    """Gather all taps but those of the row axis, whose products are added.

    `matrices` are `[taps, g, M/g, C/g * other taps]`, one for each of `row_taps`. `stacked`: one
    product for all taps that share rows, instead of one per tap; it is larger, but computes the
    taps for rows that they do not need.
    """

    matrices: Sequence[Array]
    stacked: bool

    @cached_property
    def _taps(self) -> list[Taps]:
        return row_taps(self.v)

    def _block(
        self, x: Array, out: Array, b: Block, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        target = out[b.image, b.channels, b.positions]
        size = target.shape[1]
        shape = (b.count, v.outputs, size)
        total = target.reshape(shape) if v.direct else space.array(shape, v.compute)
        f = b.frame.of(x, space)
        begun = False
        add = self._stack if self.stacked else self._each
        for taps, matrix in zip(self._taps, self.matrices, strict=True):
            count = b.rows + taps.step * (taps.count - 1)
            rows = spread(f, taps.first, v.axes[ROW].stride, count, v, space)
            right = rows.reshape(b.count, -1, count * v.axes[COLUMN].out)
            left = matrix[:, b.groups]
            add(left, right, taps.step * v.axes[COLUMN].out, total, begun, space)
            begun = True
        flat = total.reshape(-1, size)
        deliver(target if v.direct else flat, target, epilogue, b.image, b.channels, b.positions)

    def _each(
        self, left: Array, right: Array, step: int, total: Array, begun: bool, space: Space
    ) -> None:
        """Add one product per tap."""
        size = total.shape[-1]
        term = space.array(total.shape, total.dtype)
        for t, matrix in enumerate(left):
            part = right[:, :, t * step : t * step + size]
            if t or begun:
                np.matmul(matrix, part, out=term)
                np.add(total, term, out=total)
            else:
                np.matmul(matrix, part, out=total)

    def _stack(
        self, left: Array, right: Array, step: int, total: Array, begun: bool, space: Space
    ) -> None:
        """Multiply all taps at once, then add what each contributes."""
        taps, groups, outputs, _ = left.shape
        size = total.shape[-1]
        terms = space.array((groups, taps, outputs, right.shape[-1]), total.dtype)
        stack = left.swapaxes(0, 1).reshape(groups, taps * outputs, -1)
        np.matmul(stack, right, out=terms.reshape(groups, taps * outputs, -1))
        parts = [terms[:, t, :, t * step : t * step + size] for t in range(taps)]
        if begun:
            parts.insert(0, total)
        elif taps == 1:
            total[...] = parts[0]
            return
        np.add(parts[0], parts[1], out=total)
        for part in parts[2:]:
            np.add(total, part, out=total)
