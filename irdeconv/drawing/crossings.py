"""The order in each row, such that few links cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

from irdeconv.drawing.layers import Layers

_SWEEPS = 24
_FRUITLESS = 4  # sweeps without a better order before the search ends
_SWAPPED = 100  # vertices in a row whose neighbours are still swapped one by one


def order_rows(layers: Layers) -> None:
    """Sort `layers.rows` so that few links cross; the same graph always gets the same order."""
    rows = _first_order(layers)
    best, fewest = [list(row) for row in rows], crossings(layers, rows)
    waited = 0
    for sweep in range(_SWEEPS):
        if not fewest or waited == _FRUITLESS:
            break
        _sweep(layers, rows, down=sweep % 2 == 0)
        _swap(layers, rows)
        found = crossings(layers, rows)
        waited += 1
        if found < fewest:
            best, fewest, waited = [list(row) for row in rows], found, 0
    layers.rows[:] = best


def crossings(layers: Layers, rows: Sequence[Sequence[int]]) -> int:
    """Return the number of pairs of links that cross between neighbouring rows."""
    total = 0
    for above, below in pairwise(rows):
        place = {v: n for n, v in enumerate(below)}
        seen: list[int] = []
        for v in above:
            ends = sorted(place[w] for w in layers.down[v])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _first_order(layers: Layers) -> list[list[int]]:
    """Return the rows in the order in which a walk along the links comes by."""
    rows: list[list[int]] = [[] for _ in layers.rows]
    seen = [False] * len(layers.rank)
    for start in (v for row in layers.rows for v in row):
        stack = [start]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                rows[layers.rank[v]].append(v)
                stack += reversed(layers.down[v])
                stack += layers.up[v]
    return rows


def _sweep(layers: Layers, rows: list[list[int]], *, down: bool) -> None:
    """Sort every row by where its neighbours in the row before are on average."""
    near = layers.up if down else layers.down
    numbers = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
    for n in numbers:
        place = {v: k for k, v in enumerate(rows[n - 1 if down else n + 1])}
        rows[n] = _sorted(rows[n], near, place)


def _sorted(row: list[int], near: list[list[int]], place: dict[int, int]) -> list[int]:
    """Return the row by average place; vertices without neighbours stay where they are."""
    keys = {v: sum(place[w] for w in near[v]) / len(near[v]) for v in row if near[v]}
    moving = iter(sorted(keys, key=keys.__getitem__))
    return [next(moving) if v in keys else v for v in row]


def _swap(layers: Layers, rows: list[list[int]]) -> None:
    """Swap neighbours in a row where fewer links cross then."""
    place = [0] * len(layers.rank)
    for row in rows:
        for n, v in enumerate(row):
            place[v] = n
    for row in rows:
        if len(row) > _SWAPPED:
            continue
        for n in range(len(row) - 1):
            v, w = row[n], row[n + 1]
            if _gain(layers, place, v, w) > 0:
                row[n], row[n + 1] = w, v
                place[v], place[w] = n + 1, n


def _gain(layers: Layers, place: list[int], left: int, right: int) -> int:
    """Return how many crossings go away when two neighbours change places."""
    gain = 0
    for near in (layers.up, layers.down):
        ends = [place[w] for w in near[right]]
        for v in near[left]:
            at = place[v]
            gain += sum((at > end) - (at < end) for end in ends)
    return gain
