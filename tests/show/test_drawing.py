"""Drawings of graphs: groups, places, the SVG and its texts."""

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

import irdeconv as ird
from colours import contrast
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.channels import Split
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from irdeconv.show import scene as composition
from irdeconv.show.drawn import LARGEST_FLAT
from irdeconv.show.groups import LayerGroup, on_cycles, scopes
from irdeconv.show.layout import LABEL_ROOM, Extents, Point, distance, middles
from irdeconv.show.ranks import Net, crossings, layered, order_rows, rank_nodes, topological_order
from irdeconv.show.scene import (
    PREFIX,
    Box,
    GraphDrawing,
    LayerBox,
    Link,
    Scene,
    TextLine,
    Wire,
    draw,
    style,
    tree,
)
from irdeconv.show.text import measure, name_lines, one_line, shown, type_lines
from large_graphs import chain
from support.layers import begun, constant, result
from support.rows import each_row

# What must hold for any scene, whoever laid it out.

STEPS = 12  # in which an S is cut for a look at what it passes through


def problems(scene: Scene) -> list[str]:
    """Return everything that is wrong with the geometry of a scene."""
    out = [f"{b.title} is outside" for b in scene.boxes if not _inside(b, scene)]
    out += [
        f"{a.title} overlaps {b.title}"
        for a, b in combinations(scene.boxes, 2)
        if _overlap(a, b) and "port" not in (a.kind, b.kind)
    ]
    for link in scene.links:
        out += _link_problems(link, scene)
    labels = [_label(link) for link in scene.links if link.label]
    out += [f"{label.title} is outside" for label in labels if not _inside(label, scene)]
    out += [f"{a.title} overlaps {b.title}" for a, b in combinations(labels, 2) if _overlap(a, b)]
    out += [
        f"{label.title} covers {box.title}"
        for label in labels
        for box in scene.boxes
        if _overlap(label, box)
    ]
    return out


def _label(link: Link) -> Box:
    """Return the place of a link's label: behind its beginning."""
    (x, y), width = link.points[0], composition.label_width(link.label)
    title = f"label of {link.source} -> {link.target}"
    return Box(x + 4, y + 2, width, LABEL_ROOM - 3, (), "layer", title=title)


def _inside(box: Box, scene: Scene) -> bool:
    return (
        0 <= box.x <= box.x + box.width <= scene.width
        and 0 <= box.y <= box.y + box.height <= scene.height
    )


def _overlap(a: Box, b: Box) -> bool:
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


def _link_problems(link: Link, scene: Scene) -> Iterator[str]:
    source, target = scene.boxes[link.source], scene.boxes[link.target]
    name = f"link {link.source} -> {link.target}"
    (x0, y0), (x1, y1) = link.points[0], link.points[-1]
    if y0 not in (source.y, source.y + source.height) or not _beside(x0, source):
        yield f"{name} does not begin at its box"
    if y1 not in (target.y, target.y + target.height) or not _beside(x1, target):
        yield f"{name} does not end at its box"
    if len(link.points) < 4 or link.points[0][0] != link.points[1][0]:
        yield f"{name} does not leave its box vertically"
    if link.points[-2][0] != link.points[-1][0]:
        yield f"{name} does not enter its box vertically"
    for a, b in pairwise(link.points):
        hit = [n for n, box in enumerate(scene.boxes) if _hits(a, b, box)]
        if hit:
            yield f"{name} passes through {hit}"


def _beside(x: int, box: Box) -> bool:
    return box.x <= x <= box.x + box.width


def _hits(a: Point, b: Point, box: Box) -> bool:
    """Whether a step of a link is inside of a box."""
    if max(a[1], b[1]) <= box.y or min(a[1], b[1]) >= box.y + box.height:
        return False
    if max(a[0], b[0]) <= box.x or min(a[0], b[0]) >= box.x + box.width:
        return False
    if a[0] == b[0]:
        return True
    points = (_on_s(a, b, n / STEPS) for n in range(STEPS + 1))
    return any(box.x < x < box.x + box.width and box.y < y < box.y + box.height for x, y in points)


def _on_s(a: Point, b: Point, t: float) -> tuple[float, float]:
    """Return a point of the curve whose control points are above and below its ends."""
    middle = (a[1] + b[1]) / 2
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    xs, ys = (a[0], a[0], b[0], b[0]), (a[1], middle, middle, b[1])
    return (
        sum(w * x for w, x in zip(weights, xs, strict=True)),
        sum(w * y for w, y in zip(weights, ys, strict=True)),
    )


# Groups: what belongs together by name or by repetition, and scenes in which nothing is lost.

