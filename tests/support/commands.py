"""A verb of the command line, called in this process."""

from __future__ import annotations

from irdeconv.cli.main import main


def command(*args: object) -> int:
    """`irdeconv ARGS`; returns the exit code."""
    return main([str(a) for a in args])
