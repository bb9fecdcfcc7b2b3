"""How often a run took how long, as bars."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

BINS = 12
BAR = 48


@dataclass(frozen=True)
class Histogram:
    """Counts of times in seconds: `counts[i]` from `edges[i]` up to `edges[i + 1]`.

    Each bin is wider than the one before by the same factor, since the slowest runs may take many
    times as long as the others; the last bin has its upper edge.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(seconds: Sequence[float]) -> Histogram:
        """Count one or more times."""
        low, high = min(seconds), max(seconds)
        if low <= 0 or high <= low:
            return Histogram((low, high), (len(seconds),))
        inner = [low * (high / low) ** (i / BINS) for i in range(1, BINS)]
        counts = Counter(bisect_right(inner, value) for value in seconds)
        return Histogram((low, *inner, high), tuple(counts[i] for i in range(BINS)))

    def lines(self) -> list[str]:
        """Return a line of at most 80 characters for every bin."""
        cells = [f"{edge * 1e3:.3f}" for edge in self.edges]
        width, most = max(map(len, cells)), max(self.counts)
        digits = len(str(most))
        return [
            f"{cells[i]:>{width}} - {cells[i + 1]:>{width}} ms {number:>{digits}} "
            f"{'#' * round(BAR * number / most)}".rstrip()
            for i, number in enumerate(self.counts)
        ]
