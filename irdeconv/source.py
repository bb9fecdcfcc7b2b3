"""Places in IR files: the bytes of a file, positions of its elements, caret rendering.

Readers record cheap anchors (section, ordinal, descendant number). Line and column are computed
only when a diagnostic needs them: one pass of expat over the same bytes, matched by document order,
because lxml knows no columns and reports the line on which a tag ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

SNIPPET_WIDTH = 100
_DATA_WITHIN = 4  # elements after a layer's tag among which its <data> is looked for


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
    _positions: dict[Anchor, Position] | None = field(default=None, repr=False)
    _lines: list[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    def position(self, anchor: Anchor) -> Position | None:
        """Return where the element stands, or None where the file ends before it."""
        if self._positions is None:
            self._positions = _positions(self.data)
        return self._positions.get(anchor)

    def attribute_position(self, anchor: Anchor, attribute: str) -> Position | None:
        """Return where an attribute of the element, or of its `<data>` child, stands.

        The element's own place where neither has it.
        """
        start = self.position(anchor)
        if start is None:
            return None
        for sub in range(anchor.sub, anchor.sub + _DATA_WITHIN):
            element = self.position(anchor._replace(sub=sub))
            if element is None:
                break
            if sub == anchor.sub or self.data.startswith(b"<data", element.offset):
                found = self._attribute_in(element, attribute)
                if found is not None:
                    return found
        return start

    def _attribute_in(self, start: Position, attribute: str) -> Position | None:
        tag = _START_TAG.match(self.data, start.offset)
        name = re.escape(attribute.encode())
        found = tag and re.search(rb"\s(" + name + rb")\s*=", tag.group())
        if not found:
            return None
        offset = start.offset + found.start(1)
        before = self.data[start.offset : offset]
        newline = before.rfind(b"\n")
        if newline < 0:
            column = start.column + len(before.decode("utf-8", "replace"))
        else:
            column = len(before[newline + 1 :].decode("utf-8", "replace")) + 1
        return Position(start.line + before.count(b"\n"), column, offset)

    def line(self, number: int) -> str | None:
        """Return the text of a line (from 1), or None where there is no such line."""
        if self._lines is None:
            self._lines = self.data.splitlines()
        if not 1 <= number <= len(self._lines):
            return None
        return self._lines[number - 1].decode("utf-8", "replace")


_START_TAG = re.compile(rb"<[^\s/>]+(?:\s+[^\s=>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*")


def _positions(data: bytes) -> dict[Anchor, Position]:
    """Number the elements of a file as the reader does; stop quietly where it is malformed."""
    found: dict[Anchor, Position] = {}
    parser = expat.ParserCreate()
    path: list[str] = []
    counts: dict[str, int] = {}
    state = {"sub": 0}

    def start(tag: str, _: object) -> None:
        depth = len(path)
        if depth == 0:
            anchor = Anchor()
        elif depth == 1:
            anchor = Anchor(tag)
        elif depth == 2:
            counts[path[1]] = counts.get(path[1], -1) + 1
            state["sub"] = 0
            anchor = Anchor(path[1], counts[path[1]])
        else:
            state["sub"] += 1
            anchor = Anchor(path[1], counts[path[1]], state["sub"])
        path.append(tag)
        found.setdefault(
            anchor,
            Position(
                parser.CurrentLineNumber, parser.CurrentColumnNumber + 1, parser.CurrentByteIndex
            ),
        )

    def end(_: str) -> None:
        path.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError):
        pass
    return found


@dataclass(frozen=True, eq=False)
class Location:
    """A place in a file: an element, one of its attributes, or a fixed line and column."""

    source: SourceFile
    anchor: Anchor | None = None
    attribute: str | None = None
    fixed: tuple[int, int] | None = None

    @property
    def file(self) -> str:
        """The path as the user gave it."""
        return self.source.path

    @property
    def position(self) -> tuple[int, int] | None:
        """(line, column) from 1, resolved on demand; None where unknown."""
        if self.fixed is not None:
            return self.fixed
        if self.anchor is None:
            return None
        if self.attribute is not None:
            found = self.source.attribute_position(self.anchor, self.attribute)
        else:
            found = self.source.position(self.anchor)
        return None if found is None else (found.line, found.column)

    @property
    def line(self) -> int | None:
        """Line from 1; None where unknown."""
        return self.position[0] if self.position else None

    @property
    def column(self) -> int | None:
        """Column from 1; None where unknown."""
        return self.position[1] if self.position else None

    def at(self, attribute: str) -> Location:
        """Return the place of an attribute of the same element."""
        return Location(self.source, self.anchor, attribute)

    def __str__(self) -> str:
        where = self.position
        return f"{self.file}:{where[0]}:{where[1]}" if where else self.file

    def snippet(self) -> list[str]:
        """Return the source line and a caret line under the column (empty where unknown)."""
        where = self.position
        text = self.source.line(where[0]) if where else None
        if where is None or text is None:
            return []
        line, column = where
        text = text.replace("\t", " ")
        first = max(0, column - SNIPPET_WIDTH // 2) if column > SNIPPET_WIDTH - 20 else 0
        shown = text[first : first + SNIPPET_WIDTH].rstrip()
        left, right = "..." if first else "", "..." if len(text) > first + SNIPPET_WIDTH else ""
        caret = " " * (len(left) + column - 1 - first) + "^"
        gutter = len(str(line)) + 3
        return [f"{line:>{gutter}} | {left}{shown}{right}", f"{'':>{gutter}} | {caret}"]
