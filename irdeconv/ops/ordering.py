"""Order along an axis: TopK, CumSum, Bucketize, SearchSorted, Unique."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from irdeconv.base.errors import Problem, attribute_problem, size_error
from irdeconv.ir.attributes import IndexType
from irdeconv.ir.dtypes import i32, i64
from irdeconv.ir.op import JUMPS, SUM, Bound, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of, want_rank
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, format_shape, merge
from irdeconv.kernels.moves import FEW_BEST, best_of_rows, suits
from irdeconv.kernels.reductions import RunningSum
from irdeconv.ops import ranges
from irdeconv.ops.checks import shape_of


@dataclass(frozen=True)
class _TopK(Op):
    """Base of the three versions; equal values keep their order."""

    rounding = JUMPS
    signature = "data: number t; k: integer [] = N -> t [*K]; index_element_type [*K]"
    axis: int = attribute(0, documented=True)
    mode: Literal["max", "min"] = attribute("max", documented=True)
    sort: Literal["none", "index", "value"] = attribute("none", documented=True)
    index_element_type = i32

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        axis = axis_of(self.axis, len(shape), attribute="axis")
        size = ranges.minimum(shape[axis], at["N"])
        at.groups["K"] = (*shape[:axis], size, *shape[axis + 1 :])

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        return partial(self._best, suits(np.dtype(np.float32), np.dtype(np.int64)))

    def evaluate(self, data: Array, k: Array) -> tuple[Array, Array]:
        return self._best(False, data, k)

    def _best(self, fast: bool, data: Array, k: Array) -> tuple[Array, Array]:
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        count = min(int(k.reshape(-1)[0]), data.shape[axis])
        moved = np.moveaxis(data, axis, -1)
        if fast and data.dtype == np.float32 and 0 < count <= FEW_BEST and self.sort != "index":
            found, places = best_of_rows(moved, count, largest=self.mode == "max")
            places = places.astype(self.index_element_type.container, copy=False)
            return np.moveaxis(found, -1, axis), np.moveaxis(places, -1, axis)
        if self.mode == "max":  # the reverse of the ascending order of the reverse is stable
            back = np.argsort(moved[..., ::-1], -1, kind="stable")[..., ::-1]
            order = np.asarray(moved.shape[-1] - 1 - back)
        else:
            order = np.argsort(moved, -1, kind="stable")
        chosen = order[..., :count]
        if self.sort == "index":
            chosen = np.sort(chosen, -1)
        places = np.moveaxis(chosen, -1, axis).astype(self.index_element_type.container)
        return np.moveaxis(np.take_along_axis(moved, chosen, -1), -1, axis), places


@op("TopK", until=2)
class TopK1(_TopK):
    """The k largest or smallest values along `axis` and their indices.  [sort/TopK-1]"""

    signature = _TopK.signature.replace("integer", "i32|i64|i8")
    index_element_type: IndexType = i32


@op("TopK", since=3, until=10)
class TopK3(_TopK):
    """The k largest or smallest values along `axis` and their indices.  [sort/TopK-3]"""

    index_element_type: IndexType = i32


@op("TopK", since=11)
class TopK(_TopK):
    """The k largest or smallest values along `axis` and their indices, always stable.

    Sorted by value, by index or not.  [sort/TopK-11]
    """

    stable: bool = False
    index_element_type: IndexType = i32

    def check(self) -> Iterator[Problem]:
        if self.stable and self.sort == "none":
            message = 'stable is true; then sort is "value" or "index", not "none"'
            yield attribute_problem("stable", message)


@op("CumSum", since=3)
class CumSum(Op):
    """Running sums along `axis` (a scalar input, 0 by default).

    `exclusive`: without the element itself; `reverse`: from the end.  [arithmetic/CumSum-3]
    """

    rounding = SUM
    signature = "data: number t [*I]; axis: i32|i64 one of data -> t [*I]"
    exclusive: bool = False
    reverse: bool = False

    def evaluate(self, data: Array, axis: Array) -> Array:
        out = np.empty_like(data, order="C")
        self._kernel(data.ndim, axis)(data, out=out)
        return out

    def _kernel(self, rank: int, axis: Array) -> RunningSum:
        at = axis_of(int(axis.reshape(-1)[0]), rank, port=1)
        return RunningSum(at, self.exclusive, self.reverse)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        axis = inputs[1].known
        return None if axis is None else Bound(self._kernel(len(shape_of(inputs[0])), axis))

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return max(inputs[0].shape, default=1)


Side = Literal["left", "right"]


@op("Bucketize", since=3)
class Bucketize(Op):
    """Return each element's bucket number: any shape, numbers -> the same shape, integers.

    buckets: a sorted vector of B bounds; bucket i is between bounds i - 1 and i, and includes the
    upper one `with_right_bound`, else the lower one. Types may differ.
    [condition/Bucketize-3]
    """

    rounding = JUMPS
    signature = "data: number [*I]; buckets: number [B] -> output_type [*I]"
    output_type: IndexType = attribute(i64, required=True)
    with_right_bound: bool = True

    def evaluate(self, data: Array, buckets: Array) -> Array:
        side: Side = "left" if self.with_right_bound else "right"
        return _search(buckets, data, side).astype(self.output_type.container)


@op("SearchSorted", since=15)
class SearchSorted(Op):
    """Indices at which values would be inserted into sorted rows: [*L, N], [*L, V] -> [*L, V].

    Numbers of one type; a single row serves values of any shape. The index is in front of all
    equal elements, in `right_mode` behind all.  [sort/SearchSorted-15]
    """

    rounding = JUMPS
    signature = "sorted_sequence: number t [*L, N]; values: t -> output_type [*O]"
    right_mode: bool = False
    output_type: IndexType = i64

    def complete(self, at: Fit, sorted_sequence: Spec, values: Spec) -> None:
        rows, shape = sorted_sequence.shape, values.shape
        lead = rows is not None and shape is not None and len(rows) > 1
        at.groups["O"] = _lead(rows, shape) if lead else shape  # type: ignore[arg-type]

    def evaluate(self, sorted_sequence: Array, values: Array) -> Array:
        side: Side = "right" if self.right_mode else "left"
        kind = self.output_type.container
        if sorted_sequence.ndim == 1:
            return _search(sorted_sequence, values, side).astype(kind)
        out = np.empty(values.shape, kind)
        for at in np.ndindex(values.shape[:-1]):
            out[at] = _search(sorted_sequence[at], values[at], side)
        return out


def _lead(rows: Shape, values: Shape) -> Shape:
    """Return the shape of the values; all axes but the last agree with the rows; E301, E302."""
    want_rank(values, len(rows), len(rows), 1, "values")
    out = [merge(a, b) for a, b in zip(rows[:-1], values[:-1], strict=True)]
    lead = tuple(d for d in out if d is not None)
    if len(lead) != len(out):
        text = f"values {format_shape(values)} and sorted_sequence {format_shape(rows)} differ in "
        text += "front of the last axis"
        raise size_error(1, text)
    return (*lead, values[-1])


def _search(row: Array, values: Array, side: Side) -> Array:
    """Return indices in a row; if types differ, they are compared as real numbers."""
    if row.dtype != values.dtype or row.dtype.kind not in "iuf":  # not ml_dtypes'
        row, values = row.astype(np.float64), values.astype(np.float64)
    return np.asarray(np.searchsorted(row, values, side))


@op("Unique", since=10)
class Unique(Op):
    """Distinct elements, or slices along `axis`, and their indices; any type.

    Outputs: the distinct ones (a vector without `axis`), the index of the first occurrence of each,
    the number of each input element among them, how often each occurs. `sorted` orders them
    ascending, otherwise by first occurrence.  [movement/Unique-10]
    """

    signature = (
        "data: any t; axis?: i32|i64 one "
        "-> t [*U]; index_element_type [U]; index_element_type [N]; count_element_type [U]"
    )
    sorted: bool = True
    index_element_type: IndexType = i64
    count_element_type: IndexType = i64

    def complete(self, found: Fit, data: Spec, axis: Spec | None = None) -> None:
        shape, at = data.shape, found.value("axis")
        around: tuple[Shape, Shape] | None = None if axis is not None else ((), ())
        size: Dim = DYNAMIC if axis is not None or data.size is None else data.size
        if shape is not None and isinstance(at, int):
            place = axis_of(at, len(shape), port=1)
            around, size = (shape[:place], shape[place + 1 :]), shape[place]
        low, high = bounds(size)
        count: Dim = Interval.of(min(low, 1), high)
        if data.known is not None and (axis is None or axis.known is not None):
            count = len(self.evaluate(data.known, None if axis is None else axis.known)[1])
        if around is not None:
            found.groups["U"] = (*around[0], count, *around[1])
        elif shape is not None:
            found.groups["U"] = (DYNAMIC,) * len(shape)
        found["U"], found["N"] = count, size

    def evaluate(self, data: Array, axis: Array | None = None) -> tuple[Array, ...]:
        at = None if axis is None else axis_of(int(axis.item()), data.ndim, port=1)
        found, first, inverse, counts = np.unique(
            data, return_index=True, return_inverse=True, return_counts=True, axis=at
        )
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first, kind="stable")
            found, first, counts = found.take(order, at or 0), first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        index = self.index_element_type.container
        return (
            found,
            first.astype(index),
            inverse.astype(index),
            counts.astype(self.count_element_type.container),
        )
