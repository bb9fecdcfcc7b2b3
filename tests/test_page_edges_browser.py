"""The graph page in a real browser: names of others, files, paper, colours, narrow windows."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from support.layers import constant, parameter, result
from support.shown import HEAD, Open, a_browser, a_page, chain, head

FIXTURES = (a_browser, a_page)
pytestmark = pytest.mark.browser

LONG = "x" * 10_000
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<b onclick='alert(1)'>bold</b>",
    "\u202eflipped\x1b[31m\x00\u2028",
    "__proto__",
    "constructor",
    LONG,
    "",
)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_others_stay_text(show: Open, name: str) -> None:
    names = ("x", *HOSTILE)
    shown = show(chain(names), hash=f"#graph/{names.index(name)}")
    assert shown.page.evaluate("document.querySelectorAll('img, b').length") == 0
    title = shown.text(".layer-name")
    assert not set(title) & {"\u202e", "\x1b", "\u2028"}
    if name == "":
        assert title == f"(no name, id {names.index(name)})"
    elif name.isprintable():
        assert name[:20] in title
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.press("/")
    shown.page.keyboard.type(name[:12] or "id:7")
    assert shown.text("#hits") != ""


def test_the_svg_is_well_formed(show: Open, tmp_path: Path) -> None:
    shown = show(chain(("x", *HOSTILE)))
    with shown.page.expect_download() as download:
        shown.press("s")
    target = tmp_path / "graph.svg"
    download.value.save_as(target)
    root = ElementTree.parse(target).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("ReLU") == len(HOSTILE)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_light_and_dark(show: Open) -> None:
    g, low = head()
    dark = show(g, low, color_scheme="dark")
    assert dark.page.evaluate("document.documentElement.dataset.theme") == "dark"
    night = dark.pixels()
    dark.press("d")
    assert dark.page.evaluate("document.documentElement.dataset.theme") == "light"
    assert dark.pixels() != night


def test_printed_pages_have_the_graph_and_the_table(show: Open) -> None:
    g, low = head()
    shown = show(g, low)
    shown.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for figure in shown.page.locator("#print > figure").all():
        assert figure.locator("svg").count() >= 1
    assert shown.page.locator("#print > figure").count() == 2
    rows = shown.page.locator("#print table.sheet tbody tr").count()
    plain = [r for graph in (g, low.graph) for r in ird.inspect(graph).layers if not r.constant]
    assert rows == len(plain)
    shown.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.page.locator("#print").inner_html() == ""
    assert shown.page.pdf().startswith(b"%PDF")


def test_help_lists_the_keys(show: Open) -> None:
    shown = show(HEAD)
    shown.press("?")
    assert shown.page.locator("dialog[open]").count() == 1
    assert "Shift" in shown.text("#help")
    shown.press("Escape")
    assert shown.page.locator("dialog[open]").count() == 0


def test_everything_that_acts_has_a_name_and_a_focus(show: Open) -> None:
    shown = show(*head())
    nameless = """[...document.querySelectorAll('button, input, canvas.graph, [role=separator]')]
        .filter(e => !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length)
        .map(e => e.outerHTML)"""
    assert shown.page.evaluate(nameless) == []
    shown.page.locator("canvas.graph").first.focus()
    shown.press("Home")
    assert "Parameter" in shown.page.locator("#live").inner_text()


@pytest.mark.parametrize(("width", "height"), [(800, 700), (390, 800)])
def test_narrow_windows(show: Open, width: int, height: int) -> None:
    shown = show(*head())
    shown.page.set_viewport_size({"width": width, "height": height})
    for canvas in shown.page.locator("canvas.graph").all():
        box = canvas.bounding_box()
        assert box
        assert box["width"] > 150
        assert box["height"] > 100
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_fault_of_the_script_is_shown(show: Open) -> None:
    shown = show(HEAD)
    shown.page.evaluate("setTimeout(() => { throw new Error('broken on purpose'); })")
    shown.page.wait_for_selector("#errors:not([hidden])")
    assert "broken on purpose" in shown.text("#errors")
    shown.wrong.clear()


def test_a_deconvolution_in_many_layers_of_one_name(show: Open) -> None:
    g = Graph()
    y = parameter(g, (1, 2, 4), np.float32, "x")
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    for _ in range(3):
        y = Value(g.add(ConvolutionBackpropData(strides=(2,)), [y, w], name="up").id)
    result(g, y)
    g = ird.infer(g)
    shown = show(g, ird.lower(g))
    assert shown.text("#summary").startswith("5 → ")


CUT = "cells => cells.filter(c => c.scrollWidth > c.clientWidth).map(c => c.textContent)"


def test_numbers_of_the_table_are_never_cut(show: Open) -> None:
    g = Graph()
    x = parameter(g, (1, 64, 100, 1000), np.float32, "x")
    w = constant(g, np.ones((64, 32, 8, 8), np.float32), "w" * 200)
    y = g.add(ConvolutionBackpropData(strides=(8, 8)), [x, w], name="u" * 200)
    result(g, Value(y.id))
    g = ird.infer(g)
    shown = show(g, ird.lower(g))
    shown.press("m", "m")
    assert "13,107,200,000" in shown.text(".grid-body")
    grid = shown.page.locator(".grid")
    assert grid.evaluate("e => e.scrollWidth <= e.clientWidth")  # at 1280 pixels
    numbers = shown.page.locator(".grid-row .number, .grid-row .number button")
    for width in (1280, 800):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert numbers.evaluate_all(CUT) == []
    assert shown.page.locator(".grid-body .col-output").evaluate_all(CUT) == []


def test_the_verdict_is_seen_whole_and_panes_have_one_name_each(show: Open) -> None:
    g, low = head()
    image = np.zeros((1, 3, 32, 32), np.float32)
    result = ird.compare(g, low, image)
    shown = show(ird.graph_page(result))
    verdict = shown.page.locator(".headline")
    assert verdict.inner_text() == result.verdict
    assert verdict.evaluate(
        "e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth"
    )
    assert shown.text("#summary").startswith(result.verdict)
    said = shown.page.locator("#summary").get_attribute("title")
    assert said == f"{result.verdict}; 14 → 18 layers, 2 changes"
    assert shown.text(".change-note p:nth-of-type(1)").startswith("model: ConvolutionBackprop")
    assert shown.text(".change-note p:nth-of-type(2)").startswith("other: ZeroInsertion")
    assert shown.text(".table-bar h2") == "Layers: model"


def test_a_path_breaks_behind_slashes_only(show: Open) -> None:
    shown = show(HEAD, hash="#up1")
    parts = shown.page.locator(".place span")
    assert "".join(parts.all_inner_texts()).endswith(f"{HEAD}:172")
    assert (
        parts.evaluate_all("all => all.map(s => s.getClientRects().length)") == [1] * parts.count()
    )


def test_the_minimap_leaves_the_selected_layer_clear(show: Open) -> None:
    shown = show(HEAD, hash="#up1")
    small = shown.page.locator(".minimap")
    assert small.get_attribute("class") == "minimap"
    shown.page.mouse.move(20, 200)
    shown.page.mouse.down()
    shown.page.mouse.move(420, 380)
    shown.page.mouse.up()
    shown.page.evaluate("new Promise(requestAnimationFrame)")
    assert small.get_attribute("class") == "minimap left"
