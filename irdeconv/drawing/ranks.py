"""The row of every node: below all that it reads, and near to what it is connected with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

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
        """Move each node to the end of its room where that does not lengthen nets."""
        moved = False
        for v in order:
            writes = self._writes[v]
            if v in self._top or not writes:
                continue
            low = self.least(v)
            high = min(self.rank[t] for net in writes for t in net.targets) - 1
            there = high if down else low
            # What reads nothing stays where it was pulled to: next to its first reader.
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
