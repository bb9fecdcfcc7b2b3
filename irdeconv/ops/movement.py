"""Operations that move whole tensors: Concat, Transpose, Tile, Broadcast, channel shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.kernels.copies import ConcatKernel
from irdeconv.limits import current
from irdeconv.op import Op, attribute, op
from irdeconv.ops.binding import ViewOp, shape_of
from irdeconv.ops.checks import UNKNOWN, axes_of, axis_of, elements, exact, one_type
from irdeconv.spec import (
    DYNAMIC,
    Array,
    Dim,
    Shape,
    Spec,
    format_shape,
    is_static,
    merge,
)
from irdeconv.traits import MOVES, Bound


@op("Concat")
class Concat(Op):
    """Join tensors along `axis`: (..., A_i, ...) -> (..., sum of A_i, ...), one element type.

    All ranks and all other dimensions are equal.  [movement/Concat-1]
    """

    partial: ClassVar[bool] = True
    rounding = MOVES
    axis: int = attribute(0, documented=True)

    def infer(self, *parts: Spec) -> Spec:
        dtype = one_type(*parts, names=[f"part {i}" for i in range(len(parts))])
        shape: Shape | None = None
        for i, p in enumerate(parts):
            if p.shape is not None:
                shape = p.shape if shape is None else self._join(shape, p.shape, i)
        if shape is None:
            return Spec(dtype, None)
        axis = axis_of(self.axis, len(shape), attribute="axis")
        total: Dim = 0
        for p in parts:
            total = total + (DYNAMIC if p.shape is None else p.shape[axis])
        out = Spec(dtype, (*shape[:axis], total, *shape[axis + 1 :]))
        return Spec(dtype, out.shape, self._partly_known(parts, out))

    def _join(self, a: Shape, b: Shape, port: int) -> Shape:
        if len(a) != len(b):
            raise OpError(
                f"part {port} has rank {len(b)}, the parts before it rank {len(a)}",
                code="E301",
                port=port,
            )
        axis = axis_of(self.axis, len(a), attribute="axis")
        out = []
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            both = x if i == axis else merge(x, y)
            if both is None:
                raise OpError(
                    f"part {port} is {format_shape(b)}; the parts before it have {x} on axis {i}, "
                    f"and only axis {axis} may differ",
                    code="E302",
                    port=port,
                )
            out.append(both)
        return tuple(out)

    def _partly_known(self, parts: tuple[Spec, ...], out: Spec) -> Array | None:
        """Return an integer result of which some parts are known and others are not."""
        some = any(p.value is not None for p in parts) and any(p.value is None for p in parts)
        if not some or out.dtype is None or not out.dtype.is_integral:
            return None
        if out.size is None or out.size > current().value_elements:
            return None
        return self.evaluate(*(self._values(p, out) for p in parts))

    def _values(self, part: Spec, out: Spec) -> Array:
        """Return a part's values; the axes that it leaves open are those of the other parts."""
        if part.value is not None:
            return part.value
        assert is_static(out.shape)
        sizes: list[Any] = list(out.shape)
        sizes[self.axis] = (part.shape or ())[self.axis]
        return np.full(sizes, UNKNOWN, object)

    def evaluate(self, *parts: Array) -> Array:
        if any(p.dtype == object for p in parts):
            parts = tuple(p.astype(object) for p in parts)
        return np.concatenate(parts, self.axis)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        at = axis_of(self.axis, len(shape_of(outputs[0])))
        return Bound(ConcatKernel.of([shape_of(s)[at] for s in inputs], at))


@op("Transpose")
class Transpose(ViewOp):
    """Permute axes: output axis i is input axis order[i]; an empty order reverses them.

    An order counts from the front only: the runtime refuses negative axes.  [movement/Transpose-1]
    """

    moves: ClassVar[bool] = True

    def infer(self, data: Spec, order: Spec) -> Spec:
        values = elements(order, 1, "the order")
        if values is None:
            return Spec(data.dtype, None if data.shape is None else (DYNAMIC,) * len(data.shape))
        if data.shape is None:
            return Spec(data.dtype, (DYNAMIC,) * len(values) if values else None)
        rank = len(data.shape)
        if values and len(values) != rank:
            raise OpError(
                f"the order has {len(values)} values for data of rank {rank}",
                code="E302",
                port=1,
            )
        chosen = exact(values)
        if chosen is None:
            return Spec(data.dtype, (DYNAMIC,) * rank)
        return Spec(data.dtype, tuple(data.shape[i] for i in _permutation(chosen, rank)))

    def view(self, shape: tuple[int, ...], order: Array) -> Callable[[Array], Array]:
        axes = _permutation(tuple(int(v) for v in order.reshape(-1)), len(shape))
        return lambda x: x.transpose(axes)


def _permutation(order: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the axes of an order; an empty one reverses them."""
    if order and min(order) < 0:
        message = f"the order {list(order)} has negative axes; count from 0 to {rank - 1}"
        raise OpError(message, code="E302", port=1)
    return axes_of(order, rank, 1) if order else tuple(reversed(range(rank)))
