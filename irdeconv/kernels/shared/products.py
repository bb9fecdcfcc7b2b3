"""Matrix products in the shapes in which OpenBLAS is fast, and what they cost.

OpenBLAS packs both operands unless the product is small; for a narrow operand packing costs more
than the arithmetic. Its kernels for AVX-512 read the operands of small products (M*K*N up to
`small_macs`) where they lie, so there a narrow or shallow product is handed over as a batch of
small ones. Rows that lie a multiple of 4 KiB apart fall into the same cache sets, so scratch arrays
get a `pitch` that avoids it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.machine import multiplies_in_place
from irdeconv.kernels.shared.rates import rate, relative, scaled
from irdeconv.kernels.shared.scratch import Space
from irdeconv.spec import Array

CACHED = 1 << 18  # elements of the right operand that stay in the cache while rows go by
COLUMNS = 64
WIDEST = 768  # columns; rows of the right operand that are longer leave the first cache
# Products at least so deep, of at least so many rows and columns, are packed.
PACKED_DEPTH, PACKED_SIDES = 144, 80
FULL_COLUMNS = 16  # fewer or uneven columns leave vector lanes idle
# Columns of a small product are computed 32 at a time. What is left over is computed in parts, and
# each takes as long as so many columns of a whole 32.
WHOLE_COLUMNS, LEFT_COLUMNS = 32, {16: 24.0, 8: 12.5, 4: 7.0, 2: 5.2, 1: 4.5}
FEW_ROWS = 24  # rows of a product up to which a copy of its right operand costs more than it brings
ALIASED_BYTES = 1 << 12  # rows a multiple apart share the few places of one set of the first cache
SUMMED = 1024  # elements of a row that are summed in one go, at most
CALL = 1200.0  # ns of one NumPy call on views, where the rates were fitted
NEAR_LEFT = 1 << 20  # elements of a left matrix that do not come from memory every time
CALLS = 3  # of NumPy, at most, for a product in tiles


@dataclass(frozen=True, kw_only=True)
class ProductRates:
    """Nanoseconds of `multiply` on f32.

    In small products (`tiled`) and in those that OpenBLAS packs: each multiply-add, and each
    element of the left, right and result matrix.
    """

    call: float = rate("call", 1296)
    outer_row: float = rate("call", 22.5)  # each row of an outer product
    outer: float = rate("added", 0.0414)  # and each element
    tile: float = rate("call", 351)  # each small product of those that a larger one is cut into
    stacked: float = rate("call", 45)  # each small product of a stack
    stacked_packed: float = rate("call", 40)  # and more where OpenBLAS packs it
    tiled: float = rate("product", 0.0158)
    tiled_left: float = rate("copy", 0.00288)
    tiled_right: float = rate("copy", 0.0215)
    tiled_result: float = rate("copy", 0.0215)
    packed: float = rate("product", 0.0141)
    packed_left: float = rate("copy", 0.186)
    packed_right: float = rate("copy", 0.164)
    packed_result: float = rate("copy", 0.0093)
    far_left: float = rate("far", 0.3)  # each element of a left matrix beyond `NEAR_LEFT`


PRODUCT = ProductRates()

ProductCall = tuple[np.ufunc, Array, Array, Array]  # a ufunc, its operands and its result


def call_cost() -> float:
    """Return the nanoseconds of one NumPy call on views."""
    return CALL * relative().call


def multiply(a: Array, b: Array, out: Array) -> None:
    """Compute `out [M, N] = a [M, K] @ b [K, N]`; the rows of each are contiguous.

    All three may be stacks of as many matrices, which take no more calls than one.
    """
    for fn, left, right, result in product_calls(a, b, out):
        fn(left, right, out=result)


def product_calls(a: Array, b: Array, out: Array) -> list[ProductCall]:
    """Return the calls of NumPy that `multiply` makes, to be made often: `fn(x, y, out=z)`."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if k == 1:  # BLAS is not made for that
        return [(np.multiply, a, b, out)]
    rows, columns = tile(m, k, n)
    if not rows:
        return [(np.matmul, a, b, out)]
    p, q = m // rows, n // columns
    high, wide = p * rows, q * columns
    stack, d = a.shape[:-2], a.ndim - 2
    lead = range(d)
    right = b[..., :wide].reshape(*stack, k, q, 1, columns)
    result = out[..., :high, :wide].reshape(*stack, p, rows, q, columns)
    left = a[..., :high, :].reshape(*stack, 1, p, rows, k)
    right = right.transpose(*lead, d + 1, d + 2, d, d + 3)
    result = result.transpose(*lead, d + 2, d, d + 1, d + 3)
    found: list[ProductCall] = [(np.matmul, left, right, result)]
    if high < m:
        found += product_calls(a[..., high:, :], b[..., :wide], out[..., high:, :wide])
    if wide < n:
        found += product_calls(a, b[..., wide:], out[..., wide:])
    return found


