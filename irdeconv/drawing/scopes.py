"""Groups by the scopes of names: `encoder/layer.0/dense` is in `encoder`, `layer`, `0`.

A scope becomes a group only where that helps: its layers are connected with one another, no link
leads out of it and back into it, and the scene around it neither has a handful of boxes nor loses
most of its own to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FEWEST = 4  # layers of a group
SPARSE = 12  # boxes; a scene with fewer shows the insides of its groups
CROWDED = 48  # boxes; a scene with more is hard to read

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
    _settle(root, arrows)
    return root


def _by_name(names: Mapping[int, str], arrows: Sequence[Arrow]) -> LayerGroup:
    """Return groups for all scopes there are; their titles are what names begin with."""
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
    """Put layers whose names have no scope where their neighbours are, if these agree."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for source, target in arrows:
        if source in paths and target in paths:
            before.setdefault(target, source)
            if paths[target]:
                after.setdefault(source, target)
    for v in [v for v, path in paths.items() if not path]:
        if v in before and v in after:
            paths[v] = _common(paths[before[v]], paths[after[v]])


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def _settle(group: LayerGroup, arrows: Sequence[Arrow]) -> None:
    """Dissolve what does not help in a group, then in the groups inside."""
    stack = [(group, list(arrows))]
    while stack:
        here, inside = stack.pop()
        _weed(here, inside)
        _open_few(here, inside)
        _break_cycles(here, inside)
        stack += split(here, inside)


def split(group: LayerGroup, arrows: Iterable[Arrow]) -> list[tuple[LayerGroup, list[Arrow]]]:
    """Return the groups inside, each with the links between its own layers."""
    home = homes(group)
    within: dict[int, list[Arrow]] = {}
    for arrow in arrows:
        if home[arrow[0]] == home[arrow[1]]:
            within.setdefault(home[arrow[0]], []).append(arrow)
    return [
        (member, within.get(n, []))
        for n, member in enumerate(group.members)
        if isinstance(member, LayerGroup)
    ]


def _weed(group: LayerGroup, arrows: Sequence[Arrow]) -> None:
    """Dissolve inner groups that are small, or whose layers nothing connects."""
    while True:
        home = homes(group)
        root = {v: v for v in home}
        for a, b in arrows:
            if home[a] == home[b]:
                root[max(_root(root, a), _root(root, b))] = min(_root(root, a), _root(root, b))
        pieces = [0] * len(group.members)
        sizes = [0] * len(group.members)
        for v, n in home.items():
            pieces[n] += root[v] == v
            sizes[n] += 1
        bad = [n for n, size in enumerate(sizes) if size < FEWEST or pieces[n] > 1]
        if not _dissolve(group, bad):
            return


def _root(root: dict[int, int], v: int) -> int:
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v


def _dissolve(group: LayerGroup, numbers: Iterable[int]) -> bool:
    """Replace the members of these numbers by what is in them; return whether any is a group."""
    gone = {n for n in numbers if isinstance(group.members[n], LayerGroup)}
    members: list[int | LayerGroup] = []
    for n, member in enumerate(group.members):
        if n not in gone or not isinstance(member, LayerGroup):
            members.append(member)
            continue
        members += member.members
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
