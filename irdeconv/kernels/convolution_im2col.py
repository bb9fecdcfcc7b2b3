"""Convolution by matrix products: of columns, and plain ones.

The patches of a block of output rows are gathered as a matrix `[g, C/g * taps, positions]` and
multiplied by the filter. A kernel of size 1 needs no patches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import (
    Candidate,
    ConvProblem,
    Epilogue,
    Fix,
    Kernel,
    Piece,
    deliver,
)
from irdeconv.kernels.convolution import (
    COLUMN,
    ROW,
    Blockwise,
    Conv3d,
    Work,
    as_conv3d,
    flat_planes,
    overlapping,
)
from irdeconv.kernels.convolution_rows import (
    RowBlock,
    RowBlocks,
    gather_columns,
    partition,
)
from irdeconv.kernels.jit import MULTIPLIED
from irdeconv.kernels.products import (
    ProductCall,
    aliases,
    lanes,
    multiply,
    product_calls,
    product_cost,
)
from irdeconv.kernels.recorded_calls import (
    Calls,
    ProgramCode,
    in_turn,
    recorded_matmuls,
    recorded_program,
    remade,
)
from irdeconv.kernels.scratch import ITEMS, Space, contiguous, pieces, shares
from irdeconv.kernels.threads import Team

LONG_WINDOW = 16  # a copy of windows longer than this costs no more than its elements
SHORT_ROW = 64  # a copy of rows shorter than this costs more than its elements


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if a matrix product per position is not enough."""
    conv = as_conv3d(problem)
    if conv.plain:
        return []
    blocks = partition(conv, conv.channels * conv.taps * conv.itemsize)

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
    packed = property(lambda self: [self.matrix])

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """See `FixedKernel`."""
        return super().fixed(x, out, finish) if self.blocks[0].images == 1 else None

    def _fixed(self, x: Array, out: Array, b: RowBlock, finish: Fix) -> Piece:
        target = out[b.image, b.channels, b.positions]
        work = remade(lambda space: self._calls(x, target, b, space))
        return in_turn([work], finish(target, b.image, b.channels, b.positions))

    def _calls(self, x: Array, total: Array, b: RowBlock, space: Space) -> Calls:
        """Return the calls that compute a block into `total`."""
        conv = self.conv
        f, calls = b.frame.calls(x, space)
        cols, more = gather(f, b, conv, space)
        right = cols.reshape(b.count, conv.channels * conv.taps, -1)
        target = total.reshape(b.count, conv.outputs, right.shape[2])
        products = product_calls(self.matrix[b.groups], right, target)
        return [*calls, *more, *(partial(fn, *arrays) for fn, *arrays in products)]

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv, target = self.conv, out[b.image, b.channels, b.positions]
        size, direct = target.shape[1], self.conv.direct and b.images == 1
        shape = b.count * conv.outputs, b.images * size
        total = target if direct else space.array(shape, conv.compute)
        for call in self._calls(x, total, b, space):
            call()
        tiles = total.reshape(-1, b.images, size)
        for i in range(b.images):
            target = out[b.image + i, b.channels, b.positions]
            deliver(tiles[:, i], target, epilogue, b.image + i, b.channels, b.positions)


