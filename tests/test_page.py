"""The graph page before a browser sees it: its parts, what changed, text that stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.show.changes import difference
from irdeconv.show.page import SCRIPTS, STYLES, json_text, packed
from support.layers import constant, parameter, result

HEAD = "ir_samples/openvino/segmentation_head.xml"
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>&amp;\"'\\",
    "\u2028\u2029\u202e\x1b[31m\x00",
    "\ud800",
    "__proto__",
    "",
)


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


class Tags(HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def chain(names: tuple[str, ...]) -> Graph:
    g = Graph()
    y = parameter(g, (1, 2, 4), np.float32, names[0])
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    for name in names[1:]:
        y = Value(g.add(ConvolutionBackpropData(strides=(2,)), [y, w], name=name).id)
    result(g, y)
    return ird.infer(g)


def test_names_stay_text() -> None:
    page = ird.graph_page(chain(HOSTILE)).to_html()
    found = Tags()
    found.feed(page)
    assert found.tags.count("script") == 2
    assert "img" not in found.tags
    names = [n["name"] for n in data_of(page)["graphs"][0]["nodes"]]
    assert [n for n in names if n in HOSTILE] == [n for n in HOSTILE if n != "\ud800"]
    assert "\ufffd" in names  # a lone surrogate has no UTF-8
    assert page.encode("utf-8")


def test_the_policy_has_the_hashes_of_style_and_script_and_nothing_else() -> None:
    page = ird.graph_page(HEAD).to_html()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert text
        digest = base64.b64encode(hashlib.sha256(text.group(1).encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy.group(1)
    assert policy.group(1).startswith("default-src 'none'; ")
    assert "unsafe" not in policy.group(1)


def test_no_inline_handlers_styles_or_addresses() -> None:
    found = Tags()
    found.feed(ird.graph_page(HEAD).to_html())
    keys = {k for k, _ in found.attributes}
    assert not {k for k in keys if k.startswith("on")} | keys & {"style", "src", "href", "action"}


def test_every_asset_is_used() -> None:
    from importlib.resources import files

    names = {f.name for f in files("irdeconv.show").joinpath("assets").iterdir()}
    assert names == {"page.html", *SCRIPTS, *STYLES}


def test_data_has_nothing_that_ends_a_script() -> None:
    text = json_text({"a": "</script><!--\u2028\u2029&"})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"a": "</script><!--\u2028\u2029&"}


def test_what_is_said_again_is_written_once() -> None:
    scene = {
        "boxes": {"lines": [["A"], ["A"]], "x": [3, 3], "y": [7, 7]},
        "links": {"points": [[1, 2, 1, 9], [1, 2, 5, 5]], "node": [0, 1]},
    }
    one, two = {"id": 1, "name": "a", "type": "A"}, {"id": 2, "name": "b", "type": "A"}
    before = {"key": "before", "nodes": [one, two], "scene": {"scenes": [scene]}}
    after = {"key": "after", "nodes": [one, {**two, "name": "c"}], "scene": {"scenes": []}}
    data = packed({"graphs": [before, after]})
    assert data["shared"] == [["A", None, None], ["A"], [0, 7], [4, 3]]
    assert data["graphs"][1]["nodes"] == [1, {"id": 2, "name": "c", "op": 0}]
    assert data["graphs"][0]["scene"]["scenes"] == [
        {
            "boxes": {"lines": 1, "x": [3, 3], "y": 7},
            "links": {"x": [1, 1], "y": 2, "steps": [2, 3], "node": [0, 1]},
        }
    ]
    assert before["nodes"] == [one, two]  # what was given stays as it is


def test_what_lowering_changes() -> None:
    before = ird.infer(ird.read(HEAD))
    after, report = ird.lower(before, "stacked")
    found = difference(before, after)
    assert [g.title for g in found.groups] == [r.name for r in report]
    for group in found.groups:
        source, *filters = (before.node(i) for i in group.before)
        assert source.op.deconvolution
        assert found.before[source.id] == "rewritten"
        assert all(found.before[n.id] == "removed" for n in filters)
        kinds = [found.after[i] for i in group.after]
        assert kinds.count("rewritten") == 1
        assert after.node(group.after[kinds.index("rewritten")]).name == source.name
    stayed = {n.id for n in before.nodes()} - found.before.keys()
    assert stayed == {n.id for n in after.nodes()} - found.after.keys()


def test_two_files_are_compared_by_names(tmp_path: Any) -> None:
    ird.write(ird.lower(HEAD), tmp_path / "low.xml")
    page = ird.graph_page(HEAD, tmp_path / "low.xml")
    assert [c.title for c in page.changes] == ["up1", "up2"]
    assert all(c.before and len(c.after) > 1 for c in page.changes)


def test_layers_of_one_name_are_told_apart() -> None:
    g = chain(("x", "up", "up"))
    for node in g.nodes():
        node.location = ird.read(HEAD).node(node.id).location
    found = difference(g, ird.lower(g).graph)
    assert len(found.groups) == 2
    assert not set(found.groups[0].after) & set(found.groups[1].after)


def test_a_graph_that_stays_has_no_changes() -> None:
    g = ird.infer(ird.read(HEAD))
    found = difference(g, g.copy())
    assert (found.before, found.after, found.groups) == ({}, {}, [])


def test_an_empty_graph_has_a_page() -> None:
    assert data_of(ird.graph_page(Graph()).to_html())["graphs"][0]["nodes"] == []


def test_inspect_writes_a_page(tmp_path: Any) -> None:
    target = tmp_path / "page.html"
    assert main(["inspect", HEAD, "--lower", "--format", "html", "-o", str(target)]) == 0
    data = data_of(target.read_text("utf-8"))
    assert [g["key"] for g in data["graphs"]] == ["before", "after"]
    assert [c["form"] for c in data["changes"]] == ["zero-insertion"] * 2


def test_lower_writes_a_page_with_the_certificates(tmp_path: Any) -> None:
    target = tmp_path / "page.html"
    assert main(["lower", HEAD, "--certify", "--report", str(target), "--form", "phases"]) == 0
    changes = data_of(target.read_text("utf-8"))["changes"]
    assert [c["form"] for c in changes] == ["phases"] * 2
    assert all(c["certificate"].startswith("proved up") for c in changes)


@pytest.mark.parametrize("report", [HEAD, "-", "out.json"])
def test_a_report_overwrites_nothing(report: str) -> None:
    assert main(["lower", HEAD, "--certify", "out.json", "--report", report]) == 2
