"""Reading and writing at computed indices.

Reading and writing at computed places: GatherElements, GatherND, Scatter*.

Places of elements as tensors: NonZero, OneHot.

SliceScatter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import mul
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.op import JUMPS, MOVES, Op, attribute, op
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    is_static,
    merge,
    non_negative,
)
from irdeconv.ops.checks import (
    axis_of,
    index_type,
    one_type,
    places_of,
    shape_of,
    single,
    want_rank,
    want_shapes,
    want_type,
)
from irdeconv.ops.slicing import Slice


@op("GatherElements", since=6)
class GatherElements(Op):
    """out[.., i, ..] = data[.., indices[.., i, ..], ..] along `axis`; the shape of the indices.

    Ranks are equal, negative indices count from the end.  [movement/GatherElements-6]
    """

    rounding = MOVES
    axis: int = attribute(0, documented=True)

    def infer(self, data: Spec, indices: Spec) -> Spec:
        want_type(indices, "integer", 1, "indices")
        if data.shape is None or indices.shape is None:
            return Spec(data.dtype, indices.shape)
        if len(data.shape) != len(indices.shape):
            raise OpError(
                f"indices have rank {len(indices.shape)} for data of rank {len(data.shape)}",
                code="E301",
                port=1,
            )
        axis = axis_of(self.axis, len(data.shape), attribute="axis")
        for i, (d, n) in enumerate(zip(data.shape, indices.shape, strict=True)):
            if i != axis and merge(d, n) is None:
                raise OpError(
                    f"data {format_shape(data.shape)} and indices {format_shape(indices.shape)} "
                    f"differ on axis {i}; only axis {axis} may differ",
                    code="E302",
                    port=1,
                )
        return Spec(data.dtype, indices.shape)

    def evaluate(self, data: Array, indices: Array) -> Array:
        want_shapes(self, data, indices)
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        if not indices.size:
            return np.empty(indices.shape, data.dtype)
        return np.take_along_axis(data, places_of(indices, data.shape[axis], axis), axis)


class _GatherND(Op):
    """Base of the two versions."""

    rounding = MOVES
    batch_dims: int = 0

    def infer(self, data: Spec, indices: Spec) -> Spec:
        shape = self._shape(data, indices)
        return Spec(data.dtype, None if shape is None else (*self.lead(shape[0]), *shape[1]))

    def lead(self, batch: Shape) -> Shape:
        """Return the output's axes that stand for the batch dimensions."""
        return batch

    def _shape(self, data: Spec, indices: Spec) -> tuple[Shape, Shape] | None:
        """Return batch dimensions and the others; None where they are unknown."""
        want_type(indices, "integer", 1, "indices")
        want_rank(data.shape, 1, None, 0, "data")
        want_rank(indices.shape, 1, None, 1, "indices")
        if data.shape is None or indices.shape is None:
            return None
        b, depth = self.batch_dims, indices.shape[-1]
        if not 0 <= b < min(len(data.shape), len(indices.shape)):
            raise OpError(
                f"batch_dims {b} is outside data of rank {len(data.shape)} and indices of rank "
                f"{len(indices.shape)}",
                code="E304",
                attribute="batch_dims",
            )
        if isinstance(depth, Interval):
            return None
        if depth > len(data.shape) - b:
            raise OpError(
                f"indices name {depth} axes of data of rank {len(data.shape)} with batch_dims {b}",
                code="E302",
                port=1,
            )
        return indices.shape[:b], (*indices.shape[b:-1], *data.shape[b + depth :])

    def evaluate(self, data: Array, indices: Array) -> Array:
        shape = shape_of(self.infer(*(Spec.of(a, keep=False) for a in (data, indices))))
        b = self.batch_dims
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
class GatherND5(_GatherND):
    """Take data[indices[.., :]], for each of the first `batch_dims` axes, which become one axis.

    [movement/GatherND-5]
    """

    batch_dims: int = 0

    def lead(self, batch: Shape) -> Shape:
        return (reduce(mul, batch),) if batch else ()


@op("GatherND", since=8)
class GatherND(_GatherND):
    """Take data[indices[.., :]], separately for each of the first `batch_dims` axes.

    Negative indices count from the end.  [movement/GatherND-8]
    """

    batch_dims: int = 0


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


class _Scatter(Op):
    """Base: the result has the data's type and shape."""

    rounding = MOVES

    def _infer(self, data: Spec, indices: Spec, updates: Spec) -> Spec:
        want_type(indices, "integer", 1, "indices")
        dtype = one_type(data, updates, names=("data", "updates"), ports=(0, 2))
        return Spec(dtype, data.shape)


def _along(data: Spec, axis: Spec) -> int | None:
    """Return the axis counted from 0; None where it or the rank is unknown."""
    known = single(axis, 3, "axis")
    if isinstance(known, Interval) or data.shape is None:
        return None
    return axis_of(known, len(data.shape), port=3)


