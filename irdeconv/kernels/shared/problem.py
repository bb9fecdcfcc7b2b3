"""What is computed: a convolution or deconvolution at exact sizes, and how one becomes the other.

Letters: N batch, C input channels, M output channels, g groups, I, O spatial sizes, K kernel sizes,
S strides, D dilations; `*` stands for the spatial axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.kernels.shared.windows import WindowAxis, window_axes
from irdeconv.spec import Array


def type_of_sums(dtype: Any) -> np.dtype[Any]:
    """Return the type that is computed with: types of less than 32 bits are summed in f32."""
    kind = np.dtype(dtype)
    return kind if kind.itemsize >= 4 else np.dtype(np.float32)


@dataclass(frozen=True)
class ConvProblem:
    """A convolution or deconvolution at exact sizes; one value per spatial axis in every list.

    `shape` is the input's [N, C, *I], `sizes` are the output's *O, `begin` the leading pads of
    either sign. Convolution: y[o] = sum of x[o*S + k*D - begin] * w[k], the filter being
    [g, M/g, C/g, *K]. Deconvolution: full[s*S + k*D] += x[s] * w[k], y[o] = full[o + begin], the
    filter being [g, C/g, M/g, *K]. Both are zero outside. `dtype` is the element type's NumPy name.
    """

    shape: tuple[int, ...]
    outputs: int
    groups: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: str = "float32"

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The output's [N, M, *O]."""
        return (self.shape[0], self.outputs, *self.sizes)

    @property
    def group_inputs(self) -> int:
        """C/g, the input channels of a group."""
        return self.shape[1] // self.groups

    @property
    def group_outputs(self) -> int:
        """M/g, the output channels of a group."""
        return self.outputs // self.groups

    @property
    def taps(self) -> int:
        """The product of K."""
        return math.prod(self.kernel)

    @property
    def positions(self) -> int:
        """The product of I."""
        return math.prod(self.shape[2:])

    def axes(self, sizes: tuple[int, ...], outputs: tuple[int, ...]) -> list[WindowAxis]:
        """Return the axes of its windows on `sizes` positions."""
        windows = self.kernel, self.strides, self.dilations, self.begin
        return window_axes(sizes, outputs, *windows)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to sum, so that the output is zero, or has no elements."""
        return 0 in self.shape or 0 in self.out_shape or 0 in self.kernel

    @cached_property
    def compute(self) -> np.dtype[Any]:
        """The type of sums."""
        return type_of_sums(self.dtype)

    @property
    def narrow(self) -> bool:
        """Whether sums are rounded to a narrower type when they are stored."""
        return np.dtype(self.dtype).itemsize < 4

    @property
    def itemsize(self) -> int:
        """Bytes of an element that is computed with."""
        return self.compute.itemsize

    @property
    def reversed(self) -> ConvProblem:
        """The convolution that computes this deconvolution of stride 1, or the other way round.

        y[o] is the sum of x[o + begin - k*D] * w[k], so its taps run backwards; see
        `reversed_filter`.
        """
        rows = zip(self.dilations, self.kernel, self.begin, strict=True)
        return replace(self, begin=tuple(d * (k - 1) - b for d, k, b in rows))


def reversed_filter(w: Array) -> Array:
    """Return the view of a filter `[g, M/g, C/g, *K]` as `[g, C/g, M/g, *K]`, taps reversed."""
    return np.flip(w.swapaxes(1, 2), tuple(range(3, w.ndim)))
