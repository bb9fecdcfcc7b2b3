"""An obligation, taken apart: classes of outputs, what both sides read for each, axis by axis.

A class holds the outputs whose position along each axis is P*q + r, for one r per axis; P is found
by the walk, which asks for more where channels depend on the position. Where they depend on the
position plus a size that is open, that sum is P*q + r. In a class what is read along one axis does
not depend on the other axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from irdeconv.proof.model import Obligation, Port, Unproved
from irdeconv.verify import smt_sizes
from irdeconv.verify.smt_meaning import Meaning, is_deconvolution
from irdeconv.verify.smt_operations import RULES
from irdeconv.verify.smt_reading import (
    POSITION,
    BackwardWalk,
    Component,
    ConstantPart,
    ElementReading,
    Function,
    LinearPart,
    SplitNeeded,
)
from irdeconv.verify.smt_side import Dims, ReadSide
from irdeconv.verify.smt_space import SizeSpace
from irdeconv.verify.smt_terms import SizeTerm, SmtCondition, equal, term, variable

MOST_CLASSES = 1 << 10
MOST_CHANNELS = 1 << 16


@dataclass(frozen=True)
class TapReading:
    """What one tap reads along an axis: the place, where all conditions hold."""

    place: SizeTerm
    conditions: tuple[SmtCondition, ...]


@dataclass(frozen=True)
class AxisReadings:
    """What is read along an axis for the output at `position`: by part, then by tap.

    The position is `period` times the variable, plus `rest`, less `shift`.

    `constants` has the conditions of every constant part. `size` is the output's, `inputs` the
    data's size on this axis; `variable` names q, or the position itself.
    """

    axis: int
    period: int
    rest: int
    shift: SizeTerm
    variable: str
    position: SizeTerm
    size: SizeTerm
    inputs: SizeTerm
    parts: tuple[tuple[TapReading, ...], ...]
    constants: tuple[tuple[SmtCondition, ...], ...]

    @property
    def taps(self) -> list[TapReading]:
        """All taps of all parts."""
        return [t for part in self.parts for t in part]


@dataclass(frozen=True)
class OutputsOfClass:
    """One class: parts of both sides, of which the first `sources` are the source's."""

    parts: tuple[LinearPart, ...]
    sources: int
    constants: tuple[ConstantPart, ...]
    source_constants: int
    axes: tuple[AxisReadings, ...]