Arrow = tuple[int, int]


def box(number: int, name: str, type: str = "Add") -> LayerBox:
    kind = "input" if type == "Parameter" else "layer"
    return LayerBox((TextLine(type, "type"),), name, number, kind, type=type, signature=type)


def drawing(layers: list[tuple[str, str]], arrows: list[Arrow]) -> GraphDrawing:
    boxes = [box(n, name, type) for n, (name, type) in enumerate(layers)]
    return draw(boxes, [Wire(a, b, 0, "f32[2]", a) for a, b in arrows], "net")


def encoder(blocks: int, *, named: bool = True) -> GraphDrawing:
    """A chain of blocks of 5 layers: a branch, a sum, and a mask that all blocks read."""
    layers, arrows = [("x", "Parameter"), ("mask", "Parameter")], []
    last = 0
    for b in range(blocks):
        first = len(layers)
        names = ("query/MatMul", "key/MatMul", "Add", "Softmax", "out/Add")
        for n, (name, type) in enumerate(
            zip(names, "MatMul MatMul Add Softmax Add".split(), strict=True)
        ):
            layers.append((f"encoder/layer.{b}/{name}" if named else f"n{5 * b + n}", type))
        arrows += [(last, first), (last, first + 1), (first, first + 2), (first + 1, first + 2)]
        arrows += [
            (1, first + 3),
            (first + 2, first + 3),
            (first + 3, first + 4),
            (last, first + 4),
        ]
        last = first + 4
    return drawing(layers, arrows)


def layers_of(drawn: GraphDrawing) -> list[int]:
    """The layers in the scenes of groups."""
    scenes = drawn.scenes[: drawn.flat]
    return sorted(
        b.node for s in scenes for b in s.boxes if b.node is not None and b.kind != "port"
    )


def check(drawn: GraphDrawing) -> None:
    """Every layer is in one scene, every group has one; scenes and their ports fit together."""
    flat = drawn.scenes[drawn.flat]
    if drawn.flat:
        assert layers_of(drawn) == sorted(b.node for b in flat.boxes if b.node is not None)
    inner = Counter(b.scene for s in drawn.scenes for b in s.boxes if b.scene)
    assert inner == Counter(range(1, drawn.flat))
    for scene in drawn.scenes:
        assert problems(scene) == []
        for link in scene.links:
            for end, port in ((link.source, link.source_port), (link.target, link.target_port)):
                group = scene.boxes[end].scene
                assert (port >= 0) == (group > 0)
                if group:
                    gate = drawn.scenes[group].boxes[port]
                    assert (gate.kind, gate.node) == ("port", link.node)
    assert reached(drawn) == {
        (flat.boxes[k.source].node, flat.boxes[k.target].node) for k in flat.links
    }


def reached(drawn: GraphDrawing) -> set[tuple[int | None, int | None]]:
    """The layers and their readers, by the links through the ports of groups."""
    out = set()
    for number, scene in enumerate(drawn.scenes[: drawn.flat] or drawn.scenes):
        for link in scene.links:
            if scene.boxes[link.target].kind == "port":
                continue
            for reader in readers(drawn, number, link.target, link.target_port):
                out.add((link.node, reader))
    return out


def readers(drawn: GraphDrawing, scene: int, at: int, port: int) -> set[int | None]:
    """The layers that a link into a box leads to."""
    here = drawn.scenes[scene].boxes[at]
    if not here.scene:
        return {here.node}
    inside = drawn.scenes[here.scene].links
    found = [
        readers(drawn, here.scene, k.target, k.target_port) for k in inside if k.source == port
    ]
    return set().union(*found)


def test_a_small_graph_has_no_groups() -> None:
    drawn = drawing([(f"a/b/n{n}", "Add") for n in range(20)], list(pairwise(range(20))))
    assert (len(drawn.scenes), drawn.flat) == (1, 0)


def test_blocks_of_a_scope_are_one_group() -> None:
    drawn = encoder(12)
    check(drawn)
    whole = drawn.scenes[0]
    assert [b.kind for b in whole.boxes if b.kind != "port"].count("repeat") == 1
    group = next(b for b in whole.boxes if b.kind == "repeat")
    assert [t.text for t in group.lines][:2] == [
        "12 \u00d7 encoder/layer",
        "60 layers in 12 equal blocks",
    ]
    titles = [b.title for b in drawn.scenes[group.scene].boxes if b.kind == "group"]
    assert sorted(titles) == sorted(f"encoder/layer.{n}" for n in range(12))


