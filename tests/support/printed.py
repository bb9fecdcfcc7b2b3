"""What a command prints, as a pipe of 80 columns shows it."""

from __future__ import annotations

import io
import shlex
import sys

import pytest

from irdeconv.cli.main import main


def printed(line: str, codes: tuple[int, ...] | None = None) -> str:
    """Run `irdeconv ...` in this process and return logs and results in their order.

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
