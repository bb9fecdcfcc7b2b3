"""ONNX's If, Loop and Scan as operations with bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.dtypes import boolean, i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal, require_one_length
from irdeconv.importers.onnx_node import (
    Entry,
    ImportedBody,
    OnnxNode,
    Outputs,
    rule,
    wrap,
)
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.body_inference import joined, widened
from irdeconv.ops.control import If, Loop, TensorIterator
from irdeconv.spec import Spec

SHAPE_ROUNDS = 4  # until sizes that a loop changes are taken for open
VERSIONS = "11 13 16 19 21 23 24 25"


@rule("If", f"1 {VERSIONS}")
def branch(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """One of two bodies; the nodes of one in place where the condition is known."""
    condition = b.as_scalar(n[0])
    bodies = n.body("then_branch"), n.body("else_branch")
    known = b.known(condition)
    if known is not None:
        return n.bodies.inline(bodies[0] if known else bodies[1])
    both = [n.bodies.graph(body, ()) for body in bodies]
    inputs = [condition]
    made = []
    for tag, one in zip(If.tags, both, strict=True):
        entries = _captured(one, inputs)
        outputs = tuple(BodyOutput(r, at) for at, r in enumerate(one.results))
        made.append(Body(one.graph, entries, outputs, tag=tag))
    return b.outputs(If(bodies=tuple(made)), *inputs)


def _captured(one: ImportedBody, inputs: list[Value]) -> tuple[BodyInput, ...]:
    """Return what feeds the values from outside, which become further inputs of the operation."""
    out = []
    for parameter, value in one.captured:
        out.append(BodyInput(parameter, len(inputs)))
        inputs.append(value)
    return tuple(out)


@dataclass(frozen=True)
class _Sliced:
    """A tensor that a loop takes or gives in parts along an axis."""

    axis: int
    backward: bool = False

    @property
    def slicing(self) -> Slicing:
        if self.backward:
            return Slicing(self.axis, start=-1, end=0, stride=-1)
        return Slicing(self.axis)


def _settled(
    states: Sequence[Spec], make: Callable[[Sequence[Spec]], ImportedBody], first: int
) -> ImportedBody:
    """Return a body whose states have the shapes that they keep in every iteration.

    `make` imports it for such shapes; `first` is the number of the output with the first state.
    """
    given = [s.without_value() for s in states]
    for rounds in range(SHAPE_ROUNDS + 1):
        body = make(given)
        if len(body.results) < first + len(given):
            raise Refusal(f"its body has {len(body.results)} outputs for {first + len(given)}")
        after = []
        for at, spec in enumerate(given):
            found = body.spec(first + at).without_value()
            both = joined(spec, found, ("what the body gives", "what it starts with"))
            after.append(widened(spec, both) if rounds else both)
        if after == given:
            return body
        given = after
    raise Refusal("its states have no lasting shapes")


@rule("Loop", f"1 {VERSIONS}")
def loop(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A body that runs while its condition holds, a number of times at most."""
    body, states = n.body("body"), [n[i] for i in range(2, len(n.inputs))]
    most = b.scalar(-1) if n.input(0) is None else b.as_scalar(n[0])
    start = b.const(np.array(True)) if n.input(1) is None else b.as_scalar(n[1])
    count = len(states)
    scans = dict.fromkeys(range(1 + count, len(body.output)), 0)

    def make(specs: Sequence[Spec]) -> ImportedBody:
        # Whenever the body runs, the condition holds.
        known = Entry(Spec(boolean, ()), constant=np.array(True))
        return n.bodies.graph(body, [Entry(Spec(i64, ())), known, *map(Entry, specs)], scans)

    one = _settled([b.spec(s) for s in states], make, 1)
    inputs = [most, start, *states]
    number, _, *carried = one.parameters
    entries = [BodyInput(number, iteration=True)] if number is not None else []
    entries += [BodyInput(p, 2 + at) for at, p in enumerate(carried) if p is not None]
    outputs = [BodyOutput(one.results[0], condition=True)]
    outputs += [BodyOutput(r, at) for at, r in enumerate(one.results[1 : 1 + count])]
    outputs += [BodyOutput(one.results[at], at - 1, Slicing(0)) for at in scans]
    edges = [(one.results[1 + at], p) for at, p in enumerate(carried) if p is not None]
    fed = (*entries, *_captured(one, inputs))
    return b.outputs(Loop(bodies=(Body(one.graph, fed, tuple(outputs), tuple(edges)),)), *inputs)


@rule("Scan", f"9 {VERSIONS}")
def scan(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A body that runs once for each part of the scanned inputs; states come first."""
    body, sliced = n.body("body"), n.integer("num_scan_inputs")
    count = len(n.inputs) - sliced
    if sliced < 0 or count < 0:
        raise Refusal(f"num_scan_inputs is {sliced}, but there are {len(n.inputs)} inputs")
    states = [n[i] for i in range(count)]
    taken = _slices(n, b, "scan_input", [b.rank(n[count + i]) for i in range(sliced)])
    parts = [_part(b.spec(n[count + i]), t.axis) for i, t in enumerate(taken)]
    results = len(body.output) - count
    axes = n.ints("scan_output_axes") or (0,) * results

    def make(specs: Sequence[Spec]) -> ImportedBody:
        entries = [*map(Entry, specs)]
        entries += [Entry(s, axis=t.axis) for s, t in zip(parts, taken, strict=True)]
        return n.bodies.graph(body, entries, {count + i: a for i, a in enumerate(axes)})

    one = _settled([b.spec(s) for s in states], make, 0)
    inputs = list(n.given)
    ranks = [len(one.spec(count + i).shape or (1,)) for i in range(results)]
    given = _slices(n, b, "scan_output", ranks)
    entries = []
    for at, parameter in enumerate(one.parameters):
        assert parameter is not None
        slicing = taken[at - count].slicing if at >= count else None
        entries.append(BodyInput(parameter, at, slicing))
    outputs = [BodyOutput(r, at) for at, r in enumerate(one.results[:count])]
    outputs += [
        BodyOutput(one.results[count + i], count + i, g.slicing) for i, g in enumerate(given)
    ]
    states_in = enumerate(one.parameters[:count])
    edges = tuple((one.results[i], p) for i, p in states_in if p is not None)
    fed = (*entries, *_captured(one, inputs))
    made = Body(one.graph, fed, tuple(outputs), edges)
    return b.outputs(TensorIterator(bodies=(made,)), *inputs)


def _slices(n: OnnxNode, b: ImportBuilder, name: str, ranks: Sequence[int]) -> list[_Sliced]:
    """Return axes and directions of inputs or outputs."""
    axes = n.ints(f"{name}_axes") or (0,) * len(ranks)
    back = n.ints(f"{name}_directions") or (0,) * len(ranks)
    names = (f"{name}s", f"{name}_axes", f"{name}_directions")
    require_one_length(**dict(zip(names, (ranks, axes, back), strict=True)))
    rows = zip(axes, ranks, back, strict=True)
    return [_Sliced(wrap(a, rank, f"{name}_axes"), bool(r)) for a, rank, r in rows]


def _part(spec: Spec, axis: int) -> Spec:
    assert spec.shape is not None
    return Spec(spec.dtype, (*spec.shape[:axis], 1, *spec.shape[axis + 1 :]))
