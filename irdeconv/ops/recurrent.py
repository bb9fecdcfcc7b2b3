"""Recurrent cells and sequences: RNN, GRU, LSTM.

Axis letters: N batch, T steps, D directions, I inputs, H hidden units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.attributes import Floats, Strings
from irdeconv.errors import OpError, Problem
from irdeconv.kernels import recurrent
from irdeconv.kernels.elementwise import calls, steps
from irdeconv.kernels.shared import jit
from irdeconv.op import Op, attribute, op, ports
from irdeconv.ops.checks import one_type, want_lengths, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, bounds, merge

ACTIVATIONS: dict[str, recurrent.Activation] = {
    "sigmoid": lambda x: calls.evaluate(steps.sigmoid, (x,)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}
RNN, GRU, LSTM = ("tanh",), ("sigmoid", "tanh"), ("sigmoid", "tanh", "tanh")


Loops = tuple[recurrent.CompiledScan, ...]


@dataclass(frozen=True)
class Recurrent(Op):
    """What all cells share: activations (in the order of the formula), clipping before them."""

    usual: ClassVar[Strings] = ()
    cell: ClassVar[recurrent.Cell]
    gates: ClassVar[int] = 1
    halves: ClassVar[bool] = False  # whether activations may be told once for each direction

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
            text = f"clip is {self.clip}; a negative one does not clip"
            yield Problem("W301", text, attribute="clip")
        names = [a.lower() for a in self.activations]
        need = len(self.usual)
        if len(names) not in (0, need, 2 * need if self.halves else need):
            twice = f", or {2 * need} for two directions" if self.halves else ""
            text = f"there are {len(names)} activations; {need} are needed{twice}"
            yield Problem("E210", text, attribute="activations")
        if len(names) == 2 * need and names[:need] != names[need:]:
            text = f"both directions take the first {need} of the activations in the runtime"
            hint = "make two sequences of it, one for each direction"
            yield Problem("W300", text, attribute="activations", hint=hint)
        for name in names:
            if name not in ACTIVATIONS:
                text = f'the activation "{name}" is not one of {", ".join(ACTIVATIONS)}'
                yield Problem("E210", text, attribute="activations")

    def _names(self) -> list[str]:
        """Return the names of the activations; of those of two directions the first half."""
        return [a.lower() for a in self.activations[: len(self.usual)] or self.usual]

    def functions(self) -> list[recurrent.Activation]:
        """Return the activations."""
        return [ACTIVATIONS[a] for a in self._names()]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return self.run((), *inputs)

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        """Return what computes the outputs, by compiled loops where the weights are constants."""
        r = inputs[ports(type(self)).names.index("r")].value
        usual = self._names() == list(self.usual)
        if r is None or r.dtype != np.float32 or not usual or not jit.available():
            return self.evaluate
        linear = bool(getattr(self, "linear_before_reset", False))
        directions = r.reshape(-1, *r.shape[-2:])
        loops = (recurrent.CompiledScan(self.cell, self.clip, linear, d) for d in directions)
        return partial(self.run, tuple(loops))

    def run(self, loops: Loops, *inputs: Array) -> tuple[Array, ...]:
        """Compute the outputs, by compiled loops where there is one for each direction."""
        raise NotImplementedError

    def clipped(self, x: Array) -> Array:
        """Clip what enters an activation; a clip of 0 stands for none."""
        return np.clip(x, -self.clip, self.clip) if self.clip > 0 else x

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        """Return the cell with the recurrent weights, and the bias of the projected input."""
        raise NotImplementedError

    def bias_gates(self) -> int:
        """How many times H the bias has."""
        return self.gates

    def sizes(
        self, inputs: Sequence[Spec], letters: Sequence[str], directions: int = 1
    ) -> tuple[Any, dict[str, Dim]]:
        """Return the element type and what every axis letter stands for; E301, E302, E303.

        `letters` are the axes of each input; lengths (N) are integers, all others real.
        """
        names = ports(type(self)).names
        h = self.hidden_size
        known: dict[str, Dim] = {"H": h, "G": self.gates * h, "B": self.bias_gates() * h}
        known |= {"D": directions, "P": 3 * h}
        for port, (spec, name, axes) in enumerate(zip(inputs, names, letters, strict=False)):
            want_type(spec, "integer" if axes == "N" else "real", port, name)
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
        real = [port for port, axes in enumerate(letters[: len(inputs)]) if axes != "N"]
        specs, named = [inputs[port] for port in real], [names[port] for port in real]
        dtype = one_type(*specs, names=named, ports=real)
        return dtype, {letter: known.get(letter, DYNAMIC) for letter in "NTDH"}

    def scan(
        self,
        loop: recurrent.CompiledScan | None,
        x: Array,
        states: Sequence[Array],
        lengths: Array,
        *weights: Array,
        reverse: bool,
    ) -> list[Array]:
        """Run one direction: x (N, T, I), states (N, H), weights (G, I), (G, H), (B,)."""
        wide = np.result_type(x.dtype, np.float32)
        w, r, bias = (a.astype(wide, copy=False) for a in weights)
        fast = loop is not None and wide == np.float32 and len(x) <= recurrent.MOST_SEQUENCES
        reset = bias[self.gates * self.hidden_size :]
        step, bias = self.step(r, bias)
        started = tuple(s.astype(wide, copy=False) for s in states)
        with np.errstate(all="ignore"):  # exp overflows to the right infinity
            projected = np.matmul(x.astype(wide, copy=False), w.T) + bias
            if fast and loop is not None:
                outs = loop.scan(projected, started, lengths, reset, reverse=reverse)
            else:
                outs = recurrent.scan(step, projected, started, lengths, reverse=reverse)
        return [out.astype(x.dtype, copy=False) for out in outs]


class _Rnn(Recurrent):
    cell = "rnn"
    usual = RNN

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        return recurrent.rnn(r, self.functions(), self.clipped), bias


class _Gru(Recurrent):
    cell = "gru"
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
    cell = "lstm"
    usual = LSTM
    gates = 4

    def step(self, r: Array, bias: Array) -> tuple[recurrent.Step, Array]:
        return recurrent.lstm(r, self.functions(), self.clipped), bias


class _Cell(Recurrent):
    """Base of single steps: x, states, w, r, b -> the next states."""

    def specs(self, *inputs: Spec) -> tuple[Spec, ...]:
        """Return the specs of the next states."""
        states = len(inputs) - 4
        dtype, sizes = self.sizes(inputs, ("NI", *("NH",) * states, "GI", "GH", "B"))
        return (Spec(dtype, (sizes["N"], sizes["H"])),) * states

    def run(self, loops: Loops, *inputs: Array) -> tuple[Array, ...]:
        """Compute the next states, of sequences of one step."""
        x, *states, w, r, b = inputs
        one = np.ones(len(x), np.int64)
        loop = loops[0] if loops else None
        return tuple(self.scan(loop, x[:, None], states, one, w, r, b, reverse=False)[1:])


class _OneStateCell(_Cell):
    def infer(
        self, x: Spec, initial_hidden_state: Spec, w: Spec, r: Spec, b: Spec
    ) -> tuple[Spec, ...]:
        return self.specs(x, initial_hidden_state, w, r, b)


@op("RNNCell", without=(2,))
class RNNCell(_OneStateCell, _Rnn):
    """One step: x (N, I), state (N, H), w (H, I), r (H, H), b (H,) -> (N, H).

    H' = f(x W + H R + B), f tanh by default; real numbers of one type.  [sequence/RNNCell-1]
    """

    activations: Strings = RNN


@op("GRUCell", since=3)
class GRUCell(_OneStateCell, _Gru):
    """One step: x (N, I), state (N, H), w (3H, I), r (3H, H), b -> (N, H); gates z, r, h.

    `linear_before_reset` lets the reset gate act behind the product; b then has 4H values, the
    last H of them for the product, otherwise 3H.  [sequence/GRUCell-3]
    """

    activations: Strings = GRU
    linear_before_reset: bool = False


@op("LSTMCell", until=3)
class LSTMCell1(_Cell, _Lstm):
    """LSTMCell with more attributes; B may be absent, then it is 0.  [sequence/LSTMCell-1]

    The runtime takes the gates as f, i, c, o whatever `weights_format` says, and ignores
    `input_forget` and the peepholes p (3H,).
    """

    activations: Strings = LSTM
    input_forget: bool = False
    weights_format: Literal["fico", "icof", "ifco", "ifoc", "iofc"] = "ifco"

    def infer(
        self,
        x: Spec,
        initial_hidden_state: Spec,
        initial_cell_state: Spec,
        w: Spec,
        r: Spec,
        b: Spec | None = None,
        p: Spec | None = None,
    ) -> tuple[Spec, ...]:
        given = (x, initial_hidden_state, initial_cell_state, w, r, b, p)
        letters = ("NI", "NH", "NH", "GI", "GH", "B", "P")
        dtype, sizes = self.sizes([s for s in given if s is not None], letters)
        return (Spec(dtype, (sizes["N"], sizes["H"])),) * 2

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        if self.input_forget:
            text = "the runtime computes the input gate as if input_forget were false"
            yield Problem("W300", text, attribute="input_forget", hint="write the cell out")
        if len(inputs) > len(ports(LSTMCell).names):
            text = "the runtime ignores the peepholes"
            yield Problem("W300", text, hint="write the cell out where they are not 0")

    def run(self, loops: Loops, *inputs: Array) -> tuple[Array, ...]:
        """Compute the next states."""
        x, h, c, w, r, *rest = inputs
        b = rest[0] if rest else np.zeros(len(w), x.dtype)
        return super().run(loops, x, h, c, w, r, b)


@op("LSTMCell", since=4)
class LSTMCell(_Cell, _Lstm):
    """One step: x (N, I), two states (N, H), w (4H, I), r (4H, H), b (4H,) -> two states.

    Gates f, i, c, o: C' = f C + i c, H' = o h(C').  [sequence/LSTMCell-4]
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
    ) -> tuple[Spec, ...]:
        return self.specs(x, initial_hidden_state, initial_cell_state, w, r, b)


