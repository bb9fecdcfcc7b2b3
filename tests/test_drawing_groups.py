"""Groups: what belongs together by name or by repetition, and scenes in which nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irdeconv.show.groups import LayerGroup, on_cycles, scopes
from irdeconv.show.scene import GraphDrawing, TextLine
from irdeconv.show.scenes import LayerBox, Wire, draw
from support.scenes import problems

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
            target = scene.boxes[link.target]
            if target.kind == "port":
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
    inside = drawn.scenes[group.scene]
    titles = [b.title for b in inside.boxes if b.kind == "group"]
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
    [
        ([(0, 1), (1, 2)], set()),
        ([(0, 1), (1, 2), (2, 1), (2, 3)], {1, 2}),
        ([(1, 1)], {1}),
    ],
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
