"""Recurrent cells and sequences (RNN, GRU, LSTM), beam search (GatherTree), CTC.

Axis letters: N batch, T steps, D directions, I inputs, H hidden units, G gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import Problem, attribute_problem, size_error, value_error
from irdeconv.ir.attributes import Floats, IndexType, Positive, Strings
from irdeconv.ir.dtypes import i32
from irdeconv.ir.op import JUMPS, Op, attribute, op, ports
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import Array, Arrays, Spec, bounds
from irdeconv.kernels import elementwise, jit, products, recurrent
from irdeconv.kernels.numpy_calls import FEW_ELEMENTS
from irdeconv.ops.checks import shape_of, want_lengths, want_shapes

ACTIVATIONS: dict[str, elementwise.Rule] = {
    "sigmoid": elementwise.sigmoid,
    "tanh": np.tanh,
    "relu": elementwise.relu,
}
RNN, GRU, LSTM = ("tanh",), ("sigmoid", "tanh"), ("sigmoid", "tanh", "tanh")


Loops = tuple[recurrent.CompiledScan, ...]


@dataclass(frozen=True)
class Recurrent(Op):
    """Base of all cells: activations (in the order of the formula), clipping before them."""

    cell: ClassVar[recurrent.Cell]
    gates: ClassVar[int] = 1
    halves: ClassVar[bool] = False  # whether each direction may have its own activations

    hidden_size: Positive
    activations: Strings = ()
    activations_alpha: Floats = ()
    activations_beta: Floats = ()
    clip: float = 0.0

    def check(self) -> Iterator[Problem]:
        if self.clip < 0:
            text = f"clip is {self.clip}; a negative one does not clip"
            yield Problem("W301", text, attribute="clip")
        names = [a.lower() for a in self.activations]
        need = len(type(self).activations)
        if len(names) not in (0, need, 2 * need if self.halves else need):
            twice = f", or {2 * need} for two directions" if self.halves else ""
            text = f"there are {len(names)} activations; {need} are needed{twice}"
            yield attribute_problem("activations", text)
        if len(names) == 2 * need and names[:need] != names[need:]:
            text = f"both directions take the first {need} of the activations in the runtime"
            hint = "make two sequences of it, one for each direction"
            yield Problem("W300", text, attribute="activations", hint=hint)
        for name in names:
            if name not in ACTIVATIONS:
                text = f'the activation "{name}" is not one of {", ".join(ACTIVATIONS)}'
                yield attribute_problem("activations", text)

    def _names(self) -> list[str]:
        """Return the names of the activations; of those of two directions the first half."""
        usual = type(self).activations
        return [a.lower() for a in self.activations[: len(usual)] or usual]

    def evaluate(self, *inputs: Array) -> Arrays:
        return self.run((), *inputs)

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        """Return a function that computes the outputs, prepared if the weights are constants."""
        r = inputs[ports(type(self)).names.index("r")].value
        usual = self._names() == list(type(self).activations)
        if r is None or r.dtype != np.float32 or not (usual or not jit.available()):
            return self.evaluate
        if not jit.available():
            return self.prepared(inputs) or self.evaluate
        linear = bool(getattr(self, "linear_before_reset", False))
        directions = r.reshape(-1, *r.shape[-2:])
        loops = (recurrent.CompiledScan(self.cell, self.clip, linear, d) for d in directions)
        return partial(self.run, tuple(loops))

    def prepared(self, inputs: Sequence[Spec]) -> Callable[..., Any] | None:
        """Return a function of short sequences whose calls of NumPy are prepared, if possible."""
        return None

    def run(self, loops: Loops, *inputs: Array) -> Arrays:
        """Compute the outputs, by compiled loops if there is one for each direction."""
        raise NotImplementedError

    @property
    def bias_gates(self) -> int:
        """How many times H the bias has."""
        return self.gates

    def cell_of(self, r: Array, bias: Array) -> recurrent.NumPyCell:
        """Return the cell with weights (D, G*H, H) and the biases behind those of the gates."""
        rules = [ACTIVATIONS[a] for a in self._names()]
        late = bias[:, None] if getattr(self, "linear_before_reset", False) else None
        return recurrent.NumPyCell(self.cell, rules, self.clip, r, late)

    def scan(
        self, loops: Loops, x: Array, states: Sequence[Array], *rest: Array, reverse: bool
    ) -> Arrays:
        """Run over x (N, T, I), states (N, D, H): lengths, weights (D, G, I), (D, G, H), (D, B)."""
        wide = np.result_type(x.dtype, np.float32)
        lengths = rest[0].reshape(-1)
        w, r, biases = (a.astype(wide, copy=False) for a in rest[1:])
        fast = loops and wide == np.float32 and len(x) <= recurrent.MOST_SEQUENCES
        bias, more = np.split(biases, [self.gates * self.hidden_size], 1)
        started = tuple(s.astype(wide, copy=False) for s in states)
        with np.errstate(all="ignore"):  # exp overflows to the right infinity
            wider = x.astype(wide, copy=False)
            projected = [products.affine(wider, *one) for one in zip(w, bias, strict=True)]
            if not fast:
                cell = self.cell_of(r, more)
                outs = cell.scan(np.stack(projected), started, lengths, reverse)
            else:
                runs = [
                    loop.scan(
                        projected[d],
                        tuple(s[:, d] for s in started),
                        lengths,
                        more[d],
                        reverse=reverse or d == 1,
                    )
                    for d, loop in enumerate(loops)
                ]
                outs = [np.stack(some, 1) for some in zip(*runs, strict=True)]
        return tuple(out.astype(x.dtype, copy=False) for out in outs)


@dataclass(frozen=True)
class _Rnn(Recurrent):
    cell = "rnn"
    activations: Strings = RNN


@dataclass(frozen=True)
class _Gru(Recurrent):
    cell = "gru"
    gates = 3
    activations: Strings = GRU
    linear_before_reset: bool = False

    @property
    def bias_gates(self) -> int:
        return 4 if self.linear_before_reset else 3


@dataclass(frozen=True)
class _Lstm(Recurrent):
    cell = "lstm"
    gates = 4
    activations: Strings = LSTM


_INPUT_AND_STATE = "x: real t [N, I]; initial_hidden_state: t [N, hidden_size]"
_CELL_STATE = "initial_cell_state: t [N, hidden_size]"
_WEIGHTS = "w: t [gates*hidden_size, I]; r: t [gates*hidden_size, hidden_size]"
_BIAS = "b: t [bias_gates*hidden_size]"
_STATE = "t [N, hidden_size]"


class _Cell(Recurrent):
    """Base of single steps: x, states, w, r, b -> the next states."""

    signature = f"{_INPUT_AND_STATE}; {_WEIGHTS}; {_BIAS} -> {_STATE}"

    def run(self, loops: Loops, *inputs: Array) -> Arrays:
        """Compute the next states, of sequences of one step."""
        x, *states, w, r, b = inputs
        one = np.ones(len(x), np.int64)
        given = [s[:, None] for s in states], one, w[None], r[None], b[None]
        return tuple(end[:, 0] for end in self.scan(loops, x[:, None], *given, reverse=False)[1:])


@op("RNNCell", without=(2,))
class RNNCell(_Rnn, _Cell):
    """One step: x (N, I), state (N, H), w (H, I), r (H, H), b (H,) -> (N, H).

    H' = f(x W + H R + B), f tanh by default; real numbers of one type.  [sequence/RNNCell-1]
    """


@op("GRUCell", since=3)
class GRUCell(_Gru, _Cell):
    """One step: x (N, I), state (N, H), w (3H, I), r (3H, H), b -> (N, H); gates z, r, h.

    `linear_before_reset` lets the reset gate act behind the product; b then has 4H values, the
    last H of them for the product, otherwise 3H.  [sequence/GRUCell-3]
    """


@op("LSTMCell", until=3)
class LSTMCell1(_Lstm, _Cell):
    """LSTMCell with more attributes; B may be absent, then it is 0.  [sequence/LSTMCell-1]

    The runtime reads the gates as f, i, c, o under any `weights_format`, and ignores
    `input_forget` and the peepholes p (3H,).
    """

    signature = (
        f"{_INPUT_AND_STATE}; {_CELL_STATE}; {_WEIGHTS}; b?: t [gates*hidden_size]; "
        f"p?: t [3*hidden_size] -> {_STATE}; {_STATE}"
    )
    input_forget: bool = False
    weights_format: Literal["fico", "icof", "ifco", "ifoc", "iofc"] = "ifco"

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        if self.input_forget:
            text = "the runtime computes the input gate as if input_forget were false"
            yield Problem("W300", text, attribute="input_forget", hint="write the cell out")
        if len(inputs) > len(ports(LSTMCell).names):
            text = "the runtime ignores the peepholes"
            yield Problem("W300", text, hint="write the cell out where they are not 0")

    def run(self, loops: Loops, *inputs: Array) -> Arrays:
        """Compute the next states."""
        x, h, c, w, r, *rest = inputs
        b = rest[0] if rest else np.zeros(len(w), x.dtype)
        return super().run(loops, x, h, c, w, r, b)


@op("LSTMCell", since=4)
class LSTMCell(_Lstm, _Cell):
    """One step: x (N, I), two states (N, H), w (4H, I), r (4H, H), b (4H,) -> two states.

    Gates f, i, c, o: C' = f C + i c, H' = o h(C').  [sequence/LSTMCell-4]
    """

    signature = f"{_INPUT_AND_STATE}; {_CELL_STATE}; {_WEIGHTS}; {_BIAS} -> {_STATE}; {_STATE}"


Direction = Literal["forward", "reverse", "bidirectional"]
_STEPS_AND_STATE = "x: real t [N, T, I]; initial_hidden_state: t [N, directions, hidden_size]"
_STATES_OF_CELLS = "initial_cell_state: t [N, directions, hidden_size]"
_SEQUENCE_WEIGHTS = (
    "sequence_lengths: integer [N]; w: t [directions, gates*hidden_size, I]; "
    "r: t [directions, gates*hidden_size, hidden_size]; b: t [directions, bias_gates*hidden_size]"
)
_STEPS = "t [N, directions, T, hidden_size]"
_LAST = "t [N, directions, hidden_size]"


@dataclass(frozen=True)
class _Sequence(Recurrent):
    signature = f"{_STEPS_AND_STATE}; {_SEQUENCE_WEIGHTS} -> {_STEPS}; {_LAST}"
    halves: ClassVar[bool] = True
    direction: Direction = attribute("forward", documented=True)

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def complete(self, at: Fit, *inputs: Spec) -> None:
        port = len(inputs) - 4
        lengths = inputs[port].value
        if lengths is not None:
            want_lengths(lengths.reshape(-1), bounds(at["T"])[1], port)

    def prepared(self, inputs: Sequence[Spec]) -> Callable[..., Any] | None:
        x, *states, _, w, r, b = inputs
        if w.value is None or r.value is None or b.value is None or not x.static:
            return None
        n, t, _ = shape_of(x)
        few = 0 < n * t * w.value[..., 0].size <= FEW_ELEMENTS
        if not few or not all(s.static for s in states):
            return None
        bias, more = np.split(b.value, [self.gates * self.hidden_size], 1)
        given = [np.empty(shape_of(s), np.float32) for s in (x, *states)]
        outs = [np.empty((n, len(w.value), t, self.hidden_size), np.float32)]
        outs += [np.empty_like(s) for s in given[1:]]
        cell = self.cell_of(r.value, more)
        backwards = self.direction == "reverse"
        calls = cell.kept(given[0], w.value, bias, tuple(given[1:]), outs, backwards)

        def run(*arrays: Array) -> Arrays:
            if calls is None or arrays[-4].reshape(-1).tolist() != [t] * n:
                return self.evaluate(*arrays)
            for into, array in zip(given, arrays, strict=False):
                np.copyto(into, array)
            calls(None)
            return tuple(out.copy() for out in outs)

        return run

    def run(self, loops: Loops, *inputs: Array) -> Arrays:
        """Run every direction and put them side by side."""
        x, *states, lengths, w, r, b = inputs
        want_lengths(lengths.reshape(-1), x.shape[1], len(states) + 1)
        reverse = self.direction == "reverse"
        return self.scan(loops, x, states, lengths, w, r, b, reverse=reverse)


@op("RNNSequence", since=5)
class RNNSequence(_Rnn, _Sequence):
    """RNNCell along a sequence: x (N, T, I) -> outputs (N, D, T, H), last states (N, D, H).

    Weights have a leading axis of D directions, 2 if it is bidirectional: forward, reverse.
    Each sequence ends after its own length; outputs behind it are 0.  [sequence/RNNSequence-5]
    """


@op("GRUSequence", since=5)
class GRUSequence(_Gru, _Sequence):
    """GRUCell along a sequence, otherwise as RNNSequence.  [sequence/GRUSequence-5]"""


@op("LSTMSequence", since=5)
class LSTMSequence(_Lstm, _Sequence):
    """LSTMCell along a sequence, with two states; otherwise as RNNSequence.

    [sequence/LSTMSequence-1]
    """

    signature = (
        f"{_STEPS_AND_STATE}; {_STATES_OF_CELLS}; {_SEQUENCE_WEIGHTS} -> {_STEPS}; {_LAST}; {_LAST}"
    )


@op("GatherTree", since=1)
class GatherTree(Op):
    """Follow parents from the last step: step_ids, parent_idx (T, N, B) -> sequences (T, N, B).

    Beam b of batch n ends at the step `max_seq_len` (N,) of it, or T; its token at a step is that
    of the beam to which parent_idx leads from the step behind. From the first end_token (a scalar)
    on, and behind the end, all are end_token. Numbers of one type.  [movement/GatherTree-1]
    """

    rounding = JUMPS
    signature = (
        "step_ids: number t [T, N, B]; parent_idx: t [T, N, B]; max_seq_len: t [N]; "
        "end_token: t [] -> t [T, N, B]"
    )

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
                raise value_error(1, text)
            at = np.where(active, beam, 0)
            out[t] = np.where(active, step_ids[t, rows, at], end_token)
            beam = np.where(active, parent_idx[t, rows, at].astype(np.int64), beam)
        ended = np.logical_or.accumulate(out == end_token, 0)
        return np.where(ended, end_token, out).astype(step_ids.dtype)


class _OfClasses(Op):
    """Base of the CTC operations, which need at least one class."""

    def complete(self, at: Fit, *inputs: Spec) -> None:
        if at["C"] == 0:
            raise size_error(0, "there are 0 classes; at least one is needed")


def _check_lengths(lengths: Array, highest: Array | int, port: int, name: str) -> None:
    """Require 0 up to the highest; E305."""
    bad = (lengths < 0) | (lengths > highest)
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        top = np.broadcast_to(highest, lengths.shape)[n]
        raise value_error(port, f"{name} of sequence {n} is {lengths[n]}; it must be 0 to {top}")


@op("CTCGreedyDecoder", since=1)
class CTCGreedyDecoder(_OfClasses):
    """The best class of every step without blanks: data (T, N, C) -> classes (N, T, 1, 1).

    sequence_mask (T, N): a sequence ends at its first 0. The last class is the blank; with
    `ctc_merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    They have data's type; the types may be mixed.  [sequence/CTCGreedyDecoder-1]
    """

    rounding = JUMPS
    signature = "data: real t [T, N, C]; sequence_mask: real [T, N] -> t [N, T, 1, 1]"
    ctc_merge_repeated: bool = True

    def evaluate(self, data: Array, sequence_mask: Array) -> Array:
        want_shapes(self, data, sequence_mask)
        used = np.logical_and.accumulate(sequence_mask != 0, 0).T
        classes, blank = np.argmax(data.astype(np.float32, copy=False), 2).T, data.shape[2] - 1
        out, _ = recurrent.decoded(classes, used, blank, merge=self.ctc_merge_repeated)
        return out.astype(data.dtype)[..., None, None]


@op("CTCGreedyDecoderSeqLen", since=6)
class CTCGreedyDecoderSeqLen(_OfClasses):
    """The best class of every step without blanks: data (N, T, C) -> classes (N, T), counts (N,).

    sequence_length (N,), at most T. blank_index, a third input, is the last class by default; with
    `merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    [sequence/CTCGreedyDecoderSeqLen-6]
    """

    rounding = JUMPS
    signature = (
        "data: real [N, T, C]; sequence_length: integer [N]; blank_index?: integer one "
        "-> classes_index_type [N, T]; sequence_length_type [N]"
    )
    merge_repeated: bool = True
    classes_index_type: IndexType = i32
    sequence_length_type: IndexType = i32

    def evaluate(
        self, data: Array, sequence_length: Array, blank_index: Array | None = None
    ) -> tuple[Array, Array]:
        want_shapes(self, data, sequence_length, blank_index)
        _check_lengths(sequence_length, data.shape[1], 1, "the length")
        blank = data.shape[2] - 1 if blank_index is None else int(blank_index.item())
        used = np.arange(data.shape[1]) < sequence_length[:, None]
        classes = np.argmax(data.astype(np.float32, copy=False), 2)
        out, counts = recurrent.decoded(classes, used, blank, merge=self.merge_repeated)
        kinds = self.classes_index_type.container, self.sequence_length_type.container
        return out.astype(kinds[0]), counts.astype(kinds[1])


@op("CTCLoss", since=4)
class CTCLoss(_OfClasses):
    """Minus the logarithm of the probability of labels: logits (N, T, C) -> (N,).

    logit_length (N,), at most T; labels (N, T), of which label_length (N,) are read, at most
    logit_length; blank_index, a scalar, is the last class by default. `unique` reads every label
    once, `preprocess_collapse_repeated` once in a row. With `ctc_merge_repeated` a label may last,
    and equal neighbours need a blank between them. Absent, that is false in the runtime, true in
    the specification.  [sequence/CTCLoss-4]
    """

    signature = (
        "logits: real t [N, T, C]; logit_length: integer [N]; labels: integer [N, T]; "
        "label_length: integer [N]; blank_index?: integer [] -> t [N]"
    )
    preprocess_collapse_repeated: bool = False
    ctc_merge_repeated: bool = False
    unique: bool = False

    def evaluate(self, logits: Array, logit_length: Array, *others: Array) -> Array:
        want_shapes(self, logits, logit_length, *others)
        labels, label_length, *blank_index = others
        _check_lengths(logit_length, logits.shape[1], 1, "the length of the logits")
        _check_lengths(label_length, logit_length, 3, "the number of labels")
        classes = logits.shape[2]
        blank = int(blank_index[0].item()) if blank_index else classes - 1
        if not 0 <= blank < classes:
            raise value_error(4, f"blank_index is {blank}; there are {classes} classes")
        out = np.zeros(len(logits))
        for n, row in enumerate(logits.astype(np.float64)):
            wanted = self._read(labels[n, : label_length[n]])
            if len(wanted) and not 0 <= wanted.min() <= wanted.max() < classes:
                text = f"labels of sequence {n} reach from {wanted.min()} to {wanted.max()}"
                raise value_error(2, f"{text}; there are {classes} classes")
            steps = row[: logit_length[n]]
            with np.errstate(all="ignore"):  # logits may be infinite
                out[n] = recurrent.loss(steps, wanted, blank, merge=self.ctc_merge_repeated)
        return out.astype(logits.dtype)

    def _read(self, labels: Array) -> Array:
        """Return the labels that count."""
        if self.unique:
            return labels[np.sort(np.unique(labels, return_index=True)[1])]
        if self.preprocess_collapse_repeated:
            return np.asarray(labels[np.append(True, labels[1:] != labels[:-1])[: len(labels)]])
        return labels
