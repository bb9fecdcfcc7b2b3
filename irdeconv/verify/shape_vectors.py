"""Graphs in which equal shapes are spelled alike: integer vectors become sums of products of sizes.

Exporters and optimizers compute the same shape in many ways: element by element, by a part of a
shape, by 0 or -1 in a Reshape. A size counts as 1 or more, so that -1 is a quotient. Integers that
are data are not followed: they may be 0 or -1, or too large for a narrower type.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import ints
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Add, Multiply, Subtract, Unary
from irdeconv.ops.generation import Identity
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Gather, Slice
from irdeconv.proof.sizes import Case, Expr, Monomial, Size, is_int
from irdeconv.rewrite.builder import GraphBuilder, remove_dead
from irdeconv.runtime.simplify import simplify

LONGEST_SHAPE = 32  # elements of a vector that is followed
Sizes = tuple[Size, ...]  # an open one is a symbol: place of a value, and "place.port.axis"
SAME = (Unary, Convert, Identity)  # shapes pass through these


def spelled_alike(graph: Graph) -> Graph:
    """Return a simplified copy in which all readers of a vector of sizes read one spelling."""
    out = simplify(graph).graph
    _SizeVectors(out).respell()
    remove_dead(out, set())
    return simplify(out).graph


def _terms(size: Size) -> list[tuple[Monomial, int]]:
    """Return the products of a sum with their factors, the number first."""
    terms, constant = (size.terms, size.constant) if isinstance(size, Expr) else ({}, size)
    return [((), constant)] * bool(constant) + [*terms.items()]


def divided(a: Size, b: Size) -> Size | None:
    """Return a quotient of two products without remainder, else None."""
    if len(_terms(a)) != 1 or len(_terms(b)) != 1:
        return None
    [(above, k)], [(below, n)] = _terms(a), _terms(b)
    left = Counter(above)
    left.subtract(below)
    if k % n or min(left.values(), default=0) < 0:
        return None
    return math.prod((Expr(a.case, {(atom,): 1}, 0) for atom in left.elements()), start=k // n)


@dataclass
class _SizeVectors:
    """The integer vectors of a simplified graph as sums of products of sizes."""

    graph: Graph
    known: dict[Value, Sizes] = field(default_factory=dict)
    shapes: dict[Value, Sizes] = field(default_factory=dict)
    made: dict[str, Value] = field(default_factory=dict)  # by the text of the sizes
    case: Case = field(default_factory=Case)

    def respell(self) -> None:
        """Let every node that computes no such vector read the vectors in their one spelling."""
        nodes = self.graph.topological()
        self._places = {n.id: at for at, n in enumerate(nodes)}
        self._ids = [n.id for n in nodes]
        for node in nodes:
            inputs = self.graph.inputs_of(node.id)
            sizes = self._computed(node, inputs)
            if sizes is not None:
                self.known[Value(node.id)] = sizes
            self._pass_shape(node, inputs)
        for node in nodes:
            if Value(node.id) not in self.known:
                for port, value in enumerate(self.graph.inputs_of(node.id)):
                    self._replace(node, port, value)

    def _replace(self, node: Node, port: int, value: Value) -> None:
        sizes = self.known.get(value)
        if isinstance(node.op, Reshape) and port == 1 and sizes is not None:
            sizes = self.shapes.get(Value(node.id))
            if sizes is None:
                return
            self.graph.replace_op(node.id, Reshape(special_zero=False))
        if not sizes:
            return
        spec = self.graph.spec(value)
        kind = spec.dtype.container if spec.dtype else np.int64
        if kind != np.int64 or spec.rank != 1:
            return
        builder = GraphBuilder(self.graph, node)
        if repr(sizes) not in self.made:
            self.made[repr(sizes)] = self._built(builder, sizes)
        self.graph.set_input(node.id, port, self.made[repr(sizes)])

    def _atom(self, value: Value, axis: int) -> Size:
        place = self._places[value.node]
        return Expr(self.case, {((place, f"{place}.{value.port}.{axis}"),): 1}, 0)

    def _shape(self, value: Value) -> Sizes | None:
        """Return the sizes of a tensor's axes."""
        if value in self.shapes:
            return self.shapes[value]
        shape = self.graph.spec(value).shape
        if shape is None:
            return None
        rows = enumerate(shape)
        return tuple(d if isinstance(d, int) else self._atom(value, axis) for axis, d in rows)

    def _computed(self, node: Node, inputs: Sequence[Value]) -> Sizes | None:
        """Return the elements of an integer vector or scalar; None of any other value."""
        spec = node.spec() if node.outputs == 1 else None
        fits = spec is not None and spec.dtype is not None and spec.dtype.name in ("i64", "i32")
        if spec is None or not fits or spec.size is None or spec.size > LONGEST_SHAPE:
            return None
        if (spec.rank or 0) > 1:
            return None
        number = ints(spec.certain())
        if number is not None:
            return tuple(number)
        found = self._followed(node, inputs)
        return found if found is not None and len(found) == spec.size else None

    def _followed(self, node: Node, inputs: Sequence[Value]) -> Sizes | None:
        op: Any = node.op
        if isinstance(op, ShapeOf):
            return self._shape(inputs[0])
        given = [self.known.get(v) for v in inputs]
        if not given or any(g is None for g in given):
            return None
        first, *rest = (g for g in given if g is not None)
        if isinstance(op, Convert | Identity | Reshape | Squeeze | Squeeze1 | Unsqueeze):
            return first
        if isinstance(op, Concat):
            return sum((g for g in given if g is not None), ())
        if isinstance(op, Add | Subtract | Multiply):
            both = max(len(first), len(rest[0]))
            a, b = (g * both if len(g) == 1 else g for g in (first, rest[0]))
            if isinstance(op, Multiply):
                return tuple(x * y for x, y in zip(a, b, strict=True))
            sign = 1 if isinstance(op, Add) else -1
            return tuple(x + sign * y for x, y in zip(a, b, strict=True))
        if isinstance(op, Gather | Slice):
            return self._picked(op, first, inputs[1:])
        return None

    def _picked(self, op: Any, data: Sizes, rest: Sequence[Value]) -> Sizes | None:
        """Return the elements that an operation with constant indices moves."""
        others = [self.graph.spec(v).certain().known for v in rest]
        if any(o is None for o in others) or getattr(op, "batch_dims", False):
            return None
        try:
            numbers = op.evaluate(np.arange(1, len(data) + 1), *others)
        except (OpError, ValueError, TypeError, IndexError):
            return None
        picked = np.asarray(numbers).reshape(-1).tolist()
        return tuple(data[k - 1] for k in picked) if all(picked) else None

    def _pass_shape(self, node: Node, inputs: Sequence[Value]) -> None:
        """Note the sizes of a result that follow from those of its first input."""
        if not inputs or node.outputs != 1:
            return
        before = self._shape(inputs[0])
        if before is None:
            return
        if isinstance(node.op, SAME):
            self.shapes[Value(node.id)] = before
        elif isinstance(node.op, Transpose):
            order = ints(self.graph.spec(inputs[1]).certain())
            if order:
                self.shapes[Value(node.id)] = tuple(before[i] for i in order)
        elif isinstance(node.op, Reshape) and inputs[1] in self.known:
            target = self._target(node.op, before, self.known[inputs[1]])
            if target is not None:
                self.shapes[Value(node.id)] = target

    def _target(self, op: Reshape, before: Sizes, target: Sizes) -> Sizes | None:
        """Return the sizes that a Reshape makes, 0 and -1 replaced; None if -1 stays open."""
        out = list(target)
        if any(isinstance(t, Expr) and any(k < 0 for _, k in _terms(t)) for t in target):
            return None  # a difference may be 0 or -1
        if op.special_zero:
            if any(is_int(t, 0) and i >= len(before) for i, t in enumerate(target)):
                return None
            out = [before[i] if is_int(t, 0) else t for i, t in enumerate(target)]
        rest = [i for i, t in enumerate(out) if is_int(t, -1)]
        if len(rest) > 1:
            return None
        for at in rest:
            left = divided(math.prod(before), math.prod(out[:at] + out[at + 1 :]))
            if left is None:
                return None
            out[at] = left
        return tuple(out)

    def _built(self, b: GraphBuilder, sizes: Sizes) -> Value:
        """Return a vector of sizes: one constant for a run of numbers, else nodes for each."""
        parts: list[Value] = []
        numbers: list[int] = []
        for size in (*sizes, None):
            if isinstance(size, int):
                numbers.append(size)
                continue
            if numbers:
                parts.append(b.const(np.array(numbers, np.int64)))
                numbers = []
            if size is not None:
                parts.append(self._sum(b, size))
        return parts[0] if len(parts) == 1 else b.add(Concat(0), *parts)

    def _sum(self, b: GraphBuilder, size: Size) -> Value:
        terms = []
        for atoms, k in _terms(size):
            factors = [self._read(b, name) for _, name in atoms]
            factors += [b.const(np.array([k], np.int64))] if k != 1 or not atoms else []
            terms.append(reduce(partial(b.add, Multiply()), factors))
        return reduce(partial(b.add, Add()), terms)

    def _read(self, b: GraphBuilder, atom: str) -> Value:
        place, port, axis = map(int, atom.split("."))
        shape = b.add(ShapeOf(), Value(self._ids[place], port))
        return b.add(Gather(), shape, b.const(np.array([axis])), b.const(np.array(0)))