def gather(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> tuple[Array, Calls]:
    """Return the patches `[channels, depth, column, row, images, rows, columns]` of a frame."""
    depth, row, column = conv.axes
    plain = conv.taps == row.stride == column.stride == 1
    if plain and b.images == 1 and f.flags.c_contiguous:
        return f, []
    if by_windows(conv):
        return windows_of(f, b, conv, space)
    cols = space.array(
        (f.shape[1], depth.kernel, column.kernel, row.kernel, b.images, b.rows, column.out),
        conv.compute,
    )
    if two_steps(conv):
        rows, calls = gather_columns(f, row.span(b.rows), conv, space)
        n, c, d, k, r, e = rows.strides
        steps = (c, d, k, r * row.dilation, n, r * row.stride, e)
        calls.append(partial(np.copyto, cols, overlapping(rows, cols.shape, steps)))
    else:
        n, c, d, r, e = f.strides
        steps = (c, d, e * column.dilation, r * row.dilation, n, r * row.stride, e * column.stride)
        calls = [partial(np.copyto, cols, overlapping(f, cols.shape, steps))]
    return cols, calls


def by_windows(conv: Conv3d) -> bool:
    """Whether to gather window by window: a long kernel and a stride along a single axis."""
    _, row, column = conv.axes
    single = column.out == column.kernel == 1 and row.dilation == conv.groups == 1
    return single and row.stride > 1 and row.kernel >= LONG_WINDOW


def windows_of(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> tuple[Array, Calls]:
    """Return the patches of a single axis `[1, channels * taps, images * rows]`, transposed."""
    row = conv.axes[ROW]
    n, c, d, r, _ = f.strides
    shape = (b.images, b.rows, f.shape[1], f.shape[2], row.kernel)
    seen = overlapping(f, shape, (n, r * row.stride, c, d, r))
    if shape[0] == shape[2] == shape[3] == 1 and row.kernel <= row.stride and r == conv.itemsize:
        return seen.reshape(1, b.rows, row.kernel).swapaxes(1, 2), []
    cols = space.array(shape, conv.compute)
    patches = cols.reshape(1, b.images * b.rows, -1).swapaxes(1, 2)
    return patches, [partial(np.copyto, cols, seen)]


def two_steps(conv: Conv3d) -> bool:
    """Whether to gather along the columns first: copies of short or strided rows are slow."""
    _, row, column = conv.axes
    shared = row.kernel > row.stride and column.kernel > 1
    return shared and (column.out < SHORT_ROW or column.stride > 1)


SHARED_PRODUCT_NS = 20_000.0  # nanoseconds of a product in a piece of its own, at least
ALIASED = 0.7  # strided accesses per element of rows that compete for the same places in a cache


def pointwise_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if a matrix product per position is enough."""
    conv = as_conv3d(problem)
    if not conv.plain:
        return []
    blocks = blocks_of(conv)

    def prepare(w: Array) -> Kernel:
        matrix = conv.filter(w).reshape(conv.groups, conv.outputs, conv.channels)
        return Pointwise(conv, blocks, matrix)

    return [pointwise_work_of(conv, blocks).candidate("pointwise", prepare)]


def pointwise_work_of(conv: Conv3d, blocks: Sequence[PositionBlock]) -> Work:
    """Count the products."""
    work, first = Work(conv), blocks[0]
    groups, at = first.groups, first.positions
    work.blocks = len(blocks)
    size, together = at.stop - at.start, groups.stop - groups.start
    count = len(blocks) * together
    work.convert(together * conv.channels * size, together * conv.outputs * size)
    work.multiply(conv.outputs, conv.channels, size, count)
    if conv.channels > 1 and aliases(conv.plane * conv.itemsize):
        work.strided += ALIASED * (conv.channels + conv.outputs) * size * count
    return work


@dataclass(frozen=True)
class PositionBlock:
    """Positions of some groups of an image."""

    image: int
    groups: slice
    positions: slice


def blocks_of(conv: Conv3d) -> list[PositionBlock]:
    """Split the output so that a block's input and output have about `pointwise_bytes`."""
    each = (conv.channels + conv.outputs) * conv.itemsize
    sizes = blocking.SIZES
    width = max(sizes.least_columns, sizes.pointwise_bytes // each)
    width = -(-conv.plane // -(-conv.plane // width))
    groups = max(1, sizes.pointwise_bytes // (each * width))
    if groups >= conv.groups:
        # Always, not for threads only: where a product is cut could change its sums.
        work = conv.groups * product_cost(conv.outputs, conv.channels, conv.plane)
        wanted = min(ITEMS, int(work / SHARED_PRODUCT_NS)) // conv.images
        width = min(width, lanes(shares(conv.plane, wanted)))
    return [
        PositionBlock(n, g, p)
        for n in range(conv.images)
        for g in pieces(conv.groups, groups)
        for p in pieces(conv.plane, width)
    ]


@dataclass(frozen=True)
class Pointwise(Blockwise[PositionBlock]):
    """Multiplies blocks of positions, still cached afterwards; `matrix` is `[g, M/g, C/g]`."""

    matrix: Array
    packed = property(lambda self: [self.matrix])

    def _data(self, x: Array, space: Space) -> Array:
        """Return `[N, g, C/g, positions]`."""
        conv = self.conv
        return flat_planes(x, space).reshape(conv.images, conv.groups, conv.channels, conv.plane)

    def _fixed(self, x: Array, out: Array, b: PositionBlock, finish: Fix) -> Piece:
        conv = self.conv
        channels = slice(b.groups.start * conv.outputs, b.groups.stop * conv.outputs)
        target = out[b.image, channels, b.positions]
        right, left = x[b.image, b.groups, :, b.positions], self.matrix[b.groups]
        total = target.reshape(right.shape[0], conv.outputs, right.shape[2])
        done = finish(target, b.image, channels, b.positions)

        if conv.channels == conv.outputs == 1 and jit.available() and jit.works():
            code = ProgramCode([(MULTIPLIED, (0, 1), 2)], (), 0)
            product = recorded_program(code, [right[:, 0], self.matrix[b.groups, :, 0]], target)
            if product is not None:
                return in_turn([product], done)
        if len(left) == 1:
            left, right, total = left[0], right[0], target

        return in_turn([_products(product_calls(left, right, total))], done)

    def _block(
        self, x: Array, out: Array, b: PositionBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv = self.conv
        channels = slice(b.groups.start * conv.outputs, b.groups.stop * conv.outputs)
        target = out[b.image, channels, b.positions]
        right = x[b.image, b.groups, :, b.positions]
        if not conv.direct:
            right = contiguous(right, conv.compute, space)
        shape = (right.shape[0], conv.outputs, right.shape[2])
        total = target.reshape(shape) if conv.direct else space.array(shape, conv.compute)
        multiply(self.matrix[b.groups], right, out=total)
        tile = target if conv.direct else total.reshape(target.shape)
        deliver(tile, target, epilogue, b.image, channels, b.positions)


def _products(calls: list[ProductCall]) -> Piece:

    def work(_: Space) -> None:
        for fn, a, b, result in calls:
            fn(a, b, result)

    return recorded_matmuls(calls) or work
