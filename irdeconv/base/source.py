"""Places in IR files: the bytes of a file, positions of its elements, caret rendering.

Readers record cheap anchors (section, ordinal, descendant number). Line and column are computed
only when a diagnostic needs them: one pass of expat over the same bytes, matched by document order,
because lxml knows no columns and reports the line on which a tag ends.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple
from xml.parsers import expat

from irdeconv.base.tables import WIDTH

MARK = "..."  # replaces the rest of a line


class Anchor(NamedTuple):
    """An element of an IR file, named without reading positions.

    `section` is the tag of the child of `<net>` (layers, edges, ...; empty for `<net>` itself),
    `item` the ordinal of the grandchild in it (-1: the section element itself), `sub` the
    document-order number of a descendant below that grandchild (0: the grandchild itself).
    """

    section: str = ""
    item: int = -1
    sub: int = 0


class Position(NamedTuple):
    """A resolved place: line and column from 1, byte offset from 0."""

    line: int
    column: int
    offset: int


@dataclass(eq=False)
class SourceFile:
    """The bytes of one file and the lazily computed positions of its elements."""

    path: str
    data: bytes = field(repr=False)
    _outline: _Outline | None = field(default=None, repr=False)
    _lines: list[bytes] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_outline": None}  # a parser cannot be copied

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    def position(self, anchor: Anchor) -> Position | None:
        """Return the position of the element, or None if the file ends before it."""
        if self._outline is None:
            self._outline = _Outline(self.data)
        return self._outline.position(anchor)

    def attribute_at(self, start: Position, attribute: str) -> Position:
        """Return the position of an attribute of the element that begins there or its `<data>`.

        Without such an attribute it is the position of the element.
        """
        tag = _START_TAG.match(self.data, start.offset)
        if tag is None:
            return start
        name = re.compile(rb"\s(" + re.escape(attribute.encode()) + rb")\s*=")
        found = name.search(self.data, tag.start(), tag.end())
        if found is None:
            data = _DATA_TAG.match(self.data, tag.end())
            found = name.search(self.data, data.start(1), data.end()) if data else None
        if found is None:
            return start
        offset = found.start(1)
        before = self.data[start.offset : offset]
        *lines, last = before.split(b"\n")
        column = (1 if lines else start.column) + len(last.decode("utf-8", "replace"))
        return Position(start.line + len(lines), column, offset)

    def line(self, number: int) -> str | None:
        """Return the text of a line (from 1), or None if there is no such line."""
        if self._lines is None:
            # As XML counts lines: bytes.splitlines would also split at a lone form feed.
            self._lines = re.split(rb"\r\n|\n|\r", self.data)
        if not 1 <= number <= len(self._lines):
            return None
        return self._lines[number - 1].decode("utf-8", "replace")


_TAG = rb"<[^\s/>]+(?:\s+[^\s=>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*"
_START_TAG = re.compile(_TAG)
# Comments are passed for good (*+): to try other ends of them would take time without end.
_DATA_TAG = re.compile(rb"\s*>(?:\s|<!--.*?-->)*+(?=<data\s)(" + _TAG + rb")", re.DOTALL)
_PARSED_AT_ONCE = 1 << 16
_FRAGMENTS = 64


class _Outline:
    """Positions of the items of a file, as far as requested; those inside an item likewise.

    Three numbers for each item, because a file of 50,000 layers has a million elements.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._tops: dict[str, Position] = {}
        self._items: dict[str, array[int]] = {}
        self._fragments: dict[Position, list[Position]] = {}
        self._path: list[str] = []
        # A fragment has no byte order mark of its own.
        marks = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
        self._encoding: str | None = marks.get(data[:2])
        self._lock = Lock()
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.XmlDeclHandler = self._declaration
        self._rest = parts_seen(self._parser, data)

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        self._encoding = self._encoding or encoding

    def _start(self, tag: str, _: object) -> None:
        depth = len(self._path)
        if depth == 2:
            self._items.setdefault(self._path[1], array("q")).extend(position_of(self._parser))
        elif depth < 2:
            self._tops.setdefault(tag if depth else "", position_of(self._parser))
        self._path.append(tag)

    def _end(self, _: str) -> None:
        self._path.pop()

    def position(self, anchor: Anchor) -> Position | None:
        """Return the position of an element, or None if the file ends before it."""
        with self._lock:  # two threads may print diagnostics of one file
            found = self._seen(anchor)
            while found is None and next(self._rest, None) is not None:
                found = self._seen(anchor)
        if found is None or not anchor.sub:
            return found
        inside = self._fragment(found)
        return inside[anchor.sub] if anchor.sub < len(inside) else None

    def _seen(self, anchor: Anchor) -> Position | None:
        """Return the position of an item or a section, if the parser was there already."""
        if anchor.item < 0:
            return self._tops.get(anchor.section)
        rows = self._items.get(anchor.section, ())
        first = 3 * anchor.item
        return Position(*rows[first : first + 3]) if first < len(rows) else None

    def _fragment(self, item: Position) -> list[Position]:
        """Return the positions of an item and everything in it, in document order."""
        positions = self._fragments.get(item)
        if positions is not None:
            return positions
        if len(self._fragments) >= _FRAGMENTS:
            self._fragments.clear()
        positions = self._fragments[item] = []
        parser = expat.ParserCreate(self._encoding)

        def start(_: str, __: object) -> None:
            line, column, offset = position_of(parser)
            if line == 1:
                column += item.column - 1
            positions.append(Position(line + item.line - 1, column, offset + item.offset))

        parser.StartElementHandler = start
        # Ends with an error at the next item, which is outside the fragment's root.
        parse_quietly(parser, self._data, item.offset)
        return positions


