"""The pages that tools/ generates are what the tools would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scripts import script

DOCS = Path(__file__).resolve().parent.parent / "docs"
TOOLS = {
    "make_code_pages": "codes",
    "make_operation_pages": "operations",
    "make_targets_pages": "targets",
    "make_verb_pages": "verbs",
}  # a tool, and the folder in which all pages are its own


SLOW = pytest.mark.thorough  # 240 layers are lowered


@pytest.mark.parametrize(
    "tool", [pytest.param(t, marks=SLOW if t == "make_targets_pages" else ()) for t in TOOLS]
)
def test_pages_are_what_the_tool_writes(tool: str) -> None:
    if tool == "make_verb_pages":
        pytest.importorskip("onnx")  # the example of `convert`
    pages = script(tool).pages()
    stale = [str(p) for p, text in pages.items() if not p.exists() or p.read_text("utf-8") != text]
    assert stale == [], "make pages"
    assert set((DOCS / TOOLS[tool]).rglob("*")) <= set(pages), "a page of something that is gone"


def test_the_faults_of_runtimes_are_listed() -> None:
    (page,) = script("make_faults_table").pages().items()
    assert page[0].read_text("utf-8") == page[1], "make pages"
