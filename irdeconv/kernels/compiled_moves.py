"""Compiled loops over computed places, casts, the best of rows; imported if numba is installed.

Casts are of flat arrays, which may be empty; other tensors are `[outer, size, inner]`, size at
least 1. Indices may be negative; `take_each` and `put_each` return True if one is outside of its
axis: what they wrote is void then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.jit import compiled

_BEYOND = np.float32(2.0**31)


@compiled
def cast_each(x: Any, out: Any) -> None:
    """Write integers as real numbers."""
    for i in range(len(x)):
        out[i] = x[i]


@compiled
def cut_each(x: Any, out: Any) -> None:
    """See `copies.within_32`; narrower integers keep the low bits."""
    for i in range(len(x)):
        inside = x[i] if x[i] >= -_BEYOND and x[i] < _BEYOND else -_BEYOND
        out[i] = np.int32(inside)


@compiled
def take_each(x: Any, indices: Any, out: Any) -> bool:
    """Write `x[o, indices[o, k, i], i]` into `out[o, k, i]`."""
    size, wrong = x.shape[1], False
    for o in range(out.shape[0]):
        for k in range(out.shape[1]):
            for i in range(out.shape[2]):
                at = indices[o, k, i]
                at += size if at < 0 else 0
                if at < 0 or at >= size:
                    wrong, at = True, 0
                out[o, k, i] = x[o, at, i]
    return wrong


@compiled
def put_each(out: Any, indices: Any, updates: Any, way: int) -> bool:
    """Store (0), add (1), multiply (2) by, or keep the smaller (3) or larger (4) of updates."""
    size, wrong = out.shape[1], False
    for o in range(indices.shape[0]):
        for k in range(indices.shape[1]):
            for i in range(indices.shape[2]):
                at, new = indices[o, k, i], updates[o, k, i]
                at += size if at < 0 else 0
                if at < 0 or at >= size:
                    wrong, at = True, 0
                old = out[o, at, i]
                if way == 1:
                    new = old + new
                elif way == 2:
                    new = old * new
                elif way == 3:
                    new = old if old < new or old != old else new
                elif way == 4:
                    new = old if old > new or old != old else new
                out[o, at, i] = new
    return wrong


@compiled
def take_rows(x: Any, indices: Any, out: Any, wraps: bool) -> None:
    """Write `x[o, indices[k]]` into `out[o, k]`; zeros for an index outside of the axis."""
    size = x.shape[1]
    for o in range(out.shape[0]):
        for k in range(out.shape[1]):
            at = indices[k]
            at += size if at < 0 and wraps else 0
            if 0 <= at < size:
                for i in range(out.shape[2]):
                    out[o, k, i] = x[o, at, i]
            else:
                for i in range(out.shape[2]):
                    out[o, k, i] = 0


@compiled
def _precedes(a: Any, b: Any, largest: bool) -> bool:
    """Whether a value comes in front of another one; NaN is larger than all."""
    if largest:
        return bool(a > b or (a != a and b == b))
    return bool(a < b or (b != b and a == a))


@compiled
def best(x: Any, values: Any, places: Any, largest: bool) -> None:
    """Write the first elements of sorted rows of `x [R, n]`, and where they are; all `[R, k]`."""
    rows, size = x.shape
    count = values.shape[1]
    for r in range(rows):
        held = 0
        for i in range(size):
            new = x[r, i]
            if held == count and not _precedes(new, values[r, count - 1], largest):
                continue
            at = held if held < count else count - 1
            held = at + 1
            while at > 0 and _precedes(new, values[r, at - 1], largest):
                values[r, at], places[r, at] = values[r, at - 1], places[r, at - 1]
                at -= 1
            values[r, at], places[r, at] = new, i
