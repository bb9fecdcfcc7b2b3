"""The faults of runtimes in docs/disagreements.md, from irdeconv/rewrite/runtime_faults.py."""

from __future__ import annotations

from pathlib import Path

from irdeconv.rewrite.runtime_faults import RUNTIME_FAULTS
from pages import DOCS, table, with_parts

COLUMNS = ("fault", "runtime", "versions", "what triggers it", "result", "instead")


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    rows = (
        f"| {f.name} | {f.runtime} | {f.versions} | {f.trigger} | {f.result} | {f.spelling} |"
        for f in RUNTIME_FAULTS
    )
    return with_parts(DOCS / "disagreements.md", {"faults": table(COLUMNS, rows)})
