"""Convolutions in one form: three spatial axes, without taps that only ever meet padding.

The axes are named depth, row and column; where a convolution has fewer, the missing ones have size
1. A single axis becomes the rows, so that neighbouring rows are adjacent in memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irdeconv.kernels.shared.candidate import Epilogue, Fix, repeated
from irdeconv.kernels.shared.problem import ConvProblem, type_of_sums
from irdeconv.kernels.shared.team import Space, Team
from irdeconv.spec import Array

ROW, COLUMN = 1, 2  # places in the tuples of three axes
B = TypeVar("B")  # a block


@dataclass(frozen=True)
class Axis:
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

    def trimmed(self) -> tuple[Axis, slice]:
        """Return the axis without outer taps that read padding for every output, and the rest."""
        useful = [k for k in range(self.kernel) if self._meets(k * self.dilation - self.begin)]
        first, stop = (useful[0], useful[-1] + 1) if useful else (0, 1)
        kernel, begin = stop - first, self.begin - first * self.dilation
        stride = self.stride if self.out > 1 else 1
        dilation = self.dilation if kernel > 1 else 1
        return Axis(self.size, self.out, kernel, stride, dilation, begin), slice(first, stop)

    def _meets(self, shift: int) -> bool:
        """Whether o*stride + shift is inside the data for some output o."""
        o = max(0, -(shift // self.stride))
        return o < self.out and o * self.stride + shift < self.size


@dataclass(frozen=True)
class Volume:
    """A convolution of `images` x [groups, channels] -> [groups, outputs].

    `channels` and `outputs` are those of one group. `cuts` are the taps that count, along the
    filter's own axes.
    """

    images: int
    groups: int
    channels: int
    outputs: int
    axes: tuple[Axis, Axis, Axis]
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


def volume(problem: ConvProblem) -> Volume:
    """Bring a convolution into the form of three axes."""
    w = problem
    rows = zip(w.shape[2:], w.sizes, w.kernel, w.strides, w.dilations, w.begin, strict=True)
    trimmed = [Axis(*row).trimmed() for row in rows]
    axes = [a for a, _ in trimmed if not (a.plain and a.size == 1)] or [Axis()]
    if len(axes) == 1:
        axes = [Axis(), axes[0], Axis()]
    axes = [Axis()] * (3 - len(axes)) + axes
    n, c = w.shape[:2]
    g = w.groups
    whole = (axes[0], axes[1], axes[2])
    return Volume(n, g, c // g, w.outputs // g, whole, tuple(s for _, s in trimmed), w.dtype)


def overlapping(
    a: Array, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0
) -> Array:
    """Return a view of `a [..., rows, columns]` from row `first` on; strides are in bytes."""
    if a.flags.c_contiguous:
        # A tenth of the time of as_strided, which matters for small layers.
        view: Array = np.ndarray(shape, a.dtype, a, first * a.strides[-2], strides)
        return view
    return as_strided(a[..., first:, :], shape, strides)


def flat_planes(x: Array, space: Space) -> Array:
    """Return `x [N, C, *I]` as `[N, C, positions]`, copied where planes are not contiguous."""
    step = x.itemsize
    for size, stride in zip(reversed(x.shape[2:]), reversed(x.strides[2:]), strict=True):
        if size > 1 and stride != step:
            flat = space.array(x.shape, x.dtype)
            flat[...] = x
            x = flat
            break
        step *= size
    return x.reshape(*x.shape[:2], -1)


@dataclass(frozen=True)
class Frame:
    """A box of the zero-extended input `[N, C, depth, row, column]`: `f[target] = x[source]`.

    `shape` is the box's, `inside` tells that nothing but data is seen, `empty` that none is.
    """

    shape: tuple[int, ...]
    source: tuple[slice, ...]
    target: tuple[slice, ...]
    inside: bool
    empty: bool
    dtype: np.dtype[Any]

    @property
    def elements(self) -> int:
        """How many elements the box has."""
        return math.prod(self.shape)

    def of(self, x: Array, space: Space) -> Array:
        """Return the box in the type of sums; a view of `x` where that is enough."""
        if self.inside and x.dtype == self.dtype:
            return x[self.source]
        f = space.array(self.shape, self.dtype)
        if not self.inside:
            f[...] = 0
        if not self.empty:
            f[self.target] = x[self.source]
        return f


def frame(v: Volume, images: slice, channels: slice, box: Sequence[tuple[int, int, int]]) -> Frame:
    """Describe the box of (start, count, step) along depth, row and column."""
    source, target = [images, channels], [slice(None)] * 2
    counts = []
    for axis, (start, count, step) in zip(v.axes, box, strict=True):
        first = max(0, -(start // step))
        stop = max(first, min(count, (axis.size - 1 - start) // step + 1))
        at = start + first * step
        source.append(slice(at, at + (stop - first - 1) * step + 1, step))
        target.append(slice(first, stop))
        counts.append(count)
    inner = target[2:]
    inside = all((t.start, t.stop) == (0, n) for t, n in zip(inner, counts, strict=True))
    empty = any(t.start == t.stop for t in inner)
    shape = (images.stop - images.start, channels.stop - channels.start, *counts)
    return Frame(shape, tuple(source), tuple(target), inside, empty, v.compute)


def deliver(
    tile: Array, out: Array, epilogue: Epilogue | None, image: int, channels: slice, at: slice
) -> None:
    """Finish a tile `[channels, positions]` and store it into `out`, a view of the same shape."""
    if epilogue is not None:
        epilogue(tile, image, channels, at)
    if tile is not out:
        out[...] = tile


def contiguous(x: Array, dtype: np.dtype[Any], space: Space) -> Array:
    """Return `x` itself if it is C-contiguous and of that type, else a copy that is."""
    if x.flags.c_contiguous and x.dtype == dtype:
        return x
    copy = space.array(x.shape, dtype)
    copy[...] = x
    return copy


@dataclass(frozen=True)
class Blockwise(ABC, Generic[B]):
    """A `Kernel` whose blocks are computed and finished one by one."""

    v: Volume
    blocks: Sequence[B]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        data, y = self._data(x, team.space), self._planes(out)
        team.each(self.blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _data(self, x: Array, space: Space) -> Array:
        """Return what blocks read; `[N, C, depth, row, column]` unless said otherwise."""
        return self.v.data(x)

    def _planes(self, out: Array) -> Array:
        return out.reshape(*out.shape[:2], self.v.plane)

    @abstractmethod
    def _block(self, x: Array, out: Array, b: B, epilogue: Epilogue | None, space: Space) -> None:
        """Compute a block of `out [N, M, positions]`."""


class FixedBlockwise(Blockwise[B]):
    """One that is also a `FixedKernel`: it reads contiguous input where it lies."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return the call for arrays that stay where they are; None where they need a copy."""
        v = self.v
        if not (v.direct and x.flags.c_contiguous and x.dtype == v.compute):
            return None
        data, y = self._data(x, Space()), self._planes(out)
        return repeated([self._fixed(data, y, b, finish) for b in self.blocks])

    @abstractmethod
    def _fixed(self, x: Array, out: Array, b: B, finish: Fix) -> Callable[[Space], None]:
        """Return the call that computes a block."""
