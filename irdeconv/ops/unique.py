"""Unique."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import Problem
from irdeconv.op import Op, op
from irdeconv.ops.checks import axis_of, index_type, single
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, is_static


@op("Unique", since=10)
class Unique(Op):
    """Distinct elements, or slices along `axis`, and where they are; any type.

    Outputs: the distinct ones (a vector without `axis`), the place of the first occurrence of each,
    the number of each input element among them, how often each occurs. `sorted` orders them
    ascending, otherwise by first occurrence.  [movement/Unique-10]
    """

    sorted: bool = True
    index_element_type: ElementType = i64
    count_element_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "index_element_type")
        yield from index_type(self, "count_element_type")

    def infer(self, data: Spec, axis: Spec | None = None) -> tuple[Spec, ...]:
        at = None if axis is None else single(axis, 1, "axis")
        shape, size = self._sizes(data.shape, at)
        low, high = bounds(size)
        count: Dim = Interval.of(min(low, 1), high)
        if data.known is not None and (axis is None or axis.known is not None):
            count = len(self.evaluate(data.known, None if axis is None else axis.known)[1])
        if shape is not None:
            shape = tuple(count if d is None else d for d in shape)
        index, each = self.index_element_type, self.count_element_type
        return (
            Spec(data.dtype, shape),
            Spec(index, (count,)),
            Spec(index, (size,)),
            Spec(each, (count,)),
        )

    def _sizes(
        self, shape: Shape | None, axis: Dim | None
    ) -> tuple[tuple[Dim | None, ...] | None, Dim]:
        """Return the shape of the distinct ones, None for their number, and how many are read."""
        if axis is None:
            return (None,), math.prod(shape) if is_static(shape) else DYNAMIC
        if shape is None:
            return None, DYNAMIC
        if isinstance(axis, Interval):
            return (DYNAMIC,) * len(shape), DYNAMIC
        at = axis_of(axis, len(shape), port=1)
        return (*shape[:at], None, *shape[at + 1 :]), shape[at]

    def evaluate(self, data: Array, axis: Array | None = None) -> tuple[Array, ...]:
        at = None if axis is None else axis_of(int(axis.item()), data.ndim, port=1)
        found, first, inverse, counts = np.unique(
            data, return_index=True, return_inverse=True, return_counts=True, axis=at
        )
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first, kind="stable")
            found, first, counts = found.take(order, at or 0), first[order], counts[order]
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            inverse = rank[inverse]
        index = self.index_element_type.container
        return (
            found,
            first.astype(index),
            inverse.astype(index),
            counts.astype(self.count_element_type.container),
        )
