"""Sizes that are known as polynomials in the open sizes of one tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from irdeconv.dtypes import ElementType
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.basic import Opaque
from irdeconv.spec import ints

Monomial = tuple[str, ...]


def known_type(node: Node) -> str:
    """Return a node's type; nothing for one of an operation set that irdeconv does not know."""
    return "" if isinstance(node.op, Opaque) else node.type


class Unreadable(Exception):
    """A node does not do what a deconvolution's decomposition does; the text says what it does."""


@dataclass(frozen=True)
class Size:
    """A polynomial with integer coefficients; `terms` are sorted and have no zero among them."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: Size | int) -> Size:
        """Return a number as a size."""
        if isinstance(value, Size):
            return value
        return Size((((), value),) if value else ())

    @staticmethod
    def symbol(name: str) -> Size:
        """Return an open size."""
        return Size((((name,), 1),))

    @property
    def number(self) -> int | None:
        """The value where it is known, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size | int) -> Size:
        return _sum([*self.terms, *Size.of(other).terms])

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        pairs = ((a, b) for a in self.terms for b in Size.of(other).terms)
        return _sum([(tuple(sorted(a[0] + b[0])), a[1] * b[1]) for a, b in pairs])


def windows(room: Size, stride: int) -> Size:
    """Return the positions of a window that has `room`: (room - 1) // stride + 1."""
    if any(monomial and factor % stride for monomial, factor in room.terms):
        raise Unreadable(f"how often a stride of {stride} fits depends on open sizes")
    return _sum([(m, f // stride if m else (f - 1) // stride + 1) for m, f in _with_number(room)])


def _with_number(size: Size) -> list[tuple[Monomial, int]]:
    """Return the terms of a size, also the one of the number where that is 0."""
    return [*size.terms, *([] if any(not m for m, _ in size.terms) else [((), 0)])]


def _sum(terms: Sequence[tuple[Monomial, int]]) -> Size:
    factors: Counter[Monomial] = Counter()
    for monomial, factor in terms:
        factors[monomial] += factor
    return Size(tuple(sorted((m, f) for m, f in factors.items() if f)))


class SizeEvaluator:
    """Evaluates integer vectors on polynomials; `shapes` are those of the tensors that are known.

    A tensor of which nothing is known contributes its exact dimensions only.
    """

    def __init__(self, graph: Graph, shapes: dict[Value, list[Size]]) -> None:
        self.graph = graph
        self.shapes = shapes

    def get(self, value: Value) -> list[Size]:
        """Return the elements of a vector or scalar; Unreadable where one is not known."""
        known = ints(self.graph.spec(value))
        if known is not None:
            return [Size.of(v) for v in known]
        node = self.graph.node(value.node)
        inputs = self.graph.inputs_of(node.id)
        if known_type(node) == "ShapeOf":
            return self._shape(inputs[0])
        if known_type(node) in ("Squeeze", "Unsqueeze", "Reshape") or (
            known_type(node) == "Convert" and _holds_sizes(self.graph.spec(value).dtype)
        ):
            return self.get(inputs[0])
        if known_type(node) == "Concat":
            return [s for v in inputs for s in self.get(v)]
        if known_type(node) == "Gather":
            values, picked = self.get(inputs[0]), self.numbers(inputs[1])
            if any(not 0 <= i < len(values) for i in picked):
                raise Unreadable(f'Gather "{node.name}" reads {picked} of {len(values)} elements')
            return [values[i] for i in picked]
        if known_type(node) in _ARITHMETIC:
            return self._combine(node.type, self.get(inputs[0]), self.get(inputs[1]))
        raise Unreadable(f'the numbers that {node.type} "{node.name}" computes are not known')

    def numbers(self, value: Value) -> list[int]:
        """Return exact numbers; Unreadable where one is open."""
        values = [s.number for s in self.get(value)]
        if any(n is None for n in values):
            name = self.graph.node(value.node).name
            raise Unreadable(f'the numbers of "{name}" depend on open sizes')
        return [n for n in values if n is not None]

    def _shape(self, value: Value) -> list[Size]:
        if value in self.shapes:
            return self.shapes[value]
        shape = self.graph.spec(value).shape
        if shape is None:
            raise Unreadable(f'the rank of "{self.graph.node(value.node).name}" is not known')
        # An open dimension of another tensor is a symbol that nothing else equals.
        return [
            Size.of(d) if isinstance(d, int) else Size.symbol(f"{value.node}.{value.port}.{a}")
            for a, d in enumerate(shape)
        ]

    def _combine(self, kind: str, a: list[Size], b: list[Size]) -> list[Size]:
        n = max(len(a), len(b))
        if {len(a), len(b)} - {1, n}:
            raise Unreadable(f"vectors of {len(a)} and {len(b)} elements meet")
        rows = zip(a * (n // len(a)), b * (n // len(b)), strict=True)
        return [p + q if kind == "Add" else p - q if kind == "Subtract" else p * q for p, q in rows]


_ARITHMETIC = ("Add", "Multiply", "Subtract")


def _holds_sizes(dtype: ElementType | None) -> bool:
    """Whether a type is an integer in which no size wraps around."""
    return dtype is not None and dtype.kind in ("int", "uint") and dtype.bits >= 32
