"""ONNX's RNN, GRU and LSTM.

They become sequences of OpenVINO. Layers that these do not cover (peepholes, coupled gates, other
activations) become a TensorIterator, step by step.

Axis letters: T steps, N batch, D directions, I inputs, H hidden units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irdeconv.formats.importing import ACTIVATIONS, ImportBuilder, Refusal
from irdeconv.formats.onnx_control import part_by_part
from irdeconv.formats.onnx_domains import dynamic
from irdeconv.formats.onnx_elementwise import dequantized
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule
from irdeconv.ir.dtypes import f32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Spec
from irdeconv.ops import recurrent
from irdeconv.ops.activation import Clamp
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.channels import Split
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.elementwise import Less
from irdeconv.ops.generation import Range
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat
from irdeconv.rewrite.compressed_filters import constant

# Parameters of activations: how many alpha and beta there are, with their defaults.
PARAMETERS: dict[str, tuple[float | None, ...]] = {
    **dict.fromkeys(("sigmoid", "tanh", "relu", "softsign", "softplus"), ()),
    "leakyrelu": (0.01,),
    "thresholdedrelu": (1.0,),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "affine": (None, None),
    "scaledtanh": (None, None),
}


StepActivation = tuple[str, *tuple[float, ...]]  # its name, alpha and beta as far as it has them


@dataclass(frozen=True, kw_only=True)
class RecurrentLayer:
    """A recurrent layer: attributes, x (N, T, I), states (N, D, H), lengths (N,), weights.

    For steps, one direction: x (N, T, G) is multiplied by its weights, states are (N, H), lengths a
    mask (N, T), weights r (G, H) and its bias (G,), peepholes (3H,) for i, o, f. Gates are ordered
    as in OpenVINO.
    """

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
    quantized: bool = False  # the state that the product reads; then there are no lengths

    @property
    def is_plain(self) -> bool:
        """Whether OpenVINO has a sequence for it."""
        names = {name for group in self.activations for name, *_ in group}
        special = self.peepholes or self.coupled or self.quantized
        return not special and names <= set(recurrent.ACTIVATIONS)


@dataclass
class _StepBody:
    """The body that is being built, and its inputs."""

    outside: ImportBuilder
    b: ImportBuilder
    inputs: list[Value] = field(default_factory=list)
    entries: list[BodyInput] = field(default_factory=list)

    def enter(
        self, value: Value, spec: Spec | None = None, slicing: Slicing | None = None
    ) -> Value:
        """Return the body's value for one from outside, or for its part in an iteration."""
        known = constant(self.outside.graph, value) if slicing is None and spec is None else None
        own = self.outside.spec(value)
        if known is not None:
            return self.b.const(known, own.dtype)
        made = self.b.stand_in(f"in/{len(self.inputs)}", spec or own)
        self.entries.append(BodyInput(made.node, len(self.inputs), slicing))
        self.inputs.append(value)
        return made


def stepwise(b: ImportBuilder, layer: RecurrentLayer) -> tuple[Value, ...]:
    """Return the outputs (N, T, H), then the last states (N, H)."""
    inner = b.inner(b.source.name)
    inside, graph = _StepBody(b, inner), inner.graph
    slicing = part_by_part(1, layer.direction == "reverse")
    x = _part(inside, layer.x, slicing)
    specs = [b.spec(s).without_value() for s in layer.states]
    states = [inside.enter(s, spec) for s, spec in zip(layer.states, specs, strict=True)]
    kept = CELLS[layer.type](inside, layer, x, states)
    y = kept[0]
    if not layer.quantized:
        there = inner.unsqueeze(_part(inside, layer.lengths, slicing), 1)
        kept = [inner.select(there, n, s) for n, s in zip(kept, states, strict=True)]
        y = inner.select(there, y, inner.like(0, y))
    inner.result(inner.unsqueeze(y, 1), "y")
    for at, state in enumerate(kept):
        inner.result(state, f"state/{at}")
    results = [n.id for n in graph.results]
    inner.finish()
    outputs = [BodyOutput(results[0], 0, slicing)]
    outputs += [BodyOutput(r, 1 + at) for at, r in enumerate(results[1:])]
    edges = tuple((r, s.node) for r, s in zip(results[1:], states, strict=True))
    body = Body(graph, tuple(inside.entries), tuple(outputs), edges)
    return b.outputs(TensorIterator(bodies=(body,)), *inside.inputs)


