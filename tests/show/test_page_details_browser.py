"""The details of a layer in a real browser: a drawn axis that answers, maps, costs, constants."""

import itertools
import random
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from browser import chromium, missing
from colours import contrast
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.show.anatomy import AxisAnatomy, CellRow, Overlap, OverlapAxis, shortened
from support.layers import begun, constant, result

pytestmark = [pytest.mark.browser, pytest.mark.skipif(missing() is not None, reason=f"{missing()}")]


def asset(name: str) -> str:
    return files("irdeconv.show").joinpath("assets", name).read_text("utf-8")


SCRIPT = asset("anatomy.js")
HOSTILE = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def blank(browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    yield page
    page.close()


def run(page: Any, expression: str, argument: Any) -> Any:
    """Evaluate an expression of `given` beside the script that makes the rows."""
    return page.evaluate(f"given => {{ {SCRIPT}; return {expression}; }}", argument)


def axes() -> list[AxisAnatomy]:
    rng = random.Random(3)
    cases = itertools.product(
        (0, 1, 3, 40), (1, 2, 5, 16), (1, 2, 3, 8, 32), (1, 2, 3), (-3, 0, 4, 30)
    )
    return [
        AxisAnatomy(
            size=size, kernel=kernel, stride=stride, dilation=dilation, begin=begin,
            end=rng.randint(-4, 9), extra=rng.randint(0, 2),
        )
        for size, kernel, stride, dilation, begin in rng.sample(list(cases), 120)
    ]  # fmt: skip


def numbers(a: AxisAnatomy) -> list[int]:
    return [a.size, a.kernel, a.stride, a.dilation, a.begin, a.end, a.extra]


def plain(rows: list[CellRow]) -> list[Any]:
    return [[row.label, [[c.at, c.kind, c.text, c.phase] for c in row.cells]] for row in rows]


def test_the_browser_draws_what_python_draws(blank: Any) -> None:
    given = axes()
    drawn = run(
        blank,
        "given.map((row) => { const a = new AxisAnatomy(row).shortened();"
        " return [a.size, a.shown, a.pads, a.example(), a.scatter(), a.convolution()]; })",
        [numbers(a) for a in given],
    )
    for axis, (size, shown, pads, example, scatter, convolution) in zip(given, drawn, strict=True):
        a = shortened(axis, axis.size)
        assert (size, pads, example) == (a.size, list(a.pads), a.example)
        assert range(*shown) == a.shown
        assert scatter == plain(a.scatter())
        assert convolution == plain(a.convolution())


def test_an_open_axis_is_drawn_alike(blank: Any) -> None:
    given = axes()
    rows = [[None, *numbers(a)[1:]] for a in given]
    sizes = run(blank, "given.map((row) => new AxisAnatomy(row).shortened().size)", rows)
    assert sizes == [shortened(a, None).size for a in given]


def test_the_browser_counts_the_overlap(blank: Any) -> None:
    given_axes = axes()
    for layer in zip(given_axes[::3], given_axes[1::3], given_axes[2::3], strict=False):
        given = tuple(
            OverlapAxis(kernel=a.kernel, stride=a.stride, dilation=a.dilation, begin=a.begin)
            for a in layer
        )
        drawn = run(
            blank,
            "overlapSlices(given.map((row) => new AxisAnatomy(row)))",
            [numbers(a) for a in layer],
        )
        expected = [[list(s.phases), list(map(list, s.counts))] for s in Overlap(given).slices]
        assert drawn == expected


def test_text_on_every_colour_of_the_ramp_can_be_read(blank: Any) -> None:
    around = "const page = { repaint() {} }, announce = () => {};"
    pairs = blank.evaluate(
        f"() => {{ {around} {asset('theme.js')}; {asset('ramp.js')}; const found = [];"
        " for (const _ of ['one theme', 'the other']) { theme.toggle();"
        " for (let n = 0; n <= 1000; n += 1) { const colour = rampColour(n / 1000);"
        " found.push([colour, textOn(colour)]); } } return found; }"
    )
    assert len({colour for colour, _ in pairs}) > 800
    assert min(contrast(*pair) for pair in pairs) >= 4.5


@pytest.fixture(scope="module")
def model() -> tuple[Graph, Any]:
    g, x = begun((1, 1, 40, 3))
    w = constant(g, np.linspace(-1, 1, 20, dtype=np.float32).reshape(1, 1, 4, 5), "w")
    op = ConvolutionBackpropData(strides=(2, 3), pads_begin=(1, 0), pads_end=(1, 0))
    result(g, Value(g.add(op, [x, w], name=HOSTILE).id))
    graph = ird.infer(g)
    return graph, ird.lower(graph)


@pytest.fixture
def opened(browser: Any, model: tuple[Graph, Any], tmp_path: Path) -> Iterator[Any]:
    """The page with the deconvolution selected; faults and requests beyond the file fail."""
    file, heard = tmp_path / "page.html", []
    file.write_text(ird.graph_page(*model).to_html(), "utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 1400})
    page.on("console", lambda m: heard.append(m.text))
    page.on("pageerror", lambda e: heard.append(str(e)))
    page.on("request", lambda r: heard.append(r.url) if not r.url.startswith("file:") else None)
    node = next(iter(model[0].find(HOSTILE)))
    page.goto(f"{file.as_uri()}#before/{node.id}")
    yield page
    assert heard == []
    page.close()


def marked(page: Any) -> set[str]:
    cells = page.locator("#side .axis rect.hit[data-name]")
    return {cell.get_attribute("data-name") for cell in cells.all()}


def cell(page: Any, name: str) -> Any:
    return page.locator(f'#side .axis [data-name="{name}"]').first


def test_pointing_shows_what_reaches_what(opened: Any) -> None:
    line = opened.locator("#side .axis-line")
    cell(opened, "y3").hover()
    assert line.inner_text() == "y3 = x1*w2 + x2*w0"
    assert marked(opened) == {"y3", "x1", "x2"}
    assert opened.get_by_text("y3 reads").count() == 1
    cell(opened, "x1").hover()
    assert line.inner_text() == "x1 reaches y1 by w0, y2 by w1, y3 by w2, y4 by w3"
    assert marked(opened) == {"x1", "y1", "y2", "y3", "y4"}


def test_keys_walk_along_the_axis(opened: Any) -> None:
    line, chosen = opened.locator("#side .axis-line"), opened.url
    cell(opened, "y0").focus()
    assert line.inner_text() == "y0 = x0*w1"
    opened.keyboard.press("ArrowRight")
    assert line.inner_text() == "y1 = x0*w2 + x1*w0"
    opened.keyboard.press("ArrowUp")
    assert line.inner_text().startswith("x1 reaches")
    opened.keyboard.press("ArrowLeft")
    assert line.inner_text().startswith("x0 reaches y0 by w1")
    assert opened.url == chosen  # the graph did not take the keys


def test_axes_are_switched_and_any_output_is_asked_for(opened: Any) -> None:
    side = opened.locator("#side")
    assert "Drawn with 4 of 40 elements." in side.inner_text()
    answer, field = side.locator("output"), side.locator(".ask-output input")
    field.fill("79")
    assert answer.inner_text() == "y79 = x39*w2"
    field.fill("80")
    assert answer.inner_text() == "a number from 0 to 79"
    opened.get_by_role("button", name="Draw axis 1", exact=True).click()
    assert "input 3, kernel 5, stride 3, dilation 1, pads 0 and 0." in side.inner_text()
    assert side.locator(".ask-output").count() == 0  # all of it is drawn


def test_the_picture_is_enlarged_and_closed_again(opened: Any) -> None:
    opened.get_by_role("button", name="Draw the axis larger").click()
    dialog = opened.locator("dialog.axis-dialog")
    narrow = opened.locator("#side .axis rect").first.bounding_box()["width"]
    assert dialog.locator("rect").first.bounding_box()["width"] > narrow
    opened.keyboard.press("Escape")
    dialog.wait_for(state="detached", timeout=5000)


def test_the_rest_of_a_deconvolution(opened: Any) -> None:
    text = opened.locator("#side").inner_text()
    assert HOSTILE in text
    assert "Uneven: 2 to 4 taps reach an output" in text
    assert "refused: the kernel [4, 5] is not the stride [2, 3]" in text
    assert "Nothing is proved on this page" in text
    assert "used here" in opened.locator(".costs").inner_text() or "cheapest" in text
    for wide in ("#side", "#side .scrolled:has(.costs)"):
        room = opened.locator(wide).evaluate("e => e.clientWidth - e.scrollWidth")
        assert room == 0, wide
    explain = opened.locator("#side details.explain")
    assert not explain.locator("pre").is_visible()
    explain.locator("summary").click()
    assert "output size: O = S(I-1)" in explain.locator("pre").inner_text()
    defaults = opened.locator("#side .attributes").inner_text()
    assert "explicit (default)" in defaults


def test_a_constant_is_shown_in_numbers(opened: Any) -> None:
    opened.locator("#side .links a", has_text="w").first.click()
    side = opened.locator("#side")
    assert "min\n-1\nmean\n0\nmax\n1" in side.inner_text()
    assert side.locator(".histogram rect").count() == 24
    side.locator(".links a").first.click()
    assert HOSTILE in side.locator(".layer-name").inner_text()
