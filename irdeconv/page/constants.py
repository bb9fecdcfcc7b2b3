"""Constants in few bytes: the values of small ones, least, greatest and mean and a histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from irdeconv.errors import OpError
from irdeconv.ops.basic import Const
from irdeconv.page.statistics import array_statistics, rounded
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
    except (OpError, ValueError):  # the .bin is too short, or NumPy has no such array
        return None
    if array.size <= SHOWN_VALUES:
        texts = [_text(v) for v in array.ravel().tolist()]
        return {"values": ", ".join(texts)[:LONGEST_TEXT]}
    if array.dtype == object or array.dtype.kind in "SUb":
        return None
    return _summary(array)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _summary(array: Array) -> dict[str, Any]:
    """Return least, greatest and mean value, how many are 0 or not finite, and a histogram."""
    seen = array_statistics(array, HISTOGRAM_BINS)
    odd = seen.nan + seen.infinite
    if seen.low is None or seen.high is None or seen.mean is None:
        return {"odd": odd}
    counts = {"zeros": seen.zeros, "odd": odd}
    return {
        "min": rounded(seen.low, 5) if array.dtype.kind not in "iu" else int(seen.low),
        "max": rounded(seen.high, 5) if array.dtype.kind not in "iu" else int(seen.high),
        "mean": rounded(seen.mean, 5),
        **{k: v for k, v in counts.items() if v},
        **({"histogram": _heights(seen.bins)} if len(seen.bins) > 1 else {}),
    }


def _heights(counts: tuple[int, ...]) -> str:
    """Return a digit for the height of each bin; a bin that is not empty has at least 1."""
    highest = len(HEIGHTS) - 1
    return "".join(HEIGHTS[-(-n * highest // max(counts))] for n in counts)
