"""In which type a sum of products is computed, and how the sum becomes the result's type.

The kernels follow IEEE 754 silently: Inf and NaN in the data are results, not warnings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.spec import Array

_EXACT = ((np.dtype(np.float32), 2**24), (np.dtype(np.float64), 2**53))


def accumulator(x: Array, w: Array, terms: int) -> np.dtype[Any]:
    """Return the type in which sums of `terms` products of x and w are computed.

    f32 and f64 stay as they are, narrower floats use f32. Integers use a float type (fast matrix
    products) where every partial sum fits its mantissa, else 64-bit integers, whose wrap-around
    agrees with that of every narrower type.
    """
    if x.dtype in (np.float32, np.float64):
        return x.dtype
    if x.dtype.kind not in "iub":
        return np.dtype(np.float32)
    bound = terms * _magnitude(x) * _magnitude(w)
    for dtype, limit in _EXACT:
        if bound <= limit:
            return dtype
    return np.dtype(np.uint64 if x.dtype.kind == "u" else np.int64)


def _magnitude(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max()))) if x.size else 0


def store(total: Array, out: Array) -> Array:
    """Write sums into `out`: floats are rounded once, integers wrap as NumPy's casts do."""
    if total is out:
        return out
    if out.dtype.kind in "iu" and total.dtype.kind == "f":
        # A cast from float to a narrow integer is undefined beyond its range; from i64 it wraps.
        total = total.astype(np.int64)
    np.copyto(out, total, casting="unsafe")
    return out
