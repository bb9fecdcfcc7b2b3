"""ONNX's RNN, GRU and LSTM as the sequences of OpenVINO.

Axis letters: T steps, N batch, D directions, I inputs, H hidden units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_recurrent_steps import (
    StepActivation,
    Stepwise,
    step_activations,
    stepwise,
)
from irdeconv.op import Op
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.elementwise import Add, Less
from irdeconv.ops.generate import Range
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.recurrent import ACTIVATIONS, GRUSequence, LSTMSequence, RNNSequence
from irdeconv.ops.shape import Unsqueeze
from irdeconv.ops.slicing import Gather

# The order of gates in ONNX by that of OpenVINO: i, o, f, c become f, i, c, o.
GATES = {"RNN": (0,), "GRU": (0, 1, 2), "LSTM": (2, 0, 3, 1)}
USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
CLASSES: dict[str, Callable[..., Op]] = {
    "RNN": RNNSequence,
    "GRU": GRUSequence,
    "LSTM": LSTMSequence,
}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@dataclass(frozen=True, kw_only=True)
class RecurrentLayer:
    """A recurrent layer: attributes, x (N, T, I), states (N, D, H), lengths (N,), weights."""

    type: str
    direction: str
    activations: tuple[tuple[StepActivation, ...], ...]
    common: dict[str, Any]
    x: Value
    states: tuple[Value, ...]
    lengths: Value
    weights: tuple[Value, ...]
    peepholes: Value | None = None
    coupled: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether OpenVINO has a sequence for it."""
        names = {a.name for group in self.activations for a in group}
        return self.peepholes is None and not self.coupled and names <= set(ACTIVATIONS)


