"""One side of an obligation: sizes of its values, and values that do not depend on the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from irdeconv.proof.model import Array, Layer, Model, Port, Unproved
from irdeconv.verify import smt_arrays
from irdeconv.verify.smt_arrays import PlainValue
from irdeconv.verify.smt_space import SizeSpace
from irdeconv.verify.smt_terms import SizeTerm, SmtCondition, term

Dims = tuple[SizeTerm, ...]
DEEPEST = 100  # layers on a way
# What rules raise of attributes, shapes and numbers that do not fit.
FAILURES = (LookupError, ValueError, ArithmeticError, TypeError, RecursionError)
MOST_NUMBERED = 1 << 22  # elements of a filter that is an input
INTEGERS = ("i64", "i32", "u64", "u32", "i16", "u16", "i8", "u8")
Found = TypeVar("Found")


@dataclass
class ReadSide:
    """A model as it is read backwards, down to `ends`: values that equal some of the source.

    `size_rules` give the sizes of an operation's output: (side, port, layer) -> Dims.
    """

    model: Model
    ends: Mapping[Port, Port]
    space: SizeSpace
    size_rules: Mapping[str, Callable[[ReadSide, Port, Layer], Dims]]
    is_source: bool = False
    known_dims: dict[Port, Dims] = field(default_factory=dict)
    known_elements: dict[Port, PlainValue] = field(default_factory=dict)
    depth: int = 0

    def end(self, port: Port) -> Port | None:
        """Return the value of the source that a value equals, None inside the region."""
        return None if self.is_constant(port) else self.ends.get(port)

    def dims(self, port: Port) -> Dims:
        """Return the sizes of a value."""
        if port not in self.known_dims:
            end = self.end(port)
            if end is not None:
                self.known_dims[port] = self.space.dims(end)
            else:
                self.known_dims[port] = self.deeper(port, self._dims)
        return self.known_dims[port]

    def _dims(self, port: Port, layer: Layer) -> Dims:
        rule = self.size_rules.get(layer.type)
        if rule is None:
            raise Unproved(f"{layer} is not followed")
        found = rule(self, port, layer)
        for size in found:
            self.demand(SmtCondition(size), f"sizes of {layer} are not negative")
        return found

    def demand(self, condition: SmtCondition, why: str) -> None:
        """Note what must hold for the model to be valid: the source's is taken for granted."""
        if condition.known is not True:
            (self.space.assumed if self.is_source else self.space.required)[condition] = why

    def elements(self, port: Port) -> PlainValue:
        """Return a value that does not depend on the data; an input's elements as numbers."""
        if port not in self.known_elements:
            end = self.end(port)
            if end is not None:
                self.known_elements[port] = self._input(end)
            else:
                self.known_elements[port] = self.deeper(port, self._elements)
        return self.known_elements[port]

    def vector(self, port: Port) -> list[SizeTerm]:
        """Return a vector of sizes."""
        return smt_arrays.terms_of(self.elements(port))

    def ints(self, port: Port) -> list[int]:
        """Return a vector of integers that depend on nothing."""
        return smt_arrays.ints_of(self.model.of(port), self.elements(port))

    def is_constant(self, port: Port) -> bool:
        """Whether a value is computed from constants alone."""
        todo, seen = [port], set[Port]()
        while todo:
            at = todo.pop()
            layer = self.model.of(at)
            if layer.elements is not None or at in seen:
                continue
            seen.add(at)
            if not layer.inputs or layer.type == "ShapeOf":
                return False
            todo += layer.inputs
        return True

    def _input(self, end: Port) -> PlainValue:
        if self.space.fact(end).type in INTEGERS and len(self.space.dims(end)) < 2:
            return self._calculated(end)
        dims = self.space.dims(end)
        shape = [d.known for d in dims]
        known = [d for d in shape if d is not None]
        if len(known) != len(shape) or math.prod(known) > MOST_NUMBERED:
            raise Unproved(f"{self.space.source.of(end)} is an input of open or great size")
        numbers: Array = np.arange(1, math.prod(known) + 1).reshape(known)
        return PlainValue(numbers, end)

    def _calculated(self, end: Port) -> PlainValue:
        """Return an integer vector of the source: as it is computed from sizes, or as variables."""
        ends, todo, seen = dict[Port, Port](), [end], set[Port]()
        while todo:
            at = todo.pop()
            layer = self.space.source.of(at)
            if at in seen or layer.elements is not None:
                continue
            seen.add(at)
            if layer.type == "ShapeOf":
                ends[layer.inputs[0]] = layer.inputs[0]
            else:
                todo += layer.inputs
        source = ReadSide(self.space.source, ends, self.space, {}, is_source=True)
        try:
            return source.deeper(end, source._elements)
        except Unproved:
            return PlainValue(np.array(self.space.elements(end), object))

    def _elements(self, port: Port, layer: Layer) -> PlainValue:
        if layer.elements is not None:
            return PlainValue(smt_arrays.constant(layer))
        if layer.type == "ShapeOf":
            return PlainValue(np.array(self.dims(layer.inputs[0]), object))
        given = [self.elements(p) for p in layer.inputs]
        if layer.type == "Concat":
            (axis,) = smt_arrays.list_of(layer, "axis", 1)
            if len({e.of for e in given}) > 1:
                raise Unproved(f"{layer} joins elements of several inputs")
            return PlainValue(np.concatenate([e.array for e in given], axis), given[0].of)
        if layer.type == "Convert":
            return PlainValue(smt_arrays.converted(layer, given[0].array), given[0].of)
        move = smt_arrays.MOVES.get(layer.type)
        if move is not None:
            return PlainValue(move(layer, given[0].array, given[1:]), given[0].of)
        if layer.type not in smt_arrays.ARITHMETIC:
            raise Unproved(f"{layer} is not followed")
        if layer.type == "Divide" and given[0].array.dtype.kind in "iO":
            self._rounds_one_way(layer, given[0].array)
        made = smt_arrays.arithmetic(layer, given)
        if made.dtype == object:
            known = [v.known for v in map(term, made.reshape(-1).tolist())]
            if any(v is not None and not -(2**31) <= v < 2**31 for v in known):
                raise Unproved(f"{layer} computes an integer beyond 32 bits")
            named = [self._named(v, layer) for v in made.reshape(-1).tolist()]
            made = np.array([*named, None], object)[:-1].reshape(made.shape)
        return PlainValue(made)

    def _rounds_one_way(self, layer: Layer, divided: Array) -> None:
        """Demand that what is divided is not negative: else the runtime rounds towards zero."""
        for value in divided.reshape(-1).tolist():
            condition = SmtCondition(term(value))
            if self.is_source and condition.known is not True:
                raise Unproved(f"{layer} may divide a negative integer")
            self.demand(condition, f"what {layer} divides is not negative")

    def _named(self, value: object, layer: Layer) -> SizeTerm:
        made = term(value)
        return self.space.name(made, str(layer)) if layer.type in smt_arrays.NAMED else made

    def deeper(self, port: Port, rule: Callable[[Port, Layer], Found]) -> Found:
        """Apply a rule to a layer; Unproved where layers are too many or do not fit."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unproved(f"more than {DEEPEST} layers in a row")
        try:
            return rule(port, self.model.of(port))
        except FAILURES as e:
            raise Unproved(f"{self.model.of(port)}: {type(e).__name__}: {e}") from None
        finally:
            self.depth -= 1
