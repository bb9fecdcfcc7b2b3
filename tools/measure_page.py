"""Measure the graph page in a headless Chromium: size, time until it is ready, frames per second.

    python tools/measure_page.py                   generated networks of 1,341 and 5,000 layers
    python tools/measure_page.py MODEL.xml ...     and these models
    python tools/measure_page.py --lower           pages with before and after

Needs the extra `browser` and a Chromium on PATH. A page is ready when the graph is painted for the
first time; frames are counted while the picture is dragged and zoomed for 2 s each. Exit code 1
where a page of at most 1,341 layers has 1 MB or more, takes longer than 2 s or falls below 30
frames a second, or a larger one takes 10 s or falls below 10. Screenshots of every page go into
--shots FOLDER.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.base.tables import table
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.elementwise import Add
from support.browser import chromium, missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = (1341, 5000)
LARGE = 1341  # layers up to which a page has to be quick
SECONDS = 2.0  # of dragging, of zooming


@dataclass(frozen=True)
class Demand:
    """What a page has to reach."""

    bytes: float
    ready: float  # milliseconds
    frames: float  # a second


QUICK = Demand(bytes=1e6, ready=2000, frames=30)
USABLE = Demand(bytes=float("inf"), ready=10_000, frames=10)

_COUNT = """seconds => new Promise(done => {
  let frames = 0; const since = performance.now();
  const step = now => {
    frames += 1;
    if (now - since < 1000 * seconds) requestAnimationFrame(step);
    else done(1000 * (frames - 1) / (now - since));
  };
  requestAnimationFrame(step);
})"""
_READY = "performance.getEntriesByName('ready')[0]?.startTime ?? -1"


def network(layers: int) -> Graph:
    """Return residual blocks with a deconvolution every 40 layers; constants count."""
    g = Graph(Info(f"generated {layers}"))
    y = Value(g.add(Parameter(shape=(1, 8, 16, 16), element_type=f32), name="x").id)

    def constant(shape: tuple[int, ...], name: str) -> Value:
        data = ArrayData.of(np.ones(shape, np.float32), f32)
        return Value(g.add(Const(element_type=f32, shape=shape, data=data), name=name).id)

    convolution = Convolution(pads_begin=(1, 1), pads_end=(1, 1))
    deconvolution = ConvolutionBackpropData(pads_begin=(1, 1), pads_end=(1, 1))
    while len(g) < layers - 6:
        name = f"net/stage{len(g) // 120}/block{len(g) // 6}"
        up = len(g) % 42 < 6
        filter = constant((8, 8, 3, 3), f"{name}/weight")
        z = Value(g.add(deconvolution if up else convolution, [y, filter], name=f"{name}/conv").id)
        z = Value(g.add(Add(), [z, constant((1, 8, 1, 1), f"{name}/bias")], name=f"{name}/b").id)
        z = Value(g.add(ReLU(), [z], name=f"{name}/relu").id)
        y = Value(g.add(Add(), [y, z], name=f"{name}/add").id)
    while len(g) < layers - 1:
        y = Value(g.add(ReLU(), [y], name=f"relu{len(g)}").id)
    g.add(Result(), [y], name="y")
    return ird.infer(g)


def graphs(files: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    """Yield the graphs to be measured, with what they are called."""
    for size in SIZES:
        yield f"generated {size}", network(size)
    for file in files:
        path = Path(file)
        yield path.parent.name if path.stem == "model" else path.stem, ird.infer(ird.read(path))


def measured(page: Page, file: Path, shots: Path | None) -> tuple[float, float, float]:
    """Return milliseconds until ready, and frames per second of dragging and of zooming."""
    page.goto(file.as_uri())
    page.wait_for_function(_READY.join(("(", ") > 0")))
    ready = page.evaluate(_READY)
    if shots is not None:
        page.screenshot(path=shots / f"{file.stem}.png")
    box = page.locator("canvas.graph").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    rates = []
    for moves in (_drag, _zoom):
        page.evaluate(f"window.rate = ({_COUNT})({SECONDS})")
        moves(page, x, y)
        rates.append(page.evaluate("window.rate"))
    return ready, rates[0], rates[1]


def _drag(page: Page, x: float, y: float) -> None:
    """Drag the picture about for the time that frames are counted."""
    until = time.monotonic() + SECONDS
    page.mouse.down()
    step = 0
    while time.monotonic() < until:
        step += 1
        page.mouse.move(x + 60 * np.sin(step / 9), y + 100 * np.cos(step / 7))
    page.mouse.up()


def _zoom(page: Page, x: float, y: float) -> None:
    """Zoom out to the whole and in again."""
    until = time.monotonic() + SECONDS
    step = 0
    while time.monotonic() < until:
        step += 1
        page.mouse.wheel(0, 120 if step // 30 % 2 == 0 else -120)


def problems(size: int, result: tuple[float, float, float], layers: int) -> list[str]:
    """Return which demands are missed."""
    demand = QUICK if layers <= LARGE else USABLE
    ready, *rates = result
    out = [f"{size:,} bytes"] * (size >= demand.bytes)
    out += [f"ready after {ready:.0f} ms"] * (ready > demand.ready)
    return out + [f"{rate:.0f} frames a second" for rate in rates if rate < demand.frames]


def run(browser: Browser, args: argparse.Namespace, folder: Path) -> int:
    """Measure all pages and print a table; return the exit code."""
    rows, missed = [], []
    for name, graph in graphs(args.files):
        since = time.perf_counter()
        content = ird.graph_page(graph, ird.lower(graph) if args.lower else None)
        text = content.to_html().encode("utf-8")
        made = time.perf_counter() - since
        file = folder / f"{name.replace(' ', '_')}.html"
        file.write_bytes(text)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        result = measured(page, file, args.shots)
        page.close()
        missed += [f"{name}: {p}" for p in problems(len(text), result, len(graph))]
        numbers = (f"{len(graph):,}", f"{made:.2f}", f"{len(text):,}")
        rows.append((name, *numbers, *(f"{v:.0f}" for v in result)))
    head = ("page", "layers", "made in s", "bytes", "ready ms", "drag fps", "zoom fps")
    print(table(head, rows, head[1:], names=("page",), width=100))
    print("\n".join(missed) or "all pages reach what is asked of them")
    return 1 if missed else 0


def main() -> int:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="MODEL.xml")
    parser.add_argument("--lower", action="store_true", help="pages with before and after")
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="write screenshots there")
    args = parser.parse_args()
    reason = missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="irdeconv-") as folder, chromium() as browser:
        return run(browser, args, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
