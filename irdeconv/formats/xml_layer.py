"""One `<layer>` with its children and declared specs, as parts of a Document; its `<rt_info>`.

`<rt_info>` has attributes that OpenVINO 2026.4.1 reads, and texts that it refuses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, NoReturn

from lxml import etree

from irdeconv.base.errors import Collector, Diagnostic, did_you_mean
from irdeconv.base.limits import Limits, raise_hint
from irdeconv.base.source import Anchor, Location, SourceFile
from irdeconv.formats import document
from irdeconv.ir.dtypes import BY_PRECISION, ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Shape, Spec, parse_dim
from irdeconv.ops.basic import Section

Element = Any  # lxml's elements are untyped here: its stubs make every text a union

BODIES = ("body", "then_body", "else_body")
MAPS = ("port_map", "then_port_map", "else_port_map", "back_edges")
_ONCE = frozenset(["data", "input", "output", *BODIES, *MAPS])
_KNOWN = ("data", "input", "output", "rt_info", *BODIES, *MAPS)
_NAMES = ("id", "name", "type", "version")
_PORT_ATTRIBUTES = ("id", "precision", "names")
_XML = "{http://www.w3.org/XML/1998/namespace}"  # lxml replaces the prefix xml: by this
EDGE_ATTRIBUTES = ("from-layer", "from-port", "to-layer", "to-port")


class LayerReader:
    """Reads layers and edges; counts elements as `source` does, so that anchors fit."""

    def __init__(self, source: SourceFile, out: Collector, limits: Limits) -> None:
        self._source, self._out, self._limits = source, out, limits
        self._section, self._item, self._sub, self._depth = "", 0, 0, 0
        self._layers = self._edges = 0
        self._short = min(limits.attribute_length, limits.name_length)  # allowed by both

    def top_layer(self, e: Element, item: int) -> document.XmlLayer:
        """Read child number `item` of `<layers>`."""
        self._section, self._item, self._sub = "layers", item, 0
        return self._layer(e)

    def top_edge(self, e: Element, item: int) -> document.Edge:
        """Read child number `item` of `<edges>`."""
        self._section, self._item, self._sub = "edges", item, 0
        return self._edge(e)

    def unexpected(self, e: Element, anchor: Anchor, known: Iterable[str], inside: str) -> None:
        """Warn about an element that OpenVINO ignores."""
        if self._out.skips("W102", "warning"):  # a file may have a million of them
            return
        text = f"<{_prefixed(str(e.tag))}> is not known inside <{inside}>; OpenVINO ignores it"
        place, hint = Location(self._source, anchor), did_you_mean(str(e.tag), known)
        self._out.add("W102", text, location=place, hint=hint)

    def _anchor(self) -> Anchor:
        return Anchor(self._section, self._item, self._sub)

    def _skip(self, e: Element) -> None:
        """Count the descendants of an element that is not read."""
        if len(e):
            self._sub += sum(1 for _ in e.iter()) - 1

    def _unexpected(self, e: Element, known: Iterable[str], inside: str) -> None:
        self.unexpected(e, self._anchor(), known, inside)
        self._skip(e)

    def _add(self, code: str, message: str, hint: str | None = None) -> None:
        place = Location(self._source, self._anchor())
        self._out.add(code, message, location=place, hint=hint)

    def _exceeded(self, code: str, message: str, limit: str) -> NoReturn:
        self._add(code, message, raise_hint(limit))
        raise document.NotReadFurther

    def _attributes(self, e: Element, names: Iterable[str] = ()) -> dict[str, str]:
        """Return the attributes of an element, limited in number and length (`names` more)."""
        most, number = self._limits.attributes, len(e.attrib)
        if number > most:  # before items(), whose time grows with the square of their number
            text = f"<{e.tag}> has {number:,} attributes; the limit is {most:,}"
            self._exceeded("E601", text, "attributes")
        out: dict[str, str] = dict(e.items())
        if "{" in "".join(out):
            out = {_prefixed(name): text for name, text in out.items()}
        if out and max(map(len, out.values())) > self._short:
            self._check_lengths(out, out, "attribute_length")
            self._check_lengths(out, names, "name_length")
        return out

    def _check_lengths(self, texts: dict[str, str], names: Iterable[str], limit: str) -> None:
        most = getattr(self._limits, limit)
        for name in names:
            if len(texts.get(name, "")) > most:
                length = len(texts[name])
                text = f'"{name[:40]}" has {length:,} characters; the limit is {most:,}'
                self._exceeded("E600", text, limit)

    def _check_ports(self, layer: Parts) -> None:
        most = self._limits.ports
        if len(layer.inputs) <= most and len(layer.outputs) <= most:
            return
        for ports, what in ((layer.inputs, "inputs"), (layer.outputs, "outputs")):
            if len(ports) > most:
                text = f"a layer has {len(ports):,} {what}; the limit is {most:,}"
                self._exceeded("E601", text, "ports")

    def _layer(self, e: Element) -> document.XmlLayer:
        self._layers += 1
        if self._layers > self._limits.layers:
            self._exceeded("E601", f"more than {self._limits.layers:,} layers", "layers")
        anchor = self._anchor()
        get = e.get
        number, name, kind, version = get("id"), get("name"), get("type"), get("version")
        extra: document.Pairs = ()
        if number is None or name is None or kind is None or version is None or len(e.attrib) > 4:
            extra = tuple(kv for kv in self._attributes(e, _NAMES).items() if kv[0] not in _NAMES)
        elif len(number) + len(name) + len(kind) + len(version) > self._short:
            self._attributes(e, _NAMES)
        parts = self._parts(e) if len(e) else _NO_PARTS
        return document.XmlLayer(
            id=number,
            name=name,
            type=None if kind is None else intern(kind),
            version=version,
            extra=extra,
            data=parts.data,
            data_sub=parts.data_sub,
            inputs=parts.inputs,
            outputs=parts.outputs,
            rt_info=parts.rt_info,
            anchor=anchor,
            sections=tuple(parts.sections),
            bodies=tuple(parts.bodies),
            maps=tuple(parts.maps),
        )

    def _parts(self, e: Element) -> Parts:
        parts = Parts()
        for child in e:
            self._sub += 1
            self._child(child, parts)
        self._check_ports(parts)
        return parts

    def _child(self, e: Element, parts: Parts) -> None:
        tag, sub = e.tag, self._sub
        if tag in parts.once:
            text = f"a second <{tag}>; OpenVINO reads the first alone"
            self._add("E108", text, "keep one of them")
            self._skip(e)
            return
        if tag in _ONCE:
            parts.once.add(tag)
        if tag == "data":
            parts.data, parts.data_sub = self._attributes(e), sub
            self._skip(e)
        elif tag == "input":
            parts.inputs += self._ports(e)
        elif tag == "output":
            parts.outputs += self._ports(e)
        elif tag == "rt_info":
            parts.rt_info = self._runtime(e) or parts.rt_info
            self._skip(e)
        elif tag in BODIES:
            parts.sections.append(raw_section(e))
            parts.bodies.append(document.XmlBody(tag, self._body(e), sub))
        elif tag in MAPS:
            parts.sections.append(raw_section(e))
            parts.maps.append(document.PortMap(tag, tuple(self._entries(e)), sub))
        else:
            # Of an operation that is not known it may be a part.
            parts.sections.append(raw_section(e))
            self._unexpected(e, _KNOWN, "layer")

    def _ports(self, group: Element) -> tuple[document.XmlPort, ...]:
        out = []
        for e in group:
            self._sub += 1
            if e.tag != "port":
                self._unexpected(e, ("port",), str(group.tag))
                continue
            sub = self._sub
            get = e.get
            number, precision, names = get("id"), get("precision"), get("names")
            known = (number is not None) + (precision is not None) + (names is not None)
            extra = () if len(e.attrib) == known else self._others(e, _PORT_ATTRIBUTES)
            dims, rt_info = self._inside(e)
            out.append(document.XmlPort(number, precision, names, dims, extra, sub, rt_info))
        return tuple(out)

    def _inside(self, port: Element) -> tuple[tuple[str, ...], str | None]:
        """Return the texts of the `<dim>`s of a port and its rt_info."""
        out: list[str] = []
        rt_info: str | None = None
        sub = self._sub
        for e in port:
            sub += 1
            if e.tag == "dim" and not len(e):
                out.append(e.text or "")
                continue
            self._sub = sub
            if e.tag == "dim":
                out.append(e.text or "")
                self._skip(e)
            elif e.tag == "rt_info":
                rt_info = self._runtime(e)
                self._skip(e)
            else:
                self._unexpected(e, ("dim", "rt_info"), "port")
            sub = self._sub
        if len(out) > self._limits.rank:
            text = f"a port has {len(out):,} dimensions; the limit is {self._limits.rank}"
            self._exceeded("E602", text, "rank")
        self._sub = sub
        return tuple(out), rt_info

    def _runtime(self, e: Element) -> str | None:
        """Return the XML of the rt_info of a layer or port; report what OpenVINO does not read."""
        for code, message in faults(e):
            self._add(code, message)
        return inner_info(e)

    def _others(self, e: Element, known: tuple[str, ...]) -> document.Pairs:
        return tuple((k, v) for k, v in self._attributes(e).items() if k not in known)

    def _entries(self, group: Element) -> Iterable[document.MapEntry]:
        wanted = ("edge",) if group.tag == "back_edges" else ("input", "output")
        for e in group:
            self._sub += 1
            if e.tag in wanted:
                yield document.MapEntry(e.tag, tuple(self._attributes(e).items()), self._sub)
                self._skip(e)
            else:
                self._unexpected(e, wanted, str(group.tag))

    def _edge(self, e: Element) -> document.Edge:
        self._edges += 1
        if self._edges > self._limits.edges:
            self._exceeded("E601", f"more than {self._limits.edges:,} edges", "edges")
        anchor = self._anchor()
        get = e.get
        a, b, c, d = get("from-layer"), get("from-port"), get("to-layer"), get("to-port")
        known = (a is not None) + (b is not None) + (c is not None) + (d is not None)
        extra = () if len(e.attrib) == known else self._others(e, EDGE_ATTRIBUTES)
        self._skip(e)
        return document.Edge(
            from_layer=a, from_port=b, to_layer=c, to_port=d, extra=extra, anchor=anchor
        )

    def _body(self, body: Element) -> document.Document:
        self._depth += 1
        if self._depth > self._limits.depth:
            text = f"bodies are nested more than {self._limits.depth} deep"
            self._exceeded("E603", text, "depth")
        anchor, layers, edges = self._anchor(), [], []
        rt_info: str | None = None
        for section in body:
            self._sub += 1
            if section.tag == "rt_info":
                rt_info = inner_info(section) or rt_info
                self._skip(section)
                continue
            if section.tag not in ("layers", "edges"):
                self._unexpected(section, ("layers", "edges", "rt_info"), str(body.tag))
                continue
            for e in section:
                self._sub += 1
                if section.tag == "layers" and e.tag == "layer":
                    layers.append(self._layer(e))
                elif section.tag == "edges" and e.tag == "edge":
                    edges.append(self._edge(e))
                else:
                    self._unexpected(e, (section.tag[:-1],), str(section.tag))
        self._depth -= 1
        complete = body.find("layers") is not None
        if not complete:
            place = Location(self._source, anchor)
            self._out.add("E104", f"<{body.tag}> has no <layers>", location=place)
        return document.Document(
            tuple(layers),
            tuple(edges),
            str(body.tag),
            rt_info=rt_info,
            anchor=anchor,
            complete=complete,
        )


@dataclass(slots=True)
class Parts:
    """The collected children of a layer; `once` are the tags that OpenVINO reads once."""

    once: set[str] = field(default_factory=set)
    data: dict[str, str] | None = None
    data_sub: int = 0
    inputs: tuple[document.XmlPort, ...] = ()
    outputs: tuple[document.XmlPort, ...] = ()
    rt_info: str | None = None
    sections: list[Section] = field(default_factory=list)
    bodies: list[document.XmlBody] = field(default_factory=list)
    maps: list[document.PortMap] = field(default_factory=list)


_NO_PARTS = Parts()  # of a layer without children


def _prefixed(name: str) -> str:
    """Return the name of an attribute or element as the file has it; no other prefix is read."""
    return name.replace(_XML, "xml:")


def inner_info(e: Element) -> str | None:
    """Return the XML of an rt_info that holds anything."""
    return etree.tostring(e, encoding="unicode", with_tail=False) if len(e) else None


def raw_section(e: Element) -> Section:
    """Return an element as it will be written.

    In UTF-8: lxml's default is ASCII, which turns other characters of names into references, and
    a reference is no name.
    """
    return Section(str(e.tag), etree.tostring(e, encoding="utf-8", with_tail=False))


# How OpenVINO writes an element type that is not known yet.
_UNSPECIFIED = ("UNSPECIFIED", "dynamic", "undefined")
_NUMBER_THEN_TEXT = re.compile(r"\s*[0-9]+\.[0-9]*\s*")
_ONE_NAME = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)


def declared_specs(
    layer: document.XmlLayer,
    ports: tuple[document.XmlPort, ...],
    outputs: bool,
    context: document.Context,
) -> tuple[Spec, ...]:
    """Return the declared spec of each port of one side and report malformed ones.

    A port without `<dim>`s is a scalar or has an unknown rank: the file does not say which.
    """
    out = []
    for port in ports:
        spec, fault = _spec(port.precision, port.dims)
        if fault or port.extra or (outputs and port.precision is None):
            _report(layer, port, outputs, context)
        out.append(spec)
    return tuple(out)


@lru_cache(maxsize=8192)
def _spec(precision: str | None, dims: tuple[str, ...]) -> tuple[Spec, bool]:
    dtype = BY_PRECISION.get(precision or "")  # for OpenVINO case and blanks matter
    fault = dtype is None and precision not in (None, *_UNSPECIFIED)
    shape: Shape | None = None
    if dims:
        try:
            shape = tuple(parse_dim(d) for d in dims)
            fault = fault or any(not _plain(d) for d in dims)
        except ValueError:
            fault = True
    return Spec(dtype, shape), fault


def _plain(dim: str) -> bool:
    text = dim.strip()
    return text == "-1" or text.isdigit()


def _report(
    layer: document.XmlLayer, port: document.XmlPort, outputs: bool, context: document.Context
) -> None:
    if port.precision is None:
        if outputs:
            context.add("E105", 'an output port has no "precision"', layer=layer, sub=port.sub)
    elif port.precision not in BY_PRECISION and port.precision not in _UNSPECIFIED:
        text = f'the precision "{port.precision}" is not an element type'
        by_name = ELEMENT_TYPES.get(port.precision.strip().lower())
        hint = by_name and f"ports spell it {by_name.precision}"
        hint = hint or did_you_mean(port.precision, BY_PRECISION)
        context.add("E212", text, attribute="precision", layer=layer, sub=port.sub, hint=hint)
    for number, dim in enumerate(port.dims):
        _check_dim(dim, port.sub + 1 + number, layer, context)
    extra = dict(port.extra)
    context.unknown_attributes(extra, _PORT_ATTRIBUTES, "<port>", layer=layer, sub=port.sub)


def _check_dim(dim: str, sub: int, layer: document.XmlLayer, context: document.Context) -> None:
    text = dim.strip()
    try:
        parse_dim(text)
        if text[:1] in "?.":
            raise ValueError
    except ValueError as e:
        if _NUMBER_THEN_TEXT.fullmatch(text):
            message = f'the dimension "{text}" is not an integer; OpenVINO ignores it'
            context.add("W103", message, layer=layer, sub=sub)
            return
        hint = "a <dim> holds a non-negative integer, or -1 where it is not known"
        message = str(e) if text.isascii() and text.isdigit() else f'"{text}" is not a dimension'
        context.add("E213", message, layer=layer, sub=sub, hint=hint)
        return
    if not _plain(text):
        message = f'the dimension "{text}" is spelled unusually; OpenVINO writes -1'
        context.add("W103", message, layer=layer, sub=sub)


def tensor_names(ports: tuple[document.XmlPort, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the tensor names of each output; commas inside a name are escaped in the file."""
    return tuple([split_names(p.names) if p.names else () for p in ports])


