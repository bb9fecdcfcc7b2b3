"""Progress on stderr: the open stages, how far they are and how long they will take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, TextIO

from irdeconv.base import progress

if TYPE_CHECKING:
    from irdeconv.cli.console import Console
    from irdeconv.cli.rich_bars import Bars

SHORT = 1.0  # seconds that pass before anything is shown
INTERVAL = 0.2  # seconds between two looks at the stages


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
        from irdeconv.cli.rich_bars import Bars

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
