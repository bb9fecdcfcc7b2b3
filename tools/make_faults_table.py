"""Write the rows of irdeconv/rewrite/runtime_faults.py into docs/disagreements.md.

Run it again when a fault has changed: python tools/make_faults_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from checkout import ROOT

from irdeconv.rewrite.runtime_faults import RUNTIME_FAULTS

PAGE = ROOT / "docs" / "disagreements.md"
ROWS = re.compile(r"(<!-- generated: faults -->\n).*?(<!-- end of the generated part -->)", re.S)
COLUMNS = ("fault", "runtime", "versions", "what triggers it", "result", "instead")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    rows = (
        f"| {f.name} | {f.runtime} | {f.versions} | {f.trigger} | {f.result} | {f.spelling} |\n"
        for f in RUNTIME_FAULTS
    )
    table = HEAD + "".join(rows)
    return {PAGE: ROWS.sub(lambda m: f"{m[1]}{table}{m[2]}", PAGE.read_text("utf-8"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
    print(f"{PAGE}: {len(RUNTIME_FAULTS)} faults")
