"""The counter-based generator Philox 4x32 with ten rounds: words of 32 bits."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.shared.blocking import pieces
from irdeconv.spec import Array

PHILOX_ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
GROUPS_AT_ONCE = 1 << 13  # groups of four words that are computed at a time
_WORD = 0xFFFFFFFF


def words(key: int, counter: int, groups: int) -> Array:
    """Return four words for each number 0 to `groups`, as uint32 [groups, 4].

    `key` and `counter` have 64 bits.
    """
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
