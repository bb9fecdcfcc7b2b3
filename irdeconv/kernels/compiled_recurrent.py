"""Recurrent cells along sequences, compiled: N batch, T steps, H hidden units.

Import it only if jit.available(). Every function takes the projected input (N, T, G*H), whose
memory it uses, the recurrent weights transposed (H, G*H), and the states (N, H), which it replaces
by the last ones; it writes the outputs (N, T, H). Sequences end after their own lengths; in reverse
they are read from there. Activations are the usual ones, behind a clip (infinity for none).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.compiled_chain import sigmoids, tangents
from irdeconv.kernels.compiled_sums import add_products
from irdeconv.kernels.jit import compiled, compiled_for

_F = np.float32
_ONE = _F(1)

_ONE_STATE = "void(f4[:,:,::1], f4[:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_GRU = "void(f4[:,:,::1], f4[:,::1], f4[::1], b1, f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_TWO_STATES = "void(f4[:,:,::1], f4[:,::1], f4[:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"


@compiled
def _clip(row: Any, clip: Any) -> None:
    for i in range(len(row) if clip < np.inf else 0):
        x = -clip if row[i] < -clip else row[i]
        row[i] = clip if x > clip else x


@compiled_for(_ONE_STATE)
def rnn(x: Any, r: Any, hidden: Any, lengths: Any, clip: Any, reverse: bool, out: Any) -> None:
    """H' = tanh(x + H R)."""
    for n in range(len(x)):
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            add_products(row, hidden[n], r, 0)
            _clip(row, clip)
            tangents(row, row, len(row))
            out[n, at] = row
            hidden[n] = row


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
    behind, acted = np.empty(3 * size, _F), np.empty(size, _F)
    products = np.ascontiguousarray(r[:, : 2 * size])
    for n in range(len(x)):
        h = hidden[n]
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            gates, update, reset, new = row[: 2 * size], row[:size], row[size:], row[2 * size :]
            add_products(row, h, products, 0)
            _clip(gates, clip)
            sigmoids(gates, gates, 2 * size)
            if linear:
                behind[2 * size :] = reset_bias
                add_products(behind, h, r, 2 * size)
                for i in range(size):
                    new[i] += reset[i] * behind[2 * size + i]
            else:
                for i in range(size):
                    acted[i] = reset[i] * h[i]
                add_products(row, acted, r, 2 * size)
            _clip(new, clip)
            tangents(new, new, size)
            for i in range(size):
                h[i] = (_ONE - update[i]) * new[i] + update[i] * h[i]
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
            forget, keep = row[:size], row[size : 2 * size]
            candidate, output = row[2 * size : 3 * size], row[3 * size :]
            add_products(row, h, r, 0)
            _clip(row, clip)
            sigmoids(row, row, 2 * size)
            tangents(candidate, candidate, size)
            sigmoids(output, output, size)
            for i in range(size):
                c[i] = forget[i] * c[i] + keep[i] * candidate[i]
                h[i] = c[i]
            tangents(h, h, size)
            for i in range(size):
                h[i] *= output[i]
            out[n, at] = h
