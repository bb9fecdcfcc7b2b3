"""Plain text tables that fit a width, and numbers for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from irdeconv.wrapping import WIDTH, columns, printable, wrap

NAMES = ("name", "layer", "tensor", "input", "deconvolution", "file")
GAP = 2  # columns between two cells
FOLDED = 4  # by how much the second line of a row stands further in
PROSE = 24  # columns that longer texts keep at least, and names, too
USUAL = 0.8  # of the names have to fit into their column; longer ones get a line of their own

_PIECE = re.compile(r"[^,/._]+[,/._]*|[,/._]+")


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    *,
    names: Sequence[str] = NAMES,
    width: int = WIDTH,
) -> str:
    """Return aligned columns under a header and a rule, in lines of at most `width` columns.

    `right` and `names` are heads: of right-aligned columns, and of columns with names that somebody
    may paste, which are never broken. Where a name is too long for its column, the rest of its row
    follows on the next line. Other cells are wrapped at spaces; where that does not suffice, every
    row is folded to two or more lines, and so is the header.
    """
    # Not rich.table: it breaks names anywhere, and 20,000 rows take it 15 s.
    cells = [[flat(cell) for cell in row] for row in rows]
    sizes = [
        _Sizes([row[i] for row in cells], name, right=name in right, name=name in names)
        for i, name in enumerate(head)
    ]
    bands = _bands(sizes, width)
    lines = [*_row(bands, head, width, header=True), _rule(bands, width)]
    for row in cells:
        lines += _row(bands, row, width)
    return "\n".join(lines)


def flat(text: str) -> str:
    """Return the text on one line, without what a terminal would obey."""
    return printable(text.replace("\n", "\\n").replace("\t", " "))


class _Sizes:
    """How wide a column would like to be, and how wide it has to be."""

    def __init__(self, cells: Sequence[str], head: str, *, right: bool, name: bool) -> None:
        self.right = right
        self.name = name
        self._cells = cells
        self._head = head
        self._wide = [columns(c) for c in cells]
        self.natural = max(columns(head), *self._wide, 0)

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
        """Return the part of a width that is of use: to a column of names the longest that fits."""
        if self.name:
            return max((w for w in self._wide if w <= width), default=0)
        return min(self.natural, width)


@dataclass
class _Slot:
    """The place of a column: which one, where it begins and how wide it is."""

    column: int
    sizes: _Sizes
    width: int
    at: int = 0


def _bands(sizes: Sequence[_Sizes], width: int) -> list[list[_Slot]]:
    """Return the lines that every row takes, with the columns that stand there."""
    if sum(s.natural + GAP for s in sizes) - GAP <= width:
        return [_placed([_Slot(i, s, s.natural) for i, s in enumerate(sizes)], 0)]
    least = [_least(sizes[:i], s, width) for i, s in enumerate(sizes)]
    bands = _folded(sizes, least, width)
    for end in range(width - 1, 0, -1):  # as few lines as possible, of about the same length
        even = _folded(sizes, least, end)
        if len(even) > len(bands):
            break
        bands = even
    return [
        _placed(_widened(band, width - FOLDED * (n > 0)), FOLDED * (n > 0))
        for n, band in enumerate(bands)
    ]


def _least(before: Sequence[_Sizes], sizes: _Sizes, width: int) -> int:
    """Return the width that a column needs; names take what is left of the first line."""
    left = width - sum(s.least + GAP for s in before)
    return min(sizes.least, left if sizes.name and left >= PROSE else width - FOLDED)


def _folded(sizes: Sequence[_Sizes], least: Sequence[int], end: int) -> list[list[_Slot]]:
    """Return columns in lines that end before `end` where they can."""
    bands: list[list[_Slot]] = [[]]
    here = 0
    for i, s in enumerate(sizes):
        if bands[-1] and here + least[i] > end:
            bands.append([])
            here = FOLDED
        bands[-1].append(_Slot(i, s, least[i]))
        here += least[i] + GAP
    return bands


def _widened(band: list[_Slot], width: int) -> list[_Slot]:
    """Share what is left of a line among the columns that want more."""
    left = width - sum(slot.width + GAP for slot in band) + GAP
    poor = sorted(band, key=lambda slot: (not slot.sizes.name, slot.sizes.natural - slot.width))
    for n, slot in enumerate(poor):
        wider = slot.sizes.useful(slot.width + max(0, left) // (len(poor) - n))
        more = max(0, wider - slot.width)
        slot.width += more
        left -= more
    return band


def _placed(band: list[_Slot], at: int) -> list[_Slot]:
    for slot in band:
        slot.at = at
        at += slot.width + GAP
    return band


def _rule(bands: list[list[_Slot]], width: int) -> str:
    if len(bands) == 1:
        return (" " * GAP).join("-" * slot.width for slot in bands[0])
    return "-" * min(width, max(band[-1].at + band[-1].width for band in bands))


def _row(
    bands: list[list[_Slot]], row: Sequence[str], width: int, *, header: bool = False
) -> Iterator[str]:
    """Yield the lines of a row."""
    for band in bands:
        cells = [row[slot.column] for slot in band]
        for i, slot in enumerate(band):
            if slot.sizes.name and not header and columns(cells[i]) > slot.width:
                before = _joined(band[:i], cells[:i])
                if slot.at + columns(cells[i]) <= width and _short(band[:i], cells[:i]):
                    yield before.ljust(slot.at) + cells[i]
                    cells[:i] = [""] * i
                else:
                    yield cells[i]
                cells[i] = ""
        if _short(band, cells):
            line = _joined(band, cells)
            if line:
                yield line
        else:
            parts = [_wrapped(c, slot.width) for c, slot in zip(cells, band, strict=True)]
            if header:  # heads stand on the rule
                high = max(map(len, parts))
                parts = [[""] * (high - len(part)) + part for part in parts]
            for several in zip_longest(*parts, fillvalue=""):
                yield _joined(band, several)


def _short(band: list[_Slot], cells: Sequence[str]) -> bool:
    return all(columns(cell) <= slot.width for slot, cell in zip(band, cells, strict=True))


def _joined(band: list[_Slot], cells: Sequence[str]) -> str:
    """Return one line of cells, each at its place."""
    line, here = [], 0
    for slot, cell in zip(band, cells, strict=True):
        wide = columns(cell)
        start = max(slot.at + (slot.width - wide if slot.sizes.right else 0), here)
        line += [" " * (start - here), cell]
        here = start + wide
    return "".join(line).rstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    """Return a cell in lines; a word that is longer is broken behind commas, slashes and so on."""
    lines = []
    for line in wrap(cell, width, 0).split("\n"):
        while columns(line) > width:
            pieces, here = _PIECE.findall(line), 0
            fitting = 0
            for piece in pieces:
                if fitting and here + columns(piece) > width:
                    break
                here += columns(piece)
                fitting += len(piece)
            if fitting == len(line):
                break
            lines.append(line[:fitting])
            line = line[fitting:]
        lines.append(line)
    return lines


def number(value: int | None) -> str:
    """Return `12,345`, or `?` where unknown."""
    return "?" if value is None else f"{value:,}"


def scaled(value: int | None, unit: str = "") -> str:
    """Return three digits with k, M, G, T; `?` where unknown."""
    if value is None:
        return "?"
    size = float(value)
    for prefix in ("", "k", "M", "G", "T"):
        if size < 999.5 or prefix == "T":
            digits = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
            return f"{digits} {prefix}{unit}".rstrip()
        size /= 1000
    raise AssertionError


def share(part: int, whole: int) -> str:
    """Return a percentage, empty where the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else ""
