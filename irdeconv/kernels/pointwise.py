"""Convolution with a kernel of size 1: matrix products straight on the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.prepared import Epilogue
from irdeconv.kernels.team import Space, Team
from irdeconv.kernels.volume import Volume, deliver, flat_planes
from irdeconv.spec import Array


@dataclass(frozen=True)
class Pointwise:
    """Multiply blocks of positions, so that what is done to the sums finds them in the cache."""

    v: Volume
    matrix: Array
    limit: int = 1 << 20
    least: int = 256

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        v = self.v
        planes = flat_planes(x, team.space)
        data = planes.reshape(v.images, v.groups, v.channels, v.plane)
        y = out.reshape(v.images, v.groups * v.outputs, v.plane)
        width = max(self.least, self.limit // ((v.channels + v.outputs) * v.itemsize))
        width = -(-v.plane // -(-v.plane // width))
        groups = max(1, self.limit // ((v.channels + v.outputs) * v.itemsize * width))
        blocks = [
            (n, slice(g, min(g + groups, v.groups)), slice(p, min(p + width, v.plane)))
            for n in range(v.images)
            for g in range(0, v.groups, groups)
            for p in range(0, v.plane, width)
        ]
        team.each(blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _block(
        self,
        x: Array,
        out: Array,
        block: tuple[int, slice, slice],
        epilogue: Epilogue | None,
        space: Space,
    ) -> None:
        v = self.v
        image, groups, at = block
        channels = slice(groups.start * v.outputs, groups.stop * v.outputs)
        target = out[image, channels, at]
        right = x[image, groups, :, at]
        shape = (groups.stop - groups.start, v.outputs, at.stop - at.start)
        if right.dtype != v.compute:
            narrow, right = right, space.array(right.shape, v.compute)
            right[...] = narrow
        total = target.reshape(shape) if v.direct else space.array(shape, v.compute)
        np.matmul(self.matrix[groups], right, out=total)
        tile = target if v.direct else total.reshape(target.shape)
        deliver(tile, target, epilogue, image, channels, at)
