"""From the bytes of an `.xml` to a Document, as a stream: memory follows the layers, not the XML.

Expat reads the beginning first. A DOCTYPE can only be before the root element, and entities only in
a DOCTYPE, so a file that passes cannot expand or fetch anything in lxml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar
from xml.parsers import expat

from lxml import etree

from irdeconv.base import progress
from irdeconv.base.errors import Collector, Note, did_you_mean
from irdeconv.base.limits import Limits, raise_hint
from irdeconv.base.source import Anchor, Location, Position, SourceFile, parse_quietly, position_of
from irdeconv.formats.document import SHA256, SIZE, Document, Edge, NotReadFurther, XmlLayer
from irdeconv.formats.kinds import BEGIN, kind_of
from irdeconv.formats.xml_layer import LayerReader, inner_info

_LOOKED_AT_ONCE = 1 << 14
LEGACY_VERSIONS = tuple("234567")


class Prolog(NamedTuple):
    """The root element: its tag and attributes."""

    tag: str
    attributes: dict[str, str]

    @property
    def legacy(self) -> int | None:
        """The version of an IR of 2 to 7; None of anything else."""
        version = self.attributes.get("version", "").strip()
        return int(version) if self.tag == "net" and version in LEGACY_VERSIONS else None


class _Seen(Exception):
    """The begin of the document: its root, or a DOCTYPE (None)."""

    def __init__(self, prolog: Prolog | None) -> None:
        self.prolog = prolog


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
    except _Seen as seen:
        if seen.prolog is not None:
            return seen.prolog
        what = "which an IR never needs and which can pull in other files"
        hint = "remove the <!DOCTYPE ...> and write entities as plain text"
        place = _doctype_place(source, parser)
        out.add("E102", f"the document has a DOCTYPE, {what}", location=place, hint=hint)
    except (expat.ExpatError, LookupError, ValueError) as e:
        report_malformed(source, out, str(e), 1, 1)
    return None


def legacy_version(begin: bytes) -> int | None:
    """Return the version of a file by its first bytes; None if it is no IR of 2 to 7."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = _root
    try:
        with suppress(expat.ExpatError, LookupError, ValueError):  # reported when it is read
            parser.Parse(begin, False)
    except _Seen as seen:
        return seen.prolog and seen.prolog.legacy
    return None


def _doctype(*_: object) -> None:
    raise _Seen(None)


