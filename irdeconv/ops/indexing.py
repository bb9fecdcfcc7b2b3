"""Reading and writing at computed indices, and order along an axis.

GatherElements, GatherND, Scatter*, NonZero, OneHot; TopK, CumSum, Bucketize, SearchSorted, Unique.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from operator import mul
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_error, attribute_problem, size_error
from irdeconv.ir.attributes import IndexType, Ints
from irdeconv.ir.dtypes import i32, i64
from irdeconv.ir.op import JUMPS, MOVES, SUM, Bound, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of, want_rank
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    merge,
    merge_shapes,
)
from irdeconv.kernels.copies import FEW_BEST, WAYS, PutEach, TakeEach, best_of_rows, suits
from irdeconv.kernels.numpy_calls import FEW_ELEMENTS
from irdeconv.kernels.reductions import RunningSum
from irdeconv.ops import ranges
from irdeconv.ops.checks import at_least, inferred_shape, places_of, shape_of, want_shapes
from irdeconv.ops.slicing import Slice


@op("GatherElements", since=6)
class GatherElements(Op):
    """out[.., i, ..] = data[.., indices[.., i, ..], ..] along `axis`; the shape of the indices.

    Ranks are equal, negative indices count from the end.  [movement/GatherElements-6]
    """

    rounding = MOVES
    signature = "data: any t [*D]; indices: i32|i64 [*I:D] -> t [*I]"
    axis: int = attribute(0, documented=True)

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        reach = others[0].shape
        axis = axis_of(self.axis, len(shape), attribute="axis") if reach is not None else 0
        for i, (d, n) in enumerate(zip(shape, reach or (), strict=False)):
            if i != axis and merge(d, n) is None:
                text = f"data {format_shape(shape)} and indices {format_shape(reach)} differ on "
                raise size_error(1, f"{text}axis {i}; only axis {axis} may differ")

    def evaluate(self, data: Array, indices: Array) -> Array:
        want_shapes(self, data, indices)
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        if not indices.size:
            return np.empty(indices.shape, data.dtype)
        places = flat_places(data.shape, places_of(indices, data.shape[axis], axis), axis)
        return np.asarray(data.reshape(-1).take(places), data.dtype)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        kinds = [s.dtype.container if s.dtype is not None else None for s in inputs]
        axis = axis_of(self.axis, len(shape_of(inputs[0])), attribute="axis")
        return Bound(TakeEach(axis, self.evaluate)) if suits(*kinds) else None


@op("GatherND", since=8)
class GatherND(Op):
    """Take data[indices[.., :]], separately for each of the first `batch_dims` axes.

    Negative indices count from the end.  [movement/GatherND-8]
    """

    rounding = MOVES
    signature = "data: any t [?, *I]; indices: integer [?, *N] -> t [*O]"
    batch_dims: int = 0

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        places, rank, b = others[0].shape, len(shape), self.batch_dims
        if places is None:
            return
        if not 0 <= b < min(rank, len(places)):
            text = f"batch_dims {b} is outside data of rank {rank} and indices of rank "
            raise attribute_error("batch_dims", f"{text}{len(places)}")
        depth, batch = places[-1], places[:b]
        if isinstance(depth, Interval):
            return
        if depth > rank - b:
            text = f"indices name {depth} axes of data of rank {rank} with batch_dims {b}"
            raise size_error(1, text)
        if not compatible(batch, shape[:b]):
            text = f"batch dimensions {format_shape(batch)} are not those of the data"
            raise size_error(1, f"{text}, {format_shape(shape[:b])}")
        lead = self.lead(merge_shapes(batch, shape[:b]) or ())
        at.groups["O"] = (*lead, *places[b:-1], *shape[b + depth :])

    def lead(self, batch: Shape) -> Shape:
        """Return the output's axes for the batch dimensions."""
        return batch

    def evaluate(self, data: Array, indices: Array) -> Array:
        shape, b = inferred_shape(self, data, indices), self.batch_dims
        batch, places = math.prod(data.shape[:b]), math.prod(indices.shape[b:-1])
        x = data.reshape(batch, *data.shape[b:])
        at = [p.reshape(batch, places) for p in _places(data, indices, b)]
        which = np.broadcast_to(np.arange(batch)[:, np.newaxis], (batch, places))
        return np.asarray(x[(which, *at)]).reshape(shape)


