"""An IR file as parts: its elements, its weights, and the context of its checks.

Texts stay as they are in the file. Every element has a place: layers and edges an `Anchor`,
elements inside a layer their number below it (`sub`).

The `.bin` is mapped into memory. Reading a page that a file has lost is SIGBUS, which ends the
process. Here zeros replace such pages, and `require_intact` reports afterwards that the result is
void.

Two files cannot be replaced at once, so a pair may get mixed. The mark of an `.xml`, attributes of
its `<rt_info>`, names its `.bin`. OpenVINO ignores these attributes and does not write them.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from lxml import etree

from irdeconv.base import work
from irdeconv.base.errors import (
    Collector,
    Diagnostic,
    InputError,
    Note,
    OpError,
    Problem,
    Severity,
    did_you_mean,
    nearest,
    severity_of,
)
from irdeconv.base.limits import LARGEST_INT, Limits, raise_hint
from irdeconv.base.opening import open_file, size_of
from irdeconv.base.source import Anchor, Location, SourceFile
from irdeconv.ir.constant import FileData, MovedData
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import every_node

Pairs = tuple[tuple[str, str], ...]
SAFE_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)  # of a part of a file


class XmlPort(NamedTuple):
    """A `<port>`: the texts of its `<dim>`s, unexpected attributes, the XML of its `<rt_info>`."""

    id: str | None
    precision: str | None
    names: str | None
    dims: tuple[str, ...]
    extra: Pairs
    sub: int
    rt_info: str | None = None


class Edge(NamedTuple):
    """An `<edge>` between layers; a missing attribute is None."""

    from_layer: str | None
    from_port: str | None
    to_layer: str | None
    to_port: str | None
    extra: Pairs
    anchor: Anchor


class MapEntry(NamedTuple):
    """An `<input>` or `<output>` of a port map, or an `<edge>` of `<back_edges>`."""

    tag: str
    attributes: Pairs
    sub: int


@dataclass(frozen=True, slots=True)
class XmlBody:
    """A body of Loop, TensorIterator (`body`) or If (`then_body`, `else_body`)."""

    tag: str
    document: Document
    sub: int


@dataclass(frozen=True, slots=True)
class PortMap:
    """A `port_map`, `then_port_map`, `else_port_map` or `back_edges` with its entries."""

    tag: str
    entries: tuple[MapEntry, ...]
    sub: int


class XmlLayer(NamedTuple):
    """A `<layer>` and its contents; missing attributes are None.

    `data` is None if the layer has no `<data>`; `data_sub` is that element's number, else 0.
    `sections` are its children beyond data, ports and rt_info, for writing.
    """

    id: str | None
    name: str | None
    type: str | None
    version: str | None
    extra: Pairs
    data: dict[str, str] | None
    data_sub: int
    inputs: tuple[XmlPort, ...]
    outputs: tuple[XmlPort, ...]
    rt_info: str | None
    anchor: Anchor
    sections: tuple[Section, ...] = ()
    bodies: tuple[XmlBody, ...] = ()
    maps: tuple[PortMap, ...] = ()

    def within(self, sub: int) -> Anchor:
        """Return the anchor of an element inside the layer; for 0 the layer's own."""
        return Anchor(self.anchor.section, self.anchor.item, sub) if sub else self.anchor

    @property
    def label(self) -> str:
        """How messages call the layer: type and name."""
        return f'{self.type or "layer"} "{self.name or self.id or "?"}"'


@dataclass(frozen=True)
class Document:
    """A `<net>` or a body: its layers and edges in file order.

    `complete` is false if `<layers>` or `<edges>` is missing, which has been reported. `mark` has
    the file's statements about its weights.
    """

    layers: tuple[XmlLayer, ...]
    edges: tuple[Edge, ...]
    name: str = ""
    version: str | None = None
    rt_info: str | None = None
    extra: Pairs = ()
    anchor: Anchor = Anchor()
    complete: bool = True
    mark: dict[str, str] = field(default_factory=dict)


_SIGBUS = {"linux": 7, "darwin": 10}.get(sys.platform)  # elsewhere a mapped file cannot be cut off
_ANONYMOUS = {"linux": 0x20, "darwin": 0x1000}
_PRIVATE, _FIXED = 0x02, 0x10
_RELEASED_BYTES = 1 << 20  # less is not worth a call
_GIVEN_UP = 1000  # faults in a row that no file explains