def _doctype_place(source: SourceFile, parser: expat.XMLParserType) -> Location:
    """Return the place of `<!DOCTYPE`: expat reports only the end of its name."""
    start = source.data.rfind(b"<!DOCTYPE", 0, parser.CurrentByteIndex + 1)
    if start < 0:
        return _place(source, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
    before = source.data[:start]
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    return _place(source, before.count(b"\n") + 1, column)


def _root(tag: str, attributes: dict[str, str]) -> None:
    raise _Seen(Prolog(tag, attributes))


def report_namespace(source: SourceFile, out: Collector) -> None:
    """Report the first declaration or use of a namespace: OpenVINO knows none and misreads it."""
    uses: list[tuple[Position, str]] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        names = (n for n in (*attributes, tag) if n == "xmlns" or ":" in n.removeprefix("xml:"))
        name = next(names, None)
        if name is not None and not uses:
            uses.append((position_of(parser), name))

    parser.StartElementHandler = start
    parse_quietly(parser, source.data)
    if not uses:  # malformed XML comes before it
        report_malformed(source, out, "a namespace", 1, 1)
    for at, name in uses:
        where = source.attribute_at(at, name)
        message = f"{name}: an IR has no XML namespaces"
        hint = "delete the prefixes and the attributes xmlns; OpenVINO takes them for names"
        out.add("E103", message, location=_place(source, where.line, where.column), hint=hint)


def report_malformed(
    source: SourceFile, out: Collector, message: str, line: int, column: int
) -> None:
    """Report E101 at the place where expat finds the file malformed, else at the given place."""
    parser, opened, notes = expat.ParserCreate(), list[_OpenElement](), list[Note]()
    parser.StartElementHandler = lambda tag, attributes: opened.append(
        _OpenElement(tag, attributes.get("id"), *position_of(parser)[:2])
    )
    parser.EndElementHandler = lambda _: opened.pop()
    hint: str | None = None
    try:
        parser.Parse(source.data, True)
    except expat.ExpatError as e:
        message, line, column = expat.ErrorString(e.code), e.lineno, e.offset + 1
        at = parser.ErrorByteIndex
        if opened and (found := _unclosed(source.data, at, message, opened)) is not None:
            message, hint = found
            place = _place(source, opened[-1].line, opened[-1].column)
            notes = [Note(f"{opened[-1]} is open here", place)]
        elif (token := _token(source.data, at, message)) is not None:
            message, hint, offset = token
            if offset:
                begin = source.data[: at + offset]
                line, last = begin.count(b"\n") + 1, begin[begin.rfind(b"\n") + 1 :]
                column = len(last.decode("utf-8", "replace")) + 1
    except (LookupError, ValueError) as e:
        message = f"unreadable encoding: {e}"
    kind = kind_of(source.data[:BEGIN], source.name)
    what = "not well-formed XML"
    if kind.format != "xml":
        what, hint = f"{kind.name}, {what}", kind.mend
    place = _place(source, line, column)
    out.add("E101", f"{what}: {message}", location=place, notes=notes, hint=hint)


class _OpenElement(NamedTuple):
    """An element whose end has not been read."""

    tag: str
    id: str | None
    line: int
    column: int

    def __str__(self) -> str:
        return f"<{self.tag}>" if self.id is None else f'<{self.tag} id="{self.id}">'


def _unclosed(
    data: bytes, at: int, error: str, opened: Sequence[_OpenElement]
) -> tuple[str, str] | None:
    """Return the message and the hint for an element that is not closed; `error` is expat's."""
    if error in (expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN):
        return f"the file ends inside {opened[-1]}", "the file is cut off; export the model again"
    tag = re.match(rb"</?([^\s<>]+)", data[at - 2 if data[at - 2] == 60 else at :])
    if tag is None or error != expat.errors.XML_ERROR_TAG_MISMATCH:
        return None
    name = tag[1].decode("utf-8", "replace")
    tags, last = [o.tag for o in opened], opened[-1]
    message = f"</{name}> cannot close {last}, which begins in line {last.line}"
    if name in tags:
        return message, f"close {last} before it: with </{last.tag}>, or with /> at its own end"
    near = did_you_mean(name, [last.tag]) if name not in _ELEMENTS else None
    return message, f"write </{last.tag}>" if near else f"delete </{name}>: no <{name}> is open"


_ELEMENTS = ("net", "layers", "layer", "edges", "edge", "data", "input", "output", "port", "dim")
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)")


def _token(data: bytes, at: int, error: str) -> tuple[str, str, int] | None:
    """Return message, hint, and the bytes from `at` to a character that XML does not allow."""
    if error == expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT:
        return "something follows the root element", "delete all that follows </net>", 0
    if error == expat.errors.XML_ERROR_DUPLICATE_ATTRIBUTE:
        return "an attribute is there twice", "delete one of the two", 0
    invalid = error == expat.errors.XML_ERROR_INVALID_TOKEN
    start = max(data.rfind(b"<", 0, at), 0) if invalid else at
    end = at if start < at else data.find(b">", at)
    before, ampersand = data[start:at], "write &amp; for the character &"
    if (bare := _BARE.search(data, start, max(end, at))) is not None:
        return "a bare &, which begins an entity in XML", ampersand, bare.start() - at
    if not invalid:
        return None
    if data[at : at + 1] == b"<":
        return "< inside a tag", "write &lt; in a value; or a > or a quote is missing before it", 0
    if re.search(rb"=\s*$", before):
        return "a value without quotes", 'write name="value"', 0
    if before.endswith((b'"', b"'")):
        return "text right behind a quote", "a quote is missing before it, or a space", 0
    return None


def _place(source: SourceFile, line: int, column: int) -> Location:
    return Location(source, fixed=(line, column))


