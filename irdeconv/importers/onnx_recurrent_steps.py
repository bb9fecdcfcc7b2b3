"""Recurrent layers that OpenVINO's sequences lack, step by step in a TensorIterator.

These have peepholes, coupled gates or other activations. Axis letters: T steps, N batch, H hidden
units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from irdeconv.graph import Graph, Info, Value
from irdeconv.importers.builder import ImportBuilder, Refusal, source_node
from irdeconv.ops import activation as act
from irdeconv.ops import elementwise as el
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.shape import Squeeze1, Unsqueeze
from irdeconv.ops.splitting import Split
from irdeconv.ops.unary import Tanh
from irdeconv.passes.stored import constant
from irdeconv.spec import Spec

# Parameters of activations: how many alpha and beta there are, with their defaults.
PARAMETERS: dict[str, tuple[float | None, ...]] = {
    "sigmoid": (),
    "tanh": (),
    "relu": (),
    "softsign": (),
    "softplus": (),
    "leakyrelu": (0.01,),
    "thresholdedrelu": (1.0,),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "affine": (None, None),
    "scaledtanh": (None, None),
}


@dataclass(frozen=True)
class StepActivation:
    """An activation with its alpha and beta, as far as it has them."""

    name: str
    parameters: tuple[float, ...] = ()

    def apply(self, b: ImportBuilder, x: Value) -> Value:
        """Return the activation of x."""
        name, p = self.name, [b.like(v, x) for v in self.parameters]
        plain = {
            "sigmoid": act.Sigmoid(),
            "tanh": Tanh(),
            "relu": act.ReLU(),
            "softsign": act.SoftSign(),
            "softplus": act.SoftPlus(),
        }
        if name in plain:
            return b.add(plain[name], x)
        if name == "leakyrelu":
            return b.add(act.PReLU(), x, b.reshape(p[0], (1,)))
        if name == "thresholdedrelu":
            return b.add(el.Select(), b.add(el.Greater(), x, p[0]), x, b.like(0, x))
        if name == "elu":
            return b.add(act.Elu(alpha=self.parameters[0]), x)
        if name == "hardsigmoid":
            return b.add(act.HardSigmoid(), x, *p)
        if name == "affine":
            return b.add(el.Add(), b.add(el.Multiply(), x, p[0]), p[1])
        return b.add(el.Multiply(), b.add(Tanh(), b.add(el.Multiply(), x, p[1])), p[0])


def step_activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[StepActivation]:
    """Return activations; those that have parameters take them from the lists in turn."""
    left = list(alphas), list(betas)
    out = []
    for name in names:
        if name not in PARAMETERS:
            raise Refusal(f"the activation {name} is not covered")
        found = []
        for values, usual in zip(left, PARAMETERS[name], strict=False):
            value = values.pop(0) if values else usual
            if value is None:
                raise Refusal(f"the activation {name} needs activation_alpha and activation_beta")
            found.append(float(value))
        out.append(StepActivation(name, tuple(found)))
    return out


@dataclass(frozen=True, kw_only=True)
class Stepwise:
    """One direction: x (N, T, G) already multiplied by its weights, mask (N, T), states (N, H).

    r is (G, H), its bias (G,), gates as OpenVINO orders them; peepholes (3H,) are for i, o, f.
    """

    type: str
    activations: Sequence[StepActivation]
    clip: float
    x: Value
    mask: Value
    states: tuple[Value, ...]
    r: Value
    bias: Value
    peepholes: Value | None = None
    coupled: bool = False
    behind: bool = False  # the reset gate of GRU acts behind the product
    backward: bool = False


@dataclass
class _StepBody:
    """The body that is being built, and what feeds it."""

    outside: ImportBuilder
    b: ImportBuilder
    inputs: list[Value] = field(default_factory=list)
    entries: list[BodyInput] = field(default_factory=list)

    def enter(
        self, value: Value, spec: Spec | None = None, slicing: Slicing | None = None
    ) -> Value:
        """Return what stands for a value from outside, or for its part in an iteration."""
        known = constant(self.outside.graph, value) if slicing is None and spec is None else None
        own = self.outside.spec(value)
        if known is not None:
            return self.b.const(known, own.dtype)
        made = self.b.stand_in(f"in/{len(self.inputs)}", spec or own)
        self.entries.append(BodyInput(made.node, len(self.inputs), slicing))
        self.inputs.append(value)
        return made


def stepwise(b: ImportBuilder, layer: Stepwise) -> tuple[Value, ...]:
    """Return the outputs (N, T, H), then the last states (N, H)."""
    graph = Graph(Info(name=b.source.name, file=b.graph.info.file))
    inner = ImportBuilder(graph, source_node(b.source.name, b.source.location))
    inside = _StepBody(b, inner)
    slicing = Slicing(1, start=-1, end=0, stride=-1) if layer.backward else Slicing(1)
    parts = [_part(inside, v, slicing) for v in (layer.x, layer.mask)]
    specs = [b.spec(s).without_value() for s in layer.states]
    states = [inside.enter(s, spec) for s, spec in zip(layer.states, specs, strict=True)]
    made = CELLS[layer.type](inside, layer, parts[0], states)
    there = inner.add(Unsqueeze(), parts[1], inner.ints(1))
    kept = [inner.add(el.Select(), there, n, s) for n, s in zip(made, states, strict=True)]
    y = inner.add(el.Select(), there, made[0], inner.like(0, made[0]))
    inner.result(inner.add(Unsqueeze(), y, inner.ints(1)), "y")
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
    shape = inside.outside.shape(value)
    one = Spec(inside.outside.dtype(value), (shape[0], 1, *shape[2:]))
    return inside.b.add(Squeeze1(), inside.enter(value, one, slicing), inside.b.ints(1))


def _gates(inside: _StepBody, layer: Stepwise, x: Value, h: Value, count: int) -> list[Value]:
    """Return x + h R^T + bias, a value for each gate."""
    b = inside.b
    both = b.add(MatMul(transpose_b=True), h, inside.enter(layer.r))
    total = b.add(el.Add(), x, b.add(el.Add(), both, inside.enter(layer.bias)))
    return list(b.outputs(Split(count), total, b.scalar(1))) if count > 1 else [total]


def _activated(b: ImportBuilder, layer: Stepwise, at: int, x: Value) -> Value:
    if layer.clip > 0:
        x = b.add(act.Clamp(-layer.clip, layer.clip), x)
    return layer.activations[at].apply(b, x)


def _rnn(inside: _StepBody, layer: Stepwise, x: Value, states: list[Value]) -> list[Value]:
    (total,) = _gates(inside, layer, x, states[0], 1)
    return [_activated(inside.b, layer, 0, total)]


def _mixed(b: ImportBuilder, gate: Value, one: Value, other: Value) -> Value:
    """Return gate * one + (1 - gate) * other."""
    rest = b.add(el.Multiply(), b.add(el.Subtract(), b.like(1, gate), gate), other)
    return b.add(el.Add(), b.add(el.Multiply(), gate, one), rest)


def _gru(inside: _StepBody, layer: Stepwise, x: Value, states: list[Value]) -> list[Value]:
    b, (h,) = inside.b, states
    r, bias = inside.enter(layer.r), inside.enter(layer.bias)
    thirds = [b.outputs(Split(3), v, b.scalar(axis)) for v, axis in ((x, 1), (r, 0), (bias, 0))]

    def product(at: int, state: Value) -> Value:
        both = b.add(MatMul(transpose_b=True), state, thirds[1][at])
        return b.add(el.Add(), both, thirds[2][at])

    z, reset = (
        _activated(b, layer, 0, b.add(el.Add(), thirds[0][at], product(at, h))) for at in (0, 1)
    )
    if layer.behind:
        late = b.add(el.Multiply(), reset, product(2, h))
    else:
        late = product(2, b.add(el.Multiply(), reset, h))
    new = _activated(b, layer, 1, b.add(el.Add(), thirds[0][2], late))
    return [_mixed(b, z, h, new)]


def _lstm(inside: _StepBody, layer: Stepwise, x: Value, states: list[Value]) -> list[Value]:
    b, (h, c) = inside.b, states
    f, i, new, o = _gates(inside, layer, x, h, 4)
    peeps: Sequence[Value | None] = (None, None, None)
    if layer.peepholes is not None:
        peeps = b.outputs(Split(3), inside.enter(layer.peepholes), b.scalar(0))

    def seen(gate: Value, at: int, cell: Value) -> Value:
        peep = peeps[at]
        return gate if peep is None else b.add(el.Add(), gate, b.add(el.Multiply(), peep, cell))

    i = _activated(b, layer, 0, seen(i, 0, c))
    new = _activated(b, layer, 1, new)
    if layer.coupled:
        cell = _mixed(b, i, new, c)
    else:
        f = _activated(b, layer, 0, seen(f, 2, c))
        cell = b.add(el.Add(), b.add(el.Multiply(), f, c), b.add(el.Multiply(), i, new))
    o = _activated(b, layer, 0, seen(o, 1, cell))
    return [b.add(el.Multiply(), o, layer.activations[2].apply(b, cell)), cell]


StepCell = Callable[[_StepBody, Stepwise, Value, list[Value]], list[Value]]
CELLS: dict[str, StepCell] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
