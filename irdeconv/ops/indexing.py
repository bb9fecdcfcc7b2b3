"""Reading and writing at computed indices: GatherElements, GatherND, Scatter*, NonZero, OneHot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import mul
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, attribute_error, size_error
from irdeconv.ir.attributes import IndexType
from irdeconv.ir.dtypes import i64
from irdeconv.ir.op import JUMPS, MOVES, Bound, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    merge,
    merge_shapes,
)
from irdeconv.kernels.moves import WAYS, PutEach, TakeEach, suits
from irdeconv.ops.checks import inferred_shape, places_of, shape_of, want_shapes
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
        return np.take_along_axis(data, places_of(indices, data.shape[axis], axis), axis)

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
    """Replace the slices `indices` along `axis` (a scalar input) by `updates`.

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
        want_shapes(self, data, indices, updates, axis)
        mode, keep = self.reduction, self.use_init_val
        at = axis_of(int(axis.reshape(-1)[0]), data.ndim, port=3)
        _check_reach(data.shape, indices.shape, at)
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[at] = places_of(indices, data.shape[at], at)
        where = tuple(places)
        out = data.copy()
        if not keep and mode != "none":
            out[where] = _neutral(mode, out.dtype)
        _store(out, where, updates, mode)
        if mode == "mean":
            counts = np.full(data.shape, 1 if keep else 0, np.int64)
            np.add.at(counts, where, 1)
            # Integer means are cut towards zero.
            out = (out / np.maximum(counts, 1)).astype(out.dtype)
        return out

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
    """Return the neutral element of a reduction."""
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
        # The axis in front is there for indices that name no axis at all.
        at = (np.zeros(indices.shape[:-1], np.int64), *_places(data, indices))
        _store(out[np.newaxis], at, updates, self.reduction)
        return out


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
