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

import numpy as np

from irdeconv.kernels.prepared import Epilogue
from irdeconv.kernels.team import Space, Team
from irdeconv.kernels.volume import COLUMN, ROW, Volume, deliver, frame, overlapping
from irdeconv.spec import Array

SHORT_ROW = 64  # a copy of rows shorter than this costs more than its elements


@dataclass(frozen=True)
class Block:
    """Rows `row .. row+rows` of an output depth, for some images and groups."""

    image: int
    images: int
    group: int
    groups: int
    depth: int
    row: int
    rows: int


def partition(v: Volume, bytes_per_position: int, limit: int, least: int, merge: bool) -> list[Block]:
    """Split the output so that a block has about `limit` bytes, but `least` positions if it can.

    `bytes_per_position` is that of one group. Blocks of whole planes take more groups and, if
    `merge`, more images.
    """
    depth, height, width = v.sizes
    positions = max(limit // max(1, bytes_per_position), least)
    rows = max(1, min(height, positions // width))
    # Equal blocks: a narrow last one would be an inefficient product.
    rows = -(-height // -(-height // rows))
    room = limit // max(1, bytes_per_position * rows * width)
    groups = max(1, min(v.groups, room))
    images = 1
    if merge and rows == height and depth == 1 and groups == v.groups:
        images = max(1, min(v.images, positions // (rows * width)))
    return [
        Block(n, min(images, v.images - n), g, min(groups, v.groups - g), d, h, min(rows, height - h))
        for n in range(0, v.images, images)
        for g in range(0, v.groups, groups)
        for d in range(depth)
        for h in range(0, height, rows)
    ]


def seen(x: Array, b: Block, v: Volume, space: Space) -> Array:
    """Return what the windows of a block see: `[images, channels, depths, rows, columns]`."""
    depth, row, column = v.axes
    part = x[b.image : b.image + b.images, b.group * v.channels : (b.group + b.groups) * v.channels]
    starts = (
        b.depth * depth.stride - depth.begin,
        b.row * row.stride - row.begin,
        -column.begin,
    )
    return frame(part, starts, (depth.kernel, row.span(b.rows), column.span(column.out)), v, space)


@dataclass(frozen=True)
class Columns:
    """Gather every tap, multiply once."""

    v: Volume
    matrix: Array
    limit: int = 1 << 20
    least: int = 256

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        v = self.v
        data = v.data(x)
        y = out.reshape(v.images, v.groups * v.outputs, v.plane)
        depth = v.channels * v.taps * v.itemsize
        blocks = partition(v, depth, self.limit, self.least, True)
        team.each(blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _block(
        self, x: Array, out: Array, b: Block, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        cols = gather(seen(x, b, v, space), b, v, space)
        right = cols.reshape(b.groups, v.channels * v.taps, -1)
        left = self.matrix[b.group : b.group + b.groups]
        target, channels, at = place(out, b, v)
        size = target.shape[1]
        if v.direct and b.images == 1:
            np.matmul(left, right, out=target.reshape(b.groups, v.outputs, size))
            deliver(target, target, epilogue, b.image, channels, at)
            return
        total = space.array((b.groups, v.outputs, b.images * size), v.compute)
        np.matmul(left, right, out=total)
        tiles = total.reshape(-1, b.images, size)
        for i in range(b.images):
            deliver(tiles[:, i], out[b.image + i, channels, at], epilogue, b.image + i, channels, at)


def gather(f: Array, b: Block, v: Volume, space: Space) -> Array:
    """Return the patches `[channels, depth, column, row, images, rows, columns]` of a frame."""
    depth, row, column = v.axes
    plain = v.taps == row.stride == column.stride == 1
    if plain and b.images == 1 and f.flags.c_contiguous:
        return f
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


def two_steps(v: Volume) -> bool:
    """Whether to gather along the columns first: copies of short or strided rows are slow."""
    _, row, column = v.axes
    shared = row.kernel > row.stride and column.kernel > 1
    return shared and (column.out < SHORT_ROW or column.stride > 1)


def spread(f: Array, first: int, step: int, count: int, v: Volume, space: Space) -> Array:
    """Gather along the columns: rows `first + j*step` of a frame as `[n, c, d, column, j, *]`."""
    column = v.axes[2]
    part = f[:, :, :, first : first + (count - 1) * step + 1 : step]
    if column.kernel == 1 and column.stride == 1 and part.strides[3] == column.out * v.itemsize:
        return part[:, :, :, None]
    rows = space.array((*f.shape[:3], column.kernel, count, column.out), v.compute)
    n, c, d, r, e = part.strides
    rows[...] = overlapping(part, rows.shape, (n, c, d, e * column.dilation, r, e * column.stride))
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


@dataclass(frozen=True)
class Shifted:
    """Gather all taps but those of the row axis, whose products are added.

    `stacked`: one product for all taps that share rows, instead of one per tap; it is larger, but
    computes the taps for rows that they do not need.
    """

    v: Volume
    matrices: Sequence[Array]
    stacked: bool
    limit: int = 1 << 20
    least: int = 256

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        v = self.v
        data = v.data(x)
        y = out.reshape(v.images, v.groups * v.outputs, v.plane)
        row = v.axes[ROW]
        gathered = v.channels * v.taps // row.kernel * min(row.stride, row.kernel)
        terms = v.outputs * (row.kernel if self.stacked else 1)
        blocks = partition(v, (gathered + terms) * v.itemsize, self.limit, self.least, False)
        team.each(blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _block(
        self, x: Array, out: Array, b: Block, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        target, channels, at = place(out, b, v)
        size = target.shape[1]
        shape = (b.groups, v.outputs, size)
        total = target.reshape(shape) if v.direct else space.array(shape, v.compute)
        f = seen(x, b, v, space)
        begun = False
        add = self._stack if self.stacked else self._each
        for taps, matrix in zip(row_taps(v), self.matrices, strict=True):
            count = b.rows + taps.step * (taps.count - 1)
            rows = spread(f, taps.first, v.axes[ROW].stride, count, v, space)
            right = rows.reshape(b.groups, -1, count * v.axes[COLUMN].out)
            left = matrix[:, b.group : b.group + b.groups]
            add(left, right, taps.step * v.axes[COLUMN].out, total, begun, space)
            begun = True
        flat = total.reshape(-1, size)
        deliver(flat, target, epilogue, b.image, channels, at)

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


def place(out: Array, b: Block, v: Volume) -> tuple[Array, slice, slice]:
    """Return a block's part of the output `[N, M, positions]`, its channels and positions."""
    channels = slice(b.group * v.outputs, (b.group + b.groups) * v.outputs)
    width = v.axes[COLUMN].out
    start = (b.depth * v.axes[ROW].out + b.row) * width
    at = slice(start, start + b.rows * width)
    return out[b.image, channels, at], channels, at
