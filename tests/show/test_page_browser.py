"""The graph page in a browser: the graph, its edges."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import Elu, ReLU
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.show.page import graph_page
from shown import HEAD, Open, a_browser, a_page, chain, head, named
from support.body_models import branch, const, loop
from support.layers import begun, constant, parameter, result, sequential

pytestmark = pytest.mark.browser

# The graph page in a real browser: looking, walking, searching, linking, groups.

FIXTURES = (a_browser, a_page)


def test_a_click_selects_and_a_click_beside_selects_nothing(show: Open) -> None:
    shown = show(HEAD)
    shown.press("Home", "c")
    first = shown.selected
    assert first.startswith("graph/")
    shown.press("Escape")
    assert shown.selected == ""
    shown.page.mouse.click(*shown.middle())
    assert shown.selected == first
    x, y = shown.middle()
    shown.page.mouse.click(x - 380, y)
    assert shown.selected == ""


def test_walking_along_links(show: Open) -> None:
    g = ird.read(HEAD)
    shown = show(HEAD)
    for down, up in (("j", "k"), ("Shift+ArrowDown", "Shift+ArrowUp")):
        shown.press("Home", down)
        assert int(shown.selected.rpartition("/")[2]) in g.successors(g.parameters[0].id)
        shown.press(up)
        assert shown.selected == f"graph/{g.parameters[0].id}"
    shown.press("End")
    assert g.node(int(shown.selected.rpartition("/")[2])).type == "Result"


def test_details_have_links_to_producers_and_readers(show: Open) -> None:
    g = ird.read(HEAD)
    shown = show(HEAD, hash="#up1")
    assert shown.selected == f"graph/{named(g, 'up1')}"  # a name leads there as well
    assert "up1" in shown.text(".layer-name")
    producer = g.inputs_of(named(g, "up1"))[0].node
    shown.page.locator("#side a", has_text=g.node(producer).name).first.click()
    assert shown.selected == f"graph/{producer}"
    shown.page.go_back()
    assert "up1" in shown.text(".layer-name")


def test_changes_are_linked_and_stepped_through(show: Open) -> None:
    g, low = head()
    shown = show(g, low)
    one, two = (f"before/{named(g, name)}" for name in ("up1", "up2"))
    assert shown.selected == one  # the page begins at the first change
    left, right = shown.pixels(0), shown.pixels(1)
    shown.press("n")
    assert shown.selected == two
    assert shown.pixels(0) != left
    assert shown.pixels(1) != right
    shown.press("n")
    assert shown.selected == one
    shown.press("p")
    assert shown.selected == two
    shown.press("o")
    assert shown.selected == f"after/{named(low.graph, 'up2')}"
    assert "rewritten: change 2 of 2" in shown.text("#side")
    shown.press("o")
    assert shown.selected == two


def test_search_finds_and_walks_its_results(show: Open) -> None:
    g = ird.infer(ird.read(HEAD))
    shown = show(g)
    for query, found in (
        ("type:=MaxPool", 2),
        ("maxpool", 2),
        ("name:up1", sum("up1" in n.name for n in g.nodes())),
        ("name:=up1", 1),
        ("shape:1,8,16,16", sum("[1,8,16,16]" in t for t in _specs(g))),
        ("attr:strides=2 type:pool", 2),
        ("nothing like it", 0),
    ):
        shown.press("/")
        shown.page.keyboard.type(query)
        assert shown.text("#hits") == f"{found} found", query
        shown.press("Escape")
    shown.press("/")
    shown.page.keyboard.type("maxpool")
    shown.press("ArrowDown", "Enter")
    pools = [f"graph/{n.id}" for n in g.nodes("MaxPool")]
    assert shown.selected == pools[1]
    shown.press("ArrowUp")
    assert shown.selected == pools[0]
    shown.press("Escape")
    assert shown.page.locator("#query").input_value() == "maxpool"
    shown.press("Home")  # the canvas has the keys again
    assert shown.selected == "graph/0"


def _specs(g: Graph) -> list[str]:
    """All specs at each layer, as one text a layer."""
    return [
        " ".join(map(str, [*g.input_specs(n.id), *(n.spec(p) for p in range(n.outputs))]))
        for n in g.nodes()
    ]


def test_the_table_sorts_filters_and_is_linked(show: Open) -> None:
    g = ird.infer(ird.read(HEAD))
    shown = show(g)
    shown.page.get_by_role("button", name="Sort by MACs").click()
    rows = shown.page.locator(".grid-body .grid-row")
    macs = [r.macs or 0 for r in ird.inspect(g).layers if not r.constant]
    first = rows.first.locator(".cell").last.inner_text().replace(",", "")
    assert int(first) == max(macs)
    shown.page.get_by_role("button", name="Sort by MACs").click()
    assert rows.first.locator(".cell").last.inner_text() == ""
    shown.page.get_by_label("Filter the table").fill("type:=MaxPool")
    assert rows.count() == 2
    rows.nth(1).click()
    assert "MaxPool" in shown.text(".layer-type")
    shown.press("ArrowUp")
    assert rows.first.get_attribute("aria-selected") == "true"
    shown.page.get_by_label("Filter the table").fill("")
    shown.page.locator("canvas.graph").focus()
    shown.press("End")
    assert "Result" in shown.page.locator('.grid-row[aria-selected="true"]').inner_text()


def test_keys_move_and_zoom_the_picture(show: Open) -> None:
    shown = show(HEAD)
    seen = {shown.pixels()}
    for key in ("ArrowDown", "ArrowRight", "+", "+", "0"):
        shown.press(key)
        assert shown.pixels() not in seen, key
        seen.add(shown.pixels())
    shown.press("f")
    fitted = shown.pixels()
    shown.page.mouse.move(*shown.middle())
    shown.page.mouse.wheel(0, -300)
    assert shown.pixels() != fitted
    x, y = shown.middle()
    shown.page.mouse.down()
    shown.page.mouse.move(x + 50, y + 60)
    shown.page.mouse.up()
    assert shown.selected == ""  # a drag is no click
    shown.press("f")
    assert shown.pixels() == fitted


def test_groups_open_and_close(show: Open) -> None:
    names = tuple(f"net/stage{n // 40}/relu_{n}" for n in range(400))
    shown = show(chain(("x", *names)))
    shown.press("f")
    closed = shown.pixels()
    shown.page.get_by_role("button", name="Show all layers").click()
    assert shown.pixels() != closed
    shown.press("E", "f")
    assert shown.pixels() == closed
    shown.page.evaluate("location.hash = '#net/stage3/relu_125'")
    shown.page.wait_for_function("document.querySelector('#live').textContent.includes('relu_125')")
    opened = shown.pixels()  # what is selected is shown, so its group is open
    shown.press("f")
    assert shown.pixels() != closed
    shown.press("Backspace", "Escape", "f")
    assert opened != closed


def test_bodies_can_be_entered_and_left(show: Open) -> None:
    shown = show(ird.infer(ird.parse(loop())))
    shown.press("/")
    shown.page.keyboard.type("type:=Loop")
    shown.press("Enter", "Escape", "Enter", "Home")
    assert "/body/" in shown.selected
    shown.press("Backspace")
    assert "/body/" not in shown.selected
    assert "Loop" in shown.text(".layer-type")


def test_each_body_of_a_branch_can_be_entered(show: Open) -> None:
    shown = show(ird.infer(ird.parse(branch(const(0, True, "boolean")))), hash="#n2")
    for tag in ("then_body", "else_body"):
        shown.page.get_by_role("button", name=f"Go into {tag}").click()
        assert tag in shown.text(".pane-head")
        shown.page.get_by_role("button", name="Leave the body").click()


def test_the_first_change_is_in_the_middle_of_its_pane(show: Open) -> None:
    """A pane gets narrower when the second one opens, while it moves to the change."""
    g, low = head()
    shown = show(g, low, reduced_motion="no-preference")
    shown.page.wait_for_timeout(400)
    shown.press("Escape")
    shown.page.mouse.click(*shown.middle())
    assert shown.selected == f"before/{named(g, 'up1')}"


# The graph page in a real browser: names of others, files, paper, colours, narrow windows.

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
    g, y = begun((1, 2, 4))
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    for _ in range(3):
        y = Value(g.add(ConvolutionBackpropData(strides=(2,)), [y, w], name="up").id)
    result(g, y)
    g = ird.infer(g)
    shown = show(g, ird.lower(g))
    assert shown.text(".pane-head .quiet") == "5 layers"


CUT = "cells => cells.filter(c => c.scrollWidth > c.clientWidth).map(c => c.textContent)"


def test_numbers_of_the_table_are_never_cut(show: Open) -> None:
    g, x = begun((1, 64, 100, 1000))
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


@pytest.mark.parametrize("width", [400, 768, 1024, 1280, 1600])
def test_no_text_of_the_table_is_cut(show: Open, width: int) -> None:
    g, x = begun((1, 4, 100, 100))
    w = constant(g, np.ones((4, 4, 4, 4), np.float32), "w")
    name = "/model.diffusion_model/decoder/up_blocks.10/upsamplers.0/conv_transpose/ConvTranspose"
    result(g, Value(g.add(ConvolutionBackpropData(strides=(2, 2)), [x, w], name=name).id))
    shown = show(g := ird.infer(g), ird.lower(g))
    shown.page.set_viewport_size({"width": width, "height": 800})
    for _ in range(2):
        shown.page.evaluate("new Promise(requestAnimationFrame)")
    assert name in shown.text(".grid-body")
    for cut in (CUT, CUT.replace("Width", "Height")):
        assert shown.page.locator(".grid .cell").evaluate_all(cut) == []


def test_both_panes_begin_at_one_height(show: Open) -> None:
    g = chain(("x", *(f"net/stage{n // 40}/relu_{n}" for n in range(400))))
    shown = show(g, ird.lower(g))
    for width in range(600, 1200, 20):
        shown.page.set_viewport_size({"width": width, "height": 800})
        one, two = (box.bounding_box() for box in shown.page.locator("canvas.graph").all())
        assert one["y"] == two["y"], width


def test_the_title_of_an_open_group_is_inside_its_frame(show: Open, tmp_path: Path) -> None:
    names = (f"{'long_prefix_' * 6}{n // 40}/relu_{n}" for n in range(400))
    shown = show(chain(("x", *names)), hash="#graph/7")
    with shown.page.expect_download() as download:
        shown.press("s")
    download.value.save_as(tmp_path / "graph.svg")
    space = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    (width,) = (r.get("width", "") for r in root.iter(f"{space}rect") if r.get("rx") == "8")
    (title,) = (t.text for t in root.iter(f"{space}text") if str(t.text).startswith("\u2212"))
    assert "\u2026" in str(title)
    assert 10 + 6.2 * len(str(title)) <= float(width)


def test_the_verdict_is_seen_whole_and_panes_have_one_name_each(show: Open) -> None:
    g, low = head()
    result = ird.compare(g, low, np.zeros((1, 3, 32, 32), np.float32))
    shown = show(ird.graph_page(result))
    verdict = shown.page.locator(".headline")
    assert verdict.inner_text() == result.verdict
    assert verdict.evaluate(
        "e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth"
    )
    assert shown.page.locator("#summary").get_attribute("title") == result.verdict
    assert shown.text(".change-note p:nth-of-type(1)").startswith("model: ConvolutionBackprop")
    assert shown.text(".change-note p:nth-of-type(2)").startswith("other: ZeroInsertion")
    assert shown.text(".table-bar h2") == "Layers: model"


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
    shown.press("Escape")  # other layers count if none is selected
    shown.page.evaluate("new Promise(requestAnimationFrame)")
    assert small.get_attribute("class") == "minimap left"


# Numbers and values on the graph page in a real browser.


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


def test_values_are_drawn_and_what_is_not_finite_is_marked(show: Open) -> None:
    g, low = head()
    image = IMAGE.copy()
    image[0, 0, 4, 5] = np.nan
    shown = show(ird.graph_page(g, low, inputs=image))
    assert "1 value not finite" in shown.text("#side")  # it begins there: at the input
    colours = shown.page.locator("canvas.map.whole").evaluate(
        """canvas => {
        const data = canvas.getContext("2d").getImageData(0, 0, 32, 32).data;
        return [[...data.slice(4 * (4 * 32 + 5), 4 * (4 * 32 + 5) + 3)], data[0] === 255];
        }"""
    )
    assert colours[0] == [255, 0, 190]
    shown.page.evaluate(f"location.hash = '#before/{named(g, 'conv1')}'")
    shown.page.wait_for_selector(".maps canvas")
    assert shown.page.locator(".maps canvas").count() == 8
    assert shown.page.locator(".chart .bar").count() == 32
    bars = shown.page.locator(".bar title").all_text_contents()
    known = sum(int(t.rpartition(": ")[2].replace(",", "")) for t in bars)
    nan = shown.page.locator("dd.warning").first.inner_text().replace(",", "")
    assert known + int(re.sub("[^0-9]", "", nan)) == 8 * 32 * 32


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
    assert shown.text(".pane-head .quiet") == "1 layer"


def test_both_sides_move_together_or_apart(show: Open) -> None:
    shown = show(*head())
    before, after = shown.pixels(0), shown.pixels(1)
    for key, moved in (("ArrowDown", 2), ("+", 2), ("y", 0), ("ArrowDown", 1), ("y", 1), ("f", 2)):
        shown.press(key)
        now = shown.pixels(0), shown.pixels(1)
        assert (now[0] != before) + (now[1] != after) == moved, key
        before, after = now
    shown.page.mouse.click(*shown.middle(1))  # the other side moves to the counterpart
    assert shown.selected.startswith("after/")
    assert shown.pixels(0) != before


def test_changed_attributes_are_shown(show: Open) -> None:
    g, other = ird.read(HEAD), ird.read(HEAD)
    up1 = named(g, "up1")
    pads = replace(g.node(up1).op, pads_begin=(0, 1), pads_end=(2, 1))
    other.replace_op(up1, pads)
    shown = show(ird.infer(g), ird.infer(other))
    changed = ["pads_begin 1,1 → 0,1", "pads_end 1,1 → 2,1"]
    assert shown.page.locator(".change-note .differs").all_inner_texts() == changed
    assert shown.page.locator(".attributes .differs").all_inner_texts() == ["1,1", "1,1"]
    shown.press("Escape")
    assert "; ".join(changed) in shown.text("#side ol")


def test_the_report_of_a_batch_is_filtered_and_sorted(show: Open, tmp_path: Path) -> None:
    report = tmp_path / "batch.html"
    models = "ir_samples/openvino", "ir_samples/broken/wrong_channels.xml"
    main(["batch", "validate", *models, "--jobs", "0", "--report", str(report), "-q"])
    shown = show(report, color_scheme="dark")
    rows = shown.page.locator("#items tbody tr:visible")
    every, bad = rows.count(), shown.page.locator("#items tr.bad").count()
    assert "bad" in str(rows.nth(bad - 1).get_attribute("class"))  # failures are first
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"
    shown.page.get_by_role("button", name="Show the items with the verdict no").click()
    assert 0 < rows.count() < every
    shown.page.get_by_role("button", name="Show all items").click()
    shown.press("/")
    shown.page.keyboard.type("e302 channels")
    assert "wrong_channels" in rows.first.inner_text()
    assert shown.text("#hits") == f"1 of {every}"
    shown.press("Escape")
    names = []
    for _ in range(2):
        shown.page.get_by_role("button", name="Sort by model").click()
        names.append(shown.page.locator("#items .model").all_inner_texts())
    assert (len(names[0]), names[0][::-1]) == (every, names[1])
    for width in (400, 1600):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_open_axis_is_drawn_for_any_size(show: Open) -> None:
    shown = show(ird.infer(ird.read("ir_samples/openvino/dynamic.xml")), hash="#deconv")
    assert shown.text(".ask-size").startswith("n is 3..9 / ?; n inputs give 2n outputs.")
    assert shown.page.locator(".axis-labels text").first.text_content() == "n inputs"
    for size in (4, 2):
        shown.page.locator(".ask-size input").fill(str(size))
        inputs = shown.page.locator(".axis g").first.locator("rect.input")
        assert inputs.count() == size
    assert shown.text(".axis-line").startswith("y")
