"""Commands with their whole output: the files of tests/golden.

The first line is the command. Sections follow, each begun by `--- name`: input files (`net.bin f32`
holds the numbers of a weights file), then `stdout`, `stderr` and `exit`, left out where empty or 0.
`pytest --update` rewrites what is expected.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from irdeconv import __version__
from irdeconv.cli.main import main

FILES = sorted((Path(__file__).parent / "golden").glob("*.txt"))
EXPECTED = ("stdout", "stderr", "exit")


def sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the command and the sections by name."""
    head, *parts = text.split("\n--- ")
    assert head.startswith("$ irdeconv ")
    split = [part.partition("\n") for part in parts]
    return head[2:], {name: body for name, _, body in split}


def joined(command: str, parts: dict[str, str]) -> str:
    """Return the text of a golden file."""
    bodies = [f"--- {name}\n{body}".rstrip("\n") + "\n" for name, body in parts.items()]
    return "".join([f"$ {command}\n", *bodies])


def write_inputs(folder: Path, parts: dict[str, str]) -> None:
    """Write the embedded input files."""
    for name, body in parts.items():
        file, _, dtype = name.partition(" ")
        if dtype:
            numbers = np.array(body.split(), {"f32": np.float32, "i64": np.int64}[dtype])
            (folder / file).write_bytes(numbers.tobytes())
        else:
            (folder / file).write_text(body + "\n")


def run(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Run the command and return what it printed and its exit code."""
    code = main(shlex.split(command)[1:])
    captured = capsys.readouterr()
    shown = {"stdout": captured.out, "stderr": captured.err, "exit": str(code) if code else ""}
    return {
        k: v.replace(f'"{__version__}"', '"VERSION"').rstrip("\n") for k, v in shown.items() if v
    }


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_golden(
    file: Path,
    update: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, parts = sections(file.read_text("utf-8"))
    inputs = {k: v for k, v in parts.items() if k not in EXPECTED}
    write_inputs(tmp_path, inputs)
    monkeypatch.chdir(tmp_path)
    text = joined(command, inputs | run(command, capsys))
    if update:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_there_are_golden_files() -> None:
    assert len(FILES) > 10