@rule("RNN GRU LSTM", "1 3 7 14 22")
def recurrent(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """All outputs Y, then the last states; without a bias or states these are 0."""
    batch_first = bool(n.integer("layout", 0))
    layer = _layer(n, b, batch_first=batch_first)
    y, *last = _sequence(b, layer)
    y = _permuted(b, y, (0, 2, 1, 3) if batch_first else (2, 1, 0, 3))
    if not batch_first:
        last = [_permuted(b, state, (1, 0, 2)) for state in last]
    return (y, *last)


def _layer(n: OnnxNode, b: ImportBuilder, *, batch_first: bool) -> RecurrentLayer:
    direction = n.meaning("direction", "forward", {d: d for d in DIRECTIONS})
    directions = DIRECTIONS[direction]
    n.accept("output_sequence")  # of version 1: whether Y is wanted
    x = n[0] if batch_first else _permuted(b, n[0], (1, 0, 2))
    w, r = (_gates(b, n[i], GATES[n.type]) for i in (1, 2))
    hidden = b.shape(r, 1)[-1]
    if not isinstance(hidden, int):
        raise Refusal("weights of open size")
    if (said := n.integer("hidden_size", hidden)) != hidden:
        raise Refusal(f"hidden_size is {said}, the weights have {hidden}")
    common: dict[str, Any] = {"hidden_size": hidden, "clip": n.number("clip", 0.0)}
    if n.type == "GRU":
        common["linear_before_reset"] = bool(n.integer("linear_before_reset", 0))
    lstm = n.type == "LSTM"
    batch = b.add(Gather(), b.shape_of(x), b.ints(0), b.scalar(0))
    states = tuple(
        _state(n.input(5 + i), b, batch, (directions, hidden), x, batch_first=batch_first)
        for i in range(1 + lstm)
    )
    return RecurrentLayer(
        type=n.type,
        direction=direction,
        activations=_activations(n, directions),
        common=common,
        x=x,
        states=states,
        lengths=_lengths(n.input(4), b, x, batch),
        weights=(w, r, _bias(n, b, r, directions, hidden)),
        peepholes=n.input(7) if lstm else None,
        coupled=lstm and bool(n.integer("input_forget", 0)),
    )


def _activations(n: OnnxNode, directions: int) -> tuple[tuple[StepActivation, ...], ...]:
    """Return the activations of each direction."""
    usual = USUAL[n.type]
    names = [str(a).lower() for a in n.texts("activations") or usual * directions]
    if len(names) != len(usual) * directions:
        raise Refusal(f"{len(names)} activations for {directions} directions of {n.type}")
    lists = (n.numbers(f"activation_{name}") for name in ("alpha", "beta"))
    found = tuple(step_activations(names, *lists))
    return tuple(found[i : i + len(usual)] for i in range(0, len(found), len(usual)))


def _permuted(b: ImportBuilder, x: Value, order: Sequence[int]) -> Value:
    return b.add(Transpose(), x, b.ints(*order))


def _gates(b: ImportBuilder, weights: Value, order: tuple[int, ...]) -> Value:
    """Return weights (D, G, ...) with their gates in OpenVINO's order."""
    rows = b.shape(weights, 2)[1]
    if not isinstance(rows, int) or rows % len(order):
        raise Refusal(f"weights of {rows} rows for {len(order)} gates")
    if order == tuple(range(len(order))):
        return weights
    hidden = rows // len(order)
    b.room(rows)
    wanted = np.add.outer(np.array(order) * hidden, np.arange(hidden))
    return b.add(Gather(), weights, b.const(wanted.ravel()), b.scalar(1))


def _bias(n: OnnxNode, b: ImportBuilder, r: Value, directions: int, hidden: int) -> Value:
    """Return the sum of both biases (D, G); with linear_before_reset the last one stays apart."""
    gates = len(GATES[n.type])
    apart = n.type == "GRU" and bool(n.integer("linear_before_reset", 0))
    both = n.input(3)
    b.room(directions * 2 * gates * hidden)
    if both is None:
        size = (directions, (gates + apart) * hidden)
        return b.const(np.zeros(size, b.dtype(r).container), b.dtype(r))

    def part(start: int, stop: int) -> Value:
        rows = b.const(np.arange(start * hidden, stop * hidden))
        return b.add(Gather(), both, rows, b.scalar(1))

    if not apart:
        total = b.add(Add(), part(0, gates), part(gates, 2 * gates))
        return _gates(b, total, GATES[n.type])
    shared = b.add(Add(), part(0, 2), part(gates, gates + 2))
    return b.add(Concat(1), shared, part(2, 3), part(gates + 2, gates + 3))


def _state(
    given: Value | None,
    b: ImportBuilder,
    batch: Value,
    size: tuple[int, int],
    x: Value,
    *,
    batch_first: bool,
) -> Value:
    """Return an initial state (N, D, H), zeros without one."""
    if given is None:
        shape = b.add(Concat(0), batch, b.ints(*size))
        return b.add(Broadcast("numpy"), b.like(0, x), shape)
    return given if batch_first else _permuted(b, given, (1, 0, 2))


def _lengths(given: Value | None, b: ImportBuilder, x: Value, batch: Value) -> Value:
    """Return the lengths of the sequences, all steps without them."""
    if given is not None:
        return given
    steps = b.add(Gather(), b.shape_of(x), b.scalar(1), b.scalar(0))
    return b.add(Broadcast("numpy"), b.convert(steps, i64), batch)


def _sequence(b: ImportBuilder, layer: RecurrentLayer) -> tuple[Value, ...]:
    """Return Y (N, D, T, H) and the last states (N, D, H)."""
    if layer.is_plain and len(set(layer.activations)) == 1:
        return _run(b, layer, layer.direction, 0, whole=True)
    both = ("forward", "reverse") if layer.direction == "bidirectional" else (layer.direction,)
    run = _run if layer.is_plain else _steps
    runs = [run(b, layer, direction, at) for at, direction in enumerate(both)]
    return tuple(b.add(Concat(1), *outs) for outs in zip(*runs, strict=True))


def _run(
    b: ImportBuilder, layer: RecurrentLayer, direction: str, at: int, *, whole: bool = False
) -> tuple[Value, ...]:
    """Run the direction with a number, or with `whole` all."""

    def pick(value: Value, axis: int) -> Value:
        return value if whole else b.add(Gather(), value, b.ints(at), b.scalar(axis))

    names = tuple(a.name for a in layer.activations[at])
    op = CLASSES[layer.type](**layer.common, direction=direction, activations=names)
    states = [pick(s, 1) for s in layer.states]
    weights = [pick(w, 0) for w in layer.weights]
    return b.outputs(op, layer.x, *states, layer.lengths, *weights)


def _steps(b: ImportBuilder, layer: RecurrentLayer, direction: str, at: int) -> tuple[Value, ...]:
    """Run the direction with a number step by step."""

    def pick(value: Value, axis: int) -> Value:
        return b.add(Gather(), value, b.scalar(at), b.scalar(axis))

    w, r, bias = (pick(v, 0) for v in layer.weights)
    x, behind = b.add(MatMul(transpose_b=True), layer.x, w), False
    if layer.common.get("linear_before_reset"):
        behind, hidden = True, layer.common["hidden_size"]
        rows = [np.arange(k * hidden, (k + 1) * hidden) for k in range(4)]
        new = b.add(Gather(), bias, b.const(rows[2]), b.scalar(0))
        zeros = b.const(np.zeros(2 * hidden, b.dtype(x).container), b.dtype(x))
        x = b.add(Add(), x, b.add(Concat(0), zeros, new))
        bias = b.add(Gather(), bias, b.const(np.concatenate([*rows[:2], rows[3]])), b.scalar(0))
    steps = Stepwise(
        type=layer.type,
        activations=layer.activations[at],
        clip=layer.common["clip"],
        x=x,
        mask=_mask(b, layer),
        states=tuple(pick(s, 1) for s in layer.states),
        r=r,
        bias=bias,
        peepholes=None if layer.peepholes is None else pick(layer.peepholes, 0),
        coupled=layer.coupled,
        behind=behind,
        backward=direction == "reverse",
    )
    return tuple(b.add(Unsqueeze(), v, b.ints(1)) for v in stepwise(b, steps))


def _mask(b: ImportBuilder, layer: RecurrentLayer) -> Value:
    """Return which steps (N, T) belong to the sequences."""
    steps = b.add(Gather(), b.shape_of(layer.x), b.scalar(1), b.scalar(0))
    every = b.add(Range(i64), b.scalar(0), steps, b.scalar(1))
    lengths = b.add(Unsqueeze(), b.convert(layer.lengths, i64), b.ints(1))
    return b.add(Less(), every, lengths)
