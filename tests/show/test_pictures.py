"""The drawing in docs/images/ is what `explain --format svg` draws."""

from __future__ import annotations

from pathlib import Path

import irdeconv as ird
from support.fixtures import Patch

ROOT = Path(__file__).resolve().parents[2]


def test_the_drawing_of_the_tutorial(update: bool, monkeypatch: Patch) -> None:
    monkeypatch.chdir(ROOT)
    drawing = ird.explain("ir_samples/openvino/segmentation_head.xml", "up1").to_svg()
    file = ROOT / "docs/images/deconvolution.svg"
    if update:
        file.write_text(drawing, "utf-8")
    assert file.read_text("utf-8") == drawing, "make golden draws it anew"
