"""The row of every node (below its inputs, near its neighbours) and the order in each row.

A long link becomes a chain of points, one in each row. The order keeps crossings few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise

import numpy as np

from irdeconv.base import work

_STEP, _POINT = 16, 2048  # units of work for a comparison of places, and for a point of a net
_PASSES = 3  # down and up; later ones move next to nothing


@dataclass(frozen=True, slots=True)
class Net:
    """A value: the node that it comes from and the nodes that read it, each of them once."""

    source: int
    targets: tuple[int, ...]


def topological_order(count: int, nets: Sequence[Net]) -> list[int]:
    """Return the nodes, sources first; on a cycle the lowest number goes first, as if fed."""
    waiting = [0] * count
    users: list[list[int]] = [[] for _ in range(count)]
    for net in nets:
        users[net.source] += net.targets
        for target in net.targets:
            waiting[target] += 1
    ready = [v for v in range(count) if not waiting[v]]
    heapify(ready)
    out: list[int] = []
    done = [False] * count
    lowest = 0
    while len(out) < count:
        while not ready:
            if not done[lowest]:
                heappush(ready, lowest)
            lowest += 1
        v = heappop(ready)
        if done[v]:
            continue
        done[v] = True
        out.append(v)
        for user in users[v]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, user)
    return out


def rank_nodes(
    order: Sequence[int], nets: Sequence[Net], top: Collection[int], bottom: Collection[int]
) -> list[int]:
    """Return the row of each node, from 0, in nets that all lead forward in `order`.

    Nodes of `top` are in the first row, alone with others of `top`; those of `bottom` in the last.
    """
    ranking = _Ranking(len(order), nets, top)
    for v in order:
        ranking.rank[v] = ranking.least(v)
    for _ in range(_PASSES):
        # A node that moves looks at all readers of what it reads.
        steps = sum(len(net.targets) ** 2 for net in nets) + len(order)
        if not work.room(_STEP * steps):
            break
        moved = ranking.pull(reversed(order), down=True)
        if not ranking.pull(order, down=False) | moved:
            break
    used = sorted({row for v, row in enumerate(ranking.rank) if v not in bottom})
    number = {row: n for n, row in enumerate(used)}
    return [len(used) if v in bottom else number[row] for v, row in enumerate(ranking.rank)]


class _Ranking:
    """The rows so far, and by how much a move of one node lengthens its nets."""

    def __init__(self, count: int, nets: Sequence[Net], top: Collection[int]) -> None:
        self.rank = [0] * count
        self._top = top
        self._reads: list[list[Net]] = [[] for _ in range(count)]
        self._writes: list[list[Net]] = [[] for _ in range(count)]
        for net in nets:
            self._writes[net.source].append(net)
            for target in net.targets:
                self._reads[target].append(net)

    def least(self, v: int) -> int:
        """Return the first row in which a node may be."""
        if v in self._top:
            return 0
        first = 0 if self._top else -1
        return 1 + max((self.rank[net.source] for net in self._reads[v]), default=first)

    def pull(self, order: Iterable[int], *, down: bool) -> bool:
        """Move each node to the end of its room if that does not lengthen nets."""
        moved = False
        for v in order:
            writes = self._writes[v]
            if v in self._top or not writes:
                continue
            low = self.least(v)
            high = min(self.rank[t] for net in writes for t in net.targets) - 1
            there = high if down else low
            # A node that reads nothing keeps the row it was pulled to: next to its first reader.
            free = there != self.rank[v] and (down or self._reads[v])
            if free and self._cost(v, there) <= self._cost(v, self.rank[v]):
                self.rank[v] = there
                moved = True
        return moved

    def _cost(self, v: int, row: int) -> int:
        """Return the length of all nets of a node if it were in a row."""
        rank = self.rank
        read = sum(max(row, *(rank[t] for t in n.targets if t != v), 0) for n in self._reads[v])
        return read - row * len(self._writes[v])


MOST_PASSING = 8_000  # points, or four for each node; the longest nets of all get lanes beside
FEW_PASSING = 256  # if the account of work is used up


@dataclass
class Layers:
    """Vertices in rows: the nodes, then points of long nets, which all readers of a net share.

    `up` and `down` list the neighbours in the row above and below. `chains` has for each net the
    vertices in which it passes through rows, from the one below its source; None where a net has
    none because it runs beside the drawing.
    """

    nodes: int
    rank: list[int]
    rows: list[list[int]]
    up: list[list[int]]
    down: list[list[int]]
    chains: list[list[int] | None] = field(default_factory=list)

    def is_passing(self, vertex: int) -> bool:
        """Whether a vertex is a point of a net, not a node."""
        return vertex >= self.nodes


def layered(rank: Sequence[int], nets: Sequence[Net]) -> Layers:
    """Return the rows of nodes and of the points in which nets pass through them."""
    rows: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for v, row in enumerate(rank):
        rows[row].append(v)
    out = Layers(len(rank), list(rank), rows, up=[[] for _ in rank], down=[[] for _ in rank])
    beside = _beside(rank, nets)
    for n, net in enumerate(nets):
        out.chains.append(None if n in beside else _chain(out, net))
    return out


def _chain(layers: Layers, net: Net) -> list[int]:
    """Add the points of a net, connected with its source and its readers; return them."""
    rank = layers.rank
    first = rank[net.source]
    last = max(rank[t] for t in net.targets)
    trunk = [net.source]
    for row in range(first + 1, last):
        vertex = len(rank)
        rank.append(row)
        layers.rows[row].append(vertex)
        layers.up.append([])
        layers.down.append([])
        _connect(layers, trunk[-1], vertex)
        trunk.append(vertex)
    for target in net.targets:
        _connect(layers, trunk[rank[target] - first - 1], target)
    return trunk[1:]


def _connect(layers: Layers, above: int, below: int) -> None:
    layers.down[above].append(below)
    layers.up[below].append(above)


def _beside(rank: Sequence[int], nets: Sequence[Net]) -> set[int]:
    """Return the numbers of the nets that are too long and too many for points of their own."""
    spans = [max(rank[t] for t in net.targets) - rank[net.source] - 1 for net in nets]
    total = sum(spans)
    room = min(max(MOST_PASSING, 4 * len(rank)), max(FEW_PASSING, work.left() // _POINT))
    work.room(_POINT * min(total, room), whole=True)
    out = set()
    for n in sorted(range(len(nets)), key=lambda n: -spans[n]):
        if total <= room:
            break
        total -= spans[n]
        out.add(n)
    return out


_SWEEPS = 24
_FRUITLESS = 4  # sweeps without a better order before the search ends
_SWAPPED = 100  # vertices in a row whose neighbours are still swapped one by one


def order_rows(layers: Layers) -> None:
    """Sort `layers.rows` so that few links cross; the same graph always gets the same order."""
    rows = _first_order(layers)
    best, fewest = [list(row) for row in rows], crossings(layers, rows)
    waited = 0
    pairs = (_pairs(near, rows) for near in (layers.up, layers.down))
    steps = _STEP * (sum(pairs) + 96 * len(layers.rank))
    for sweep in range(_SWEEPS):
        if not fewest or waited == _FRUITLESS or not work.room(steps):
            break
        _sweep(layers, rows, down=sweep % 2 == 0)
        _swap(layers, rows)
        found = crossings(layers, rows)
        waited += 1
        if found < fewest:
            best, fewest, waited = [list(row) for row in rows], found, 0
    layers.rows[:] = best


def _pairs(near: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]) -> int:
    """Return how many links of neighbours in a row meet while these are swapped."""
    few = (row for row in rows if len(row) <= _SWAPPED)
    return sum(len(near[v]) * len(near[w]) for row in few for v, w in pairwise(row))


def crossings(layers: Layers, rows: Sequence[Sequence[int]]) -> int:
    """Return the number of pairs of links that cross between neighbouring rows."""
    place = {v: n for n, v in enumerate(chain.from_iterable(rows))}
    ends = [e for v in place for e in sorted(place[w] for w in layers.down[v])]
    # Links cross as often as ends are out of order. Pairs that first differ in a bit are counted
    # with that bit, among equal higher ones.
    values = np.array(ends, np.int64)
    total = 0
    for bit in reversed(range(len(place).bit_length())):
        ones = values >> bit & 1
        before = np.cumsum(ones) - ones
        first = np.flatnonzero(np.diff(values >> bit + 1, prepend=-1))
        before -= np.repeat(before[first], np.diff(first, append=len(values)))
        total += int(before[ones == 0].sum())
        values = values[np.argsort(values >> bit, kind="stable")]
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
    """Sort every row by the average place of each vertex's neighbours in the row before.

    Vertices without neighbours keep their places.
    """
    near = layers.up if down else layers.down
    numbers = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
    for n in numbers:
        place = {v: k for k, v in enumerate(rows[n - 1 if down else n + 1])}
        keys = {v: sum(place[w] for w in near[v]) / len(near[v]) for v in rows[n] if near[v]}
        moving = iter(sorted(keys, key=keys.__getitem__))
        rows[n] = [next(moving) if v in keys else v for v in rows[n]]


def _swap(layers: Layers, rows: list[list[int]]) -> None:
    """Swap neighbours in a row if fewer links cross then."""
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
        for at in (place[v] for v in near[left]):
            gain += sum((at > end) - (at < end) for end in ends)
    return gain
