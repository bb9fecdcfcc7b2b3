"""Depthwise convolution compiled by numba (the extra `fast`): one pass over the data.

NumPy passes over memory once per tap; here a row of the output takes all taps of the row axis from
the processor's cache. Everything else is matrix products, where NumPy has nothing to gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.kernels.convolution.canonical import (
    COLUMN,
    FixedBlockwise,
    Volume,
    contiguous,
    deliver,
)
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.candidate import Epilogue, Fix
from irdeconv.kernels.shared.jit import available as available
from irdeconv.kernels.shared.team import Space
from irdeconv.spec import Array

SLACK = 32  # elements behind a frame that whole vectors may read


@dataclass(frozen=True)
class Strip:
    """Neighbouring output channels of an image."""

    image: int
    channels: slice


def strips(v: Volume) -> list[Strip]:
    """Split the output by channels."""
    channels = v.groups * v.outputs
    step = max(1, min(channels, blocking.SIZES.depthwise_bytes // (v.plane * v.itemsize)))
    return [
        Strip(n, slice(m, min(m + step, channels)))
        for n in range(v.images)
        for m in range(0, channels, step)
    ]


@dataclass(frozen=True)
class Depthwise(FixedBlockwise[Strip]):
    """One input channel per group; `weights` are `[M, taps]`, `offsets` see below."""

    weights: Array
    offsets: Array

    def _fixed(self, x: Array, out: Array, b: Strip, finish: Fix) -> Callable[[Space], None]:
        target = out[b.image, b.channels]
        done = finish(target, b.image, b.channels, slice(0, self.v.plane))
        sums = self._sums(x[b.image], target, b.channels.start, self.weights)

        def work(space: Space) -> None:
            sums(space)
            if done is not None:
                done()

        return work if done is not None else sums

    def _block(
        self, x: Array, out: Array, b: Strip, epilogue: Epilogue | None, space: Space
    ) -> None:
        v, target = self.v, out[b.image, b.channels]
        total = target if v.direct else space.array(target.shape, v.compute)
        first, stop = b.channels.start // v.outputs, -(-b.channels.stop // v.outputs)
        part = contiguous(x[b.image, first:stop], v.compute, space)
        left = first * v.outputs
        self._sums(part, total, b.channels.start - left, self.weights[left:])(space)
        deliver(total, target, epilogue, b.image, b.channels, slice(0, v.plane))

    def _sums(self, x: Array, total: Array, first: int, weights: Array) -> Callable[[Space], None]:
        """Return the call that computes the channels from `first` on of those of `weights`."""
        v, taps = self.v, self.offsets
        shape, kind = self._shape, v.compute
        size = math.prod(shape) + SLACK
        axes = tuple((s, a.begin) for s, a in zip(shape, v.axes, strict=False))
        lanes, places = self._vectors
        more = total.reshape(-1, *v.sizes), first, v.outputs, axes, places, lanes
        depthwise = compiled().depthwise

        def work(space: Space) -> None:
            depthwise(x, weights, taps, space.array((size,), kind), shape, *more)

        return work

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return frame_shape(self.v)

    @cached_property
    def _vectors(self) -> tuple[int, tuple[Array, Array]]:
        return vectors(self.v)


def vectors(v: Volume) -> tuple[int, tuple[Array, Array]]:
    """Return how an output plane is computed by vectors; see `plane` in `kernels.compiled`.

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
    return import_module("irdeconv.kernels.compiled.convolution")
