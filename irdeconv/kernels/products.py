"""Matrix products in the shapes in which OpenBLAS is fast, and what they cost.

OpenBLAS packs both operands unless the product is small; for a narrow operand packing costs more
than the arithmetic. Its kernels for small products (M*K*N up to `SMALL`) read the operands where
they lie, so a narrow product is handed over as a batch of small ones. Rows that lie a multiple of
4 KiB apart fall into the same cache sets, so scratch arrays get a `pitch` that avoids it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.team import Space
from irdeconv.spec import Array

SMALL = 1_000_000  # multiply-adds
STEP = 64  # columns; fewer or uneven ones leave vector lanes idle
ROWS = 16
CALL = 1200.0  # ns of one NumPy call on views


def multiply(a: Array, b: Array, out: Array) -> None:
    """Compute `out [M, N] = a [M, K] @ b [K, N]`; each has one contiguous axis."""
    m, k = a.shape
    n = b.shape[1]
    columns, rows = _split(m, k, n)
    if columns:
        count = n // columns
        done = count * columns
        np.matmul(a, _parts(b, count, columns), out=_parts(out, count, columns))
        if done < n:
            np.matmul(a, b[:, done:], out=out[:, done:])
    elif rows:
        count = m // rows
        done = count * rows
        np.matmul(
            a[:done].reshape(count, rows, k), b, out=out[:done].reshape(count, rows, n)
        )
        if done < m:
            np.matmul(a[done:], b, out=out[done:])
    else:
        np.matmul(a, b, out=out)


def _parts(x: Array, count: int, columns: int) -> Array:
    part: Array = x[:, : count * columns].reshape(x.shape[0], count, columns).transpose(1, 0, 2)
    return part


def _split(m: int, k: int, n: int) -> tuple[int, int]:
    """Return into how many columns or rows a product is split; zero: not."""
    if m * k * n <= SMALL:
        return 0, 0
    columns = min(768, SMALL // (m * k)) // STEP * STEP
    if columns:
        return min(columns, n // STEP * STEP), 0
    rows = SMALL // (k * n) // ROWS * ROWS
    return 0, rows if n <= STEP else 0


def pitch(columns: int, dtype: Any) -> int:
    """Return a distance between rows of `columns` elements that does not alias in the cache."""
    line = 64 // np.dtype(dtype).itemsize
    lines = -(-columns // line)
    return (lines + (lines % 8 == 0)) * line


def matrix(space: Space, rows: int, columns: int, dtype: Any) -> Array:
    """Return scratch memory `[rows, columns]`, each row contiguous."""
    return space.array((rows, pitch(columns, dtype)), dtype)[:, :columns]


def product_cost(m: int, k: int, n: int) -> float:
    """Estimate the nanoseconds of `multiply` on f32 of these sizes."""
    columns, rows = _split(m, k, n)
    work = float(m) * k * n
    if not work:
        return 0.0
    if m * k * n <= SMALL or columns or rows:
        width = columns or n
        waste = (-(-width // 16) * 16) / width * (1 + 2.0 / min(m, 64))
        return work * 0.0192 * waste + 0.06 * m * n + 0.04 * k * n + CALL
    waste = (-(-n // 4) * 4) / n
    return work * 0.0188 * waste + 0.35 * m * k + 0.25 * k * n + 0.10 * m * n + CALL
