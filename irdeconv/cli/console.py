"""Output of commands: results to stdout, logs and progress to stderr, as wide as the terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, TextIO

from irdeconv.base import progress
from irdeconv.base.json_form import Record, finite
from irdeconv.base.tables import WIDTH, Break, breaks, printable

if TYPE_CHECKING:
    from irdeconv.cli.screen import Bars

Part = str | tuple[str, str]  # text, or (text, style of rich such as "bold red")

NARROWEST = 20  # columns; a smaller width is an error of the terminal
SHORT = 1.0  # seconds that pass before progress is shown
INTERVAL = 0.2  # seconds between two looks at the stages


class Console:
    """Writes one command's results and logs.

    `format` is the value of `--format`, `color` of `--color`. Lines that are too long are broken at
    spaces. A pipe that the reader has closed is not an error: the rest is dropped and the exit
    code stays that of the answer.
    """

    def __init__(
        self,
        format: str = "text",
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        quiet: bool = False,
        color: str = "auto",
    ) -> None:
        self.format = format
        self.quiet = quiet
        self.color = color
        self.before_writing: Callable[[], None] = lambda: None  # removes progress bars
        # Started with a closed descriptor, Python has no stream at all.
        self.out = out or sys.stdout or open(os.devnull, "w")  # noqa: SIM115
        self.err = err or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        for stream in (self.out, self.err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @property
    def width(self) -> int:
        """The columns that a line of the result may take."""
        return self.log_width if self.format == "ir" else width_of(self.out)

    @property
    def log_width(self) -> int:
        """The columns that a line of the logs may take."""
        return width_of(self.err)

    @property
    def wants_json(self) -> bool:
        """Whether the result is machine-readable JSON."""
        return self.format == "json"

    def text(self, *parts: Part) -> None:
        """Write one line (or several) of the result; beside a graph's text they are a log."""
        if self.format == "ir":
            self.log(*parts)
        else:
            self._show(self.out, parts)

    def json(self, document: Record) -> None:
        """Write the result as JSON; NaN and infinities become strings."""
        self.raw(json.dumps(finite(document.to_dict()), indent=1) + "\n")

    def raw(self, text: str) -> None:
        """Write text to stdout as it is."""
        self._write(self.out, text)

    def log(self, *parts: Part) -> None:
        """Write one line to stderr; nothing with `--quiet`."""
        if not self.quiet:
            self.error(*parts)

    def error(self, *parts: Part) -> None:
        """Write one line to stderr, also with `--quiet`."""
        self._show(self.err, parts)

    def _show(self, stream: TextIO, parts: tuple[Part, ...]) -> None:
        pairs = ((p, "") if isinstance(p, str) else p for p in parts)
        styled = [(printable(text), style) for text, style in pairs]
        text = "".join(text for text, _ in styled)
        cuts = breaks(text, width_of(stream), fold=stream.isatty())
        pieces = list(_broken(styled, cuts))
        if any(style for _, style in pieces) and has_colour(stream, self.color):
            from irdeconv.cli.screen import Screen

            self.before_writing()
            with _closing_quietly(stream):
                Screen(stream).show(pieces)
        else:
            self._write(stream, "".join(text for text, _ in pieces) + "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        self.before_writing()
        with _closing_quietly(stream):
            stream.write(text)
            stream.flush()


@dataclass(eq=False, repr=False)
class Answer:
    """A verb's answer, as a JSON document and as text, and its exit code."""

    document: Callable[[], Record]
    text: Callable[[], object]
    code: int = 0

    def shown(self, console: Console) -> int:
        """Write it as --format says; return the exit code."""
        if console.wants_json:
            console.json(self.document())
        else:
            self.text()
        return self.code


def _broken(parts: list[tuple[str, str]], cuts: list[Break]) -> Iterator[tuple[str, str]]:
    """Yield styled text with the breaks of the whole text in it."""
    start = 0
    for text, style in parts:
        end, at = start + len(text), start
        for cut in cuts:
            if start <= cut.start < end:
                yield text[at - start : cut.start - start], style
                yield "\n" + " " * cut.indent, ""
            if start < cut.end <= end or start <= cut.start < end:
                at = max(at, min(cut.end, end))
        yield text[at - start :], style
        start = end


@contextmanager
def _closing_quietly(stream: TextIO) -> Iterator[None]:
    """Send the rest of a stream to nowhere once it cannot be written; a closed pipe is quiet."""
    try:
        yield
    except BrokenPipeError:
        discard(stream)
    except OSError as e:
        discard(stream)
        e.filename = getattr(stream, "name", None)
        raise


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream goes to: COLUMNS, its own, or 80."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdecimal() and len(asked) < 6:
        return max(int(asked), NARROWEST) if int(asked) else WIDTH
    try:
        wide = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal, no file
        return WIDTH
    return max(wide, NARROWEST) if wide else WIDTH


def has_colour(stream: TextIO, color: str = "auto") -> bool:
    """Whether colours may be used: by --color, else NO_COLOR, FORCE_COLOR, a terminal."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def discard(stream: TextIO) -> None:
    """Send all further output of a stream to nowhere."""
    # The interpreter flushes stdout once more at exit; it must find an open file.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


class Drawing:
    """Draws the open stages on a terminal, below everything else, and removes them again."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._since = clock()
        self._stages: dict[progress.Stage, float] = {}  # when they began
        self._bars: Bars | None = None
        self._lock = RLock()

    def begin(self, stage: progress.Stage) -> None:
        """Draw a stage from the next look on."""
        with self._lock:
            self._stages[stage] = self._clock()

    def end(self, stage: progress.Stage) -> None:
        """Forget a stage; nothing stays on the terminal while none is open."""
        with self._lock:
            del self._stages[stage]
            if not self._stages:
                self.clear()

    def tick(self) -> None:
        """Draw the open stages, if all this takes long enough to be of interest."""
        if not self._stages or self._clock() - self._since < SHORT:
            return
        from irdeconv.cli.screen import Bars

        with self._lock:
            if self._stages:
                if self._bars is None:
                    self._bars = Bars(self._stream, self._clock)
                self._bars.show(self._stages)

    def clear(self) -> None:
        """Remove the drawing, so that something else can be written."""
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
                self._bars = None


@contextmanager
def drawn(console: Console) -> Iterator[None]:
    """Draw the progress of a command; only on a terminal, and not with --quiet."""
    if console.quiet or not console.err.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    drawing = Drawing(console.err)
    console.before_writing = drawing.clear
    try:
        with progress.listening(drawing), progress.repeating(drawing.tick, INTERVAL):
            yield
    finally:
        drawing.clear()
