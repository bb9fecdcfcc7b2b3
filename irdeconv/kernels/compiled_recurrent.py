"""Recurrent cells along sequences, compiled: N batch, T steps, H hidden units.

Import it only if jit.available(). Every function takes the projected input (N, T, G*H), whose
memory it uses, the recurrent weights in panels (see `products.column_panels`), and the states
(N, H), which it replaces by the last ones; it writes the outputs (N, T, H). Sequences end after
their own lengths; in reverse they are read from there. Activations are the usual ones, behind a
clip (infinity for none).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.compiled_chain import sigmoids, tangents
from irdeconv.kernels.compiled_sums import multiply_rows
from irdeconv.kernels.jit import compiled, compiled_for

_F = np.float32
_ONE = _F(1)

_ONE_STATE = "void(f4[:,:,::1], f4[:,:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_GRU = "void(f4[:,:,::1], f4[:,:,::1], f4[::1], b1, f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"
_TWO_STATES = "void(f4[:,:,::1], f4[:,:,::1], f4[:,::1], f4[:,::1], i8[::1], f4, b1, f4[:,:,::1])"


@compiled
def _clip(row: Any, clip: Any) -> None:
    for i in range(len(row) if clip < np.inf else 0):
        x = -clip if row[i] < -clip else row[i]
        row[i] = clip if x > clip else x


@compiled
def _add_product(row: Any, h: Any, r: Any, first: int, product: Any) -> None:
    """Write h R, of the panels from `first` on, into `product`, and add its beginning to a row."""
    _, depth, wide = r.shape
    place = first * depth * wide
    for at in range(0, len(product), wide):
        sizes = 1, depth, min(wide, len(product) - at), wide
        multiply_rows(h, (0, 0, 1), r, product, (place, at), sizes)
        place += depth * wide
    for i in range(len(row)):
        row[i] += product[i]


@compiled_for(_ONE_STATE)
def rnn(x: Any, r: Any, hidden: Any, lengths: Any, clip: Any, reverse: bool, out: Any) -> None:
    """H' = tanh(x + H R)."""
    product = np.empty(hidden.shape[1], _F)
    for n in range(len(x)):
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            _add_product(row, hidden[n], r, 0, product)
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
    product, late, acted = np.empty(2 * size, _F), np.empty(size, _F), np.empty(size, _F)
    behind = -(-2 * size // r.shape[2])
    for n in range(len(x)):
        h = hidden[n]
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            gates, update, reset, new = row[: 2 * size], row[:size], row[size:], row[2 * size :]
            _add_product(gates, h, r, 0, product)
            _clip(gates, clip)
            sigmoids(gates, gates, 2 * size)
            if linear:
                _add_product(new[:0], h, r, behind, late)
                for i in range(size):
                    new[i] += reset[i] * (late[i] + reset_bias[i])
            else:
                for i in range(size):
                    acted[i] = reset[i] * h[i]
                _add_product(new, acted, r, behind, late)
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
    product = np.empty(4 * size, _F)
    for n in range(len(x)):
        c, h = cell[n], hidden[n]
        for t in range(lengths[n]):
            at = lengths[n] - 1 - t if reverse else t
            row = x[n, at]
            forget, keep = row[:size], row[size : 2 * size]
            candidate, output = row[2 * size : 3 * size], row[3 * size :]
            _add_product(row, h, r, 0, product)
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
