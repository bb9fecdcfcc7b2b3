"""How far a batch is, how fast, how long still: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from contextlib import ExitStack

from irdeconv import progress
from irdeconv.cli.bars import duration
from irdeconv.cli.console import Console

LINE_EVERY = 60.0  # seconds


class Pace:
    """Counts items that are done."""

    def __init__(
        self, items: Sized, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = len(items)
        self._console = console
        self._clock = clock
        self._done = 0
        self._since = self._said = clock()
        self._stack = ExitStack()

    def __enter__(self) -> Pace:
        stage = progress.stage("batch", self._total)
        self._advance = self._stack.enter_context(stage)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self, file: str) -> None:
        """Count one more item as done."""
        self._done += 1
        now = self._clock()
        rate = self._done / max(now - self._since, 1e-9)
        speed = f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each"
        self._advance(1, f"{speed}  {file}")
        if now - self._said >= LINE_EVERY and not self._console.err.isatty():
            self._said = now
            left = duration((self._total - self._done) / rate)
            self._console.log(f"{self._done:,} of {self._total:,} items, {speed}, {left} left")
