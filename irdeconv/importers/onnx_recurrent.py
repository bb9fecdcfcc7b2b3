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
from irdeconv.op import Op
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.recurrent import ACTIVATIONS, GRUSequence, LSTMSequence, RNNSequence
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
    activations: tuple[tuple[str, ...], ...]
    common: dict[str, Any]
    x: Value
    states: tuple[Value, ...]
    lengths: Value
    weights: tuple[Value, ...]


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
    n.anything("output_sequence")  # of version 1: whether Y is wanted
    x = n[0] if batch_first else _permuted(b, n[0], (1, 0, 2))
    w, r = (_gates(b, n[i], GATES[n.type]) for i in (1, 2))
    hidden = b.shape(r)[-1]
    if not isinstance(hidden, int) or n.integer("hidden_size", hidden) != hidden:
        raise Refusal(f"hidden_size is {n.anything('hidden_size')}, the weights have {hidden}")
    common: dict[str, Any] = {"hidden_size": hidden, "clip": n.number("clip", 0.0)}
    if n.type == "GRU":
        common["linear_before_reset"] = bool(n.integer("linear_before_reset", 0))
    if n.type == "LSTM":
        n.only("input_forget", 0)
        if n.input(7) is not None:
            raise Refusal("peepholes are not covered")
    batch = b.add(Gather(), b.shape_of(x), b.ints(0), b.scalar(0))
    count = 2 if n.type == "LSTM" else 1
    states = tuple(
        _state(n.input(5 + i), b, batch, (directions, hidden), x, batch_first=batch_first)
        for i in range(count)
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
    )


def _activations(n: OnnxNode, directions: int) -> tuple[tuple[str, ...], ...]:
    """Return the activations of each direction."""
    usual = USUAL[n.type]
    names = tuple(str(a) for a in n.anything("activations") or usual * directions)
    n.anything("activation_alpha")
    n.anything("activation_beta")
    if len(names) != len(usual) * directions:
        raise Refusal(f"{len(names)} activations for {directions} directions of {n.type}")
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise Refusal(f"the activation {name} is not covered")
    lower = tuple(name.lower() for name in names)
    return tuple(lower[i : i + len(usual)] for i in range(0, len(lower), len(usual)))


def _permuted(b: ImportBuilder, x: Value, order: Sequence[int]) -> Value:
    return b.add(Transpose(), x, b.ints(*order))


def _gates(b: ImportBuilder, weights: Value, order: tuple[int, ...]) -> Value:
    """Return weights (D, G, ...) with their gates in OpenVINO's order."""
    rows = b.shape(weights)[1]
    if not isinstance(rows, int) or rows % len(order):
        raise Refusal(f"weights of {rows} rows for {len(order)} gates")
    if order == tuple(range(len(order))):
        return weights
    hidden = rows // len(order)
    wanted = np.add.outer(np.array(order) * hidden, np.arange(hidden))
    return b.add(Gather(), weights, b.ints(*wanted.ravel().tolist()), b.scalar(1))


def _bias(n: OnnxNode, b: ImportBuilder, r: Value, directions: int, hidden: int) -> Value:
    """Return the sum of both biases (D, G); with linear_before_reset the last one stays apart."""
    gates = len(GATES[n.type])
    apart = n.type == "GRU" and bool(n.integer("linear_before_reset", 0))
    both = n.input(3)
    if both is None:
        size = (directions, (gates + apart) * hidden)
        return b.const(np.zeros(size, b.dtype(r).container), b.dtype(r))

    def part(start: int, stop: int) -> Value:
        rows = range(start * hidden, stop * hidden)
        return b.add(Gather(), both, b.ints(*rows), b.scalar(1))

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
    if len(set(layer.activations)) == 1:
        return _run(b, layer, layer.direction, layer.activations[0], None)
    runs = [
        _run(b, layer, direction, activations, at)
        for at, (direction, activations) in enumerate(
            zip(("forward", "reverse"), layer.activations, strict=True)
        )
    ]
    return tuple(b.add(Concat(1), *pair) for pair in zip(*runs, strict=True))


def _run(
    b: ImportBuilder,
    layer: RecurrentLayer,
    direction: str,
    activations: tuple[str, ...],
    at: int | None,
) -> tuple[Value, ...]:
    """Run all directions, or the one with a number."""

    def pick(value: Value, axis: int) -> Value:
        return value if at is None else b.add(Gather(), value, b.ints(at), b.scalar(axis))

    op = CLASSES[layer.type](**layer.common, direction=direction, activations=activations)
    states = [pick(s, 1) for s in layer.states]
    weights = [pick(w, 0) for w in layer.weights]
    return b.outputs(op, layer.x, *states, layer.lengths, *weights)