def flat_places(shape: Ints, places: Array, axis: int) -> Array:
    """Return where the elements at these places along an axis are in flat data of a shape."""
    few = places.size <= FEW_ELEMENTS
    others = (_elsewhere if few else _elsewhere.__wrapped__)(shape, places.shape, axis)
    return np.asarray(places * math.prod(shape[axis + 1 :]) + others)


@lru_cache(maxsize=64)
def _elsewhere(shape: Ints, reach: Ints, axis: int) -> Array:
    """Return what the axes but one add to the places in flat data."""
    steps = (math.prod(shape[k + 1 :]) * (k != axis) for k in range(len(shape)))
    at = np.indices(reach, sparse=True)
    return np.asarray(sum((i * s for i, s in zip(at, steps, strict=True)), np.zeros((), np.int64)))


def _places(data: Array, indices: Array, first: int = 0) -> list[Array]:
    """Return, for each axis from the first on, the places that indices[.., :] name."""
    named = enumerate(np.moveaxis(indices, -1, 0), first)
    return [places_of(at, data.shape[axis], axis) for axis, at in named]


@op("GatherND", since=5, until=7)
class GatherND5(GatherND):
    """Take data[indices[.., :]], for each of the first `batch_dims` axes, which become one axis.

    [movement/GatherND-5]
    """

    def lead(self, batch: Shape) -> Shape:
        return (reduce(mul, batch),) if batch else ()


