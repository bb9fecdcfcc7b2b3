"""Pictures: valid XML that loads nothing, whatever the names are, with shapes for all kinds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

import irdeconv as ird
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.channels import Split
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from irdeconv.show.drawn import LARGEST_FLAT, LARGEST_GROUPED
from irdeconv.show.svg import PREFIX, style, tree
from support.colours import contrast
from support.large_graphs import chain
from support.layers import constant, parameter, result

HEAD = Path("ir_samples/openvino/segmentation_head.xml")
HOSTILE = "</title><script>alert(1)</script> \"'& ]]>\x00\x1b\ud800\uffff\u202e\n--><![CDATA["
SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> etree._Element:
    return etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False))


def hostile() -> Graph:
    g = Graph(Info(HOSTILE))
    x = parameter(g, (1, 2), np.float32, HOSTILE)
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
    g = Graph(Info("split"))
    x = parameter(g, (1, 6), np.float32, "x")
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


def test_a_notebook_has_the_picture_unless_it_is_too_large() -> None:
    graph = ird.infer(HEAD)
    picture = graph._repr_svg_()
    assert picture == ird.inspect(graph)._repr_svg_()
    assert picture is not None
    assert picture in graph._repr_html_()
    wide = Graph(Info("wide"))
    x = parameter(wide, (1, 2), np.float32, "x")
    for i in range(LARGEST_FLAT):
        result(wide, Value(wide.add(ReLU(), [x], name=f"relu{i}").id), f"y{i}")
    assert wide._repr_svg_() is None
    assert "<table>" in wide._repr_html_()
    assert "<svg" not in wide._repr_html_()
    assert chain(LARGEST_GROUPED - 2)._repr_svg_() is not None
    assert chain(LARGEST_GROUPED)._repr_svg_() is None
