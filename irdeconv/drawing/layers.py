"""Rows with what passes through them: a long link becomes a chain of points, one in each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from irdeconv.drawing.ranks import Net

MOST_PASSING = 20_000  # points, or four for each node; the longest nets of all get lanes beside


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
    out = Layers(
        nodes=len(rank),
        rank=list(rank),
        rows=[[] for _ in range(max(rank, default=-1) + 1)],
        up=[[] for _ in rank],
        down=[[] for _ in rank],
    )
    for v, row in enumerate(rank):
        out.rows[row].append(v)
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
    room = max(MOST_PASSING, 4 * len(rank))
    total = sum(spans)
    out = set()
    for n in sorted(range(len(nets)), key=lambda n: -spans[n]):
        if total <= room:
            break
        total -= spans[n]
        out.add(n)
    return out
