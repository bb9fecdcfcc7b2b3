"""Non-maximum suppression of boxes [y1, x1, y2, x2], corners in any order."""

from __future__ import annotations

import heapq
import math

import numpy as np

from irdeconv.spec import Array


def corners(boxes: Array, *, center: bool) -> Array:
    """Return boxes (N, 4) with the lower corner first; `center`: they are [x, y, width, height]."""
    if center:
        middle, half = boxes[:, 1::-1], boxes[:, :1:-1] / 2
        return np.concatenate([middle - half, middle + half], 1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.concatenate([pairs.min(1), pairs.max(1)], 1)


def overlap(box: Array, others: Array) -> Array:
    """Return the intersection over the union with each of the others; 0 for an empty box."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(sides, 0), 1)
    own, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    valid = (areas > 0) & (own > 0)
    return np.where(valid, common / np.where(valid, own + areas - common, 1), 0)


def select(
    boxes: Array, scores: Array, limit: int, iou: float, least: float, sigma: float
) -> list[tuple[float, int]]:
    """Return (score, box) of those that are kept, the best first.

    A box goes whose overlap with a better one reaches `iou`; with a `sigma` above 0 its score is
    lowered by exp(-overlap^2 / 2 sigma) instead. Scores must exceed `least`.
    """
    queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > least]
    heapq.heapify(queue)
    kept: list[tuple[float, int]] = []
    while queue and len(kept) < limit:
        negative, i, seen = heapq.heappop(queue)
        shares = overlap(boxes[i], boxes[[k for _, k in kept[seen:]]])
        if sigma <= 0:
            if not np.any(shares >= iou):
                kept.append((-negative, i))
            continue
        score = -negative * math.exp(-0.5 * float(np.sum(shares * shares)) / sigma)
        if score == -negative:
            kept.append((score, i))
        elif score > least:
            heapq.heappush(queue, (-score, i, len(kept)))
    return kept
