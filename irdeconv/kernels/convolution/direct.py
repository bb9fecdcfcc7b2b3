"""Convolution with few channels, compiled by numba (the extra `fast`), without any columns.

Vectors of positions are multiplied by the filters of four outputs at once, straight from
zero-extended planes whose columns are split modulo the stride; pointwise straight from the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.convolution.conv3d import COLUMN, Conv3d, as_conv3d
from irdeconv.kernels.convolution.depthwise import compiled
from irdeconv.kernels.convolution.frames import SLACK, phase_shape, tap_offsets
from irdeconv.kernels.convolution.work import Work
from irdeconv.kernels.shared import blocking, jit, products
from irdeconv.kernels.shared.blocking import ITEMS
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Kernel, deliver
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.scratch import Space, contiguous
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

GROUP, PAIR = 4, 2  # outputs and vectors that are computed together
FACTORS = 1 << 16  # elements of a filter that stays in the level 2 cache


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, where it applies and numba is there."""
    conv = as_conv3d(problem)
    if not applies(conv) or not jit.available():
        return []
    blocks = blocks_of(conv)

    def prepare(w: Array) -> Kernel:
        jit.load()
        return DirectConvolution(conv, blocks, arranged(conv, w), channel_offsets(conv))

    return [work_of(conv, blocks).candidate("direct", prepare)]


def work_of(conv: Conv3d, blocks: Sequence[VectorBlock]) -> Work:
    """Count products of whole vectors by four outputs, and the copies into frames."""
    work = Work(conv)
    work.blocks = conv.images * len(blocks)
    vectors = sum(len(p.places[0]) for p in blocks)
    groups = -(-conv.outputs // GROUP)
    lanes = 1.05 * conv.images * vectors * LANES
    work.multiplied = lanes * groups * GROUP * conv.channels * conv.taps
    work.looped = 0.6 * conv.images * vectors * groups
    if conv.plain:
        work.scratch += conv.channels * pitch(conv)
        work.copy(conv.images * conv.channels * conv.plane, conv.plane // len(blocks))
    else:
        work.scratch += conv.channels * frame_size(conv)
        work.copy(2 * conv.images * conv.channels * frame_size(conv), conv.axes[COLUMN].size)
    return work


def applies(conv: Conv3d) -> bool:
    """Whether the kernel computes a convolution."""
    width = conv.plane if conv.plain else conv.sizes[2]
    small = conv.outputs * conv.channels * conv.taps <= FACTORS
    return (
        conv.groups == 1
        and conv.dtype == "float32"
        and conv.outputs >= GROUP
        and width >= LANES
        and small
    )


@dataclass(frozen=True)
class VectorBlock:
    """Neighbouring positions: where their vectors are read and written, see `direct`."""

    positions: slice
    places: tuple[Array, Array]


def block_width(conv: Conv3d, column: int) -> int:
    """Return how many positions of a row are computed together."""
    room = blocking.SIZES.direct_bytes // (4 * conv.outputs)
    return min(column, max(LANES, room // LANES * LANES))


def pitch(conv: Conv3d) -> int:
    """Return the distance between the channels of a pointwise convolution's block."""
    return products.pitch(min(conv.plane, block_width(conv, conv.plane) + LANES), conv.compute)


def blocks_of(conv: Conv3d) -> list[VectorBlock]:
    """Split an output plane by rows; the plane of a pointwise convolution is a single row."""
    depth, row, column = (1, 1, conv.plane) if conv.plain else conv.sizes
    shape = (1,) * 5 + (conv.plane,) if conv.plain else phase_shape(conv, skips=False)
    width = block_width(conv, column)
    count = max(1, blocking.SIZES.direct_bytes // (4 * conv.outputs * column))
    blocks = []
    for first in range(0, depth * row, count):
        rows = np.arange(first, min(first + count, depth * row))
        cuts = [*range(0, column - LANES + 1, width), column]  # no block is narrower than a vector
        for at, stop in pairwise(cuts):
            # The last vector of a row overlaps the one before it.
            starts = np.minimum(np.arange(at, stop, LANES), stop - LANES)
            left = at if conv.plain else 0
            reads = (rows // row * shape[4] + rows % row)[:, None] * shape[5] + starts - left
            writes = rows[:, None] * column + starts
            more = -reads.size % PAIR
            pair = [np.pad(a.reshape(-1), (0, more), "edge") for a in (reads, writes)]
            positions = slice(int(rows[0]) * column + at, int(rows[-1]) * column + stop)
            blocks.append(VectorBlock(positions, (pair[0], pair[1])))
    return blocks


def arranged(conv: Conv3d, w: Array) -> Array:
    """Return the filter as `[ceil(M/4), taps, 4]`, the last four outputs in the last row."""
    matrix = conv.filter(w).reshape(conv.outputs, -1)
    starts = [min(m, conv.outputs - GROUP) for m in range(0, conv.outputs, GROUP)]
    return np.ascontiguousarray(np.stack([matrix[m : m + GROUP].T for m in starts]))


def frame_size(conv: Conv3d) -> int:
    """Return the elements of a frame, with what vectors may read behind it."""
    return math.prod(phase_shape(conv, skips=False)) + SLACK


def channel_offsets(conv: Conv3d) -> Array:
    """Return where a vector of positions reads each channel's taps."""
    if conv.plain:
        return np.arange(conv.channels) * pitch(conv)
    channels = np.arange(conv.channels)[:, None] * frame_size(conv)
    return (channels + tap_offsets(conv, skips=False)).reshape(-1)


@dataclass(frozen=True)
class DirectConvolution:
    """A convolution of one group; `weights` see `arranged`."""

    conv: Conv3d
    blocks: Sequence[VectorBlock]
    weights: Array
    offsets: Array

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        conv = self.conv
        data, y = conv.data(x), out.reshape(conv.images, conv.outputs, conv.plane)

        def work(n: int, source: Array, block: VectorBlock, space: Space) -> None:
            base = n * conv.outputs * conv.plane
            more = block.places, out.reshape(-1), conv.plane, conv.outputs, base
            if conv.plain:
                source = self._near(source, block.positions, space)
            compiled().direct(source, self.weights, self.offsets, *more)
            tile = y[n, :, block.positions]
            deliver(tile, tile, epilogue, n, slice(0, conv.outputs), block.positions)

        def whole(n: int, space: Space) -> None:
            source = self._source(data[n], space)
            used = space.used
            for block in self.blocks:
                space.release(used)
                work(n, source, block, space)

        if conv.images > 1 and len(self.blocks) < ITEMS:
            team.each(range(conv.images), whole)
            return
        used = team.space.used
        for n in range(conv.images):
            team.space.release(used)
            each = partial(work, n, self._source(data[n], team.space))
            team.each(self.blocks, each)

    def _source(self, x: Array, space: Space) -> Array:
        """Return what the compiled code reads of an image."""
        conv = self.conv
        image = contiguous(x, conv.compute, space)
        if conv.plain:
            return image.reshape(-1)
        frames = space.array((conv.channels, frame_size(conv)), conv.compute)
        shape = phase_shape(conv, skips=False)
        axes = tuple((s, a.begin) for s, a in zip(shape, conv.axes, strict=False))
        compiled().fill_all(image, frames, shape, axes)
        return frames.reshape(-1)

    def _near(self, x: Array, positions: slice, space: Space) -> Array:
        """Copy some positions of all channels to where they do not compete for the cache."""
        near = space.array((self.conv.channels, pitch(self.conv)), x.dtype)
        part = x.reshape(self.conv.channels, -1)[:, positions]
        near[:, : part.shape[1]] = part
        return near.reshape(-1)
