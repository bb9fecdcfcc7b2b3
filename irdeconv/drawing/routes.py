"""The points of links: vertical where boxes are beside them, S-shaped between two rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from irdeconv.drawing.layers import Layers
from irdeconv.drawing.ranks import Net
from irdeconv.drawing.scene import Point

LABEL_ROOM = 14  # below a box, where its values have labels
LABEL_GAP = 10  # between two labels of one box
ROW_GAP = 24
_STEEP = 10  # the gap between rows grows by one for so much that a link moves sideways
_MOST_GAP = 84
_LANE = 6  # between two links that run beside the drawing
_INSET = 12  # links do not touch a box nearer to its corner
_SPACING = 14  # between two links that enter a box


@dataclass(frozen=True, slots=True)
class Diagram:
    """What is laid out: the sizes of nodes, and nets with the widths of their labels (0: none).

    `top` and `bottom` are nodes that have to be in the first and in the last row.
    """

    widths: Sequence[int]
    heights: Sequence[int]
    nets: Sequence[Net]
    labels: Sequence[int]
    top: frozenset[int] = frozenset()
    bottom: frozenset[int] = frozenset()


class Routes:
    """Ends of the links on their boxes, heights of the rows, and the points in between."""

    def __init__(self, diagram: Diagram, layers: Layers, middle: Sequence[float]) -> None:
        self._diagram = diagram
        self._layers = layers
        self._x = [round(m) for m in middle]
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
        return [self._route(number, net, t, chain) for t in net.targets]

    def _route(
        self, number: int, net: Net, target: int, chain: list[int] | None
    ) -> tuple[Point, ...]:
        rank, start = self._layers.rank, self._starts[number]
        first, last = rank[net.source], rank[target]
        end = self._ends[number, target]
        foot = self.position(net.source)[1] + self._diagram.heights[net.source]
        points = [(start, foot), (start, self._bottoms[first])]
        if last - first > 1:
            xs = [self._right] * (last - first - 1)
            if chain is not None:
                xs = [self._x[v] for v in chain[: last - first - 1]]
            for row, x in zip(range(first + 1, last), xs, strict=True):
                points += [(x, self._tops[row]), (x, self._bottoms[row])]
        points += [(end, self._tops[last]), (end, self.position(target)[1])]
        return tuple(_without_middles(points))

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
        """Return the room below every row: more where links go far to the side."""
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
        """Return where a net is before it turns to a target."""
        net, chain = self._diagram.nets[number], self._layers.chains[number]
        passed = self._layers.rank[target] - self._layers.rank[net.source] - 1
        if passed and chain is None:
            return max(self._x)
        return self._x[chain[passed - 1]] if passed and chain else self._starts[number]

    def _outgoing(self) -> list[int]:
        """Return where each net leaves its box: in the middle, several beside one another."""
        starts = [self._x[net.source] for net in self._diagram.nets]
        of_node: dict[int, list[int]] = {}
        for number, net in enumerate(self._diagram.nets):
            of_node.setdefault(net.source, []).append(number)
        for node, numbers in of_node.items():
            if len(numbers) > 1:
                wanted = {n: self._first_x(n) for n in numbers}
                numbers.sort(key=wanted.__getitem__)
                widest = max(self._diagram.labels[n] for n in numbers)
                spacing = max(_SPACING, widest + LABEL_GAP)
                xs = self._spread(node, [wanted[n] for n in numbers], spacing)
                for n, x in zip(numbers, xs, strict=True):
                    starts[n] = x
        return starts

    def _first_x(self, number: int) -> int:
        """Return where a net goes first, on average."""
        chain, net = self._layers.chains[number], self._diagram.nets[number]
        next_row = self._layers.rank[net.source] + 1
        near = [self._x[t] for t in net.targets if self._layers.rank[t] == next_row]
        near += [self._x[v] for v in (chain or [])[:1]]
        return round(sum(near) / len(near)) if near else self._x[net.source]

    def _incoming(self) -> dict[tuple[int, int], int]:
        """Return where each net enters each of its targets: near to where it comes from."""
        entering: dict[int, list[int]] = {}
        for number, net in enumerate(self._diagram.nets):
            for target in net.targets:
                entering.setdefault(target, []).append(number)
        out = {}
        for node, numbers in entering.items():
            wanted = {n: self._above(n, node) for n in numbers}
            numbers.sort(key=wanted.__getitem__)
            xs = self._spread(node, [wanted[n] for n in numbers], _SPACING)
            out.update({(n, node): x for n, x in zip(numbers, xs, strict=True)})
        return out

    def _spread(self, node: int, wanted: Sequence[int], spacing: int) -> list[int]:
        """Return places on an edge of a box, in order, near to the wanted ones."""
        width, middle = self._diagram.widths[node], self._x[node]
        room = max(0, width // 2 - _INSET) if len(wanted) > 1 else width // 4
        step = min(spacing, 2 * room / max(1, len(wanted) - 1))
        out: list[float] = []
        for x in wanted:
            out.append(max(x, out[-1] + step if out else middle - room))
        high = float(middle + room)
        for n in range(len(out) - 1, -1, -1):
            out[n] = min(out[n], high)
            high = out[n] - step
        return [round(x) for x in out]


def _without_middles(points: Sequence[Point]) -> list[Point]:
    """Leave out what is in the middle of a vertical line, but for the first and last two points.

    The points beside those stay as well: an opened group may move the ends away from the line.
    """
    out = list(points[:3])
    for n in range(3, len(points) - 3):
        if not points[n - 1][0] == points[n][0] == points[n + 1][0]:
            out.append(points[n])
    return out + list(points[max(3, len(points) - 3) :])
