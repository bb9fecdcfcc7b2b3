"""What makes numbers of random words, bit for bit as OpenVINO's CPU does."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.random import philox, twister
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.spec import Array

CONVERTED_AT_ONCE = 1 << 13  # numbers


def uniform(size: int, low: Array, high: Array, seeds: tuple[int, int], *, torch: bool) -> Array:
    """Return `size` numbers from `low` up to `high` (scalars, f32, bf16, i32 or i64).

    `seeds` are the global one and that of the operation. With `torch` they come from the Mersenne
    Twister, which takes the global one alone, otherwise from Philox.
    """
    per_number = 2 if low.dtype == np.int64 else 1
    count = size * per_number
    if torch:
        drawn = twister.words(seeds[0], count)
    else:
        drawn = philox.words(*seeds, -(-count // 4)).reshape(-1)[:count]
    with np.errstate(all="ignore"):
        if low.dtype.kind == "i":
            return _remainders(drawn, low, high, torch=torch)
        narrow = low.dtype.itemsize == 2
        bits = 7 if narrow else 23
        part = drawn & np.uint32((1 << bits + torch) - 1)
        first, span = low.astype(np.float32), high.astype(np.float32) - low.astype(np.float32)
        span = _cut(span) if narrow else span
        found = _summed(part, bits + 1, first, span) if torch else _fused(part, bits, first, span)
        return (_cut(found) if narrow and torch else found).astype(low.dtype)


def _cut(x: Array) -> Array:
    """Return f32 as numbers of bf16 as OpenVINO rounds: half up behind an odd digit, else down."""
    bits = np.asarray(x).view(np.uint32)
    rounded = (bits + ((bits & np.uint32(1 << 16)) >> np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def _fused(part: Array, bits: int, low: Array, span: Array) -> Array:
    """Return part / 2^bits * span + low, the product not rounded."""
    out = np.empty(part.shape, np.float32)
    for piece in pieces(part.size, CONVERTED_AT_ONCE):
        product = part[piece] * (np.float64(span) / 2**bits)  # exact
        out[piece] = rounded_sum(product, float(low)) if low else product
    return out


def _summed(part: Array, bits: int, low: Array, span: Array) -> Array:
    return np.asarray(part.astype(np.float32) * np.float32(2.0**-bits) * span + low)


def rounded_sum(a: Array, b: float) -> Array:
    """Return a + b of doubles, rounded once, to f32."""
    total = a + b
    back = total - a
    rest = (a - (total - back)) + (b - back)  # what the sum lost, exactly
    # Where it lost something, an odd last bit keeps the second rounding from seeing a tie.
    bits = total.view(np.int64)
    step = np.where((rest > 0) == (total > 0), 1, -1)
    even = (rest != 0) & (bits % 2 == 0) & np.isfinite(total)
    return np.where(even, bits + step, bits).view(np.float64).astype(np.float32)


def _remainders(drawn: Array, low: Array, high: Array, *, torch: bool) -> Array:
    """Return word mod (high - low) + low, of two words where the numbers have 64 bits.

    A difference beyond 32 bits wraps and is negative: then quotients are rounded down after the
    Twister and towards zero after Philox.
    """
    kind = low.dtype
    wide = drawn.astype(np.uint64)
    if kind == np.int64:
        wide = (wide[0::2] << np.uint64(32)) + wide[1::2]
        return (wide % np.uint64(int(high) - int(low))).astype(np.int64) + low
    remainder = np.mod if torch else np.fmod
    return remainder(wide.astype(np.int64), np.int64(high - low)).astype(kind) + low
