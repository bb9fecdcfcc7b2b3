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

from irdeconv.kernels.convolution.canonical import Volume, contiguous, deliver
from irdeconv.kernels.convolution.depthwise import SLACK, compiled, frame_shape, offsets
from irdeconv.kernels.shared import blocking, products
from irdeconv.kernels.shared.blocking import ITEMS
from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.team import Space, Team
from irdeconv.spec import Array

LANES, GROUP, PAIR = 8, 4, 2  # positions of a vector, outputs and vectors computed together
FACTORS = 1 << 16  # elements of a filter that stays in the level 2 cache


def applies(v: Volume) -> bool:
    """Whether `Direct` computes a convolution."""
    width = v.plane if v.plain else v.sizes[2]
    small = v.outputs * v.channels * v.taps <= FACTORS
    return (
        v.groups == 1 and v.dtype == "float32" and v.outputs >= GROUP and width >= LANES and small
    )


@dataclass(frozen=True)
class Piece:
    """Neighbouring positions: where their vectors are read and written, see `direct`."""

    positions: slice
    places: tuple[Array, Array]


def block_width(v: Volume, column: int) -> int:
    """Return how many positions of a row are computed together."""
    return min(column, max(LANES, blocking.SIZES.direct_bytes // (4 * v.outputs) // LANES * LANES))


def pitch(v: Volume) -> int:
    """Return the distance between the channels of a pointwise convolution's block."""
    return products.pitch(min(v.plane, block_width(v, v.plane) + LANES), v.compute)


def split(v: Volume) -> list[Piece]:
    """Split an output plane by rows; the plane of a pointwise convolution is a single row."""
    depth, row, column = (1, 1, v.plane) if v.plain else v.sizes
    shape = (1,) * 5 + (v.plane,) if v.plain else frame_shape(v, skips=False)
    width = block_width(v, column)
    count = max(1, blocking.SIZES.direct_bytes // (4 * v.outputs * column))
    found = []
    for first in range(0, depth * row, count):
        rows = np.arange(first, min(first + count, depth * row))
        cuts = [*range(0, column - LANES + 1, width), column]  # no piece is narrower than a vector
        for at, stop in pairwise(cuts):
            # The last vector of a row overlaps the one before it.
            starts = np.minimum(np.arange(at, stop, LANES), stop - LANES)
            left = at if v.plain else 0
            reads = (rows // row * shape[4] + rows % row)[:, None] * shape[5] + starts - left
            writes = rows[:, None] * column + starts
            more = -reads.size % PAIR
            pair = [np.pad(a.reshape(-1), (0, more), "edge") for a in (reads, writes)]
            positions = slice(int(rows[0]) * column + at, int(rows[-1]) * column + stop)
            found.append(Piece(positions, (pair[0], pair[1])))
    return found


def arranged(v: Volume, w: Array) -> Array:
    """Return the filter as `[ceil(M/4), taps, 4]`, the last four outputs in the last row."""
    matrix = v.filter(w).reshape(v.outputs, -1)
    starts = [min(m, v.outputs - GROUP) for m in range(0, v.outputs, GROUP)]
    return np.ascontiguousarray(np.stack([matrix[m : m + GROUP].T for m in starts]))


def frame_size(v: Volume) -> int:
    """Return the elements of a frame, with what vectors may read behind it."""
    return math.prod(frame_shape(v, skips=False)) + SLACK


def all_offsets(v: Volume) -> Array:
    """Return where a vector of positions reads each channel's taps."""
    if v.plain:
        return np.arange(v.channels) * pitch(v)
    channels = np.arange(v.channels)[:, None] * frame_size(v)
    return (channels + offsets(v, skips=False)).reshape(-1)


@dataclass(frozen=True)
class Direct:
    """A convolution of one group; `weights` see `arranged`."""

    v: Volume
    pieces: Sequence[Piece]
    weights: Array
    offsets: Array

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        v = self.v
        data, y = v.data(x), out.reshape(v.images, v.outputs, v.plane)

        def work(n: int, source: Array, piece: Piece, space: Space) -> None:
            base = n * v.outputs * v.plane
            more = piece.places, out.reshape(-1), v.plane, v.outputs, base
            if v.plain:
                source = self._near(source, piece.positions, space)
            compiled().direct(source, self.weights, self.offsets, *more)
            tile = y[n, :, piece.positions]
            deliver(tile, tile, epilogue, n, slice(0, v.outputs), piece.positions)

        def whole(n: int, space: Space) -> None:
            source = self._source(data[n], space)
            used = space.used
            for piece in self.pieces:
                space.release(used)
                work(n, source, piece, space)

        if v.images > 1 and len(self.pieces) < ITEMS:
            team.each(range(v.images), whole)
            return
        used = team.space.used
        for n in range(v.images):
            team.space.release(used)
            each = partial(work, n, self._source(data[n], team.space))
            team.each(self.pieces, each)

    def _source(self, x: Array, space: Space) -> Array:
        """Return what the compiled code reads of an image."""
        own = contiguous(x, self.v.compute, space)
        if self.v.plain:
            return own.reshape(-1)
        return self._fill(own, space.array((self.v.channels, frame_size(self.v)), self.v.compute))

    def _near(self, x: Array, positions: slice, space: Space) -> Array:
        """Copy some positions of all channels to where they do not compete for the cache."""
        near = space.array((self.v.channels, pitch(self.v)), x.dtype)
        part = x.reshape(self.v.channels, -1)[:, positions]
        near[:, : part.shape[1]] = part
        return near.reshape(-1)

    def _fill(self, x: Array, frames: Array) -> Array:
        shape = frame_shape(self.v, skips=False)
        axes = tuple((s, a.begin) for s, a in zip(shape, self.v.axes, strict=False))
        compiled().fill_all(x, frames, shape, axes)
        return frames.reshape(-1)
