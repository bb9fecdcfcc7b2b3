"""Checks, broadcasting rules and binding (see `Op.bind`) that operations share.

Ports that fit a declaration are in ir.ports; each check here says more, with numbers and rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.base.limits import current
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.op import MOVES, Bound, Op, as_tuple
from irdeconv.ir.ports import want_type
from irdeconv.ir.spec import (
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    broadcast,
    dims,
    format_shape,
    merge,
    merge_shapes,
)

UNKNOWN = Interval(-(2**63), None)  # any integer, in contrast to DYNAMIC, any size


def one_type(
    *specs: Spec, names: Sequence[str], ports: Sequence[int] | None = None
) -> ElementType | None:
    """Return the element type that all inputs share; E303 names the port (0, 1, ... by default)."""
    found: ElementType | None = None
    at = 0
    for i, s in enumerate(specs):
        if s.dtype is None:
            continue
        if found is None:
            found, at = s.dtype, i
        elif s.dtype != found:
            text = (
                f"{names[at]} is {found} and {names[i]} is {s.dtype}; "
                "both must have one element type"
            )
            raise OpError(text, code="E303", port=i if ports is None else ports[i])
    return found


def widest(*arrays: Array) -> list[Array]:
    """Return floating-point arrays in one type: f64 where one is, else f32."""
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


def axis_of(axis: int, rank: int, *, attribute: str | None = None, port: int | None = None) -> int:
    """Return an axis counted from 0 (negative ones count from the end).

    Outside the rank: E304 where the axis is an attribute, E305 where it is an input's value.
    """
    if not -rank <= axis < rank:
        text = f"axis {axis} is outside a tensor of rank {rank} ({-rank} to {rank - 1} is allowed)"
        raise OpError(text, code="E304" if port is None else "E305", attribute=attribute, port=port)
    return axis % rank


def places_of(indices: Array, size: int, axis: int, port: int = 1) -> Array:
    """Return indices along an axis counted from 0 (negative ones count from the end); E305."""
    at = indices.astype(np.int64)
    wrong = at[(at < -size) | (at >= size)]
    if wrong.size:
        rule = f"{-size} to {size - 1} is allowed" if size else "it has no element"
        text = f"index {wrong.reshape(-1)[0]} is outside axis {axis} of size {size} ({rule})"
        raise OpError(text, code="E305", port=port)
    return np.where(at < 0, at + size, at)


def axes_of(axes: Sequence[int], rank: int, port: int) -> tuple[int, ...]:
    """Return axes counted from 0 in the given order; a repeated one is E305."""
    out = tuple(axis_of(a, rank, port=port) for a in axes)
    if len(set(out)) != len(out):
        raise OpError(f"axes {list(axes)} name an axis twice", code="E305", port=port)
    return out


def vector_length(spec: Spec, port: int, name: str) -> int | None:
    """Return the number of elements of a vector or scalar; None where unknown; E301, E303."""
    want_type(spec, "integer", port, name)
    if spec.shape is None:
        return None
    if len(spec.shape) > 1:
        text = f"{name} has rank {len(spec.shape)}; it must be a vector or a scalar"
        raise OpError(text, code="E301", port=port)
    if not spec.shape:
        return 1
    return spec.shape[0] if isinstance(spec.shape[0], int) else None


def elements(spec: Spec, port: int, name: str) -> tuple[Dim, ...] | None:
    """Return a vector's elements as dims, UNKNOWN where not known; None: length unknown."""
    length = vector_length(spec, port, name)
    if spec.value is not None:
        return dims(spec)
    if length is None or length > current().value_elements:
        return None
    return (UNKNOWN,) * length


def exact(values: Sequence[Dim] | None) -> tuple[int, ...] | None:
    """Return the values where all of them are exact."""
    if values is None:
        return None
    out = tuple(v for v in values if not isinstance(v, Interval))
    return out if len(out) == len(values) else None


def single(spec: Spec, port: int, name: str) -> Dim:
    """Return the value of a scalar or of a vector of one element, UNKNOWN where not known; E302."""
    values = elements(spec, port, name)
    if values is not None and len(values) != 1:
        raise OpError(f"{name} has {len(values)} values; it must have one", code="E302", port=port)
    return UNKNOWN if values is None else values[0]


