"""Operations on the shape alone: ShapeOf, Reshape, Squeeze, Unsqueeze, and Range."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
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
from irdeconv.ops.checks import ViewOp, axes_of


@op("ShapeOf", until=2)
class ShapeOf1(Op):
    """The shape as a vector: any tensor of rank r -> i64 [r].  [shape/ShapeOf-1]"""

    rounding = JUMPS
    output_type = i64

    def infer(self, data: Spec) -> Spec:
        dtype = self.output_type
        if dtype.name not in ("i32", "i64"):
            text = f"output_type is {dtype}; it must be i32 or i64"
            raise OpError(text, code="E304", attribute="output_type")
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
        known = exact(pattern)
        if known is not None and is_static(data.shape):
            at.groups["O"] = self.resolve(data.shape, known)
        elif pattern is not None:
            at.groups["O"] = self._estimate(data.shape, pattern)

    def view(self, shape: tuple[int, ...], pattern: Array) -> Callable[[Array], Array]:
        target = self.resolve(shape, tuple(int(v) for v in pattern.reshape(-1)))
        return lambda x: x.reshape(target)

    def resolve(self, shape: tuple[int, ...], pattern: Sequence[int]) -> tuple[int, ...]:
        """Return the exact output shape; E305 if the elements do not fit."""
        self._check(pattern)
        out = list(self._copied(shape, pattern))
        size = math.prod(shape)
        if -1 in pattern:
            at = list(pattern).index(-1)
            own, rest = self._others(shape, pattern, out, at)
            out[at], fits = (own // rest, own % rest == 0) if rest else (1, own == 0)
        else:
            fits = math.prod(out) == size
        if not fits:
            text = f"{format_shape(shape)} has {size} elements, which do not fill {list(pattern)}"
            raise OpError(text, code="E305", port=1)
        return tuple(out)

    def _others(
        self, shape: Shape, pattern: Sequence[Dim], out: Sequence[Dim], at: int
    ) -> tuple[Any, Any]:
        """Return the elements and the product of the dimensions but that at a place.

        Copied ones cancel, even 0 and unknown ones.
        """
        copied = {i for i, v in enumerate(pattern) if self.special_zero and v == 0}
        size = math.prod(d for i, d in enumerate(shape) if i not in copied)
        return size, math.prod(d for i, d in enumerate(out) if i not in copied and i != at)

    def _check(self, pattern: Sequence[int]) -> None:
        if list(pattern).count(-1) > 1 or any(v < -1 for v in pattern):
            text = f"the shape is {list(pattern)}; at most one value may be -1 and none below it"
            raise OpError(text, code="E305", port=1)

    def _copied(self, shape: Sequence[int], pattern: Sequence[int]) -> list[int]:
        if not self.special_zero:
            return list(pattern)
        for i, v in enumerate(pattern):
            if v == 0 and i >= len(shape):
                text = f"value {i} of the shape {list(pattern)} is 0 (special_zero copies the "
                text += f"dimension), but the data has rank {len(shape)}"
                raise OpError(text, code="E305", port=1)
        return [shape[i] if v == 0 else v for i, v in enumerate(pattern)]

    def _estimate(self, shape: Shape | None, pattern: tuple[Dim, ...]) -> Shape:
        """Return bounds of the output if the input or the pattern is partly known."""
        self._check([v for v in pattern if not isinstance(v, Interval)])
        out = [self._target(shape, i, v) for i, v in enumerate(pattern)]
        wild = [i for i, v in enumerate(pattern) if v == -1]
        certain = not any(isinstance(v, Interval) and v.lo < 0 for v in pattern)
        if wild and shape is not None and certain:
            out[wild[0]] = self._left_over(shape, pattern, out, wild[0])
        return tuple(out)

    def _target(self, shape: Shape | None, i: int, v: Dim) -> Dim:
        if v == -1 or bounds(v)[0] < 0:
            return DYNAMIC
        if not self.special_zero or bounds(v)[0] > 0:
            return v
        if v != 0:
            return DYNAMIC  # a 0 among its values would copy
        return shape[i] if shape is not None and i < len(shape) else DYNAMIC

    def _left_over(self, shape: Shape, pattern: tuple[Dim, ...], out: list[Dim], at: int) -> Dim:
        """Divide the elements by the other dimensions."""
        size, rest = self._others(shape, pattern, out, at)
        (slo, shi), (rlo, rhi) = bounds(size), bounds(rest)
        if rlo == 0:
            return 1 if rhi == 0 else DYNAMIC
        low = 0 if rhi is None else -(-slo // rhi)
        high = None if shi is None else shi // rlo
        return DYNAMIC if high is not None and high < low else Interval.of(low, high)


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

    def view(self, shape: tuple[int, ...], axes: Array | None = None) -> Callable[[Array], Array]:
        if axes is None or axes.size == 0:
            return _reshaping(_squeeze_all(shape))
        return _reshaping(_squeeze(shape, [int(a) for a in axes.reshape(-1)], self.allow_axis_skip))


def _reshaping(target: Shape | None) -> Callable[[Array], Array]:
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
            raise OpError(text, code="E305", port=1)
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
        if places == ():
            raise OpError("axes is empty; one at least is needed", code="E305", port=1)
        if data.shape is None or places is None:
            return
        at.groups["O"], chosen = (DYNAMIC,) * (len(data.shape) + len(places)), exact(places)
        if chosen is not None:
            at.groups["O"] = _unsqueeze(data.shape, chosen)

    def view(self, shape: tuple[int, ...], axes: Array) -> Callable[[Array], Array]:
        return _reshaping(_unsqueeze(shape, [int(a) for a in axes.reshape(-1)]))


def _unsqueeze(shape: Shape, axes: Sequence[int]) -> Shape:
    rank = len(shape) + len(axes)
    new = axes_of(axes, rank, 1)
    old = iter(shape)
    return tuple(1 if i in new else next(old) for i in range(rank))
