"""Bodies of Loop, TensorIterator and If: structure, inference, execution.

A body's graph is never changed in place, so copies of a graph may share it: to rewrite a body, put
a new graph into a new operation (`change_bodies`). Passes use the specs that inference gave to the
Parameters of a body, not the declared ones.

The spec of a carried value is widened until it holds in every iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import Diagnostic, OpError, Problem, size_error
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.memory import RunMemory
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import DRAWN, JUMPS, SCALE, Op, Rounding, as_tuple, attribute, effort, infer_op
from irdeconv.ir.ports import axis_of
from irdeconv.ir.spec import DYNAMIC, Array, Arrays, Dim, Interval, Shape, Spec, bounds, merge
from irdeconv.ops.basic import Parameter
from irdeconv.ops.checks import union

# Infers a graph in place with these specs of its Parameters; raises if that fails.
Walk = Callable[[Graph, Mapping[int, Spec]], None]
# Executes a body once: arrays by Parameter -> arrays by Result, which stay unchanged afterwards.
Run = Callable[[Mapping[int, Array]], Mapping[int, Array]]
Runner = Callable[["Body"], Run]


@dataclass(frozen=True)
class Slicing:
    """Parts of a tensor along an axis, one in each iteration.

    `start` and `end` are between elements: 0 in front of the first, -1 behind the last. Between
    them are whole parts of |`stride`| elements. An iteration reads the first `part_size` of a part.
    With a negative stride the last part comes first.
    """

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1

    def parts(self, size: int) -> int:
        """Return the number of parts of an axis; OpError E302 if they are not whole."""
        start, end = (p + size + 1 if p < 0 else p for p in (self.start, self.end))
        first, last = (end, start) if self.stride < 0 else (start, end)
        step = abs(self.stride)
        if not 0 <= first <= last <= size or (last - first) % step:
            text = f"axis {self.axis} has {size} elements; from {self.start} to {self.end} "
            text += f"there are no whole parts of {step}"
            raise OpError(text, code="E302")
        return (last - first) // step

    def at(self, iteration: int, size: int) -> slice:
        """Return the elements of a part.

        The runtime ignores `start`: it counts from the first element, or backwards from the last.
        """
        step = abs(self.stride)
        number = size // step - 1 - iteration if self.stride < 0 else iteration
        return slice(number * step, number * step + self.part_size)

    def problems(self) -> Iterator[Problem]:
        """Yield the mistakes that do not depend on the tensor."""
        if self.stride == 0:
            yield Problem("E211", "the stride is 0")
        elif not 1 <= self.part_size <= abs(self.stride):
            yield Problem("E211", f"parts of {self.part_size} do not fit the stride {self.stride}")


@dataclass(frozen=True)
class BodyInput:
    """The value of a Parameter of the body: an input of the operation, or a part of it.

    With `iteration` the value is the number of the iteration instead.
    """

    parameter: int
    port: int | None = None
    slicing: Slicing | None = None
    iteration: bool = False


@dataclass(frozen=True)
class BodyOutput:
    """The output of the operation that gets the value of a Result of the body.

    It gets the value of the last iteration; with a `slicing`, the joined values of all iterations.
    With `condition` the value decides whether there is another iteration.
    """

    result: int
    port: int | None = None
    slicing: Slicing | None = None
    condition: bool = False


@dataclass(frozen=True)
class Body:
    """A graph inside an operation.

    `tag` is the element of the file: body, then_body, else_body. `edges` carry values from one
    iteration to the next: from a Result to a Parameter, whose input is the first value.
    """

    graph: Graph
    inputs: tuple[BodyInput, ...] = ()
    outputs: tuple[BodyOutput, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    tag: str = "body"

    def carried(self) -> dict[int, int]:
        """Return by Parameter the Result whose value it gets in the next iteration.

        Edges to sliced inputs are ignored.
        """
        whole = {i.parameter for i in self.inputs if i.slicing is None and not i.iteration}
        return {parameter: result for result, parameter in self.edges if parameter in whole}

    def by_port(self) -> list[BodyOutput]:
        """Return the records of the operation's outputs, in the order of the ports."""
        given = {o.port: o for o in self.outputs if o.port is not None}
        return [given[port] for port in sorted(given)]

    def check(self) -> Iterator[Problem]:
        """Yield the mistakes in relation to the graph."""
        kinds = {n.id: n.type for n in self.graph.nodes()}
        fed = Counter(i.parameter for i in self.inputs)
        ends = [(i.parameter, "Parameter") for i in self.inputs]
        ends += [(o.result, "Result") for o in self.outputs]
        for result, parameter in self.edges:
            ends += [(result, "Result"), (parameter, "Parameter")]
        for ident, kind in ends:
            if kinds.get(ident) != kind:
                yield Problem("E211", f"the {self.tag} has no {kind} {ident}")
        for node in self.graph.parameters:
            if fed[node.id] != 1:
                times = "nothing feeds" if node.id not in fed else "several entries feed"
                yield Problem("E211", f'{times} the input "{node.name}" of the {self.tag}')
        for slicing in [i.slicing for i in self.inputs] + [o.slicing for o in self.outputs]:
            yield from () if slicing is None else slicing.problems()


