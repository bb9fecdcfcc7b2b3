"""Statistics of arrays of any size and element type, read in small parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array

PART_SIZE = 1 << 16  # elements that are float64 at a time


@dataclass(frozen=True)
class ArrayStatistics:
    """Counts, extremes and mean; the last three are of the finite numbers, None without any.

    `bins` counts these in equal parts of the way from `low` to `high`, the last bin with its end;
    one bin where all are the same.
    """

    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    bins: tuple[int, ...] = ()


def has_numbers(array: Array) -> bool:
    """Whether an array holds numbers at all: texts do not, and empty ones."""
    return bool(array.size) and array.dtype != object and array.dtype.kind not in "SUT"


def array_statistics(array: Array, bins: int = 0) -> ArrayStatistics:
    """Return the statistics of an array, in float64; those of no numbers where it has none.

    Without `bins` the numbers are not counted by size.
    """
    if not has_numbers(array):
        return ArrayStatistics()
    nan = zeros = seen = 0
    low, high, mean = math.inf, -math.inf, 0.0
    for part in _parts(array):
        nan += int(np.isnan(part).sum())
        zeros += part.size - int(np.count_nonzero(part))
        finite = part[np.isfinite(part)]
        if not finite.size:
            continue
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        share = finite.size / (seen + finite.size)
        mean = mean * (1 - share) + _mean(finite) * share
        seen += finite.size
    counts = (nan, array.size - seen - nan, zeros)
    if not seen:
        return ArrayStatistics(*counts)
    # The last digit of a mean may be rounded beyond the ends, even to infinity.
    mean = min(max(mean, low), high)
    counted = _histogram(array, low, high, bins, seen) if bins else ()
    return ArrayStatistics(*counts, low, high, mean, counted)


def rounded(value: float, digits: int) -> float:
    """Return a number with fewer digits; the largest doubles are not rounded to infinity."""
    few = float(f"{value:.{digits}g}")
    return few if math.isfinite(few) else value


def _parts(array: Array) -> Iterator[Array]:
    """Yield all elements as float64, a part at a time; their order is that of memory."""
    for part in np.nditer(array, ["external_loop", "buffered"], order="K", buffersize=PART_SIZE):
        yield np.asarray(part).astype(np.float64)


def _mean(values: Array) -> float:
    # The sum of all may overflow where that of their shares does not.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return mean if math.isfinite(mean) else float((values / values.size).sum())


def _histogram(array: Array, low: float, high: float, bins: int, seen: int) -> tuple[int, ...]:
    if low == high:
        return (seen,)
    # The width of the range may be more than a double holds, or less: powers of 2 are exact.
    power = -math.frexp(max(abs(low), abs(high)))[1]
    start, end = math.ldexp(low, power), math.ldexp(high, power)
    counts = np.zeros(bins, np.int64)
    for part in _parts(array):
        place = (np.ldexp(part[np.isfinite(part)], power) - start) / (end - start)
        counts += np.bincount(np.minimum((place * bins).astype(np.int64), bins - 1), minlength=bins)
    return tuple(map(int, counts))
