"""A verb of the command line, called in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from irdeconv.cli.main import main


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
