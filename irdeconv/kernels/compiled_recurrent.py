"""Recurrent cells along sequences, compiled: N batch, T steps, H hidden units.

Import it only if jit.available(). Every function takes the projected input (N, T, G*H), whose
memory it uses, the recurrent weights transposed (H, G*H), and the states (N, H), which it replaces
by the last ones; it writes the outputs (N, T, H). Sequences end after their own lengths; in reverse
they are read from there. Activations are the usual ones, behind a clip (infinity for none).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.compiled_chain import TANH, TANH_NEAR, _exp, _sigmoid
from irdeconv.kernels.compiled_sums import add_products
from irdeconv.kernels.jit import compiled, compiled_for

_F = np.float32
_ONE, _TWO = _F(1), _F(2)
_T0, _T1, _T2, _T3, _T4 = TANH

_ONE_STATE = "void(f4[:,:,::1], f4[:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_GRU = "void(f4[:,:,::1], f4[:,::1], f4[::1], b1, f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_TWO_STATES = "void(f4[:,:,::1], f4[:,::1], f4[:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"


@compiled
def _tanh(x: Any) -> Any:
    z = x * x
    near = ((((_T0 * z + _T1) * z + _T2) * z + _T3) * z + _T4) * z * x + x
    power = _exp(-_TWO * abs(x))
    far = (_ONE - power) / (_ONE + power)
    return near if abs(x) < TANH_NEAR else (-far if x < 0 else far)


@compiled
def _clipped(x: Any, clip: Any) -> Any:
    x = -clip if x < -clip else x
    return clip if x > clip else x


@compiled_for(_ONE_STATE)
def rnn(x: Any, r: Any, hidden: Any, lengths: Any, clip: Any, reverse: bool, out: Any) -> None:
    """H' = tanh(x + H R)."""
    for n in range(len(x)):
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            add_products(row, hidden[n], r, 0)
            for i in range(len(row)):
                out[n, at, i] = _tanh(_clipped(row[i], clip))
            hidden[n] = out[n, at]


@compiled_for(_GRU)
def gru(
    x: Any,
    r: Any,
    reset_bias: Any,
    linear: bool,
    hidden: Any,
    lengths: Any,
    clip: Any,
    reverse: bool,
    out: Any,
) -> None:
    """H' = (1 - z) n + z H; `linear` lets the reset gate act on the product and its bias."""
    size = hidden.shape[1]
    update, behind = np.empty(size, _F), np.empty(3 * size, _F)
    reset = np.empty(size, _F)
    gates = np.ascontiguousarray(r[:, : 2 * size])
    for n in range(len(x)):
        h = hidden[n]
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            add_products(row, h, gates, 0)
            for i in range(size):
                update[i] = _sigmoid(_clipped(row[i], clip))
                reset[i] = _sigmoid(_clipped(row[size + i], clip))
            behind[2 * size :] = reset_bias
            if linear:
                add_products(behind, h, r, 2 * size)
                for i in range(size):
                    row[2 * size + i] += reset[i] * behind[2 * size + i]
            else:
                for i in range(size):
                    reset[i] *= h[i]
                add_products(row, reset, r, 2 * size)
            for i in range(size):
                new = _tanh(_clipped(row[2 * size + i], clip))
                h[i] = (_ONE - update[i]) * new + update[i] * h[i]
            out[n, at] = h


@compiled_for(_TWO_STATES)
def lstm(
    x: Any, r: Any, hidden: Any, cell: Any, lengths: Any, clip: Any, reverse: bool, out: Any
) -> None:
    """C' = f C + i c, H' = o tanh(C')."""
    size = hidden.shape[1]
    for n in range(len(x)):
        c, h = cell[n], hidden[n]
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            add_products(row, h, r, 0)
            for i in range(2 * size):
                row[i] = _sigmoid(_clipped(row[i], clip))
            for i in range(2 * size, 3 * size):
                row[i] = _tanh(_clipped(row[i], clip))
            for i in range(size):
                c[i] = row[i] * c[i] + row[size + i] * row[2 * size + i]
                h[i] = _sigmoid(_clipped(row[3 * size + i], clip)) * _tanh(c[i])
            out[n, at] = h
