"""Where commands write: results to stdout, logs to stderr, colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from irdeconv.wrapping import printable

Part = str | tuple[str, str]  # text, or (text, style of rich such as "bold red")


class Console:
    """Writes one command's results and logs.

    `format` is the value of `--format`. A pipe that the reader has closed is not an error: what
    follows is dropped and the exit code stays that of the answer.
    """

    def __init__(
        self,
        format: str = "text",
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        quiet: bool = False,
    ) -> None:
        self.format = format
        self.quiet = quiet
        # Started with a closed descriptor, Python has no stream at all.
        self.out = out or sys.stdout or open(os.devnull, "w")  # noqa: SIM115
        self.err = err or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        for stream in (self.out, self.err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @property
    def wants_json(self) -> bool:
        """Whether the result is machine-readable JSON."""
        return self.format == "json"

    def text(self, *parts: Part) -> None:
        """Write one line (or several) of the result; beside a graph's text they are a log."""
        if self.format == "ir":
            self.log(*parts)
        else:
            self._write(self.out, self._join(self.out, parts) + "\n")

    def json(self, verb: str, content: Mapping[str, Any]) -> None:
        """Write the result as JSON with its schema; NaN and infinities become strings."""
        document = {"schema": f"irdeconv/{verb}/1", **content}
        self.raw(json.dumps(_finite(document), indent=1) + "\n")

    def raw(self, text: str) -> None:
        """Write text to stdout as it is."""
        self._write(self.out, text)

    def log(self, *parts: Part) -> None:
        """Write one line to stderr; nothing with `--quiet`."""
        if not self.quiet:
            self.error(*parts)

    def error(self, *parts: Part) -> None:
        """Write one line to stderr, also with `--quiet`."""
        self._write(self.err, self._join(self.err, parts) + "\n")

    def _join(self, stream: TextIO, parts: tuple[Part, ...]) -> str:
        coloured = has_colour(stream)
        out = []
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            text = printable(text)
            out.append(paint(text, style) if style and coloured else text)
        return "".join(out)

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            discard(stream)
        except OSError:
            discard(stream)
            raise


def has_colour(stream: TextIO) -> bool:
    """Whether colours may be used: a capable terminal, and NO_COLOR is unset or empty."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, style: str) -> str:
    """Return the text with the ANSI codes of a style."""
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


def discard(stream: TextIO) -> None:
    """Send what is still written to a stream to nowhere."""
    # The interpreter flushes stdout once more at exit; it must find an open file.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