@dataclass(frozen=True)
class BodyOp(Op):
    """Base of the operations with bodies.

    Their graphs have the specs of the last inference.
    """

    tags: ClassVar[tuple[str, ...]] = ("body",)
    folds: ClassVar[bool] = False
    bodies: tuple[Body, ...] = attribute((), internal=True)

    @property
    def side_effect(self) -> bool:  # type: ignore[override]
        """Whether a body has a layer with side effects."""
        return any(n.op.side_effect for b in self.bodies for n in b.graph.nodes())

    @cached_property  # asked for every output
    def rounding(self) -> Rounding:  # type: ignore[override]
        """Exact if every layer of the bodies is, else relative to the largest value.

        Results may differ freely if a layer draws random numbers.
        """
        rules = {n.op.rounding.rule for b in self.bodies for n in b.graph.nodes()}
        if "any" in rules:
            return DRAWN
        return JUMPS if rules <= {"exact"} else SCALE

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        """Return the number of layers in the bodies, times the ratio of input to output size."""
        largest = max((x.size for x in inputs), default=0)
        return sum(len(b.graph) for b in self.bodies) * (largest // max(output.size, 1) + 1)

    @property
    def pure(self) -> bool:
        """Whether every layer of the bodies is."""
        return all(n.op.pure for b in self.bodies for n in b.graph.nodes())

    def body(self, tag: str) -> Body:
        """Return the body of a tag."""
        return next(b for b in self.bodies if b.tag == tag)

    def with_graphs(self, change: Callable[[Graph], Graph]) -> BodyOp:
        """Return the operation with every body's graph changed; Parameters and Results stay."""
        return replace(self, bodies=tuple(replace(b, graph=change(b.graph)) for b in self.bodies))

    def inferred(self, inputs: Sequence[Spec], walk: Walk) -> BodyOp:
        """Return the operation with its bodies inferred for these inputs by `walk`."""
        raise NotImplementedError

    def results(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        """Return the specs of the outputs, the bodies being inferred."""
        raise NotImplementedError

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        return infer_bodies(self, inputs, infer_plainly)[1]

    def evaluate(self, *inputs: Array) -> Arrays:
        return self.execute(inputs, run_plainly)

    def execute(
        self, inputs: Sequence[Array], run: Runner, memory: RunMemory | None = None
    ) -> Arrays:
        """Compute the outputs; `run` returns a function that executes a body once.

        OpError E602 if the memory has no room for joined outputs, or a loop does not end.
        """
        raise NotImplementedError

    def check(self) -> Iterator[Problem]:
        tags = tuple(b.tag for b in self.bodies)
        if sorted(tags) != sorted(self.tags):
            have = ", ".join(tags) or "none"
            yield Problem("E211", f"its bodies are {have}, not {' and '.join(self.tags)}")
        for body in self.bodies:
            yield from body.check()
            ports = sorted(o.port for o in body.outputs if o.port is not None)
            if ports != list(range(len(ports))):
                yield Problem("E211", f"the {body.tag} gives the outputs {ports}")

    def macs(self, inputs: tuple[object, ...], outputs: tuple[object, ...]) -> int | None:
        """Return None: the number of iterations is only known after a run."""
        return None


def bodies_of(node: Node) -> tuple[Body, ...]:
    """Return the bodies of a node; most have none."""
    return node.op.bodies if isinstance(node.op, BodyOp) else ()


def every_node(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and those of all bodies in it."""
    for node in graph.nodes():
        yield node
        for body in bodies_of(node):
            yield from every_node(body.graph)


def change_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> None:
    """Put changed graphs into the bodies of a graph, in place."""
    for node in graph.nodes():
        if isinstance(node.op, BodyOp):
            graph.replace_op(node.id, node.op.with_graphs(change))


ROUNDS = 3  # of a loop's body before the bounds of a size that changes are given up


class BodyError(OpError):
    """A layer inside a body does not fit; `diagnostics` name it."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = list(diagnostics) or self.diagnostics


def infer_plainly(graph: Graph, given: Mapping[int, Spec]) -> None:
    """Infer a graph in place; BodyError at the first layer that does not fit."""
    for node in graph.topological():
        if node.id in given:
            node.specs = (given[node.id],)
            continue
        inputs = graph.input_specs(node.id)
        try:
            if isinstance(node.op, BodyOp):
                node.op, node.specs = infer_bodies(node.op, inputs, infer_plainly)
            else:
                node.specs = infer_op(node.op, inputs)
        except OpError as e:
            raise BodyError(f'in its body, {node.type} "{node.name}": {e}') from e


def infer_bodies(op: BodyOp, inputs: Sequence[Spec], walk: Walk) -> tuple[BodyOp, tuple[Spec, ...]]:
    """Return the operation with its bodies inferred for these inputs, and its outputs' specs."""
    ready = op.inferred(inputs, walk)
    return ready, ready.results(inputs)


def with_specs(body: Body, given: Mapping[int, Spec], walk: Walk) -> Body:
    """Return the body with a graph that is inferred for these Parameters.

    They are declared so if they do not fit their declarations, by which OpenVINO first infers it.
    """
    work.take(len(body.graph) * work.NODE)
    graph = body.graph.copy()
    walk(graph, given)
    ends = [graph.node(i) for i in given]
    if not all(isinstance(n.op, Parameter) and n.op.infer().agrees(n.spec()) for n in ends):
        for node in ends:
            if isinstance(node.op, Parameter):
                dtype = node.spec().dtype or node.op.element_type
                graph.replace_op(node.id, Parameter(node.spec().shape, dtype))
    return replace(body, graph=graph)


def entering(body: Body, inputs: Sequence[Spec]) -> dict[int, Spec]:
    """Return the Parameters' specs in the first iteration; those of carried ones have no value."""
    carried = body.carried()
    out = {}
    for entry in body.inputs:
        spec = _entering(body, entry, inputs)
        out[entry.parameter] = spec.without_value() if entry.parameter in carried else spec
    return out


def _entering(body: Body, entry: BodyInput, inputs: Sequence[Spec]) -> Spec:
    if entry.iteration or entry.port is None:
        node = body.graph.node(entry.parameter)
        (spec,) = infer_op(node.op, ())
        if spec.dtype is not None and spec.dtype.name not in ("i32", "i64"):
            text = f'the number of the iteration, "{node.name}", is {spec.dtype}, not i32 or i64'
            raise OpError(text, code="E303")
        if spec.shape not in ((), (1,)):
            text = f'the number of the iteration, "{node.name}", is {spec}, not a scalar or [1]'
            raise OpError(text, code="E301")
        return spec
    if entry.port >= len(inputs):
        raise OpError(f"the {body.tag} reads input {entry.port}, which there is not", code="E208")
    spec = inputs[entry.port]
    return spec if entry.slicing is None else _part(spec, entry.slicing, entry.port)


def _part(spec: Spec, slicing: Slicing, port: int) -> Spec:
    shape = spec.shape
    if shape is not None:
        axis = axis_of(slicing.axis, len(shape), port=port)
        size = shape[axis]
        if isinstance(size, int):
            slicing.parts(size)
        shape = (*shape[:axis], slicing.part_size, *shape[axis + 1 :])
    return Spec(spec.dtype, shape)


def settled(body: Body, inputs: Sequence[Spec], trips: Dim, walk: Walk) -> Body:
    """Return the body inferred so that its specs are true in every iteration."""
    given = entering(body, inputs)
    done = with_specs(body, given, walk)
    more = bounds(trips)[1]
    rounds = 0
    while more is None or more > 1:
        before = dict(given)
        for parameter, result in body.carried().items():
            names = _quoted(body, result), _quoted(body, parameter)
            spec = joined(given[parameter], done.graph.node(result).spec(), names)
            given[parameter] = widened(before[parameter], spec) if rounds >= ROUNDS else spec
        if given == before:
            break
        done = with_specs(body, given, walk)
        rounds += 1
    return done


def _quoted(body: Body, node: int) -> str:
    return f'"{body.graph.node(node).name}"'


def joined(a: Spec, b: Spec, names: tuple[str, str]) -> Spec:
    """Return a spec that holds for both; OpError E303 if their element types differ."""
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        text = f"{names[0]} is {b.dtype} and {names[1]} is {a.dtype}; both must have one type"
        raise OpError(text, code="E303")
    shape: Shape | None = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(map(union, a.shape, b.shape))
    return Spec(a.dtype or b.dtype, shape)


def widened(old: Spec, new: Spec) -> Spec:
    """Give up the bounds that have changed."""
    if old.shape is None or new.shape is None:
        return new
    dims: list[Dim] = []
    for before, after in zip(old.shape, new.shape, strict=True):
        (low, high), (lower, higher) = bounds(before), bounds(after)
        dims.append(Interval.of(low if low == lower else 0, high if high == higher else None))
    return Spec(new.dtype, tuple(dims))


def leaving(body: Body, inputs: Sequence[Spec], trips: Dim) -> Iterator[Spec]:
    """Yield the specs of the outputs of a loop, in their order."""
    firsts = first_values(body)
    low, high = bounds(trips)
    for output in body.by_port():
        spec = body.graph.node(output.result).spec().without_value()
        first = firsts.get(output.result)
        if output.slicing is not None:
            if spec.shape is not None:
                axis = axis_of(output.slicing.axis, len(spec.shape))
                joint = (*spec.shape[:axis], trips * spec.shape[axis], *spec.shape[axis + 1 :])
                spec = Spec(spec.dtype, joint)
            yield spec
        elif low > 0 or first is None:
            yield spec
        else:
            names = _quoted(body, output.result), _quoted(body, first.parameter)
            start = _entering(body, first, inputs).without_value()
            yield start if high == 0 else joined(start, spec, names)


def first_values(body: Body) -> dict[int, BodyInput]:
    """Return by Result the input that has its value before the first iteration."""
    carried = body.carried()
    found: dict[int, BodyInput] = {}
    for entry in body.inputs:
        if entry.parameter in carried:
            found.setdefault(carried[entry.parameter], entry)
    return found


def parts_of(body: Body, inputs: Sequence[Spec]) -> Dim | None:
    """Return the sliced inputs' number of parts; None without one, OpError E302 if they differ."""
    number: Dim | None = None
    for entry in body.inputs:
        if entry.slicing is None or entry.port is None or entry.port >= len(inputs):
            continue
        shape = inputs[entry.port].shape
        if shape is None:
            number = DYNAMIC if number is None else number
            continue
        size = shape[axis_of(entry.slicing.axis, len(shape), port=entry.port)]
        parts = entry.slicing.parts(size) if isinstance(size, int) else DYNAMIC
        both = parts if number is None else merge(number, parts)
        if both is None:
            text = f"input {entry.port} has {parts} parts, others have {number}"
            raise size_error(entry.port, text)
        number = both
    return number


def one(array: Array, name: str) -> Array:
    """Return the element of a scalar or of an array of one element; else OpError E302."""
    if np.size(array) != 1:
        raise OpError(f"{name} has {np.size(array)} elements, not one", code="E302")
    element: Array = np.asarray(array).reshape(-1)[0]
    return element


def run_plainly(body: Body) -> Run:
    """Return a function that executes a body layer by layer, each by its own `evaluate`."""
    graph, live = body.graph, body.graph.live()
    order = [n for n in graph.topological() if n.id in live and n.type != "Parameter"]

    def run(given: Mapping[int, Array]) -> dict[int, Array]:
        values: dict[tuple[int, int], Array] = {(i, 0): array for i, array in given.items()}
        for node in order:
            arrays = [values[v] for v in graph.inputs_of(node.id)]
            if work.is_folding():  # OpError if too little work is left
                specs = tuple(map(Spec.of, arrays))
                own = not isinstance(node.op, BodyOp)
                units = effort(node.op, specs, as_tuple(node.op.infer(*specs))) if own else 0
                work.take(units + work.NODE)
            for port, array in enumerate(as_tuple(node.op.evaluate(*arrays))):
                values[node.id, port] = array
        return {n.id: values[n.id, 0] for n in graph.results}

    return run


def iterate(
    body: Body, inputs: Sequence[Array], run: Run, trips: int | None, memory: RunMemory | None
) -> Arrays:
    """Run a body up to `trips` times, while its condition holds; return the outputs by port.

    Raises OpError E602 if there are too many iterations, or an output becomes too large.
    """
    carried = body.carried()
    most = current().iterations
    memory = memory or RunMemory()
    outputs = [_Gathered(o, memory) for o in body.by_port()]
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
    return tuple(o.value(body, inputs, made) for o in outputs)


def _holds(body: Body, result: int) -> bool:
    """Whether inference proves that a condition always holds."""
    known = body.graph.node(result).spec().known
    return known is not None and bool(known.all())


def _too_many(count: int) -> OpError:
    text = f"{count:,} iterations or more; the limit is {current().iterations:,}"
    hint = f"check the trip count and the condition; {raise_hint('iterations')}"
    return OpError(text, code="E602", hint=hint)


def _given(
    body: Body, inputs: Sequence[Array], iteration: int, carried: Mapping[int, Array]
) -> dict[int, Array]:
    """Return the values of the body's Parameters in an iteration."""
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
            span = entry.slicing.at(iteration, array.shape[axis])
            if span.start < 0 or span.stop > array.shape[axis]:
                text = f"iteration {iteration} needs elements {span.start} to {span.stop - 1} of "
                text += f"axis {axis} of input {entry.port}, which has {array.shape[axis]}"
                raise size_error(entry.port, text)
            out[entry.parameter] = array[(slice(None),) * axis + (span,)]
        else:
            out[entry.parameter] = carried.get(entry.parameter, inputs[entry.port])
    return out


def _expected(body: Body, inputs: Sequence[Array], result: int) -> Spec:
    """Return the spec that a Result would have after a first iteration with these inputs."""
    known = body.graph.node(result).spec()
    if known.static:
        return known
    given = entering(body, [Spec.of(a) for a in inputs])
    for parameter, spec in given.items():
        own = body.graph.node(parameter).spec().dtype
        given[parameter] = Spec(own or spec.dtype, spec.shape, spec.value)
    return with_specs(body, given, infer_plainly).graph.node(result).spec()


@dataclass
class _Gathered:
    """An output while a loop runs: the parts so far, if it joins them."""

    output: BodyOutput
    memory: RunMemory
    parts: list[Array] = field(default_factory=list)
    taken: int = 0

    def take(self, made: Mapping[int, Array], trips: int | None) -> None:
        """Keep the part of an iteration; `trips` is the number of iterations if it is known."""
        if self.output.slicing is None:
            return
        part = made[self.output.result]
        self.taken += part.nbytes
        first = trips is not None and not self.parts
        expected = part.nbytes * (trips or 1) if first else self.taken
        most, what = current().tensor_bytes, f"output {self.output.port}"
        if expected > most:
            raise OpError(f"{what} takes {expected:,} bytes; the limit is {most:,}", code="E602")
        # The parts and what they are joined to; those that there are have been counted.
        self.memory.require(2 * expected - self.taken, what)
        self.parts.append(np.asarray(part))

    def value(self, body: Body, inputs: Sequence[Array], made: Mapping[int, Array]) -> Array:
        """Return the output after the last iteration, or if there was none."""
        slicing, result = self.output.slicing, self.output.result
        if slicing is None and made:
            return made[result]
        if slicing is None:
            first = first_values(body).get(result)
            if first is None or first.port is None:
                name = body.graph.node(result).name
                text = f'the loop runs no time, and nothing gives a first value of "{name}"'
                raise OpError(text, code="E305")
            return inputs[first.port]
        if self.parts:
            parts = self.parts[::-1] if slicing.stride < 0 else self.parts
            whole = np.concatenate(parts, axis_of(slicing.axis, parts[0].ndim))
            self.memory.hold(whole)
            return whole
        spec = _expected(body, inputs, result)
        if spec.shape is None or spec.dtype is None:
            text = f"the loop runs no time, and the rank of output {self.output.port} is not known"
            raise OpError(text, code="E305")
        axis = axis_of(slicing.axis, len(spec.shape))
        shape = [d if isinstance(d, int) else d.lo for d in spec.shape]
        shape[axis] = 0
        return np.empty(shape, spec.dtype.container)
