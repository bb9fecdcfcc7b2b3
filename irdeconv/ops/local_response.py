"""LRN and GRN: elements divided by the size of their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from irdeconv.errors import Problem
from irdeconv.kernels import neighbours
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import elements, exact, positive_number, want_rank, want_type
from irdeconv.ops.reduction import reduced_axes
from irdeconv.ops.unary import wide
from irdeconv.spec import Array, Spec


@op("LRN")
class LRN(Op):
    """x / (bias + alpha / size^n * sum of squares)^beta over windows of `size` along n `axes`.

    Any shape, floating-point (integers are computed in double precision). Windows are centred, the
    even ones one smaller, and end at the border. Beside all spatial axes others do not count, as in
    the runtime, which computes axis 1 or these only, and cuts `bias` to an integer.
    [normalization/LRN-1]
    """

    alpha: float
    beta: float
    bias: float
    size: int

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "size")

    def infer(self, data: Spec, axes: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_rank(data.shape, 1, None, 0, "data")
        want_rank(axes.shape, 1, 1, 1, "axes")
        chosen = exact(elements(axes, 1, "axes"))
        if chosen is not None and data.shape is not None:
            reduced_axes(chosen, len(data.shape))
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, axes: Array) -> Array:
        chosen = reduced_axes(axes.reshape(-1), data.ndim)
        spatial = tuple(range(2, data.ndim))
        across = not spatial or not set(spatial) <= set(chosen)
        return wide(self._normalize)(data, chosen if across else spatial)

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        total = x * x
        for axis in axes:
            total = neighbours.sums(total, axis, (self.size - 1) // 2)
        kind = x.dtype.type
        base = kind(self.bias) + kind(self.alpha / self.size ** len(axes)) * total
        if self.beta == 0.5:
            return x / np.sqrt(base)
        if self.beta == 0.75:  # a power costs ten times as much
            root = np.sqrt(base)
            return x / (root * np.sqrt(root))
        return x / np.power(base, kind(self.beta))


@op("GRN")
class GRN(Op):
    """x / sqrt(sum of squares over the channels + bias): data (N, C) to (N, C, H, W).

    Floating-point (integers are computed in double precision).  [normalization/GRN-1]
    """

    bias: float = attribute(1.0, documented=True)

    def infer(self, data: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_rank(data.shape, 2, 4, 0, "data")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        return wide(self._normalize)(data)

    def _normalize(self, x: Array) -> Any:
        squares = np.sum(x * x, 1, keepdims=True)
        return x / np.sqrt(squares + x.dtype.type(self.bias))
