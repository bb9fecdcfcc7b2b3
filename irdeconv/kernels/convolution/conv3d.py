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
from irdeconv.spec import Array

ROW, COLUMN = 1, 2  # places in the tuples of three axes


@dataclass(frozen=True)
class ConvAxis:
    """One spatial axis: y[o] = sum over k of x[o*stride + k*dilation - begin] * w[k]."""

    size: int = 1
    out: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    begin: int = 0

    @property
    def plain(self) -> bool:
        """Whether output o reads input o and nothing else."""
        return self.kernel == self.stride == 1 and self.begin == 0 and self.size == self.out

    @property
    def padded(self) -> bool:
        """Whether some window leaves the data."""
        return self.begin > 0 or self.span(self.out) - self.begin > self.size

    def span(self, count: int) -> int:
        """Return how many positions the windows of `count` neighbouring outputs cover."""
        return (count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def trimmed(self) -> tuple[ConvAxis, slice]:
        """Return the axis without outer taps that read padding for every output, and the rest."""
        useful = [k for k in range(self.kernel) if self._meets(k * self.dilation - self.begin)]
        first, stop = (useful[0], useful[-1] + 1) if useful else (0, 1)
        kernel, begin = stop - first, self.begin - first * self.dilation
        stride = self.stride if self.out > 1 else 1
        dilation = self.dilation if kernel > 1 else 1
        return ConvAxis(self.size, self.out, kernel, stride, dilation, begin), slice(first, stop)

    def _meets(self, shift: int) -> bool:
        """Whether o*stride + shift is inside the data for some output o."""
        o = max(0, -(shift // self.stride))
        return o < self.out and o * self.stride + shift < self.size


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
    axes: tuple[ConvAxis, ConvAxis, ConvAxis]
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
def as_conv3d(problem: ConvProblem) -> Conv3d:
    """Bring a convolution into the form of three axes."""
    lists = (problem.sizes, problem.kernel, problem.strides, problem.dilations, problem.begin)
    rows = zip(problem.shape[2:], *lists, strict=True)
    trimmed = [ConvAxis(*row).trimmed() for row in rows]
    axes = [a for a, _ in trimmed if not (a.plain and a.size == 1)] or [ConvAxis()]
    if len(axes) == 1:
        axes = [ConvAxis(), axes[0], ConvAxis()]
    depth, row, column = [ConvAxis()] * (3 - len(axes)) + axes
    return Conv3d(
        images=problem.shape[0],
        groups=problem.groups,
        channels=problem.group_inputs,
        outputs=problem.group_outputs,
        axes=(depth, row, column),
        cuts=tuple(cut for _, cut in trimmed),
        dtype=problem.dtype,
    )
