"""The scratch memory that kernels work in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.spec import Array

ALIGNMENT = 64  # bytes, a cache line


class Space:
    """Scratch memory that is handed out piece by piece and taken back all at once.

    Fresh arrays cost more in page faults than the arithmetic on them, so the memory is kept.
    """

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._used = 0
        self.peak = 0

    def reset(self) -> None:
        """Take everything back; arrays handed out before must no longer be used."""
        if self.peak > self._buffer.nbytes:
            self._buffer = _aligned(self.peak)
        self._used = 0

    @property
    def used(self) -> int:
        """How many bytes are handed out."""
        return self._used

    def release(self, used: int) -> None:
        """Take back what was handed out since `used` bytes were."""
        self._used = used

    def array(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return uninitialised memory for an array."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        start = self._used
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        self.peak = max(self.peak, self._used)
        if start + size > self._buffer.nbytes:
            return np.empty(shape, kind)  # the next reset makes room
        piece: Array = self._buffer[start : start + size].view(kind).reshape(shape)
        return piece


def _aligned(size: int) -> Array:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def contiguous(x: Array, dtype: np.dtype[Any], space: Space) -> Array:
    """Return `x` itself if it is C-contiguous and of that type, else a copy that is."""
    if x.flags.c_contiguous and x.dtype == dtype:
        return x
    copy = space.array(x.shape, dtype)
    copy[...] = x
    return copy
