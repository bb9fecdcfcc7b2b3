"""Two tensors held against each other piece by piece, so that little memory is taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from irdeconv.spec import Array

COMPARED_AT_ONCE = 1 << 16  # elements that are compared at a time, in f64


class Greatest:
    """The greatest of many numbers, and the flat place of the first one that is as great."""

    def __init__(self) -> None:
        self.value, self.at = -math.inf, 0

    def see(self, values: Array, start: int) -> None:
        """Look at the numbers of a piece, which begins at the place `start`."""
        at = int(values.argmax())
        if values[at] > self.value:
            self.value, self.at = float(values[at]), start + at


class Measured:
    """What a and b come to, and how far b is off `want` for what is allowed.

    All have one shape and hold numbers; `limit` is not NaN and has that shape or fits it. `gap`
    is the greatest |a-b|, `scale` the largest finite |a|, `max_rel` the largest
    |a-b| / max(|a|, |b|): at most 2, and 1 where one of them is 0. Not-finite values are 0 apart
    where they are equal, else infinitely far.
    """

    def __init__(self, a: Array, b: Array, want: Array, limit: Array) -> None:
        self.gap, self._limit = Greatest(), Greatest()
        self._ratio, self._beyond = Greatest(), Greatest()
        self.scale = self.max_rel = 0.0
        self._products = np.zeros(3)
        self._differs = False
        for start, (x, y, w, most) in _pieces(a, b, want, limit):
            gap = apart(x, y)
            self.gap.see(gap, start)
            self._see_own(gap if want is a else apart(w, y), most, start)
            self.scale = max(self.scale, largest(np.abs(x)))
            self.max_rel = max(self.max_rel, _largest_relative(x, y, gap))
            self._products += _products(x, y)

    def _see_own(self, own: Array, limit: Array, start: int) -> None:
        self._differs |= bool(own.any())
        ratio = _ratio(own, limit)
        self._limit.see(limit, start)
        self._ratio.see(ratio, start)
        self._beyond.see(np.where(ratio > 1, own, -math.inf), start)

    @property
    def closest(self) -> int:
        """Where the largest forbidden difference is, or else what comes closest to its limit."""
        if not self._differs:
            return self._limit.at
        return self._ratio.at if self._beyond.value == -math.inf else self._beyond.at

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both tensors, without what is not finite."""
        xx, yy, xy = map(float, self._products)
        length = math.sqrt(xx) * math.sqrt(yy)
        return min(xy / length, 1.0) if length else 1.0


def _pieces(a: Array, b: Array, want: Array, limit: Array) -> Iterator[tuple[int, list[Array]]]:
    """Yield pieces of all four in f64, and where they begin."""
    flat = [x.reshape(-1) for x in (a, b, want)]
    every = np.broadcast_to(limit, a.shape)
    same = limit.size == 1
    limits = limit.reshape(-1) if same else every.reshape(-1)
    for start in range(0, a.size, COMPARED_AT_ONCE):
        some = [x[start : start + COMPARED_AT_ONCE].astype(np.float64) for x in flat]
        most = limits if same else limits[start : start + COMPARED_AT_ONCE]
        yield start, [*some, np.broadcast_to(most, some[0].shape)]


def largest(values: Array) -> float:
    """Return the largest finite one of numbers that are not negative, 0 where there is none."""
    return float(values[np.isfinite(values)].max(initial=0.0))


def apart(x: Any, y: Any) -> Array:
    """Return |x - y|: 0 where both are the same NaN or infinity, infinite where only one is."""
    with np.errstate(invalid="ignore"):
        gap = np.asarray(np.abs(x - y))  # of a scalar NumPy makes no array
    odd = ~np.isfinite(gap)
    if odd.any():
        equal = (x == y) | (np.isnan(x) & np.isnan(y))
        gap[odd] = np.where(equal, 0.0, np.inf)[odd]
    return gap


def _ratio(own: Array, limit: Array) -> Array:
    """Return own / limit: 0 where nothing differs, infinite where nothing is allowed."""
    with np.errstate(all="ignore"):
        ratio = np.asarray(own / limit)
    ratio[own == 0] = 0.0
    ratio[np.isinf(own)] = np.inf  # also where the limit has overflowed
    return ratio


@np.errstate(all="ignore")
def _products(x: Array, y: Array) -> Array:
    """Return the sums of x*x, y*y and x*y over what is finite in both.

    Not by the BLAS, whose sums depend on its number of threads.
    """
    both = np.isfinite(x) & np.isfinite(y)
    p, q = x[both], y[both]
    return np.array([np.sum(p * p), np.sum(q * q), np.sum(p * q)])


def _largest_relative(x: Array, y: Array, gap: Array) -> float:
    differ = np.isfinite(gap) & (gap > 0)
    if not differ.any():
        return 0.0
    top: Any = np.maximum(np.abs(x[differ]), np.abs(y[differ]))
    return float((gap[differ] / top).max())
