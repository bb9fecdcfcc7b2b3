"""Make the pictures of the documentation: docs/images/.

    python tools/make_pictures.py           the drawing of a deconvolution, which needs no browser
    python tools/make_pictures.py --page    also a screenshot of the page of a lowered model

The screenshot needs the extra `browser` and a Chromium on PATH. A browser draws letters a little
differently on each machine, so only the drawing is held against the code by a test.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from checkout import ROOT

import irdeconv as ird
from support.browser import chromium

IMAGES = ROOT / "docs/images"
MODEL = "ir_samples/openvino/segmentation_head.xml"  # in the checkout, so that no path is shown
LAYER = "up1"
SIZE = {"width": 1200, "height": 720}
KEYS = ("t", "c")  # fold the table, so that the graphs get its room; centre the selected layer


def drawing() -> str:
    """Return the deconvolution that the tutorial explains, as SVG."""
    return ird.explain(MODEL, LAYER).to_svg()


def take_screenshot(path: Path) -> None:
    """Open the page of the lowered model, and take a picture of it."""
    page = ird.graph_page(MODEL, lowered=ird.lower(MODEL, "stacked"))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder, "page.html")
        file.write_text(page.to_html(), "utf-8")
        tab = browser.new_page(viewport=SIZE)
        tab.goto(file.as_uri())
        tab.wait_for_timeout(1500)
        for key in KEYS:
            tab.keyboard.press(key)
        tab.wait_for_timeout(500)
        tab.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="also take the screenshot")
    options = parser.parse_args()
    os.chdir(ROOT)
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "deconvolution.svg").write_text(drawing(), "utf-8")
    if options.page:
        take_screenshot(IMAGES / "page.png")


if __name__ == "__main__":
    main()
