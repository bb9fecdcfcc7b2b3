"""The console: how wide it writes, and when in colour."""

import fcntl
import io
import os
import pty
import struct
import termios

import pytest

from irdeconv.base.errors import Diagnostic
from irdeconv.base.source import Location, SourceFile
from irdeconv.cli.console import Console, has_colour, width_of
from irdeconv.cli.diagnostics import parts
from support.commands import Patch
from support.rows import each_row

pytestmark = pytest.mark.usefixtures("pipe")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "width"), [("60", 60), ("5", 20), ("0", 80), ("", 80), ("x", 80), ("9" * 99, 80)]
)
def test_columns_say_how_wide_it_is(columns: str, width: int, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width_of(io.StringIO()) == width


def test_a_terminal_knows_its_width() -> None:
    mine, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, os.fdopen(mine):
        assert width_of(stream) == 80  # a new one has no size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 101, 0, 0))
        assert width_of(stream) == 101


@pytest.mark.parametrize(
    ("environment", "color", "terminal", "expected"),
    [
        ({}, "auto", True, True),
        ({}, "auto", False, False),
        ({"NO_COLOR": "1"}, "auto", True, False),
        ({"NO_COLOR": ""}, "auto", True, True),
        ({"FORCE_COLOR": "1"}, "auto", False, True),
        ({"FORCE_COLOR": ""}, "auto", False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", True, False),
        ({"TERM": "dumb"}, "auto", True, False),
        ({"NO_COLOR": "1", "TERM": "dumb"}, "always", False, True),
        ({"FORCE_COLOR": "1"}, "never", True, False),
    ],
)
def test_colours_where_they_are_wanted(
    environment: dict[str, str], color: str, terminal: bool, expected: bool, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert has_colour(stream, color) is expected
    Console(out=stream, color=color).text("the ", ("[bold] :smile: 12", "bold red"), " end")
    red = "\x1b[1;31m[bold] :smile: 12\x1b[0m" if expected else "[bold] :smile: 12"
    assert stream.getvalue() == f"the {red} end\n"


def test_styled_lines_are_broken_as_plain_ones_are(monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    styled = [("error: ", "bold"), "the input ", ('"a name"', "red"), " is ", "not there"]
    plain = "error: the input\n    \"a name\" is not\n    there\n"  # fmt: skip
    for color in ("never", "always"):
        stream = io.StringIO()
        Console(err=stream, color=color).error(*styled)
        shown = stream.getvalue()
        for code in ("\x1b[1m", "\x1b[31m", "\x1b[0m"):
            assert (code in shown) is (color == "always")
            shown = shown.replace(code, "")
        assert shown == plain


@pytest.mark.parametrize("color", ["never", "always"])
def test_no_word_is_wider_than_a_terminal(color: str, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    for stream, folded in ((Terminal(), True), (io.StringIO(), False)):
        Console(err=stream, color=color).error("see ", ("/a/long/way/to/it" * 3, "bold"), " now")
        shown = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert "".join(shown.split()) == "see" + "/a/long/way/to/it" * 3 + "now"
        assert (max(map(len, shown.splitlines())) <= 20) is folded


@each_row("width", [40, 60, 80])
@each_row("column", [1, 30, 150, 290])
def test_a_source_line_is_clipped_around_its_caret(width: int, column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(300))
    place = Location(SourceFile("n.xml", f"\n{line}\n".encode()), fixed=(2, column))
    shown = parts(Diagnostic("E100", "error", "bad", place, hint=""), width)
    text = "".join(p if isinstance(p, str) else p[0] for p in shown).split("\n")
    assert len(text[1]) <= width
    assert text[1][text[2].index("^")] == line[column - 1]
    assert text[1].endswith("...") is (column < 290)
    assert (text[1][7:10] == "...") is (column > 30 or (column == 30 and width < 80))
