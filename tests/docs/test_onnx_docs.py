"""docs/onnx.md lists what the importer reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import irdeconv.formats.onnx_reader  # noqa: F401 -- importing fills RULES
from irdeconv.formats.onnx_node import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx.md"


def listed(mark: str) -> list[str]:
    """Return the names behind a mark, in order."""
    found = (
        PAGE.read_text("utf-8").partition(f"<!-- operations: {mark} -->")[2].partition("<!--")[0]
    )
    return [word.strip(" .\n") for word in found.split(",")]


def test_the_page_lists_the_operations_of_microsoft() -> None:
    assert listed("com.microsoft") == sorted(t for d, t in RULES if d == "com.microsoft")


def test_the_page_lists_those_of_the_other_domains() -> None:
    said = PAGE.read_text("utf-8").rpartition("<!--")[2]
    others = {(d, t) for d, t in RULES if d not in ("", "com.microsoft")}
    assert all(f"`{d}`" in said and t in said for d, t in others)


def test_the_page_lists_what_is_refused_of_the_standard() -> None:
    defs = pytest.importorskip("onnx.defs")
    every = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    defined = {s.name for s in every if s.has_function or s.has_context_dependent_function}
    refused = {s.name for s in every} - defined - {t for d, t in RULES if not d}
    assert listed("refused") == sorted(refused)
    old = {
        (s.name, s.since_version)
        for s in every
        if ("", s.name) in RULES and s.name not in defined and not s.deprecated
        if s.since_version not in RULES["", s.name].versions
    }
    assert old == {("Scan", 8), ("Split", 1), ("Tile", 1), ("Upsample", 1)}
