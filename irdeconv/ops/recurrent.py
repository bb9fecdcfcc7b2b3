"""Recurrent cells and sequences: RNN, GRU, LSTM.

Axis letters: N batch, T steps, D directions, I inputs, H hidden units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.attributes import Floats, Strings
from irdeconv.errors import OpError, Problem
from irdeconv.kernels import recurrent
from irdeconv.kernels.elementwise import calls, steps
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import one_type, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, merge

ACTIVATIONS: dict[str, recurrent.Activation] = {
    "sigmoid": lambda x: calls.evaluate(steps.sigmoid, (x,)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}
RNN, GRU, LSTM = ("tanh",), ("sigmoid", "tanh"), ("sigmoid", "tanh", "tanh")
Row = tuple[Spec, str, str]  # an input, its name, its axes as letters


@dataclass(frozen=True)
class Recurrent(Op):
    """What all cells share: activations (in the order of the formula), clipping before them."""

    usual: ClassVar[Strings] = ()
    gates: ClassVar[int] = 1

    hidden_size: int
    activations: Strings = ()
    activations_alpha: Floats = ()
    activations_beta: Floats = ()
    clip: float = 0.0

    def check(self) -> Iterator[Problem]:
        if self.hidden_size < 1:
            text = f"hidden_size is {self.hidden_size}; it must be at least 1"
            yield Problem("E210", text, attribute="hidden_size")
        if self.clip < 0:
            yield Problem("E210", f"clip is {self.clip}; it must not be negative", attribute="clip")
        names = [a.lower() for a in self.activations]
        if names and len(names) != len(self.usual):
            text = f"there are {len(names)} activations; {len(self.usual)} are needed"
            yield Problem("E210", text, attribute="activations")
        for name in names:
            if name not in ACTIVATIONS:
                text = f'the activation "{name}" is not one of {", ".join(ACTIVATIONS)}'
                yield Problem("E210", text, attribute="activations")

    def functions(self) -> list[recurrent.Activation]:
        """Return the activations."""
        return [ACTIVATIONS[a.lower()] for a in self.activations or self.usual]

    def clipped(self, x: Array) -> Array:
        """Clip what enters an activation; a clip of 0 stands for none."""
        return np.clip(x, -self.clip, self.clip) if self.clip > 0 else x

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        """Return the cell with the recurrent weights, and the bias of the projected input."""
        raise NotImplementedError

    def bias_gates(self) -> int:
        """How many times H the bias has."""
        return self.gates

    def sizes(self, rows: Sequence[Row], directions: int = 1) -> tuple[Any, dict[str, Dim]]:
        """Return the element type and what every axis letter stands for; E301, E302, E303."""
        h = self.hidden_size
        known: dict[str, Dim] = {"H": h, "G": self.gates * h, "B": self.bias_gates() * h}
        known["D"] = directions
        for port, (spec, name, axes) in enumerate(rows):
            if axes != "N":
                want_type(spec, "real", port, name)
            want_rank(spec.shape, len(axes), len(axes), port, name)
            for axis, (letter, dim) in enumerate(zip(axes, spec.shape or (), strict=False)):
                both = merge(known.get(letter, DYNAMIC), dim)
                if both is None:
                    raise OpError(
                        f"axis {axis} of {name} has size {dim}; {known[letter]} is needed",
                        code="E302",
                        port=port,
                    )
                known[letter] = both
        real = [(port, row) for port, row in enumerate(rows) if row[2] != "N"]
        specs, names = [row[0] for _, row in real], [row[1] for _, row in real]
        dtype = one_type(*specs, names=names, ports=[port for port, _ in real])
        return dtype, {letter: known.get(letter, DYNAMIC) for letter in "NTDH"}

    def scan(
        self, x: Array, states: Sequence[Array], lengths: Array, *weights: Array, reverse: bool
    ) -> list[Array]:
        """Run one direction: x (N, T, I), states (N, H), weights (G, I), (G, H), (B,)."""
        wide = np.result_type(x.dtype, np.float32)
        w, r, bias = (a.astype(wide, copy=False) for a in weights)
        step, bias = self.step(r, bias)
        started = tuple(s.astype(wide, copy=False) for s in states)
        with np.errstate(all="ignore"):  # exp overflows to the right infinity
            projected = np.matmul(x.astype(wide, copy=False), w.T) + bias
            outs = recurrent.scan(step, projected, started, lengths, reverse=reverse)
        return [out.astype(x.dtype, copy=False) for out in outs]

    def once(self, x: Array, states: Sequence[Array], *weights: Array) -> list[Array]:
        """Run one step of x (N, I)."""
        one = np.ones(len(x), np.int64)
        return self.scan(x[:, None], states, one, *weights, reverse=False)[1:]


class _Rnn(Recurrent):
    usual = RNN

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        return recurrent.rnn(r, self.functions(), self.clipped), bias


class _Gru(Recurrent):
    usual = GRU
    gates = 3
    linear_before_reset: bool

    def bias_gates(self) -> int:
        return 4 if self.linear_before_reset else 3

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        cut = 3 * self.hidden_size
        reset = bias[cut:] if self.linear_before_reset else None
        return recurrent.gru(r, self.functions(), self.clipped, reset), bias[:cut]


class _Lstm(Recurrent):
    usual = LSTM
    gates = 4

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        return recurrent.lstm(r, self.functions(), self.clipped), bias


class _OneState(Recurrent):
    def infer(self, x: Spec, initial_hidden_state: Spec, w: Spec, r: Spec, b: Spec) -> Spec:
        hidden = (initial_hidden_state, "initial_hidden_state", "NH")
        weights = ((w, "w", "GI"), (r, "r", "GH"), (b, "b", "B"))
        dtype, sizes = self.sizes([(x, "x", "NI"), hidden, *weights])
        return Spec(dtype, (sizes["N"], sizes["H"]))

    def evaluate(self, x: Array, initial_hidden_state: Array, *weights: Array) -> Array:
        return self.once(x, [initial_hidden_state], *weights)[0]


@op("RNNCell", since=3)
class RNNCell(_OneState, _Rnn):
    """One step: x (N, I), state (N, H), w (H, I), r (H, H), b (H,) -> (N, H).

    H' = f(x W + H R + B), f tanh by default; real numbers of one type.  [sequence/RNNCell-3]
    """

    activations: Strings = RNN


@op("GRUCell", since=3)
class GRUCell(_OneState, _Gru):
    """One step: x (N, I), state (N, H), w (3H, I), r (3H, H), b -> (N, H); gates z, r, h.

    `linear_before_reset` lets the reset gate act behind the product; b then has 4H values, the
    last H of them for the product, otherwise 3H.  [sequence/GRUCell-3]
    """

    activations: Strings = GRU
    linear_before_reset: bool = False


@op("LSTMCell", since=4)
class LSTMCell(_Lstm):
    """One step: x (N, I), two states (N, H), w (4H, I), r (4H, H), b (4H,) -> two states.

    Gates f, i, c, o: C' = f C + i c, H' = o h(C').  [sequence/LSTMCell-1]
    """

    activations: Strings = LSTM

    def infer(
        self,
        x: Spec,
        initial_hidden_state: Spec,
        initial_cell_state: Spec,
        w: Spec,
        r: Spec,
        b: Spec,
    ) -> tuple[Spec, Spec]:
        hidden = (initial_hidden_state, "initial_hidden_state", "NH")
        cell = (initial_cell_state, "initial_cell_state", "NH")
        weights = ((w, "w", "GI"), (r, "r", "GH"), (b, "b", "B"))
        dtype, sizes = self.sizes([(x, "x", "NI"), hidden, cell, *weights])
        out = Spec(dtype, (sizes["N"], sizes["H"]))
        return out, out

    def evaluate(self, x: Array, hidden: Array, cell: Array, *weights: Array) -> tuple[Array, ...]:
        return tuple(self.once(x, [hidden, cell], *weights))


Direction = Literal["forward", "reverse", "bidirectional"]


class _Sequence(Recurrent):
    direction: Direction

    def specs(self, rows: Sequence[Row]) -> tuple[Spec, ...]:
        """Return the specs of the outputs and the last states."""
        dtype, sizes = self.sizes(rows, 2 if self.direction == "bidirectional" else 1)
        outputs = Spec(dtype, tuple(sizes[letter] for letter in "NDTH"))
        last = Spec(dtype, tuple(sizes[letter] for letter in "NDH"))
        return (outputs, *(last for row in rows if row[2] == "NDH"))

    def sequences(
        self, x: Array, states: Sequence[Array], lengths: Array, *weights: Array
    ) -> tuple[Array, ...]:
        """Run every direction and put them side by side."""
        lengths = np.minimum(lengths, x.shape[1])
        runs = []
        for d in range(weights[0].shape[0]):
            reverse = self.direction == "reverse" or d == 1
            given = [s[:, d] for s in states], lengths, *(w[d] for w in weights)
            runs.append(self.scan(x, *given, reverse=reverse))
        return tuple(np.stack(outs, 1) for outs in zip(*runs, strict=True))


class _OneStateSequence(_Sequence):
    def infer(
        self,
        x: Spec,
        initial_hidden_state: Spec,
        sequence_lengths: Spec,
        w: Spec,
        r: Spec,
        b: Spec,
    ) -> tuple[Spec, ...]:
        want_type(sequence_lengths, "integer", 2, "sequence_lengths")
        states = [(initial_hidden_state, "initial_hidden_state", "NDH")]
        return self.specs(
            [
                (x, "x", "NTI"),
                *states,
                (sequence_lengths, "sequence_lengths", "N"),
                *_weights(w, r, b),
            ]
        )

    def evaluate(
        self, x: Array, hidden: Array, lengths: Array, *weights: Array
    ) -> tuple[Array, ...]:
        return self.sequences(x, [hidden], lengths, *weights)


def _weights(w: Spec, r: Spec, b: Spec) -> list[Row]:
    return [(w, "w", "DGI"), (r, "r", "DGH"), (b, "b", "DB")]


@op("RNNSequence", since=5)
class RNNSequence(_OneStateSequence, _Rnn):
    """RNNCell along a sequence: x (N, T, I) -> outputs (N, D, T, H), last states (N, D, H).

    Weights have a leading axis of D directions, 2 where it is bidirectional: forward, reverse.
    Each sequence ends after its own length; outputs behind it are 0.  [sequence/RNNSequence-5]
    """

    activations: Strings = RNN
    direction: Direction = attribute("forward", documented=True)


@op("GRUSequence", since=5)
class GRUSequence(_OneStateSequence, _Gru):
    """GRUCell along a sequence, otherwise as RNNSequence.  [sequence/GRUSequence-5]"""

    activations: Strings = GRU
    direction: Direction = attribute("forward", documented=True)
    linear_before_reset: bool = False


@op("LSTMSequence", since=5)
class LSTMSequence(_Sequence, _Lstm):
    """LSTMCell along a sequence, with two states; otherwise as RNNSequence.

    [sequence/LSTMSequence-1]
    """

    activations: Strings = LSTM
    direction: Direction = attribute("forward", documented=True)

    def infer(
        self,
        x: Spec,
        initial_hidden_state: Spec,
        initial_cell_state: Spec,
        sequence_lengths: Spec,
        w: Spec,
        r: Spec,
        b: Spec,
    ) -> tuple[Spec, ...]:
        want_type(sequence_lengths, "integer", 3, "sequence_lengths")
        hidden = (initial_hidden_state, "initial_hidden_state", "NDH")
        cell = (initial_cell_state, "initial_cell_state", "NDH")
        lengths = (sequence_lengths, "sequence_lengths", "N")
        return self.specs([(x, "x", "NTI"), hidden, cell, lengths, *_weights(w, r, b)])

    def evaluate(
        self, x: Array, hidden: Array, cell: Array, lengths: Array, *weights: Array
    ) -> tuple[Array, ...]:
        return self.sequences(x, [hidden, cell], lengths, *weights)