def test_blocks_without_names_are_found_by_what_they_are() -> None:
    drawn = encoder(12, named=False)
    check(drawn)
    group = next(b for b in drawn.scenes[0].boxes if b.kind == "repeat")
    assert group.lines[0].text == "12 \u00d7 MatMul ... Add"
    blocks = [b for b in drawn.scenes[group.scene].boxes if b.kind == "group"]
    assert len(blocks) == 12
    assert all(b.lines[1].text == "5 layers" for b in blocks)


def test_a_scope_that_links_leave_and_come_back_to_is_no_group() -> None:
    # Layers of the scopes a and b in turns: each would be above and below the other.
    layers = [(f"{'ab'[n % 2]}/n{n}", f"T{n}") for n in range(60)]
    drawn = drawing(layers, list(pairwise(range(60))))
    assert drawn.flat == 0


def test_names_by_type_make_no_groups() -> None:
    layers = [(f"net.{type}.{n}", type) for n in range(30) for type in (f"A{n}", "Add")]
    drawn = drawing(layers, list(pairwise(range(60))))
    assert not any("Add" in s.title for s in drawn.scenes[1:])


def test_layers_without_a_scope_join_their_neighbours() -> None:
    names = {n: f"block{n // 5}/l{n}" for n in range(100)} | {52: "fused_9"}
    root = scopes(names, list(pairwise(range(100))))
    block = next(g for g in root.groups() if g.title == "block10")
    assert sorted(block.layers()) == [50, 51, 52, 53, 54]


@pytest.mark.parametrize(
    ("arrows", "found"),
    [([(0, 1), (1, 2)], set()), ([(0, 1), (1, 2), (2, 1), (2, 3)], {1, 2}), ([(1, 1)], {1})],
)
def test_nodes_on_cycles(arrows: list[Arrow], found: set[int]) -> None:
    assert on_cycles(4, arrows) == found


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[Arrow]]:
    """Layers with scopes at random, most of them near to one another."""
    count = draw(st.integers(40, 90))
    scope = st.lists(st.sampled_from("abc"), max_size=3).map("/".join)
    scopes_ = draw(st.lists(scope, min_size=12, max_size=12))
    layers = [
        (f"{scopes_[n * 12 // count]}/n{n}", "AddMulReLU"[n % 4 : n % 4 + 3]) for n in range(count)
    ]
    back = st.tuples(st.integers(1, count - 1), st.integers(1, 9))
    arrows = [(max(0, b - d), b) for b, d in draw(st.lists(back, max_size=120))]
    return layers, sorted({*arrows, *pairwise(range(0, count, 2))})


@settings(max_examples=25, deadline=None)
@given(networks())
def test_nothing_is_lost_in_groups(network: tuple[list[tuple[str, str]], list[Arrow]]) -> None:
    check(drawing(*network))


def test_the_json_form_has_columns_of_one_length() -> None:
    drawn = encoder(12)
    form = json.loads(json.dumps(drawn.to_dict()))
    assert form["flat"] == drawn.flat == len(form["scenes"]) - 1
    for scene, columns in zip(drawn.scenes, form["scenes"], strict=True):
        assert {len(c) for c in columns["boxes"].values()} == {len(scene.boxes)}
        assert {len(c) for c in columns["links"].values()} == {len(scene.links)}
        assert [form["kinds"][k] for k in columns["boxes"]["kind"]] == [b.kind for b in scene.boxes]
        points = [v for p in scene.links[0].points for v in p]
        assert columns["links"]["points"][0] == points


def test_a_group_knows_its_layers() -> None:
    inner = LayerGroup("i", [3, LayerGroup("j", [1])])
    assert LayerGroup("", [0, inner, 2]).layers() == [0, 3, 1, 2]


# The layout of any graph: nothing overlaps, no link passes through a box, few links cross.


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
    return composition.scene_of(boxes, wires)


def test_many_values_with_the_same_many_readers_meet_in_one_point() -> None:
    found = scene(80, [(a, b) for a in range(40) for b in range(40, 80)], "f32[1]")
    assert [b.kind for b in found.boxes[80:]] == ["port"]
    assert {(k.source, k.target) for k in found.links} == {
        *((n, 80) for n in range(40)),
        *((80, n) for n in range(40, 80)),
    }
    assert [k.label for k in found.links] == ["f32[1]"] * 40 + [""] * 40
    assert problems(found) == []


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
    middle = centres(scene(6, [(0, 2), (0, 1), (1, 4), (2, 3), (3, 5), (4, 5)]))
    assert (middle[1][0] - middle[2][0]) * (middle[4][0] - middle[3][0]) > 0
    assert middle[0][0] == middle[5][0]


