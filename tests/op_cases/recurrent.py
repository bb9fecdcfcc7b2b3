"""RNN, GRU and LSTM cells and sequences.

Expected numbers come from the formulas, unit by unit in Python's own floating point.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from op_cases import ROUNDING, Case, Tensor, case, f32, i32

Vector = list[float]
Cell = Callable[[Vector, list[Vector], Any, Any, Vector], list[Vector]]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def relu(x: float) -> float:
    return max(x, 0.0)


def dot(row: Sequence[float], vector: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(row, vector, strict=True))


def rnn_cell(f: Any = math.tanh) -> Cell:
    def step(x: Vector, states: list[Vector], w: Any, r: Any, b: Vector) -> list[Vector]:
        (h,) = states
        return [[f(dot(w[k], x) + dot(r[k], h) + b[k]) for k in range(len(h))]]

    return step


def gru_cell(*, linear: bool = False, clip: float = math.inf) -> Cell:
    def cut(v: float) -> float:
        return min(max(v, -clip), clip)

    def step(x: Vector, states: list[Vector], w: Any, r: Any, b: Vector) -> list[Vector]:
        (h,) = states
        n = len(h)
        z = [sigmoid(cut(dot(w[k], x) + dot(r[k], h) + b[k])) for k in range(n)]
        reset = [sigmoid(cut(dot(w[n + k], x) + dot(r[n + k], h) + b[n + k])) for k in range(n)]
        scaled = [a * c for a, c in zip(reset, h, strict=True)]
        new = []
        for k in range(n):
            if linear:
                inner = reset[k] * (dot(r[2 * n + k], h) + b[3 * n + k])
            else:
                inner = dot(r[2 * n + k], scaled)
            candidate = math.tanh(cut(dot(w[2 * n + k], x) + inner + b[2 * n + k]))
            new.append((1 - z[k]) * candidate + z[k] * h[k])
        return [new]

    return step


def lstm_cell(f: Any = sigmoid, g: Any = math.tanh, h: Any = math.tanh, clip: Any = 1e9) -> Cell:
    def step(x: Vector, states: list[Vector], w: Any, r: Any, b: Vector) -> list[Vector]:
        hidden, cell = states
        n = len(hidden)

        def gate(number: int, k: int, function: Any) -> float:
            row = number * n + k
            return function(min(max(dot(w[row], x) + dot(r[row], hidden) + b[row], -clip), clip))

        new = [gate(0, k, f) * cell[k] + gate(1, k, f) * gate(2, k, g) for k in range(n)]
        return [[gate(3, k, f) * h(new[k]) for k in range(n)], new]

    return step


def values(seed: int, *shape: int) -> Tensor:
    return f32(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))


# Three steps, each of up to as many rounded terms as there are units and inputs.
LOOSE = 64 * ROUNDING
N, T, INPUTS, H = 2, 3, 4, 3


def cell_row(
    op: str,
    attributes: str,
    cell: Cell,
    states: int,
    gates: int,
    bias: int,
    *,
    without_bias: bool = False,
    more: Sequence[Tensor] = (),
) -> Case:
    x, given = values(1, N, INPUTS), [values(2 + s, N, H) for s in range(states)]
    w, r, b = values(5, gates * H, INPUTS), values(6, gates * H, H), values(7, bias * H)
    if without_bias:
        b = f32([0] * bias * H)
    outs = [
        cell(list(x.values[n]), [list(s.values[n]) for s in given], w.values, r.values, b.values)
        for n in range(N)
    ]
    wanted = [f32([outs[n][s] for n in range(N)]) for s in range(states)]
    text = f'hidden_size="{H}" {attributes}'
    inputs = [x, *given, w, r, *([] if without_bias else [b]), *more]
    return case(op, text, inputs, wanted, tolerance=LOOSE)


def sequence_row(
    op: str,
    attributes: str,
    cell: Cell,
    sizes: tuple[int, int, int],
    lengths: Sequence[int] = (T, T),
    directions: str = "f",
    twice: str = "",
    **more: Any,
) -> Case:
    """A sequence in the directions `f`, `r` or `fr`; sizes: states, gates, gates of the bias.

    `twice` are activations of the second direction, which the runtime does not look at.
    """
    states, gates, bias = sizes
    d = len(directions)
    x, given = values(11, N, T, INPUTS), [values(12 + s, N, d, H) for s in range(states)]
    w, r, b = values(15, d, gates * H, INPUTS), values(16, d, gates * H, H), values(17, d, bias * H)
    out, last = np.zeros((N, d, T, H)), np.zeros((states, N, d, H))
    for n in range(N):
        for k, direction in enumerate(directions):
            now = [list(s.values[n, k]) for s in given]
            steps = range(lengths[n])
            for t in steps if direction == "f" else reversed(steps):
                now = cell(list(x.values[n, t]), now, w.values[k], r.values[k], b.values[k])
                out[n, k, t] = now[0]
            last[:, n, k] = now
    name = {"f": "forward", "r": "reverse", "fr": "bidirectional"}[directions]
    usual = {1: "tanh", 3: "sigmoid,tanh", 4: "sigmoid,tanh,tanh"}[gates]
    if twice:
        usual = f"{usual},{twice}"
    # The specification has these defaults; OpenVINO's reader fails without the attribute.
    text = f'hidden_size="{H}" direction="{name}" activations="{usual}" {attributes}'
    inputs = [x, *given, i32(lengths), w, r, b]
    return case(op, text, inputs, [f32(out), *map(f32, last)], tolerance=LOOSE, **more)


RNN, GRU, LINEAR, LSTM = (1, 1, 1), (1, 3, 3), (1, 3, 4), (2, 4, 4)
CLIPPED = 'clip="0.25"'
RELU = 'activations="relu,relu,relu"'

CASES = [
    cell_row("RNNCell-3", "", rnn_cell(), *RNN),
    cell_row("RNNCell-1", "", rnn_cell(), *RNN),
    cell_row("RNNCell-16", 'activations="relu"', rnn_cell(relu), *RNN),
    cell_row("GRUCell-3", "", gru_cell(), *GRU),
    cell_row("GRUCell-3", 'linear_before_reset="true"', gru_cell(linear=True), *LINEAR),
    cell_row("GRUCell-3", CLIPPED, gru_cell(clip=0.25), *GRU),
    cell_row("LSTMCell-4", "", lstm_cell(), *LSTM),
    cell_row("LSTMCell-4", CLIPPED, lstm_cell(clip=0.25), *LSTM),
    cell_row("LSTMCell-4", RELU, lstm_cell(relu, relu, relu), *LSTM),
    cell_row("LSTMCell-1", "", lstm_cell(), *LSTM),
    cell_row("LSTMCell-1", 'weights_format="fico"', lstm_cell(), *LSTM, without_bias=True),
    # The runtime looks neither at the gates' order nor at what couples them nor at peepholes.
    cell_row("LSTMCell-2", 'weights_format="iofc"', lstm_cell(), *LSTM),
    cell_row("LSTMCell-3", 'input_forget="true"', lstm_cell(), *LSTM),
    cell_row("LSTMCell-3", CLIPPED, lstm_cell(clip=0.25), *LSTM, more=[values(8, 3 * H)]),
    sequence_row("RNNSequence-5", "", rnn_cell(), RNN),
    sequence_row("RNNSequence-5", "", rnn_cell(), RNN, directions="fr", twice="relu"),
    sequence_row("RNNSequence-5", "", rnn_cell(), RNN, (1, 3), "r"),
    sequence_row("GRUSequence-5", "", gru_cell(), GRU, (3, 2)),
    sequence_row("GRUSequence-5", "", gru_cell(), GRU, (2, 2), "fr"),
    sequence_row(
        "GRUSequence-5", 'linear_before_reset="true"', gru_cell(linear=True), LINEAR, (3, 1), "r"
    ),
    sequence_row("LSTMSequence-5", "", lstm_cell(), LSTM),
    sequence_row("GRUSequence-5", "", gru_cell(), GRU, (2, 3), "fr", "sigmoid,tanh"),
    sequence_row("LSTMSequence-5", "", lstm_cell(), LSTM, (1, 3), "fr"),
    sequence_row("LSTMSequence-5", "", lstm_cell(), LSTM, (3, 3), "fr", "sigmoid,tanh,tanh"),
    sequence_row("LSTMSequence-16", CLIPPED, lstm_cell(clip=0.25), LSTM, (3, 2), "r"),
]
