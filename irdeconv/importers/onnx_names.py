"""What the tensors of an ONNX graph, body or function are called, and its nodes in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder
from irdeconv.importers.onnx_node import Found
from irdeconv.importers.reader import producers_first

ATTRIBUTE_KINDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}


@dataclass(kw_only=True)
class Names:
    """A graph, a body of a node or a function's definition: opsets by domain, tensors by name.

    A value of None could not be imported; `tensors` are initializers that nothing has used yet;
    `absent` are inputs of a function that its caller left out, `attributes` those that it gave.
    `prefix` begins the names of layers, `title` what is said about them; `owner` is the layer of
    the model, if these are inside one. Names that are not here are looked up in `outer`;
    `capture` brings a value from there into a graph of its own.
    """

    builder: ImportBuilder
    opsets: Mapping[str, int]
    values: dict[str, Found | None] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    title: str = ""
    owner: str = ""
    outer: Names | None = None
    capture: Callable[[Value], Value] | None = None

    def opset(self, domain: str) -> int:
        """Return the version of a domain's operation set, 0 where none is named."""
        return int(self.opsets.get(domain, 0))

    def knows(self, name: str) -> bool:
        """Whether a tensor of this name was met."""
        here = name in self.values or name in self.tensors
        return here or (self.outer is not None and self.outer.knows(name))

    def lacks(self, name: str) -> bool:
        """Whether a name is that of an input which the caller of the function left out."""
        return name in self.absent or (self.outer is not None and self.outer.lacks(name))

    def given(self, node: Any) -> dict[str, Any]:
        """Return a node's attributes; one that refers to a function's is that of the caller."""
        pairs = (
            (a.name, self.attributes.get(a.ref_attr_name) if a.ref_attr_name else a)
            for a in node.attribute
        )
        return {name: source for name, source in pairs if source is not None}


def opsets_of(imports: Sequence[Any]) -> dict[str, int]:
    """Return the operation sets that a model or function names, by domain."""
    return {standard(i.domain): i.version for i in imports}


def standard(domain: str) -> str:
    """Return a domain; ONNX's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def plain_attribute(a: Any) -> Any:
    """Return an attribute as int, float, str, a tuple of them, a TensorProto or a GraphProto."""
    field_name = ATTRIBUTE_KINDS.get(a.type)
    if field_name is None:
        return a
    value = getattr(a, field_name)
    if field_name == "s":
        return value.decode("utf-8", "replace")
    if field_name == "strings":
        return tuple(v.decode("utf-8", "replace") for v in value)
    return tuple(value) if field_name in ("floats", "ints") else value


def read_by(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, those that its bodies take from outside included."""
    yield from (i for i in node.input if i)
    for a in node.attribute:
        for body in (*a.graphs, *([a.g] if a.HasField("g") else [])):
            made = {o for n in body.node for o in n.output}
            made |= {i.name for i in (*body.input, *body.initializer)}
            yield from (i for n in body.node for i in read_by(n) if i not in made)
            yield from (o.name for o in body.output if o.name not in made)


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Return nodes behind those that they read, otherwise as they stand.

    What cannot come behind its inputs, in a circle, is left out.
    """
    makers = {o: at for at, n in enumerate(nodes) for o in n.output if o}
    waits = [{makers[i] for i in read_by(n) if i in makers} for n in nodes]
    return [nodes[at] for at in producers_first(waits)]