def at_least(least: int, values: Iterable[Dim], port: int, name: str) -> None:
    """Require values of an input, where they are known, to be 0 or 1 at least; E305."""
    for value in values:
        high = bounds(value)[1]
        if high is not None and high < least:
            rule = "be positive" if least else "not be negative"
            raise OpError(f"{name} has {value}; it must {rule}", code="E305", port=port)


def known_axis(data: Spec, axis: Spec, port: int) -> int | None:
    """Return an axis that is an input, counted from 0; None where it or the rank is unknown."""
    known = single(axis, port, "axis")
    if isinstance(known, Interval) or data.shape is None:
        return None
    return axis_of(known, len(data.shape), port=port)


def want_axes(data: Spec, axes: Spec, port: int) -> None:
    """Require axes that are an input to be within the data's rank, if both are known; E305."""
    chosen = exact(elements(axes, port, "axes"))
    if data.shape is not None:
        for axis in chosen or ():
            axis_of(axis, len(data.shape), port=port)


def positive_number(op: Op, attribute: str) -> Iterator[Problem]:
    """Yield a problem where the attribute, a number, is below 1."""
    value = getattr(op, attribute)
    if value < 1:
        text = f"{attribute} is {value}; it must be positive"
        yield Problem("E210", text, attribute=attribute)


def union(a: Dim, b: Dim) -> Dim:
    """Return the smallest interval that holds both."""
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    return Interval.of(min(alo, blo), None if ahi is None or bhi is None else max(ahi, bhi))


def want_shapes(op: Op, *arrays: Array | None) -> None:
    """Hold arrays against the shape rule: sizes that inference left open; what that raises."""
    op.infer(*(None if a is None else Spec(None, a.shape) for a in arrays))


def inferred_shape(op: Op, *arrays: Array | None) -> tuple[int, ...]:
    """Return the exact shape of the first output; what the shape rule raises."""
    specs = (None if a is None else Spec.of(a) for a in arrays)
    return shape_of(as_tuple(op.infer(*specs))[0])


def want_lengths(lengths: Array, steps: int | None, port: int) -> None:
    """Require lengths of sequences from 0 to the number of steps; E305."""
    for n, length in enumerate(lengths):
        low, high = bounds(length)
        if (high is not None and high < 0) or (steps is not None and low > steps):
            text = (
                f"sequence_lengths has {length} at {n}; "
                f"it must be from 0 to {'the number of steps' if steps is None else steps}"
            )
            raise OpError(text, code="E305", port=port)


AutoBroadcast = Literal["numpy", "none", "pdpd"]
D = TypeVar("D", bound=Dim)


def broadcast_shapes(a: Shape | None, b: Shape | None, rule: str, port: int = 1) -> Shape | None:
    """Return the shape of an element-wise result under an `auto_broadcast` rule; E302."""
    try:
        if rule == "none":
            return merge_shapes(a, b)
        return _into(a, b) if rule == "pdpd" else broadcast(a, b)
    except ValueError as e:
        text = (
            f"shapes {format_shape(a)} and {format_shape(b)} do not fit "
            f'auto_broadcast="{rule}": {e}'
        )
        raise OpError(text, code="E302", port=port) from None


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
    """Return the shape in `rank` axes of which `pdpd` takes the first ones.

    The specification lets an attribute `axis` say where they begin; the runtime reads none and
    begins at 0.
    """
    first = leading(tuple(shape))
    return first + (1,) * (rank - len(first))


def aligned(array: Array, rank: int, rule: str) -> Array:
    """Return the array so that NumPy broadcasts it as the rule says."""
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


class ViewOp(Op):
    """Base of operations whose outputs are views of the first input."""

    partial: ClassVar[bool] = True
    rounding = MOVES

    def view(self, shape: tuple[int, ...], *others: Any) -> Callable[[Array], Any]:
        """Return what makes the views of data of that shape; `others` are the inputs behind it."""
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
    """Return what makes the view of the first input's elements at an index."""
    full = (*index, ...)  # of a vector, too, one element is a view
    return lambda x, *_: x[full]


def by_rows(block: tuple[int, int, int], kernel: Callable[..., None]) -> Bound:
    """Return a call of a kernel `(x, out, team)` on data and result seen as `[outer, n, inner]`."""
    return Bound(lambda x, *_, out, team: kernel(x.reshape(block), out.reshape(block), team))
