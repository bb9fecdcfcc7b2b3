"""AdaptiveAvgPool and AdaptiveMaxPool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from irdeconv import dtypes
from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.pooling import adaptive
from irdeconv.op import Op, op
from irdeconv.ops.binding import shape_of
from irdeconv.ops.checks import elements, index_type, want_rank, want_type
from irdeconv.ops.unary import wide
from irdeconv.spec import Array, Interval, Shape, Spec, format_shape, non_negative
from irdeconv.traits import MOVES, SUM


def _pooled(data: Spec, output_shape: Spec) -> Shape | None:
    """Return (N, C, *O) for data (N, C, *I) and the values O."""
    want_type(data, "number", 0, "data")
    want_rank(data.shape, 3, 5, 0, "data")
    want_rank(output_shape.shape, 1, 1, 1, "output_shape")
    sizes = elements(output_shape, 1, "output_shape")
    if sizes is not None:
        for size in sizes:
            if not isinstance(size, Interval) and size < 0:
                text = f"output_shape has {size}; it must not be negative"
                raise OpError(text, code="E305", port=1)
    if data.shape is None:
        return None
    axes = len(data.shape) - 2
    if sizes is not None and len(sizes) != axes:
        text = f"output_shape has {len(sizes)} values for {axes} spatial axes"
        raise OpError(text, code="E302", port=1)
    sizes = (Interval(),) * axes if sizes is None else tuple(map(non_negative, sizes))
    if 0 in data.shape[2:] and 0 not in (*data.shape[:2], *sizes):
        text = f"data {format_shape(data.shape)} has no elements to pool"
        raise OpError(text, code="E302", port=0)
    return (*data.shape[:2], *sizes)


def _shape(data: Array, output_shape: Array) -> tuple[int, ...]:
    return shape_of(Spec(None, _pooled(Spec.of(data, keep=False), Spec.of(output_shape))))


@op("AdaptiveAvgPool", since=8)
class AdaptiveAvgPool(Op):
    """Means of O windows that share the data: data (N, C, *I), O values -> (N, C, *O).

    One to three spatial axes, any numbers. Window o reads floor(o I / O) up to ceil((o + 1) I / O),
    so neighbours may overlap.  [pooling/AdaptiveAvgPool-8]
    """

    rounding = SUM

    def infer(self, data: Spec, output_shape: Spec) -> Spec:
        return Spec(data.dtype, _pooled(data, output_shape))

    def evaluate(self, data: Array, output_shape: Array) -> Array:
        shape = _shape(data, output_shape)
        if 0 in shape:
            return np.zeros(shape, data.dtype)
        return wide(adaptive.means)(data, shape[2:])

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        taps = 1
        for size, count in zip(inputs[0].shape[2:], output.shape[2:], strict=True):
            taps *= size // max(count, 1) + 2
        return taps + 1


@op("AdaptiveMaxPool", since=8)
class AdaptiveMaxPool(Op):
    """Maxima of O windows and where they lie: data (N, C, *I), O values -> two of (N, C, *O).

    Windows as for AdaptiveAvgPool. The second output counts the elements of a channel's plane, the
    first of equal maxima wins.  [pooling/AdaptiveMaxPool-8]
    """

    rounding = MOVES
    index_element_type: ElementType = dtypes.i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "index_element_type")

    def infer(self, data: Spec, output_shape: Spec) -> tuple[Spec, Spec]:
        shape = _pooled(data, output_shape)
        return Spec(data.dtype, shape), Spec(self.index_element_type, shape)

    def evaluate(self, data: Array, output_shape: Array) -> tuple[Array, Array]:
        shape = _shape(data, output_shape)
        kind: Any = self.index_element_type.container
        if 0 in shape:
            return np.zeros(shape, data.dtype), np.zeros(shape, kind)
        y, places = adaptive.maxima(data, shape[2:])
        return y, places.astype(kind)
