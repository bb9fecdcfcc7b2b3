"""Texts and plain tables that fit a width, and numbers in readable form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import NamedTuple

NARROW = 4  # columns of indent in front of text that needs the room
WIDTH = 80  # columns, if their number is unknown

# Names come from files. Nothing that prints them may obey them: control characters (C0, DEL, C1),
# those that end a line or turn the direction of the text behind them, so that text seems to stand
# elsewhere, and those that do not show, so that two names look alike (soft hyphens, zero-width
# characters, tags). Surrogates are no Unicode by themselves.
_UNSEEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")

# Unbroken pieces: a quoted name, and a word with the quoted names in it.
_WORD = re.compile(r'(?:"[^"]*"|[^\s"]|"(?!.*"))+')
# The indent of the next lines: a bullet or `= note:`, a term and the gap behind it.
_LEAD = re.compile(r" *(?:[-*=|] (?:note: |hint: )?)?")
_PIECE = re.compile(r"(?:[^-,/._]|(?<!\w)-)*(?:-|[,/._]*)")
_PLACE = re.compile(r".+:\d+:\d+\b")  # of a file, which is copied from a terminal
_TERM = re.compile(r" *\S+(?: \S+)? {2,}(?=\S)")


class Break(NamedTuple):
    """Characters `start` to `end` of a text give way to a new line with an indent."""

    start: int
    end: int
    indent: int


def printable(text: str) -> str:
    """Return the text with Python's escapes for invisible characters; tabs and newlines stay."""
    return _CONTROL.sub(lambda m: escaped(m[0]), text)


def one_line(text: str) -> str:
    """Return the text on one line, with Python's escapes for all invisible characters."""
    return printable(text).replace("\t", r"\t").replace("\n", r"\n")


def escaped_json(text: str) -> str:
    """Return JSON with escapes for invisible characters: it parses to the same value."""
    return _CONTROL.sub(lambda m: json.dumps(m.group())[1:-1], text)


def escaped(text: str) -> str:
    """Return the text as Python's escapes."""
    return text.encode("unicode_escape").decode()


