"""Where vertices stand in their rows: after Brandes and Koepf, "Fast and simple horizontal
coordinate assignment" (2001), with boxes of different widths.

Each vertex is aligned with a middle neighbour of the row before; blocks of aligned vertices get one
coordinate. That is done from above and below, packed to the left and to the right, and the four
answers are averaged. Points of one long link are always one block, so it is straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from irdeconv.drawing.layers import Layers

BOX_GAP = 28
PASSING_GAP = 14
_NEARINGS = 2


@dataclass(frozen=True, slots=True)
class Extents:
    """How far each vertex reaches to the left and to the right of its middle."""

    left: list[float]
    right: list[float]


def middles(layers: Layers, extents: Extents) -> list[float]:
    """Return the x of every vertex; in each row they keep the order and their distances."""
    rows = [row for row in layers.rows if row]
    if not rows:
        return []
    conflicts = _conflicts(layers, rows)
    answers = []
    for down in (True, False):
        for rightwards in (True, False):
            side = _Alignment(layers, rows, extents, conflicts, down=down, rightwards=rightwards)
            answers.append(side.middles())
    x = _balanced(answers, layers, extents)
    _draw_near(x, layers, extents)
    return x


def distance(layers: Layers, extents: Extents, left: int, right: int) -> float:
    """Return the least distance between the middles of two neighbours in a row."""
    gaps = [PASSING_GAP if layers.is_passing(v) else BOX_GAP for v in (left, right)]
    return extents.right[left] + sum(gaps) / 2 + extents.left[right]


def _conflicts(layers: Layers, rows: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """Return the links that cross the inside of a long one, which stays straight."""
    out = set()
    for above, below in pairwise(rows):
        place = {v: n for n, v in enumerate(above)}
        scanned, left = 0, 0
        for n, v in enumerate(below):
            inner = [u for u in layers.up[v] if layers.is_passing(u) and layers.is_passing(v)]
            if not inner and n + 1 < len(below):
                continue
            right = place[inner[0]] if inner else len(above) - 1
            for w in below[scanned : n + 1]:
                for u in layers.up[w]:
                    crosses = not left <= place[u] <= right
                    if crosses and not (layers.is_passing(u) and layers.is_passing(w)):
                        out.add((u, w))
            scanned, left = n + 1, right
    return out


class _Alignment:
    """One of the four answers: aligned downwards or upwards, packed to one side."""

    def __init__(
        self,
        layers: Layers,
        rows: Sequence[Sequence[int]],
        extents: Extents,
        conflicts: set[tuple[int, int]],
        *,
        down: bool,
        rightwards: bool,
    ) -> None:
        self._layers = layers
        self._down = down
        self._mirrored = rightwards
        ordered = rows if down else rows[::-1]
        self._rows = [row[::-1] for row in ordered] if rightwards else list(ordered)
        self._near = layers.up if down else layers.down
        self._conflicts = conflicts
        self._extents = Extents(extents.right, extents.left) if rightwards else extents

    def middles(self) -> list[float]:
        """Return the x of every vertex."""
        root = self._aligned()
        x = self._packed(root)
        return [-x[r] for r in root] if self._mirrored else [x[r] for r in root]

    def _aligned(self) -> list[int]:
        """Return for every vertex the first one of its block."""
        place = [0] * len(self._layers.rank)
        for row in self._rows:
            for n, v in enumerate(row):
                place[v] = n
        root = list(range(len(place)))
        taken = [False] * len(place)  # whether the block goes on below
        for row in self._rows:
            last = -1
            for v in row:
                near = sorted(self._near[v], key=place.__getitem__)
                for u in near[(len(near) - 1) // 2 : len(near) // 2 + 1]:
                    if root[v] == v and not taken[u] and place[u] > last and self._free(u, v):
                        root[v] = root[u]
                        taken[u] = True
                        last = place[u]
        return root

    def _free(self, u: int, v: int) -> bool:
        pair = (u, v) if self._down else (v, u)
        return pair not in self._conflicts

    def _packed(self, root: Sequence[int]) -> list[float]:
        """Return the least x of every block, then moved to its neighbours on the far side."""
        after: list[list[tuple[int, float]]] = [[] for _ in root]
        waiting = [0] * len(root)
        for row in self._rows:
            for left, right in pairwise(row):
                gap = distance(self._layers, self._extents, left, right)
                after[root[left]].append((root[right], gap))
                waiting[root[right]] += 1
        x = [0.0] * len(root)
        order = [v for v, r in enumerate(root) if v == r and not waiting[v]]
        for v in order:  # grows on the way
            for w, gap in after[v]:
                x[w] = max(x[w], x[v] + gap)
                waiting[w] -= 1
                if not waiting[w]:
                    order.append(w)
        for v in reversed(order):
            room = min((x[w] - gap for w, gap in after[v]), default=x[v])
            x[v] = max(x[v], room)
        return x


def _balanced(answers: list[list[float]], layers: Layers, extents: Extents) -> list[float]:
    """Return the mean of the two middle answers, each shifted to the narrowest one."""
    count = range(len(layers.rank))
    spans = [
        (min(x[v] - extents.left[v] for v in count), max(x[v] + extents.right[v] for v in count))
        for x in answers
    ]
    narrow = min(spans, key=lambda s: s[1] - s[0])
    moved = []
    for n, (x, (low, high)) in enumerate(zip(answers, spans, strict=True)):
        by = narrow[1] - high if n % 2 == 0 else narrow[0] - low
        moved.append([value + by for value in x])
    middle = (sorted(values)[1:3] for values in zip(*moved, strict=True))
    return [(a + b) / 2 for a, b in middle]


def _draw_near(x: list[float], layers: Layers, extents: Extents) -> None:
    """Move chains, without bending them, to what they connect, as far as there is room."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for row in layers.rows:
        for a, b in pairwise(row):
            before[b], after[a] = a, b
    chains = sorted((c for c in layers.chains if c), key=len)
    for chain in chains * _NEARINGS:
        inside = set(chain)
        near = {w for v in chain for w in (*layers.up[v], *layers.down[v])} - inside
        ends = sorted(x[w] for w in near)
        low, high = ends[(len(ends) - 1) // 2], ends[len(ends) // 2]
        left = [
            x[u] + distance(layers, extents, u, v)
            for v in chain
            if (u := before.get(v)) is not None
        ]
        right = [
            x[u] - distance(layers, extents, v, u) for v in chain if (u := after.get(v)) is not None
        ]
        wanted = min(max(x[chain[0]], low), high)
        wanted = max([min([wanted, *right]), *left])
        if not right or wanted <= min(right):
            for v in chain:
                x[v] = wanted
