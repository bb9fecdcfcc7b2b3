"""The script that looks at widths knows every verb, and sees what is too wide."""

from __future__ import annotations

from pathlib import Path

from irdeconv.cli.main import VERBS
from support.scripts import script

SCRIPT = script("check_terminal")


def test_every_verb_has_a_row() -> None:
    case = SCRIPT.Case(Path("m.xml"), ("a", "b"), Path())
    assert set(SCRIPT.rows(case)) == set(VERBS)


def test_what_is_too_wide_is_seen() -> None:
    widths = SCRIPT.Widths()
    widths.see("\x1b[1;31m" + "a " * 40 + "\x1b[0m\r\nshort\n", "run m.xml", terminal=True)
    assert widths.terminal[0] == 79
    assert SCRIPT.report({"run": widths}) == []
    widths.see("a " * 41 + "\n", "run m.xml", terminal=False)
    widths.see("  12  " + "name/" * 30, "run m.xml", terminal=True)
    assert (widths.pipe[0], widths.word[0], widths.terminal[0]) == (81, 156, 79)
    (wrong,) = SCRIPT.report({"run": widths})
    assert wrong.startswith("wider than 80: irdeconv run m.xml: a a")
