"""Values that do not depend on the data: filters, biases, vectors of sizes.

Elements are numbers, integer terms over open sizes, or the numbers 1, 2, 3, ... of the elements of
a filter that is an input: then 0 is an inserted zero, and nothing may be calculated with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.proof.model import Array, Layer, Port, Unproved
from irdeconv.verify.smt_terms import SizeTerm, larger, smaller, term

MOST_ELEMENTS = 1 << 25  # elements of an array
REAL = ("f64", "f32", "f16", "bf16")
EXACT = {*REAL, *"boolean i64 i32 i16 i8 i4 u64 u32 u16 u8 u4".split()}


@dataclass(frozen=True)
class PlainValue:
    """An array; `of` is the input of the source that its numbers belong to, if they are numbers."""

    array: Array
    of: Port | None = None


def text_of(layer: Layer, name: str, default: str) -> str:
    """Return an attribute as text without spaces, in lower case."""
    return layer.attributes.get(name, default).strip().lower()


def list_of(layer: Layer, name: str, count: int | None = None, default: int = 0) -> list[int]:
    """Return an attribute that lists integers; `count` defaults where it is missing or empty."""
    text = layer.attributes.get(name, "").strip()
    if not text:
        return [default] * (count or 0)
    try:
        values = [int(p) for p in text.split(",")]
    except ValueError:
        raise Unproved(f"{layer}: {name} is {text[:40]!r}, no list of integers") from None
    if count is not None and len(values) != count:
        raise Unproved(f"{layer}: {name} lists {len(values)} integers, not {count}")
    return values


def flag_of(layer: Layer, name: str, default: str) -> bool:
    """Return a boolean attribute."""
    return text_of(layer, name, default) in ("true", "1")


def axis_of(layer: Layer, axis: int, rank: int) -> int:
    """Return an axis counted from 0."""
    if not -rank <= axis < rank:
        raise Unproved(f"{layer}: axis {axis} of rank {rank}")
    return axis % rank


def ints_of(layer: Layer, given: PlainValue) -> list[int]:
    """Return integers that depend on nothing."""
    found = [term(v).known for v in given.array.reshape(-1).tolist()]
    known = [v for v in found if v is not None]
    if len(known) != len(found) or given.of is not None:
        raise Unproved(f"{layer}: a vector depends on open sizes")
    return known


def terms_of(given: PlainValue) -> list[SizeTerm]:
    """Return integers as terms."""
    if given.of is not None or given.array.dtype.kind == "f":
        raise Unproved("elements of a filter are no sizes")
    return [term(v) for v in given.array.reshape(-1).tolist()]


def room(layer: Layer, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that an array may have."""
    if any(d < 0 for d in shape) or math.prod(max(d, 1) for d in shape) > MOST_ELEMENTS:
        raise Unproved(f"{layer}: an array of shape {list(shape)}")
    return tuple(shape)


def bounds_of(start: int, stop: int, step: int, size: int) -> range:
    """Return what Slice takes of an axis: as Python, but backwards a start before it is its 0."""
    if step < 0 and start < -size:
        start = 0
    return range(size)[slice(start, stop, step)]


Rest = Sequence[PlainValue]


def _transpose(layer: Layer, x: Array, rest: Rest) -> Array:
    order = ints_of(layer, rest[0]) or range(x.ndim)[::-1]
    return x.transpose([axis_of(layer, a, x.ndim) for a in order])


def _reshape(layer: Layer, x: Array, rest: Rest) -> Array:
    target = ints_of(layer, rest[0])
    if flag_of(layer, "special_zero", "false"):
        target = [x.shape[i] if n == 0 else n for i, n in enumerate(target)]
    return x.reshape(target)


def _squeeze(layer: Layer, x: Array, rest: Rest) -> Array:
    axes = ints_of(layer, rest[0]) if rest else [a for a, d in enumerate(x.shape) if d == 1]
    return x.squeeze(tuple(axis_of(layer, a, x.ndim) for a in axes))


def _unsqueeze(layer: Layer, x: Array, rest: Rest) -> Array:
    axes = ints_of(layer, rest[0])
    return np.expand_dims(x, tuple(axis_of(layer, a, x.ndim + len(axes)) for a in axes))


def _slice(layer: Layer, x: Array, rest: Rest) -> Array:
    start, stop, step = (ints_of(layer, r) for r in rest[:3])
    axes = ints_of(layer, rest[3]) if len(rest) > 3 else list(range(len(start)))
    for axis, *bounds in zip(axes, start, stop, step, strict=True):
        axis = axis_of(layer, axis, x.ndim)
        taken = bounds_of(bounds[0], bounds[1], bounds[2], x.shape[axis])
        x = x.take(np.array(taken, np.int64), axis)
    return x