Direction = Literal["forward", "reverse", "bidirectional"]


class _Sequence(Recurrent):
    halves: ClassVar[bool] = True
    direction: Direction

    def specs(self, *inputs: Spec) -> tuple[Spec, ...]:
        """Return the specs of the outputs and the last states."""
        states = len(inputs) - 5
        letters = ("NTI", *("NDH",) * states, "N", "DGI", "DGH", "DB")
        dtype, sizes = self.sizes(inputs, letters, 2 if self.direction == "bidirectional" else 1)
        lengths = inputs[states + 1]
        if lengths.value is not None:
            want_lengths(lengths.value.reshape(-1), bounds(sizes["T"])[1], states + 1)
        outputs = Spec(dtype, tuple(sizes[letter] for letter in "NDTH"))
        last = Spec(dtype, tuple(sizes[letter] for letter in "NDH"))
        return (outputs, *(last,) * states)

    def run(self, loops: Loops, *inputs: Array) -> tuple[Array, ...]:
        """Run every direction and put them side by side."""
        x, *states, lengths, w, r, b = inputs
        want_lengths(lengths.reshape(-1), x.shape[1], len(states) + 1)
        runs = []
        for d in range(len(w)):
            reverse = self.direction == "reverse" or d == 1
            given = [s[:, d] for s in states], lengths, w[d], r[d], b[d]
            runs.append(self.scan(loops[d] if loops else None, x, *given, reverse=reverse))
        if len(runs) == 1:
            return tuple(out[:, None] for out in runs[0])
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
        return self.specs(x, initial_hidden_state, sequence_lengths, w, r, b)


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
        return self.specs(x, initial_hidden_state, initial_cell_state, sequence_lengths, w, r, b)
