"""The text form of a graph, and its reader: for reading, diffs, tests and bug reports.

    graph 1 "net" <ir_version = 11> {
      %0 "x" = opset1.Parameter() {shape = [1, 3, 8, 8], element_type = f32} : f32[1,3,8,8]
      %1 "y" = opset1.Relu(%0) : f32[1,3,8,8] <declared = [f32[1,3,8,8]]>
      %2 "out" = opset1.Result(%1) : f32[1,3,8,8]
    }

`%5#1` is the second output of node 5. Behind the colon are the inferred specs, in `<...>` what the
file declared and carries besides. `parse(dump(g))` gives the same graph, bit for bit.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, TypeVar

from irdeconv import ops
from irdeconv.base.errors import did_you_mean
from irdeconv.base.limits import current, raise_hint
from irdeconv.formats.text_printer import BODY, KEPT, check_opaque, check_xml
from irdeconv.formats.text_printer import dump as dump
from irdeconv.formats.text_values import (
    DEPTH,
    Lexer,
    Missing,
    Omitted,
    OwnValue,
    Token,
    constant,
    fits,
    literal,
    string,
)
from irdeconv.ir.attributes import attributes, per_class
from irdeconv.ir.dtypes import u8
from irdeconv.ir.graph import Graph, Info, Node, Value
from irdeconv.ir.op import TYPES, Op, lookup
from irdeconv.ir.spec import Shape, Spec
from irdeconv.ops import dialects
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput, Slicing

T = TypeVar("T")
_FILLED = (ops, dialects)  # importing them fills the registry
_SHAPES = (Shape, Shape | None)
_hints = per_class(typing.get_type_hints)
Fields = dict[str, tuple[Any, int]]  # name -> (value, offset)


def parse(text: str, *, file: str = "<text>") -> Graph:
    """Return the graph that `dump` printed.

    Raises InputError (E702) with line and column for anything that does not fit; nodes point at
    their lines in the text.

    >>> text = ird.dump("ir_samples/openvino/group_deconv.xml", elide=None)
    >>> ird.dump(ird.parse(text), elide=None) == text
    True
    """
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
        """Read `{ nodes }` into a graph."""
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
            graph.replace_op(
                node.id, self.with_bodies(op, start.offset, len(self.inputs[value.node]))
            )

    def with_bodies(self, op: BodyOp, at: int, inputs: int) -> BodyOp:
        """Read the bodies that follow a node."""
        lex, bodies = self.lex, list[Body]()
        while lex.token.text in op.tags:
            if len(bodies) >= len(op.tags) or self.depth >= DEPTH:
                lex.fail(f"{op.type} has no further body, or bodies are nested too deeply")
            tag = lex.next().text
            ends = self.ends(self.fields("{", "}"), at)
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

    def ends(self, fields: Fields, at: int) -> dict[str, Any]:
        """Return the fields of a body: lists of what its classes have in this order."""
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
        check_opaque(self.lex, made, fields)
        return made

    def sections(self, value: Any, offset: int) -> tuple[Section, ...]:
        if not fits(value, tuple[tuple[str, str | bytes], ...]):
            self.lex.fail("sections are pairs of tag and XML", offset)
        return tuple(
            Section(tag, xml.encode("utf-8", "surrogatepass") if isinstance(xml, str) else xml)
            for tag, xml in value
        )

    def build(self, cls: type[T], fields: Fields, fixed: dict[str, Any], at: int) -> T:
        """Make a dataclass from fields: known names, fitting types, none missing."""
        hints = _hints(cls)
        known = {f.name: f for f in dataclasses.fields(cls) if f.name not in fixed}  # type: ignore[arg-type]
        for name, (value, offset) in fields.items():
            if name not in known:
                self.lex.fail(
                    f'{cls.__name__} has no field "{name}"', offset, did_you_mean(name, known)
                )
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
        check_xml(self.lex, fields, _data_of(node.op))

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
                    hint = raise_hint("ports")
                    self.lex.fail(text, offset, hint, code="E601")
                graph.connect(value, ident, port)


def _data_of(op: Op) -> set[str]:
    """Return the attributes of `<data>` that an operation writes itself."""
    if isinstance(op, Opaque):
        return {name for name, _ in op.data}
    known = attributes(type(op))
    return {*known, *(("offset", "size") if isinstance(op, Const) else ())}


def _value(token: Token) -> Value:
    node, _, port = token.text[1:].partition("#")
    return Value(int(node), int(port or 0))
