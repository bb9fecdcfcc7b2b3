"""Where the micro-kernel reads the vectors of a product, and where it writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.compiled import group_sizes, groups
from irdeconv.kernels.shared import jit
from irdeconv.spec import Array

_NONE = np.zeros(0, np.int64)
Stores = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class ProductColumns:
    """Columns of a product: what each is in the right operand, and where its sums belong.

    `reads` are places behind those of the rows. Column i is written at `writes[i]` and, where rows
    are written in turns, behind it: in the places from `lows[i]` up to `highs[i]` of the `steps`
    until the next column. Both are None where all columns are written whole.
    """

    reads: Array
    writes: Array
    steps: int = 1
    lows: Array | None = None
    highs: Array | None = None

    def edges(self) -> tuple[Array, Array]:
        """Return lows and highs."""
        if self.lows is None or self.highs is None:
            zeros = np.zeros_like(self.writes)
            return zeros, zeros + self.steps
        return self.lows, self.highs

    def with_gaps(self) -> ProductColumns:
        """Add columns that are not written, so that all are neighbours, in rising order."""
        if not len(self.reads):
            return self
        at = self.reads - self.reads[0]
        size = int(at[-1]) + 1
        writes, lows, highs = np.zeros((3, size), np.int64)
        low, high = self.edges()
        writes[at], lows[at], highs[at] = self.writes, low, high
        return ProductColumns(self.reads[0] + np.arange(size), writes, self.steps, lows, highs)


@dataclass(frozen=True)
class VectorPlaces:
    """Tables of the micro-kernel: `reads` of vectors, `stores` and `pieces`; see there."""

    reads: Array
    stores: Stores
    pieces: tuple[Array, Array, Array] = (_NONE, _NONE, _NONE)

    @staticmethod
    def lying(columns: ProductColumns, starts: Array) -> VectorPlaces:
        """Read vectors where they lie.

        They begin with the columns `starts`; columns that follow one another are read from
        neighbours while these are, and belong to the vector as far.
        """
        lanes, count = jit.lanes(), len(columns.reads)
        at = starts[:, None] + np.arange(lanes)
        reads = columns.reads[np.minimum(at, count - 1)]
        near = (at < count) & (reads == reads[:, :1] + np.arange(lanes))
        return VectorPlaces(_integers(columns.reads[starts]), _stores(columns, at, near))

    @staticmethod
    def copied(
        columns: ProductColumns, vectors: int, *, overlap: bool = False, most: int = 1 << 62
    ) -> list[VectorPlaces]:
        """Copy what the vectors of a tile read, which may lie anywhere, before they are read.

        At most so many vectors are copied at once. The last one may overlap the one before it, so
        that nothing behind the columns is read.
        """
        starts = vector_starts(len(columns.reads), overlap)
        step = max(vectors, most // vectors * vectors)
        parts = [starts[at : at + step] for at in range(0, len(starts), step)]
        return [VectorPlaces._copied(columns, part, vectors) for part in parts]

    @staticmethod
    def _copied(columns: ProductColumns, starts: Array, vectors: int) -> VectorPlaces:
        lanes, count = jit.lanes(), len(columns.reads)
        at = starts[:, None] + np.arange(lanes)
        inside = at < count
        lying = columns.reads[np.minimum(at, count - 1)]
        first = inside.copy()
        first[:, 1:] &= np.diff(lying, axis=1) != 1
        vector, lane = np.nonzero(first)
        sizes = groups(len(starts), vectors)
        ends = np.cumsum(sizes)
        group = np.searchsorted(ends, vector, side="right")
        begins = ends - sizes
        firsts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(sizes)))])
        to = (vector - begins[group]) * lanes + lane
        pieces = _integers(firsts), _integers(lying[first]), _integers(to)
        reads = np.zeros(len(starts), np.int64)
        return VectorPlaces(reads, _stores(columns, at, inside), pieces)


def vector_starts(count: int, overlap: bool = True) -> Array:
    """Return where vectors of so many neighbours begin; the last one may overlap."""
    starts = np.arange(0, count, jit.lanes())
    return np.minimum(starts, max(0, count - jit.lanes())) if overlap else starts


def effort(count: int, rows: int, vectors: int) -> float:
    """Return how many products of vectors could be added while a panel meets so many vectors.

    A tile with few vectors loads nearly as much as it adds, and waits for its own sums; one with
    many vectors waits for a farther cache.
    """
    total = 0
    for size in group_sizes(vectors):
        added = max(rows * size, rows + ACROSS * size, LATENCY)
        total += count // size * (added + max(0, size - STREAMS) ** 2)
        count %= size
    return total


LATENCY = 8  # sums that are needed for none to wait for the one before it
ACROSS = 2  # loads of a vector that lies across two cache lines
STREAMS = 3  # vectors of a tile, beyond which each is another stream to wait for


def _stores(columns: ProductColumns, at: Array, inside: Array) -> Stores:
    """Return the pieces in which the columns `at [vectors, lanes]` are written."""
    steps, (lows, highs) = columns.steps, columns.edges()
    at = np.minimum(at, len(columns.writes) - 1)
    writes, low, high = columns.writes[at], lows[at], highs[at]
    wanted = inside & (high > low)
    joined = wanted[:, 1:] & wanted[:, :-1] & (np.diff(writes, axis=1) == steps)
    joined &= (high[:, :-1] == steps) & (low[:, 1:] == 0)
    first, last = wanted.copy(), wanted.copy()
    first[:, 1:] &= ~joined
    last[:, :-1] &= ~joined
    vector, lane = np.nonzero(first)
    _, end = np.nonzero(last)
    firsts = np.concatenate([[0], np.cumsum(np.bincount(vector, minlength=len(at)))])
    places = writes[first] - lane * steps
    spans = lane * steps + low[first], end * steps + high[last]
    low, high = map(_integers, spans)
    return _integers(firsts), _integers(places), low, high


def _integers(values: Array) -> Array:
    return np.ascontiguousarray(values, np.int64)
