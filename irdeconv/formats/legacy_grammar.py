"""The XML of IR 2 to 7: blobs inside layers, `<data>` under many names, `<pre-process>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

from lxml import etree

from irdeconv.base.errors import Collector
from irdeconv.base.limits import Limits
from irdeconv.base.source import Anchor, Location, SourceFile
from irdeconv.formats import xml_reader
from irdeconv.formats.document import Document, Edge, NotReadFurther, XmlLayer
from irdeconv.formats.xml_layer import LayerReader, Parts, raw_section
from irdeconv.ir.attributes import parse_float, parse_int

Element = Any
_BLOBS = ("blobs", "weights", "biases")
# What holds the attributes of a layer, beside <data> and <TYPE_data>.
_DATA = re.compile(r"data|.+[_-]data|fc|lrn|norm|crop|batch_norm|elementwise")
_SECTIONS = ("layers", "edges", "pre-process", "statistics", "meta_data", "quantization_parameters")


class Blob(NamedTuple):
    """A part of the `.bin`; `precision` where it is not the layer's."""

    offset: int
    size: int
    precision: str | None


class Channel(NamedTuple):
    """What is done to one channel of an image: a mean value or image, the texts of the file."""

    id: int
    mean: str | None
    image: Blob | None
    scale: str | None


@dataclass(frozen=True)
class PreProcess:
    """The `<pre-process>` of a model: the input's name where it is given, its channels."""

    layer: str
    precision: str | None
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class LegacyDocument:
    """A `<net>` of version 2 to 7. `calibrated`: it has statistics for 8-bit inference."""

    document: Document
    version: int
    precision: str | None
    pre_process: PreProcess | None
    calibrated: bool


def read_grammar(source: SourceFile, out: Collector, limits: Limits) -> LegacyDocument | None:
    """Return what the file says, or None where it is not well-formed; problems go to `out`."""
    if len(source.data) > limits.xml_bytes:
        xml_reader.report_size(source, len(source.data), out, limits)
        return None
    prolog = xml_reader.scan_prolog(source, out)
    version = prolog and prolog.attributes.get("version", "").strip()
    if prolog is None or prolog.tag != "net" or version not in xml_reader.LEGACY_VERSIONS:
        return None
    try:
        return _net(_root(source, out), int(version), source, out, limits)
    except etree.XMLSyntaxError as e:
        xml_reader.report_syntax(e, source, out)
    except NotReadFurther:
        pass
    return None


def _root(source: SourceFile, out: Collector) -> Element:
    """Parse the whole file."""
    events = etree.iterparse(BytesIO(source.data), events=("start-ns",), **xml_reader.SAFE)
    for _ in events:
        xml_reader.report_namespace(source, out)
        raise NotReadFurther
    return events.root


def _net(
    root: Element, version: int, source: SourceFile, out: Collector, limits: Limits
) -> LegacyDocument | None:
    reader = _LegacyLayerReader(source, out, limits)
    for e in root:
        if e.tag not in _SECTIONS:
            reader.unexpected(e, Anchor(str(e.tag)), _SECTIONS, "net")
    sections = {tag: root.find(tag) for tag in ("layers", "edges")}
    for tag, section in sections.items():
        if section is None:
            place = Location(source, Anchor())
            out.add("E104", f"<net> has no <{tag}>", location=place)
    if any(s is None for s in sections.values()):
        return None
    layers: list[XmlLayer] = []
    edges: list[Edge] = []
    for tag, section in sections.items():
        for item, e in enumerate(section):
            if e.tag != tag[:-1]:
                reader.unexpected(e, Anchor(tag, item), (tag[:-1],), tag)
            elif tag == "layers":
                layers.append(reader.top_layer(e, item))
            else:
                edges.append(reader.top_edge(e, item))
    document = Document(tuple(layers), tuple(edges), name=root.get("name", ""))
    before = root.find("pre-process")
    return LegacyDocument(
        document=document,
        version=version,
        precision=root.get("precision"),
        pre_process=None if before is None else _pre_process(before, source, out),
        calibrated=root.find("statistics") is not None,
    )


def blobs_of(layer: XmlLayer) -> dict[str, Blob]:
    """Return the blobs of a layer by name; ValueError says what is wrong with one."""
    found: dict[str, Blob] = {}
    for section in layer.sections:
        if section.tag not in _BLOBS:
            continue
        e = etree.fromstring(section.xml)
        for blob in e if section.tag == "blobs" else (e,):
            found[str(blob.tag)] = _blob(blob)
    return found


def _blob(e: Element) -> Blob:
    numbers = []
    for name in ("offset", "size"):
        text = str(e.get(name, "0")).strip()
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise ValueError(f'<{e.tag}> has {name}="{text}", which is no number of bytes')
        numbers.append(int(text))
    return Blob(numbers[0], numbers[1], e.get("precision"))


def _pre_process(e: Element, source: SourceFile, out: Collector) -> PreProcess | None:
    channels: list[Channel] = []
    for channel in e.iterfind("channel"):
        text = channel.get("id") or str(channels[-1].id + 1 if channels else 0)
        try:
            mean, scale = channel.find("mean"), channel.find("scale")
            value = None if mean is None else mean.get("value")
            image = None if mean is None or mean.get("size") is None else _blob(mean)
            factor = None if scale is None else scale.get("value")
            for number in (value, factor):
                parse_float(number or "0")
            channels.append(Channel(parse_int(text), value, image, factor))
        except ValueError as error:
            place = Location(source, Anchor("pre-process"))
            out.add("E106", f"<pre-process>: {error}", location=place)
            return None
    name = str(e.get("reference-layer-name", "")).strip()
    return PreProcess(name, e.get("mean-precision"), tuple(channels))


class _LegacyLayerReader(LayerReader):
    """Reads layers whose attributes stand in `<data>` by any of its names, and their blobs."""

    def _child(self, e: Element, parts: Parts) -> None:
        tag = str(e.tag)
        if tag in _BLOBS:
            parts.sections.append(raw_section(e))
            self._skip(e)
        elif _DATA.fullmatch(tag) or tag == str(e.getparent().get("type", "")).lower():
            parts.data_sub = parts.data_sub or self._sub
            parts.data = {**(parts.data or {}), **self._attributes(e), **_listed(e)}
            self._skip(e)
        else:
            super()._child(e, parts)


def _listed(e: Element) -> dict[str, str]:
    """Return the attributes of `<crop axis= offset= dim=/>` elements as lists, as of version 3."""
    found: dict[str, list[str]] = {}
    for crop in e.iterfind("crop"):
        for name, text in crop.items():
            found.setdefault(name, []).append(text)
    return {name: ",".join(texts) for name, texts in found.items()}
