"""The layout of any graph: nothing overlaps, no link passes through a box, few links cross."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irdeconv.show.layout import Extents, distance, middles
from irdeconv.show.ranks import Net, crossings, layered, order_rows, rank_nodes, topological_order
from irdeconv.show.scene import Scene, TextLine
from irdeconv.show.scenes import LayerBox, Wire, scene_of
from support.scenes import problems

Arrow = tuple[int, int]


def scene(
    count: int, arrows: list[Arrow], label: str = "", lines: int = 1, outputs: int = 1
) -> Scene:
    boxes = [
        LayerBox(
            lines=tuple(TextLine("x" * (3 + 7 * n % 20), "name") for _ in range(1 + n % lines)),
            name=str(n),
            node=n,
        )
        for n in range(count)
    ]
    wires = [Wire(a, b, (a + b) % outputs, label, a) for a, b in arrows]
    return scene_of(boxes, wires)


def centres(found: Scene) -> list[tuple[int, int]]:
    return [(b.x + b.width // 2, b.y + b.height // 2) for b in found.boxes]


def drawn_length(found: Scene) -> int:
    steps = (pair for link in found.links for pair in pairwise(link.points))
    return sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in steps)


def test_a_chain_is_one_straight_line() -> None:
    found = scene(4, [(0, 1), (1, 2), (2, 3)], "f32[1,3]")
    assert len({x for x, _ in centres(found)}) == 1
    assert [link.points[0][0] for link in found.links] == [centres(found)[0][0]] * 3
    # 28 high boxes (one line of 16, twice 6), 14 for a label, 24 between the rows.
    assert [b.y for b in found.boxes] == [16, 82, 148, 214]


def test_a_skip_connection_runs_beside_the_boxes() -> None:
    found = scene(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    assert problems(found) == []
    skip = next(k for k in found.links if (k.source, k.target) == (0, 4))
    # Two ends with a vertical piece each, and one line past three rows.
    assert len(skip.points) == 6
    assert skip.points[2][0] == skip.points[3][0]


def test_a_short_way_beside_a_chain() -> None:
    straight = drawn_length(scene(4, [(0, 1), (1, 2), (2, 3)]))
    # Three rows further down: 28 high boxes 24 apart, so each link is 24 long.
    assert straight == 3 * 24
    both = scene(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    skip = next(k for k in both.links if (k.source, k.target) == (0, 3))
    sideways = sum(abs(a[0] - b[0]) for a, b in pairwise(skip.points))
    # There and back: past the wider of two boxes, with half the gaps of a box and of a link.
    assert sideways <= 2 * (max(b.width for b in both.boxes[1:3]) + 21)


def test_branches_do_not_cross_where_they_need_not() -> None:
    # Two branches whose layers come in turns: 0 -> 1, 2; 1 -> 3, 2 -> 4; 3, 4 -> 5.
    found = scene(6, [(0, 2), (0, 1), (1, 4), (2, 3), (3, 5), (4, 5)])
    middle = centres(found)
    assert (middle[1][0] - middle[2][0]) * (middle[4][0] - middle[3][0]) > 0
    assert middle[0][0] == middle[5][0]


def test_links_of_a_value_share_their_way() -> None:
    found = scene(30, [(n, n + 1) for n in range(29)] + [(0, n) for n in range(2, 30)])
    assert problems(found) == []
    trunk = {x for k in found.links if k.source == 0 for x, _ in k.points[2:-2]}
    assert len(trunk) == 1


def test_parts_stand_beside_one_another() -> None:
    found = scene(40, [(2 * n, 2 * n + 1) for n in range(20)])
    assert problems(found) == []
    assert found.width < 4 * found.height
    assert found.height < 4 * found.width


def test_a_cycle_does_not_hang() -> None:
    found = scene(4, [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)])
    assert problems(found) == []
    assert {(k.source, k.target) for k in found.links} == {(0, 1), (1, 2), (2, 1), (2, 3)}


def test_very_long_links_get_lanes() -> None:
    count = 300  # each layer is read by the last one: 45,000 points are too many
    arrows = [(n, n + 1) for n in range(count - 1)] + [(n, count - 1) for n in range(count - 2)]
    assert problems(scene(count, arrows)) == []


def test_nothing_and_one() -> None:
    assert scene(0, []).boxes == ()
    assert problems(scene(1, [])) == []


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Arrow]]:
    count = draw(st.integers(2, 24))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    return count, draw(st.lists(pairs, max_size=40))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.booleans(), st.sampled_from([1, 2, 3, 9]))
def test_any_graph_is_laid_out_well(
    graph: tuple[int, list[Arrow]], acyclic: bool, outputs: int
) -> None:
    count, arrows = graph
    if acyclic:
        arrows = [(min(pair), max(pair)) for pair in arrows]
    label = "f32[1,8]" if acyclic else ""
    found = scene(count, arrows, label, lines=3, outputs=outputs)
    assert problems(found) == []
    wanted = {(a, b) for a, b in arrows if a != b}
    assert {(k.source, k.target) for k in found.links} == wanted
    if acyclic:
        ys = [b.y for b in found.boxes]
        assert all(ys[k.source] < ys[k.target] for k in found.links)


def brute(layers_above: list[int], layers_below: list[int], links: list[Arrow]) -> int:
    """Count pairs of links that cross, one by one."""
    a = {v: n for n, v in enumerate(layers_above)}
    b = {v: n for n, v in enumerate(layers_below)}
    return sum(
        (a[u] - a[x]) * (b[v] - b[y]) < 0 for n, (u, v) in enumerate(links) for x, y in links[:n]
    )


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_rows_and_their_order(graph: tuple[int, list[Arrow]]) -> None:
    count, arrows = graph
    targets: dict[int, set[int]] = {}
    for a, b in arrows:
        if a != b:
            targets.setdefault(min(a, b), set()).add(max(a, b))
    nets = [Net(a, tuple(sorted(bs))) for a, bs in sorted(targets.items())]
    order = topological_order(count, nets)
    rank = rank_nodes(order, nets, (), ())
    assert all(rank[net.source] < rank[t] for net in nets for t in net.targets)
    assert sorted(set(rank)) == list(range(max(rank) + 1))
    layers = layered(rank, nets)
    start = [list(row) for row in layers.rows]
    order_rows(layers)
    counted = sum(
        brute(above, below, [(u, v) for u in above for v in layers.down[u]])
        for above, below in pairwise(layers.rows)
    )
    assert counted == crossings(layers, layers.rows) <= crossings(layers, start)
    wide = Extents([20.0] * len(layers.rank), [30.0] * len(layers.rank))
    x = middles(layers, wide)
    for row in layers.rows:
        for a, b in pairwise(row):
            assert x[b] - x[a] >= distance(layers, wide, a, b) - 1e-6


SCRIPT = """
from tests.test_drawing_layout import scene
arrows = [(n, n + d) for n in range(60) for d in (1, 2, 7, 23) if (n * d) % 5 != 2 and n + d < 60]
print(scene(60, arrows))
"""


@pytest.mark.thorough
def test_the_same_graph_has_the_same_drawing_in_every_run() -> None:
    root = Path(__file__).resolve().parent.parent
    seen = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(root), str(root / "tests")])
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, cwd=root, capture_output=True, check=True
        )
        seen.add(run.stdout)
    assert len(seen) == 1
