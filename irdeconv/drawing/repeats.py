"""Groups of what repeats: blocks of the same layers in the same order, one behind the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.drawing.scopes import FEWEST, SPARSE, Arrow, LayerGroup, homes, split

_LONGEST_BLOCK = 400  # members
_WORTHWHILE = 6  # boxes at least; less is no reason for a group


@dataclass(frozen=True, slots=True)
class _Run:
    """`times` blocks of `period` members, from `start` on."""

    start: int
    period: int
    times: int

    @property
    def saved(self) -> int:
        return (self.times - 1) * self.period


def find_repeats(
    group: LayerGroup,
    signatures: Mapping[int, str],
    arrows: Sequence[Arrow],
    weighty: Collection[int] = (),
) -> None:
    """Put runs of equal blocks into groups, in a group and in all groups inside.

    `weighty` are layers with weights, with which a block begins where there is a choice.
    """
    for inner, inside in split(group, arrows):
        find_repeats(inner, signatures, inside, weighty)
    row = _Row(group, signatures, arrows, weighty)
    group.members = row.folded(0, len(row.members))


class _Row:
    """The members of a group, producers first, and what each reads of the others."""

    def __init__(
        self,
        group: LayerGroup,
        signatures: Mapping[int, str],
        arrows: Sequence[Arrow],
        weighty: Collection[int],
    ) -> None:
        home = homes(group)
        reads: list[list[int]] = [[] for _ in group.members]
        for a, b in arrows:
            if home[a] != home[b]:
                reads[home[b]].append(home[a])
        order = walk(reads)
        place = {n: k for k, n in enumerate(order)}
        self.members = [group.members[n] for n in order]
        self._reads = [[place[a] for a in reads[n]] for n in order]
        texts = [_signature(m, signatures) for m in self.members]
        numbers = {t: n for n, t in enumerate(dict.fromkeys(texts))}
        self._weighty = [isinstance(m, int) and m in weighty for m in self.members]
        self._codes = np.array([numbers[t] for t in texts], np.int64)

    def folded(self, start: int, end: int) -> list[int | LayerGroup]:
        """Return the members from `start` to `end`, runs as groups."""
        run = self._best(start, end) if end - start > SPARSE else None
        if run is None:
            return self.members[start:end]
        stop = run.start + run.period * run.times
        blocks: list[int | LayerGroup] = []
        for first in range(run.start, stop, run.period):
            inside = self.folded(first, first + run.period)
            only = inside[0]
            alone = len(inside) == 1 and isinstance(only, LayerGroup)
            blocks.append(only if alone else LayerGroup("", inside))
        whole = LayerGroup("", blocks, repeats=run.times)
        return [*self.folded(start, run.start), whole, *self.folded(stop, end)]

    def _best(self, start: int, end: int) -> _Run | None:
        """Return the run that saves most boxes; of equal ones the shortest period."""
        best = None
        for period in range(1, min((end - start) // 2, _LONGEST_BLOCK) + 1):
            if best is not None and end - start - period <= best.saved:
                break
            for first, last in self._alike(start, end, period):
                run = self._aligned(first, last, period)
                least = _WORTHWHILE if best is None else best.saved + 1
                if run.saved >= least and self._is_block(run):
                    best = run
        return best

    def _alike(self, start: int, end: int, period: int) -> list[tuple[int, int]]:
        """Return where members equal those `period` before them: two blocks or more."""
        codes = self._codes[start:end]
        same = np.concatenate(([False], codes[period:] == codes[:-period], [False]))
        turns = np.flatnonzero(same[1:] != same[:-1]) + start
        out = []
        for a, b in zip(turns[::2].tolist(), turns[1::2].tolist(), strict=True):
            if b - a < period or not self._is_varied(a, period):
                continue
            first = a
            for n in range(a, b + 1):
                if n == b or not self._wired_alike(n, n + period, first):
                    if n - first >= period:
                        out.append((first, n + period))
                    first = n + 1
        return out

    def _is_varied(self, start: int, period: int) -> bool:
        """Whether the members of a block differ: a chain of one layer again and again is none."""
        if period == 1:
            return isinstance(self.members[start], LayerGroup)
        codes = self._codes[start : start + period]
        return bool((codes != codes[0]).any())

    def _wired_alike(self, a: int, b: int, first: int) -> bool:
        """Whether two members read the like: their own blocks, what is before, the same member."""
        mine, other = self._reads[a], self._reads[b]
        if len(mine) != len(other):
            return False
        return all(u - a == v - b or u == v or u < first for u, v in zip(mine, other, strict=True))

    def _aligned(self, first: int, last: int, period: int) -> _Run:
        """Return the run whose blocks pass on the fewest values; best with weights in front."""
        times = (last - first) // period
        starts = range(first, last - times * period + 1)
        return _Run(
            min(starts, key=lambda s: (self._open(s + period), not self._weighty[s], s)),
            period,
            times,
        )

    def _open(self, cut: int) -> int:
        """Return how many members in front of a cut are read behind it."""
        behind = self._reads[cut : cut + _LONGEST_BLOCK]
        return len({u for reads in behind for u in reads if u < cut})

    def _is_block(self, run: _Run) -> bool:
        """Whether links connect several layers; a group by itself is a block."""
        if run.period == 1:
            return True
        members = self.members[run.start : run.start + run.period]
        layers = sum(len(m.layers()) if isinstance(m, LayerGroup) else 1 for m in members)
        if layers < FEWEST:
            return False
        low = run.start + run.period  # the second block: the first may read less
        root = list(range(run.period))
        for n in range(low, low + run.period):
            for u in self._reads[n]:
                if u >= low:
                    a, b = root[u - low], root[n - low]
                    root = [min(a, b) if r in (a, b) else r for r in root]
        return not any(root)


def walk(reads: Sequence[Sequence[int]]) -> list[int]:
    """Return numbers with all that they read in front of them; alike blocks come out alike.

    Only what nobody reads starts a walk, so all of a block comes together.
    """
    read = {u for near in reads for u in near}
    starts = [n for n in range(len(reads)) if n not in read] + list(range(len(reads)))
    out: list[int] = []
    state = [0] * len(reads)  # 1: entered, 2: done
    for start in starts:
        stack = [start]
        while stack:
            n = stack[-1]
            if state[n] == 0:
                state[n] = 1
                stack += [u for u in reversed(reads[n]) if state[u] == 0]
            else:
                stack.pop()
                if state[n] == 1:
                    state[n] = 2
                    out.append(n)
    return out


def _signature(member: int | LayerGroup, signatures: Mapping[int, str]) -> str:
    """Return a text that is the same for members that look the same inside."""
    if isinstance(member, LayerGroup):
        return f"({' '.join(_signature(m, signatures) for m in member.members)})"
    return signatures[member]
