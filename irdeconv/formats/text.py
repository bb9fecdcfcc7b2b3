"""The text form of a graph, and its reader: for reading, diffs, tests and bug reports.

    graph 1 "net" <ir_version = 11> {
      %0 "x" = opset1.Parameter() {shape = [1, 3, 8, 8], element_type = f32} : f32[1,3,8,8]
      %1 "y" = opset1.Relu(%0) : f32[1,3,8,8] <declared = [f32[1,3,8,8]]>
      %2 "out" = opset1.Result(%1) : f32[1,3,8,8]
    }

`%5#1` is the second output of node 5. The inferred specs follow the colon, the file's declarations
and its other content are in `<...>`. `parse(dump(g))` gives the same graph, bit for bit. Facts for
the `.xml` alone are printed only if a file can contain them.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from lxml import etree

from irdeconv import ops
from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.base.errors import Diagnostic, LimitError, did_you_mean, misused
from irdeconv.base.limits import current, raise_hint
from irdeconv.formats.document import SAFE_PARSER, integer
from irdeconv.formats.text_values import (
    DEPTH,
    Lexer,
    Missing,
    Omitted,
    OwnValue,
    Token,
    constant,
    fits,
    format_bytes,
    format_data,
    format_dim,
    format_spec,
    literal,
    quote,
    string,
)
from irdeconv.ir.attributes import attributes, per_class
from irdeconv.ir.constant import ConstantData
from irdeconv.ir.dtypes import ElementType, u8
from irdeconv.ir.graph import Graph, Info, Node, Value
from irdeconv.ir.op import TYPES, Op, lookup
from irdeconv.ir.spec import Array, Interval, Shape, Spec
from irdeconv.ops import dialects
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput, Slicing, bodies_of

_WORD = re.compile(r"(?!inf\Z)[A-Za-z_][A-Za-z0-9_]*")  # inf is read as a number
# Fields of a node that stand behind it, in < >.
KEPT = (
    *("declared", "declared_inputs", "tensor_names", "origins", "rt_info"),
    *("port_rt_info", "extra", "extra_data"),
)


BODY = ("inputs", "outputs", "edges")  # fields of a body besides its graph
ELIDED = 1 << 16


def dump(
    graph: Graph, *, elide: int | None = ELIDED, comments: Mapping[int, str] | None = None
) -> str:
    """Return the graph as text, as `irdeconv.dump` does; `comments` have no line breaks."""
    return _Printer(elide, comments or {}).graph(graph)


class _Printer:
    def __init__(self, elide: int | None, comments: Mapping[int, str]) -> None:
        self.elide = elide
        self.comments = comments

    def graph(self, graph: Graph) -> str:
        info = graph.info
        kept = {k: getattr(info, k) for k in ("ir_version", "rt_info", "file", "extra")}
        lines = [f"graph 1 {quote(info.name)}{self.kept(kept)} {{"]
        for n in graph.reading_order():
            if n.id in self.comments:
                lines.append(f"  // {self.comments[n.id]}")
            lines += self.lines(graph, n, "  ")
        return "\n".join([*lines, "}"]) + "\n"

    def lines(self, graph: Graph, node: Node, indent: str) -> Iterator[str]:
        """Yield a node, and below it its bodies."""
        yield indent + self.node(graph, node)
        for body in bodies_of(node):
            entries = {k: getattr(body, k) for k in BODY}
            texts = [f"{k} = {self.value(v)}" for k, v in entries.items() if v]
            kept = self.kept({"rt_info": body.graph.info.rt_info})
            yield f"{indent}  {body.tag} {{{', '.join(texts)}}}{kept} {{"
            for n in body.graph.reading_order():
                yield from self.lines(body.graph, n, f"{indent}    ")
            yield f"{indent}  }}"

    def node(self, graph: Graph, node: Node) -> str:
        values = graph.inputs_of(node.id)
        inputs = ", ".join(f"%{v.node}#{v.port}" if v.port else f"%{v.node}" for v in values)
        head = f"%{node.id} {quote(node.name)} = {self.operation(node)}({inputs})"
        attributes = ", ".join(self.attributes(node))
        text = f"{head} {{{attributes}}}" if attributes else head
        if node.specs is not None:
            text += f" : {self.specs(node) or '()'}"
        return text + self.kept({k: getattr(node, k) for k in KEPT})

    def operation(self, node: Node) -> str:
        opaque = "opaque " if isinstance(node.op, Opaque) else ""
        return f"{opaque}{_word(node.op.version)}.{_word(node.op.type)}"

    def attributes(self, node: Node) -> Iterator[str]:
        op = node.op
        for f in dataclasses.fields(op):
            value = getattr(op, f.name)
            if isinstance(op, Opaque) and (f.name in ("kind", "opset") or value == f.default):
                continue
            if isinstance(op, BodyOp) and f.name == "bodies":
                continue
            if isinstance(op, Const) and f.name == "data":
                text = format_data(value, op.element_type, op.shape, self.elide)
            else:
                text = self.value(value)
            yield f"{f.name} = {text}"

    def specs(self, node: Node) -> str:
        constant: Array | None = None
        specs: Sequence[Spec] = node.specs or ()
        if isinstance(node.op, Const) and any(s.value is not None for s in specs):
            constant = node.op.data.array() if node.op.data.available else None
        return ", ".join(format_spec(s, constant) for s in specs)

    def kept(self, fields: dict[str, Any]) -> str:
        texts = [f"{k} = {self.value(v)}" for k, v in fields.items() if v not in (None, ())]
        return f" <{', '.join(texts)}>" if texts else ""

    def value(self, value: Any) -> str:
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, (int, Interval)):
            return format_dim(value)
        if isinstance(value, float):
            return repr(float(value))
        if isinstance(value, bytes):
            return format_bytes(value)
        return self.compound(value)

    def compound(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(self.value(v) for v in value)}]"
        if isinstance(value, ElementType):
            return value.name
        if isinstance(value, Spec):
            return format_spec(value)
        if isinstance(value, (BodyInput, BodyOutput, Slicing)):
            fields = [(getattr(value, f.name), f.default) for f in dataclasses.fields(value)]
            while fields[-1][0] == fields[-1][1]:
                fields.pop()
            return self.compound([v for v, _ in fields])
        if isinstance(value, Section):
            return f"[{quote(value.tag)}, {_xml(value.xml)}]"
        if isinstance(value, ConstantData):
            return format_data(value, u8, None, self.elide)
        raise TypeError(f"the text form cannot spell a {type(value).__name__}")


def _xml(raw: bytes) -> str:
    try:
        return quote(raw.decode())
    except UnicodeDecodeError:
        return format_bytes(raw)


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else quote(text)


# Attributes that the writer gives <net> and <layer> itself, and children of <layer>.
_OWN = ("id", "name", "type", "version")
_WRITTEN = ("data", "input", "output", "rt_info")


def check_xml(
    lex: Lexer, fields: Mapping[str, tuple[Any, int]], data: Collection[str] = ()
) -> None:
    """Fail at the first field that an `.xml` cannot hold; `data` are the operation's attributes."""
    for name, (value, offset) in fields.items():
        if value is None:
            continue
        problem = None
        if name == "ir_version" and value not in (10, 11):
            problem = f"{value} is not 10 or 11"
        elif name == "rt_info":
            problem = _element(value, "rt_info")
        elif name == "port_rt_info":
            problem = next(filter(None, (_element(e[-1], "rt_info") for e in value)), None)
        elif name in ("extra", "extra_data"):
            problem = _attributes([k for k, _ in value], _OWN if name == "extra" else data)
        _fail(lex, name, problem, offset)


