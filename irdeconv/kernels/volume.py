"""Convolutions in one form: three spatial axes, without taps that only ever meet padding.

The axes are named depth, row and column; where a convolution has fewer, the missing ones have size
1. A single axis becomes the rows, so that neighbouring rows are adjacent in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irdeconv.kernels.prepared import Epilogue, Windows
from irdeconv.kernels.team import Space
from irdeconv.spec import Array

ROW, COLUMN = 1, 2  # places in the tuples of three axes


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

    @property
    def compute(self) -> np.dtype[Any]:
        """The type of sums: narrow floats are summed in f32."""
        return np.dtype("float64" if self.dtype == "float64" else "float32")

    @property
    def itemsize(self) -> int:
        """Bytes per element of `compute`."""
        return self.compute.itemsize

    @property
    def direct(self) -> bool:
        """Whether sums may be written to the output as they are."""
        return self.compute == np.dtype(self.dtype)

    @property
    def taps(self) -> int:
        """The product of K."""
        return math.prod(a.kernel for a in self.axes)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The output's spatial sizes."""
        depth, row, column = self.axes
        return depth.out, row.out, column.out

    @property
    def plane(self) -> int:
        """Positions of an output plane."""
        return math.prod(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether it is one matrix product per position."""
        return all(a.plain for a in self.axes)

    def data(self, x: Array) -> Array:
        """Return the view `[N, C, depth, row, column]` of the input."""
        return x.reshape(*x.shape[:2], *(a.size for a in self.axes))

    def filter(self, w: Array) -> Array:
        """Return `[g, M/g, C/g, depth, row, column]` of the taps that count, in `compute`."""
        part = w[(..., *self.cuts)]
        shape = (*w.shape[:3], *(a.kernel for a in self.axes))
        return np.ascontiguousarray(part, self.compute).reshape(shape)


def volume(windows: Windows) -> Volume:
    """Bring a convolution into the form of three axes."""
    w = windows
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


def overlapping(a: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return a view from the first element of `a` on; strides are in bytes."""
    # as_strided takes ten times as long as an assignment, which matters for small layers.
    view = a[:]
    return as_strided(view, shape, strides)


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


def frame(
    x: Array, starts: tuple[int, int, int], counts: tuple[int, int, int], v: Volume, space: Space
) -> Array:
    """Return `[..., *counts]` of the zero-extended `x [..., depth, row, column]` from `starts` on.

    Depths are `dilation` apart, rows and columns adjacent. A view of `x` where nothing but data is
    seen and it has the type of sums.
    """
    step = v.axes[0].dilation
    first = max(0, -(starts[0] // step))
    stop = min(counts[0], (x.shape[-3] - 1 - starts[0]) // step + 1)
    cuts = [(slice(first, stop), slice(starts[0] + first * step, None, step))]
    for start, count, size in zip(starts[1:], counts[1:], x.shape[-2:], strict=True):
        lo = max(0, -start)
        hi = max(lo, min(count, size - start))
        cuts.append((slice(lo, hi), slice(start + lo, start + hi)))
    inside = all((c.start, c.stop) == (0, n) for (c, _), n in zip(cuts, counts, strict=True))
    if inside and x.dtype == v.compute:
        depth = slice(starts[0], starts[0] + (counts[0] - 1) * step + 1, step)
        return x[(..., depth, cuts[1][1], cuts[2][1])]
    f = space.array((*x.shape[:-3], *counts), v.compute)
    if not inside:
        f[...] = 0
    if all(c.stop > c.start for c, _ in cuts):
        depth = slice(cuts[0][1].start, cuts[0][1].start + (stop - first - 1) * step + 1, step)
        f[(..., *(c for c, _ in cuts))] = x[(..., depth, cuts[1][1], cuts[2][1])]
    return f


def deliver(
    tile: Array, out: Array, epilogue: Epilogue | None, image: int, channels: slice, at: slice
) -> None:
    """Finish a tile `[channels, positions]` and store it into `out`, a view of the same shape."""
    if epilogue is not None:
        epilogue(tile, image, channels, at)
    if tile is not out:
        out[...] = tile
