"""The graph page in a real browser: looking, walking, searching, linking, groups."""

from __future__ import annotations

import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from support.body_models import branch, const, loop
from support.shown import HEAD, Open, a_browser, a_page, chain, head

FIXTURES = (a_browser, a_page)
pytestmark = pytest.mark.browser


def named(g: Graph, name: str) -> int:
    (node,) = g.find(name)
    return node.id


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
        here = int(shown.selected.rpartition("/")[2])
        assert here in g.successors(g.parameters[0].id)
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
    chosen = shown.page.locator('.grid-row[aria-selected="true"]')
    assert "Result" in chosen.inner_text()


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
