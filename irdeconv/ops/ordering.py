"""Order along an axis: TopK, CumSum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from irdeconv.dtypes import ElementType, i32
from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_of, index_type, single, want_rank, want_type
from irdeconv.spec import Array, Dim, Interval, Spec, bounds
from irdeconv.traits import JUMPS, SUM

Mode = Literal["max", "min"]
Sort = Literal["none", "index", "value"]


class _TopK(Op):
    """Base of the three versions; equal values keep their order."""

    rounding = JUMPS
    axis: int
    mode: Mode
    sort: Sort
    index_element_type: ElementType

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "index_element_type")

    def infer(self, data: Spec, k: Spec) -> tuple[Spec, Spec]:
        want_type(data, "number", 0, "data")
        want_rank(k.shape, 0, 1, 1, "k")
        count = single(k, 1, "k")
        if data.shape is None:
            return Spec(data.dtype, None), Spec(self.index_element_type, None)
        axis = axis_of(self.axis, len(data.shape), attribute="axis")
        size = _taken(data.shape[axis], count)
        shape = (*data.shape[:axis], size, *data.shape[axis + 1 :])
        return Spec(data.dtype, shape), Spec(self.index_element_type, shape)

    def evaluate(self, data: Array, k: Array) -> tuple[Array, Array]:
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        count = min(int(k.reshape(-1)[0]), data.shape[axis])
        moved = np.moveaxis(data, axis, -1)
        order = _descending(moved) if self.mode == "max" else np.argsort(moved, -1, kind="stable")
        chosen = order[..., :count]
        if self.sort == "index":
            chosen = np.sort(chosen, -1)
        values = np.take_along_axis(moved, chosen, -1)
        back = np.moveaxis(chosen, -1, axis).astype(self.index_element_type.container)
        return np.moveaxis(values, -1, axis), back


def _descending(x: Array) -> Array:
    """Return a stable descending order: the reverse of the ascending order of the reverse."""
    size = x.shape[-1]
    return np.asarray(size - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1])


def _taken(size: Dim, k: Dim) -> Dim:
    """Return how many elements are taken: k, but not more than there are."""
    high = bounds(size)[1]
    if isinstance(k, Interval):
        top = high if k.hi is None else k.hi
        if high is not None and top is not None:
            top = min(high, max(top, 0))
        return Interval.of(0, top)
    if k < 0:
        raise OpError(f"k is {k}; it must not be negative", code="E305", port=1)
    return Interval.of(min(k, bounds(size)[0]), k if high is None else min(k, high))


@op("TopK", until=2)
class TopK1(_TopK):
    """The k largest or smallest values along `axis` and their indices (i32).  [sort/TopK-1]"""

    axis: int = attribute(0, documented=True)
    mode: Mode = attribute("max", documented=True)
    sort: Sort = attribute("none", documented=True)
    index_element_type: ElementType = attribute(i32, internal=True)


@op("TopK", since=3, until=10)
class TopK3(_TopK):
    """The k largest or smallest values along `axis` and their indices.  [sort/TopK-3]"""

    axis: int = attribute(0, documented=True)
    mode: Mode = attribute("max", documented=True)
    sort: Sort = attribute("none", documented=True)
    index_element_type: ElementType = i32


@op("TopK", since=11)
class TopK(_TopK):
    """The k largest or smallest values along `axis` and their indices, always stable.

    Sorted by value, by index or not.  [sort/TopK-11]
    """

    axis: int = attribute(0, documented=True)
    mode: Mode = attribute("max", documented=True)
    sort: Sort = attribute("none", documented=True)
    stable: bool = False
    index_element_type: ElementType = i32

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        if self.stable and self.sort == "none":
            message = 'stable is true; then sort is "value" or "index", not "none"'
            yield Problem("E210", message, attribute="stable")


@op("CumSum", since=3)
class CumSum(Op):
    """Running sums along `axis` (a scalar input, 0 by default).

    `exclusive`: without the element itself; `reverse`: from the end.  [arithmetic/CumSum-3]
    """

    rounding = SUM
    exclusive: bool = False
    reverse: bool = False

    def infer(self, data: Spec, axis: Spec | None = None) -> Spec:
        want_type(data, "number", 0, "data")
        if axis is not None and data.shape is not None:
            known = single(axis, 1, "axis")
            if not isinstance(known, Interval):
                axis_of(known, len(data.shape), port=1)
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, axis: Array | None = None) -> Array:
        at = axis_of(0 if axis is None else int(axis.reshape(-1)[0]), data.ndim, port=1)
        x = np.flip(data, at) if self.reverse else data
        out = np.cumsum(x, at, dtype=data.dtype)
        if self.exclusive:
            out = np.roll(out, 1, at)
            out[(*(slice(None),) * at, slice(0, 1))] = 0
        return np.flip(out, at) if self.reverse else out

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return max(inputs[0].shape, default=1)