def columns(text: str) -> int:
    """Return the number of terminal columns that a text of one line takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap(text: str, width: int = WIDTH, indent: int | None = None, *, fold: bool = False) -> str:
    """Return the text with long lines broken at spaces; the continuation lines are indented.

    Without `indent` they stand below the text of a bullet or of a term with its gap, else four
    columns further in. A quoted name is broken only if it does not fit on a line of its own, a
    word only with `fold`, and no place `file:line:column`: behind commas, slashes and so on, if
    possible.
    """
    at, out = 0, []
    for b in breaks(text, width, indent, fold=fold):
        out += [text[at : b.start], "\n", " " * b.indent]
        at = b.end
    return "".join([*out, text[at:]])


def breaks(
    text: str, width: int = WIDTH, indent: int | None = None, *, fold: bool = False
) -> list[Break]:
    """Return the breaks that `wrap` makes in a text."""
    out: list[Break] = []
    start = 0
    for line in text.split("\n"):
        if len(line) > width or (not line.isascii() and columns(line) > width):
            hang = _indent(line, width) if indent is None else indent
            out += _broken(line, start, width, hang, fold)
        start += len(line) + 1
    return out


def _indent(line: str, width: int) -> int:
    lead, term = _LEAD.match(line), _TERM.match(line)
    if term is not None and columns(term.group()) <= width // 2:
        return columns(term.group())
    assert lead is not None
    spaces = len(line) - len(line.lstrip(" "))
    return min(lead.end() if lead.end() > spaces else spaces + NARROW, width // 2)


def _broken(line: str, start: int, width: int, indent: int, fold: bool) -> Iterator[Break]:
    """Yield the breaks of one line that begins at `start` of its text."""
    here, before = 0, 0  # columns that are taken; the end of the word before
    lead = len(line) - len(line.lstrip(" ")) if fold else 0
    for first, last, whole in _words(line, width - max(lead, min(indent, NARROW)), fold):
        wide = columns(line[first:last])
        gap = first - before
        if before and here + gap + wide > width:
            room = indent if whole and indent + wide <= width else min(indent, NARROW)
            yield Break(start + before, start + first, room)
            here = room + wide
        else:
            here += gap + wide
        before = last


def _words(line: str, width: int, fold: bool) -> Iterator[tuple[int, int, bool]]:
    """Yield begin and end of each unbroken piece, and whether it is more than a part of a word.

    Quoted text that fits nowhere becomes words.
    """
    for match in _WORD.finditer(line):
        if columns(match.group()) <= width:
            yield *match.span(), True
            continue
        for word in re.finditer(r"\S+", match.group()):
            at, text = match.start() + word.start(), word.group()
            pieces = list(_pieces(text, width)) if fold and not _PLACE.match(text) else [text]
            for piece in pieces:
                yield at, at + len(piece), len(pieces) == 1
                at += len(piece)


def _pieces(word: str, width: int) -> Iterator[str]:
    piece = ""
    for part in _PIECE.findall(word):
        if piece and columns(piece + part) > width:
            yield piece
            piece = ""
        for letter in part:
            if piece and columns(piece + letter) > width:
                yield piece
                piece = ""
            piece += letter
    yield piece


NAMES = ("name", "layer", "tensor", "input", "deconvolution", "file")
# Heads, rows, and the heads of columns that are aligned right.
Table = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]
GAP = 2  # columns between two cells
CARD = 4  # indent of the lines of a card
PROSE = 24  # columns that longer texts keep at least, and names, too
USUAL = 0.8  # of the names have to fit into their column; longer ones get a line of their own


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    *,
    names: Sequence[str] = NAMES,
    width: int = WIDTH,
) -> str:
    """Return aligned columns under a header and a rule, in lines of at most `width` columns.

    `right` and `names` are heads: of right-aligned columns, and of columns with names that users
    may paste, which are never broken. If a name is too long for its column, the rest of its row
    follows on the next line. Other cells are wrapped at spaces. If that does not suffice, every row
    becomes a card: its first name, and below it the other cells with their heads.
    """
    # Not rich.table: it breaks names anywhere, and 20,000 rows take it 15 s.
    cells = [[flat(cell) for cell in row] for row in rows]
    band = [
        _TableColumn([row[i] for row in cells], name, right=name in right, name=name in names)
        for i, name in enumerate(head)
    ]
    if not _place(band, width):
        return "\n".join(_cards(head, cells, names, width))
    rule = (" " * GAP).join("-" * column.width for column in band)
    lines = [*_row(band, head, width, header=True), rule]
    for row in cells:
        lines += _row(band, row, width)
    return "\n".join(lines)


def _cards(
    head: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str], width: int
) -> Iterator[str]:
    """Yield each row as its first name, if it is a new one, and lines of `head: cell` below it."""
    main = next((i for i, name in enumerate(head) if name in names), 0)
    before = ""
    for row in rows:
        title = row[main] if head[main] == "name" else f"{head[main]} {row[main]}"
        if title != before:
            yield title if columns(title) <= width else row[main]
        before = title
        line = " " * CARD
        for i, (name, cell) in enumerate(zip(head, row, strict=True)):
            if i == main or not cell:
                continue
            text = f"{name}: {cell}" if name else cell
            if line.strip() and columns(line) + columns(text) > width:
                yield line.rstrip()
                line = " " * CARD
            *full, last = wrap(text, width - 2 * CARD, 0, fold=True).split("\n")
            for part in full:
                yield line + part
                line = " " * 2 * CARD
            line += last + " " * GAP
        if line.strip():
            yield line.rstrip()


def flat(text: str) -> str:
    """Return the text on one line, without characters that a terminal obeys."""
    return printable(text.replace("\n", "\\n").replace("\t", " "))


class _TableColumn:
    """A column with its preferred and least widths; `_place` sets its begin `at`, and `width`."""

    def __init__(self, cells: Sequence[str], head: str, *, right: bool, name: bool) -> None:
        self.right = right
        self.name = name
        self._cells = cells
        self._head = head
        self._wide = [columns(c) for c in cells]
        self.natural = self.width = max(columns(head), *self._wide, 0)
        self.at = 0

    @cached_property
    def least(self) -> int:
        """Return the narrowest width at which cells still read well."""
        heading = max(map(columns, self._head.split(" ")))
        if self.name:
            usual = sorted(self._wide)[int(USUAL * (len(self._wide) - 1))] if self._wide else 0
            return max(heading, usual)
        words = max((columns(w) for c in self._cells for w in c.split(" ")), default=0)
        numbers = max(self._wide, default=0) if self.right else 0
        return max(heading, words, numbers, min(max(self._wide, default=0), PROSE))

    def useful(self, width: int) -> int:
        """Return the useful part of a width: for a column of names, the longest name that fits."""
        if self.name:
            return max((w for w in self._wide if w <= width), default=0)
        return min(self.natural, width)


def _place(band: Sequence[_TableColumn], width: int) -> bool:
    """Place the columns side by side; whether they fit."""
    if sum(column.width + GAP for column in band) - GAP > width:
        for i, column in enumerate(band):
            column.width = _least(band[:i], column, width)
        left = width - sum(column.width + GAP for column in band) + GAP
        if left < 0:
            return False
        poor = sorted(band, key=lambda c: (not c.name, c.natural - c.width))
        for n, column in enumerate(poor):
            more = max(0, column.useful(column.width + left // (len(poor) - n)) - column.width)
            column.width += more
            left -= more
    for before, column in pairwise(band):
        column.at = before.at + before.width + GAP
    return True


def _least(before: Sequence[_TableColumn], column: _TableColumn, width: int) -> int:
    """Return the width that a column needs; names take the rest of the line."""
    left = width - sum(c.least + GAP for c in before)
    return min(column.least, left if column.name and left >= PROSE else width - CARD)


def _row(
    band: list[_TableColumn], row: Sequence[str], width: int, *, header: bool = False
) -> Iterator[str]:
    cells = list(row)
    for i, column in enumerate(band):
        if column.name and not header and columns(cells[i]) > column.width:
            before = _joined(band[:i], cells[:i])
            if column.at + columns(cells[i]) <= width and _short(band[:i], cells[:i]):
                yield before.ljust(column.at) + cells[i]
                cells[:i] = [""] * i
            else:
                yield cells[i]
            cells[i] = ""
    if _short(band, cells):
        if line := _joined(band, cells):
            yield line
        return
    parts = [
        wrap(c, column.width, 0, fold=True).split("\n")
        for c, column in zip(cells, band, strict=True)
    ]
    if header:  # heads stand on the rule
        high = max(map(len, parts))
        parts = [[""] * (high - len(part)) + part for part in parts]
    for several in zip_longest(*parts, fillvalue=""):
        yield _joined(band, several)


def _short(band: list[_TableColumn], cells: Sequence[str]) -> bool:
    return all(columns(cell) <= column.width for column, cell in zip(band, cells, strict=True))


def _joined(band: list[_TableColumn], cells: Sequence[str]) -> str:
    """Return one line of cells, each at its place."""
    line, here = [], 0
    for column, cell in zip(band, cells, strict=True):
        wide = columns(cell)
        start = max(column.at + (column.width - wide if column.right else 0), here)
        line += [" " * (start - here), cell]
        here = start + wide
    return "".join(line).rstrip()


def number(value: int | None) -> str:
    """Return `12,345`, or `?` if unknown."""
    return "?" if value is None else f"{value:,}"


def scaled(value: int | None, unit: str = "") -> str:
    """Return three digits with k, M, G, T; `?` if unknown."""
    if value is None:
        return "?"
    size, prefixes = float(value), ["", "k", "M", "G", "T"]
    while size >= 999.5 and prefixes[1:]:
        size /= 1000
        del prefixes[0]
    digits = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
    return f"{digits} {prefixes[0]}{unit}".rstrip()


def ratio(a: int | None, b: int | None) -> str:
    """Return `2.25x`, or an empty text if a number is unknown."""
    return f"{a / b:.2f}x" if a is not None and b else ""


def share(part: int, whole: int) -> str:
    """Return a percentage, empty if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else ""
