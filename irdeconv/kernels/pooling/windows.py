"""Where the windows of a pooling lie, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array


@dataclass(frozen=True)
class PoolingWindows:
    """Where the windows lie: one value per spatial axis; `sizes` is the output's O."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads_begin: Sequence[int]
    sizes: Sequence[int]

    def axis(self, a: int, size: int) -> PoolingAxis:
        """Return the taps along spatial axis `a` of `size` input positions."""
        return PoolingAxis(
            size=size,
            kernel=self.kernel[a],
            stride=self.strides[a],
            dilation=self.dilations[a],
            begin=self.pads_begin[a],
            count=self.sizes[a],
        )


@dataclass(frozen=True)
class PoolingAxis:
    """One spatial axis: output o sees o*stride + k*dilation - begin for k < kernel."""

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    count: int

    @property
    def trivial(self) -> bool:
        """Whether every window is the input at its own place."""
        return self.kernel == self.stride == 1 and self.begin == 0 and self.count == self.size

    @property
    def span(self) -> int:
        """How far windows reach, padding included."""
        return (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def reach(self, k: int) -> tuple[slice, slice]:
        """Return (outputs, inputs): the outputs with tap `k` inside the data, and what it reads."""
        shift = k * self.dilation - self.begin
        lo = max(0, -(shift // self.stride))
        hi = min(self.count, (self.size - 1 - shift) // self.stride + 1)
        if hi <= lo:
            return slice(0, 0), slice(0, 0)
        first = lo * self.stride + shift
        last = first + (hi - lo - 1) * self.stride
        return slice(lo, hi), slice(first, last + 1, self.stride)

    def valid(self) -> Array:
        """Return the number of taps inside the data for every output."""
        inside = np.zeros(self.count, np.int64)
        for k in range(self.kernel):
            inside[self.reach(k)[0]] += 1
        return inside
