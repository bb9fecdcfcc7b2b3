"""Terminals by way of rich: its colour systems, Windows' consoles, bars for open stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from irdeconv.base.progress import Stage
from irdeconv.base.tables import printable


class Screen(RichConsole):
    """A console of rich that shows text as it is: markup, emoji and numbers in it are foreign.

    The caller has decided that colours are wanted. The cursor stays visible: a killed process could
    not bring it back.
    """

    def __init__(self, stream: TextIO) -> None:
        dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
        super().__init__(
            file=stream,
            color_system="standard" if dumb else "auto",
            force_terminal=True,
            no_color=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def show(self, pieces: list[tuple[str, str]]) -> None:
        """Write styled text and a newline."""
        self.print(Text.assemble(*pieces), soft_wrap=True)

    def show_cursor(self, show: bool = True) -> bool:
        """Leave the cursor alone."""
        return False

    def on_broken_pipe(self) -> None:
        """Raise the error in the writer, instead of ending the process."""
        raise


MINUTE = 60
HOUR = 3600


class Remaining(ProgressColumn):
    """How long a stage will take; how long it has taken if its end is unknown."""

    def render(self, task: Task) -> Text:
        """Return `12 s left` or `12 s`."""
        left = task.time_remaining if task.total is not None else None
        return Text(duration(task.elapsed or 0.0) if left is None else f"{duration(left)} left")


class Bars:
    """A line for each open stage, drawn over when it changes and removed at the end."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._tasks: dict[Stage, TaskID] = {}
        detail = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[amount]}", markup=False),
            Remaining(),
            TextColumn("{task.fields[detail]}", markup=False, table_column=detail),
            console=Screen(stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=clock,
            expand=True,
        )
        self._progress.start()

    def show(self, stages: Mapping[Stage, float]) -> None:
        """Draw the stages as they are now, with the times at which they began."""
        for stage in [s for s in self._tasks if s not in stages]:
            self._progress.remove_task(self._tasks.pop(stage))
        for stage, since in stages.items():
            if stage not in self._tasks:
                label = printable(stage.what)
                task = self._progress.add_task(label, total=stage.total, amount="", detail="")
                self._tasks[stage] = task
                self._progress.tasks[-1].start_time = since
            done, amount = stage.done, f"{stage.done:,}" if stage.done else ""
            if stage.total is not None:
                done = min(done, stage.total)
                amount = f"{done:,}/{stage.total:,}"
            task, detail = self._tasks[stage], printable(stage.detail)
            self._progress.update(task, completed=done, amount=amount, detail=detail)
        self._progress.refresh()

    def stop(self) -> None:
        """Remove the lines."""
        self._progress.stop()


def duration(seconds: float) -> str:
    """Return `12 s`, `3 min` or `1.5 h`."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"
