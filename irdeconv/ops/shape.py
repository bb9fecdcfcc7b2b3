"""Operations on the shape alone: ShapeOf, Reshape, Squeeze, Unsqueeze, and Range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irdeconv.base.errors import attribute_error, value_error
from irdeconv.ir.attributes import Ints
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.op import JUMPS, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of, exact
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    format_shape,
    is_static,
    simplify,
)
from irdeconv.ops.checks import View, ViewOp, axes_of


@op("ShapeOf", until=2)
class ShapeOf1(Op):
    """The shape as a vector: any tensor of rank r -> i64 [r].  [shape/ShapeOf-1]"""

    rounding = JUMPS
    output_type = i64

    def infer(self, data: Spec) -> Spec:
        dtype = self.output_type
        if dtype.name not in ("i32", "i64"):
            raise attribute_error("output_type", f"output_type is {dtype}; it must be i32 or i64")
        if data.shape is None:
            return Spec(dtype, (DYNAMIC,))
        values = np.empty(len(data.shape), object)
        values[:] = data.shape
        return Spec(dtype, values.shape, simplify(values, dtype))

    def evaluate(self, data: Array) -> Array:
        return np.array(data.shape, self.output_type.container)


@op("ShapeOf", since=3, until=17)
class ShapeOf(ShapeOf1):
    """The shape as a vector: any tensor of rank r -> `output_type` [r].  [shape/ShapeOf-3]"""

    output_type: ElementType = attribute(i64, required=True)


@op("Reshape")
class Reshape(ViewOp):
    """Same elements in the shape that the second input gives; one -1 takes the remainder.

    With `special_zero` a 0 copies the dimension of the input at that place.  [shape/Reshape-1]
    """

    signature = "data: any t; shape: integer [?] -> t [*O]"
    special_zero: bool = False

    def complete(self, at: Fit, data: Spec, shape: Spec) -> None:
        pattern = at.values("shape")
        if pattern is not None:
            at.groups["O"] = self.target(data.shape, pattern)

    def view(self, shape: Ints, pattern: Array) -> View:
        target = exact(self.target(shape, tuple(int(v) for v in pattern.reshape(-1))))
        assert target is not None
        return lambda x: x.reshape(target)

    def target(self, shape: Shape | None, pattern: tuple[Dim, ...]) -> Shape:
        """Return the output's shape, or bounds of it; E305 if the elements do not fit."""
        values = [v for v in pattern if not isinstance(v, Interval)]
        if values.count(-1) > 1 or min(values, default=0) < -1:
            text = f"the shape is {values}; at most one value may be -1 and none below it"
            raise value_error(1, text)
        out = [self._size(shape, i, v) for i, v in enumerate(pattern)]
        certain = not any(isinstance(v, Interval) and v.lo < 0 for v in pattern)
        if -1 in values and shape is not None and certain:
            out[pattern.index(-1)] = self._left_over(shape, pattern, out)
        if len(values) == len(pattern) and is_static(shape):
            self._check(shape, values, out)
        return tuple(out)

    def _size(self, shape: Shape | None, i: int, v: Dim) -> Dim:
        """Return the dimension that a value of the pattern names; that of a -1 is open."""
        if self.special_zero and v == 0 and shape is not None:
            if i < len(shape):
                return shape[i]
            text = f"value {i} of the shape is 0 (special_zero copies the dimension), but the data "
            raise value_error(1, f"{text}has rank {len(shape)}")
        # A 0 among the values of an interval would copy.
        return v if bounds(v)[0] >= int(self.special_zero) else DYNAMIC

    def _left_over(self, shape: Shape, pattern: tuple[Dim, ...], out: list[Dim]) -> Dim:
        """Divide the elements by the other dimensions; copied ones cancel, even unknown ones."""
        named = {i for i, v in enumerate(pattern) if not self.special_zero or v != 0}
        others = named - {pattern.index(-1)}
        size = math.prod(d for i, d in enumerate(shape) if i in named or i >= len(pattern))
        (slo, shi), (rlo, rhi) = bounds(size), bounds(math.prod(out[i] for i in others))
        if rhi == 0 and 0 not in shape:
            text = f"no dimension of {format_shape(shape)} is 0, which the -1 of {list(pattern)}"
            raise value_error(1, f"{text} beside a 0 needs")
        if rlo == 0:
            return 1 if rhi == 0 else DYNAMIC
        low = 0 if rhi is None else -(-slo // rhi)
        high = None if shi is None else shi // rlo
        if low == high:
            return low  # also beyond the largest dimension, which is refused later
        return DYNAMIC if high is not None and high < low else Interval.of(low, high)

    def _check(self, shape: Shape, pattern: list[int], out: list[Dim]) -> None:
        """Require that exact shapes have the same number of elements."""
        if not is_static(tuple(out)) or math.prod(out) != math.prod(shape):
            text = f"{format_shape(shape)} has {math.prod(shape)} elements, which do not fill "
            raise value_error(1, f"{text}{pattern}")


@op("Squeeze", until=14)
class Squeeze1(ViewOp):
    """Remove the given axes of size 1 (all of them without `axes`).  [shape/Squeeze-1]"""

    signature = "data: any t; axes?: integer [*A:1] -> t [*O]"
    allow_axis_skip = False

    def complete(self, at: Fit, data: Spec, axes: Spec | None = None) -> None:
        skip, values = self.allow_axis_skip, at.values("axes")
        chosen = exact(values)
        if axes is None or values == ():
            at.groups["O"] = _squeeze_all(data.shape)
        elif data.shape is not None and chosen is None:
            if values is not None and not skip and len(values) <= len(data.shape):
                at.groups["O"] = (DYNAMIC,) * (len(data.shape) - len(values))
        elif data.shape is not None and chosen is not None:
            at.groups["O"] = _squeeze(data.shape, chosen, skip)

    def view(self, shape: Ints, axes: Array | None = None) -> View:
        if axes is None or axes.size == 0:
            return _reshaping(_squeeze_all(shape))
        return _reshaping(_squeeze(shape, [int(a) for a in axes.reshape(-1)], self.allow_axis_skip))


def _reshaping(target: Shape | None) -> View:
    """Reshape to a shape that follows from the data's own shape, so it is exact."""
    assert is_static(target)
    return lambda x: x.reshape(target)


def _squeeze_all(shape: Shape | None) -> Shape | None:
    if shape is None or any(isinstance(d, Interval) and d.lo <= 1 for d in shape):
        return None
    return tuple(d for d in shape if d != 1)


def _squeeze(shape: Shape, axes: Sequence[int], skip: bool) -> Shape | None:
    gone = {axis_of(a, len(shape), port=1) for a in axes}  # repeated axes are allowed
    for a in sorted(gone):
        low, high = bounds(shape[a])
        if low <= 1 and (high is None or high >= 1):
            if skip and low != high:
                return None
            continue
        if not skip:
            text = f"axis {a} has dimension {shape[a]}; only axes of 1 can be squeezed"
            raise value_error(1, text)
        gone.discard(a)
    return tuple(d for i, d in enumerate(shape) if i not in gone)


@op("Squeeze", since=15)
class Squeeze(Squeeze1):
    """Remove the given axes of size 1 (all of them without `axes`).

    With `allow_axis_skip` a given axis of another size stays.  [shape/Squeeze-15]
    """

    allow_axis_skip: bool = False


@op("Unsqueeze")
class Unsqueeze(ViewOp):
    """Insert axes of size 1 at the given places of the output.  [shape/Unsqueeze-1]"""

    signature = "data: any t; axes: integer [*A:1] -> t [*O]"

    def complete(self, at: Fit, data: Spec, axes: Spec) -> None:
        places = at.values("axes")
        chosen = exact(places)
        if places == ():
            raise value_error(1, "axes is empty; one at least is needed")
        if data.shape is not None and chosen is not None:
            at.groups["O"] = _unsqueeze(data.shape, chosen)
        elif data.shape is not None and places is not None:
            at.groups["O"] = (DYNAMIC,) * (len(data.shape) + len(places))

    def view(self, shape: Ints, axes: Array) -> View:
        return _reshaping(_unsqueeze(shape, [int(a) for a in axes.reshape(-1)]))


def _unsqueeze(shape: Shape, axes: Sequence[int]) -> Shape:
    rank = len(shape) + len(axes)
    new = axes_of(axes, rank, 1)
    old = iter(shape)
    return tuple(1 if i in new else next(old) for i in range(rank))
