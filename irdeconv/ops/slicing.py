"""Parts of tensors: Slice, Gather, StridedSlice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from irdeconv.base.errors import Problem, attribute_error, size_error, value_error
from irdeconv.ir.attributes import Ints, ValueRange
from irdeconv.ir.op import Bound, op
from irdeconv.ir.ports import Fit, axis_of, exact
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, format_shape, ints
from irdeconv.kernels.copies import TakeRows, suits, take
from irdeconv.ops.checks import MovingOp, View, ViewOp, axes_of, indexed, shape_of

FAR = 2**62  # bounds of slices beyond it mean "to the end"


def slice_size(size: Dim, start: Dim, stop: Dim, step: int) -> Dim:
    """Return the number of elements in a slice; its interval if something is unknown."""
    high = bounds(size)[1]
    if _mixed(start) or _mixed(stop):
        return Interval.of(0, None if high is None else -(-high // abs(step)))
    low: int | None = None
    top: int | None = 0
    for a, b in product(_ends(start), _ends(stop)):
        lo, hi = _size_bounds(size, a, b, step)
        low = lo if low is None else min(low, lo)
        top = None if top is None or hi is None else max(top, hi)
    return Interval.of(low or 0, top)


def _mixed(v: Dim) -> bool:
    """Whether a bound may count from the begin or from the end."""
    low, high = bounds(v)
    return isinstance(v, Interval) and low < 0 and (high is None or high >= 0)


def _ends(v: Dim) -> tuple[int, int]:
    low, high = bounds(v)
    return low, FAR if high is None else high


def _size_bounds(size: Dim, start: int, stop: int, step: int) -> tuple[int, int | None]:
    """Return the least and the largest count over all sizes.

    The count is linear in the size between a few sizes, at which a bound meets the other one or an
    end of the axis. So only these are checked.
    """
    lo, hi = bounds(size)
    if lo == hi:
        return (count := _count(lo, start, stop, step)), count
    near = [abs(start), abs(stop), abs(start) + abs(stop), abs(abs(start) - abs(stop))]
    far = max(v for v in (*near, lo) if v < FAR) + 4 * abs(step) + 1
    last = far if hi is None else hi
    places = {lo, last} | {p + d for p in near for d in range(-2, 3)}
    counts = [_count(p, start, stop, step) for p in places if lo <= p <= last]
    grows = hi is None and _count(4 * far, start, stop, step) > _count(far, start, stop, step)
    return min(counts), None if grows else max(counts)


def _count(size: int, start: int, stop: int, step: int) -> int:
    first, behind, by = taken(size, start, stop, step).indices(size)
    return max(0, -((first - behind) // by))  # len() of a range refuses sizes above 2**63


def taken(size: int, start: Any, stop: Any, step: int | None) -> slice:
    """Return the slice of an axis: Python's, but backwards a start before the axis is its 0.

    The document refers to Python; the runtime clamps that start to the axis, as ONNX does.
    """
    backwards = step is not None and step < 0
    return slice(0 if backwards and start is not None and start < -size else start, stop, step)


@op("Slice", since=8)
class Slice(ViewOp):
    """Take start:stop:step of the given axes (of the first ones without `axes`).

    start, stop, step, axes: integer vectors of one length; negative bounds count from the end,
    steps may be negative. data: any type.  [movement/Slice-8]
    """

    signature = (
        "data: any t; start: integer [L]; stop: integer [L]; step: integer [L]; "
        "axes?: integer [L] -> t [*O]"
    )

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        out, chosen = list(shape), self._axes(at, len(shape))
        starts, stops, steps = map(at.values, ("start", "stop", "step"))
        if chosen is None or starts is None or stops is None or steps is None:
            at.groups["O"] = tuple(map(shrunk, shape))
            return
        for axis, a, b, by in zip(chosen, starts, stops, steps, strict=True):
            if isinstance(by, Interval):
                out[axis] = shrunk(shape[axis])
            else:
                out[axis] = slice_size(shape[axis], a, b, nonzero(by))
        at.groups["O"] = tuple(out)

    def _axes(self, at: Fit, rank: int) -> tuple[int, ...] | None:
        if at.spec("axes") is not None:
            axes = exact(at.values("axes"))
            return None if axes is None else axes_of(axes, rank, 4)
        count = at["L"]
        return axes_of(range(count), rank, 1) if isinstance(count, int) else None

    def view(self, shape: Ints, start: Array, stop: Array, step: Array, *axes: Array) -> View:
        chosen = [int(a) for a in axes[0]] if axes else range(start.size)
        out = [slice(None)] * len(shape)
        for axis, a, b, s in zip(axes_of(chosen, len(shape), 4), start, stop, step, strict=True):
            out[axis] = taken(shape[axis], int(a), int(b), nonzero(int(s)))
        return indexed(tuple(out))


def shrunk(d: Dim) -> Dim:
    """Return the sizes that a part of an axis may have."""
    return Interval.of(0, bounds(d)[1])


def nonzero(step: int, port: int = 3) -> int:
    """Return the step; E305 if it is 0."""
    if step == 0:
        raise value_error(port, "a step is 0")
    return step


@op("Gather", until=6)
class Gather1(MovingOp):
    """Take `indices` along `axis` (a scalar input): [.., A, ..] -> [.., *indices, ..].

    Indices outside the axis, negative ones too, give 0.
    [movement/Gather-1]
    """

    partial: ClassVar[bool] = True
    wraps: ClassVar[bool] = False  # whether negative indices count from the end
    signature = "data: any t; indices: integer; axis: integer one of data -> t [*O]"
    batch_dims = 0

    def complete_from(self, found: Fit, shape: Shape, *others: Spec) -> None:
        indices, chosen = others[0].shape, found.axes("axis")
        if indices is None:
            return
        dims = self._batch(len(indices), len(shape))
        if chosen is None:
            found.groups["O"] = (DYNAMIC,) * (len(shape) - 1 + len(indices) - dims)
            return
        (at,) = chosen
        self._check_batch(shape, indices, dims, at)
        found.groups["O"] = (*shape[:at], *indices[dims:], *shape[at + 1 :])

    def evaluate(self, data: Array, indices: Array, axis: Array) -> Array:
        at = axis_of(int(axis.reshape(-1)[0]), data.ndim, port=2)
        if indices.dtype == object:
            raise TypeError("Gather with unknown indices")
        places = indices.astype(np.int64, copy=False)
        if not self.wraps:  # negative indices are beyond every axis
            places = np.where(indices < 0, FAR, places)
        dims = self._batch(indices.ndim, data.ndim)
        self._check_batch(data.shape, indices.shape, dims, at)
        return gather(data, places, at, dims)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Constant indices inside of the axis: a view if they are evenly spaced, else a copy."""
        indices, axis = inputs[1].known, ints(inputs[2])
        if axis is None or self.batch_dims:
            return None
        shape = shape_of(inputs[0])
        at = axis_of(axis[0], len(shape))
        if indices is None:
            kinds = [s.dtype.container if s.dtype is not None else None for s in inputs[:2]]
            return Bound(TakeRows(at, self.wraps)) if suits(*kinds) else None
        places = indices.astype(np.int64)
        if self.wraps:
            places = np.where(places < 0, places + shape[at], places)
        if places.min() < 0 or places.max() >= shape[at]:
            return None
        ahead = (slice(None),) * at
        if places.ndim == 0:
            return Bound(view=indexed((*ahead, int(places))))
        flat = places.reshape(-1)
        step = int(flat[1] - flat[0]) if flat.size > 1 else 1
        if places.ndim == 1 and step > 0 and (np.diff(flat) == step).all():
            return Bound(view=indexed((*ahead, slice(int(flat[0]), int(flat[-1]) + 1, step))))
        return Bound(lambda x, *_, out, team: take(x, places, at, out))

    def _batch(self, indices_rank: int, rank: int) -> int:
        batch = self.batch_dims
        dims = batch + indices_rank if batch < 0 else batch
        if not 0 <= dims <= min(indices_rank, rank):
            text = f"batch_dims {batch} is outside indices of rank {indices_rank} and data of "
            text += f"rank {rank}"
            raise attribute_error("batch_dims", text)
        return dims

    def _check_batch(self, data: Shape, indices: Shape, dims: int, axis: int) -> None:
        if dims > axis:
            raise attribute_error("batch_dims", f"batch_dims {dims} is above axis {axis}")
        for i in range(dims):
            (alo, ahi), (blo, bhi) = bounds(data[i]), bounds(indices[i])
            if (ahi is not None and blo > ahi) or (bhi is not None and alo > bhi):
                text = f"data {format_shape(data)} and indices {format_shape(indices)} differ in "
                text += f"batch dimension {i}"
                raise size_error(1, text)


