"""Loops and branches: operations whose bodies are graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from irdeconv.base.errors import OpError, Problem
from irdeconv.base.memory import RunMemory
from irdeconv.ir.op import op
from irdeconv.ir.ports import fit, want_rank, want_type
from irdeconv.ir.spec import DYNAMIC, Array, Arrays, Dim, Interval, Spec, bounds
from irdeconv.ops.basic import Parameter
from irdeconv.ops.bodies import (
    BodyOp,
    Runner,
    Walk,
    entering,
    iterate,
    joined,
    leaving,
    one,
    parts_of,
    settled,
    with_specs,
)


class LoopBase(BodyOp):
    """Base of Loop and TensorIterator: one body, run again and again."""

    def most(self, inputs: Sequence[Spec]) -> Dim:
        """Return the largest number of iterations, for any values in the body."""
        raise NotImplementedError

    def trips(self, inputs: Sequence[Spec]) -> Dim:
        """Return the number of iterations, as far as it follows from inputs and inferred body."""
        return self.most(inputs)

    def inferred(self, inputs: Sequence[Spec], walk: Walk) -> BodyOp:
        return replace(self, bodies=(settled(self.bodies[0], inputs, self.most(inputs), walk),))

    def results(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        return tuple(leaving(self.bodies[0], inputs, self.trips(inputs)))


@op("TensorIterator")
class TensorIterator(LoopBase):
    """Run the body once for each part of the sliced inputs.  [infrastructure/TensorIterator-1]

    Inputs and outputs are those of the port map. A sliced input gives the body a part in each
    iteration; all of them must have as many parts. A carried one starts with the input and then
    gets the body's previous result. Others stay the same. Outputs are the value of the last
    iteration, or the values of all joined along an axis: (..., part, ...) -> (..., N * part, ...)
    for N iterations. Without a sliced input the body runs once. `start` determines the number of
    parts, but the first part is at the beginning of the axis (with a negative stride at its end),
    as in the runtime; the specification begins at `start`. An axis without elements is no error
    here: the joined outputs are empty, and the carried ones have their first values.
    """

    signature = "input+: any"

    def most(self, inputs: Sequence[Spec]) -> Dim:
        parts = parts_of(self.bodies[0], inputs)
        return 1 if parts is None else parts

    def inferred(self, inputs: Sequence[Spec], walk: Walk) -> BodyOp:
        for parameter, given in entering(self.bodies[0], inputs).items():
            node = self.bodies[0].graph.node(parameter)
            known = isinstance(node.op, Parameter) and node.op.element_type
            if known and given.dtype not in (known, None):
                text = f'the input "{node.name}" of its body is {known}, '
                raise OpError(f"{text}and what it gets is {given.dtype}", code="E303")
        return super().inferred(inputs, walk)

    def execute(
        self, inputs: Sequence[Array], run: Runner, memory: RunMemory | None = None
    ) -> Arrays:
        trips = self.most([Spec.of(x, keep=False) for x in inputs])
        assert isinstance(trips, int)
        return iterate(self.bodies[0], inputs, run(self.bodies[0]), trips, memory)


@op("Loop", since=5)
class Loop(LoopBase):
    """Run the body while a condition holds, up to a number of times.  [infrastructure/Loop-5]

    trip_count (an integer, below 0 for no bound) and condition (boolean), both scalars or of one
    element, then the inputs of the port map, as those of TensorIterator. The body may read the
    number of the iteration, from 0, and give the condition for the next one. With no iteration at
    all the joined outputs are empty and the carried ones have their first values. If the condition
    is a constant that is false, the runtime gives these 0 elements on the first axis.
    """

    signature = "trip_count: any; condition: any; input*: any"

    def most(self, inputs: Sequence[Spec]) -> Dim:
        count, start = self._given(inputs)
        if start is False or count == 0:
            return 0
        return count if isinstance(count, int) and count > 0 else DYNAMIC

    def _given(self, inputs: Sequence[Spec]) -> tuple[Dim, bool | None]:
        """Return the trip count and whether the loop starts, as far as they are known."""
        at = fit(self, *inputs[:2], signature="trip_count: integer one; condition: boolean one")
        start = inputs[1].known
        begins = None if start is None else bool(one(start, "condition"))
        return at.value("trip_count"), begins

    def trips(self, inputs: Sequence[Spec]) -> Dim:
        most, (count, start) = self.most(inputs), self._given(inputs)
        holds = self._goes_on()
        sure = start is True and isinstance(count, int) and count != 0
        if sure and holds and isinstance(most, int):
            return most
        return Interval.of(int(sure), 1 if holds is False and most != 0 else bounds(most)[1])

    def _goes_on(self) -> bool | None:
        """Return the body's condition; None if it depends on values."""
        conditions = [
            self.bodies[0].graph.node(o.result) for o in self.bodies[0].outputs if o.condition
        ]
        for node in conditions:
            want_rank(node.spec().shape, 0, 1, None, f'the body\'s condition "{node.name}"')
        known = [node.spec().known for node in conditions]
        if any(k is None for k in known):
            return None
        return all(k is not None and bool(k.all()) for k in known)

    def execute(
        self, inputs: Sequence[Array], run: Runner, memory: RunMemory | None = None
    ) -> Arrays:
        count = int(one(inputs[0], "trip_count"))
        going = bool(one(inputs[1], "condition"))
        trips = None if count < 0 else count
        return iterate(self.bodies[0], inputs, run(self.bodies[0]), trips if going else 0, memory)


@op("If", since=8)
class If(BodyOp):
    """Run one of two bodies: then_body if the condition holds, else else_body.  [condition/If-8]

    condition is a boolean of one element. The port maps connect the other inputs to the bodies.
    Both bodies give the same outputs, of one element type; shapes may differ.
    """

    signature = "condition: any; input*: any"
    tags: ClassVar[tuple[str, ...]] = ("then_body", "else_body")

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        given = [{o.port for o in b.outputs} for b in self.bodies]
        if len(given) == 2 and given[0] != given[1]:
            yield Problem("E211", "its bodies do not give the same outputs")

    def inferred(self, inputs: Sequence[Spec], walk: Walk) -> BodyOp:
        want_type(inputs[0], "boolean", 0, "condition")
        want_rank(inputs[0].shape, 0, 1, 0, "condition")
        made = (with_specs(b, entering(b, inputs), walk) for b in self.bodies)
        return replace(self, bodies=tuple(made))

    def results(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        sides = [self._outputs(tag) for tag in self.tags]
        chosen = inputs[0].known
        if chosen is not None:
            return sides[0 if one(chosen, "condition") else 1]
        names = "the else_body's output", "the then_body's"
        return tuple(joined(a, b, names) for a, b in zip(*sides, strict=True))

    def _outputs(self, tag: str) -> tuple[Spec, ...]:
        body = self.body(tag)
        return tuple(body.graph.node(o.result).spec() for o in body.by_port())

    def execute(
        self, inputs: Sequence[Array], run: Runner, memory: RunMemory | None = None
    ) -> Arrays:
        body = self.body(self.tags[0 if one(inputs[0], "condition") else 1])
        given = {i.parameter: inputs[i.port] for i in body.inputs if i.port is not None}
        made = run(body)(given)
        return tuple(made[o.result] for o in body.by_port())
