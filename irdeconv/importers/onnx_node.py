"""One ONNX node as rules see it, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from irdeconv.graph import Graph, Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_tensors import onnx_module
from irdeconv.importers.reader import SourceNode
from irdeconv.op import Op
from irdeconv.spec import Array, Spec

NHWC = "com.ms.internal.nhwc"
Item = TypeVar("Item")


@dataclass(frozen=True)
class ValueSequence:
    """A sequence of tensors whose length is known while importing."""

    items: tuple[Value, ...]


Found = Value | ValueSequence
Outputs = Found | tuple[Found, ...]


class Reported(Exception):
    """Something inside a layer failed, and the report has it already."""


@dataclass(frozen=True)
class Entry:
    """What an input of a body is: a Parameter of a spec without a value, or a constant.

    `axis` is one of size 1 that the body does not see.
    """

    spec: Spec
    axis: int | None = None
    constant: Array | None = None


@dataclass(frozen=True)
class ImportedBody:
    """A body as a graph: its Parameters by input (None: a constant), its Results by output.

    `captured` are the Parameters of values from outside.
    """

    graph: Graph
    parameters: tuple[int | None, ...]
    results: tuple[int, ...]
    captured: tuple[tuple[int, Value], ...]

    def spec(self, output: int) -> Spec:
        """Return the spec of an output."""
        return self.graph.node(self.results[output]).spec()


class Bodies(Protocol):
    """What rules of control operations need of the reader."""

    def graph(
        self, body: Any, entries: Sequence[Entry], axes: Mapping[int, int] | None = None
    ) -> ImportedBody:
        """Import a GraphProto; outputs of `axes` get one of size 1 there."""

    def inline(self, body: Any, inputs: Sequence[Found] = ()) -> tuple[Found, ...]:
        """Import the nodes of a GraphProto in place; return its outputs."""


@dataclass(kw_only=True)
class OnnxNode(SourceNode):
    """A node: type, version of the operation, output names; `remarks` become warnings."""

    type: str
    version: int
    outputs: tuple[str, ...]
    bodies: Bodies
    sequences: Mapping[int, ValueSequence] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def input(self, at: int) -> Value | None:
        """Return an optional input, a tensor."""
        if at in self.sequences:
            raise Refusal(f"input {at} is a sequence, not a tensor")
        return super().input(at)

    def sequence(self, at: int) -> tuple[Value, ...]:
        """Return the items of an input that is a sequence."""
        if at not in self.sequences:
            raise Refusal(f"input {at} is no sequence")
        return self.sequences[at].items

    def _take(self, name: str, default: Any, want: Any) -> Any:
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is not default and not isinstance(found, want):
            raise Refusal(f"the attribute {name} is {type(found).__name__}, not {want.__name__}")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; without a default it is required."""
        value = self._take(name, default, int)
        if value is None:
            raise Refusal(f"the attribute {name} is missing")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """Return a floating-point attribute."""
        return float(self._take(name, default, float))

    def text(self, name: str, default: str) -> str:
        """Return a text attribute."""
        return str(self._take(name, default, str))

    def meaning(self, name: str, default: str, words: Mapping[str, Any]) -> Any:
        """Return what a text attribute stands for; refuse every other word."""
        text = self.text(name, default)
        if text not in words:
            raise Refusal(f"{name}={text} is not covered")
        return words[text]

    def ints(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return a list of integers."""
        return _all_of(int, name, self._take(name, default, tuple))

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of floating-point numbers."""
        return _all_of(float, name, self._take(name, (), tuple))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return _all_of(str, name, self._take(name, (), tuple))

    def body(self, name: str) -> Any:
        """Return a GraphProto, which is required."""
        found = self._take(name, None, onnx_module().GraphProto)
        if found is None:
            raise Refusal(f"the attribute {name} is missing")
        return found

    def tensor(self, name: str) -> Any:
        """Return a TensorProto; None where it is missing."""
        return self._take(name, None, onnx_module().TensorProto)

    def accept(self, *names: str) -> None:
        """Let attributes be whatever they are; they make no difference."""
        self.asked.update(names)

    def only(self, name: str, value: Any, why: str = "") -> None:
        """Refuse every other value of an attribute than its default `value`."""
        self.asked.add(name)
        found = self.attributes.get(name, value)
        if found != value:
            raise Refusal(f"{name}={found} is not covered{why and '; ' + why}")

    def axis(self, b: ImportBuilder, x: Value, name: str = "axis", default: int = 0) -> int:
        """Return an axis attribute counted from 0."""
        return wrap(self.integer(name, default), b.rank(x), name)

    def known(self, b: ImportBuilder, at: int, what: str) -> Array | None:
        """Return the value of an optional input that must be a constant; None without it."""
        found = self.input(at)
        return None if found is None else b.need(found, what)

    def wants(self, output: int) -> bool:
        """Whether an output is used under a name."""
        return output < len(self.outputs) and bool(self.outputs[output])


def _all_of(kind: type[Item], name: str, found: tuple[Any, ...]) -> tuple[Item, ...]:
    """Return a list attribute; refuse one with items of another kind."""
    for item in found:
        if not isinstance(item, kind):
            others = type(item).__name__
            raise Refusal(f"the attribute {name} is a list of {others}, not of {kind.__name__}")
    return found


def wrap(axis: int, rank: int, what: str = "axis") -> int:
    """Return an axis counted from 0; refuse one outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise Refusal(f"{what} is {axis}, but the rank is {rank}")
    return axis + rank if axis < 0 else axis


Rule = Callable[[OnnxNode, ImportBuilder], Outputs]


@dataclass(frozen=True)
class Coverage:
    """A rule and the versions of the operation that it is right for."""

    rule: Rule
    versions: frozenset[int]


RULES: dict[tuple[str, str], Coverage] = {}


def rule(types: str, versions: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Register a rule for operation types and versions, both lists of words."""

    def register(fn: Rule) -> Rule:
        for type in types.split():
            if (domain, type) in RULES:
                raise TypeError(f"{type} has two rules")
            RULES[domain, type] = Coverage(fn, frozenset(map(int, versions.split())))
        return fn

    return register


def plain(types: str, versions: str, op: Op, inputs: int = 1) -> None:
    """Register an operation that takes the first inputs as they are and has no attributes."""
    rule(types, versions)(lambda n, b: b.add(op, *(n[i] for i in range(inputs))))
