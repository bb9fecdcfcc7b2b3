"""Memory for the values of a plan: one block, in which values that never live together overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.shared.scratch import ALIGNMENT
from irdeconv.spec import Array


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that is in use from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def layout(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return an offset for each buffer and the size of the whole.

    The largest buffers are placed first, each into the lowest gap that is free while it lives.
    """
    offsets = [0] * len(lifetimes)
    sizes = [_padded(one.size) for one in lifetimes]
    alive: dict[int, list[int]] = {}  # by step: the buffers placed so far
    total = 0
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i)):
        one = lifetimes[i]
        steps = range(one.first, one.last + 1)
        neighbours = {j for step in steps for j in alive.get(step, ())}
        offset = 0
        for j in sorted(neighbours, key=offsets.__getitem__):
            if offsets[j] - offset >= sizes[i]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
        total = max(total, offset + sizes[i])
        for step in steps:
            alive.setdefault(step, []).append(i)
    return offsets, total


def most_alive(lifetimes: Sequence[Lifetime]) -> int:
    """Return the largest sum of sizes of buffers in use at one step."""
    changes: dict[int, int] = {}
    for one in lifetimes:
        changes[one.first] = changes.get(one.first, 0) + _padded(one.size)
        changes[one.last + 1] = changes.get(one.last + 1, 0) - _padded(one.size)
    level = top = 0
    for step in sorted(changes):
        level += changes[step]
        top = max(top, level)
    return top


def allocate(size: int) -> Array:
    """Return that many bytes, aligned to a cache line, not yet touched."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
