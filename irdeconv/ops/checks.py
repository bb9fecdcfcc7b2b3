"""Checks, broadcasting rules and binding (see `Op.bind`) that operations share.

Ports that fit a declaration are in ir.ports; the checks here report more, with numbers and rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from irdeconv.base.errors import attribute_error, count, size_error, value_error
from irdeconv.ir import geometry
from irdeconv.ir.attributes import Ints, axis_lists
from irdeconv.ir.op import MOVES, Bound, Op, as_tuple
from irdeconv.ir.ports import axis_of
from irdeconv.ir.spec import (
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    broadcast,
    format_shape,
    merge,
    merge_shapes,
)


def widest(*arrays: Array) -> list[Array]:
    """Return floating-point arrays in one type: f64 if one is, else f32."""
    wide = np.float64 if any(a.dtype == np.float64 for a in arrays) else np.float32
    return [a.astype(wide, copy=False) for a in arrays]


def widened(array: Array) -> Array:
    """Return floating-point numbers of less than 32 bits as f32, others as they are."""
    narrow = array.dtype.kind not in "iub" and array.dtype.itemsize < 4
    return array.astype(np.float32) if narrow else array


def outside(values: Array, top: int | None) -> Any:
    """Return the lowest value if it is below 0, else the highest if above the top; or None."""
    if not values.size:
        return None
    low, high = values.min(), values.max()
    if low < 0:
        return low
    return high if top is not None and high > top else None


def places_of(indices: Array, size: int, axis: int, port: int = 1) -> Array:
    """Return indices along an axis counted from 0 (negative ones count from the end); E305."""
    at = indices.astype(np.int64)
    if at.view(np.uint64).max(initial=0) < size:  # negative ones are large here
        return at
    wrong = at[(at < -size) | (at >= size)]
    if wrong.size:
        rule = f"{-size} to {size - 1} is allowed" if size else "it has no element"
        text = f"index {wrong.reshape(-1)[0]} is outside axis {axis} of size {size} ({rule})"
        raise value_error(port, text)
    return np.where(at < 0, at + size, at)


def axes_of(axes: Sequence[int], rank: int, port: int) -> tuple[int, ...]:
    """Return axes counted from 0 in the given order; a repeated one is E305."""
    out = tuple(axis_of(a, rank, port=port) for a in axes)
    if len(set(out)) != len(out):
        raise value_error(port, f"axes {list(axes)} name an axis twice")
    return out


def at_least(least: int, values: Iterable[Dim], port: int, name: str) -> None:
    """Require the known values of an input to be 0 or 1 at least; E305."""
    for value in values:
        high = bounds(value)[1]
        if high is not None and high < least:
            rule = "be positive" if least else "not be negative"
            raise value_error(port, f"{name} has {value}; it must {rule}")


def check_lists(op: Op, axes: int) -> None:
    """Require a value for each spatial axis in each list that is not absent; E304."""
    for name, values in axis_lists(op).items():
        if len(values) not in (0, axes):
            raise attribute_error(
                name, f"{name} has {count(len(values), 'value')} for {axes} spatial axes"
            )


def union(a: Dim, b: Dim) -> Dim:
    """Return the smallest interval that holds both."""
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    return Interval.of(min(alo, blo), None if ahi is None or bhi is None else max(ahi, bhi))


_EXACT: ContextVar[bool] = ContextVar("exact", default=False)


def of_exact_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the evaluator for a node all of whose shapes inference has found exactly."""

    def call(*arrays: Array) -> Any:
        token = _EXACT.set(True)
        try:
            return function(*arrays)
        finally:
            _EXACT.reset(token)

    return call


def want_shapes(op: Op, *arrays: Array | None) -> None:
    """Check arrays against the shape rule, for sizes that inference left open; raise its errors."""
    if not _EXACT.get():
        op.infer(*(None if a is None else Spec(None, a.shape) for a in arrays))


def inferred_shape(op: Op, *arrays: Array | None) -> tuple[int, ...]:
    """Return the exact shape of the first output; raise the shape rule's errors."""
    specs = (None if a is None else Spec.of(a) for a in arrays)
    return shape_of(as_tuple(op.infer(*specs))[0])


def want_lengths(lengths: Array, steps: int | None, port: int) -> None:
    """Require lengths of sequences from 0 to the number of steps; E305."""
    for n, length in enumerate(lengths):
        low, high = bounds(length)
        if (high is not None and high < 0) or (steps is not None and low > steps):
            text = f"sequence_lengths has {length} at {n}; "
            text += f"it must be from 0 to {'the number of steps' if steps is None else steps}"
            raise value_error(port, text)


AutoBroadcast = Literal["numpy", "none", "pdpd"]
D = TypeVar("D", bound=Dim)


