"""StridedSlice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from irdeconv.errors import OpError, Problem
from irdeconv.op import op
from irdeconv.ops.binding import ViewOp, indexed
from irdeconv.ops.slicing import FAR, nonzero, shrunk, slice_size, taken, vectors
from irdeconv.spec import Array, Dim, Interval, Shape, Spec


@dataclass(frozen=True)
class _AxisPart:
    """What a StridedSlice does with one axis: the input axis (None: a new one), and how."""

    axis: int | None
    begin: Dim | None = None
    end: Dim | None = None
    step: int | None = 1
    shrink: bool = False


MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")


@op("StridedSlice")
class StridedSlice(ViewOp):
    """Take begin:end:strides of the axes in order; masks say otherwise where they hold a 1.

    `begin_mask`, `end_mask`: that bound is the end of the axis; `new_axis_mask`: a new axis of 1;
    `shrink_axis_mask`: one element, the axis goes; `ellipsis_mask`: all axes that are not named.
    Where a begin is masked, the element is the first, whatever the stride, as in the runtime.
    data: any type; begin, end, strides: integer vectors, strides 1 by default.
    [movement/StridedSlice-1]
    """

    moves: ClassVar[bool] = True

    begin_mask: tuple[int, ...] = ()
    end_mask: tuple[int, ...] = ()
    new_axis_mask: tuple[int, ...] = ()
    shrink_axis_mask: tuple[int, ...] = ()
    ellipsis_mask: tuple[int, ...] = ()

    def check(self) -> Iterator[Problem]:
        for name in MASKS:
            wrong = next((v for v in getattr(self, name) if v not in (0, 1)), None)
            if wrong is not None:
                yield Problem("E210", f"{name} holds {wrong}; it holds 0 and 1", attribute=name)

    def infer(self, data: Spec, begin: Spec, end: Spec, strides: Spec | None = None) -> Spec:
        lists = vectors(begin=begin, end=end, strides=strides)
        if data.shape is None or lists[0] is None or lists[1] is None:
            return Spec(data.dtype, None)
        steps = (1,) * len(lists[0]) if strides is None else lists[2]
        if steps is None:
            return Spec(data.dtype, None)
        parts = self.parts(len(data.shape), lists[0], lists[1], steps)
        out = [_part_size(data.shape, p) for p in parts]
        return Spec(data.dtype, tuple(d for d in out if d is not None))

    def view(
        self, shape: tuple[int, ...], begin: Array, end: Array, strides: Array | None = None
    ) -> Callable[[Array], Array]:
        b, e = (tuple(int(v) for v in x) for x in (begin, end))
        s = (1,) * len(b) if strides is None else tuple(int(v) for v in strides)
        out: list[int | slice | None] = []
        for p in self.parts(len(shape), b, e, s):
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
        """Return what happens to each axis; the axes that are not named stay whole."""
        count = len(begin)
        new = _set(self.new_axis_mask, count)
        ellipsis = sorted(_set(self.ellipsis_mask, count))
        if len(ellipsis) > 1:
            raise OpError(
                f"ellipsis_mask {list(self.ellipsis_mask)} has more than one 1",
                code="E304",
                attribute="ellipsis_mask",
            )
        named = count - len(new | set(ellipsis))
        if named > rank:
            raise OpError(f"begin names {named} axes of data of rank {rank}", code="E302", port=1)
        parts: list[_AxisPart] = []
        axis = 0
        for i in range(count):
            if i in ellipsis:
                parts += [_AxisPart(a) for a in range(axis, axis + rank - named)]
                axis += rank - named
            elif i in new:
                parts.append(_AxisPart(None))
            else:
                parts.append(self._part(i, axis, begin[i], end[i], steps[i]))
                axis += 1
        return parts + [_AxisPart(a) for a in range(axis, rank)]

    def _part(self, i: int, axis: int, begin: Dim, end: Dim, step: Dim) -> _AxisPart:
        shrink = _bit(self.shrink_axis_mask, i)
        if isinstance(step, Interval):
            return _AxisPart(axis, None, None, None, shrink)
        return _AxisPart(
            axis,
            None if _bit(self.begin_mask, i) else begin,
            None if _bit(self.end_mask, i) else end,
            nonzero(step),
            shrink,
        )


def _bit(mask: tuple[int, ...], i: int) -> bool:
    return i < len(mask) and mask[i] == 1


def _set(mask: tuple[int, ...], count: int) -> set[int]:
    return {i for i in range(count) if _bit(mask, i)}


def _part_size(shape: Shape, part: _AxisPart) -> Dim | None:
    """Return the output dimension of a part; None where the axis goes."""
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
        raise OpError(
            f"begin {index} is outside axis {part.axis} of size {size}", code="E305", port=1
        )
    return index
