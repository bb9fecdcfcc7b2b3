"""Recurrent cells along a sequence: N batch, T steps, I inputs, H hidden units, G gates; and CTC.

A step maps the projected input (N, G*H) and the states, each (N, H), to the next states; the first
state is also the output. CTC puts blanks between labels, and a label may last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit


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
Step = Callable[[Array, States], States]
Activation = Callable[[Array], Array]
Cell = Literal["rnn", "gru", "lstm"]
MOST_SEQUENCES = 8  # sequences at once, above which products of matrices are faster


def scan(step: Step, x: Array, states: States, lengths: Array, *, reverse: bool) -> list[Array]:
    """Run a cell over x (N, T, G*H); returns the outputs (N, T, H) and the last states.

    Each sequence ends after its own length; the outputs behind it are 0, its states stay. In
    reverse it is read, and its outputs are written, from its own end.
    """
    out = np.zeros((*x.shape[:2], states[0].shape[-1]), x.dtype)
    whole = bool(np.all(lengths == x.shape[1]))
    for t in range(x.shape[1]):
        if whole:  # without the copies of rows
            at = x.shape[1] - 1 - t if reverse else t
            states = step(x[:, at], states)
            out[:, at] = states[0]
            continue
        active = np.flatnonzero(t < lengths)
        if not active.size:
            break
        at = lengths[active] - 1 - t if reverse else t
        new = step(x[active, at], tuple(s[active] for s in states))
        out[active, at] = new[0]
        states = tuple(_put(s, active, n) for s, n in zip(states, new, strict=True))
    return [out, *states]


def _put(old: Array, rows: Array, new: Array) -> Array:
    if len(rows) == len(old):
        return new
    out = old.copy()
    out[rows] = new
    return out


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
        self.r = np.array(self.r.T, order="C")  # loops take no memory that is read only
        from irdeconv.kernels import compiled_recurrent as loops

        self._loops = loops

    def scan(
        self, x: Array, states: States, lengths: Array, reset_bias: Array, *, reverse: bool
    ) -> list[Array]:
        """Run over x (N, T, G*H), whose memory is used, as `scan` does."""
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


def rnn(r: Array, activations: Sequence[Activation], clip: Activation) -> Step:
    """H' = f(x + H R), with r (H, H)."""
    (f,) = activations

    def step(x: Array, states: States) -> States:
        return (f(clip(x + np.matmul(states[0], r.T))),)

    return step


def gru(
    r: Array, activations: Sequence[Activation], clip: Activation, reset_bias: Array | None = None
) -> Step:
    """H' = (1 - z) n + z H, gates z, r, n; r (3H, H).

    With `reset_bias` (H,) the reset gate acts on the product (linear_before_reset), otherwise on
    the state.
    """
    f, g = activations
    size = r.shape[-1]
    gates, candidate = r[: 2 * size].T, r[2 * size :].T

    def step(x: Array, states: States) -> States:
        (h,) = states
        both = f(clip(x[:, : 2 * size] + np.matmul(h, gates)))
        update, reset = both[:, :size], both[:, size:]
        if reset_bias is None:
            inner = np.matmul(reset * h, candidate)
        else:
            inner = reset * (np.matmul(h, candidate) + reset_bias)
        return ((1 - update) * g(clip(x[:, 2 * size :] + inner)) + update * h,)

    return step


def lstm(r: Array, activations: Sequence[Activation], clip: Activation) -> Step:
    """C' = f C + i c, H' = o h(C'), gates f, i, c, o; r (4H, H)."""
    f, g, h = activations

    def step(x: Array, states: States) -> States:
        hidden, cell = states
        gates = clip(x + np.matmul(hidden, r.T))
        forget, keep, candidate, output = gates.reshape(len(x), 4, r.shape[-1]).swapaxes(0, 1)
        cell = f(forget) * cell + f(keep) * g(candidate)
        return f(output) * h(cell), cell

    return step