def tile(m: int, k: int, n: int) -> tuple[int, int]:
    """Return the rows and columns of the small products a product is split into, or zeros."""
    small = blocking.SIZES.small_macs
    if not multiplies_in_place() or m * k * n <= small or k == 0:
        return 0, 0
    if k >= PACKED_DEPTH and min(m, n) >= PACKED_SIDES:
        return 0, 0
    columns = n if n < 2 * COLUMNS and small // (k * n) >= 8 else min(n, COLUMNS)
    rows = min(m, small // (k * columns))
    if rows == m:
        fit = min(WIDEST, small // (k * m) // COLUMNS * COLUMNS)
        return m, min(n, max(columns, fit))
    if rows < (16 if n > 2 * COLUMNS else 8) or k * n > (2 if m * k <= CACHED // 4 else 1) * CACHED:
        return 0, 0
    rows = rows // 16 * 16 or 8
    pieces = _ceil(m, rows)
    return min(rows, _ceil(_ceil(m, pieces), 8) * 8), columns


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def lanes(columns: int) -> int:
    """Round a number of columns up to whole vectors."""
    return -(-columns // FULL_COLUMNS) * FULL_COLUMNS


def columns_computed(columns: int) -> float:
    """Return how many full columns take as long as so many of a small product."""
    if not multiplies_in_place():
        return lanes(columns)
    left = columns % WHOLE_COLUMNS
    return columns - left + sum(time for size, time in LEFT_COLUMNS.items() if left & size)


def pitch(columns: int, dtype: Any) -> int:
    """Return a distance between rows of `columns` elements that does not alias in the cache."""
    line = 64 // int(np.dtype(dtype).itemsize)
    lines = -(-columns // line)
    return (lines + (lines % 8 == 0)) * line


def aliases(stride: int) -> bool:
    """Whether rows that many bytes apart compete for the same places in the cache.

    Packing, which OpenBLAS's other kernels do, is a copy of its own.
    """
    return stride % ALIASED_BYTES == 0 and multiplies_in_place()


def worth_copying(rows: int, stride: int) -> bool:
    """Whether a right operand is worth a copy, whose rows are `stride` bytes apart."""
    return rows > FEW_ROWS and aliases(stride)


def matrix(space: Space, rows: int, columns: int, dtype: Any) -> Array:
    """Return scratch memory `[rows, columns]`, each row contiguous."""
    return space.array((rows, pitch(columns, dtype)), dtype)[:, :columns]


def product_cost(m: int, k: int, n: int, rates: ProductRates | None = None) -> float:
    """Estimate the nanoseconds of `multiply` on f32 of these sizes."""
    work = float(m) * k * n
    if not work:
        return 0.0
    rates = rates or scaled(PRODUCT)
    fixed = rates.call + rates.far_left * max(0, m * k - NEAR_LEFT)
    if k == 1:
        return rates.outer_row * m + rates.outer * work + fixed
    rows, columns = tile(m, k, n)
    if work <= blocking.SIZES.small_macs or rows:
        width = columns or n
        waste = columns_computed(n) / n * (1 + 2.0 / (rows or m))
        tiles = (m / rows) * (n / width) if rows else 1
        cost = work * rates.tiled * waste + rates.tiled_left * m * k + rates.tiled_result * m * n
        return cost + rates.tiled_right * k * n + rates.tile * tiles + fixed
    cost = work * rates.packed * (lanes(n) / n) + rates.packed_left * m * k
    return cost + rates.packed_right * k * n + rates.packed_result * m * n + fixed


def stack_cost(count: int, m: int, k: int, n: int) -> float:
    """Estimate the nanoseconds of `multiply` on stacks of matrices."""
    rates = scaled(PRODUCT)
    far = max(0, count * m * k - NEAR_LEFT) - count * max(0, m * k - NEAR_LEFT)
    each = product_cost(m, k, n) - rates.call
    if k > 1 and m * k * n <= blocking.SIZES.small_macs:
        each += rates.stacked - rates.tile
        if m > 1 and not multiplies_in_place():
            each += rates.stacked_packed
    return float(count * max(0.0, each) + CALLS * call_cost() + rates.far_left * far)


def row_sums(rows: Array, space: Space) -> Array:
    """Return the sums `[R]` of C-contiguous float rows `[R, n]`, as products with ones.

    Equal pieces of long rows are summed first, so that the error does not grow with n.
    """
    count, n = rows.shape
    total = space.array((count,), rows.dtype)
    piece = _summed(n)
    if piece == n:
        np.matmul(rows, _ones(n, rows.dtype), out=total)
    elif piece < 64:
        np.add.reduce(rows, axis=1, out=total)
    else:
        parts = space.array((count * (n // piece),), rows.dtype)
        np.matmul(rows.reshape(-1, piece), _ones(piece, rows.dtype), out=parts)
        np.add.reduce(parts.reshape(count, -1), axis=1, out=total)
    return total


@lru_cache(maxsize=256)
def _summed(n: int) -> int:
    """Return the largest divisor up to `SUMMED`."""
    return next(d for d in range(min(n, SUMMED), 0, -1) if n % d == 0)


@lru_cache(maxsize=64)
def _ones(count: int, dtype: Any) -> Array:
    return np.ones(count, dtype)
