"""Short products of polynomials by evaluation and interpolation (Toom-Cook, hence Winograd).

A row of `tile` inputs times a filter of `taps` has tile + taps - 1 coefficients. Both factors are
evaluated at that many points, multiplied point by point, and interpolated.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from irdeconv.spec import Array

# Small points first: their powers are exact and grow least. The last point is infinity.
_POINTS = [Fraction(p) for p in ("0", "1", "-1", "1/2", "-1/2", "2", "-2")]


@np.errstate(all="ignore")
def growth(tile: int, taps: int) -> float:
    """Return what bounds a coefficient's intermediate sums for inputs and taps of size 1.

    Rounding errors are at most this times the usual bound for the number of roundings; a direct sum
    has `taps` instead. It is the largest row of |interpolation| (|evaluation| 1 * |transform| 1);
    over several axes the values multiply.
    """
    evaluate, transform, interpolate = (abs(m) for m in matrices(tile, taps))
    return float(np.matmul(interpolate, evaluate.sum(1) * transform.sum(1)).max())


@lru_cache(maxsize=64)
def matrices(tile: int, taps: int) -> tuple[Array, Array, Array]:
    """Return evaluation of the inputs [P, tile] and taps [P, taps], and interpolation [P, P]."""
    count = tile + taps - 1
    exact = _powers(count, tile), _powers(count, taps), _inverse(_powers(count, count))
    evaluate, transform, interpolate = (np.array(m, np.float64) for m in exact)
    return evaluate, transform, interpolate


def _powers(count: int, width: int) -> list[list[Fraction]]:
    """Evaluate 1, p, p^2, ... at `count` points, of which the last is infinity."""
    rows = [[p**i for i in range(width)] for p in _POINTS[: count - 1]]
    return [*rows, [Fraction(int(i == width - 1)) for i in range(width)]]


def _inverse(a: list[list[Fraction]]) -> list[list[Fraction]]:
    n = len(a)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(a)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [v - rows[j][i] * u for v, u in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows]


def kron(factors: list[Array], dtype: Any) -> Array:
    """Return the Kronecker product of one matrix per axis, the first axis slowest."""
    return np.ascontiguousarray(reduce(np.kron, factors), dtype)
