"""The Mersenne Twister MT19937, seeded with a number or with a sequence as C++ does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.spec import Array

STATE = 624  # words
_WORD = 0xFFFFFFFF


def words(seed: int, count: int) -> Array:
    """Return the first words after seeding with a number of 32 bits, as uint32."""
    found = np.random.RandomState(seed & _WORD).randint(0, 1 << 32, count, np.uint32)
    return np.asarray(found)


def words_of_sequence(seeds: Sequence[int], count: int) -> Array:
    """Return the first words after seeding with a sequence of numbers, as uint32."""
    generator = np.random.MT19937()
    state: Any = {"key": np.array(_spread(seeds), np.uint32), "pos": STATE}
    generator.state = {"bit_generator": "MT19937", "state": state}
    return np.asarray(generator.random_raw(count)).astype(np.uint32)


def _spread(seeds: Sequence[int]) -> list[int]:
    """Return the state that std::seed_seq makes of numbers of 32 bits.  [C++ rand.util.seedseq]"""
    given = [s & _WORD for s in seeds]
    b, n, s = [0x8B8B8B8B] * STATE, STATE, len(given)
    p = (n - 11) // 2
    q = p + 11

    def mixed(x: int) -> int:
        return x ^ (x >> 27)

    for k in range(max(s + 1, n)):
        value = 1664525 * mixed(b[k % n] ^ b[(k + p) % n] ^ b[(k - 1) % n]) & _WORD
        more = s if k == 0 else k % n + (given[k - 1] if k <= s else 0)
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
