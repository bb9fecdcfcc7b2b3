"""The faults of runtimes in docs/disagreements.md, from irdeconv/rewrite/runtime_faults.toml."""

from __future__ import annotations

from pathlib import Path

from irdeconv.rewrite.runtime_faults import FAULTS
from pages import DOCS, table, with_parts

COLUMNS = ("fault", "runtime", "versions", "what triggers it", "result", "instead")


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    parts: dict[str, list[tuple[str, ...]]] = {"faults": [], "refused_faults": []}
    for f in FAULTS.values():
        row = f.name, f.runtime, f.versions, f.trigger, f.result, f.spelling
        parts["faults" if "int8" in f.runtime else "refused_faults"].append(row)
    made = {name: table(COLUMNS, rows) for name, rows in parts.items()}
    return with_parts(DOCS / "disagreements.md", made)
