"""Read a region backwards: which elements of the data an element of the output is made of.

An element is told by an index, a component per axis. Spatial components and the batch are integer
terms; the channel is an array of numbers, one for each output channel (below a convolution one for
each output channel and input channel). Every operation turns the index of its output into that of
its input. Pads and crops add conditions: where one fails, nothing is read. A convolution adds a
variable for the tap of each axis, and its weights. An axis that a Reshape merges out of others has
their components until an operation needs the position itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irdeconv.proof.model import Array, Layer, Port, Unproved
from irdeconv.verify.smt_meaning import Layout
from irdeconv.verify.smt_side import ReadSide
from irdeconv.verify.smt_terms import SizeTerm, SmtCondition, divisor, term

Function = tuple[str, tuple[float, ...]]
POSITION = re.compile(r"[oqt](\d+)")  # variables of positions and taps, by their axis
MOST_READ = 5000  # layers that are read for one class of outputs


@dataclass(frozen=True)
class MergedAxes:
    """The component of an axis that merges others: theirs with their sizes, the outermost first."""

    digits: tuple[Digit, ...]

    def flat(self) -> SizeTerm | Array:
        """Return the position on the merged axis."""
        apart = [c.flat() if isinstance(c, MergedAxes) else c for c, _ in self.digits]
        arrays = any(isinstance(c, np.ndarray) for c in apart)
        flat: SizeTerm | Array = np.zeros(1, np.int64) if arrays else term(0)
        for position, (c, (_, size)) in enumerate(zip(apart, self.digits, strict=True)):
            by = divisor(size) if position else 1
            flat = flat * by + (fixed(c) if isinstance(flat, np.ndarray) else c)
        return flat

    def of_rows(self, kept: Array) -> MergedAxes:
        """Return the component for some of the rows."""
        return MergedAxes(tuple((rows_of(c, kept), size) for c, size in self.digits))


Component = SizeTerm | Array | MergedAxes
Digit = tuple[Component, SizeTerm]
# Operations whose rules know merged axes.
KEEPING = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Pad", "Slice", "StridedSlice")


def rows_of(c: Component, kept: Array) -> Component:
    """Return a component for some of the rows."""
    if isinstance(c, MergedAxes):
        return c.of_rows(kept)
    return c[kept] if isinstance(c, np.ndarray) else c


class SplitNeeded(Exception):
    """A position plus `shift` must be `by` times a variable plus a constant; 0: be constant."""

    def __init__(self, name: str, by: int, shift: SizeTerm) -> None:
        super().__init__(name, by)
        self.name, self.by, self.shift = name, by, shift


@dataclass(frozen=True)
class ElementReading:
    """An element that is being read, for the output channels `rows`.

    The components of `index` are terms and arrays; the rules in KEEPING also get merged axes.
    `weights` are [rows, input channels, *taps], `factor` a number for each row, or for each of its
    input channels; `functions` the activations that were passed, the last one first.
    """

    index: tuple[Any, ...]
    rows: Array
    conditions: tuple[SmtCondition, ...] = ()
    weights: Array | None = None
    numbered: Port | None = None
    factor: Array | None = None
    functions: tuple[Function, ...] = ()
    added: bool = False

    def at(self, *index: Component, conditions: Sequence[SmtCondition] = ()) -> ElementReading:
        """Return the reading at another index."""
        more = tuple(c for c in conditions if c.known is not True)
        return replace(self, index=index, conditions=self.conditions + more)

    def scaled(self, by: Array) -> ElementReading:
        """Return the reading times a number per row."""
        if self.numbered is not None:
            raise Unproved("a filter that is an input is scaled")
        if self.weights is not None:
            by = by.reshape(by.shape + (1,) * (self.weights.ndim - by.ndim))
            return replace(self, weights=self.weights * by)
        return replace(self, factor=by if self.factor is None else self.factor * by)

    def of_rows(self, kept: Array) -> ElementReading:
        """Return the reading for some of the rows."""
        if kept.all():
            return self
        index = tuple(rows_of(c, kept) for c in self.index)
        weights = None if self.weights is None else self.weights[kept]
        factor = None if self.factor is None else self.factor[kept]
        return replace(self, index=index, rows=self.rows[kept], weights=weights, factor=factor)


@dataclass(frozen=True)
class LinearPart:
    """PlainValue of the data times weights [rows, channels, *taps]; taps are variables `t0`, ..."""

    data: Port
    reading: ElementReading
    weights: Array
    channels: Array
    index: tuple[SizeTerm, ...]


@dataclass(frozen=True)
class ConstantPart:
    """A number per row (or its number in the input `reading.numbered`), under conditions."""

    reading: ElementReading
    values: Array


def fixed(component: Component) -> Array | int:
    """Return a component that is constant, or all its rows; else ask for a split."""
    if isinstance(component, MergedAxes):
        component = component.flat()
    if isinstance(component, np.ndarray):
        return component
    if component.known is not None:
        return component.known
    for atom in component.parts:
        for inner, factor in atom.terms[0].parts.items() if atom.kind == "mod" else ():
            if POSITION.fullmatch(inner.name):
                rest = atom.terms[0] - SizeTerm({inner: factor}, atom.terms[0].constant)
                shift = rest if factor == 1 else term(0)
                raise SplitNeeded(inner.name, atom.by, shift)
    for atom in component.parts:
        if POSITION.fullmatch(atom.name):
            raise SplitNeeded(atom.name, 0, term(0))
    raise Unproved(f"channels depend on the position {component.text}")


Rule = Callable[["BackwardWalk", Port, Layer, ElementReading], None]


@dataclass
class BackwardWalk:
    """Reads one value of a side by the rules of operations.

    `layout` lists the axes of data and output as N, C, then the spatial ones.
    """

    side: ReadSide
    layout: Layout
    rules: Mapping[str, Rule]
    parts: list[LinearPart] = field(default_factory=list)
    constants: list[ConstantPart] = field(default_factory=list)
    steps: int = 0

    @property
    def readings(self) -> list[ElementReading]:
        """All readings that came to an end."""
        return [*(p.reading for p in self.parts), *(c.reading for c in self.constants)]

    def read(self, port: Port, r: ElementReading) -> None:
        """Read an element, collecting what it is made of."""
        self.steps += 1
        if self.steps > MOST_READ:
            raise Unproved(f"more than {MOST_READ} layers are read")
        if any(c.known is False for c in r.conditions) or not r.rows.size:
            self.constants.append(ConstantPart(r, np.zeros(r.rows.size, np.int64)))
            return
        dims = self.side.dims(port)
        if any(d == 0 for d in dims):
            self.constants.append(ConstantPart(r, np.zeros(r.rows.size, np.int64)))
            return
        only = (term(0) if d == 1 else c for c, d in zip(r.index, dims, strict=True))
        end = self.side.end(port)
        if end is None and self.side.model.of(port).type in KEEPING:
            r = replace(r, index=tuple(only))
        else:
            r = replace(r, index=tuple(c.flat() if isinstance(c, MergedAxes) else c for c in only))
        if end is not None and (r.weights is not None or not self._per_channel(end)):
            self._data(end, r)
        elif end is not None or self.side.is_constant(port):
            self._constant(port, r)
        else:
            self.side.deeper(port, lambda p, layer: self._step(p, layer, r))

    def _per_channel(self, end: Port) -> bool:
        """Whether an input has a number for each channel and nothing else: a bias."""
        shape = self.side.space.fact(end).shape or ()
        return len(shape) < 2 or all(d == 1 for a, d in enumerate(shape) if a != self.layout[1])

    def _step(self, port: Port, layer: Layer, r: ElementReading) -> None:
        rule = self.rules.get(layer.type)
        if rule is None:
            raise Unproved(f"{layer} is not followed")
        rule(self, port, layer, r)

    def _data(self, end: Port, r: ElementReading) -> None:
        """Take note of an element of the data."""
        at = self.layout[1]
        if len(r.index) != len(self.layout):
            raise Unproved(f"{self.side.space.source.of(end)} has another rank than the layer")
        index = []
        for axis, c in enumerate(r.index):
            if axis != at and isinstance(c, np.ndarray):
                if c.size and (c != c.flat[0]).any():
                    raise Unproved("channels are mixed with another axis of the data")
                c = term(c.flat[0] if c.size else 0)
            index.append(c)
        weights = r.weights
        if weights is None:
            weights = np.ones((r.rows.size, 1), np.int64)
            weights = weights if r.factor is None else weights * r.factor[:, None]
        channels = np.asarray(fixed(index[at]), np.int64)
        channels = channels.reshape(channels.shape + (1,) * (channels.ndim == 1))
        channels = np.broadcast_to(channels, weights.shape[:2])
        index[at] = term(0)
        terms = tuple(c for c in index if isinstance(c, SizeTerm))
        self.parts.append(LinearPart(end, r, weights, channels, terms))

    def _constant(self, port: Port, r: ElementReading) -> None:
        """Take note of a number that does not depend on the data."""
        found = self.side.elements(port)
        array = found.array
        if not array.any():
            values: Array = np.zeros(r.rows.size, np.int64)
        elif r.weights is not None:
            raise Unproved("a constant is convolved")
        else:
            at = tuple(np.broadcast_to(fixed(c), r.rows.shape) for c in r.index)
            values = array[at]
        if found.of is not None and r.factor is not None:
            raise Unproved("a bias that is an input is scaled")
        values = values if r.factor is None else values * r.factor
        self.constants.append(ConstantPart(replace(r, numbered=found.of), values))

    def broadcast(self, port: Port, r: ElementReading, rank: int) -> ElementReading:
        """Return the reading of an input that is broadcast to a rank."""
        dims = self.side.dims(port)
        index = r.index[rank - len(dims) :]
        return r.at(*(term(0) if d == 1 else c for c, d in zip(index, dims, strict=True)))