def _gather(layer: Layer, x: Array, rest: Rest) -> Array:
    axis = axis_of(layer, ints_of(layer, rest[1])[0], x.ndim)
    if list_of(layer, "batch_dims", 1) != [0]:
        raise Unproved(f"{layer} has batch_dims")
    at = np.array(ints_of(layer, rest[0]), np.int64).reshape(rest[0].array.shape)
    if at.size and not (-x.shape[axis] <= at.min() and at.max() < x.shape[axis]):
        raise Unproved(f"{layer} takes what is not there")
    return np.asarray(x.take(at, axis))


def _pad(layer: Layer, x: Array, rest: Rest) -> Array:
    zero = all(not np.any(r.array) for r in rest[2:])
    if text_of(layer, "pad_mode", "constant") != "constant" or not zero:
        raise Unproved(f"{layer} pads with something else than zeros")
    for axis, (b, e) in enumerate(zip(*(ints_of(layer, r) for r in rest[:2]), strict=True)):
        size = x.shape[axis]
        shape = room(layer, (*x.shape[:axis], size + b + e, *x.shape[axis + 1 :]))
        out = np.zeros(shape, x.dtype)
        here = (slice(None),) * axis
        out[(*here, slice(max(b, 0), max(size + b + min(e, 0), 0)))] = x[
            (*here, slice(max(-b, 0), max(size + min(e, 0), max(-b, 0))))
        ]
        x = out
    return x


def _broadcast(layer: Layer, x: Array, rest: Rest) -> Array:
    if text_of(layer, "mode", "numpy") != "numpy":
        raise Unproved(f"{layer} has a mode that is not followed")
    return np.broadcast_to(x, room(layer, ints_of(layer, rest[0])))


def _same(layer: Layer, x: Array, rest: Rest) -> Array:
    return x


MOVES: Mapping[str, Callable[[Layer, Array, Rest], Array]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "Broadcast": _broadcast,
    "Identity": _same,
}


def _quotient(a: Any, b: Any) -> Any:
    """Divide integers, rounding down; reals where the result is exact."""
    if a.dtype.kind == "f":
        out = a / b
        if not np.array_equal(out * b, a):
            raise Unproved("a quotient of weights is rounded")
        return out
    return a // b


ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": _quotient,
    "FloorMod": np.mod,
    "Maximum": np.frompyfunc(larger, 2, 1),
    "Minimum": np.frompyfunc(smaller, 2, 1),
    "Negative": np.negative,
    "ReLU": np.frompyfunc(lambda v: larger(v, 0), 1, 1),
}
NAMED = {"Divide", "FloorMod", "Maximum", "Minimum", "ReLU"}


def arithmetic(layer: Layer, inputs: Sequence[PlainValue]) -> Array:
    """Calculate, exactly or not at all."""
    if text_of(layer, "auto_broadcast", "numpy") != "numpy":
        raise Unproved(f"{layer} has an auto_broadcast that is not followed")
    if any(e.of is not None for e in inputs):
        raise Unproved(f"{layer} calculates with elements of a filter that is an input")
    arrays = [e.array for e in inputs]
    if any(a.dtype.kind == "f" for a in arrays):
        arrays = [a.astype(np.float64) for a in arrays]
        if layer.type not in ("Add", "Subtract", "Multiply", "Divide", "Negative"):
            raise Unproved(f"{layer} on weights is not followed")
    else:
        arrays = [a.astype(object) for a in arrays]
    return np.asarray(ARITHMETIC[layer.type](*arrays))


def constant(layer: Layer) -> Array:
    """Return the elements of a constant: reals in float64, integers in int64."""
    if layer.elements is None or layer.elements.type not in EXACT:
        raise Unproved(f"{layer} holds elements that are not followed")
    array = np.asarray(layer.elements.array)
    wide: Array = array.astype(np.float64 if layer.elements.type in REAL else np.int64)
    if wide.dtype.kind == "f" and not np.isfinite(wide).all():
        raise Unproved(f"{layer} holds infinities or NaNs")
    return wide


def converted(layer: Layer, x: Array) -> Array:
    """Return what Convert makes of weights or sizes, where that changes no number."""
    to = text_of(layer, "destination_type", "")
    if to in REAL and x.dtype != object:
        wide: Array = x.astype(np.float64)
        kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(to)
        with np.errstate(over="ignore"):
            exact = kind is not None and np.array_equal(wide.astype(kind), wide)
        if not exact:
            raise Unproved(f"{layer} rounds")
        return wide
    if to in ("i64", "i32") and x.dtype.kind in "iO":
        return x
    raise Unproved(f"{layer} to {to} is not followed")
