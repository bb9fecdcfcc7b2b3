"""Where windows lie along an axis, and which of their taps meet data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array

NONE = slice(0, 0)


def reads(size: int, stride: int, shift: int, outputs: int) -> tuple[slice, slice]:
    """Return (outputs, inputs): output o reads o*stride + shift, where 0 <= that < size."""
    lo = max(0, -(shift // stride))
    hi = min(outputs, (size - 1 - shift) // stride + 1)
    if hi <= lo:
        return NONE, NONE
    first = lo * stride + shift
    return slice(lo, hi), slice(first, first + (hi - lo - 1) * stride + 1, stride)


@dataclass(frozen=True)
class WindowAxis:
    """One spatial axis: output o sees o*stride + k*dilation - begin for k < kernel."""

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

    def reach(self, k: int) -> tuple[slice, slice]:
        """Return (outputs, inputs): the outputs with tap `k` inside the data, and what it reads."""
        return reads(self.size, self.stride, k * self.dilation - self.begin, self.out)

    @property
    def inner(self) -> Sequence[int]:
        """The taps that may read data, in order; of a kernel larger than the data they are few."""
        first = max(0, -(((self.out - 1) * self.stride - self.begin) // self.dilation))
        stop = min(self.kernel, (self.begin + self.size - 1) // self.dilation + 1)
        if stop - first <= self.out * self.size:
            return range(first, stop)
        shifts = {
            i + self.begin - o * self.stride for o in range(self.out) for i in range(self.size)
        }
        taps = {s // self.dilation for s in shifts if s % self.dilation == 0}
        return sorted(k for k in taps if first <= k < stop)

    def valid(self) -> Array:
        """Return the number of taps inside the data for every output."""
        inside = np.zeros(self.out, np.int64)
        for k in self.inner:
            inside[self.reach(k)[0]] += 1
        return inside

    def trimmed(self) -> tuple[WindowAxis, slice]:
        """Return the axis without outer taps that read padding for every output, and the rest."""
        useful = [k for k in self.inner if self.reach(k)[0] != NONE]
        first, stop = (useful[0], useful[-1] + 1) if useful else (0, 1)
        kernel, begin = stop - first, self.begin - first * self.dilation
        stride = self.stride if self.out > 1 else 1
        dilation = self.dilation if kernel > 1 else 1
        return WindowAxis(self.size, self.out, kernel, stride, dilation, begin), slice(first, stop)


def window_axes(
    sizes: Sequence[int],
    outputs: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
) -> list[WindowAxis]:
    """Return the axes of windows on `sizes` positions; one value per spatial axis in every list."""
    rows = zip(sizes, outputs, kernel, strides, dilations, begin, strict=True)
    return [WindowAxis(*row) for row in rows]
