"""The plan: a graph as a flat schedule of calls, constants folded, values freed at last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.errors import (
    Collector,
    Diagnostic,
    ExecutionError,
    IrdeconvError,
    LimitError,
    Note,
    OpError,
    UnsupportedError,
)
from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.exact import accumulate_in_order
from irdeconv.op import Op, as_tuple
from irdeconv.ops.basic import Const, Opaque
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.spec import Array

Trace = Callable[[Node, tuple[Array, ...]], None]
Watch = Callable[["Step", list[Array], tuple[Array, ...]], None]
Slots = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One call: which slots it reads and writes, which it is the last to need."""

    node: Node
    call: Callable[..., Any]
    inputs: Slots
    outputs: Slots
    frees: Slots


@dataclass
class Plan:
    """An executable graph; `run` may be called any number of times.

    Slots are numbered values. `constants` fills those that never change, `steps` the others in
    order. `given` are the nodes without a step (inputs, constants) and their slots. `exact` keeps
    the order of kernels/exact.py in all sums of (de)convolutions. The arrays that `run` returns
    belong to the caller.
    """

    graph: Graph
    steps: list[Step]
    constants: dict[int, Array]
    binder: Binder
    parameters: list[int]
    results: list[tuple[str, int]]
    given: list[tuple[Node, Slots]]
    slots: int
    exact: bool = False

    def run(
        self, inputs: Feeds, trace: Trace | None = None, *, watch: Watch | None = None
    ) -> dict[str, Array]:
        """Execute; returns the outputs by name in Result order.

        `inputs` as for `Binder.bind`. `trace` is called with every node and its outputs, `watch`
        with every step, its inputs and its outputs. Raises UsageError for inputs that do not fit,
        ExecutionError where a layer fails, LimitError where memory does not suffice.
        """
        values: list[Any] = [None] * self.slots
        for slot, array in self.constants.items():
            values[slot] = array
        for slot, array in zip(self.parameters, self.binder.bind(inputs), strict=True):
            values[slot] = array
        if trace is not None:
            self._trace_given(trace, values)
        with np.errstate(all="ignore"), accumulate_in_order(self.exact):
            for step in self.steps:
                self._run_step(step, values, trace, watch)
        return {name: _own(values[slot]) for name, slot in self.results}

    def _run_step(
        self, step: Step, values: list[Any], trace: Trace | None, watch: Watch | None
    ) -> None:
        arrays = [values[i] for i in step.inputs]
        try:
            # Who traces wants to see every output, those that nothing uses as well.
            seen = trace is not None or watch is not None
            out = (step.node.op.evaluate if seen else step.call)(*arrays)
        except Exception as e:
            raise _failure(step.node, arrays, e) from e
        if isinstance(out, tuple):
            for slot, array in zip(step.outputs, out, strict=False):
                values[slot] = array
        else:
            values[step.outputs[0]] = out
        if trace is not None:
            trace(step.node, as_tuple(out))
        if watch is not None:
            watch(step, arrays, as_tuple(out))
        for slot in step.frees:
            values[slot] = None

    def _trace_given(self, trace: Trace, values: list[Any]) -> None:
        for node, slots in self.given:
            held = tuple(values[slot] for slot in slots if values[slot] is not None)
            if held:
                trace(node, held)


def build_plan(graph: Graph, *, exact: bool = False) -> Plan:
    """Compile an inferred graph; UnsupportedError lists every operation that cannot be executed.

    `exact` sums (de)convolutions in the order of kernels/exact.py: slower, and the same bits for
    every lowering form.
    """
    with accumulate_in_order(exact):
        return _build_plan(graph, exact)


