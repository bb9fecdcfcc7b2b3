"""A page in a browser, for tests that look at it and use it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import irdeconv as ird
from browser import chromium, missing
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.show.page import PageContent
from support.layers import begun, result

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HEAD = "ir_samples/openvino/segmentation_head.xml"


def data_of(page: str) -> Any:
    """Return what is written for the program of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def named(g: Graph, name: str) -> int:
    """The number of the layer of that name."""
    (node,) = g.find(name)
    return node.id


@pytest.fixture(scope="module", name="browser")
def a_browser() -> Iterator[Browser]:
    """Start a browser; without one the tests are skipped, and say what is missing."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with chromium() as started:
        yield started


class Shown:
    """A page in the browser; what it asked for and complained of is kept."""

    def __init__(self, page: Page, file: Path, hash: str = "") -> None:
        self.page = page
        self.wrong: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda m: self.wrong.append(m.text))
        page.on("pageerror", lambda e: self.wrong.append(str(e)))
        page.on("request", lambda r: self.asked.append(r.url))
        page.goto(file.as_uri() + hash)
        page.wait_for_function("performance.getEntriesByName('ready').length > 0")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def selected(self) -> str:
        """The key in the address."""
        return str(self.page.evaluate("decodeURIComponent(location.hash.slice(1))"))

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def middle(self, number: int = 0) -> tuple[float, float]:
        """The middle of a pane."""
        box = self.page.locator("canvas.graph").nth(number).bounding_box()
        assert box
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def pixels(self, number: int = 0) -> str:
        """What a pane shows, as text to compare."""
        self.page.evaluate("new Promise(requestAnimationFrame)")
        canvas = self.page.locator("canvas.graph").nth(number)
        return str(canvas.evaluate("canvas => canvas.toDataURL()"))


Open = Callable[..., Shown]


@pytest.fixture(name="show")
def a_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open pages; at the end no page may have complained, or asked for anything but itself."""
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 800})
    opened: list[Shown] = []

    def open_page(model: Any, lowered: Any = None, hash: str = "", **options: Any) -> Shown:
        file = tmp_path / "page.html"
        if isinstance(model, Path) and model.suffix == ".html":
            text = model.read_text("utf-8")
        else:
            content = model if isinstance(model, PageContent) else ird.graph_page(model, lowered)
            text = content.to_html()
        file.write_text(text, "utf-8")
        page = context.new_page()
        if options:
            page.emulate_media(**options)
        opened.append(Shown(page, file, hash))
        return opened[-1]

    yield open_page
    wrong = [text for shown in opened for text in shown.wrong]
    asked = [u for shown in opened for u in shown.asked if not u.endswith("page.html")]
    asked = [u for u in asked if "page.html#" not in u and not u.startswith("blob:")]
    context.close()
    assert (wrong, asked) == ([], [])


def head() -> tuple[Graph, Any]:
    """Return a small network with two deconvolutions, and what lowering makes of it."""
    g = ird.infer(ird.read(HEAD))
    return g, ird.lower(g)


def chain(names: tuple[str, ...]) -> Graph:
    """Return layers of these names, one behind the other."""
    g, y = begun((1, 2, 4), name=names[0])
    for name in names[1:]:
        y = Value(g.add(ReLU(), [y], name=name).id)
    result(g, y)
    return ird.infer(g)
