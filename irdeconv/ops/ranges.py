"""Arithmetic on arrays of partly known integers: object arrays that hold ints and Intervals.

Shape arithmetic of dynamic models (ShapeOf, Gather, Multiply, Floor, Concat) flows through these.
In a floating-point tensor an interval holds the integers around the real bounds; exact elements
are floats. Rounding to f32 keeps such bounds, because they are representable.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array, Dim, Interval, bounds, distinct

Scalar = Any  # int, float, NumPy float (which rounds as its tensor does) or Interval
Function = Callable[[Scalar, Scalar], Scalar]
Ends = tuple[float, float]
_REAL = (float, np.floating)


def _ends(v: Scalar) -> Ends:
    if isinstance(v, Interval):
        return -math.inf if v.lo <= -(2**62) else v.lo, math.inf if v.hi is None else v.hi
    return v, v


def _around(values: list[float]) -> Dim:
    """Return the integer interval around real values; unbounded if one is not finite."""
    if any(math.isnan(v) for v in values):
        return Interval(-(2**63), None)
    low, high = min(values), max(values)
    lo = -(2**63) if math.isinf(low) else math.floor(low)
    return Interval(lo, None if math.isinf(high) else math.ceil(high))


def _times(a: float, b: float) -> float:
    return 0.0 if 0 in (a, b) else a * b


def _is_real(a: Scalar, b: Scalar) -> bool:
    return isinstance(a, _REAL) or isinstance(b, _REAL)


def _monotone(exact: Callable[[Any, Any], Any], corners: Callable[[Ends, Ends], Any]) -> Function:
    """Return the function; of an interval and a real number by the values at its `corners`."""

    def compute(a: Scalar, b: Scalar) -> Scalar:
        if _is_real(a, b) and (isinstance(a, Interval) or isinstance(b, Interval)):
            return _around(corners(_ends(a), _ends(b)))
        return exact(a, b)

    return compute


add = _monotone(operator.add, lambda a, b: [a[0] + b[0], a[1] + b[1]])
subtract = _monotone(operator.sub, lambda a, b: [a[0] - b[1], a[1] - b[0]])
multiply = _monotone(operator.mul, lambda a, b: [_times(x, y) for x in a for y in b])


def divide_real(a: Scalar, b: Scalar) -> Scalar:
    """a / b of a floating-point tensor; between intervals it holds the integer quotient too."""
    if isinstance(a, Interval) or isinstance(b, Interval):
        (al, ah), (bl, bh) = _ends(a), _ends(b)
        if bl <= 0 <= bh:
            return Interval(-(2**63), None)
        return _around([_times(x, 1 / y) for x in (al, ah) for y in (bl, bh)])
    made, near = a / b, 2.0**-20
    inverse = type(made)(1) / b * a  # as the runtime computes it
    return made if made == inverse else _around([made * (1 - near), made * (1 + near)])


def divide_truncate(a: Scalar, b: Scalar) -> Scalar:
    """a / b of an integer tensor towards zero; intervals that reach below zero are unknown.

    A negative quotient is rounded towards zero or down, by whether OpenVINO folds it.
    """
    if bounds(a)[0] >= 0 and bounds(b)[0] > 0:
        return a // b
    if isinstance(a, Interval) or isinstance(b, Interval):
        return Interval(-(2**63), None)
    low = a // b
    return Interval.of(low, -(-a // b) if low < 0 else low)


def _chosen(pick: Callable[..., Any]) -> Function:

    def compute(a: Scalar, b: Scalar) -> Scalar:
        if not isinstance(a, Interval) and not isinstance(b, Interval):
            return pick(a, b)
        low, high = map(pick, _ends(a), _ends(b))
        # An exact element keeps its type: int in integer tensors, else float.
        return low if low == high else _around([low, high])

    return compute


maximum, minimum = _chosen(max), _chosen(min)


def floor_modulo(a: Scalar, b: Scalar) -> Scalar:
    """a modulo b of an integer tensor; TypeError for a divisor that may not be positive."""
    if _is_real(a, b) or bounds(b)[0] <= 0:
        raise TypeError("modulo of a partly known value")
    return a % b


def equal(a: Scalar, b: Scalar) -> bool:
    """Whether a == b; TypeError if that is not known."""
    if isinstance(a, Interval) or isinstance(b, Interval):
        (al, ah), (bl, bh) = _ends(a), _ends(b)
        if al <= bh and bl <= ah:
            raise TypeError("a comparison of partly known values")
        return False
    return bool(a == b)


def less(a: Scalar, b: Scalar) -> bool:
    """Whether a < b; TypeError if that is not known."""
    (al, ah), (bl, bh) = _ends(a), _ends(b)
    if ah < bl:
        return True
    if al >= bh:
        return False
    raise TypeError("a comparison of partly known values")


def floor(v: Scalar) -> Scalar:
    """Round down; the bounds of a real interval are integers already."""
    return v if isinstance(v, Interval) else type(v)(math.floor(v))


def ceiling(v: Scalar) -> Scalar:
    """Round up; the bounds of a real interval are integers already."""
    return v if isinstance(v, Interval) else type(v)(math.ceil(v))


def each(fn: Callable[..., Scalar], *arrays: Array) -> Array:
    """Apply a scalar function to object arrays with NumPy broadcasting."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    out = np.frompyfunc(fn, len(arrays), 1)(*(objects(distinct(a)) for a in arrays))
    return np.broadcast_to(np.asarray(out, object), shape)


def objects(array: Array) -> Array:
    """Return an object array; floats stay NumPy scalars, so that they round as the tensor does."""
    if array.dtype.kind != "f":
        return array.astype(object)
    out = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        out[index] = array[index]
    return out


def holds_real(*arrays: Array) -> bool | None:
    """Whether the tensors are floating-point; None if they contain only intervals."""
    exact = [v for a in arrays for v in objects(a).flat if not isinstance(v, Interval)]
    return any(isinstance(v, _REAL) for v in exact) if exact else None
