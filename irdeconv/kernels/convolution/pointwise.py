"""Convolution with a kernel of size 1: matrix products straight on the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irdeconv.kernels.compiled import MULTIPLIED
from irdeconv.kernels.compiled.recorded import in_turn
from irdeconv.kernels.compiled.written import ProgramCode, recorded_program
from irdeconv.kernels.convolution.blockwise import FixedBlockwise
from irdeconv.kernels.convolution.conv3d import Conv3d, as_conv3d
from irdeconv.kernels.convolution.frames import flat_planes
from irdeconv.kernels.convolution.work import Work
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Fix, Kernel, Piece, deliver
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import aliases, multiply, product_calls
from irdeconv.kernels.shared.scratch import Space, contiguous
from irdeconv.spec import Array

ALIASED = 0.7  # strided accesses per element of rows that compete for the same places in a cache


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, where a matrix product per position is enough."""
    conv = as_conv3d(problem)
    if not conv.plain:
        return []
    blocks = blocks_of(conv)

    def prepare(w: Array) -> Kernel:
        matrix = conv.filter(w).reshape(conv.groups, conv.outputs, conv.channels)
        return Pointwise(conv, blocks, matrix)

    return [work_of(conv, blocks).candidate("pointwise", prepare)]


def work_of(conv: Conv3d, blocks: Sequence[PositionBlock]) -> Work:
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
    return [
        PositionBlock(n, g, p)
        for n in range(conv.images)
        for g in pieces(conv.groups, groups)
        for p in pieces(conv.plane, width)
    ]


@dataclass(frozen=True)
class Pointwise(FixedBlockwise[PositionBlock]):
    """Multiply blocks of positions, so that what is done to the sums finds them in the cache.

    `matrix` is `[g, M/g, C/g]`.
    """

    matrix: Array

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
                return in_turn([product, done])
        if len(left) == 1:
            left, right, total = left[0], right[0], target

        calls = product_calls(left, right, total)

        def work(_: Space) -> None:
            for fn, a, b, result in calls:
                fn(a, b, out=result)

        return in_turn([work, done])

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