Element = Any
T = TypeVar("T")
_SECTIONS = ("layers", "edges", "rt_info", "meta_data", "quantization_parameters")
_HELD = 64  # layers or edges: removing each alone takes longer
_NET_ATTRIBUTES = ("name", "version")


def read_document(source: SourceFile, out: Collector, limits: Limits) -> Document | None:
    """Return the file's content, or None if it is no well-formed IR; problems go to `out`."""

    def read(prolog: Prolog) -> Document | None:
        if prolog.tag != "net":
            text = f"the root element is <{prolog.tag}>; an IR's is <net>"
            out.add("E103", text, location=Location(source, Anchor()))
            return None
        return None if _is_old(prolog, source, out) else _Stream(source, out, limits).read(prolog)

    return parsed(source, out, limits, read)


def parsed(
    source: SourceFile, out: Collector, limits: Limits, read: Callable[[Prolog], T | None]
) -> T | None:
    """Return what `read` makes of a file with this root; None if it is too large or malformed."""
    size, most = len(source.data), limits.xml_bytes
    if size > most:
        message = f"{source.name} has {size:,} bytes or more; the limit is {most:,}"
        out.add("E600", message, location=_place(source, 1, 1), hint=raise_hint("xml_bytes"))
        return None
    prolog = scan_prolog(source, out)
    try:
        return None if prolog is None else read(prolog)
    except etree.XMLSyntaxError as e:
        report_syntax(e, source, out)
    except NotReadFurther:
        pass
    return None


def _is_old(prolog: Prolog, source: SourceFile, out: Collector) -> bool:
    """Report a version that is written in other words throughout; whether it is one."""
    version = prolog.attributes.get("version", "").strip()
    if not re.fullmatch("[1-9]", version):
        return False
    place = Location(source, Anchor()).at("version")
    message = f"this is an IR of version {version}; irdeconv reads 2 to 7, 10 and 11"
    hint = "convert the original model again: ovc MODEL, or mo of openvino-dev==2023.3 for Caffe"
    if prolog.legacy is not None:
        message = f"an IR of version {version} is read from a file that begins with <net>"
        hint = "give it as a file, not as a pipe, without long comments in front"
    out.add("E103", message, location=place, hint=hint)
    return True


def report_syntax(e: etree.XMLSyntaxError, source: SourceFile, out: Collector) -> None:
    """Report an error that lxml found."""
    line, column = (max(n or 1, 1) for n in e.position)
    text, place = str(e.msg), Location(source, fixed=(line, column))
    if "depth" in text.lower():
        out.add("E603", "elements are nested deeper than 256", location=place)
    elif text.startswith("Namespace prefix"):
        report_namespace(source, out)
    elif "Resource limit" in text:
        out.add("E600", "a text or an attribute has more than 10,000,000 bytes", location=place)
    else:
        report_malformed(source, out, text, line, column)


# For lxml: nothing is fetched or expanded.
SAFE: dict[str, Any] = {
    **dict.fromkeys(("resolve_entities", "load_dtd", "huge_tree"), False),
    **dict.fromkeys(("no_network", "remove_comments", "remove_pis"), True),
}


