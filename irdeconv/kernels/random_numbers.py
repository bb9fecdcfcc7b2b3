"""Random words (Philox 4x32 with ten rounds, Mersenne Twister MT19937), and numbers made of them.

The numbers are those of OpenVINO's CPU, bit for bit. MT19937 is seeded with a number, or with a
sequence as in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels.scratch import pieces

PHILOX_ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
GROUPS_AT_ONCE = 1 << 13  # groups of four words that are computed at a time
_WORD = 0xFFFFFFFF


def words(key: int, counter: int, groups: int) -> Array:
    """Return four words for each number 0 to `groups`, uint32 [groups, 4]; arguments: 64 bits."""
    out = np.empty((groups, 4), np.uint32)
    for part in pieces(groups, GROUPS_AT_ONCE):
        number = np.arange(part.start, part.stop, dtype=np.uint64)
        out[part] = _block(key, counter, number).T
    return out


def _block(key: int, counter: int, number: Array) -> Array:
    keys = [key & _WORD, key >> 32 & _WORD]
    mask, half = np.uint64(_WORD), np.uint64(32)
    n0, n1 = number & mask, number >> half
    c0 = np.full_like(number, counter & _WORD)
    c1 = np.full_like(number, counter >> 32 & _WORD)
    for _ in range(PHILOX_ROUNDS):
        first, second = n0 * np.uint64(MULTIPLIERS[0]), c0 * np.uint64(MULTIPLIERS[1])
        n0, n1 = (second >> half) ^ n1 ^ np.uint64(keys[0]), second & mask
        c0, c1 = (first >> half) ^ c1 ^ np.uint64(keys[1]), first & mask
        keys = [(k + step) & _WORD for k, step in zip(keys, KEY_STEPS, strict=True)]
    return np.stack([n0, n1, c0, c1])


def draw(chances: Array, drawn: Array, *, again: bool) -> Array:
    """Return the class for each number from 0 to 1: chances (N, C), drawn (N, S), f32 -> (N, S).

    The first class whose running sum reaches the number, of those that are left unless `again`.
    """
    sums: Array = np.cumsum(chances, 1, dtype=np.float32)
    sums /= np.maximum(sums[:, -1:], np.finfo(np.float32).tiny)
    if again:
        rows = [np.searchsorted(s, d) for s, d in zip(sums, drawn, strict=True)]
        return np.asarray(np.minimum(np.stack(rows), sums.shape[1] - 1))
    out = np.empty(drawn.shape, np.int64)
    classes = np.arange(sums.shape[1])
    for i in range(drawn.shape[1]):
        reached = drawn[:, i : i + 1] <= sums
        # Rounding may leave the last sum below 1: then the last class that adds something.
        steps = np.diff(sums, axis=1, prepend=0) > 0
        last = sums.shape[1] - 1 - np.argmax(steps[:, ::-1], 1)
        chosen = np.where(reached.any(1), np.argmax(reached, 1), last)[:, None]
        out[:, i] = chosen[:, 0]
        before = np.take_along_axis(sums, np.maximum(chosen - 1, 0), 1)
        chance = np.take_along_axis(sums, chosen, 1) - np.where(chosen > 0, before, 0)
        sums = np.where(classes >= chosen, sums - chance, sums) / (1 - chance)
    return out


STATE = 624  # words


def words_of_sequence(seeds: Sequence[int], count: int) -> Array:
    """Return the first words after seeding with a sequence of numbers, as uint32."""
    generator = np.random.MT19937()
    state: Any = {"key": np.array(_spread(seeds), np.uint32), "pos": STATE}
    generator.state = {"bit_generator": "MT19937", "state": state}
    return np.asarray(generator.random_raw(count)).astype(np.uint32)


def _spread(seeds: Sequence[int]) -> list[int]:
    """Return the state that std::seed_seq makes of numbers of 32 bits.  [C++ rand.util.seedseq]"""
    seed_words = [s & _WORD for s in seeds]
    b, n, s = [0x8B8B8B8B] * STATE, STATE, len(seed_words)
    p = (n - 11) // 2
    q = p + 11

    def mixed(x: int) -> int:
        return x ^ (x >> 27)

    for k in range(max(s + 1, n)):
        value = 1664525 * mixed(b[k % n] ^ b[(k + p) % n] ^ b[(k - 1) % n]) & _WORD
        more = s if k == 0 else k % n + (seed_words[k - 1] if k <= s else 0)
        b[(k + p) % n] = (b[(k + p) % n] + value) & _WORD
        value = (value + more) & _WORD
        b[(k + q) % n] = (b[(k + q) % n] + value) & _WORD
        b[k % n] = value
    for k in range(max(s + 1, n), max(s + 1, n) + n):
        total = b[k % n] + b[(k + p) % n] + b[(k - 1) % n] & _WORD
        value = 1566083941 * mixed(total) & _WORD
        b[(k + p) % n] ^= value
        value = (value - k % n) & _WORD
        b[(k + q) % n] ^= value
        b[k % n] = value
    return b


CONVERTED_AT_ONCE = 1 << 13  # numbers


def uniform(size: int, low: Array, high: Array, seeds: tuple[int, int], *, torch: bool) -> Array:
    """Return `size` numbers from `low` up to `high` (scalars, f32, bf16, i32 or i64).

    `seeds` are the global one and that of the operation. With `torch` they come from the Mersenne
    Twister, which takes the global one alone, otherwise from Philox.
    """
    per_number = 2 if low.dtype == np.int64 else 1
    count = size * per_number
    if torch:
        twister = np.random.RandomState(seeds[0] & _WORD)  # it takes a number of 32 bits
        drawn: Array = np.asarray(twister.randint(0, 1 << 32, count, np.uint32))
    else:
        drawn = words(*seeds, -(-count // 4)).reshape(-1)[:count]
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
    rest = (a - (total - back)) + (b - back)  # the exact loss of the sum
    # If it lost something, an odd last bit keeps the second rounding from seeing a tie.
    bits = total.view(np.int64)
    step = np.where((rest > 0) == (total > 0), 1, -1)
    even = (rest != 0) & (bits % 2 == 0) & np.isfinite(total)
    return np.where(even, bits + step, bits).view(np.float64).astype(np.float32)


def _remainders(drawn: Array, low: Array, high: Array, *, torch: bool) -> Array:
    """Return word mod (high - low) + low, of two words if the numbers have 64 bits.

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