def split_names(text: str) -> tuple[str, ...]:
    r"""Split `a,b\,c` into `a` and `b,c`."""
    if "," not in text:
        return (text,)
    return tuple(part.replace("\\,", ",") for part in _ONE_NAME.findall(text))


# How many of them OpenVINO reads in the rt_info of a layer or a port. With more it reads no model.
_MOST = dict.fromkeys(("nms_selected_indices", "strides_propagation"), 0) | dict.fromkeys(
    "decompression fused_names layout old_api_map_element_type old_api_map_order precise "
    "preprocessing primitives_priority".split(),
    1,
)
_LAYOUT = "attribute[@version='0'][@name='layout']"
_AXES = {"BATCH": "N", "CHANNEL": "C", "CHANNELS": "C", "DEPTH": "D", "HEIGHT": "H", "WIDTH": "W"}
_NUMBER = re.compile(r"\s*([0-9]{1,40})", re.ASCII)


def faults(info: Any) -> Iterator[tuple[str, str]]:
    """Yield code and message of what OpenVINO refuses in the rt_info of a layer or a port."""
    found = info.findall("attribute[@version='0']")
    for name, times in Counter(a.get("name") for a in found).items():
        if times > _MOST.get(name, times):
            text = f'{times} attributes "{name}" in <rt_info>'
            yield "E108", f"{text}; OpenVINO reads {_MOST[name]}"
    for e in found:
        name = e.get("name", "")
        text = e.get("layout" if name == "layout" else "value")
        if text is not None and (why := _misread(name, text)):
            yield "E106", f'the attribute "{name}" in <rt_info> is "{text}": {why}'


