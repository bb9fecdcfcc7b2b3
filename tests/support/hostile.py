"""The corpus of hostile files: each with commands, and what they must answer.

`tests/hostile/expected.json` has a row for each: `file` in tests/hostile/files, or `made`, a name
in hostile_made.py for what is too large to keep; `command`, in which {file} and {out} stand for
paths, {files} for the folder of the others; `exit`, and `code`, `line` and `column` of the first
error, null where there is none.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irdeconv.cli.main import main

FOLDER = Path(__file__).resolve().parent.parent / "hostile"
EXPECTED = FOLDER / "expected.json"
ANSWER = ("exit", "code", "line", "column")


@dataclass(frozen=True)
class HostileCase:
    """A row of the corpus."""

    row: dict[str, Any]

    @property
    def name(self) -> str:
        """Return what tells it from the others."""
        return f"{self.row.get('file') or self.row['made']}: {self.row['command']}"

    @property
    def expected(self) -> tuple[Any, ...]:
        """Return what the command must answer."""
        return tuple(self.row[key] for key in ANSWER)

    def path(self, folder: Path) -> Path:
        """Return the file, which is made in a folder where it is not kept."""
        from support import hostile_made

        if "made" not in self.row:
            return FOLDER / "files" / self.row["file"]
        made: Path = getattr(hostile_made, self.row["made"])(folder)
        return made

    def arguments(self, folder: Path) -> list[str]:
        """Return the command's arguments; what it writes goes into a folder."""
        kept = str(FOLDER / "files")
        places = {"file": str(self.path(folder)), "files": kept, "out": str(folder / "out")}
        words = shlex.split(self.row["command"])
        return [*(w.format(**places) for w in words), "--format", "json"]

    def answer(self, folder: Path, capsys: Any) -> tuple[Any, ...]:
        """Run the command in this process; return its exit code and the first error's place."""
        exit_code = main(self.arguments(folder))
        printed = capsys.readouterr().out
        found = json.loads(printed).get("diagnostics", []) if printed.startswith("{") else []
        errors = [d for d in found if d["severity"] == "error"]
        first = errors[0] if errors else dict.fromkeys(ANSWER)
        return exit_code, first["code"], first["line"], first["column"]


def hostile_cases() -> list[HostileCase]:
    """Return the corpus in its order."""
    return [HostileCase(row) for row in json.loads(EXPECTED.read_text("utf-8"))]


def write_cases(rows: list[dict[str, Any]]) -> None:
    """Write the corpus, a row on a line."""
    lines = ",\n".join(f" {json.dumps(row, ensure_ascii=False)}" for row in rows)
    EXPECTED.write_text(f"[\n{lines}\n]\n", "utf-8")
