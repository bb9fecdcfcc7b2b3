"""Convolution with a kernel of size 1: matrix products straight on the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.convolution.canonical import (
    FixedBlockwise,
    Volume,
    contiguous,
    deliver,
    flat_planes,
)
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import Epilogue, Fix
from irdeconv.kernels.shared.team import Space
from irdeconv.spec import Array


@dataclass(frozen=True)
class Part:
    """Positions of some groups of an image."""

    image: int
    groups: slice
    positions: slice


def pointwise_blocks(v: Volume) -> list[Part]:
    """Split the output so that a block's input and output have about `pointwise_bytes`."""
    each = (v.channels + v.outputs) * v.itemsize
    sizes = blocking.SIZES
    width = max(sizes.least_columns, sizes.pointwise_bytes // each)
    width = -(-v.plane // -(-v.plane // width))
    groups = max(1, sizes.pointwise_bytes // (each * width))
    return [
        Part(n, g, p)
        for n in range(v.images)
        for g in pieces(v.groups, groups)
        for p in pieces(v.plane, width)
    ]


@dataclass(frozen=True)
class Pointwise(FixedBlockwise[Part]):
    """Multiply blocks of positions, so that what is done to the sums finds them in the cache.

    `matrix` is `[g, M/g, C/g]`.
    """

    matrix: Array

    def _data(self, x: Array, space: Space) -> Array:
        """Return `[N, g, C/g, positions]`."""
        v = self.v
        return flat_planes(x, space).reshape(v.images, v.groups, v.channels, v.plane)

    def _fixed(self, x: Array, out: Array, b: Part, finish: Fix) -> Callable[[Space], None]:
        v = self.v
        channels = slice(b.groups.start * v.outputs, b.groups.stop * v.outputs)
        target = out[b.image, channels, b.positions]
        right, left = x[b.image, b.groups, :, b.positions], self.matrix[b.groups]
        total = target.reshape(right.shape[0], v.outputs, right.shape[2])
        multiply = np.multiply if v.channels == 1 else np.matmul
        if len(left) == 1:
            left, right, total = left[0], right[0], target
        done = finish(target, b.image, channels, b.positions)

        def work(_: Space) -> None:
            multiply(left, right, out=total)
            if done is not None:
                done()

        return work

    def _block(
        self, x: Array, out: Array, b: Part, epilogue: Epilogue | None, space: Space
    ) -> None:
        v = self.v
        channels = slice(b.groups.start * v.outputs, b.groups.stop * v.outputs)
        target = out[b.image, channels, b.positions]
        right = x[b.image, b.groups, :, b.positions]
        if not v.direct:
            right = contiguous(right, v.compute, space)
        shape = (right.shape[0], v.outputs, right.shape[2])
        total = target.reshape(shape) if v.direct else space.array(shape, v.compute)
        if v.channels == 1:
            np.multiply(self.matrix[b.groups], right, out=total)
        else:
            np.matmul(self.matrix[b.groups], right, out=total)
        tile = target if v.direct else total.reshape(target.shape)
        deliver(tile, target, epilogue, b.image, channels, b.positions)
