"""Groups of layers: scopes of names (`encoder/layer.0/dense`), and repeated blocks.

A scope becomes a group only if its layers are connected, no link leads out of it and back, and the
scene around it keeps most of its boxes and has more than a handful.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

FEWEST = 4  # layers of a group
SPARSE = 12  # boxes; a scene with fewer shows the insides of its groups
CROWDED = 48  # boxes; a scene with more is hard to read

Names = TypeVar("Names", str, tuple[str, ...])
_PART = re.compile(r"[^/.]+")


@dataclass
class LayerGroup:
    """Layers (by number) and groups, in order; `repeats` is the number of equal members, if so."""

    title: str
    members: list[int | LayerGroup] = field(default_factory=list)
    repeats: int = 0

    def layers(self) -> list[int]:
        """Return all layers inside, also those of inner groups."""
        out: list[int] = []
        stack: list[int | LayerGroup] = [self]
        while stack:
            member = stack.pop()
            if isinstance(member, LayerGroup):
                stack += reversed(member.members)
            else:
                out.append(member)
        return out

    def groups(self) -> list[LayerGroup]:
        """Return the members that are groups."""
        return [m for m in self.members if isinstance(m, LayerGroup)]


Arrow = tuple[int, int]


def scopes(names: Mapping[int, str], arrows: Sequence[Arrow]) -> LayerGroup:
    """Return the whole graph as a group of groups; `names` are those of layers that have scopes."""
    root = _by_name(names, arrows)
    stack = [(root, list(arrows))]
    while stack:  # dissolve the useless groups in a group, then in the groups inside
        here, inside = stack.pop()
        _weed(here, inside)
        _open_few(here, inside)
        _break_cycles(here, inside)
        stack += split(here, inside)
    return root


def _by_name(names: Mapping[int, str], arrows: Sequence[Arrow]) -> LayerGroup:
    """Return groups for all scopes there are; their titles are the common prefixes of names."""
    paths: dict[int, tuple[str, ...]] = {}
    found: dict[tuple[str, ...], LayerGroup] = {(): LayerGroup("")}
    for v, name in names.items():
        parts = list(_PART.finditer(name))
        paths[v] = tuple(part[0] for part in parts[:-1])
        for n, part in enumerate(parts[:-1], 1):
            found.setdefault(paths[v][:n], LayerGroup(name[: part.end()]))
    _adopt(paths, arrows)
    placed: set[tuple[str, ...]] = {()}
    for v, path in paths.items():
        for n in range(1, len(path) + 1):
            if path[:n] not in placed:
                placed.add(path[:n])
                found[path[: n - 1]].members.append(found[path[:n]])
        found[path].members.append(v)
    return found[()]


def _adopt(paths: dict[int, tuple[str, ...]], arrows: Sequence[Arrow]) -> None:
    """Put layers without a scope in their names into the scope that their neighbours share."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for source, target in arrows:
        if source in paths and target in paths:
            before.setdefault(target, source)
            if paths[target]:
                after.setdefault(source, target)
    for v in [v for v, path in paths.items() if not path]:
        if v in before and v in after:
            paths[v] = beginning(paths[before[v]], paths[after[v]])


def beginning(a: Names, b: Names) -> Names:
    """Return the common prefix of two names or scopes."""
    same = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return a[: next(same, min(len(a), len(b)))]


def split(group: LayerGroup, arrows: Iterable[Arrow]) -> list[tuple[LayerGroup, list[Arrow]]]:
    """Return the groups inside, each with the links between its own layers."""
    home = homes(group)
    within: dict[int, list[Arrow]] = {}
    for arrow in arrows:
        if home[arrow[0]] == home[arrow[1]]:
            within.setdefault(home[arrow[0]], []).append(arrow)
    members = enumerate(group.members)
    return [(m, within.get(n, [])) for n, m in members if isinstance(m, LayerGroup)]


def _weed(group: LayerGroup, arrows: Sequence[Arrow]) -> None:
    """Dissolve inner groups that are small, or whose layers nothing connects."""
    while True:
        home = homes(group)
        root = connected(home, ((a, b) for a, b in arrows if home[a] == home[b]))
        pieces = Counter(n for v, n in home.items() if root[v] == v)
        sizes = Counter(home.values())
        bad = [n for n, size in sizes.items() if size < FEWEST or pieces[n] > 1]
        if not _dissolve(group, bad):
            return


def connected(nodes: Iterable[int], links: Iterable[Arrow]) -> dict[int, int]:
    """Return for each node the lowest node that links connect it with."""
    root = {v: v for v in nodes}

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    for a, b in links:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    return {v: find(v) for v in root}


def _dissolve(group: LayerGroup, numbers: Iterable[int]) -> bool:
    """Replace the members of these numbers by their contents; return whether any is a group."""
    gone = {n for n in numbers if isinstance(group.members[n], LayerGroup)}
    members: list[int | LayerGroup] = []
    for n, member in enumerate(group.members):
        members += member.members if isinstance(member, LayerGroup) and n in gone else [member]
    group.members = members
    return bool(gone)