def gather(data: Array, indices: Array, axis: int, batch: int) -> Array:
    """Take `indices` along an axis; negative ones count from the end, outside ones give 0."""
    size = data.shape[axis]
    near = indices.dtype == np.int64 and indices.view(np.uint64).max(initial=0) < size
    if batch == 0 and indices.size and near:  # negative ones are large as unsigned numbers
        # Of an object array with one index NumPy returns the bare element.
        return np.asarray(np.take(data, indices, axis), data.dtype)
    wrapped = np.where(indices < 0, indices + size, indices)
    inside = (wrapped >= 0) & (wrapped < size)
    safe = wrapped if inside.all() else np.where(inside, wrapped, 0)
    if safe.size and size == 0:
        shape = (*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
        return np.zeros(shape, data.dtype)
    taken = np.take(data, safe, axis) if batch == 0 else _gather_batched(data, safe, axis, batch)
    out = np.asarray(taken, data.dtype)
    if safe is wrapped:
        return out
    tail = data.ndim - axis - 1
    first, rest = inside.shape[:batch], inside.shape[batch:]
    mask = inside.reshape(*first, *(1,) * (axis - batch), *rest, *(1,) * tail)
    return np.where(mask, out, np.zeros((), data.dtype))


def _gather_batched(data: Array, indices: Array, axis: int, batch: int) -> Array:
    lead = indices.shape[:batch]
    shape = (*lead, *data.shape[batch:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    out = np.empty(shape, data.dtype)
    for at in np.ndindex(*lead):
        out[at] = np.take(data[at], indices[at], axis - batch)
    return out


@op("Gather", since=7, until=7)
class Gather7(Gather1):
    """Take `indices` along `axis`, separately for each of the first `batch_dims` axes.

    Indices outside the axis, negative ones too, give 0.  [movement/Gather-7]
    """

    batch_dims: int = 0


@op("Gather", since=8)
class Gather(Gather7):
    """Take `indices` along `axis`, separately for each of the first `batch_dims` axes.

    Negative indices count from the end; those outside the axis give 0.  [movement/Gather-8]
    """

    wraps: ClassVar[bool] = True


@dataclass(frozen=True)
class _AxisPart:
    """A StridedSlice on one axis: the input axis (None: a new one), and its range."""

    axis: int | None
    begin: Dim | None = None
    end: Dim | None = None
    step: int | None = 1
    shrink: bool = False


_Mask = Annotated[Ints, ValueRange(0, high=1)]


@op("StridedSlice")
class StridedSlice(ViewOp):
    """Take begin:end:strides of the axes in order; a 1 in a mask makes an exception.

    `begin_mask`, `end_mask`: that bound is the end of the axis; `new_axis_mask`: a new axis of 1;
    `shrink_axis_mask`: one element, without its axis; `ellipsis_mask`: all axes that are not named.
    If its begin is masked, that element is the first, for any stride, as in the runtime.
    data: any type; begin, end, strides: integer vectors, strides 1 by default.
    [movement/StridedSlice-1]
    """

    signature = "data: any t; begin: integer [L]; end: integer [L]; strides?: integer [L] -> t [*O]"

    begin_mask: _Mask = ()
    end_mask: _Mask = ()
    new_axis_mask: _Mask = ()
    shrink_axis_mask: _Mask = ()
    ellipsis_mask: _Mask = ()

    def check(self) -> Iterator[Problem]:
        count = len(self.begin_mask)
        more = (self.end_mask, self.new_axis_mask, self.shrink_axis_mask, self.ellipsis_mask)
        if any(len(m) != count for m in filter(None, more)):
            yield Problem("E304", "the masks have different lengths", attribute="begin_mask")

    def complete(self, at: Fit, data: Spec, *lists: Spec) -> None:
        begin, end = at.values("begin"), at.values("end")
        steps = at.values("strides") if len(lists) > 2 else (1,) * len(begin or ())
        if data.shape is None or begin is None or end is None or steps is None:
            return
        parts = self.parts(len(data.shape), begin, end, steps)
        out = [_part_size(data.shape, p) for p in parts]
        at.groups["O"] = tuple(d for d in out if d is not None)

    def view(self, shape: Ints, begin: Array, end: Array, strides: Array | None = None) -> View:
        lists = (begin, end, np.ones_like(begin) if strides is None else strides)
        out: list[int | slice | None] = []
        for p in self.parts(len(shape), *(tuple(map(int, values)) for values in lists)):
            if p.axis is None:
                out.append(None)
            elif p.shrink:
                out.append(_element(shape[p.axis], p))
            else:
                out.append(taken(shape[p.axis], p.begin, p.end, p.step))
        return indexed(tuple(out))

    def parts(
        self, rank: int, begin: tuple[Dim, ...], end: tuple[Dim, ...], steps: tuple[Dim, ...]
    ) -> list[_AxisPart]:
        """Return the slice of each axis; the axes that are not named stay whole."""
        count = len(begin)
        low, high, new, shrink, ellipsis = (
            {i for i, bit in enumerate(mask[:count]) if bit == 1}
            for mask in (
                *(self.begin_mask, self.end_mask, self.new_axis_mask),
                *(self.shrink_axis_mask, self.ellipsis_mask),
            )
        )
        if len(ellipsis) > 1:
            text = f"ellipsis_mask {list(self.ellipsis_mask)} has more than one 1"
            raise attribute_error("ellipsis_mask", text)
        named = count - len(new | ellipsis)
        if named > rank:
            raise size_error(1, f"begin names {named} axes of data of rank {rank}")
        parts: list[_AxisPart] = []
        axis = 0
        for i in range(count):
            if i in ellipsis:
                parts += [_AxisPart(a) for a in range(axis, axis + rank - named)]
                axis += rank - named
            elif i in new:
                parts.append(_AxisPart(None))
            else:
                step, first, last = steps[i], begin[i], end[i]
                part = _AxisPart(axis, step=None, shrink=i in shrink)
                if not isinstance(step, Interval):
                    ends = None if i in low else first, None if i in high else last
                    part = _AxisPart(axis, *ends, nonzero(step), i in shrink)
                parts.append(part)
                axis += 1
        return parts + [_AxisPart(a) for a in range(axis, rank)]


def _part_size(shape: Shape, part: _AxisPart) -> Dim | None:
    """Return the output dimension of a part; None if the axis is removed."""
    if part.axis is None:
        return 1
    size = shape[part.axis]
    if part.shrink:
        if not isinstance(size, Interval) and not isinstance(part.begin, Interval):
            _element(size, part)
        return None
    if part.step is None:
        return shrunk(size)
    low, high = (0, FAR) if part.step > 0 else (FAR, -FAR)
    begin = low if part.begin is None else part.begin
    return slice_size(size, begin, high if part.end is None else part.end, part.step)


def _element(size: int, part: _AxisPart) -> int:
    """Return the index that a shrunk axis keeps; E305 outside the axis."""
    index = 0 if part.begin is None else part.begin
    assert not isinstance(index, Interval)
    if not -size <= index < size:
        raise value_error(1, f"begin {index} is outside axis {part.axis} of size {size}")
    return index
