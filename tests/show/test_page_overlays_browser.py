"""Numbers and values on the graph page in a real browser."""

from __future__ import annotations

import re

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import Elu, ReLU
from irdeconv.show.page import PageContent, graph_page
from shown import HEAD, Open, a_browser, a_page, head, named
from support.layers import parameter, sequential

FIXTURES = (a_browser, a_page)
pytestmark = pytest.mark.browser
IMAGE = np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype(np.float32)


def chosen(shown: object) -> str:
    return str(shown.page.locator(".overlay-choice").evaluate("s => s.selectedOptions[0].text"))  # type: ignore[attr-defined]


def test_keys_and_the_chooser_paint_numbers(show: Open) -> None:
    shown = show(HEAD)
    assert chosen(shown) == "no colours"
    plain = shown.pixels()
    seen = {plain}
    for title in ("MACs", "memory", "parameters"):
        shown.press("m")
        assert chosen(shown) == title
        seen.add(shown.pixels())
    assert len(seen) == 4
    shown.press("m")
    assert shown.pixels() == plain
    shown.press("M", "M")
    assert chosen(shown) == "memory"
    shown.page.locator(".overlay-choice").select_option("MACs")
    assert shown.pixels() in seen - {plain}


def test_the_legend_has_both_ends_a_unit_and_a_scale(show: Open) -> None:
    shown = show(HEAD)
    shown.press("m")
    macs = [f.macs for f in ird.inspect(HEAD).layers if f.macs]
    low, high = shown.page.locator(".overlay-meaning .number").all_inner_texts()
    assert low == f"{min(macs) / 1e3:.3g} k"
    assert high == f"{max(macs) / 1e3:.3g} k"
    log = shown.pixels()
    shown.press("g")
    assert shown.page.locator(".overlay-meaning .number").first.inner_text() == "0"
    assert shown.pixels() != log
    shown.press("m")
    assert shown.page.locator(".overlay-meaning .number").last.inner_text().endswith("kB")


def test_the_largest_are_listed_and_walked(show: Open) -> None:
    g = ird.infer(ird.read(HEAD))
    facts = sorted(ird.inspect(g).layers, key=lambda f: -(f.macs or 0))
    shown = show(g)
    shown.press("m", "Escape")
    assert shown.page.locator(".ranking a").all_inner_texts() == [f.name for f in facts if f.macs]
    shown.page.locator(".ranking a").first.click()
    assert shown.selected == f"graph/{facts[0].id}"
    assert "rank 1 of" in shown.text("#side")
    shown.press("x")
    assert shown.selected == f"graph/{facts[1].id}"
    shown.press("X", "X")
    assert shown.selected == f"graph/{[f for f in facts if f.macs][-1].id}"


def test_the_table_has_the_numbers_and_sorts_by_them(show: Open) -> None:
    shown = show(HEAD)
    shown.press("m", "m")
    shown.page.get_by_role("button", name="Sort by memory").click()
    cells = shown.page.locator(".grid-body .grid-row .cell:last-child").all_inner_texts()
    known = [float(re.sub("[^0-9.]", "", c)) * (1e3 if "k" in c else 1) for c in cells if c]
    assert known == sorted(known, reverse=True)
    shown.press("m")  # parameters have a column of their own
    assert shown.page.get_by_role("button", name="Sort by memory").count() == 0


def test_unknown_sizes_are_question_marks(show: Open) -> None:
    shown = show(ird.infer(sequential((None, 4), ("y", ReLU()))))
    shown.press("m", "m")
    assert "unknown" in shown.text(".overlay-meaning")
    assert "?" in shown.page.locator(".grid-body .cell:last-child").all_inner_texts()


def test_a_page_of_differences_begins_at_the_first(show: Open) -> None:
    a, b = ird.infer(ird.read(HEAD)), ird.infer(ird.read(HEAD))
    b.replace_op(named(b, "conv2/relu"), Elu(1.0))
    shown = show(ird.graph_page(ird.compare(a, ird.infer(b), IMAGE)))
    assert chosen(shown) == "error"
    assert shown.selected == f"before/{named(a, 'conv2/relu')}"
    said = shown.text("#side")
    assert "the first layer that differs" in said
    assert "the activation is Elu instead of ReLU" in said
    assert "different: first at ReLU" in shown.text("#summary")
    shown.press("o")
    assert shown.selected == f"after/{named(a, 'conv2/relu')}"
    assert "the activation is Elu instead of ReLU" in shown.text("#side")


def test_times_are_told_with_their_steps(show: Open) -> None:
    report = ird.bench(HEAD, IMAGE, None, iterations=1, rounds=1)
    shown = show(ird.graph_page(report))
    assert chosen(shown) == "time"
    step = report.slowest[0]
    shown.press("x")
    assert int(shown.selected.rpartition("/")[2]) in step.ids
    assert f"kernel {step.kernel}" in shown.text("#side")
    assert shown.page.locator(".overlay-meaning .number").last.inner_text().endswith("s")


