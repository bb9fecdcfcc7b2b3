"""A look at the beginning of an XML file by expat, before lxml sees any of it.

A DOCTYPE can only stand before the root element, and entities only in a DOCTYPE: a file that passes
cannot expand or fetch anything.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.parsers import expat

from irdeconv.errors import Collector
from irdeconv.io.kinds import BEGIN, kind_of
from irdeconv.source import Location, Position, SourceFile, parse_quietly, position_of

_LOOKED_AT_ONCE = 1 << 14
LEGACY_VERSIONS = tuple("234567")


class Prolog(NamedTuple):
    """The root element: its tag and attributes."""

    tag: str
    attributes: dict[str, str]


class _RootSeen(Exception):
    def __init__(self, prolog: Prolog) -> None:
        self.prolog = prolog


class _DoctypeSeen(Exception):
    pass


def scan_prolog(source: SourceFile, out: Collector) -> Prolog | None:
    """Return the root element, or None and a diagnostic: not XML, or a DOCTYPE."""
    if not source.data.strip():
        hint = kind_of(b"", source.name).mend
        out.add("E101", "the file is empty", location=_place(source, 1, 1), hint=hint)
        return None
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _doctype
    parser.StartElementHandler = _root
    try:
        for start in range(0, len(source.data), _LOOKED_AT_ONCE):
            last = start + _LOOKED_AT_ONCE >= len(source.data)
            parser.Parse(source.data[start : start + _LOOKED_AT_ONCE], last)
    except _RootSeen as seen:
        return seen.prolog
    except _DoctypeSeen:
        out.add(
            "E102",
            "the document has a DOCTYPE, which an IR never needs and which can pull in other files",
            location=_doctype_place(source, parser),
            hint="remove the <!DOCTYPE ...> and write entities as plain text",
        )
    except (expat.ExpatError, LookupError, ValueError) as e:
        report_malformed(source, out, str(e), 1, 1)
    return None


def legacy_version(begin: bytes) -> int | None:
    """Return the version of a file by its first bytes; None where it is no IR of 2 to 7."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = _root
    try:
        parser.Parse(begin, False)
    except _RootSeen as seen:
        version = seen.prolog.attributes.get("version", "").strip()
        if seen.prolog.tag == "net" and version in LEGACY_VERSIONS:
            return int(version)
    except (expat.ExpatError, LookupError, ValueError):
        pass  # it gets a diagnostic when it is read
    return None


def _doctype(*_: object) -> None:
    raise _DoctypeSeen


def _doctype_place(source: SourceFile, parser: expat.XMLParserType) -> Location:
    """Return where `<!DOCTYPE` begins: expat tells where its name ends."""
    start = source.data.rfind(b"<!DOCTYPE", 0, parser.CurrentByteIndex + 1)
    if start < 0:
        return _place(source, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
    before = source.data[:start]
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    return _place(source, before.count(b"\n") + 1, column)


def _root(tag: str, attributes: dict[str, str]) -> None:
    raise _RootSeen(Prolog(tag, attributes))


def report_namespace(source: SourceFile, out: Collector) -> None:
    """Report the first declaration or use of a namespace: OpenVINO knows none and misreads it."""
    found: list[tuple[Position, str]] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        names = (n for n in (*attributes, tag) if n == "xmlns" or ":" in n.removeprefix("xml:"))
        name = next(names, None)
        if name is not None and not found:
            found.append((position_of(parser), name))

    parser.StartElementHandler = start
    parse_quietly(parser, source.data)
    if not found:  # what is malformed stands in front of it
        report_malformed(source, out, "a namespace", 1, 1)
    for at, name in found:
        where = source.attribute_at(at, name)
        message = f"{name}: an IR has no XML namespaces"
        hint = "delete the prefixes and the attributes xmlns; OpenVINO takes them for names"
        out.add("E103", message, location=_place(source, where.line, where.column), hint=hint)


def report_malformed(
    source: SourceFile, out: Collector, message: str, line: int, column: int
) -> None:
    """Report E101 where expat finds the file malformed; the place given where expat finds none."""
    parser = expat.ParserCreate()
    try:
        parser.Parse(source.data, True)
    except expat.ExpatError as e:
        message, line, column = expat.ErrorString(e.code), e.lineno, e.offset + 1
    except (LookupError, ValueError) as e:
        message = f"unreadable encoding: {e}"
    kind = kind_of(source.data[:BEGIN], source.name)
    what, hint = "not well-formed XML", None
    if kind.format != "xml":
        what, hint = f"{kind.name}, {what}", kind.mend
    out.add("E101", f"{what}: {message}", location=_place(source, line, column), hint=hint)


def _place(source: SourceFile, line: int, column: int) -> Location:
    return Location(source, fixed=(line, column))
