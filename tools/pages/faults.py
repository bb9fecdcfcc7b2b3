"""The faults of runtimes in docs/disagreements.md, from irdeconv/rewrite/runtime_faults.py."""

from __future__ import annotations

from pathlib import Path

from irdeconv.rewrite import runtime_faults
from pages import DOCS, table, with_parts

COLUMNS = ("fault", "runtime", "versions", "what triggers it", "result", "instead")


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    parts: dict[str, list[tuple[str, ...]]] = {"faults": [], "refused_faults": []}
    every = vars(runtime_faults).values()
    for f in (f for f in every if isinstance(f, runtime_faults.RuntimeFault)):
        row = f.name, f.runtime, f.versions, f.trigger, f.result, f.spelling
        parts["faults" if "int8" in f.runtime else "refused_faults"].append(row)
    made = {name: table(COLUMNS, rows) for name, rows in parts.items()}
    return with_parts(DOCS / "disagreements.md", made)