def _misread(name: str, text: str) -> str:
    """Return what is wrong with the value of an attribute; empty if nothing is."""
    if name == "old_api_map_order" and text:
        numbers = map(_NUMBER.match, text.removesuffix(",").split(","))
        return "" if all(n and int(n[1]) < 2**64 for n in numbers) else "it must be a list of axes"
    if name == "old_api_map_element_type":
        known = text.lower() in (*ELEMENT_TYPES, "dynamic", "undefined")
        return "" if known else "it is not an element type"
    if name == "layout":
        try:
            layout_axes(text)
        except ValueError as e:
            return str(e)
    return ""


def layout_axes(text: str) -> tuple[int, bool]:
    """Return how many axes a layout names, and whether there may be more; ValueError.

    >>> layout_axes("NCHW"), layout_axes("[batch,...,width]")
    ((4, False), (2, True))
    """
    layout = text.strip()
    if layout == "**SCALAR**":
        return 0, False
    if len(layout) > 1 and layout[0] + layout[-1] == "[]":
        items = [item.strip() for item in layout[1:-1].split(",")]
        if len(items) > 1 and not items[-1] and items[-2] != "...":
            items.pop()
    else:
        items = re.findall(r"\.\.\.|.", layout, re.DOTALL)
    names = [_AXES.get(i.upper(), i.upper()) for i in items if i not in ("...", "?")]
    for name in names:
        if not re.fullmatch("_*[A-Z0-9][A-Z0-9_]*", name, re.ASCII):
            raise ValueError(f'"{name}" is no name of an axis')
    if len(set(names)) < len(names) or items.count("...") > 1 or (text and not items):
        raise ValueError("it must name different axes, with ... once at most")
    return len(items) - items.count("..."), not text or "..." in items


def layout_misfits(graph: Graph) -> Iterator[Diagnostic]:
    """Yield an error (E301) for each input or output whose layout is of another rank."""
    for node, port in _ends(graph):
        shape = node.spec(port).shape
        for side, number, xml in node.port_rt_info:
            if shape is None or (side, number) != ("output", port):
                continue
            for e in etree.fromstring(xml, document.SAFE_PARSER).findall(_LAYOUT):
                text = e.get("layout", "")
                if not _fits(text, len(shape)):
                    why = f'the layout "{text}" does not fit {node.spec(port)}'
                    what = f'{node.type} "{node.name}": {why}'
                    yield Diagnostic("E301", "error", what, node.location, node.name)


def _fits(layout: str, rank: int) -> bool:
    try:
        axes, more = layout_axes(layout)
    except ValueError:  # reported by `faults`
        return True
    return axes <= rank if more else axes == rank


def _ends(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Yield the layers and output ports that are inputs or outputs of the model."""
    yield from ((node, 0) for node in graph.parameters)
    for result in graph.results:
        for value in graph.inputs_of(result.id):
            yield graph.node(value.node), value.port
