"""Verbs of the command line, called in this process."""

import io
import json
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from irdeconv.cli.main import main
from irdeconv.ir.dtypes import ELEMENT_TYPES

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def command(*args: object) -> int:
    """`irdeconv ARGS`; returns the exit code."""
    return main([str(a) for a in args])


class Answer(NamedTuple):
    """What a command prints."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """Everything on one line."""
        return " ".join((self.out + self.err).split())


def printed(line: str, codes: tuple[int, ...] | None = None) -> str:
    """Run `irdeconv ...`, and return logs and results in their order, as a pipe of 80 columns has.

    `codes` are the exit codes that are meant to come.
    """
    program, *arguments = shlex.split(line)
    assert program == "irdeconv", line
    screen = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setattr(sys, "stdout", screen)
        patch.setattr(sys, "stderr", screen)
        code = main(arguments)
    assert codes is None or code in codes, (line, code, screen.getvalue())
    return "".join(f"{text.rstrip()}\n" for text in screen.getvalue().splitlines())


def answer(*args: object, code: int = 0) -> Answer:
    """`irdeconv ARGS`, which has to end with that exit code."""
    screens = [
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in "oe"
    ]
    with redirect_stdout(screens[0]), redirect_stderr(screens[1]):
        found = command(*args)
    out, err = (screen.buffer.getvalue().decode() for screen in screens)  # type: ignore[attr-defined]
    assert found == code, f"exit code {found}, not {code}: {err}"
    return Answer(out, err)


def write_files(files: dict[str, str], folder: Path) -> None:
    """Write files by their names; one with an element type behind it is of numbers."""
    for name, body in files.items():
        file, _, element_type = name.partition(" ")
        if element_type:
            numbers = np.array(body.split(), ELEMENT_TYPES[element_type].container)
            (folder / file).write_bytes(numbers.tobytes())
        else:
            (folder / file).write_text(body, "utf-8")