def _want_updates(updates: Spec, wanted: Shape) -> None:
    if not compatible(updates.shape, wanted):
        raise OpError(
            f"updates are {format_shape(updates.shape)}; data and indices want "
            f"{format_shape(wanted)}",
            code="E302",
            port=2,
        )


@op("ScatterUpdate", since=3)
class ScatterUpdate(_Scatter):
    """Replace the slices `indices` along `axis` (a scalar input) by `updates`.

    [movement/ScatterUpdate-3]
    """

    def infer(self, data: Spec, indices: Spec, updates: Spec, axis: Spec) -> Spec:
        at = _along(data, axis)
        if at is not None and data.shape is not None and indices.shape is not None:
            _want_updates(updates, (*data.shape[:at], *indices.shape, *data.shape[at + 1 :]))
        return self._infer(data, indices, updates)

    def evaluate(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        out = data.copy()
        at = axis_of(int(axis.reshape(-1)[0]), data.ndim, port=3)
        wanted = (*data.shape[:at], *indices.shape, *data.shape[at + 1 :])
        _want_updates(Spec(None, updates.shape), wanted)
        place: Any = (*(slice(None),) * at, places_of(indices, data.shape[at], at))
        out[place] = updates
        return out


class _ScatterElements(_Scatter):
    """Base of the two versions."""

    reduction: str = "none"
    use_init_val: bool = True

    def infer(self, data: Spec, indices: Spec, updates: Spec, axis: Spec) -> Spec:
        at = _along(data, axis)
        for port, s, name in ((1, indices, "indices"), (2, updates, "updates")):
            if data.shape is not None:
                want_rank(s.shape, len(data.shape), len(data.shape), port, name)
        if indices.shape is not None:
            _want_updates(updates, indices.shape)
        if at is not None and data.shape is not None and indices.shape is not None:
            _check_reach(data.shape, indices.shape, at)
        return self._infer(data, indices, updates)

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


def _check_reach(data: Shape, indices: Shape, axis: int) -> None:
    """Require that no axis of the indices but the given one is longer than that of the data."""
    for i, (d, n) in enumerate(zip(data, indices, strict=True)):
        high = bounds(d)[1]
        if i != axis and high is not None and bounds(n)[0] > high:
            raise OpError(
                f"indices {format_shape(indices)} are longer than data {format_shape(data)} on "
                f"axis {i}; only axis {axis} may be",
                code="E302",
                port=1,
            )


def _neutral(mode: str, dtype: np.dtype[Any]) -> Any:
    """Return what leaves the other operand of a reduction as it is."""
    if mode in ("sum", "mean"):
        return 0
    if mode == "prod":
        return 1
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if mode == "min" else np.iinfo(dtype).min
    return np.inf if mode == "min" else -np.inf


@op("ScatterElementsUpdate", since=3, until=11)
class ScatterElementsUpdate3(_ScatterElements):
    """Write updates[.., i, ..] to place indices[.., i, ..] along `axis` (a scalar input).

    [movement/ScatterElementsUpdate-3]
    """


@op("ScatterElementsUpdate", since=12)
class ScatterElementsUpdate(_ScatterElements):
    """Write or combine updates[.., i, ..] at place indices[.., i, ..] along `axis`.

    `use_init_val` says whether the data itself takes part in the `reduction`.
    [movement/ScatterElementsUpdate-12]
    """

    reduction: Literal["none", "sum", "prod", "min", "max", "mean"] = "none"
    use_init_val: bool = True


class _ScatterND(_Scatter):
    """Base of the two versions."""

    reduction: str = "none"

    def infer(self, data: Spec, indices: Spec, updates: Spec) -> Spec:
        want_rank(indices.shape, 1, None, 1, "indices")
        if data.shape is not None and indices.shape is not None:
            self._check_updates(data.shape, indices.shape, updates)
        return self._infer(data, indices, updates)

    def _check_updates(self, data: Shape, indices: Shape, updates: Spec) -> None:
        depth = indices[-1]
        if isinstance(depth, Interval):
            return
        if depth > len(data):
            text = f"indices name {depth} axes of data of rank {len(data)}"
            raise OpError(text, code="E302", port=1)
        _want_updates(updates, (*indices[:-1], *data[depth:]))

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        want_shapes(self, data, indices, updates)
        out = data.copy()
        # The axis in front is there for indices that name no axis at all.
        first = np.zeros(indices.shape[:-1], np.int64)
        at = (first, *_places(data, indices))
        _store(out[np.newaxis], at, updates, self.reduction)
        return out


@op("ScatterNDUpdate", since=4, until=14)
class ScatterNDUpdate3(_ScatterND):
    """Replace data[indices[.., :]] by updates.  [movement/ScatterNDUpdate-3]"""


@op("ScatterNDUpdate", since=15)
class ScatterNDUpdate(_ScatterND):
    """Replace data[indices[.., :]] by updates or combine both.  [movement/ScatterNDUpdate-15]"""

    reduction: Literal["none", "sum", "sub", "prod", "min", "max"] = "none"


@op("NonZero", since=3)
class NonZero(Op):
    """Places of the elements that are not 0: [rank, count] of `output_type`, row-major order.

    [condition/NonZero-3]
    """

    rounding = JUMPS
    output_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def infer(self, data: Spec) -> Spec:
        if data.shape is None:
            return Spec(self.output_type, (DYNAMIC, DYNAMIC))
        if data.known is not None:
            return Spec(self.output_type, (len(data.shape), int(np.count_nonzero(data.known))))
        highest = math.prod(data.shape) if is_static(data.shape) else None
        return Spec(self.output_type, (len(data.shape), Interval.of(0, highest)))

    def evaluate(self, data: Array) -> Array:
        found = np.nonzero(np.atleast_1d(data))
        return np.array(found if data.ndim else (), self.output_type.container).reshape(
            data.ndim, -1 if data.ndim else len(found[0])
        )


class _OneHot(Op):
    """Base of the two versions."""

    rounding = JUMPS
    axis: int
    negative_indices_mode: str = "ignore_negative"

    def infer(self, indices: Spec, depth: Spec, on_value: Spec, off_value: Spec) -> Spec:
        want_type(indices, "integer", 0, "indices")
        dtype = one_type(on_value, off_value, names=("on_value", "off_value"), ports=(2, 3))
        count = single(depth, 1, "depth")
        if indices.shape is None:
            return Spec(dtype, None)
        at = axis_of(self.axis, len(indices.shape) + 1, attribute="axis")
        if bounds(count)[1] is not None and (bounds(count)[1] or 0) < 0:
            raise OpError(f"depth is {count}; it must not be negative", code="E305", port=1)
        return Spec(dtype, (*indices.shape[:at], non_negative(count), *indices.shape[at:]))

    def evaluate(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        at = self.axis % (indices.ndim + 1)
        shape = [1] * (indices.ndim + 1)
        shape[at] = int(depth.reshape(-1)[0])
        if self.negative_indices_mode == "normalize":
            indices = np.where(indices < 0, indices + shape[at], indices)
        found = np.expand_dims(indices, at) == np.arange(shape[at]).reshape(shape)
        out = np.where(found, on_value.reshape(-1)[0], off_value.reshape(-1)[0])
        return np.asarray(out, on_value.dtype)


@op("OneHot", until=15)
class OneHot1(_OneHot):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    indices: integers, those outside 0..depth-1 give no on_value; depth, values: scalars.
    [sequence/OneHot-1]
    """

    axis: int = attribute(0, documented=True)


@op("OneHot", since=16)
class OneHot(_OneHot):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    Negative indices give no on_value or, normalized, count from the end.  [sequence/OneHot-16]
    """

    axis: int = attribute(0, documented=True)
    negative_indices_mode: Literal["ignore_negative", "normalize"] = "ignore_negative"


@op("SliceScatter", since=15)
class SliceScatter(Op):
    """Replace start:stop:step of the given axes (of the first ones without `axes`) by `updates`.

    start, stop, step, axes: as of Slice; updates: the shape of that slice; data and updates: any
    type, one for both.  [movement/SliceScatter-15]
    """

    rounding = MOVES
    part: ClassVar[Slice] = Slice()

    def infer(
        self,
        data: Spec,
        updates: Spec,
        start: Spec,
        stop: Spec,
        step: Spec,
        axes: Spec | None = None,
    ) -> Spec:
        dtype = one_type(data, updates, names=("data", "updates"))
        lists = (start, stop, step) if axes is None else (start, stop, step, axes)
        try:
            replaced = self.part.infer(data, *lists)
        except OpError as e:  # Slice has its lists one port earlier
            port = e.problem.port
            shifted = replace(e.problem, port=port + 1) if port else e.problem
            raise OpError.of(shifted) from None
        _want_shape(updates.shape, replaced.shape)
        return Spec(dtype, data.shape)

    def evaluate(self, data: Array, updates: Array, *lists: Array) -> Array:
        out = data.copy()
        replaced = self.part.view(data.shape, *lists)(out)
        _want_shape(updates.shape, replaced.shape)
        np.copyto(replaced, updates)
        return out


def _want_shape(updates: Shape | None, replaced: Shape | None) -> None:
    if not compatible(replaced, updates):
        raise OpError(
            f"updates are {format_shape(updates)}; the slice is {format_shape(replaced)}",
            code="E302",
            port=1,
        )
