"""Exact sums of filter elements, and whether a number is one of them or its rounding."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from irdeconv.spec import Array


def compare_sums(parts: Sequence[Array], wanted: Array) -> tuple[Array, bool]:
    """Return where `wanted` is the sum of the parts, and whether some are so up to rounding only.

    Rounded is a sum that lies strictly between the two neighbours of the wanted number.
    """
    if wanted.dtype.kind in "iub":
        total = sum((p.astype(np.int64) for p in parts), np.zeros(wanted.shape, np.int64))
        return np.asarray(total == wanted), False
    good = np.zeros(wanted.shape, bool)
    rounded = False
    with np.errstate(all="ignore"):
        total, exact = _sum(parts)
        wide = wanted.astype(np.float64)
        good |= (exact & (total == wide)) | (np.isnan(total) & np.isnan(wide))
        good |= ~np.isfinite(total) & (total == wide)
    for at in np.argwhere(~good & np.isfinite(total) & np.isfinite(wide)):
        i = tuple(at)
        number = sum((Fraction(float(p[i])) for p in parts), Fraction(0))
        if number == Fraction(float(wide[i])):
            good[i] = True
        elif wanted.dtype.kind == "f":
            low, high = (np.nextafter(wanted[i], wanted.dtype.type(s)) for s in (-np.inf, np.inf))
            between = np.isfinite(low) and np.isfinite(high)
            good[i] = between and Fraction(float(low)) < number < Fraction(float(high))
            rounded |= bool(good[i])
    return good, rounded


def _sum(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Return the sums in doubles and where no addition rounded."""
    total = np.asarray(parts[0].astype(np.float64))
    exact = np.ones(total.shape, bool)
    for p in parts[1:]:
        term = p.astype(np.float64)
        new = total + term
        back = new - total
        exact &= (total - (new - back)) + (term - back) == 0
        total = new
    return total, exact
