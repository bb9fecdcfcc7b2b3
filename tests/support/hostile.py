"""Hostile files of tests: kept ones and those that are made."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irdeconv.cli.main import main
from support import irbuild as ib

# The corpus of hostile files: each with commands, and what they must answer.

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

        if "made" not in self.row:
            return FOLDER / "files" / self.row["file"]
        made: Path = globals()[self.row["made"]](folder)
        return made

    def arguments(self, folder: Path) -> list[str]:
        """Return the command's arguments; what it writes goes into a folder."""
        kept = str(FOLDER / "files")
        places = {"file": str(self.path(folder)), "files": kept, "out": str(folder / "out")}
        words = shlex.split(self.row["command"])
        form = () if "--format" in words else ("--format", "json")
        return [*(w.format(**places) for w in words), *form]

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


# Hostile files that are too large to keep; each function writes one into a folder.

X, ONE = (text.replace("\n", "") for text in (ib.parameter(0, "x", [3]), ib.result(1, "r1", ())))


def _net(folder: Path, layers: str, *ends: tuple[int, int, int, int]) -> Path:
    path = folder / "model.xml"
    path.write_text(ib.net([layers], *ends), "utf-8")
    path.with_suffix(".bin").write_bytes(b"")
    return path


def many_attributes(folder: Path) -> Path:
    """0.9 MB of attributes on one element."""
    more = " ".join(f'a{n}="1"' for n in range(90_000))
    layers = X.replace("<data ", f"<data {more} ") + ONE
    return _net(folder, layers, (0, 0, 1, 0))


def many_warnings(folder: Path) -> Path:
    """A layer with 100,000 unknown elements."""
    layers = X.replace("</output>", "<a/>" * 100_000 + "</output>") + ONE
    return _net(folder, layers, (0, 0, 1, 0))


def many_dims(folder: Path) -> Path:
    """A port of 60,000 dimensions."""
    layers = X.replace("<dim>3</dim>", "<dim>3</dim>" * 60_000) + ONE
    return _net(folder, layers, (0, 0, 1, 0))


def many_inputs(folder: Path) -> Path:
    """A Concat of 20,000 inputs."""
    number = 20_000
    ports = "".join(f'<port id="{n}"/>' for n in range(number))
    concat = (
        f'<layer id="1" name="c" type="Concat" version="opset1"><data axis="0"/><input>{ports}'
        f'</input><output><port id="{number}" precision="FP32"/></output></layer>'
    )
    ends = [*((0, 0, 1, n) for n in range(number)), (1, number, 2, 0)]
    return _net(folder, ib.parameter(0, "x", [1]) + concat + ib.result(2, "r2", ()), *ends)


def bad_layers_on_a_line(folder: Path) -> Path:
    """20,000 layers of an unknown type on one line."""
    bad = "".join(f'<layer id="{n}" type="Nope" version="opset1"/>' for n in range(2, 20_002))
    return _net(folder, X + ONE + bad, (0, 0, 1, 0))


def nested_elements(folder: Path) -> Path:
    """20,000 elements in one another."""
    deep = "<a>" * 20_000 + "</a>" * 20_000
    return _net(folder, X + ONE + deep, (0, 0, 1, 0))


def nested_bodies(folder: Path) -> Path:
    """20,000 bodies in one another."""
    opened = '<layer id="1" name="l" type="TensorIterator" version="opset1"><body><layers>'
    deep = opened * 20_000 + "</layers></body></layer>" * 20_000
    return _net(folder, X + deep)
