"""The steps of a demonstration: a line each, with a tick, what came of it, and the time it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from irdeconv.cli.console import Console
from irdeconv.wrapping import WIDTH

Clock = Callable[[], float]


@dataclass
class DemoStep:
    """One step: what came of it, whether it holds, and how long it took."""

    name: str
    text: str = ""
    passed: bool = True
    seconds: float = 0.0


class Steps:
    """Shows every step as soon as it is over; `--format json` shows nothing until the end."""

    def __init__(self, console: Console, clock: Clock = time.perf_counter) -> None:
        self.all: list[DemoStep] = []
        self._console = console
        self._clock = clock
        self._marks = _marks(console)

    @property
    def passed(self) -> bool:
        """Whether every step holds."""
        return all(step.passed for step in self.all)

    @contextmanager
    def step(self, name: str) -> Iterator[DemoStep]:
        """Do a step: its text and whether it holds are said in the body; an error shows no line."""
        step, start = DemoStep(name), self._clock()
        yield step
        step.seconds = self._clock() - start
        self.all.append(step)
        self._show(step)

    def announce(self, pieces: int, seconds: float) -> None:
        """Say how long the step that is under way will take."""
        self._console.log(f"enlarging {pieces:,} pieces takes about {duration_of(seconds)}")

    def _show(self, step: DemoStep) -> None:
        if self._console.wants_json:
            return
        mark, style = self._marks[step.passed]
        took = duration_of(step.seconds)
        text = f" {step.name:<9} {step.text}"
        gap = min(self._console.width, WIDTH) - len(mark) - len(text) - len(took)
        self._console.text((mark, style), text, " " * max(gap, 2), took)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the JSON form."""
        return [{**vars(s), "seconds": round(s.seconds, 3)} for s in self.all]


def duration_of(seconds: float) -> str:
    """Return `1.23 s`, `12.3 s`, `123 s`."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f} s"


def _marks(console: Console) -> dict[bool, tuple[str, str]]:
    """Return the marks of what fails and what holds, as far as the output has the letters."""
    try:
        "✓✗".encode(getattr(console.out, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return {True: ("ok  ", "green"), False: ("FAIL", "bold red")}
    return {True: ("✓", "green"), False: ("✗", "bold red")}
