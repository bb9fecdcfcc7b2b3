"""Lines that fit a width: how wide a text is, where it may be broken, what must not be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

NARROW = 4  # columns of indent in front of what needs the room
WIDTH = 80  # columns, where nobody knows how many there are

# Names come from files. Nothing that prints them may obey them: control characters (C0, DEL, C1),
# those that end a line or turn the direction of what follows, so that text seems to stand
# elsewhere, and those that do not show, so that two names look alike (soft hyphens, zero-width
# characters, tags). Surrogates are no Unicode by themselves.
_UNSEEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_ANY_CONTROL = re.compile(f"[\x00-\x1f{_UNSEEN}]")

# What stays together: a quoted name, and a word with the quoted names in it.
_WORD = re.compile(r'(?:"[^"]*"|[^\s"]|"(?!.*"))+')
# What the next lines are indented by: a bullet or `= note:`, a term and the gap behind it.
_LEAD = re.compile(r" *(?:[-*=|] (?:note: |hint: )?)?")
_TERM = re.compile(r" *\S+(?: \S+)? {2,}(?=\S)")


class Break(NamedTuple):
    """Characters `start` to `end` of a text give way to a new line with an indent."""

    start: int
    end: int
    indent: int


def printable(text: str) -> str:
    """Return the text with escapes, as in Python, for what does not show; tabs, newlines stay."""
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    """Return the text on one line, with escapes, as in Python, for all that does not show."""
    return _ANY_CONTROL.sub(_escaped, text)


def escaped_json(text: str) -> str:
    """Return JSON with escapes for what does not show: it parses to the same value."""
    return _CONTROL.sub(lambda m: json.dumps(m.group())[1:-1], text)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()


def columns(text: str) -> int:
    """Return how many columns of a terminal a text of one line takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap(text: str, width: int = WIDTH, indent: int | None = None) -> str:
    """Return the text with lines that are too long broken at spaces; the next ones are indented.

    Without `indent` they stand below the text of a bullet or of a term with its gap, else four
    columns further in. A quoted name is broken only where it does not fit on a line of its own, a
    word never.
    """
    at, out = 0, []
    for b in breaks(text, width, indent):
        out += [text[at : b.start], "\n", " " * b.indent]
        at = b.end
    return "".join([*out, text[at:]])


def breaks(text: str, width: int = WIDTH, indent: int | None = None) -> list[Break]:
    """Return where `wrap` breaks a text."""
    out: list[Break] = []
    start = 0
    for line in text.split("\n"):
        if len(line) > width or (not line.isascii() and columns(line) > width):
            hang = _indent(line, width) if indent is None else indent
            out += _broken(line, start, width, hang)
        start += len(line) + 1
    return out


def _indent(line: str, width: int) -> int:
    lead, term = _LEAD.match(line), _TERM.match(line)
    if term is not None and columns(term.group()) <= width // 2:
        return columns(term.group())
    assert lead is not None
    spaces = len(line) - len(line.lstrip(" "))
    return min(lead.end() if lead.end() > spaces else spaces + NARROW, width // 2)


def _broken(line: str, start: int, width: int, indent: int) -> Iterator[Break]:
    """Yield the breaks of one line that begins at `start` of its text."""
    here, before = 0, 0  # columns that are taken; the end of the word before
    for first, last in _words(line, width - min(indent, NARROW)):
        wide = columns(line[first:last])
        gap = first - before
        if before and here + gap + wide > width:
            room = indent if indent + wide <= width else min(indent, NARROW)
            yield Break(start + before, start + first, room)
            here = room + wide
        else:
            here += gap + wide
        before = last


def _words(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of what is not broken; quoted text that fits nowhere falls into words."""
    for match in _WORD.finditer(line):
        if columns(match.group()) <= width or " " not in match.group():
            yield match.span()
        else:
            for word in re.finditer(r"\S+", match.group()):
                yield match.start() + word.start(), match.start() + word.end()
