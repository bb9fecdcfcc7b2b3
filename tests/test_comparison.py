"""docs/comparison.md says of irdeconv what is so; tools/compare_tools.py measured the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.scripts import script

PAGE = (Path(__file__).resolve().parent.parent / "docs/comparison.md").read_text("utf-8")


@pytest.mark.oracles
def test_the_mistakes_of_the_page_are_found() -> None:
    pytest.importorskip("onnx")
    mistakes = script("compare_mistakes")
    validate = mistakes.judges()["irdeconv"]
    assert not validate(mistakes.model())
    for title, model in mistakes.MISTAKES.items():
        assert re.search(rf"^{re.escape(title)} .* found$", PAGE, re.M), title
        assert validate(model()), title
    assert f"found of {len(mistakes.MISTAKES)}" in PAGE


def test_every_lowered_layer_of_the_page_is_right() -> None:
    lines = re.findall(r"^irdeconv, .*?  +(\d+)(.*)$", PAGE, re.M)
    totals = [int(n) for n in re.findall(r"^.* \((\d+)\) +right", PAGE, re.M)]
    assert [int(n) for n, _ in lines] == [n for n in totals for _ in range(len(lines) // 3)]
    assert all(not rest.strip() for _, rest in lines)
