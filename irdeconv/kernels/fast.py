"""Depthwise convolution compiled by numba (the extra `fast`): one pass over the data.

NumPy passes over memory once per tap; here a row of the output takes all taps of the row axis from
the processor's cache. Everything else is matrix products, where NumPy has nothing to gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.kernels.jit import available as available
from irdeconv.kernels.prepared import Epilogue
from irdeconv.kernels.team import Space, Team
from irdeconv.kernels.volume import COLUMN, Volume, deliver
from irdeconv.spec import Array

SLACK = 32  # elements behind a frame that whole vectors may read
BLOCK_BYTES = 1 << 19  # output of a block, for the epilogue to find it in the cache


@dataclass(frozen=True)
class Strip:
    """Neighbouring output channels of an image."""

    image: int
    channels: slice


def strips(v: Volume) -> list[Strip]:
    """Split the output by channels."""
    channels = v.groups * v.outputs
    step = max(1, min(channels, BLOCK_BYTES // (v.plane * v.itemsize)))
    return [
        Strip(n, slice(m, min(m + step, channels)))
        for n in range(v.images)
        for m in range(0, channels, step)
    ]


@dataclass(frozen=True)
class Depthwise:
    """One input channel per group; `weights` are `[M, taps]`, `offsets` see below."""

    v: Volume
    blocks: Sequence[Strip]
    weights: Array
    offsets: Array

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        v = self.v
        data = v.data(x)
        if not data.flags.c_contiguous or data.dtype != v.compute:
            given, data = data, team.space.array(data.shape, v.compute)
            data[...] = given
        y = out.reshape(*out.shape[:2], v.plane)
        team.each(self.blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _block(
        self, x: Array, out: Array, b: Strip, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        target = out[b.image, b.channels]
        total = target if v.direct else space.array(target.shape, v.compute)
        shape = frame_shape(v)
        frame = space.array((math.prod(shape) + SLACK,), v.compute)
        planes = total.reshape(-1, *v.sizes)
        axes = tuple((s, a.begin) for s, a in zip(shape, v.axes, strict=False))
        depthwise = compiled().depthwise
        lanes, places = self._vectors
        first, share = b.channels.start, v.outputs
        where = planes, first, share, axes
        depthwise(x[b.image], self.weights, self.offsets, frame, shape, *where, places, lanes)
        deliver(total, target, epilogue, b.image, b.channels, slice(0, v.plane))

    @cached_property
    def _vectors(self) -> tuple[int, tuple[Array, Array]]:
        return vectors(self.v)


def vectors(v: Volume) -> tuple[int, tuple[Array, Array]]:
    """Return how an output plane is computed by vectors; see `plane` in kernels.compiled.

    The last vectors of a row may overlap, and the last four may be one and the same.
    """
    depth, row, column = v.sizes
    shape = frame_shape(v)
    lanes = next(n for n in (8, 4, 1) if n <= column)
    starts = np.minimum(np.arange(0, column, lanes), column - lanes)
    skip = v.axes[COLUMN].stride // shape[COLUMN]
    d, o, i = np.meshgrid(np.arange(depth), np.arange(row), starts, indexing="ij")
    reads = ((d * shape[4] + o) * shape[5] + i * skip).reshape(-1)
    writes = ((d * row + o) * column + i).reshape(-1)
    more = -reads.size % 4
    both = np.pad(reads, (0, more), "edge"), np.pad(writes, (0, more), "edge")
    return (-lanes if skip == 2 and lanes > 1 else lanes), both


def frame_shape(v: Volume, skips: bool = True) -> tuple[int, ...]:
    """Return the shape of a zero-extended plane, each axis split modulo its stride.

    With `skips` columns of stride 2 are not: reading every second one takes less than splitting.
    """
    depth, row, column = v.axes
    phases = depth.stride, row.stride, 1 if column.stride == 2 and skips else column.stride
    rest = (-(-a.span(a.out) // p) for a, p in zip(v.axes, phases, strict=True))
    return (*phases, *rest)


def offsets(v: Volume, skips: bool = True) -> Array:
    """Return for each tap where in the frame the first output reads it."""
    shape = frame_shape(v, skips)
    found = []
    for k in np.ndindex(*(a.kernel for a in v.axes)):
        taps = zip(k, v.axes, shape, strict=False)
        shifts = [divmod(t * a.dilation, phases) for t, a, phases in taps]
        place = (*(phase for _, phase in shifts), *(shift for shift, _ in shifts))
        found.append(int(np.ravel_multi_index(place, shape)))
    return np.array(found, np.int64)


def weights(v: Volume, w: Array) -> Array:
    """Return the filter as `[M, taps]`."""
    return v.filter(w).reshape(v.groups * v.outputs, v.taps)


@cache
def compiled() -> Any:
    """Import what needs numba."""
    return import_module("irdeconv.kernels.compiled")