def _part(inside: _StepBody, value: Value, slicing: Slicing) -> Value:
    shape = inside.outside.shape(value)  # Refusal if it is unknown
    one = Spec(inside.outside.dtype(value), (shape[0], 1, *shape[2:]))
    return inside.b.squeeze(inside.enter(value, one, slicing), 1)


def _gates(inside: _StepBody, layer: RecurrentLayer, x: Value, h: Value, count: int) -> list[Value]:
    """Return x + h R^T + bias, a value for each gate."""
    b = inside.b
    h = _on_grid(b, h) if layer.quantized else h
    both = b.add(MatMul(transpose_b=True), h, inside.enter(layer.weights[0]))
    total = b.plus(x, b.plus(both, inside.enter(layer.weights[1])))
    return list(b.outputs(Split(count), total, b.scalar(1))) if count > 1 else [total]


def _on_grid(b: ImportBuilder, x: Value) -> Value:
    """Round to the grid of 8 bits that fits the values."""
    return dequantized(b, *dynamic(b, x))


def _activated(
    b: ImportBuilder, layer: RecurrentLayer, at: int, x: Value, clips: bool = True
) -> Value:
    clip, (name, *parameters) = layer.common["clip"], layer.activations[0][at]
    if clips and clip > 0:
        x = b.add(Clamp(-clip, clip), x)
    return ACTIVATIONS[name](b, x, *parameters)


def _rnn(inside: _StepBody, layer: RecurrentLayer, x: Value, states: list[Value]) -> list[Value]:
    (total,) = _gates(inside, layer, x, states[0], 1)
    return [_activated(inside.b, layer, 0, total)]


def _mixed(b: ImportBuilder, gate: Value, one: Value, other: Value) -> Value:
    """Return gate * one + (1 - gate) * other."""
    rest = b.mul(b.sub(b.like(1, gate), gate), other)
    return b.plus(b.mul(gate, one), rest)


def _gru(inside: _StepBody, layer: RecurrentLayer, x: Value, states: list[Value]) -> list[Value]:
    b, (h,) = inside.b, states
    r, bias = map(inside.enter, layer.weights)
    thirds = [b.outputs(Split(3), v, b.scalar(axis)) for v, axis in ((x, 1), (r, 0), (bias, 0))]

    def product(at: int, state: Value) -> Value:
        both = b.add(MatMul(transpose_b=True), state, thirds[1][at])
        return b.plus(both, thirds[2][at])

    z, reset = (_activated(b, layer, 0, b.plus(thirds[0][at], product(at, h))) for at in (0, 1))
    if layer.common["linear_before_reset"]:  # the reset gate acts behind the product
        late = b.mul(reset, product(2, h))
    else:
        late = product(2, b.mul(reset, h))
    new = _activated(b, layer, 1, b.plus(thirds[0][2], late))
    return [_mixed(b, z, h, new)]


def _lstm(inside: _StepBody, layer: RecurrentLayer, x: Value, states: list[Value]) -> list[Value]:
    b, (h, c) = inside.b, states
    f, i, new, o = _gates(inside, layer, x, h, 4)
    peeps: Sequence[Value | None] = (None, None, None)
    if layer.peepholes is not None:
        peeps = b.outputs(Split(3), inside.enter(layer.peepholes), b.scalar(0))

    def seen(gate: Value, at: int, cell: Value) -> Value:
        peep = peeps[at]
        return gate if peep is None else b.plus(gate, b.mul(peep, cell))

    i = _activated(b, layer, 0, seen(i, 0, c))
    new = _activated(b, layer, 1, new)
    if layer.coupled:
        cell = _mixed(b, i, new, c)
    else:
        f = _activated(b, layer, 0, seen(f, 2, c))
        cell = b.plus(b.mul(f, c), b.mul(i, new))
    o = _activated(b, layer, 0, seen(o, 1, cell))
    return [b.mul(o, _activated(b, layer, 2, cell, clips=False)), cell]


StepCell = Callable[[_StepBody, RecurrentLayer, Value, list[Value]], list[Value]]
CELLS: dict[str, StepCell] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


