"""Matrix NMS: the scores of all boxes are lowered at once, by their overlaps with better ones."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array

AT_ONCE = 1 << 20  # overlaps that are computed at once


def decays(boxes: Array, sigma: float | None, unit: float) -> Array:
    """Return the factor (n,) of each of n boxes that stand in the order of their scores.

    It is the smallest of (1 - o) / (1 - m), or exp((m^2 - o^2) sigma), over the better boxes: o is
    the overlap with it, m the largest overlap of that one with those that are better still.
    """
    out = np.ones(len(boxes), np.float32)
    most = np.zeros(len(boxes), np.float32)
    rows = max(AT_ONCE // max(len(boxes), 1), 1)
    for begin in range(0, len(boxes), rows):
        end = min(begin + rows, len(boxes))
        better = np.arange(end) < np.arange(begin, end)[:, None]
        shares = np.where(better, _overlaps(boxes[begin:end], boxes[:end], unit), np.float32(0))
        most[begin:end] = np.fmax.reduce(shares, 1, initial=np.float32(0))
        factors = np.where(better, _factors(shares, most[:end], sigma), np.float32(1))
        out[begin:end] = np.fmin.reduce(factors, 1, initial=np.float32(1))
    return out


def _factors(shares: Array, most: Array, sigma: float | None) -> Array:
    with np.errstate(all="ignore"):
        if sigma is None:
            wide = most.astype(np.float64)
            tiny = float(np.float32(1e-10))
            return np.asarray((1 - shares.astype(np.float64)) / (1 - wide + tiny), np.float32)
        return np.asarray(np.exp((most * most - shares * shares) * np.float32(sigma)))


def _overlaps(some: Array, others: Array, unit: float) -> Array:
    """Return (rows, n); boxes that do not touch share nothing, a reversed box has no area."""
    a, b = some[:, None], others[None]
    apart = np.any((b[..., :2] > a[..., 2:]) | (b[..., 2:] < a[..., :2]), -1)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]) + unit
    common = sides[..., 0] * sides[..., 1]
    with np.errstate(all="ignore"):  # no area at all: 0 / 0, which lowers nothing
        shares = common / (_areas(a, unit) + _areas(b, unit) - common)
    return np.where(apart, np.float32(0), shares)


def _areas(boxes: Array, unit: float) -> Array:
    sides = boxes[..., 2:] - boxes[..., :2]
    return np.where(np.any(sides < 0, -1), np.float32(0), np.prod(sides + unit, -1))