@dataclass
class EqualityProblem:
    """An obligation with its two sides; `filter` is the deconvolution's [g, C/g, M/g, *K]."""

    obligation: Obligation
    space: SizeSpace
    source: ReadSide
    lowered: ReadSide
    found: Meaning
    filter: tuple[int, ...]
    output: Dims
    data: Dims
    periods: dict[int, int] = field(default_factory=dict)
    shifts: dict[int, SizeTerm] = field(default_factory=dict)

    @staticmethod
    def of(ob: Obligation) -> EqualityProblem:
        """Read both sides as far as sizes go; Unproved where something is not followed."""
        space = SizeSpace(ob.source, ob.fact)
        own = {p: p for p in ob.twins.values()}
        source = ReadSide(ob.source, own, space, smt_sizes.RULES, is_source=True)
        lowered = ReadSide(ob.lowered, ob.twins, space, smt_sizes.RULES)
        side, port = _deconvolution(source, ob.wanted) or _deconvolution(lowered, ob.output) or (
            source, ob.wanted)  # fmt: skip
        layer = side.model.of(port)
        if not is_deconvolution(layer):
            raise Unproved(f"no deconvolution is found behind {ob.source.of(ob.wanted)}")
        found, filter, _ = smt_sizes.deconvolution_windows(side, layer)
        output, other = source.dims(ob.wanted), lowered.dims(ob.output)
        if len(output) != len(other):
            raise Unproved(f"the output has {len(other)} axes, not {len(output)}")
        data = side.dims(layer.inputs[0])
        return EqualityProblem(ob, space, source, lowered, found, filter, output, data)

    @property
    def sizes_differ(self) -> list[SmtCondition]:
        """Return what must hold for the output to have the right shape."""
        other = self.lowered.dims(self.obligation.output)
        return [equal(a, b) for a, b in zip(self.output, other, strict=True)]

    @property
    def channels(self) -> int:
        """The number of output channels."""
        found = self.output[self.found.layout[1]].known
        if found is None or found > MOST_CHANNELS:
            raise Unproved("the number of output channels is open, or great")
        return found

    @property
    def empty(self) -> bool:
        """Whether the output never has an element."""
        return any(d == 0 for d in self.output)

    def classes(self) -> Iterator[OutputsOfClass]:
        """Yield all classes of outputs."""
        families = range(1 + len(self.found.strides))
        while True:
            periods = [self.periods.get(f, 1) for f in families]
            if math.prod(periods) > MOST_CLASSES:
                raise Unproved(f"outputs fall into {math.prod(periods)} classes")
            try:
                rests = itertools.product(*map(self._rests, families))
                made = [self._class(r) for r in rests]
                break
            except SplitNeeded as e:
                if e.name[0] == "t":
                    raise Unproved("channels depend on taps") from None
                self._split(int(e.name[1:]), e.by, e.shift)
        yield from made

    def _split(self, family: int, by: int, shift: SizeTerm) -> None:
        """Look at every so many positions of an axis apart; for 0 at each position."""
        if shift != 0:
            if family in self.periods or _family(shift) is not None:
                raise Unproved("channels depend on positions and sizes")
            self.shifts[family] = shift
        now, size = self.periods.get(family, 1), self.output[self.axis(family)].known
        if not by and (size is None or now >= size):
            raise Unproved(f"channels depend on the position o{family}")
        self.periods[family] = now * by if by else size or 1

    def axis(self, family: int) -> int:
        """Return an axis of data and output: that of the batch for 0, then spatial ones."""
        return self.found.layout[family + (family > 0)]

    def _position(self, family: int, name: str, rest: int) -> SizeTerm:
        """Return P*q + r, or that less the shift."""
        p, size = self.periods.get(family, 1), self.output[self.axis(family)].known
        if family in self.shifts:
            return variable(name) * p + rest - self.shifts[family]
        return variable(name, 0, None if size is None else (size - 1 - rest) // p) * p + rest

    def _rests(self, family: int) -> range:
        """Return the remainders that there are on an axis."""
        period, size = self.periods.get(family, 1), self.output[self.axis(family)].known
        return range(period if size is None or family in self.shifts else min(period, size))

    def _class(self, rests: Sequence[int]) -> OutputsOfClass:
        names, positions = [], []
        index: list[Component] = [np.arange(self.channels)] * len(self.found.layout)
        for f, rest in enumerate(rests):
            p = self.periods.get(f, 1)
            names.append(f"o{f}" if p == 1 else f"q{f}")
            positions.append(self._position(f, names[f], rest))
            index[self.axis(f)] = positions[f]
        ob, walks = self.obligation, []
        for side, port in ((self.source, ob.wanted), (self.lowered, ob.output)):
            walk = BackwardWalk(side, self.found.layout, RULES)
            walk.read(port, ElementReading(tuple(index), np.arange(self.channels)))
            walks.append(walk)
        self._same_functions(*walks)
        parts = [p for w in walks for p in w.parts]
        if len({p.data for p in parts}) > 1:
            raise Unproved("several values of the source are read")
        constants = [c for w in walks for c in w.constants if c.values.any()]
        axes = [
            self._axis(f, rest, names[f], positions[f], parts, constants)
            for f, rest in enumerate(rests)
        ]
        return OutputsOfClass(
            tuple(parts), len(walks[0].parts), tuple(constants),
            sum(bool(c.values.any()) for c in walks[0].constants), tuple(axes),
        )  # fmt: skip

    def _same_functions(self, source: BackwardWalk, lowered: BackwardWalk) -> None:
        """Demand that both sides apply the same activations."""
        found = [{r.functions for r in w.readings if r.rows.size} for w in (source, lowered)]
        kind = self.space.fact(self.obligation.wanted).type or "f32"
        if len(found[0]) != 1 or not all(_alike(f, next(iter(found[0])), kind) for f in found[1]):
            raise Unproved(f"the activations differ: {_names(found[0])} and {_names(found[1])}")

    def _axis(
        self,
        family: int,
        rest: int,
        name: str,
        position: SizeTerm,
        parts: Sequence[LinearPart],
        constants: Sequence[ConstantPart],
    ) -> AxisReadings:
        axis = self.axis(family)
        return AxisReadings(
            family,
            self.periods.get(family, 1),
            rest,
            self.shifts.get(family, term(0)),
            name,
            position,
            self.output[axis],
            self.data[axis],
            tuple(tuple(_taps(p, family, p.index[axis])) for p in parts),
            tuple(_of_family(c.reading.conditions, family) for c in constants),
        )


def _taps(part: LinearPart, family: int, place: SizeTerm) -> Iterator[TapReading]:
    """Yield what each tap of an axis reads."""
    if _family(place) not in (None, family):
        raise Unproved("an axis of the data follows another axis of the output")
    conditions = _of_family(part.reading.conditions, family)
    count = part.weights.shape[1 + family] if 0 < family < part.weights.ndim - 1 else 1
    for t in range(count):
        tap = {f"t{family}": term(t)}
        yield TapReading(place.replaced(tap), tuple(c.replaced(tap) for c in conditions))


def _of_family(conditions: Sequence[SmtCondition], family: int) -> tuple[SmtCondition, ...]:
    """Return the conditions on an axis; those on sizes alone belong to the batch."""
    return tuple(c for c in conditions if (_family(c.term) or 0) == family)


def _family(value: SizeTerm) -> int | None:
    """Return the axis whose position or tap a term depends on."""
    found = {int(m[1]) for m in map(POSITION.fullmatch, value.variables) if m}
    if len(found) > 1:
        raise Unproved("an axis of the output is mixed with another one")
    return next(iter(found), None)


def _alike(a: tuple[Function, ...], b: tuple[Function, ...], kind: str) -> bool:
    """Whether activations are the same, with parameters as the element type holds them."""
    cast = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
    with np.errstate(over="ignore"):
        left, right = ([(n, [cast(v) for v in p]) for n, p in f] for f in (a, b))
        return left == right


def _names(found: set[tuple[Function, ...]]) -> str:
    return " or ".join(sorted(", ".join(f"{n}{list(p)}" for n, p in f) or "none" for f in found))


def _deconvolution(side: ReadSide, port: Port) -> tuple[ReadSide, Port] | None:
    """Return the deconvolution that a value is computed by, in front of the ends."""
    todo, seen = [port], set[Port]()
    while todo:
        at = todo.pop()
        if at in seen or side.end(at) is not None:
            continue
        seen.add(at)
        if is_deconvolution(side.model.of(at)):
            return side, at
        todo += side.model.of(at).inputs[::-1]
    return None