def _fail(lex: Lexer, name: str, problem: str | None, offset: int) -> None:
    if problem is not None:
        lex.fail(f'"{name}": {problem}'[:200], offset)


def _attributes(names: Sequence[str], own: Collection[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if not _is_name(name):
            return f"{name!a} is no name of an attribute"
        if name in own or name in seen:
            return f"the attribute {name} exists already"
        seen.add(name)
    return None


def _is_name(name: str) -> bool:
    """Whether an attribute can have this name; of prefixes there is only xml:."""
    if name.startswith("{") or name == "xmlns":
        return False
    try:
        etree.Element("e").set(name.removeprefix("xml:"), "")
    except ValueError:
        return False
    return True


def _section(section: Section, op: Opaque) -> str | None:
    if section.tag in _WRITTEN:
        return f"<{section.tag}> is written from the node itself"
    problem = _element(section.xml, section.tag)
    if problem is None and section.tag.endswith("body"):
        size: int | None = 0
        if op.weights is not None:
            size = len(op.weights.raw()) if op.weights.available else None
        root = etree.fromstring(section.xml, SAFE_PARSER)
        problem = next(filter(None, (_outside(e, size) for e in root.iter())), None)
    return problem


def _outside(e: Any, size: int | None) -> str | None:
    """Return the error in the place of a constant's bytes, of `size` (None: they are missing)."""
    start, length = (integer(e.get(name)) for name in ("offset", "size"))
    if e.tag != "data" or start is None or length is None or size is None:
        return None
    if 0 <= start <= start + length <= size:
        return None
    return f"bytes {start}..{start + length} of a constant are not in the weights, {size} bytes"


def _element(xml: str | bytes, tag: str) -> str | None:
    """Return the error of a text that must be one element."""
    try:
        text = xml if isinstance(xml, str) else str(xml, "utf-8")
        root = etree.fromstring(xml, SAFE_PARSER)
    except (etree.XMLSyntaxError, ValueError) as e:
        return f"it is no XML element: {e}"
    if root.tag != tag:
        return f"it is a <{root.tag}>, not an <{tag}>"
    if any(etree.iterwalk(root, events=("start-ns",))):
        return "an IR has no XML namespaces"
    return None if text.lstrip().startswith(f"<{tag}") else f"something stands before <{tag}>"


T = TypeVar("T")
_FILLED = (ops, dialects)  # importing them fills the registry
_SHAPES = (Shape, Shape | None)
_hints = per_class(typing.get_type_hints)
Fields = dict[str, tuple[Any, int]]  # name -> (value, offset)


@checked
def parse(text: str, *, file: str = "<text>") -> Graph:
    """Return the graph that `dump` printed.

    Raises InputError (E702) with line and column for anything that does not fit; nodes point at
    their lines in the text.

    >>> text = ird.dump("ir_samples/openvino/group_deconv.xml", elide=None)
    >>> ird.dump(ird.parse(text), elide=None) == text
    True
    """
    if "\n" not in text and text.endswith((".ird", ".xml", ".onnx")):
        raise misused(f'"{text}" is a path, not the text of a graph', f'read("{text}") reads it')
    if text.lstrip().startswith("<"):
        raise misused("this is an IR, not the text of a graph", "read(path) reads it")
    return _GraphParser(Lexer(text, file)).graph()


class _GraphParser:
    def __init__(self, lex: Lexer, depth: int = 0) -> None:
        self.lex, self.depth = lex, depth
        self.inputs: dict[int, list[tuple[Value, int]]] = {}

    def graph(self) -> Graph:
        lex = self.lex
        lex.expect("graph")
        version = lex.take("number")
        if version.text != "1":
            lex.fail(f"version {version.text} of the text form is unknown", version.offset)
        name = string(lex, lex.take("string"))
        fields = self.fields("<", ">")
        graph = Graph(self.build(Info, fields, {"name": name}, version.offset))
        check_xml(lex, fields)
        self.nodes(graph)
        lex.take("end")
        return graph

    def nodes(self, graph: Graph) -> None:
        self.lex.expect("{")
        while not self.lex.accept("}"):
            self.node(graph)
        self.connect(graph)

    def node(self, graph: Graph) -> None:
        lex = self.lex
        start = lex.take("ref")
        value = _value(start)
        if value.port or value.node in graph:
            lex.fail(f"node {start.text} exists already", start.offset)
        name = string(lex, lex.take("string"))
        lex.expect("=")
        if not work.room(work.IMPORTED, whole=True):
            text = f'"{name}": reading so many layers exceeds {work.limit_text()}'
            place = lex.location(start.offset)
            raise LimitError(
                Diagnostic("E602", "error", text, place, name, hint=raise_hint("work"))
            )
        opaque = lex.accept("opaque")
        version = self.word()
        lex.expect(".")
        at = lex.token.offset
        type_ = self.word()
        self.inputs[value.node] = self.references()
        fields = self.fields("{", "}")
        make = self.opaque if opaque else self.op
        op = make(type_, version, fields, at)
        node = graph.add(op, name=name, id=value.node, location=lex.location(start.offset))
        if lex.accept(":"):
            node.specs = self.specs(op)
        self.meta(node, self.fields("<", ">"))
        if isinstance(op, BodyOp):
            op = self.with_bodies(op, start.offset, len(self.inputs[value.node]))
            graph.replace_op(node.id, op)

    def with_bodies(self, op: BodyOp, at: int, inputs: int) -> BodyOp:
        """Read the bodies that follow a node."""
        lex, bodies = self.lex, list[Body]()
        while lex.token.text in op.tags:
            if len(bodies) >= len(op.tags) or self.depth >= DEPTH:
                lex.fail(f"{op.type} has no further body, or bodies are nested too deeply")
            tag = lex.next().text
            ends = self.ends(self.fields("{", "}"))
            kept = self.fields("<", ">")
            info = self.build(Info, kept, {"name": tag}, at)
            check_xml(lex, kept)
            inner = _GraphParser(lex, self.depth + 1)
            graph = Graph(info)
            inner.nodes(graph)
            bodies.append(Body(graph, **ends, tag=tag))
        made = dataclasses.replace(op, bodies=tuple(bodies))
        ports = {i.port for b in bodies for i in b.inputs if i.port is not None}
        missing = ports - set(range(inputs))
        if missing:
            lex.fail(f"{op.type}: the layer has no input {min(missing)}", at, code="E211")
        problem = next(iter(made.problems()), None)
        if problem is not None:
            lex.fail(f"{op.type}: {problem.message}", at)
        return made

    def ends(self, fields: Fields) -> dict[str, Any]:
        """Return the fields of a body: lists of the values of its classes in this order."""
        out: dict[str, Any] = {}
        for name, (value, offset) in fields.items():
            if name not in BODY:
                self.lex.fail(f'a body has no field "{name}"', offset, did_you_mean(name, BODY))
            if name == "edges" and fits(value, tuple[tuple[int, int], ...]):
                out[name] = value
            elif name != "edges" and fits(value, tuple[tuple[object, ...], ...]):
                cls = BodyInput if name == "inputs" else BodyOutput
                out[name] = tuple(self.entry(cls, entry, offset) for entry in value)
            else:
                self.lex.fail(f'"{name}" of a body is a list of lists', offset)
        return out

    def entry(self, cls: type[T], values: tuple[Any, ...], offset: int) -> T:
        """Return an entry of a port map from the values of its fields."""
        names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if len(values) > len(names):
            self.lex.fail(f"{cls.__name__} has {len(names)} values at most", offset)
        given = dict(zip(names, values, strict=False))
        if isinstance(given.get("slicing"), tuple):
            given["slicing"] = self.entry(Slicing, given["slicing"], offset)
        return self.build(cls, {k: (v, offset) for k, v in given.items()}, {}, offset)

    def word(self) -> str:
        token = self.lex.take("word", "string")
        return string(self.lex, token) if token.kind == "string" else token.text

    def references(self) -> list[tuple[Value, int]]:
        lex = self.lex
        out: list[tuple[Value, int]] = []
        lex.expect("(")
        while not lex.accept(")"):
            if out:
                lex.expect(",")
            token = lex.take("ref")
            out.append((_value(token), token.offset))
        return out

    def fields(self, opening: str, closing: str) -> Fields:
        lex = self.lex
        out: Fields = {}
        if not lex.accept(opening):
            return out
        while not lex.accept(closing):
            if out:
                lex.expect(",")
            token = lex.take("word")
            if token.text in out:
                lex.fail(f'"{token.text}" is given twice', token.offset)
            lex.expect("=")
            out[token.text] = (literal(lex), token.offset)
        return out

    def specs(self, op: Op) -> tuple[Spec, ...]:
        lex = self.lex
        if lex.accept("("):
            lex.expect(")")
            return ()
        out = []
        while True:
            at = lex.token.offset
            spec = literal(lex)
            if not isinstance(spec, Spec):
                lex.fail("a spec such as f32[1,3,?] belongs here", at)
            if isinstance(spec, OwnValue):
                if not isinstance(op, Const):
                    lex.fail('"=data" belongs to a Const', at)
                if (spec.dtype, spec.shape) != (op.element_type, op.shape):
                    lex.fail(f"the data is {op.infer()}", at)
                known = op.data.array() if op.data.available else None
                spec = Spec(spec.dtype, spec.shape, known)
            out.append(spec)
            if not lex.accept(","):
                return tuple(out)

    def op(self, type_: str, version: str, fields: Fields, at: int) -> Op:
        cls = lookup(type_, version)
        if cls is None:
            versions = [v for c in TYPES.get(type_, ()) for v in c.versions]
            hint = did_you_mean(version, versions) or did_you_mean(type_, TYPES)
            self.lex.fail(f"there is no operation {type_} of {version}", at, hint)
        if issubclass(cls, Const) and "data" in fields:
            fields = self.const_data(fields)
        return self.build(cls, fields, {}, at)

    def const_data(self, fields: Fields) -> Fields:
        dtype, shape = (fields.get(k, (None, 0))[0] for k in ("element_type", "shape"))
        value, offset = fields["data"]
        hints = _hints(Const)
        if not fits(dtype, hints["element_type"]) or not fits(shape, hints["shape"]):
            self.lex.fail("a Const needs element_type and shape", offset)
        if shape is None and not isinstance(value, Missing | Omitted):
            self.lex.fail("a constant has an exact shape", offset)
        return {**fields, "data": (constant(self.lex, value, dtype, shape, offset), offset)}

    def opaque(self, type_: str, version: str, fields: Fields, at: int) -> Op:
        if not type_:
            self.lex.fail("the type of an operation is empty", at)
        fields = dict(fields)
        if "sections" in fields:
            sections, offset = fields["sections"]
            fields["sections"] = (self.sections(sections, offset), offset)
        if "weights" in fields:
            value, offset = fields["weights"]
            if isinstance(value, tuple):
                self.lex.fail("weights are base64", offset)
            fields["weights"] = (constant(self.lex, value, u8, None, offset), offset)
        made = self.build(Opaque, fields, {"kind": type_, "opset": version}, at)
        # An `.xml` cannot hold everything.
        problem = _attributes([k for k, _ in made.data], ())
        _fail(self.lex, "data", problem, fields.get("data", (None, 0))[1])
        for section in made.sections:
            _fail(self.lex, "sections", _section(section, made), fields["sections"][1])
        return made

    def sections(self, value: Any, offset: int) -> tuple[Section, ...]:
        if not fits(value, tuple[tuple[str, str | bytes], ...]):
            self.lex.fail("sections are pairs of tag and XML", offset)
        texts = (
            (t, x.encode("utf-8", "surrogatepass") if isinstance(x, str) else x) for t, x in value
        )
        return tuple(Section(*text) for text in texts)

    def build(self, cls: type[T], fields: Fields, fixed: dict[str, Any], at: int) -> T:
        """Make a dataclass from fields: known names, fitting types, none missing."""
        hints = _hints(cls)
        known = {f.name: f for f in dataclasses.fields(cls) if f.name not in fixed}  # type: ignore[arg-type]
        for name, (value, offset) in fields.items():
            if name not in known:
                text = f'{cls.__name__} has no field "{name}"'
                self.lex.fail(text, offset, did_you_mean(name, known))
            if not fits(value, hints[name]):
                self.lex.fail(f'"{name}" of {cls.__name__} cannot be {value!r}'[:200], offset)
            if hints[name] in _SHAPES and any(isinstance(d, int) and d < 0 for d in value or ()):
                self.lex.fail(f'"{name}" of {cls.__name__} has a negative dimension', offset)
        for name, f in known.items():
            missing = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            if missing and name not in fields:
                self.lex.fail(f'{cls.__name__} needs "{name}"', at)
        return cls(**fixed, **{k: v for k, (v, _) in fields.items()})

    def meta(self, node: Node, fields: Fields) -> None:
        hints = _hints(Node)
        for name, (value, offset) in fields.items():
            if name not in KEPT:
                self.lex.fail(f'a node has no "{name}"', offset, did_you_mean(name, KEPT))
            if not fits(value, hints[name]):
                self.lex.fail(f'"{name}" cannot be {value!r}'[:200], offset)
            setattr(node, name, value)
        op = node.op
        own = dict(op.data) if isinstance(op, Opaque) else attributes(type(op))
        extent = ("offset", "size") if isinstance(op, Const) else ()
        check_xml(self.lex, fields, {*own, *extent})

    def connect(self, graph: Graph) -> None:
        for ident, references in self.inputs.items():
            for port, (value, offset) in enumerate(references):
                if value.node not in graph:
                    self.lex.fail(f"there is no node %{value.node}", offset)
                producer = graph.node(value.node)
                if producer.outputs and value.port >= producer.outputs:
                    count = producer.outputs
                    self.lex.fail(f"%{value.node} has {count} outputs, not #{value.port}", offset)
                if value.port >= current().ports:
                    text = f"#{value.port} is beyond the outputs that a layer may have"
                    self.lex.fail(text, offset, raise_hint("ports"), code="E601")
                graph.connect(value, ident, port)


def _value(token: Token) -> Value:
    node, _, port = token.text[1:].partition("#")
    return Value(int(node), int(port or 0))
