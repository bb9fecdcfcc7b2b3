"""Specs in bodies and of what leaves them: parts, joined parts, values carried round and round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from irdeconv.errors import Diagnostic, OpError
from irdeconv.graph import Graph
from irdeconv.op import infer_op
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, Slicing, Walk
from irdeconv.ops.checks import axis_of, union
from irdeconv.spec import DYNAMIC, Dim, Interval, Shape, Spec, bounds, merge

ROUNDS = 3  # of a loop's body before the bounds of a size that changes are given up


class BodyError(OpError):
    """A layer inside a body does not fit; `diagnostics` tell which."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


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
    """Return the body with a graph that is inferred for these Parameters."""
    graph = body.graph.copy()
    walk(graph, given)
    return replace(body, graph=graph)


def result_spec(body: Body, result: int) -> Spec:
    """Return what inference knows of a Result."""
    return body.graph.node(result).spec()


def entering(body: Body, inputs: Sequence[Spec]) -> dict[int, Spec]:
    """Return what the Parameters get in the first iteration; nothing is known of carried values."""
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
            spec = joined(given[parameter], result_spec(done, result), names)
            given[parameter] = widened(before[parameter], spec) if rounds >= ROUNDS else spec
        if given == before:
            break
        done = with_specs(body, given, walk)
        rounds += 1
    return done


def _quoted(body: Body, node: int) -> str:
    return f'"{body.graph.node(node).name}"'


def joined(a: Spec, b: Spec, names: tuple[str, str]) -> Spec:
    """Return what holds for both; OpError E303 where their element types differ."""
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        text = f"{names[0]} is {b.dtype} and {names[1]} is {a.dtype}; both must have one type"
        raise OpError(text, code="E303")
    return Spec(a.dtype or b.dtype, _union(a.shape, b.shape))


def _union(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(union(x, y) for x, y in zip(a, b, strict=True))


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
        spec = result_spec(body, output.result).without_value()
        first = firsts.get(output.result)
        if output.slicing is not None:
            yield _joined_parts(spec, output.slicing, trips)
        elif low > 0 or first is None:
            yield spec
        else:
            names = _quoted(body, output.result), _quoted(body, first.parameter)
            start = _entering(body, first, inputs).without_value()
            yield start if high == 0 else joined(start, spec, names)


def first_values(body: Body) -> dict[int, BodyInput]:
    """Return the inputs whose values Results stand for before the first iteration."""
    carried = body.carried()
    found: dict[int, BodyInput] = {}
    for entry in body.inputs:
        if entry.parameter in carried:
            found.setdefault(carried[entry.parameter], entry)
    return found


def _joined_parts(spec: Spec, slicing: Slicing, trips: Dim) -> Spec:
    if spec.shape is None:
        return spec
    axis = axis_of(slicing.axis, len(spec.shape))
    size = trips * spec.shape[axis]
    return Spec(spec.dtype, (*spec.shape[:axis], size, *spec.shape[axis + 1 :]))


def parts_of(body: Body, inputs: Sequence[Spec]) -> Dim | None:
    """Return how many parts sliced inputs have; None without one, OpError E302 if they differ."""
    found: Dim | None = None
    for entry in body.inputs:
        if entry.slicing is None or entry.port is None or entry.port >= len(inputs):
            continue
        shape = inputs[entry.port].shape
        if shape is None:
            found = DYNAMIC if found is None else found
            continue
        size = shape[axis_of(entry.slicing.axis, len(shape), port=entry.port)]
        parts = entry.slicing.parts(size) if isinstance(size, int) else DYNAMIC
        both = parts if found is None else merge(found, parts)
        if both is None:
            text = f"input {entry.port} has {parts} parts, others have {found}"
            raise OpError(text, code="E302", port=entry.port)
        found = both
    return found