Reduction = Literal["none", "sum", "prod", "min", "max", "mean", "sub"]
_COMBINE: dict[str, Any] = {
    "sum": np.add,
    "mean": np.add,
    "sub": np.subtract,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _store(out: Array, at: Any, updates: Array, reduction: str) -> None:
    """Write updates into `out`; a place that is named again takes the last or combines all."""
    if reduction == "none":
        out[at] = updates
    else:
        _COMBINE[reduction].at(out, at, updates)


_SCATTERED = "data: any t [*I]; indices: integer; updates: t; axis: integer one of data -> t [*I]"


def _want_updates(
    updates: Shape | None, wanted: Shape | None, rule: str = "data and indices want", port: int = 2
) -> None:
    if not compatible(updates, wanted):
        text = f"updates are {format_shape(updates)}; {rule} {format_shape(wanted)}"
        raise size_error(port, text)


@op("ScatterUpdate", since=3)
class ScatterUpdate(Op):
    """Replace the slices `indices`, not negative, along `axis` (a scalar input) by `updates`.

    [movement/ScatterUpdate-3]
    """

    rounding = MOVES
    signature = _SCATTERED

    def complete(self, found: Fit, data: Spec, indices: Spec, updates: Spec, axis: Spec) -> None:
        for at in found.axes("axis") or ():
            shape = data.shape or ()
            if indices.shape is not None:
                _want_updates(updates.shape, (*shape[:at], *indices.shape, *shape[at + 1 :]))

    def evaluate(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        out = data.copy()
        at = axis_of(int(axis.reshape(-1)[0]), data.ndim, port=3)
        wanted = (*data.shape[:at], *indices.shape, *data.shape[at + 1 :])
        _want_updates(updates.shape, wanted)
        at_least(0, [int(indices.min(initial=0))], 1, "indices")
        place: Any = (*(slice(None),) * at, places_of(indices, data.shape[at], at))
        out[place] = updates
        return out


@op("ScatterElementsUpdate", since=3, until=11)
class ScatterElementsUpdate3(Op):
    """Write updates[.., i, ..] to place indices[.., i, ..] along `axis` (a scalar input).

    [movement/ScatterElementsUpdate-3]
    """

    rounding = MOVES
    signature = (
        "data: any t [*I]; indices: integer [*J:I]; updates: t [*J:I]; axis: integer one of data "
        "-> t [*I]"
    )
    reduction = "none"
    use_init_val = True

    def complete(self, found: Fit, data: Spec, indices: Spec, updates: Spec, axis: Spec) -> None:
        for at in found.axes("axis") or ():
            if indices.shape is not None:
                _check_reach(data.shape or (), indices.shape, at)

    def evaluate(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        return self._scattered(data, indices, updates, axis, np.trunc)

    def fold(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        """Compute constants; OpenVINO folds means of i16, i32 and i64 by rounding down."""
        rounded = np.trunc if data.dtype.itemsize == 1 else np.floor
        return self._scattered(data, indices, updates, axis, rounded)

    def _scattered(
        self, data: Array, indices: Array, updates: Array, axis: Array, rounded: np.ufunc
    ) -> Array:
        """Return the data with the updates; `rounded` makes integers of means."""
        want_shapes(self, data, indices, updates, axis)
        mode, keep = self.reduction, self.use_init_val
        at = axis_of(int(axis.reshape(-1)[0]), data.ndim, port=3)
        _check_reach(data.shape, indices.shape, at)
        where = flat_places(data.shape, places_of(indices, data.shape[at], at), at).reshape(-1)
        out = data.reshape(-1).copy()
        if not keep and mode != "none":
            out[where] = _neutral(mode, out.dtype)
        _store(out, where, updates.reshape(-1), mode)
        if mode == "mean":
            counts = np.full(out.shape, 1 if keep else 0, np.int64)
            np.add.at(counts, where, 1)
            means = out / np.maximum(counts, 1)
            out = (means if out.dtype.kind not in "iu" else rounded(means)).astype(out.dtype)
        return out.reshape(data.shape)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        data, indices, _, axis = inputs
        kinds = [s.dtype.container if s.dtype is not None else None for s in (data, indices)]
        moved = self.reduction == "none" or str(data.dtype) == "f32"
        if axis.known is None or self.reduction not in WAYS or not moved or not suits(*kinds):
            return None
        shape, reach = shape_of(data), shape_of(indices)
        at = axis_of(int(axis.known.reshape(-1)[0]), len(shape), port=3)
        if not self.use_init_val or shape[:at] != reach[:at] or shape[at + 1 :] != reach[at + 1 :]:
            return None
        return Bound(PutEach(at, WAYS.index(self.reduction), self.evaluate))


def _check_reach(data: Shape, indices: Shape, axis: int) -> None:
    """Require that no axis of the indices but the given one is longer than that of the data."""
    for i, (d, n) in enumerate(zip(data, indices, strict=True)):
        high = bounds(d)[1]
        if i != axis and high is not None and bounds(n)[0] > high:
            text = f"indices {format_shape(indices)} are longer than data {format_shape(data)} on "
            text += f"axis {i}; only axis {axis} may be"
            raise size_error(1, text)


def _neutral(mode: str, dtype: np.dtype[Any]) -> Any:
    if mode in ("sum", "mean"):
        return 0
    if mode == "prod":
        return 1
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if mode == "min" else np.iinfo(dtype).min
    return np.inf if mode == "min" else -np.inf


@op("ScatterElementsUpdate", since=12)
class ScatterElementsUpdate(ScatterElementsUpdate3):
    """Write or combine updates[.., i, ..] at place indices[.., i, ..] along `axis`.

    With `use_init_val` the `reduction` includes the data itself.
    [movement/ScatterElementsUpdate-12]
    """

    reduction: Literal["none", "sum", "prod", "min", "max", "mean"] = "none"
    use_init_val: bool = True


@op("ScatterNDUpdate", since=4, until=14)
class ScatterNDUpdate3(Op):
    """Replace data[indices[.., :]] by updates.  [movement/ScatterNDUpdate-3]"""

    rounding = MOVES
    signature = "data: any t [*I]; indices: i32|i64 [*N, ?]; updates: t -> t [*I]"
    reduction = "none"

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        places, updates = (s.shape for s in others)
        depth = DYNAMIC if places is None else places[-1]
        if places is None or isinstance(depth, Interval):
            return
        if depth > len(shape):
            raise size_error(1, f"indices name {depth} axes of data of rank {len(shape)}")
        _want_updates(updates, (*places[:-1], *shape[depth:]))

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        want_shapes(self, data, indices, updates)
        out = data.copy()
        _store(out[np.newaxis], self._at(data, indices), updates, self.reduction)
        return out

    def _at(self, data: Array, indices: Array) -> tuple[Array, ...]:
        # The axis in front is there for indices that name no axis at all.
        return np.zeros(indices.shape[:-1], np.int64), *_places(data, indices)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        indices = inputs[1].known
        if indices is None or str(inputs[0].dtype) != "f32":
            return None
        at = self._at(np.broadcast_to(0, shape_of(inputs[0])), indices)

        def call(data: Array, _: Array, updates: Array, out: Array, team: object) -> None:
            np.copyto(out, data)
            _store(out[np.newaxis], at, updates, self.reduction)

        return Bound(call)


@op("ScatterNDUpdate", since=15)
class ScatterNDUpdate(ScatterNDUpdate3):
    """Replace data[indices[.., :]] by updates or combine both.  [movement/ScatterNDUpdate-15]"""

    reduction: Literal["none", "sum", "sub", "prod", "min", "max"] = "none"


@op("NonZero", since=3)
class NonZero(Op):
    """Places of the elements that are not 0: [rank, count] of `output_type`, row-major order.

    [condition/NonZero-3]
    """

    rounding = JUMPS
    signature = "data: any -> output_type [R, N]"
    output_type: IndexType = i64

    def complete(self, at: Fit, data: Spec) -> None:
        if data.shape is not None:
            at["R"], at["N"] = len(data.shape), Interval.of(0, data.size)
        if data.known is not None:
            at["N"] = int(np.count_nonzero(data.known))

    def evaluate(self, data: Array) -> Array:
        return np.ascontiguousarray(np.argwhere(data).T, self.output_type.container)


@op("OneHot", until=15)
class OneHot1(Op):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    indices: integers, those outside 0..depth-1 give no on_value; depth, values: scalars.
    [sequence/OneHot-1]
    """

    rounding = JUMPS
    signature = (
        "indices: integer; depth: integer [] = D; on_value: any t []; off_value: t [] -> t [*O]"
    )
    axis: int = attribute(0, documented=True)
    negative_indices_mode = "ignore_negative"

    def complete_from(self, found: Fit, shape: Shape, *others: Spec) -> None:
        at = axis_of(self.axis, len(shape) + 1, attribute="axis")
        found.groups["O"] = (*shape[:at], found["D"], *shape[at:])

    def evaluate(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        at = self.axis % (indices.ndim + 1)
        shape = [1] * (indices.ndim + 1)
        shape[at] = int(depth.reshape(-1)[0])
        if self.negative_indices_mode == "normalize":
            indices = np.where(indices < 0, indices + shape[at], indices)
        found = np.expand_dims(indices, at) == np.arange(shape[at]).reshape(shape)
        out = np.where(found, on_value.reshape(-1)[0], off_value.reshape(-1)[0])
        return np.asarray(out, on_value.dtype)


@op("OneHot", since=16)
class OneHot(OneHot1):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    Negative indices give no on_value or, normalized, count from the end.  [sequence/OneHot-16]
    """

    negative_indices_mode: Literal["ignore_negative", "normalize"] = "ignore_negative"


@op("SliceScatter", since=15)
class SliceScatter(Op):
    """Replace start:stop:step of the given axes (of the first ones without `axes`) by `updates`.

    start, stop, step, axes: as of Slice; updates: the shape of that slice; data and updates: any
    type, one for both.  [movement/SliceScatter-15]
    """

    rounding = MOVES
    signature = (
        "data: any t [*I]; updates: t; start: integer [?]; stop: integer [?]; step: integer [?]; "
        "axes?: integer [?] -> t [*I]"
    )
    part: ClassVar[Slice] = Slice()

    def complete(self, at: Fit, data: Spec, updates: Spec, *lists: Spec) -> None:
        try:
            replaced: Any = self.part.infer(data, *lists)
        except OpError as e:  # Slice has its lists one port earlier
            port = e.problem.port
            raise OpError.of(replace(e.problem, port=port + 1) if port else e.problem) from None
        _want_updates(updates.shape, replaced.shape, "the slice is", 1)

    def evaluate(self, data: Array, updates: Array, *lists: Array) -> Array:
        out = data.copy()
        replaced = self.part.view(data.shape, *lists)(out)
        _want_updates(updates.shape, replaced.shape, "the slice is", 1)
        np.copyto(replaced, updates)
        return out


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
        chosen = stable_order(moved, largest=self.mode == "max")[..., :count]
        if self.sort == "index":
            chosen = np.sort(chosen, -1)
        places = np.moveaxis(chosen, -1, axis).astype(self.index_element_type.container)
        return np.moveaxis(np.take_along_axis(moved, chosen, -1), -1, axis), places


def stable_order(x: Array, *, largest: bool) -> Array:
    """Return the order of rows, equal elements as they are; NaN are the largest ones."""
    if x.dtype == np.float32 and not np.isnan(x).any():
        # The bits of a negative number fall while it grows. Places behind them decide if equal.
        bits = (x + np.float32(0)).view(np.int32)
        bits ^= (bits >> 31) & 0x7FFFFFFF
        keys = (~bits if largest else bits).astype(np.int64) << 32
        keys |= np.arange(x.shape[-1])
        keys.sort(-1)
        keys &= 0xFFFFFFFF
        return keys
    if not largest:
        return np.argsort(x, -1, kind="stable")
    # The reverse of the ascending order of the reverse is stable.
    back = np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
    return np.asarray(x.shape[-1] - 1 - back)


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
