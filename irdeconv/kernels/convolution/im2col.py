"""Convolution as a product of the filter with columns, the patches that the windows see.

Per block of rows of the output, patches are gathered as a matrix `[g, C/g * taps, positions]` and
multiplied by the filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.kernels.convolution.blockwise import Blockwise
from irdeconv.kernels.convolution.conv3d import COLUMN, ROW, Conv3d, as_conv3d
from irdeconv.kernels.convolution.frames import overlapping
from irdeconv.kernels.convolution.row_blocks import RowBlock, RowBlocks, gather_columns, partition
from irdeconv.kernels.convolution.work import Work
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Kernel, deliver
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import multiply
from irdeconv.kernels.shared.scratch import Space
from irdeconv.spec import Array

LONG_WINDOW = 16  # a copy of windows longer than this costs no more than its elements
SHORT_ROW = 64  # a copy of rows shorter than this costs more than its elements


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, where a matrix product per position is not enough."""
    conv = as_conv3d(problem)
    if conv.plain:
        return []
    blocks = partition(conv, conv.channels * conv.taps * conv.itemsize, True)

    def prepare(w: Array) -> Kernel:
        # Rows innermost, as `gather` lays out the patches.
        matrix = conv.filter(w).swapaxes(-1, -2).reshape(conv.groups, conv.outputs, -1)
        return Im2col(conv, list(blocks), matrix)

    return [work_of(conv, blocks).candidate("columns", prepare)]


def work_of(conv: Conv3d, blocks: RowBlocks) -> Work:
    """Count gathering every tap and one product per block and group."""
    work, first = Work(conv), blocks[0]
    row, column = conv.axes[ROW], conv.axes[COLUMN]
    depth = conv.channels * conv.taps
    work.blocks = len(blocks)
    size = first.rows * column.out * first.images
    work.convert(0, first.count * conv.outputs * size if first.images == 1 else 0)
    work.multiply(conv.outputs, depth, size, len(blocks) * first.count)
    everything = len(blocks) * first.count * size * depth
    copied = work.frame(first.frame.elements, len(blocks))
    if copied and first.images == 1 and conv.taps == 1 and row.stride == column.stride == 1:
        return work
    work.scratch += everything // len(blocks)
    if by_windows(conv):
        work.copy(everything, row.kernel)
        work.steps += 1
    elif two_steps(conv):
        rows = len(blocks) * first.count * conv.channels * conv.taps // row.kernel
        some = rows * row.span(first.rows) * column.out * first.images
        work.copy(some, column.out, column.stride > 1)
        work.scratch += some // len(blocks)
        flat = row.stride == 1
        work.copy(everything, (first.rows if flat else 1) * column.out)
        work.steps += 2
    else:
        long = column.out if column.kernel * column.stride > 1 or column.size > 1 else first.rows
        stride = column.stride if column.out > 1 else row.stride
        work.copy(everything, long, stride > 1)
        work.steps += 1
    if first.images > 1:
        work.scratch += conv.groups * conv.outputs * size
        work.copy(len(blocks) * size * conv.groups * conv.outputs, size // first.images)
        work.steps += first.images
    return work


@dataclass(frozen=True)
class Im2col(Blockwise[RowBlock]):
    """Gather every tap, multiply once; `matrix` is `[g, M/g, C/g * taps]`, rows innermost."""

    matrix: Array

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv = self.conv
        cols = gather(b.frame.of(x, space), b, conv, space)
        right = cols.reshape(b.count, conv.channels * conv.taps, -1)
        left = self.matrix[b.groups]
        target = out[b.image, b.channels, b.positions]
        size = target.shape[1]
        if conv.direct and b.images == 1:
            multiply(left, right, out=target.reshape(b.count, conv.outputs, size))
            deliver(target, target, epilogue, b.image, b.channels, b.positions)
            return
        total = space.array((b.count, conv.outputs, b.images * size), conv.compute)
        multiply(left, right, out=total)
        tiles = total.reshape(-1, b.images, size)
        for i in range(b.images):
            target = out[b.image + i, b.channels, b.positions]
            deliver(tiles[:, i], target, epilogue, b.image + i, b.channels, b.positions)


def gather(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> Array:
    """Return the patches `[channels, depth, column, row, images, rows, columns]` of a frame."""
    depth, row, column = conv.axes
    plain = conv.taps == row.stride == column.stride == 1
    if plain and b.images == 1 and f.flags.c_contiguous:
        return f
    if by_windows(conv):
        return windows_of(f, b, conv, space)
    cols = space.array(
        (f.shape[1], depth.kernel, column.kernel, row.kernel, b.images, b.rows, column.out),
        conv.compute,
    )
    if two_steps(conv):
        rows = gather_columns(f, 0, 1, row.span(b.rows), conv, space)
        n, c, d, k, r, e = rows.strides
        steps = (c, d, k, r * row.dilation, n, r * row.stride, e)
        cols[...] = overlapping(rows, cols.shape, steps)
    else:
        n, c, d, r, e = f.strides
        steps = (c, d, e * column.dilation, r * row.dilation, n, r * row.stride, e * column.stride)
        cols[...] = overlapping(f, cols.shape, steps)
    return cols


def by_windows(conv: Conv3d) -> bool:
    """Whether to gather window by window: a long kernel and a stride along a single axis."""
    _, row, column = conv.axes
    single = column.out == column.kernel == 1 and row.dilation == conv.groups == 1
    return single and row.stride > 1 and row.kernel >= LONG_WINDOW


def windows_of(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> Array:
    """Return the patches of a single axis `[1, channels * taps, images * rows]`, transposed."""
    row = conv.axes[ROW]
    n, c, d, r, _ = f.strides
    shape = (b.images, b.rows, f.shape[1], f.shape[2], row.kernel)
    seen = overlapping(f, shape, (n, r * row.stride, c, d, r))
    if shape[0] == shape[2] == shape[3] == 1 and row.kernel <= row.stride and r == conv.itemsize:
        return seen.reshape(1, b.rows, row.kernel).swapaxes(1, 2)
    cols = space.array(shape, conv.compute)
    cols[...] = seen
    return cols.reshape(1, b.images * b.rows, -1).swapaxes(1, 2)


def two_steps(conv: Conv3d) -> bool:
    """Whether to gather along the columns first: copies of short or strided rows are slow."""
    _, row, column = conv.axes
    shared = row.kernel > row.stride and column.kernel > 1
    return shared and (column.out < SHORT_ROW or column.stride > 1)
