"""Sums over the neighbours of each element along an axis."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array

FEW = 16  # neighbours on a side up to which they are added one by one


def sums(x: Array, axis: int, reach: int) -> Array:
    """Return the sum of each element and up to `reach` ones before and behind it along an axis."""
    size = x.shape[axis]
    reach = min(reach, max(size - 1, 0))
    if reach > FEW:
        return _differences(x, axis, reach)
    out = x.copy()
    for k in range(1, reach + 1):
        low, high = _part(x, axis, slice(None, -k)), _part(x, axis, slice(k, None))
        _part(out, axis, slice(None, -k))[...] += high
        _part(out, axis, slice(k, None))[...] += low
    return out


def _part(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


def _differences(x: Array, axis: int, reach: int) -> Array:
    """Return the same from running sums, in double precision, whatever the reach."""
    size = x.shape[axis]
    running = np.cumsum(x, axis, dtype=np.float64)
    padded = np.concatenate([np.zeros_like(_part(running, axis, slice(1))), running], axis)
    places = np.arange(size)
    ends = np.minimum(places + reach + 1, size)
    begins = np.maximum(places - reach, 0)
    found = np.take(padded, ends, axis) - np.take(padded, begins, axis)
    return np.asarray(found, x.dtype)
