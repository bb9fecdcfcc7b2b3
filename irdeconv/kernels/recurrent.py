"""Recurrent cells along a sequence: N batch, T steps, I inputs, H hidden units, G gates; and CTC.

A step maps the projected input (N, G*H) and the states, each (N, H), to the next states; the first
state is also the output. CTC puts blanks between labels, and a label may last.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels.elementwise import Rule, clip_loop, in_place
from irdeconv.kernels.numpy_calls import (
    FEW_ELEMENTS,
    KeptCalls,
    NumPyCall,
    NumPyCalls,
    kept,
    make,
    moved,
)
from irdeconv.kernels.products import column_panels


def decoded(classes: Array, used: Array, blank: int, *, merge: bool) -> tuple[Array, Array]:
    """Return the classes (N, T) that are no blanks, at the left with -1 behind, and their number.

    `merge` leaves out a class that follows itself at once. Only steps that are `used` count.
    """
    kept = used & (classes != blank)
    if merge:
        kept[:, 1:] &= classes[:, 1:] != classes[:, :-1]
    order = np.argsort(~kept, 1, kind="stable")
    counts = np.count_nonzero(kept, 1)
    packed = np.take_along_axis(classes, order, 1)
    return np.where(np.arange(classes.shape[1]) < counts[:, None], packed, -1), counts


def loss(logits: Array, labels: Array, blank: int, *, merge: bool) -> float:
    """Return minus the logarithm of the probability of labels (L,), given logits (T, C).

    It is the sum over all paths: a blank may precede, separate and follow labels and may last;
    with `merge` labels may last too, and equal neighbours need a blank between them.
    """
    if not len(logits):
        return np.inf if len(labels) else 0.0
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    top = logits.max(1, keepdims=True)
    shares = logits - top - np.log(np.sum(np.exp(logits - top), 1, keepdims=True))
    steps = shares[:, states]
    stays = np.where(merge | (states == blank), 0.0, -np.inf)
    source, target = states[:-2], states[2:]
    skips = np.where((source != blank) & ((not merge) | (source != target)), 0.0, -np.inf)
    paths = np.full(len(states), -np.inf)
    paths[:2] = steps[0, :2]
    for step in steps[1:]:
        new = paths + stays
        new[1:] = np.logaddexp(new[1:], paths[:-1])
        new[2:] = np.logaddexp(new[2:], paths[:-2] + skips)
        paths = new + step
    total = -float(np.logaddexp.reduce(paths[-2:]))
    # Rounding may leave a probability just above 1; labels that are the blank go far beyond it.
    return 0.0 if -1e-9 < total < 0 else total


States = tuple[Array, ...]
StepCalls = Generator[NumPyCall, None, Any]  # they return the next states
Cell = Literal["rnn", "gru", "lstm"]
MOST_SEQUENCES = 8  # sequences at once, above which products of matrices are faster


@dataclass
class CompiledScan:
    """The scan of a cell in f32 with its usual activations and constant r (G*H, H), compiled."""

    cell: Cell
    clip: float
    linear: bool
    r: Array
    _loops: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        jit.load()
        gates = self.r.T
        # The candidate of a GRU is multiplied later than its gates.
        first = 2 * len(gates) if self.cell == "gru" else gates.shape[1]
        self.r = column_panels(gates[:, :first], gates[:, first:])
        from irdeconv.kernels import compiled_recurrent as loops

        self._loops = loops

    def scan(
        self, x: Array, states: States, lengths: Array, reset_bias: Array, *, reverse: bool
    ) -> list[Array]:
        """Run one direction over x (N, T, G*H), whose memory is used, as `NumPyCell.scan`."""
        out = np.zeros((*x.shape[:2], states[0].shape[-1]), np.float32)
        ends = [np.array(s, np.float32, order="C") for s in states]
        counts = np.array(lengths, np.int64)
        clip = np.float32(self.clip if self.clip > 0 else np.inf)
        given, rest = (np.ascontiguousarray(x), self.r), (counts, clip, reverse)
        if self.cell == "gru":
            size = ends[0].shape[-1]
            bias = reset_bias if self.linear else np.zeros(size, np.float32)
            self._loops.gru(*given, np.array(bias), self.linear, *ends, *rest, out)
        else:
            loop = self._loops.lstm if self.cell == "lstm" else self._loops.rnn
            loop(*given, *ends, *rest, out)
        return [out, *ends]


@dataclass(frozen=True)
class NumPyCell:
    """A cell in D directions with the weights r (D, G*H, H), by calls of NumPy.

    `late` (D, 1, H) is the bias of a product that the reset gate acts on (linear_before_reset);
    without it that gate acts on the state.
    """

    cell: Cell
    activations: Sequence[Rule]
    clip: float
    r: Array
    late: Array | None = None

    def scan(self, x: Array, states: States, lengths: Array, reverse: bool) -> list[Array]:
        """Run over x (D, N, T, G*H) from states (N, D, H); return (N, D, T, H) and last states.

        Each sequence ends after its own length; the outputs behind it are 0, its states stay. In
        `reverse`, as in a second direction, it is read and written from its own end.
        """
        size = states[0].shape[-1]
        out = np.zeros((x.shape[1], len(x), x.shape[2], size), x.dtype)
        ends = [s.copy() for s in states]
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            if not length:
                continue
            turns, some = _turns(len(x), reverse), x[:, rows, :length]
            some = np.stack([a[:, ::turn] for a, turn in zip(some, turns, strict=True)])
            some = some.reshape(*some.shape[:3], -1, size).transpose(2, 3, 0, 1, 4)
            y = np.empty((length, *some.shape[2:]), x.dtype)
            last: Any = make(self.calls(some, tuple(s[rows].swapaxes(0, 1) for s in states), y))
            for d, turn in enumerate(turns):
                out[rows, d, :length] = y[::turn, d].swapaxes(0, 1)
            for end, state in zip(ends, last, strict=True):
                end[rows] = state.swapaxes(0, 1)
        return [out, *ends]

    def kept(
        self, x: Array, w: Array, bias: Array, states: States, outs: Sequence[Array], reverse: bool
    ) -> KeptCalls | None:
        """Return the calls of `scan` over whole sequences (N, T, I), which they project first."""
        (n, t, depth), many, size = x.shape, len(w), states[0].shape[-1]
        turns, inputs = _turns(many, reverse), np.empty((many, n * t, depth), x.dtype)
        sums, gates = np.empty((many, n * t, w.shape[1]), x.dtype), w.shape[1] // size
        steps = np.empty((t, gates, many, n, size), x.dtype)
        y = np.empty((t, many, n, size), x.dtype)

        def calls() -> NumPyCalls:
            for d, turn in enumerate(turns):
                yield moved, (x[:, ::turn],), inputs[d].reshape(x.shape)
            yield np.matmul, (inputs, w.swapaxes(1, 2)), sums
            yield np.add, (sums, bias[:, None]), sums
            each = sums.reshape(many, n, t, gates, size).transpose(2, 3, 0, 1, 4)
            yield moved, (each,), steps
            last: Any = yield from self.calls(steps, tuple(s.swapaxes(0, 1) for s in states), y)
            for d, turn in enumerate(turns):
                yield moved, (y[::turn, d].swapaxes(0, 1),), outs[0][:, d]
            for state, out in zip(last, outs[1:], strict=True):
                yield moved, (state.swapaxes(0, 1),), out
            return outs[0]

        return kept(x, calls(), x.size)

    def calls(self, x: Array, states: States, y: Array) -> StepCalls:
        """Return the calls over x (T, G, D, N, H) from states (D, N, H); they write y (T, D, N, H).

        What they return are the last states. NumPy is slow where few elements are not neighbours,
        so the gates lie one behind the other.
        """
        step = {"rnn": self._rnn, "gru": self._gru, "lstm": self._lstm}[self.cell]
        total = np.empty(x.shape[1:], x.dtype)
        size, spare = x.shape[4], np.empty((2, *x.shape[2:]), x.dtype)
        r = self.r.reshape(len(self.r), -1, size, size).transpose(1, 0, 3, 2)
        r = np.ascontiguousarray(r) if r.size <= FEW_ELEMENTS else r
        for now, out in zip(x, y, strict=True):
            states = yield from step(now, states, out, r, total, spare)
        return states

    def _active(self, rule: Rule, x: Array) -> NumPyCalls:
        if self.clip > 0:
            ends = np.array(-self.clip, x.dtype), np.array(self.clip, x.dtype)
            yield clip_loop, (x, *ends), x
        yield from in_place(rule, x)
        return x

    def _rnn(
        self, x: Array, states: States, y: Array, r: Array, total: Array, _: Array
    ) -> StepCalls:
        """H' = f(x + H R)."""
        yield np.matmul, (states[0], r), total
        yield np.add, (total, x), total
        yield from self._active(self.activations[0], total)
        yield moved, (total[0],), y
        return (y,)

    def _gru(
        self, x: Array, states: States, y: Array, r: Array, total: Array, spare: Array
    ) -> StepCalls:
        """H' = (1 - z) n + z H, gates z, r, n."""
        (f, g), (h,), (update, reset, new), more = self.activations, states, total, spare[0]
        yield np.matmul, (h, r[:2]), total[:2]
        yield np.add, (total[:2], x[:2]), total[:2]
        yield from self._active(f, total[:2])
        if self.late is None:
            yield np.multiply, (reset, h), more
            yield np.matmul, (more, r[2]), new
        else:
            yield np.matmul, (h, r[2]), new
            yield np.add, (new, self.late), new
            yield np.multiply, (reset, new), new
        yield np.add, (x[2], new), new
        yield from self._active(g, new)
        yield np.subtract, (np.ones((), x.dtype), update), more
        yield np.multiply, (more, new), new
        yield np.multiply, (update, h), more
        yield np.add, (new, more), y
        return (y,)

    def _lstm(
        self, x: Array, states: States, y: Array, r: Array, total: Array, spare: Array
    ) -> StepCalls:
        """C' = f C + i c, H' = o h(C'), gates f, i, c, o."""
        (f, g, h), (hidden, cell), (new, more) = self.activations, states, spare
        forget, keep, candidate, output = total
        yield np.matmul, (hidden, r), total
        yield np.add, (total, x), total
        yield from self._active(f, total[:2])
        yield from self._active(g, candidate)
        yield from self._active(f, output)
        yield np.multiply, (forget, cell), new
        yield np.multiply, (keep, candidate), more
        yield np.add, (new, more), new
        yield moved, (new,), more
        yield from in_place(h, more)
        yield np.multiply, (output, more), y
        return (y, new)


def _turns(directions: int, reverse: bool) -> tuple[int, ...]:
    return (1, -1) if directions == 2 else (-1 if reverse else 1,)