def values_page(g: Graph, low: object) -> PageContent:
    image = IMAGE.copy()
    image[0, 0, 4, 5] = np.nan
    return ird.graph_page(g, low, inputs=image)  # type: ignore[arg-type]


def test_values_are_drawn_and_what_is_not_finite_is_marked(show: Open) -> None:
    g, low = head()
    shown = show(values_page(g, low))
    assert "1 value not finite" in shown.text("#side")  # it begins there: at the input
    colours = shown.page.locator("canvas.map.whole").evaluate(
        """canvas => {
        const data = canvas.getContext("2d").getImageData(0, 0, 32, 32).data;
        return [[...data.slice(4 * (4 * 32 + 5), 4 * (4 * 32 + 5) + 3)], data[0] === 255];
        }"""
    )
    assert colours[0] == [255, 0, 190]
    shown.page.evaluate(f"location.hash = '#before/{named(g, 'up1')}'")
    shown.page.wait_for_selector(".maps canvas")
    assert shown.page.locator(".maps canvas").count() == 8
    assert shown.page.locator(".chart .bar").count() == 32
    bars = shown.page.locator(".bar title").all_text_contents()
    known = sum(int(t.rpartition(": ")[2].replace(",", "")) for t in bars)
    nan = shown.page.locator("dd.warning").first.inner_text().replace(",", "")
    assert known + int(re.sub("[^0-9]", "", nan)) == 8 * 16 * 16


def test_dark_ramps_go_the_other_way(show: Open) -> None:
    shown = show(HEAD, color_scheme="dark")
    shown.press("m", "Escape")
    ramp = shown.page.locator("canvas.ramp")
    # A copy is read: reading a canvas twice makes Chromium complain.
    ends = """c => {
        const copy = new OffscreenCanvas(128, 12).getContext("2d");
        copy.drawImage(c, 0, 0);
        const row = copy.getImageData(0, 5, 128, 1).data;
        return [row[1], row[4 * 127 + 1]];
        }"""
    shown.page.evaluate("new Promise(requestAnimationFrame)")
    low, high = ramp.evaluate(ends)
    assert low < high
    shown.press("d")
    shown.page.evaluate("new Promise(requestAnimationFrame)")
    low, high = ramp.evaluate(ends)
    assert low > high


def test_compared_models_are_linked_by_names(show: Open) -> None:
    a = ird.infer(ird.read(HEAD))
    b = Graph()
    parameter(b, (1, 2), np.float32, "unused")  # so that all numbers of layers are others
    for node in a.topological():
        inputs = [Value(b.find(a.node(v.node).name)[0].id, v.port) for v in a.inputs_of(node.id)]
        b.add(node.op, inputs, name=node.name)
    page = graph_page(a, ird.infer(b))
    assert page.changes == ()
    shown = show(page, hash="#up1")
    for name in ("up1", "conv2/relu"):
        shown.page.evaluate(f"location.hash = '#before/{named(a, name)}'")
        shown.press("o")
        assert shown.selected == f"after/{named(b, name)}"
        shown.press("o")
        assert shown.selected == f"before/{named(a, name)}"
    shown.page.evaluate(f"location.hash = '#after/{named(b, 'up1')}'")
    said = shown.page.locator("#side details.explain pre").text_content()
    assert said.startswith("up1: ")  # the details of the layer, not of its number


def test_the_first_layer_is_in_the_middle_of_both_panes(show: Open) -> None:
    shown = show(*head())
    before, after = (shown.page.locator("canvas.graph").nth(n) for n in (0, 1))
    for canvas in (before, after):
        found = canvas.evaluate(
            """canvas => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
            copy.drawImage(canvas, 0, 0);
            const row = copy.getImageData(0, canvas.height >> 1, canvas.width, 1).data;
            const ground = row.slice(0, 3).join();
            const inked = [...Array(canvas.width).keys()].filter(
                x => row.slice(4 * x, 4 * x + 3).join() !== ground);
            return [inked[0], inked.at(-1), canvas.width];
            }"""
        )
        first, last, width = found
        assert first > width / 8, found
        assert first < width / 2 < last, found


def test_tensors_of_zeros_are_shown(show: Open) -> None:
    g = ird.infer(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    page = ird.graph_page(g, inputs=[np.zeros((1, 1, 3, 3), np.float32)])
    shown = show(page)
    for graph in page.graphs:
        for node in graph.nodes:
            key = f"{graph.key}/{node['id']}"
            shown.page.evaluate("key => { location.hash = key }", key)
            if key in page.values:
                side = shown.page.locator("#side")
                assert "min" in side.inner_text()
                assert side.locator("figure").count()


def test_one_layer_is_a_layer(show: Open) -> None:
    g = Graph()
    parameter(g, (1, 2), np.float32, "x")
    shown = show(ird.infer(g))
    assert re.match(r"1 layer($|[^s])", shown.text("#summary"))
