"""Non-maximum suppression whose limit of overlap may sink with every box that is kept."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.detection import suppression
from irdeconv.spec import Array

SINKS = 0.5  # a limit at or below this stays as it is


def select(
    boxes: Array,
    scores: Array,
    count: int | None,
    least: float,
    iou: float,
    eta: float,
    unit: float,
) -> Array:
    """Return the places of the boxes that are kept, the best first.

    The `count` best boxes take part (None: all) whose score is at least `least`. A box goes whose
    overlap with a better one reaches `iou`; from 0 to 1, `eta` is the factor by which that sinks.
    """
    order = suppression.ranked(scores, scores >= np.float32(least))[:count]
    ready = boxes[order]
    if 0 <= eta < 1:
        return order[_sinking(ready, scores[order], least, iou, eta, unit)]
    limit = np.float32(iou)
    kept = suppression.greedy(
        ready, len(order), lambda box, others: suppression.overlap(box, others, unit) >= limit
    )
    return order[kept]


def _sinking(
    boxes: Array, scores: Array, least: float, iou: float, eta: float, unit: float
) -> list[int]:
    limit, factor, kept = np.float32(iou), np.float32(eta), list[int]()
    for i, score in enumerate(scores):
        # As in the runtime, a score of exactly the threshold meets only the box that was kept last.
        met = kept if score > np.float32(least) else kept[-1:]
        if np.any(suppression.overlap(boxes[i], boxes[met].T, unit) >= limit):
            continue
        kept.append(i)
        if limit > SINKS:
            limit *= factor
    return kept