def test_links_of_a_value_share_their_way() -> None:
    found = scene(30, [(n, n + 1) for n in range(29)] + [(0, n) for n in range(2, 30)])
    assert problems(found) == []
    assert len({x for k in found.links if k.source == 0 for x, _ in k.points[2:-2]}) == 1


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
    rank = rank_nodes(topological_order(count, nets), nets, (), ())
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
from test_drawing import scene
arrows = [(n, n + d) for n in range(60) for d in (1, 2, 7, 23) if (n * d) % 5 != 2 and n + d < 60]
print(scene(60, arrows))
"""


@pytest.mark.thorough
def test_the_same_graph_has_the_same_drawing_in_every_run() -> None:
    root = Path(__file__).resolve().parents[2]
    here = io.StringIO()
    with redirect_stdout(here):
        exec(SCRIPT, {})
    path = os.pathsep.join([str(root), str(root / "tests"), str(root / "tests/show")])
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    command = [sys.executable, "-c", SCRIPT]
    run = subprocess.run(command, env=env, cwd=root, capture_output=True, check=True, text=True)
    assert run.stdout == here.getvalue()


# Pictures: valid XML that loads nothing, whatever the names are, with shapes for all kinds.

HEAD = Path("ir_samples/openvino/segmentation_head.xml")
HOSTILE = "</title><script>alert(1)</script> \"'& ]]>\x00\x1b\ud800\uffff\u202e\n--><![CDATA["
SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> etree._Element:
    return etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False))


def hostile() -> Graph:
    g, x = begun((1, 2), name=HOSTILE, info=Info(HOSTILE))
    c = constant(g, np.ones((1, 2), np.float32), HOSTILE + "c")
    y = Value(g.add(Concat(axis=0), [x, c], name=HOSTILE * 50).id)
    result(g, y, HOSTILE)
    return ird.infer(g)


@pytest.mark.parametrize("lowered", [False, True])
def test_a_picture_is_xml_that_loads_and_runs_nothing(lowered: bool) -> None:
    for graph in (hostile(), ird.infer(HEAD)):
        text = ird.inspect(graph, ird.lower(graph) if lowered else None).to_svg()
        root = parsed(text)
        tags = {str(e.tag).removeprefix(SVG) for e in root.iter()}
        assert tags <= {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text"}
        names = {name for e in root.iter() for name in e.attrib}
        assert not any(name.startswith("on") or "href" in name for name in names)
        assert "url(" not in text
        assert "@import" not in text
        assert root.get("role") == "img"
        assert [e.tag for e in root[:2]] == [SVG + "title", SVG + "desc"]


def test_what_a_picture_says() -> None:
    graph = ird.infer(HEAD)
    root = parsed(ird.inspect(graph).to_svg())
    texts = [e.text for e in root.iter(SVG + "text")]
    assert {"image", "ConvolutionBackpropData", "up1", "filter f32[16,8,4,4]"} <= set(texts)
    assert {"strides 2,2", "pads 1,1", "f32[1,3,32,32]"} <= set(texts)
    assert "Const" not in texts
    titles = [str(e.text).split("\n") for e in root.iter(SVG + "title")]
    assert {n.name for n in graph.nodes() if n.type != "Const"} <= {t[0] for t in titles}
    assert [
        "up1",
        "ConvolutionBackpropData of opset1",
        "data: pool2 f32[1,16,8,8]",
        "filter: up1/filter f32[16,8,4,4]",
    ] in titles
    assert root.findtext(SVG + "desc") == (
        "A graph of 19 layers, 2 deconvolutions among them, from image to mask."
    )
    whole = parsed(ird.inspect(graph).to_svg(constants=True))
    assert "Const" in [e.text for e in whole.iter(SVG + "text")]


def test_outputs_have_numbers_and_inputs_that_are_one_say_so() -> None:
    g, x = begun((1, 6), info=Info("split"))
    split = g.add(Split(num_splits=2), [x, constant(g, np.int64(1), "axis")], name="split")
    result(g, Value(g.add(Add(), [Value(split.id, 0)] * 2, name="double").id), "a")
    result(g, Value(split.id, 1), "b")
    root = parsed(ird.inspect(ird.infer(g)).to_svg())
    texts = [e.text for e in root.iter(SVG + "text")]
    assert {"0: f32[1,3]", "1: f32[1,3]", "a = b", "axis = 1"} <= set(texts)


def test_changes_have_signs_and_borders() -> None:
    graph = ird.infer(HEAD)
    text = ird.inspect(graph, ird.lower(graph)).to_svg()
    # Two deconvolutions on either side; ZeroInsertion and Pad for each.
    assert text.count(f'class="{PREFIX}diamond"') == 4
    assert text.count(f'class="{PREFIX}plus"') == 4
    assert re.search(rf"\.{PREFIX}rewritten{{[^}}]*dasharray", text)


def test_colours_have_contrast_in_both_modes() -> None:
    light, dark = style("").split("@media (prefers-color-scheme:dark)")
    for sheet in (light, dark):
        fill = dict(re.findall(r"^\.(\w+){fill:(#\w+)", sheet, re.M))
        boxes = ("layer", "deconvolution", "input", "constant", "body", "group")
        for text in ("type", "name", "fact"):
            assert all(contrast(fill[text], fill[box]) >= 4.5 for box in boxes)
        assert contrast(fill["label"], fill["page"]) >= 4.5


def test_what_links_share_is_drawn_once() -> None:
    short = [(5, 0), (5, 10), (40, 30), (40, 50)]
    long = [(5, 0), (5, 10), (40, 30), (40, 90)]
    assert tree([short, long]) == "M5,0V10C5,20,40,20,40,30V50M40,50V90"


def test_a_large_graph_shows_groups_and_says_so() -> None:
    picture = ird.inspect(chain(LARGEST_FLAT * 2)).to_svg()
    texts = [str(e.text) for e in parsed(picture).iter(SVG + "text")]
    assert "802 layers in groups; --format html opens them" in texts
    assert len(picture) < 100_000


def test_a_notebook_has_the_picture_unless_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ird.infer(HEAD)
    picture = graph._repr_svg_()
    assert picture == ird.inspect(graph)._repr_svg_()
    assert picture is not None
    assert picture in graph._repr_html_()
    wide, x = begun((1, 2), info=Info("wide"))
    for i in range(LARGEST_FLAT):
        result(wide, Value(wide.add(ReLU(), [x], name=f"relu{i}").id), f"y{i}")
    assert wide._repr_svg_() is None
    assert "<table>" in wide._repr_html_()
    assert "<svg" not in wide._repr_html_()
    monkeypatch.setattr("irdeconv.show.drawn.LARGEST_GROUPED", 500)
    assert chain(498)._repr_svg_() is not None
    assert chain(500)._repr_svg_() is None


# Text in boxes: it fits in every browser, breaks where names break, and obeys nothing.

# The advances of "M" in em, as the files of the fonts have them.
MONOSPACE = {"DejaVu Sans Mono": 1233 / 2048, "Menlo": 1233 / 2048, "Consolas": 1126 / 2048}
NAMES = (
    "conv1",
    "__module.up.0/aten::_convolution/ConvolutionBackpropData",
    "F0::If_0_then_branch__Inline_0__/stft/padding/Reshape",
    "model/encoder/layer.0/attention/self/query/MatMul_1_with_a_long_name/Add",
    "a" * 100,
    "x/" + "b" * 80,
    "b" * 80 + "/x",
    "encoder/" * 50 + "end",
    "日本語" * 30,
    "e\u0301" * 60,
    "\U0001f600" * 40,
    "x" * 1_000_000,
    "",
    "/",
)


@pytest.mark.parametrize("font", MONOSPACE)
def test_no_monospace_font_is_wider(font: str) -> None:
    assert measure("M" * 100) >= 100 * MONOSPACE[font]


@each_row("name", NAMES)
@each_row("width", [4.0, 10.0, 18.6])
def test_lines_of_a_name_fit_and_keep_its_end(name: str, width: float) -> None:
    lines = name_lines(name, width)
    assert 1 <= len(lines) <= 2
    assert all(measure(line) <= width + 1e-6 for line in [*lines, one_line(name, width)])
    assert lines[-1][-1:] == name[-1:]


def test_where_names_are_broken_and_cut() -> None:
    up = "__module.up.0/aten::_convolution/ConvolutionBackpropData"
    assert name_lines(up, 18.6) == ["__module.up.0/\u2026", "ConvolutionBackpropData"]
    assert name_lines("up/aten::_convolution/Add", 15.4) == ["up/aten::_convolution/", "Add"]
    assert name_lines("block1/conv_12", 5.6) == ["block1/", "conv_12"]
    assert one_line("encoder/layer.0/dense/MatMul", 12.4) == "encoder\u2026dense/MatMul"
    assert type_lines("GroupConvolutionBackpropData", 12) == ["GroupConvolution", "BackpropData"]
    assert type_lines("Convolution", 12) == ["Convolution"]


def test_characters_that_turn_or_end_lines_are_escaped() -> None:
    assert shown("a\u202eb\x1b[31m\n\u2028\ud800") == "a\\u202eb\\x1b[31m\\n\\u2028\\ud800"