def _open_few(group: LayerGroup, arrows: Sequence[Arrow]) -> None:
    """Open the largest groups while the scene has few boxes."""
    while len(group.members) < SPARSE:
        room = CROWDED - len(group.members) + 1
        fitting = {
            n: len(m.layers())
            for n, m in enumerate(group.members)
            if isinstance(m, LayerGroup) and len(m.members) <= room
        }
        if not fitting:
            break
        _dissolve(group, [max(fitting, key=fitting.__getitem__)])
        _weed(group, arrows)


def homes(group: LayerGroup) -> dict[int, int]:
    """Return for each layer inside the number of the member that it is in."""
    out = {}
    for n, member in enumerate(group.members):
        for v in member.layers() if isinstance(member, LayerGroup) else [member]:
            out[v] = n
    return out


def _break_cycles(group: LayerGroup, arrows: Sequence[Arrow]) -> None:
    """Dissolve the smallest groups on cycles: members that a link leaves and comes back to."""
    while True:
        home = homes(group)
        pairs = {(home[a], home[b]) for a, b in arrows if home[a] != home[b]}
        sizes = {
            n: len(m.layers()) for n, m in enumerate(group.members) if isinstance(m, LayerGroup)
        }
        guilty = [n for n in on_cycles(len(group.members), pairs) if n in sizes]
        if not guilty:
            return
        guilty.sort(key=lambda n: (sizes[n], n))
        _dissolve(group, guilty[: 1 + len(guilty) // 8])
        _weed(group, arrows)


def on_cycles(count: int, arrows: Iterable[Arrow]) -> set[int]:
    """Return the nodes that are on cycles or between them."""
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in arrows:
        after[a].append(b)
        before[b].append(a)
    left = set(range(count))
    for near, far in ((before, after), (after, before)):
        waiting = [len(near[v]) for v in range(count)]
        free = [v for v in range(count) if not waiting[v]]
        for v in free:  # grows on the way
            left.discard(v)
            for w in far[v]:
                waiting[w] -= 1
                if not waiting[w]:
                    free.append(w)
    return left


_LONGEST_BLOCK = 400  # members
_WORTHWHILE = 6  # boxes at least; less is no reason for a group


def _saved(run: range) -> int:
    """Return how many boxes a group of equal blocks saves; the range has their first members."""
    return (len(run) - 1) * run.step


def find_repeats(
    group: LayerGroup,
    signatures: Mapping[int, str],
    arrows: Sequence[Arrow],
    weighty: Collection[int] = (),
) -> None:
    """Put runs of equal blocks into groups, nested ones too; blocks begin with `weighty` layers."""
    for inner, inside in split(group, arrows):
        find_repeats(inner, signatures, inside, weighty)
    row = _Row(group, signatures, arrows, weighty)
    group.members = row.folded(0, len(row.members))


class _Row:
    """The members of a group, producers first, and the other members that each reads."""

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
        blocks: list[int | LayerGroup] = []
        for first in run:
            inside = self.folded(first, first + run.step)
            only = inside[0]
            alone = len(inside) == 1 and isinstance(only, LayerGroup)
            blocks.append(only if alone else LayerGroup("", inside))
        whole = LayerGroup("", blocks, repeats=len(run))
        return [*self.folded(start, run.start), whole, *self.folded(run.stop, end)]

    def _best(self, start: int, end: int) -> range | None:
        """Return the run that saves most boxes; of equal ones the shortest period."""
        best = None
        for period in range(1, min((end - start) // 2, _LONGEST_BLOCK) + 1):
            if best is not None and end - start - period <= _saved(best):
                break
            for first, last in self._alike(start, end, period):
                run = self._aligned(first, last, period)
                least = _WORTHWHILE if best is None else _saved(best) + 1
                if _saved(run) >= least and self._is_block(run):
                    best = run
        return best

    def _alike(self, start: int, end: int, period: int) -> list[tuple[int, int]]:
        """Return ranges of members equal to those `period` before them: two blocks or more."""
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
        """Whether two members read the like: their own blocks, earlier members, the same member."""
        mine, other = self._reads[a], self._reads[b]
        if len(mine) != len(other):
            return False
        return all(u - a == v - b or u == v or u < first for u, v in zip(mine, other, strict=True))

    def _aligned(self, first: int, last: int, period: int) -> range:
        """Return the run whose blocks pass on the fewest values; best with weights in front."""
        length = last - first - (last - first) % period
        starts = range(first, last - length + 1)
        best = min(starts, key=lambda s: (self._open(s + period), not self._weighty[s], s))
        return range(best, best + length, period)

    def _open(self, cut: int) -> int:
        """Return how many members in front of a cut are read behind it."""
        behind = self._reads[cut : cut + _LONGEST_BLOCK]
        return len({u for reads in behind for u in reads if u < cut})

    def _is_block(self, run: range) -> bool:
        """Whether links connect several layers; a group by itself is a block."""
        if run.step == 1:
            return True
        low = run.start + run.step
        members = self.members[run.start : low]
        layers = sum(len(m.layers()) if isinstance(m, LayerGroup) else 1 for m in members)
        if layers < FEWEST:
            return False
        block = range(low, low + run.step)  # the second one: the first may read less
        links = ((u, n) for n in block for u in self._reads[n] if u >= low)
        return len({*connected(block, links).values()}) == 1


def walk(reads: Sequence[Sequence[int]]) -> list[int]:
    """Return numbers behind all that they read, block by block; alike blocks come out alike."""
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
