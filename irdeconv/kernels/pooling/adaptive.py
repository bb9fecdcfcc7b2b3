"""Pooling into a given number of windows: window o of O reads floor(oI/O) to ceil((o+1)I/O)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.spec import Array


def windows(size: int, count: int) -> tuple[list[slice], Array]:
    """Return the different windows on `size` positions, at most two each, and which each has."""
    at = np.arange(count, dtype=np.int64)
    pairs = np.stack([at * size // count, -(-(at + 1) * size // count)], -1)
    new = np.ones(count, bool)
    new[1:] = (pairs[1:] != pairs[:-1]).any(-1)
    return [slice(int(a), int(b)) for a, b in pairs[new]], np.cumsum(new) - 1


def means(x: Array, counts: Sequence[int]) -> Array:
    """Return the means of the windows: x (N, C, *I), f32 or f64, -> (N, C, *counts)."""
    y = x
    divisor = np.ones((), x.dtype)
    for i, count in enumerate(counts):
        parts, which = windows(x.shape[2 + i], count)
        lengths = np.array([p.stop - p.start for p in parts], x.dtype)[which]
        divisor = divisor[..., None] * lengths
        ahead: Any = (slice(None),) * (2 + i)
        found = np.empty((*y.shape[: 2 + i], len(parts), *y.shape[3 + i :]), x.dtype)
        for o, part in enumerate(parts):
            np.sum(y[(*ahead, part)], 2 + i, out=found[(*ahead, o)])
        y = found if len(parts) == count else found.take(which, 2 + i)
    return np.asarray(y / divisor)


def maxima(x: Array, counts: Sequence[int]) -> tuple[Array, Array]:
    """Return maxima (N, C, *counts) and where each lies in its plane, as i64; the first wins."""
    plane = x.shape[2:]
    places = np.arange(math.prod(plane), dtype=np.int64).reshape(1, 1, *plane)
    y, at = x, np.broadcast_to(places, x.shape)
    # The last axis first: then the first of equal rows has the first of equal elements.
    for i, count in reversed(list(enumerate(counts))):
        axis = 2 + i
        ahead: Any = (slice(None),) * axis
        parts, which = windows(x.shape[axis], count)
        shape = (*y.shape[:axis], len(parts), *y.shape[axis + 1 :])
        best, where = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        for o, part in enumerate(parts):
            values = y[(*ahead, part)]
            first = np.argmax(values, axis)[(*ahead, None)]
            target = (*ahead, slice(o, o + 1))
            best[target] = np.take_along_axis(values, first, axis)
            where[target] = np.take_along_axis(at[(*ahead, part)], first, axis)
        y, at = best, where
        if len(parts) != count:
            y, at = best.take(which, axis), where.take(which, axis)
    return y, at
