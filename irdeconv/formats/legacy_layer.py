"""The XML of IR 2 to 7, and its layers as rules see them: attributes, blobs, declared outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

import numpy as np
from lxml import etree

from irdeconv.base import work
from irdeconv.base.errors import Collector
from irdeconv.base.limits import Limits
from irdeconv.base.source import Anchor, Location, SourceFile
from irdeconv.formats import importing, xml_reader
from irdeconv.formats.document import (
    Document,
    Edge,
    NotReadFurther,
    NoWeights,
    XmlLayer,
    XmlPort,
    integer,
)
from irdeconv.formats.xml_layer import LayerReader, Parts, raw_section
from irdeconv.ir.attributes import Ints as Ints
from irdeconv.ir.attributes import attributes
from irdeconv.ir.constant import ArrayData, ConstantData, FileData
from irdeconv.ir.dtypes import BY_PRECISION, ElementType, boolean, f16, f32, i32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op, lookup
from irdeconv.ir.spec import Spec, is_static
from irdeconv.ops.basic import Const, Convert
from irdeconv.proof import spelling

Element = Any
_BLOBS = ("blobs", "weights", "biases")
# Elements with the attributes of a layer, beside <data> and <TYPE_data>.
_DATA = re.compile(r"data|.+[_-]data|fc|lrn|norm|crop|batch_norm|elementwise")
_SECTIONS = ("layers", "edges", "pre-process", "statistics", "meta_data", "quantization_parameters")


class Blob(NamedTuple):
    """A part of the `.bin`; `precision` if it is not the layer's."""

    offset: int
    size: int
    precision: str | None


class Channel(NamedTuple):
    """The pre-processing of an image's channel: a mean value or image, the texts of the file."""

    id: int
    mean: str | None
    image: Blob | None
    scale: str | None


@dataclass(frozen=True)
class PreProcess:
    """The `<pre-process>` of a model: the input's name if it is given, its channels."""

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
    """Return the file's content, or None if it is not well-formed; problems go to `out`."""

    def read(prolog: xml_reader.Prolog) -> LegacyDocument | None:
        if prolog.legacy is None:
            return None
        events = etree.iterparse(BytesIO(source.data), events=("start-ns",), **xml_reader.SAFE)
        for _ in events:
            xml_reader.report_namespace(source, out)
            raise NotReadFurther
        return _net(events.root, prolog.legacy, source, out, limits)

    return xml_reader.parsed(source, out, limits, read)


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
            out.add("E104", f"<net> has no <{tag}>", location=Location(source, Anchor()))
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
    """Return the blobs of a layer by name; ValueError describes the error of one."""
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
                spelling.real(number or "0")
            channels.append(Channel(spelling.integer(text), value, image, factor))
        except ValueError as error:
            place = Location(source, Anchor("pre-process"))
            out.add("E106", f"<pre-process>: {error}", location=place)
            return None
    name = str(e.get("reference-layer-name", "")).strip()
    return PreProcess(name, e.get("mean-precision"), tuple(channels))


class _LegacyLayerReader(LayerReader):
    """Reads layers with their attributes in `<data>` under any of its names, and their blobs."""

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


X = TypeVar("X")
Outputs = Value | tuple[Value, ...]
Usual = Mapping[str, Any]
Rule = Callable[["LegacyLayer", importing.ImportBuilder], Outputs]
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_DRAWN = 1 << 30  # elements of one blob that are drawn
_COMPRESSED = '<rt_info><attribute name="decompression" version="0"/></rt_info>'