def _build_plan(graph: Graph, exact: bool) -> Plan:
    order, live = graph.topological(), graph.live()
    _refuse_unsupported([n for n in order if n.id in live])
    slot_of: dict[Value, int] = {}
    for node in order:
        for port in range(max(node.outputs, 1)):
            slot_of[Value(node.id, port)] = len(slot_of)
    constants: dict[int, Array] = {}
    scheduled: list[tuple[Node, Slots, Slots]] = []
    given: list[tuple[Node, Slots]] = []
    for node in order:
        if node.type == "Result" or (node.id not in live and node.type != "Parameter"):
            continue
        ins = tuple(slot_of[v] for v in graph.inputs_of(node.id))
        outs = tuple(slot_of[Value(node.id, p)] for p in range(max(node.outputs, 1)))
        if node.type == "Parameter":
            given.append((node, outs))
        elif all(i in constants for i in ins):
            _fold(node, ins, outs, constants)
            given.append((node, outs))
        else:
            scheduled.append((node, ins, outs))
    results = [slot_of[graph.inputs_of(n.id)[0]] for n in graph.results]
    steps = _with_frees(scheduled, set(constants), set(results))
    used = {i for s in steps for i in s.inputs} | set(results)
    return Plan(
        graph,
        steps,
        {k: v for k, v in constants.items() if k in used},
        Binder.of(graph),
        [slot_of[Value(n.id)] for n in graph.parameters],
        list(zip(graph.outputs, results, strict=True)),
        given,
        len(slot_of),
        exact,
    )


def _refuse_unsupported(order: list[Node]) -> None:
    found = Collector()
    for node in order:
        op = node.op
        runs = type(op).evaluate is not Op.evaluate or node.type == "Parameter"
        if isinstance(op, Opaque) or not runs:
            found.add(
                "E502",
                f'irdeconv cannot execute {node.type} ({op.version}), layer "{node.name}"',
                location=node.location,
                layer=node.name,
            )
        if isinstance(op, Const) and not op.data.available:
            found.add(
                "E120",
                f'constant "{node.name}" has no data: its weights file is missing',
                location=node.location,
                layer=node.name,
                hint="name the .bin with weights= or --weights",
            )
    if found.errors:
        raise UnsupportedError(found.diagnostics)


def _fold(node: Node, ins: Slots, outs: Slots, constants: dict[int, Array]) -> None:
    arrays = [constants[i] for i in ins]
    try:
        with np.errstate(all="ignore"):
            out = node.op.evaluate(*arrays)
    except Exception as e:
        raise _failure(node, arrays, e) from e
    for slot, array in zip(outs, out if isinstance(out, tuple) else (out,), strict=False):
        constants[slot] = array


def _with_frees(
    scheduled: Sequence[tuple[Node, Slots, Slots]],
    constants: set[int],
    results: set[int],
) -> list[Step]:
    last: dict[int, int] = {}
    for k, (_, ins, outs) in enumerate(scheduled):
        for slot in (*ins, *outs):
            last[slot] = k
    frees: dict[int, list[int]] = {}
    for slot, k in last.items():
        if slot not in constants and slot not in results:
            frees.setdefault(k, []).append(slot)
    read = {slot for _, ins, _ in scheduled for slot in ins} | results
    return [
        Step(node, node.op.evaluator(_used(outs, read)), ins, outs, tuple(frees.get(k, ())))
        for k, (node, ins, outs) in enumerate(scheduled)
    ]


def _used(outs: Slots, read: set[int]) -> frozenset[int]:
    return frozenset(port for port, slot in enumerate(outs) if slot in read)


def _own(array: Any) -> Array:
    """Return an array that nothing else refers to."""
    return np.array(array, order="C", copy=True)


def _failure(node: Node, arrays: Sequence[Any], error: Exception) -> IrdeconvError:
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, arrays))
    hint = error.problem.hint if isinstance(error, OpError) else None
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError)
    diagnostic = Diagnostic(
        "E602" if memory else "E500",
        "error",
        f'{node.type} "{node.name}": {text}',
        node.location,
        node.name,
        (Note(f"its inputs are {shapes or 'none'}"),),
        hint,
    )
    return LimitError(diagnostic) if memory else ExecutionError(diagnostic)
