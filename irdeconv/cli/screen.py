"""Terminals by way of rich: its colour systems, Windows' consoles."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console as RichConsole
from rich.text import Text


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