class MappedFile:
    """A mapping of a whole file, which it watches."""

    def __init__(self, path: str, fd: int, map: mmap.mmap) -> None:
        self.path, self._map, self.size = path, map, len(map)
        status = os.fstat(fd)
        self._file = status.st_dev, status.st_ino
        self._time = status.st_mtime_ns
        self._start = np.frombuffer(map, np.uint8).__array_interface__["data"][0]
        self._end = self._start + -(-self.size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.lost = False
        self._zeros = self._end  # the first address of zeros in place of pages
        _MAPPED[id(self)] = self
        _install()

    def release(self, offset: int, size: int) -> None:
        """Give back the memory of a part's pages; they are mapped again when they are read."""
        start = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = min(offset + size, self.size) // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and stop - start >= _RELEASED_BYTES:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)

    @property
    def changed(self) -> bool:
        """Whether the file has been cut off or written to since it was mapped."""
        if self.lost:
            return True
        try:
            status = os.stat(self.path)
        except OSError:  # it has been removed: the mapping stays
            return self._map.size() != self.size
        if (status.st_dev, status.st_ino) != self._file:  # it has been replaced
            return self._map.size() != self.size
        return status.st_mtime_ns != self._time or status.st_size != self.size

    def require_intact(self) -> None:
        """Raise InputError (E125) if the file has changed."""
        if not self.changed:
            return
        size = self._map.size()
        what = "something wrote to it"
        if size != self.size:
            what = f"it had {self.size} bytes, and has {size}"
        message = f"{self.path} was changed while it was in use: {what}"
        place = Location(SourceFile(self.path, b""))
        raise InputError(Diagnostic("E125", "error", message, place))

    def patch(self) -> bool:
        """Map zeros in place of pages that the file has lost; whether that may explain a fault."""
        known, self.lost = self.lost, self.changed
        start = self._start + -(-self._map.size() // mmap.PAGESIZE) * mmap.PAGESIZE
        if start >= self._zeros:
            return self.lost and not known  # it may have grown again since
        kind = _PRIVATE | _FIXED | _ANONYMOUS[sys.platform]
        _MMAP(start, self._end - start, mmap.PROT_READ, kind, -1, 0)
        self._zeros = start
        return True


_MAPPED: WeakValueDictionary[int, MappedFile] = WeakValueDictionary()
_MMAP: Any = None
_STATE: dict[str, Any] = {"unexplained": 0}


def _install() -> None:
    """Install the handler of SIGBUS, once."""
    global _MMAP
    if _SIGBUS is None or "handler" in _STATE:
        return
    _STATE["handler"] = None
    with suppress(OSError, AttributeError, MemoryError):  # as it was, without
        libc = ctypes.CDLL(None)
        _MMAP = libc.mmap
        _MMAP.restype = ctypes.c_void_p
        number, size = ctypes.c_int, ctypes.c_size_t
        _MMAP.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_long)
        libc.signal.restype = ctypes.c_void_p
        libc.signal.argtypes = (number, ctypes.c_void_p)
        _STATE["handler"] = ctypes.CFUNCTYPE(None, number)(_answer)
        _STATE["signal"] = libc.signal
        _STATE["former"] = libc.signal(_SIGBUS, ctypes.cast(_STATE["handler"], ctypes.c_void_p))


def _answer(number: int) -> None:
    """Explain a fault by a file of ours, so that the instruction can be repeated.

    Faults that none of them explains are passed to the previous handler.

    A fault is not sent from outside: this runs within the code that reads the mapped memory, so it
    must not wait for a lock that this code may hold.
    """
    explained = [one.patch() for one in list(_MAPPED.values())]
    _STATE["unexplained"] = 0 if any(explained) else _STATE["unexplained"] + 1
    if _STATE["unexplained"] >= _GIVEN_UP:
        _STATE["signal"](number, _STATE["former"])


class NoWeights:
    """A `ByteSource` in place of weights that are missing or left out; `reason` says why."""

    def __init__(self, path: str, reason: str | None = None) -> None:
        self.path = path
        self.reason = reason or f"the weights file {path} is missing"
        self._view: memoryview | None = None
        self._mapped: MappedFile | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The file may be another one when this is unpickled.
        if self._view is None:
            return NoWeights, (self.path, self.reason)
        return MemoryWeights, (bytes(self._view), self.path)

    def __deepcopy__(self, memo: object) -> NoWeights:
        return self

    @property
    def size(self) -> int | None:
        """Bytes in all; None if the file is missing."""
        return None if self._view is None else len(self._view)

    def read(self, offset: int, size: int) -> memoryview:
        """Return a part without copying; OpError if the file is missing or too short."""
        if self._view is None:
            raise OpError(self.reason, code="E120")
        if offset < 0 or size < 0 or offset + size > len(self._view):
            where = f"bytes {offset}..{offset + size} lie outside {self.path}"
            raise OpError(f"{where}, which has {len(self._view)}", code="E121")
        return self._view[offset : offset + size]

    def release(self, offset: int, size: int) -> None:
        """Give back the memory of a part that can be read anew; its pages stay in the cache."""
        if self._mapped is not None:
            self._mapped.release(offset, size)

    def require_intact(self) -> None:
        """Raise InputError (E125) if a file has changed since it was opened: all is void."""
        if self._mapped is not None:
            self._mapped.require_intact()

    def sha256(self) -> str:
        """Return the hash of all bytes, in hexadecimal digits; they are there."""
        return hashlib.sha256(b"" if self._view is None else self._view).hexdigest()


class MemoryWeights(NoWeights):
    """Weights that are held as bytes."""

    def __init__(self, data: bytes, path: str = "<memory>") -> None:
        super().__init__(path)
        self._view = memoryview(data)


class WeightsFile(NoWeights):
    """A read-only, memory-mapped file of weights.

    `path` may name a file that does not exist: `size` is then None and `read` raises OpError.
    Anything that cannot be mapped (a folder, a FIFO, no permission) raises OSError.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(str(path))
        try:
            file = open_file(self.path)
        except FileNotFoundError:
            return
        with file:
            size, fd = size_of(file), file.fileno()
            work.earn(size, self.path)
            self._view = memoryview(b"")
            if size:  # an empty file cannot be mapped
                held = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
                self._view, self._mapped = memoryview(held), MappedFile(self.path, fd, held)


def sources_of(graph: Graph) -> list[NoWeights]:
    """Return the weights files of a graph's constants, also of those in bodies."""
    found: dict[int, NoWeights] = {}
    for node in every_node(graph):
        data = node.op.data if isinstance(node.op, Const) else None
        data = node.op.weights if isinstance(node.op, Opaque) else data
        while isinstance(data, MovedData):
            data = data.source
        if isinstance(data, FileData) and isinstance(data.source, NoWeights):
            found[id(data.source)] = data.source
    return list(found.values())


class NotReadFurther(Exception):
    """An error of the file makes the rest of it useless; it has been reported."""


@dataclass
class Context:
    """Reading one file: its source, diagnostics, weights and options.

    `used` gathers the parts of the weights file that constants cover, those of bodies as well;
    `unplaced` says that the part of some constant is unknown, `outside` are those whose part lies
    outside the file, with its begin and end.
    `unknown` counts layers of operations without details, by (type, version).
    """

    source: SourceFile
    out: Collector
    weights: NoWeights
    limits: Limits
    semantics: Semantics
    used: list[tuple[int, int]] = field(default_factory=list)
    unplaced: bool = False
    outside: list[tuple[XmlLayer, int, int]] = field(default_factory=list)
    unknown: dict[tuple[str, str], list[XmlLayer]] = field(default_factory=dict)
    errors: int = 0  # reported so far

    def place(self, anchor: Anchor, attribute: str | None = None) -> Location:
        """Return the location of an element or of one of its attributes."""
        return Location(self.source, anchor, attribute)

    def add(
        self,
        code: str,
        message: str,
        anchor: Anchor | None = None,
        *,
        attribute: str | None = None,
        layer: XmlLayer | None = None,
        sub: int = 0,
        severity: Severity | None = None,
        notes: Sequence[Note] = (),
        hint: str | None = None,
    ) -> None:
        """Report a problem; without an anchor at the layer, or the element `sub` in it."""
        severity = severity or severity_of(code)
        if severity == "error":
            self.errors += 1
            most = self.limits.errors
            if self.errors > most:
                text = f"more than {most:,} errors; what else the file has is not looked at"
                place = Location(self.source, fixed=(1, 1))
                self.out.add("E601", text, location=place, hint=raise_hint("errors"))
                raise NotReadFurther
        if self.out.skips(code, severity):
            return
        if anchor is None:
            anchor = layer.within(sub) if layer else Anchor()
        if layer is not None:
            message = f"{layer.label}: {message}"
        self.out.add(
            code,
            message,
            severity=severity,
            location=self.place(anchor, attribute),
            layer=layer.name if layer else None,
            notes=notes,
            hint=hint,
        )

    @staticmethod
    def misspelt(name: str, given: Iterable[str], known: Sequence[str]) -> str | None:
        """Return the unknown attribute that was meant to be a missing one, if there is one."""
        names = list(given)
        unknown = [n for n in names if n not in known] if name not in names else []
        return next(iter(nearest(name, unknown)), None)

    def unknown_attributes(
        self,
        names: Iterable[str],
        known: Sequence[str],
        what: str,
        anchor: Anchor | None = None,
        **place: Any,
    ) -> None:
        """Warn of every name that is not among the known attributes of an element; see `add`."""
        for name in names:
            if name not in known and not self.out.skips("W100", "warning"):
                text = f'{what} has no attribute "{name}"; OpenVINO ignores it'
                hint = did_you_mean(name, known)
                self.add("W100", text, anchor, attribute=name, hint=hint, **place)

    def stands(self, layer: XmlLayer, attribute: str | None = None, *, sub: int = 0) -> Note:
        """Return a note with the place of another layer, or of an element inside it."""
        return Note(f"{layer.label} stands here", self.place(layer.within(sub), attribute))

    def problem(self, layer: XmlLayer, problem: Problem) -> None:
        """Report an operation's own problem; an attribute's place is in `<data>`."""
        place = {"layer": layer, "sub": layer.data_sub if problem.attribute is not None else 0}
        more: dict[str, Any] = {"severity": problem.severity, "hint": problem.hint, **place}
        self.add(problem.code, problem.message, attribute=problem.attribute, **more)


@lru_cache(maxsize=1 << 16)
def integer(text: str | None) -> int | None:
    """Parse a plain decimal integer with an optional sign; None for any other text."""
    if text is None:
        return None
    text = text.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 30:
        return None
    return int(text)


@lru_cache(maxsize=1 << 16)
def edge_end(text: str | None) -> int | None:
    """Parse an integer as OpenVINO reads those of edges and ids: without blanks behind it."""
    return None if text is None or text != text.rstrip() else integer(text)


@lru_cache(maxsize=1 << 16)
def identifier(text: str | None) -> int | None:
    """Parse the id of a layer or port as OpenVINO does; None if OpenVINO refuses it.

    Digits, perhaps with blanks or a plus in front; at most 63 bits.
    """
    number = edge_end(text)
    return number if number is not None and 0 <= number <= LARGEST_INT else None


def why_no_identifier(text: str) -> str:
    """Return the error of an id's text."""
    number = integer(text)
    if number is not None and number < 0:
        return "is negative; ids are 0 or more"
    if number is not None and number > LARGEST_INT:
        return f"is above {LARGEST_INT}"
    return "is not an integer"


SIZE, SHA256 = "weights_size", "weights_sha256"
_DIGITS_SHOWN = 16  # digits
Mark = dict[str, str]


def marked(rt_info: str | None, size: int, sha256: str) -> str:
    """Return the `<rt_info>` of a model with the mark of its weights."""
    mark = f'{SIZE}="{size}" {SHA256}="{sha256}"'
    if rt_info is None:
        return f"<rt_info {mark} />"
    return re.sub(r"^\s*<rt_info", lambda m: f"{m[0]} {mark}", rt_info.rstrip())


def check_mark(mark: Mark, weights: NoWeights, chosen: bool, context: Context) -> None:
    """Report weights that are not the `.xml`'s (E124), a warning if the user has chosen them."""
    if weights.size is None or not mark:
        return
    name, held = SIZE, str(weights.size)
    if mark.get(name, held) == held and SHA256 in mark:
        name, held = SHA256, weights.sha256()
    if mark.get(name, held) == held:
        return
    if name == SIZE:
        differs = f"it has {held} bytes, not {mark[name][:_DIGITS_SHOWN]}"
    else:
        differs = f"its SHA-256 begins {held[:_DIGITS_SHOWN]}, not {mark[name][:_DIGITS_SHOWN]}"
    text = f"{weights.path} is not what this file was written with: {differs}"
    severity: Severity | None = "warning" if chosen else None
    context.add("E124", text, Anchor("rt_info"), attribute=name, severity=severity)