def joint_shape(
    a: Shape | None, b: Shape | None, text: str, port: int, rule: Any = broadcast
) -> Shape | None:
    """Return the broadcast of two shapes, or what another rule makes of them; E302 with a text."""
    try:
        joint: Shape | None = rule(a, b)
    except ValueError as e:
        raise size_error(port, f"{text}: {e}") from None
    return joint


def broadcast_shapes(a: Shape | None, b: Shape | None, rule: str, port: int = 1) -> Shape | None:
    """Return the shape of an element-wise result under an `auto_broadcast` rule; E302."""
    try:
        if rule == "none":
            return merge_shapes(a, b)
        return _into(a, b) if rule == "pdpd" else broadcast(a, b)
    except ValueError as e:
        text = f"shapes {format_shape(a)} and {format_shape(b)} do not fit "
        text += f'auto_broadcast="{rule}": {e}'
        raise size_error(port, text) from None


def _into(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return `a`, into which `b` broadcasts along its first axes."""
    if a is None or b is None:
        return a
    if len(b) > len(a):
        raise ValueError(f"rank {len(b)} is above rank {len(a)}")
    for x, y in zip(a, leading(b), strict=False):
        if merge(x, y) is None and merge(y, 1) is None:
            raise ValueError(f"dimension {y} does not broadcast to {x}")
    return a


def leading(shape: tuple[D, ...]) -> tuple[D, ...]:
    """Return a shape without the ones at its end."""
    kept = len(shape)
    while kept and shape[kept - 1] == 1:
        kept -= 1
    return shape[:kept]


def aligned_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the shape in `rank` axes, of which `pdpd` uses the first ones.

    In the specification an attribute `axis` is the first of these axes. The runtime reads no such
    attribute and begins at 0.
    """
    first = leading(tuple(shape))
    return first + (1,) * (rank - len(first))


def aligned(array: Array, rank: int, rule: str) -> Array:
    """Return the array so that NumPy broadcasts it by the rule."""
    if rule != "pdpd" or array.ndim > rank:
        return array
    return array.reshape(aligned_shape(array.shape, rank))


_COMPUTED = frozenset({"f32", "f64"})


def shape_of(spec: Spec) -> tuple[int, ...]:
    """Return a shape that is known to be exact."""
    return tuple(int(d) for d in spec.shape or ())  # type: ignore[arg-type]


def is_computed(*specs: Spec) -> bool:
    """Whether all are f32 or all are f64, so that nothing need be converted."""
    names = {str(s.dtype) for s in specs}
    return len(names) == 1 and names <= _COMPUTED


def known(specs: Sequence[Spec]) -> list[Array] | None:
    """Return the values of inputs that are all constants."""
    values = [s.known for s in specs]
    return None if any(v is None for v in values) else [v for v in values if v is not None]


class WindowOp(Op):
    """Base of operations on windows along spatial axes: absent strides are 1, absent pads 0."""

    strides: Ints
    dilations: Ints = ()  # some operation sets lack them
    pads_begin: Ints
    pads_end: Ints
    auto_pad: str

    def filled(self, axes: int) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
        """Return strides, dilations, and both pads, with a value for each axis."""
        ones, pads = (self.strides, self.dilations), (self.pads_begin, self.pads_end)
        strides, dilations = (geometry.filled(v, axes, 1) for v in ones)
        begin, end = (geometry.filled(v, axes, 0) for v in pads)
        return strides, dilations, (begin, end)

    def effective_pads(self, sizes: Ints, kernel: Ints) -> tuple[Ints, Ints]:
        """Return (pads_begin, pads_end) after auto_pad, for exact spatial sizes."""
        return geometry.pads(self.auto_pad, sizes, kernel, *self.filled(len(sizes)))


class MovingOp(Op):
    """Base of operations that give elements of the first input, or 0."""

    moves: ClassVar[bool] = True
    rounding = MOVES


View = Callable[[Array], Any]  # makes a view of the data, or several


class ViewOp(Op):
    """Base of operations whose outputs are views of the first input."""

    partial: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    rounding = MOVES

    def view(self, shape: Ints, *others: Any) -> View:
        """Return a function that makes the views of data of that shape; `others` follow it."""
        raise NotImplementedError

    def evaluate(self, data: Array, *others: Array) -> Any:
        return self.view(data.shape, *others)(data)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        others = known(inputs[1:])
        if others is None:
            return None
        view = self.view(shape_of(inputs[0]), *others)
        return Bound(view=lambda x, *_: view(x))


def indexed(index: tuple[Any, ...]) -> Callable[..., Array]:
    """Return a function that makes the view of the first input's elements at an index."""
    full = (*index, ...)  # of a vector, too, one element is a view
    return lambda x, *_: x[full]
