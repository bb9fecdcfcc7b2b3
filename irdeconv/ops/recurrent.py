"""Recurrent cells and sequences, beam search, CTC.

Recurrent cells and sequences: RNN, GRU, LSTM.

Axis letters: N batch, T steps, D directions, I inputs, H hidden units, G gates times H.

GatherTree: whole sequences out of a beam search.

Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir.attributes import Floats, Strings
from irdeconv.ir.dtypes import ElementType, i32
from irdeconv.ir.op import JUMPS, Op, attribute, op, ports
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Spec, bounds, merge
from irdeconv.kernels import elementwise, jit, recurrent
from irdeconv.kernels import elementwise as steps
from irdeconv.ops.checks import (
    axis_sizes,
    index_type,
    one_type,
    real_types,
    single,
    want_lengths,
    want_rank,
    want_shapes,
    want_type,
)

ACTIVATIONS: dict[str, recurrent.Activation] = {
    "sigmoid": lambda x: elementwise.evaluate(steps.sigmoid, (x,)),
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


NAMES = ("step_ids", "parent_idx", "max_seq_len", "end_token")


@op("GatherTree", since=1)
class GatherTree(Op):
    """Follow parents from the last step: step_ids, parent_idx (T, N, B) -> sequences (T, N, B).

    Beam b of batch n ends at the step `max_seq_len` (N,) of it, or T; its token at a step is that
    of the beam to which parent_idx leads from the step behind. From the first end_token (a scalar)
    on, and behind the end, all are end_token. Numbers of one type.  [movement/GatherTree-1]
    """

    rounding = JUMPS

    def infer(self, step_ids: Spec, parent_idx: Spec, max_seq_len: Spec, end_token: Spec) -> Spec:
        given = (step_ids, parent_idx, max_seq_len, end_token)
        want_type(step_ids, "number", 0, "step_ids")
        dtype = one_type(*given, names=NAMES)
        at = axis_sizes(given, NAMES, ("TNB", "TNB", "N", ""))
        return Spec(dtype, (at["T"], at["N"], at["B"]))

    def evaluate(
        self, step_ids: Array, parent_idx: Array, max_seq_len: Array, end_token: Array
    ) -> Array:
        want_shapes(self, step_ids, parent_idx, max_seq_len, end_token)
        steps, batch, beams = step_ids.shape
        lengths = np.minimum(max_seq_len.astype(np.int64), steps)[:, None]
        out = np.full_like(step_ids, end_token)
        rows = np.arange(batch)[:, None]
        beam = np.broadcast_to(np.arange(beams), (batch, beams))
        for t in range(steps - 1, -1, -1):
            active = t < lengths
            bad = active & ((beam < 0) | (beam >= beams))
            if bad.any():
                text = f"a parent at step {t + 1} is {beam[bad][0]}; there are {beams} beams"
                raise OpError(text, code="E305", port=1)
            at = np.where(active, beam, 0)
            out[t] = np.where(active, step_ids[t, rows, at], end_token)
            beam = np.where(active, parent_idx[t, rows, at].astype(np.int64), beam)
        ended = np.logical_or.accumulate(out == end_token, 0)
        return np.where(ended, end_token, out).astype(step_ids.dtype)


def _some_classes(classes: Dim) -> None:
    """Refuse data without classes, of which none is the best; E302."""
    if classes == 0:
        raise OpError("there are 0 classes; at least one is needed", code="E302", port=0)


def _check_lengths(lengths: Array, highest: Array | int, port: int, name: str) -> None:
    """Require 0 up to the highest; E305."""
    bad = (lengths < 0) | (lengths > highest)
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        top = np.broadcast_to(highest, lengths.shape)[n]
        text = f"{name} of sequence {n} is {lengths[n]}; it must be 0 to {top}"
        raise OpError(text, code="E305", port=port)


@op("CTCGreedyDecoder", since=1)
class CTCGreedyDecoder(Op):
    """The best class of every step without blanks: data (T, N, C) -> classes (N, T, 1, 1).

    sequence_mask (T, N): a sequence ends at its first 0. The last class is the blank; with
    `ctc_merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    They have data's type; the types may be mixed.  [sequence/CTCGreedyDecoder-1]
    """

    rounding = JUMPS
    ctc_merge_repeated: bool = True

    def infer(self, data: Spec, sequence_mask: Spec) -> Spec:
        names = ("data", "sequence_mask")
        dtype = real_types(data, sequence_mask, names=names)
        at = axis_sizes((data, sequence_mask), names, ("TNC", "TN"))
        _some_classes(at["C"])
        return Spec(dtype, (at["N"], at["T"], 1, 1))

    def evaluate(self, data: Array, sequence_mask: Array) -> Array:
        want_shapes(self, data, sequence_mask)
        used = np.logical_and.accumulate(sequence_mask != 0, 0).T
        classes, blank = np.argmax(data.astype(np.float32, copy=False), 2).T, data.shape[2] - 1
        out, _ = recurrent.decoded(classes, used, blank, merge=self.ctc_merge_repeated)
        return out.astype(data.dtype)[..., None, None]


@op("CTCGreedyDecoderSeqLen", since=6)
class CTCGreedyDecoderSeqLen(Op):
    """The best class of every step without blanks: data (N, T, C) -> classes (N, T), counts (N,).

    sequence_length (N,), at most T. blank_index, a third input, is the last class by default; with
    `merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    [sequence/CTCGreedyDecoderSeqLen-6]
    """

    rounding = JUMPS
    merge_repeated: bool = True
    classes_index_type: ElementType = i32
    sequence_length_type: ElementType = i32

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "classes_index_type")
        yield from index_type(self, "sequence_length_type")

    def infer(
        self, data: Spec, sequence_length: Spec, blank_index: Spec | None = None
    ) -> tuple[Spec, Spec]:
        want_type(data, "real", 0, "data")
        want_type(sequence_length, "integer", 1, "sequence_length")
        if blank_index is not None:
            single(blank_index, 2, "blank_index")
        names = ("data", "sequence_length")
        at = axis_sizes((data, sequence_length), names, ("NTC", "N"))
        _some_classes(at["C"])
        counts = Spec(self.sequence_length_type, (at["N"],))
        return Spec(self.classes_index_type, (at["N"], at["T"])), counts

    def evaluate(
        self, data: Array, sequence_length: Array, blank_index: Array | None = None
    ) -> tuple[Array, Array]:
        want_shapes(self, data, sequence_length, blank_index)
        _check_lengths(sequence_length, data.shape[1], 1, "the length")
        blank = data.shape[2] - 1 if blank_index is None else int(blank_index.item())
        used = np.arange(data.shape[1]) < sequence_length[:, None]
        classes = np.argmax(data.astype(np.float32, copy=False), 2)
        out, counts = recurrent.decoded(classes, used, blank, merge=self.merge_repeated)
        return (
            out.astype(self.classes_index_type.container),
            counts.astype(self.sequence_length_type.container),
        )


@op("CTCLoss", since=4)
class CTCLoss(Op):
    """Minus the logarithm of the probability of labels: logits (N, T, C) -> (N,).

    logit_length (N,), at most T; labels (N, T), of which label_length (N,) are read, at most
    logit_length; blank_index, a scalar, is the last class by default. `unique` reads every label
    once, `preprocess_collapse_repeated` once in a row. With `ctc_merge_repeated` a label may last,
    and equal neighbours need a blank between them. Absent, that is false in the runtime, true in
    the specification.  [sequence/CTCLoss-4]
    """

    preprocess_collapse_repeated: bool = False
    ctc_merge_repeated: bool = False
    unique: bool = False

    def infer(
        self,
        logits: Spec,
        logit_length: Spec,
        labels: Spec,
        label_length: Spec,
        blank_index: Spec | None = None,
    ) -> Spec:
        want_type(logits, "real", 0, "logits")
        names = ("logits", "logit_length", "labels", "label_length")
        given = (logits, logit_length, labels, label_length)
        for port in (1, 2, 3):
            want_type(given[port], "integer", port, names[port])
        if blank_index is not None:
            want_type(blank_index, "integer", 4, "blank_index")
            want_rank(blank_index.shape, 0, 0, 4, "blank_index")
        at = axis_sizes(given, names, ("NTC", "N", "NT", "N"))
        _some_classes(at["C"])
        return Spec(logits.dtype, (at["N"],))

    def evaluate(
        self,
        logits: Array,
        logit_length: Array,
        labels: Array,
        label_length: Array,
        blank_index: Array | None = None,
    ) -> Array:
        want_shapes(self, logits, logit_length, labels, label_length, blank_index)
        _check_lengths(logit_length, logits.shape[1], 1, "the length of the logits")
        _check_lengths(label_length, logit_length, 3, "the number of labels")
        classes = logits.shape[2]
        blank = classes - 1 if blank_index is None else int(blank_index.item())
        if not 0 <= blank < classes:
            text = f"blank_index is {blank}; there are {classes} classes"
            raise OpError(text, code="E305", port=4)
        out = np.zeros(len(logits))
        for n, row in enumerate(logits.astype(np.float64)):
            wanted = self._read(labels[n, : label_length[n]])
            if len(wanted) and not 0 <= wanted.min() <= wanted.max() < classes:
                text = f"labels of sequence {n} reach from {wanted.min()} to {wanted.max()}"
                raise OpError(f"{text}; there are {classes} classes", code="E305", port=2)
            steps = row[: logit_length[n]]
            with np.errstate(all="ignore"):  # logits may be infinite
                out[n] = recurrent.loss(steps, wanted, blank, merge=self.ctc_merge_repeated)
        return out.astype(logits.dtype)

    def _read(self, labels: Array) -> Array:
        """Return the labels that count."""
        if self.unique:
            return labels[np.sort(np.unique(labels, return_index=True)[1])]
        if self.preprocess_collapse_repeated:
            fresh = np.append(True, labels[1:] != labels[:-1])
            return np.asarray(labels[fresh[: len(labels)]])
        return labels
