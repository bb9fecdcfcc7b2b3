"""Vectors of graph values, so that the rules of geometry.py also run on sizes known at run time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import i64
from irdeconv.ir.geometry import IntVector, Vector
from irdeconv.ir.op import Builder, Op
from irdeconv.ir.spec import Array, ints, is_static
from irdeconv.ops.elementwise import Add, Divide, Maximum, Multiply, Subtract
from irdeconv.ops.shape import ShapeOf
from irdeconv.ops.slicing import Gather


@dataclass(frozen=True)
class GraphVector:
    """An i64 vector that a builder computes; arithmetic adds operations."""

    b: Builder[Any]
    x: Any
    non_negative: bool = False

    def _apply(self, op: Op, left: Any, right: Any) -> GraphVector:
        return GraphVector(self.b, self.b.add(op, self._lift(left), self._lift(right)))

    def _lift(self, value: Any) -> Any:
        if isinstance(value, GraphVector):
            return value.x
        return self.b.const(_array(value.values if isinstance(value, IntVector) else (value,)))

    def __add__(self, other: Any) -> GraphVector:
        return self._apply(Add(), self, other)

    def __radd__(self, other: Any) -> GraphVector:
        return self._apply(Add(), other, self)

    def __sub__(self, other: Any) -> GraphVector:
        return self._apply(Subtract(), self, other)

    def __rsub__(self, other: Any) -> GraphVector:
        return self._apply(Subtract(), other, self)

    def __mul__(self, other: Any) -> GraphVector:
        return self._apply(Multiply(), self, other)

    def __rmul__(self, other: Any) -> GraphVector:
        return self._apply(Multiply(), other, self)

    def half(self) -> GraphVector:
        """Return floor(v / 2) on every axis.

        OpenVINO's integer Divide rounds towards zero, so a vector that may be negative is the
        difference of two that are not. (OpenVINO bounds FloorMod wrongly if sizes are open.)
        """
        if self.non_negative:
            return self._apply(Divide(), self, 2)
        over = self.clamp()
        under = replace(over - self + 1, non_negative=True)
        return over.half() - under.half()

    def clamp(self) -> GraphVector:
        """Return max(v, 0) on every axis."""
        return replace(self._apply(Maximum(), self, 0), non_negative=True)


def sizes(b: Builder[Any], x: Any, first: int, axes: int) -> Vector:
    """Return the sizes of `axes` axes of a tensor from axis `first` on."""
    shape = b.spec(x).shape
    part = None if shape is None else shape[first : first + axes]
    if is_static(part):
        return IntVector(part)
    indices = b.const(np.arange(first, first + axes, dtype=np.int64))
    shape_of = b.add(ShapeOf(i64), x)
    return GraphVector(b, b.add(Gather(), shape_of, indices, b.const(np.array(0, np.int64))))


def _array(values: tuple[int, ...]) -> Array:
    """Return numbers as i64; E306 if one has more than 64 bits."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise OpError(f"its sizes and pads reach {max(map(abs, values))}", code="E306") from None


def vector(b: Builder[Any], x: Any) -> Vector:
    """Return an integer vector of the graph: its numbers if they are known."""
    known = ints(b.spec(x))
    return GraphVector(b, x) if known is None else IntVector(known)


def materialize(b: Builder[Any], v: Vector) -> Any:
    """Return a vector as an i64 value of the graph."""
    if isinstance(v, GraphVector):
        return v.x
    assert isinstance(v, IntVector)
    return b.const(_array(v.values))
