"""Running bodies: what each iteration gets, and what becomes of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from irdeconv.errors import OpError
from irdeconv.graph import Graph
from irdeconv.limits import current, raise_hint
from irdeconv.op import as_tuple
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Run
from irdeconv.ops.body_inference import entering, first_values, infer_plainly, with_specs
from irdeconv.ops.checks import axis_of
from irdeconv.spec import Array, Spec


def one(array: Array, name: str) -> Array:
    """Return the element of a scalar or of an array of one element; else OpError E302."""
    if np.size(array) != 1:
        raise OpError(f"{name} has {np.size(array)} elements, not one", code="E302")
    element: Array = np.asarray(array).reshape(-1)[0]
    return element


def run_plainly(body: Body) -> Run:
    """Return what executes a body layer by layer, each by its own `evaluate`."""
    graph, live = body.graph, body.graph.live()
    order = [n for n in graph.topological() if n.id in live and n.type != "Parameter"]

    def run(given: Mapping[int, Array]) -> dict[int, Array]:
        values: dict[tuple[int, int], Array] = {(i, 0): array for i, array in given.items()}
        for node in order:
            arrays = [values[v] for v in graph.inputs_of(node.id)]
            for port, array in enumerate(as_tuple(node.op.evaluate(*arrays))):
                values[node.id, port] = array
        return {n.id: values[n.id, 0] for n in graph.results}

    return run


def iterate(
    body: Body, inputs: Sequence[Array], run: Run, trips: int | None, limit: int | None
) -> tuple[Array, ...]:
    """Run a body up to `trips` times, while its condition holds; returns the outputs by port.

    Raises OpError E602 where there are too many iterations, or an output becomes too large.
    """
    carried = body.carried()
    most = current().iterations
    outputs = [_Gathered(o, limit or current().tensor_bytes) for o in body.by_port()]
    ends = [o.result for o in body.outputs if o.condition and not _holds(body, o.result)]
    if trips is not None and trips > most and not ends:
        raise _too_many(trips)
    values: dict[int, Array] = {}
    made: Mapping[int, Array] = {}
    iteration = 0
    while trips is None or iteration < trips:
        if iteration == most:
            raise _too_many(iteration + 1)
        values = _given(body, inputs, iteration, values)
        made = run(values)
        for output in outputs:
            output.take(made, None if ends else trips)
        iteration += 1
        if not all(one(made[r], "the condition") for r in ends):
            break
        values = {parameter: made[result] for parameter, result in carried.items()}
    unrun = _Unrun(body, inputs)
    return tuple(o.value(unrun, made) for o in outputs)


def _holds(body: Body, result: int) -> bool:
    """Whether inference knows that a condition always holds."""
    known = body.graph.node(result).spec().known
    return known is not None and bool(known.all())


def _too_many(count: int) -> OpError:
    return OpError(
        f"{count:,} iterations or more; the limit is {current().iterations:,}",
        code="E602",
        hint=f"check the trip count and the condition; {raise_hint('iterations')}",
    )


def _given(
    body: Body, inputs: Sequence[Array], iteration: int, carried: Mapping[int, Array]
) -> dict[int, Array]:
    """Return what the body gets in an iteration."""
    out: dict[int, Array] = {}
    for entry in body.inputs:
        if entry.iteration or entry.port is None:
            spec = body.graph.node(entry.parameter).spec()
            assert spec.dtype is not None
            shape = (1,) if spec.shape == (1,) else ()
            out[entry.parameter] = np.full(shape, iteration, spec.dtype.container)
        elif entry.slicing is not None:
            array = inputs[entry.port]
            axis = axis_of(entry.slicing.axis, array.ndim, port=entry.port)
            where = entry.slicing.at(iteration, array.shape[axis])
            if where.start < 0 or where.stop > array.shape[axis]:
                raise OpError(
                    f"iteration {iteration} needs elements {where.start} to {where.stop - 1} of "
                    f"axis {axis} of input {entry.port}, which has {array.shape[axis]}",
                    code="E302",
                    port=entry.port,
                )
            out[entry.parameter] = array[(slice(None),) * axis + (where,)]
        else:
            out[entry.parameter] = carried.get(entry.parameter, inputs[entry.port])
    return out


@dataclass
class _Unrun:
    """What is known of a body that runs no time."""

    body: Body
    inputs: Sequence[Array]

    def name(self, result: int) -> str:
        return self.body.graph.node(result).name

    @cached_property
    def firsts(self) -> dict[int, BodyInput]:
        """The inputs whose values Results stand for."""
        return first_values(self.body)

    def expected(self, result: int) -> Spec:
        """Return what a Result of the first iteration would be, from the sizes of these inputs."""
        known = self.body.graph.node(result).spec()
        return known if known.static else self._inferred.node(result).spec()

    @cached_property
    def _inferred(self) -> Graph:
        given = entering(self.body, [Spec.of(a) for a in self.inputs])
        for parameter, spec in given.items():
            own = self.body.graph.node(parameter).spec().dtype
            given[parameter] = Spec(own or spec.dtype, spec.shape, spec.value)
        return with_specs(self.body, given, infer_plainly).graph


@dataclass
class _Gathered:
    """An output while a loop runs: the parts so far, if it joins them."""

    output: BodyOutput
    limit: int
    parts: list[Array] = field(default_factory=list)
    taken: int = 0

    def take(self, made: Mapping[int, Array], trips: int | None) -> None:
        """Keep the part of an iteration; `trips` where their number is known."""
        slicing = self.output.slicing
        if slicing is None:
            return
        part = made[self.output.result]
        self.taken += part.nbytes
        expected = self.taken if trips is None or self.parts else part.nbytes * trips
        if expected > self.limit:
            text = f"output {self.output.port} takes {expected:,} bytes; the limit is "
            raise OpError(f"{text}{self.limit:,}", code="E602")
        self.parts.append(np.asarray(part))

    def value(self, unrun: _Unrun, made: Mapping[int, Array]) -> Array:
        """Return the output after the last iteration."""
        slicing, result = self.output.slicing, self.output.result
        if slicing is None and made:
            return made[result]
        if slicing is None:
            first = unrun.firsts.get(result)
            if first is None or first.port is None:
                name = unrun.name(result)
                text = f'the loop runs no time, and nothing gives a first value of "{name}"'
                raise OpError(text, code="E305")
            return unrun.inputs[first.port]
        if self.parts:
            parts = self.parts[::-1] if slicing.stride < 0 else self.parts
            return np.concatenate(parts, axis_of(slicing.axis, parts[0].ndim))
        spec = unrun.expected(result)
        if spec.shape is None or spec.dtype is None:
            text = f"the loop runs no time, and the rank of output {self.output.port} is not known"
            raise OpError(text, code="E305")
        axis = axis_of(slicing.axis, len(spec.shape))
        shape = [d if isinstance(d, int) else d.lo for d in spec.shape]
        shape[axis] = 0
        return np.empty(shape, spec.dtype.container)
