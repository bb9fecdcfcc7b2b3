"""Print a graph as text that `text.py` reads back.

Facts for the `.xml` alone are printed only if a file can contain them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lxml import etree

from irdeconv.formats.document import integer
from irdeconv.formats.text_values import (
    Lexer,
    format_bytes,
    format_data,
    format_dim,
    format_spec,
    quote,
)
from irdeconv.ir.constant import ConstantData
from irdeconv.ir.dtypes import ElementType, u8
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, Interval, Spec
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import BodyInput, BodyOp, BodyOutput, Slicing, bodies_of

_WORD = re.compile(r"(?!inf\Z)[A-Za-z_][A-Za-z0-9_]*")  # inf is read as a number
# Fields of a node that stand behind it, in < >.
KEPT = (
    *("declared", "declared_inputs", "tensor_names", "origins", "rt_info"),
    *("port_rt_info", "extra", "extra_data"),
)


BODY = ("inputs", "outputs", "edges")  # fields of a body besides its graph
ELIDED = 1 << 16


def dump(
    graph: Graph,
    *,
    elide: int | None = ELIDED,
    comments: Mapping[int, str] | None = None,
) -> str:
    """Return the graph as text; `parse` gives it back, without the data of elided constants.

    Every node stands behind its inputs, otherwise in the order of the ids.
    Constants of up to 16 elements are readable, larger ones base64 of their `.bin` bytes. Of those
    with more bytes than `elide` (64 KiB) only the size and a hash are printed; None prints all.
    `comments` are lines without a line break that stand above nodes, by id.
    """
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
        inputs = ", ".join(_reference(v) for v in graph.inputs_of(node.id))
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


def _reference(value: Value) -> str:
    return f"%{value.node}#{value.port}" if value.port else f"%{value.node}"


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


def check_opaque(lex: Lexer, op: Opaque, fields: Mapping[str, tuple[Any, int]]) -> None:
    """Fail at the first field of an operation without details that an `.xml` cannot hold."""
    problem = _attributes([k for k, _ in op.data], ())
    _fail(lex, "data", problem, fields.get("data", (None, 0))[1])
    for section in op.sections:
        _fail(lex, "sections", _section(section, op), fields["sections"][1])


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
        size = _bytes_of(op)
        problem = next(filter(None, (_outside(e, size) for e in _root(section.xml).iter())), None)
    return problem


def _bytes_of(op: Opaque) -> int | None:
    """Return how many bytes constants in the bodies may refer to; None where they are missing."""
    if op.weights is None:
        return 0
    return len(op.weights.raw()) if op.weights.available else None


def _outside(e: Any, size: int | None) -> str | None:
    """Return what is wrong with the place of a constant's bytes."""
    start, length = (integer(e.get(name)) for name in ("offset", "size"))
    if e.tag != "data" or start is None or length is None or size is None:
        return None
    if 0 <= start <= start + length <= size:
        return None
    return f"bytes {start}..{start + length} of a constant are not in the weights, {size} bytes"


def _element(xml: str | bytes, tag: str) -> str | None:
    """Return what is wrong with a text that has to be one element."""
    try:
        text = xml if isinstance(xml, str) else str(xml, "utf-8")
        root = _root(xml)
    except (etree.XMLSyntaxError, ValueError) as e:
        return f"it is no XML element: {e}"
    if root.tag != tag:
        return f"it is a <{root.tag}>, not an <{tag}>"
    if any(_spaces(root)):
        return "an IR has no XML namespaces"
    return None if text.lstrip().startswith(f"<{tag}") else f"something stands before <{tag}>"


def _root(xml: str | bytes) -> Any:
    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))


def _spaces(root: Any) -> Iterator[Any]:
    """Yield the declarations of namespaces."""
    yield from etree.iterwalk(root, events=("start-ns",))