@dataclass(frozen=True)
class BlobSource:
    """The source of blobs: the `.bin`, or random numbers if `seed` is given."""

    weights: NoWeights
    seed: int | None = None

    def data(self, blob: Blob, dtype: ElementType, shape: Ints, key: Sequence[int]) -> ConstantData:
        """Return the constant of a blob, or numbers drawn by seed and key; integers are 0."""
        if self.seed is None:
            if self.weights.size is not None:
                self.weights.read(blob.offset, blob.size)  # raises if it lies outside
            return FileData(self.weights, blob.offset, blob.size, dtype, shape)
        size = math.prod(shape)
        if size > _DRAWN:
            raise importing.Refusal(f"a random blob of {size} elements; the limit is {_DRAWN}")
        work.take(size * 8)
        if not dtype.is_real:
            return ArrayData.of(np.zeros(shape, dtype.container), dtype)
        rng = np.random.default_rng([self.seed, *key])
        drawn = rng.standard_normal(shape) / math.sqrt(max(1, size // max(shape, default=1)))
        return ArrayData.of(np.asarray(drawn, dtype.container), dtype)


@dataclass(kw_only=True)
class LegacyLayer(importing.SourceNode):
    """A layer: its type in lower case, number and precision, blobs, declared outputs.

    Types, choices and truth values are compared without regard to case. `declared` are the specs
    of the outputs, of f32 if the file says FP16: blobs stay f16, computation is in f32, as the
    CPU always did. `iterate` builds layers that have a body.
    """

    kind: str
    id: int
    precision: ElementType
    blobs: dict[str, Blob]
    declared: tuple[Spec, ...]
    source: BlobSource
    iterate: Rule
    used: set[str] = field(default_factory=set)

    def text(self, name: str, default: object = None) -> str:
        """Return an attribute's text; without a default it is required."""
        return super().text(name, default).strip()

    def number(self, name: str, default: float | None = None) -> float:
        """Return a floating-point attribute."""
        return self._parsed(name, self.text(name, default), spelling.real)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; a number without a fraction is one."""
        return self._parsed(name, self.text(name, default), _integer)

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return a list of floating-point numbers."""
        return self._list(name, default, spelling.real)

    def ints(self, name: str, default: Sequence[int] | None = None) -> Ints:
        """Return a list of integers."""
        return self._list(name, default, _integer)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a truth value."""
        text = self.text(name, None if default is None else int(default)).lower()
        return text in _TRUE if text in _TRUE or text in _FALSE else self.number(name) != 0

    def only(self, name: str, value: float, why: str) -> None:
        """Refuse every value of an attribute but `value`, the meaning of its absence."""
        if self.number(name, value) != value:
            raise importing.Refusal(f"{name}={self.text(name)} is not covered: {why}")

    def same(self, kind: str, version: str, usual: Usual | None = None, **fixed: Any) -> Op:
        """Return an operation whose attributes, but for the `fixed`, have the layer's names.

        Absent ones have the `usual` values, else the operation's; those that the specification
        requires are required here, too.
        """
        read: dict[str, Callable[..., Any]] = {
            "boolean": self.flag,
            "integer": self.integer,
            "integers": self.ints,
            "number": self.number,
            "numbers": self.numbers,
        }
        for a in attributes(_class_of(kind, version)).values():
            if a.xml not in fixed:
                default = None if a.required or a.documented else a.default
                take = read.get(a.kind.label, self.text)
                fixed[a.xml] = take(a.xml, (usual or {}).get(a.xml, default))
        return standard(kind, version, **fixed)

    def _list(
        self, name: str, default: Sequence[X] | None, parse: Callable[[str], X]
    ) -> tuple[X, ...]:
        if name not in self and default is not None:
            self.asked.add(name)
            return tuple(default)
        texts = [t for t in self.text(name).split(",") if t.strip()]
        return tuple(self._parsed(name, t.strip(), parse) for t in texts)

    def _parsed(self, name: str, text: str, parse: Callable[[str], X]) -> X:
        try:
            return parse(text)
        except (ValueError, OverflowError):
            raise importing.Refusal(f'{name}="{text}" is no number') from None

    @property
    def shape(self) -> Ints:
        """The declared shape of the first output."""
        return self.shapes[0]

    @property
    def shapes(self) -> tuple[Ints, ...]:
        """The declared shapes of the outputs, which are exact."""
        exact = [s.shape for s in self.declared if is_static(s.shape)]
        if not exact or len(exact) < len(self.declared):
            raise importing.Refusal("an output has no exact shape")
        return tuple(exact)

    def axis(
        self, b: importing.ImportBuilder, x: Value, name: str = "axis", default: int = 1
    ) -> int:
        """Return an axis attribute counted from 0."""
        axis, rank = self.integer(name, default), b.rank(x)
        if not -rank <= axis < rank:
            raise importing.Refusal(f"{name}={axis} is no axis of {rank} dimensions")
        return axis % rank

    def elements(self, name: str) -> int:
        """Return how many elements a blob has; 0 if there is none."""
        blob = self.blobs.get(name)
        return 0 if blob is None else blob.size * 8 // max(self._type(blob).bits, 1)

    def blob(self, b: importing.ImportBuilder, name: str, shape: Ints) -> Value:
        """Add the constant of a blob, decompressed if it is f16."""
        value = self.optional(b, name, shape)
        if value is None:
            raise importing.Refusal(f"it has no {name}")
        return value

    def optional(self, b: importing.ImportBuilder, name: str, shape: Ints) -> Value | None:
        """Add the constant of a blob; None if the layer has none."""
        blob = self.blobs.get(name)
        if blob is None or not blob.size:
            return None
        self.used.add(name)
        if min(shape, default=0) < 0:
            raise importing.Refusal(f"{name} of shape {list(shape)}")
        dtype = self._type(blob)
        wanted = dtype.nbytes(math.prod(shape))
        if blob.size != wanted:
            have = f"its {name} have {blob.size} bytes"
            raise importing.Refusal(f"{have}; {list(shape)} of {dtype} are {wanted}")
        data = self.source.data(blob, dtype, shape, (self.id, sum(name.encode())))
        made = b.keep(Const(element_type=dtype, shape=shape, data=data))
        return decompressed(b, made) if dtype == f16 else made

    def _type(self, blob: Blob) -> ElementType:
        return self.precision if blob.precision is None else precision_of(blob.precision)


def _integer(text: str) -> int:
    number = spelling.real(text)
    if not number.is_integer():
        raise ValueError(text)
    whole = spelling.integer(text)
    return int(number) if whole is None else whole


def precision_of(text: str) -> ElementType:
    """Return the element type that a precision names; I1, Q78 and the like have none."""
    found = BY_PRECISION.get(text.strip().upper())
    if found is None:
        raise importing.Refusal(f"the precision {text} is not covered")
    return found


def decompressed(b: importing.ImportBuilder, value: Value) -> Value:
    """Return an f16 constant as f32, so marked that runtimes keep it compressed."""
    made = b.keep(Convert(f32), value)
    b.graph.node(made.node).rt_info = _COMPRESSED
    return made


def computed(dtype: ElementType | None) -> ElementType | None:
    """Return the element type in which a layer of a declared one computes."""
    return f32 if dtype == f16 else dtype


def standard(kind: str, version: str, **values: Any) -> Op:
    """Return a standard operation by its attributes as the XML spells them."""
    return importing.operation(_class_of(kind, version), values)


def _class_of(kind: str, version: str) -> type[Op]:
    cls = lookup(kind, version)
    if cls is None:
        raise importing.Refusal(f"{kind} of {version} is not covered")
    return cls


def integers(b: importing.ImportBuilder, value: Value) -> Value:
    """Return indices, sizes or axes as i64; older files hold them as floating-point numbers."""
    known = b.known(value)
    if known is not None and known.dtype != object:
        exact = known.dtype.kind in "biu"
        with np.errstate(all="ignore"):  # NaN, and f16 and f32 beyond their range
            fits = exact or bool((np.abs(known.astype(np.float64)) < 2.0**63).all())
        if not fits:
            raise importing.Refusal("an index, a size or an axis is no number that 64 bits hold")
        return b.const(np.asarray(known, np.int64))
    return value if b.dtype(value) in (i32, i64) else b.convert(value, i64)


def exact_shape(port: XmlPort) -> Ints:
    """Return the shape that a port declares; old files know no open dimensions."""
    shape = tuple(d for d in map(integer, port.dims) if d is not None and 0 <= d < 2**63)
    if len(shape) < len(port.dims):
        raise importing.Refusal(f"a port has the dimensions {', '.join(port.dims)}")
    return shape


def truth(b: importing.ImportBuilder, value: Value) -> Value:
    """Return numbers as truth values: all but 0 are true."""
    return b.convert(value, boolean)


RULES: dict[str, Rule] = {}
layer = importing.registrar(RULES, str.lower)


def plain(kinds: str, op: Op | importing.MakeOp[LegacyLayer], inputs: int | None = 1) -> None:
    """Register an operation of the first inputs as they are (None: of all)."""
    layer(kinds)(importing.one_operation(op, inputs))
