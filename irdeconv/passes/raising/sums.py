"""Filter elements that collect others, summed so that it is known whether rounding took part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.passes.raising.size import Unreadable
from irdeconv.spec import Array


class Sums:
    """A filter (M, C/g, *K) into which elements are added, with the error of every sum.

    Floating-point elements are summed as a pair of doubles (Knuth's two-sum), of which the second
    one holds what the first one could not.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.integral = dtype.kind in "iub"
        self.high: Array = np.zeros(shape, np.int64 if self.integral else np.float64)
        self.low: Array = np.zeros(shape)
        self.lost = np.zeros(shape, bool)
        self.hits: Array = np.zeros((shape[0], *shape[2:]), np.int64)
        self.exact = True

    @property
    def count(self) -> int:
        """The largest number of elements in one sum."""
        return int(self.hits.max(initial=0))

    def add(self, rows: Array, at: Sequence[int], values: Array) -> None:
        """Add values (rows, C/g) to the tap `at` of some output channels."""
        where: Any = (rows, slice(None), *at)
        taps: Any = (rows, *at)
        fresh = (self.hits[taps] == 0)[:, None]
        self.hits[taps] += 1
        wide = values.astype(self.high.dtype)
        if fresh.all():
            self.high[where] = wide
            return
        if self.integral:
            self.high[where] += wide
            return
        with np.errstate(all="ignore"):
            self._add(where, np.where(fresh, 0.0, self.high[where]), wide)

    def _add(self, where: Any, old: Array, new: Array) -> None:
        total, error = _two_sum(old, new)
        low, lost = _two_sum(self.low[where], np.where(np.isfinite(total), error, 0))
        self.high[where], self.low[where] = total, low
        self.lost[where] |= lost != 0

    def result(self) -> Array:
        """Return the sums in the filter's type; Unreadable where one does not fit it."""
        with np.errstate(all="ignore"):
            total = self.high if self.integral else self.high + self.low
            out = total.astype(self.dtype)
            wide = out.astype(self.high.dtype)
        if self.integral:
            if (wide != self.high).any():
                raise Unreadable("a sum of filter elements does not fit its type")
            return out
        finite = np.isfinite(self.high)
        if not np.isfinite(wide[finite]).all():
            raise Unreadable("a sum of filter elements does not fit its type")
        exact = (wide == self.high) & (self.low == 0) & ~self.lost
        self.exact = bool(exact[finite].all())
        return out


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)
