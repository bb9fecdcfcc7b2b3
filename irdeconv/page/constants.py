"""Constants in few bytes: the values of small ones, least, greatest and mean and a histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.errors import OpError
from irdeconv.ops.basic import Const
from irdeconv.spec import Array, is_static

SHOWN_VALUES = 16  # a larger constant is summed up
HISTOGRAM_BINS = 24
HEIGHTS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of a bin, the highest one z
LONGEST_TEXT = 200  # characters of the values of a constant of strings
ELEMENTS_READ = 1 << 25  # on a page; the constants after these are not looked at


@dataclass
class Budget:
    """How many elements may still be read."""

    left: int = ELEMENTS_READ

    def take(self, count: int) -> bool:
        """Whether so many more may be read."""
        if count > self.left:
            return False
        self.left -= count
        return True


def constant_detail(op: Const, budget: Budget) -> dict[str, Any] | None:
    """Return what the page shows of a constant; None where its data are missing or too large."""
    if not op.data.available or not is_static(op.shape) or not budget.take(math.prod(op.shape)):
        return None
    try:
        array = op.data.array()
    except OpError:  # the .bin is too short
        return None
    if array.size <= SHOWN_VALUES:
        texts = [_text(v) for v in array.ravel().tolist()]
        return {"values": ", ".join(texts)[:LONGEST_TEXT]}
    if array.dtype == object or array.dtype.kind in "SUb":
        return None
    return _summary(array)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _summary(array: Array) -> dict[str, Any] | None:
    """Return least, greatest and mean value, how many are 0 or not finite, and a histogram."""
    values = array.ravel()
    if values.dtype.kind not in "iu":
        values = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)
    finite = values if values.dtype.kind in "iu" else values[np.isfinite(values)]
    if not finite.size:
        return {"odd": int(values.size)}
    low, high = finite.min(), finite.max()
    out: dict[str, Any] = {
        "min": _rounded(low),
        "max": _rounded(high),
        "mean": _rounded((finite / finite.size).sum(dtype=np.float64)),
        "zeros": int(finite.size - np.count_nonzero(finite)),
        "odd": int(values.size - finite.size),
    }
    if low < high and math.isfinite(float(high) - float(low)):
        out["histogram"] = _histogram(finite, float(low), float(high))
    return {k: v for k, v in out.items() if v or k in ("min", "max", "mean")}


def _rounded(value: Any) -> float | int:
    if isinstance(value, np.integer):
        return int(value)
    few = float(f"{float(value):.5g}")
    return few if math.isfinite(few) else float(value)  # the greatest double is rounded up


def _histogram(values: Array, low: float, high: float) -> str:
    """Return a digit for the height of each bin; a bin that is not empty has at least 1."""
    counts = np.histogram(values, HISTOGRAM_BINS, (low, high))[0]
    heights = np.ceil(counts * ((len(HEIGHTS) - 1) / counts.max())).astype(int)
    return "".join(HEIGHTS[h] for h in heights)