class _Stream:
    """Collects layers and edges while lxml parses, and frees each one's XML at once."""

    def __init__(self, source: SourceFile, out: Collector, limits: Limits) -> None:
        self._source, self._out = source, out
        self._reader = LayerReader(source, out, limits)
        self._layers: list[XmlLayer] = []
        self._edges: list[Edge] = []
        self._counts = {"layers": 0, "edges": 0}
        self._sections: dict[str, Element] = {}
        self._done: Element = None  # the one read last
        self._held = 0  # elements that were read and not removed yet

    def read(self, prolog: Prolog) -> Document:
        """Parse the whole file."""
        data = self._source.data
        with progress.stage(f"reading {self._source.name}", total=len(data)) as step:
            root = self._parse(BytesIO(data), step)
        rt_info, mark = self._rest(root)
        self._check_net(prolog)
        return Document(
            layers=tuple(self._layers),
            edges=tuple(self._edges),
            name=prolog.attributes.get("name", ""),
            version=prolog.attributes.get("version"),
            rt_info=rt_info,
            extra=tuple((k, v) for k, v in prolog.attributes.items() if k not in _NET_ATTRIBUTES),
            complete=all(root.find(tag) is not None for tag in self._counts),
            mark=mark,
        )

    def _parse(self, data: BytesIO, step: progress.Advance) -> Element:
        """Take layers and edges as they come; returns the root, `step` counts bytes."""
        tags = ("layer", "edge", "layers", "edges")
        events = etree.iterparse(data, events=("end", "start-ns"), tag=tags, **SAFE)
        current: Element = None
        done = 0
        for event, e in events:
            if event == "start-ns":
                report_namespace(self._source, self._out)
                raise NotReadFurther
            parent = e.getparent()
            if parent is current is not None:
                self._take(e, parent)
            elif parent is not None:
                root = parent.getparent()
                if root is None:
                    if e.tag in self._counts:
                        self._end_of_section(e)
                elif root.getparent() is None and parent.tag in self._counts:
                    current = parent
                    self._take(e, parent)
            now = data.tell()
            if now != done:  # once for many layers
                step(now - done)
                done = now
        return events.root

    def _take(self, e: Element, parent: Element) -> None:
        """Read a child of `<layers>` or `<edges>`, with the unknown elements before it.

        Only elements before `e` are removed: libxml2 has read ahead and still holds later ones.
        """
        section, tag = parent.tag, e.tag
        if e.getprevious() is not self._done:
            before = takewhile(lambda b: b is not self._done, e.itersiblings(preceding=True))
            for b in reversed(list(before)):
                self._unknown(b, section)
        self._held += 1
        if self._held > _HELD:
            del parent[: parent.index(e)]
            self._held = 0
        item = self._counts[section]
        self._counts[section] = item + 1
        if tag != section[:-1]:
            self._reader.unexpected(e, Anchor(section, item), (section[:-1],), section)
        elif parent is self._sections.setdefault(section, parent):
            if tag == "layer":
                self._layers.append(self._reader.top_layer(e, item))
            else:
                self._edges.append(self._reader.top_edge(e, item))
        self._done = e

    def _end_of_section(self, section: Element) -> None:
        for e in section if self._done is None else self._done.itersiblings():
            self._unknown(e, section.tag)
        self._done, self._held = None, 0

    def _unknown(self, e: Element, section: str) -> None:
        anchor = Anchor(section, self._counts[section])
        self._counts[section] += 1
        self._reader.unexpected(e, anchor, (section[:-1],), section)

    def _rest(self, root: Element) -> tuple[str | None, dict[str, str]]:
        """Check the other children of `<net>`; return the model's rt_info and its mark."""
        rt_info, seen = None, set()
        mark: dict[str, str] = {}
        for e in root:
            if e.tag in seen and e.tag in self._counts:
                place = Location(self._source, Anchor(e.tag))
                self._out.add("E108", f"a second <{e.tag}>: only the first is read", location=place)
            elif e.tag not in _SECTIONS:
                self._reader.unexpected(e, Anchor(str(e.tag)), _SECTIONS, "net")
            elif e.tag == "rt_info":
                mark |= {k: e.attrib.pop(k) for k in (SIZE, SHA256) if k in e.attrib}
                rt_info = inner_info(e) or rt_info
            seen.add(e.tag)
        for tag in self._counts:
            if tag not in seen:
                place = Location(self._source, Anchor())
                self._out.add("E104", f"<net> has no <{tag}>", location=place)
        return rt_info, mark

    def _check_net(self, prolog: Prolog) -> None:
        """Check the version; layers of another version would be misread."""
        place = Location(self._source, Anchor())
        version = prolog.attributes.get("version")
        if version is None:
            self._out.add("E105", '<net> has no attribute "version"', location=place)
        elif not version.isascii() or not version.lstrip().isdigit():
            message = f'the net version "{version}" is not an integer'
            self._out.add("E106", message, location=place.at("version"))
        elif len(version) > 9 or int(version) not in (10, 11):
            message = f"the net version is {version}; irdeconv reads 2 to 7, 10 and 11"
            self._out.add("E103", message, location=place.at("version"))
