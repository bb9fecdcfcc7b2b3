"""Drawing classes by their probabilities."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array


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
    places = np.arange(sums.shape[1])
    for i in range(drawn.shape[1]):
        reached = drawn[:, i : i + 1] <= sums
        # Rounding may leave the last sum below 1: then the last class that adds something.
        steps = np.diff(sums, axis=1, prepend=0) > 0
        last = sums.shape[1] - 1 - np.argmax(steps[:, ::-1], 1)
        chosen = np.where(reached.any(1), np.argmax(reached, 1), last)[:, None]
        out[:, i] = chosen[:, 0]
        before = np.take_along_axis(sums, np.maximum(chosen - 1, 0), 1)
        chance = np.take_along_axis(sums, chosen, 1) - np.where(chosen > 0, before, 0)
        sums = np.where(places >= chosen, sums - chance, sums) / (1 - chance)
    return out