def position_of(parser: expat.XMLParserType) -> Position:
    """Return the position of a parser."""
    line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
    return Position(line, column, parser.CurrentByteIndex)


def parse_quietly(parser: expat.XMLParserType, data: bytes, start: int = 0) -> None:
    """Parse the data from a byte on, up to the first error."""
    for _ in parts_seen(parser, data, start):
        pass


def parts_seen(parser: expat.XMLParserType, data: bytes, start: int = 0) -> Iterator[int]:
    """Parse the data as above, part by part; yield the byte that the parser has reached."""
    try:
        for at in range(start, len(data), _PARSED_AT_ONCE):
            parser.Parse(data[at : at + _PARSED_AT_ONCE], at + _PARSED_AT_ONCE >= len(data))
            yield at
    except (expat.ExpatError, ValueError, LookupError):
        yield len(data)


@dataclass(frozen=True, eq=False)
class Location:
    """A place in a file: an element, one of its attributes, or a fixed line and column."""

    source: SourceFile
    anchor: Anchor | None = None
    attribute: str | None = None
    fixed: tuple[int, int] | None = None
    json_text: ClassVar[bool] = True

    def within(self, sub: int) -> Location:
        """Return the place of an element inside the layer; the layer's if there is no anchor."""
        if self.anchor is None:
            return self
        return Location(self.source, Anchor(self.anchor.section, self.anchor.item, sub))

    @property
    def file(self) -> str:
        """The path as the user gave it."""
        return self.source.path

    @property
    def position(self) -> tuple[int, int] | None:
        """(line, column) from 1, resolved on demand; None if unknown."""
        if self.fixed is not None:
            return self.fixed
        found = None if self.anchor is None else self.source.position(self.anchor)
        if found is not None and self.attribute is not None:
            found = self.source.attribute_at(found, self.attribute)
        return None if found is None else (found.line, found.column)

    def at(self, attribute: str) -> Location:
        """Return the place of an attribute of the same element."""
        return Location(self.source, self.anchor, attribute, self.fixed)

    def __str__(self) -> str:
        where = self.position
        return f"{self.file}:{where[0]}:{where[1]}" if where else self.file

    @property
    def shown(self) -> str:
        """The place as text, an absolute path relative to the working directory if shorter."""
        if not os.path.isabs(self.file) or ".." in Path(self.file).parts:
            return str(self)  # as the user wrote it
        with suppress(OSError, ValueError):  # no such directory any more; another drive
            return min(str(self), os.path.relpath(self.file) + str(self)[len(self.file) :], key=len)
        return str(self)

    def snippet(self, width: int = WIDTH) -> list[str]:
        """Return the source line, cut around the column if too long, and a caret line."""
        line, column = self.position or (0, 0)
        text = self.source.line(line) if line else None
        if not text:
            return []
        gutter = len(str(line)) + 3
        text = text.replace("\t", " ").rstrip()
        room = max(width - gutter - 3, 2 * len(MARK) + 1)
        first, last = 0, len(text)
        if last > room:
            first = min(max(0, column - 1 - room // 2), last - room)
            last = first + room
        left = MARK if first else ""
        right = MARK if last < len(text) else ""
        shown = left + text[first + len(left) : last - len(right)] + right
        caret = " " * (column - 1 - first) + "^"
        return [f"{line:>{gutter}} | {shown}", f"{'':>{gutter}} | {caret}"]
