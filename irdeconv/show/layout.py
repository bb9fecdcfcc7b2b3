"""The layout of a graph in rows from top to bottom.

Coordinates follow Brandes and Koepf, "Fast and simple horizontal coordinate assignment" (2001),
with boxes of different widths. Each vertex is aligned with a middle neighbour of the row before;
blocks of aligned vertices get one coordinate. Four such answers, from above and below, packed to
the left and to the right, are averaged. The points of a long link are one block, so it is straight.

Existing Python packages are GPL and slow (46 s for 5,000 layers), or place points instead of boxes
(5 s). This takes less than 1 s.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from irdeconv.show.groups import connected
from irdeconv.show.ranks import Layers, Net, layered, order_rows, rank_nodes, topological_order

Point = tuple[int, int]

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
    sides = [{"down": d, "rightwards": r} for d in (True, False) for r in (True, False)]
    answers = [_Alignment(layers, rows, extents, conflicts, **s).middles() for s in sides]
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
                    free = ((u, v) if self._down else (v, u)) not in self._conflicts
                    if root[v] == v and not taken[u] and place[u] > last and free:
                        root[v] = root[u]
                        taken[u] = True
                        last = place[u]
        return root

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
    """Move chains, without bending them, to their neighbours, as far as there is room."""
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
        to_left = ((before[v], v) for v in chain if v in before)
        left = [x[u] + distance(layers, extents, u, v) for u, v in to_left]
        to_right = ((v, after[v]) for v in chain if v in after)
        right = [x[u] - distance(layers, extents, v, u) for v, u in to_right]
        wanted = min(max(x[chain[0]], low), high)
        wanted = max([min([wanted, *right]), *left])
        if not right or wanted <= min(right):
            for v in chain:
                x[v] = wanted


LABEL_ROOM = 14  # below a box whose values have labels
LABEL_GAP = 10  # between two labels of one box
ROW_GAP = 24
_STEEP = 10  # the gap between rows grows by one for so much that a link moves sideways
_MOST_GAP = 84
_LANE = 6  # between two links that run beside the drawing
_INSET = 12  # links do not touch a box nearer to its corner
_SPACING = 14  # between two links that enter a box


@dataclass(frozen=True, slots=True)
class Diagram:
    """A layout's input: nodes' sizes, nets, labels' widths, nodes in `top` and `bottom` row."""

    widths: tuple[int, ...]
    heights: tuple[int, ...]
    nets: tuple[Net, ...]
    labels: tuple[int, ...]
    top: frozenset[int] = frozenset()
    bottom: frozenset[int] = frozenset()