# The order of gates in ONNX by that of OpenVINO: i, o, f, c become f, i, c, o.
GATES = {"RNN": (0,), "GRU": (0, 1, 2), "LSTM": (2, 0, 3, 1)}
USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@rule("DynamicQuantizeLSTM", "1", "com.microsoft")
@rule("RNN GRU LSTM", "1 3 7 14 22")
def sequences(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """All outputs Y, then the last states; without a bias or states these are 0."""
    batch_first, quantized = n.flag("layout", False), n.type == "DynamicQuantizeLSTM"
    if quantized:
        _dequantize(n, b)
    y, *last = _sequence(b, replace(_layer(n, b, batch_first=batch_first), quantized=quantized))
    y = b.permute(y, (0, 2, 1, 3) if batch_first else (2, 1, 0, 3))
    if not batch_first:
        last = [b.permute(state, (1, 0, 2)) for state in last]
    return (y, *last)


def _dequantize(n: OnnxNode, b: ImportBuilder) -> None:
    """Make an LSTM of one whose weights (D, I, G) have 8 bits; the data are rounded to 8 bits."""
    weights = []
    if n.input(4) is not None:
        raise Refusal("sequence_lens: ONNX Runtime rounds states behind the end with the others")
    for at, scale in ((1, 8), (2, 10)):
        factor, zero = (b.reshape(v, (b.size(v, 0), 1, -1)) for v in (n[scale], n[scale + 1]))
        real = b.sub(b.convert(n[at], f32), b.convert(zero, f32))
        weights.append(b.permute(b.mul(real, factor), (0, 2, 1)))
    n.type, n.inputs = "LSTM", (_on_grid(b, n[0]), *weights, *n.inputs[3:8])


def _layer(n: OnnxNode, b: ImportBuilder, *, batch_first: bool) -> RecurrentLayer:
    direction = n.choice("direction", " ".join(DIRECTIONS))
    directions = DIRECTIONS[direction]
    n.accept("output_sequence")  # of version 1: whether Y is wanted
    x = n[0] if batch_first else b.permute(n[0], (1, 0, 2))
    w, r = (_recurrent_gates(b, n[i], GATES[n.type]) for i in (1, 2))
    hidden = b.size(r, -1, ": the weights")
    if (said := n.integer("hidden_size", hidden)) != hidden:
        raise Refusal(f"hidden_size is {said}, the weights have {hidden}")
    common: dict[str, Any] = {"hidden_size": hidden, "clip": n.number("clip", 0.0)}
    if n.type == "GRU":
        common["linear_before_reset"] = n.flag("linear_before_reset", False)
    lstm, lengths = n.type == "LSTM", n.input(4)
    batch = b.take(b.shape_of(x), b.ints(0), 0)
    states = []
    for given in (n.input(5 + i) for i in range(1 + lstm)):
        if given is None:  # zeros
            size = b.add(Concat(0), batch, b.ints(directions, hidden))
            states.append(b.broadcast(b.like(0, x), size))
        else:
            states.append(given if batch_first else b.permute(given, (1, 0, 2)))
    activations = _activations(n, directions)
    if lengths is None:  # all steps
        lengths = b.broadcast(b.convert(b.size_of(x, 1), i64), batch)
    return RecurrentLayer(
        type=n.type,
        direction=direction,
        activations=activations,
        common=common,
        x=x,
        states=tuple(states),
        lengths=lengths,
        weights=(w, r, _bias(n, b, r, directions, hidden)),
        peepholes=n.input(7) if lstm else None,
        coupled=lstm and n.flag("input_forget", False),
    )


def _activations(n: OnnxNode, directions: int) -> tuple[tuple[StepActivation, ...], ...]:
    """Return the activations of each direction; those that have parameters take them in turn."""
    usual = USUAL[n.type]
    names = [str(a).lower() for a in n.texts("activations") or usual * directions]
    if len(names) != len(usual) * directions:
        raise Refusal(f"{len(names)} activations for {directions} directions of {n.type}")
    left = [list(n.numbers(f"activation_{name}")) for name in ("alpha", "beta")]
    out: list[StepActivation] = []
    for name in names:
        if name not in PARAMETERS:
            raise Refusal(f"the activation {name} is not covered")
        found = []
        for values, default in zip(left, PARAMETERS[name], strict=False):
            value = values.pop(0) if values else default
            if value is None:
                raise Refusal(f"the activation {name} needs activation_alpha and activation_beta")
            found.append(float(value))
        out.append((name, *found))
    return tuple(tuple(out[i : i + len(usual)]) for i in range(0, len(out), len(usual)))


def _recurrent_gates(b: ImportBuilder, weights: Value, order: tuple[int, ...]) -> Value:
    """Return weights (D, G, ...) with their gates in OpenVINO's order."""
    rows = b.shape(weights, 2)[1]
    if not isinstance(rows, int) or rows % len(order):
        raise Refusal(f"weights of {rows} rows for {len(order)} gates")
    if order == tuple(range(len(order))):
        return weights
    hidden = rows // len(order)
    b.room(rows)
    wanted = np.add.outer(np.array(order) * hidden, np.arange(hidden))
    return b.take(weights, b.const(wanted.ravel()), 1)


def _bias(n: OnnxNode, b: ImportBuilder, r: Value, directions: int, hidden: int) -> Value:
    """Return the sum of both biases (D, G); with linear_before_reset the last one stays apart."""
    gates = len(GATES[n.type])
    apart = n.type == "GRU" and n.flag("linear_before_reset", False)
    both = n.input(3)
    b.room(directions * 2 * gates * hidden)
    if both is None:
        size = (directions, (gates + apart) * hidden)
        return b.const(np.zeros(size, b.dtype(r).container), b.dtype(r))

    def part(start: int, stop: int) -> Value:
        rows = b.const(np.arange(start * hidden, stop * hidden))
        return b.take(both, rows, 1)

    if not apart:
        total = b.plus(part(0, gates), part(gates, 2 * gates))
        return _recurrent_gates(b, total, GATES[n.type])
    shared = b.plus(part(0, 2), part(gates, gates + 2))
    return b.add(Concat(1), shared, part(2, 3), part(gates + 2, gates + 3))


def _sequence(b: ImportBuilder, layer: RecurrentLayer) -> tuple[Value, ...]:
    """Return Y (N, D, T, H) and the last states (N, D, H)."""
    if layer.is_plain and len(set(layer.activations)) == 1:
        return _run(b, layer, layer.direction, 0, whole=True)
    both = ("forward", "reverse") if layer.direction == "bidirectional" else (layer.direction,)
    run = _run if layer.is_plain else _steps
    if run is _steps:  # which would broadcast inputs of wrong sizes
        op = getattr(recurrent, f"{layer.type}Sequence")(**layer.common, direction=layer.direction)
        op.infer(*map(b.spec, (layer.x, *layer.states, layer.lengths, *layer.weights)))
    runs = [run(b, layer, direction, at) for at, direction in enumerate(both)]
    return tuple(b.add(Concat(1), *outs) for outs in zip(*runs, strict=True))


def _run(
    b: ImportBuilder, layer: RecurrentLayer, direction: str, at: int, *, whole: bool = False
) -> tuple[Value, ...]:
    """Run the direction with a number, or with `whole` all."""

    def pick(value: Value, axis: int) -> Value:
        return value if whole else b.take(value, b.ints(at), axis)

    names = tuple(name for name, *_ in layer.activations[at])
    cls: Any = getattr(recurrent, f"{layer.type}Sequence")
    op = cls(**layer.common, direction=direction, activations=names)
    states = [pick(s, 1) for s in layer.states]
    weights = [pick(w, 0) for w in layer.weights]
    return b.outputs(op, layer.x, *states, layer.lengths, *weights)


def _steps(b: ImportBuilder, layer: RecurrentLayer, direction: str, at: int) -> tuple[Value, ...]:

    def pick(value: Value, axis: int) -> Value:
        return b.take(value, b.scalar(at), axis)

    w, r, bias = (pick(v, 0) for v in layer.weights)
    x = b.add(MatMul(transpose_b=True), layer.x, w)
    if layer.common.get("linear_before_reset"):
        hidden = layer.common["hidden_size"]
        rows = [np.arange(k * hidden, (k + 1) * hidden) for k in range(4)]
        new = b.take(bias, b.const(rows[2]), 0)
        zeros = b.const(np.zeros(2 * hidden, b.dtype(x).container), b.dtype(x))
        x = b.plus(x, b.add(Concat(0), zeros, new))
        bias = b.take(bias, b.const(np.concatenate([*rows[:2], rows[3]])), 0)
    # The mask (N, T) of the steps that belong to the sequences.
    count = b.size_of(layer.x, 1)
    every = b.add(Range(i64), b.scalar(0), count, b.scalar(1))
    lengths = b.unsqueeze(b.convert(layer.lengths, i64), 1)
    steps = replace(
        layer,
        direction=direction,
        activations=(layer.activations[at],),
        x=x,
        lengths=b.add(Less(), every, lengths),
        states=tuple(pick(s, 1) for s in layer.states),
        weights=(r, bias),
        peepholes=None if layer.peepholes is None else pick(layer.peepholes, 0),
    )
    return tuple(b.unsqueeze(v, 1) for v in stepwise(b, steps))
