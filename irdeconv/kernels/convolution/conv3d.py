"""Convolutions in one form: three spatial axes, without taps that only ever meet padding.

The axes are named depth, row and column; where a convolution has fewer, the missing ones have size
1. A single axis becomes the rows, so that neighbouring rows are adjacent in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from irdeconv.kernels.shared.problem import ConvProblem, type_of_sums
from irdeconv.kernels.shared.windows import WindowAxis
from irdeconv.spec import Array

ROW, COLUMN = 1, 2  # places in the tuples of three axes


@dataclass(frozen=True)
class Conv3d:
    """A convolution of `images` x [groups, channels] -> [groups, outputs].

    `channels` and `outputs` are those of one group. `cuts` are the taps that count, along the
    filter's own axes.
    """

    images: int
    groups: int
    channels: int
    outputs: int
    axes: tuple[WindowAxis, WindowAxis, WindowAxis]
    cuts: tuple[slice, ...]
    dtype: str

    @cached_property
    def compute(self) -> np.dtype[Any]:
        """The type of sums."""
        return type_of_sums(self.dtype)

    @cached_property
    def itemsize(self) -> int:
        """Bytes per element of `compute`."""
        return self.compute.itemsize

    @cached_property
    def direct(self) -> bool:
        """Whether sums may be written to the output as they are."""
        return self.compute == np.dtype(self.dtype)

    @cached_property
    def taps(self) -> int:
        """The product of K."""
        return math.prod(a.kernel for a in self.axes)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The output's spatial sizes."""
        depth, row, column = self.axes
        return depth.out, row.out, column.out

    @cached_property
    def plane(self) -> int:
        """Positions of an output plane."""
        return math.prod(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether it is one matrix product per position."""
        return all(a.plain for a in self.axes)

    def data(self, x: Array) -> Array:
        """Return the view `[N, C, depth, row, column]` of the input."""
        return x.reshape(self._shape)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return (self.images, self.groups * self.channels, *(a.size for a in self.axes))

    def filter(self, w: Array) -> Array:
        """Return `[g, M/g, C/g, depth, row, column]` of the taps that count, in `compute`."""
        index: Any = (..., *self.cuts)
        part = w[index]
        shape = (*w.shape[:3], *(a.kernel for a in self.axes))
        return np.ascontiguousarray(part, self.compute).reshape(shape)


@lru_cache(maxsize=64)  # every kernel asks
def as_conv3d(problem: ConvProblem, *, along: int = ROW) -> Conv3d:
    """Bring a convolution into the form of three axes; an only one becomes axis `along`."""
    trimmed = [a.trimmed() for a in problem.axes(problem.shape[2:], problem.sizes)]
    axes = [a for a, _ in trimmed if not (a.plain and a.size == 1)] or [WindowAxis()]
    if len(axes) == 1:
        axes = [axes[0] if i == along else WindowAxis() for i in range(3)]
    depth, row, column = [WindowAxis()] * (3 - len(axes)) + axes
    return Conv3d(
        images=problem.shape[0],
        groups=problem.groups,
        channels=problem.group_inputs,
        outputs=problem.group_outputs,
        axes=(depth, row, column),
        cuts=tuple(cut for _, cut in trimmed),
        dtype=problem.dtype,
    )