class Routes:
    """Ends of the links on their boxes, heights of the rows, and the points in between."""

    def __init__(self, diagram: Diagram, layers: Layers, middle: Sequence[float]) -> None:
        self._diagram = diagram
        self._layers = layers
        self._x = [round(m) for m in middle]
        self._last = max(self._x, default=0)
        self._starts = self._outgoing()
        self._ends = self._incoming()
        self.height = self._rows()
        self._right = max(
            (self._x[v] + w // 2 + 1 for v, w in enumerate(diagram.widths)), default=0
        )
        self._right = max([self._right, *self._x])

    def position(self, node: int) -> Point:
        """Return the upper left corner of a node."""
        row = self._layers.rank[node]
        spare = self._tallest[row] - self._diagram.heights[node]
        left = self._x[node] - self._diagram.widths[node] // 2
        return left, self._tops[row] + spare // 2

    def of(self, number: int) -> list[tuple[Point, ...]]:
        """Return the points of a net to each of its targets."""
        net = self._diagram.nets[number]
        chain = self._layers.chains[number]
        if chain is None:
            self._right += _LANE
        rows = len(self._layers.rows)
        xs = [self._right] * rows if chain is None else [self._x[v] for v in chain]
        bends = [] if chain is None else [n for n, (a, b) in enumerate(pairwise(xs)) if a != b]
        return [self._route(number, net, t, xs, bends) for t in net.targets]

    def _route(
        self, number: int, net: Net, target: int, xs: Sequence[int], bends: Sequence[int]
    ) -> tuple[Point, ...]:
        """Return the points to one target; in the rows between, only the turns of the line.

        Its ends there stay as well: an opened group may move the boxes away from the line.
        """
        first, last = self._layers.rank[net.source], self._layers.rank[target]
        start, end = self._starts[number], self._ends[number, target]
        foot = self.position(net.source)[1] + self._diagram.heights[net.source]
        points = [(start, foot), (start, self._bottoms[first])]
        passed = last - first - 1
        if passed:
            points.append((xs[0], self._tops[first + 1]))
            for n in bends[: bisect_left(bends, passed - 1)]:
                row = first + 1 + n
                points += [(xs[n], self._bottoms[row]), (xs[n + 1], self._tops[row + 1])]
            points.append((xs[passed - 1], self._bottoms[last - 1]))
        points += [(end, self._tops[last]), (end, self.position(target)[1])]
        return tuple(points)

    def _rows(self) -> int:
        """Find top and bottom of every row of boxes with their labels; return the whole height."""
        layers, diagram = self._layers, self._diagram
        count = len(layers.rows)
        self._tallest = [0] * count
        labelled = [0] * count
        for v, height in enumerate(diagram.heights):
            self._tallest[layers.rank[v]] = max(self._tallest[layers.rank[v]], height)
        for net, label in zip(diagram.nets, diagram.labels, strict=True):
            if label:
                labelled[layers.rank[net.source]] = LABEL_ROOM
        gaps = self._gaps()
        self._tops, self._bottoms, y = [], [], 0
        for row in range(count):
            self._tops.append(y)
            self._bottoms.append(y + self._tallest[row] + labelled[row])
            y = self._bottoms[-1] + gaps[row]
        return self._bottoms[-1] if count else 0

    def _gaps(self) -> list[int]:
        """Return the room below every row: more if links go far to the side."""
        sideways = [0] * len(self._layers.rows)
        for number, net in enumerate(self._diagram.nets):
            chain = self._layers.chains[number] or []
            first = self._layers.rank[net.source]
            xs = [self._starts[number], *(self._x[v] for v in chain)]
            for n, (a, b) in enumerate(pairwise(xs)):
                sideways[first + n] = max(sideways[first + n], abs(a - b))
            for target in net.targets:
                above = self._layers.rank[target] - 1
                far = abs(self._ends[number, target] - self._above(number, target))
                sideways[above] = max(sideways[above], far)
        return [min(ROW_GAP + far // _STEEP, _MOST_GAP) for far in sideways]

    def _above(self, number: int, target: int) -> int:
        """Return the x of a net before it turns to a target."""
        net, chain = self._diagram.nets[number], self._layers.chains[number]
        passed = self._layers.rank[target] - self._layers.rank[net.source] - 1
        if passed and chain is None:
            return self._last
        return self._x[chain[passed - 1]] if passed and chain else self._starts[number]

    def _outgoing(self) -> list[int]:
        """Return the x at which each net leaves its box: in the middle, several side by side."""
        starts = [self._x[net.source] for net in self._diagram.nets]
        of_node: dict[int, list[int]] = {}
        for number, net in enumerate(self._diagram.nets):
            of_node.setdefault(net.source, []).append(number)
        for node, numbers in of_node.items():
            if len(numbers) > 1:
                widest = max(self._diagram.labels[n] for n in numbers)
                wanted = {n: self._first_x(n) for n in numbers}
                spread = self._spread(node, wanted, max(_SPACING, widest + LABEL_GAP))
                for n, x in spread.items():
                    starts[n] = x
        return starts

    def _first_x(self, number: int) -> int:
        """Return the average x of a net in the first row that it reaches."""
        chain, net = self._layers.chains[number], self._diagram.nets[number]
        next_row = self._layers.rank[net.source] + 1
        near = [self._x[t] for t in net.targets if self._layers.rank[t] == next_row]
        near += [self._x[v] for v in (chain or [])[:1]]
        return round(sum(near) / len(near)) if near else self._x[net.source]

    def _incoming(self) -> dict[tuple[int, int], int]:
        """Return the x at which each net enters each of its targets: near to its x above."""
        entering: dict[int, list[int]] = {}
        for number, net in enumerate(self._diagram.nets):
            for target in net.targets:
                entering.setdefault(target, []).append(number)
        out = {}
        for node, numbers in entering.items():
            wanted = {n: self._above(n, node) for n in numbers}
            spread = self._spread(node, wanted, _SPACING)
            out.update({(n, node): x for n, x in spread.items()})
        return out

    def _spread(self, node: int, wanted: Mapping[int, int], spacing: int) -> dict[int, int]:
        """Return places of nets on an edge of a box, in order, near to the wanted ones."""
        width, middle = self._diagram.widths[node], self._x[node]
        room = max(0, width // 2 - _INSET) if len(wanted) > 1 else width // 4
        step = min(spacing, 2 * room / max(1, len(wanted) - 1))
        out: list[float] = []
        numbers = sorted(wanted, key=wanted.__getitem__)
        for n in numbers:
            out.append(max(wanted[n], out[-1] + step if out else middle - room))
        high = float(middle + room)
        for n in range(len(out) - 1, -1, -1):
            out[n] = min(out[n], high)
            high = out[n] - step
        return {n: round(x) for n, x in zip(numbers, out, strict=True)}


_APART = 48  # between parts of a graph that nothing connects
_WIDER = 1.5  # such parts fill a rectangle that is by so much wider than high


@dataclass(frozen=True, slots=True)
class Layout:
    """Corners of the nodes; for each net the points of its links, one link for each target."""

    width: int
    height: int
    corners: list[Point]
    routes: list[list[tuple[Point, ...]]]


def lay_out(diagram: Diagram) -> Layout:
    """Place nodes and links, separate parts side by side, always alike: 0.1 s for 1,000 nodes."""
    parts = [] if diagram.top or diagram.bottom else _parts(diagram)
    return _packed(diagram, parts) if len(parts) > 1 else _connected(diagram)


@lru_cache(maxsize=512)  # blocks of a network repeat
def _connected(diagram: Diagram) -> Layout:
    """Lay out one part. Nets that lead backwards on a cycle are laid out the other way round."""
    forward, origin = _forward(diagram)
    order = topological_order(len(forward.widths), forward.nets)
    rank = rank_nodes(order, forward.nets, forward.top, forward.bottom)
    layers = layered(rank, forward.nets)
    order_rows(layers)
    routes = Routes(forward, layers, middles(layers, _extents(forward, layers)))
    links: list[dict[int, tuple[Point, ...]]] = [{} for _ in diagram.nets]
    for number, (n, turned) in enumerate(origin):
        net = forward.nets[number]
        for target, points in zip(net.targets, routes.of(number), strict=True):
            links[n][net.source if turned else target] = points[::-1] if turned else points
    corners = [routes.position(v) for v in range(len(diagram.widths))]
    found = [[links[n][t] for t in net.targets] for n, net in enumerate(diagram.nets)]
    return _at_origin(diagram, corners, found)


def _forward(diagram: Diagram) -> tuple[Diagram, list[tuple[int, bool]]]:
    """Return the diagram with all nets leading forward, and the origin of each net."""
    place = [0] * len(diagram.widths)
    for n, v in enumerate(topological_order(len(place), diagram.nets)):
        place[v] = n
    nets, labels, origin = [], [], []
    for n, net in enumerate(diagram.nets):
        ahead = tuple(t for t in net.targets if place[t] > place[net.source])
        back = [t for t in net.targets if place[t] < place[net.source]]
        pieces = [Net(net.source, ahead)] * bool(ahead) + [Net(t, (net.source,)) for t in back]
        for piece in pieces:
            nets.append(piece)
            labels.append(diagram.labels[n] if piece.source == net.source else 0)
            origin.append((n, piece.source != net.source))
    return replace(diagram, nets=tuple(nets), labels=tuple(labels)), origin


def _extents(diagram: Diagram, layers: Layers) -> Extents:
    """Return the room that boxes need; labels stand to the right of their links."""
    left = [w / 2 for w in diagram.widths]
    right = list(left)
    values = [0] * len(left)
    for net in diagram.nets:
        values[net.source] += 1
    for net, label in zip(diagram.nets, diagram.labels, strict=True):
        v = net.source
        start = 0 if values[v] == 1 else diagram.widths[v] / 2
        right[v] = max(right[v], start + label + LABEL_GAP / 2)
    passing = [0.0] * (len(layers.rank) - layers.nodes)
    return Extents(left + passing, right + passing)


def _at_origin(
    diagram: Diagram, corners: list[Point], routes: list[list[tuple[Point, ...]]]
) -> Layout:
    """Return the layout moved to (0, 0), with its size; labels of links are inside."""
    boxes = list(zip(corners, diagram.widths, diagram.heights, strict=True))
    points = [p for links in routes for link in links for p in link]
    left = min((x for x, _ in [*corners, *points]), default=0)
    top = min((y for _, y in [*corners, *points]), default=0)
    labelled = zip(routes, diagram.labels, strict=True)
    rights = [links[0][0][0] + label + LABEL_GAP for links, label in labelled if links and label]
    rights += [x + w for (x, _), w, _ in boxes] + [x for x, _ in points]
    bottoms = [y + h for (_, y), _, h in boxes] + [y for _, y in points]
    width, height = max(rights, default=0) - left, max(bottoms, default=0) - top
    return _moved(Layout(width, height, corners, routes), -left, -top)


def _moved(layout: Layout, right: int, down: int) -> Layout:
    def moved(points: Sequence[Point]) -> list[Point]:
        return [(x + right, y + down) for x, y in points]

    routes = [[tuple(moved(link)) for link in links] for links in layout.routes]
    return Layout(layout.width, layout.height, moved(layout.corners), routes)


def _parts(diagram: Diagram) -> list[list[int]]:
    """Return the nodes of each part that nothing connects with others, in order of the nodes."""
    links = ((net.source, target) for net in diagram.nets for target in net.targets)
    parts: dict[int, list[int]] = {}
    for v, first in connected(range(len(diagram.widths)), links).items():
        parts.setdefault(first, []).append(v)
    return list(parts.values())


def _packed(diagram: Diagram, parts: Sequence[list[int]]) -> Layout:
    """Lay out every part and place them in lines, like words."""
    home = {v: n for n, nodes in enumerate(parts) for v in nodes}
    numbers: list[list[int]] = [[] for _ in parts]
    for n, net in enumerate(diagram.nets):
        numbers[home[net.source]].append(n)
    found = [_part(diagram, v, n) for v, n in zip(parts, numbers, strict=True)]
    area = sum((p.width + _APART) * (p.height + _APART) for p in found)
    room = max(max(p.width for p in found), round(math.sqrt(area) * _WIDER))
    corners: list[Point] = [(0, 0)] * len(diagram.widths)
    routes: list[list[tuple[Point, ...]]] = [[] for _ in diagram.nets]
    x = y = line = width = 0
    for nodes, nets, part in zip(parts, numbers, found, strict=True):
        if x and x + part.width > room:
            x, y, line = 0, y + line + _APART, 0
        placed = _moved(part, x, y)
        for v, corner in zip(nodes, placed.corners, strict=True):
            corners[v] = corner
        for n, links in zip(nets, placed.routes, strict=True):
            routes[n] = links
        x, line = x + part.width + _APART, max(line, part.height)
        width = max(width, x - _APART)
    return Layout(width, y + line, corners, routes)


def _part(diagram: Diagram, nodes: Sequence[int], numbers: Sequence[int]) -> Layout:
    """Lay out the given nodes and nets alone."""
    local = {v: n for n, v in enumerate(nodes)}
    nets = [diagram.nets[n] for n in numbers]
    part = Diagram(
        widths=tuple(diagram.widths[v] for v in nodes),
        heights=tuple(diagram.heights[v] for v in nodes),
        nets=tuple(Net(local[k.source], tuple(local[t] for t in k.targets)) for k in nets),
        labels=tuple(diagram.labels[n] for n in numbers),
    )
    return _connected(part)
