"""Non-maximum suppression of boxes: two opposite corners, [y1, x1, y2, x2] or [x1, y1, x2, y2]."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

from irdeconv.spec import Array


def corners(boxes: Array, *, center: bool) -> Array:
    """Return boxes (N, 4) with the lower corner first; `center`: they are [x, y, width, height]."""
    if center:
        middle, half = boxes[:, 1::-1], boxes[:, :1:-1] / 2
        return np.concatenate([middle - half, middle + half], 1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.concatenate([pairs.min(1), pairs.max(1)], 1)


def overlap(box: Array, others: Array, unit: float = 0.0) -> Array:
    """Return the intersection over the union with each of the others; 0 for an empty box.

    `unit` is added to every side: 1 where corners are pixels that belong to the box.
    """
    with np.errstate(all="ignore"):  # sides may be infinite
        sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]) + unit
        common = np.prod(np.maximum(sides, 0), 1)
        own = np.prod(box[2:] - box[:2] + unit)
        areas = np.prod(others[:, 2:] - others[:, :2] + unit, 1)
        valid = (areas > 0) & (own > 0)
        return np.where(valid, common / np.where(valid, own + areas - common, 1), 0)


def apart(box: Array, others: Array) -> Array:
    """Return which of the others do not even touch a box."""
    return np.asarray(np.any((others[:, :2] > box[2:]) | (others[:, 2:] < box[:2]), 1))


def greedy(alive: Array, limit: int, goes: Callable[[int], Array]) -> list[int]:
    """Return the places that are kept of boxes that stand in the order of their scores.

    `alive` says which take part; `goes(i)` which of those behind place i go where i is kept.
    """
    alive = alive.copy()
    kept: list[int] = []
    for i in range(len(alive)):
        if len(kept) >= limit:
            break
        if alive[i]:
            kept.append(i)
            alive[i + 1 :] &= ~goes(i)
    return kept


def select(
    boxes: Array, scores: Array, limit: int, iou: float, least: float, sigma: float
) -> list[tuple[float, int]]:
    """Return (score, box) of those that are kept, the best first.

    A box goes whose overlap with a better one reaches `iou`; with a `sigma` above 0 its score is
    lowered by exp(-overlap^2 / 2 sigma) instead. Scores must exceed `least`.
    """
    if sigma > 0:
        return _soft(boxes, scores, limit, least, sigma)
    order = ranked(scores, scores > least)
    ready = boxes[order]
    kept = greedy(
        np.ones(len(order), bool), limit, lambda i: overlap(ready[i], ready[i + 1 :]) >= iou
    )
    return [(float(scores[i]), int(i)) for i in order[kept]]


def ranked(scores: Array, chosen: Array) -> Array:
    """Return the places of the chosen ones, the best first; equal scores keep their order."""
    places = np.flatnonzero(chosen)
    return places[np.argsort(-scores[places], kind="stable")]


def _soft(
    boxes: Array, scores: Array, limit: int, least: float, sigma: float
) -> list[tuple[float, int]]:
    queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > least]
    heapq.heapify(queue)
    kept: list[tuple[float, int]] = []
    while queue and len(kept) < limit:
        negative, i, seen = heapq.heappop(queue)
        shares = overlap(boxes[i], boxes[[k for _, k in kept[seen:]]])
        score = -negative * math.exp(-0.5 * float(np.sum(shares * shares)) / sigma)
        if score == -negative:
            kept.append((score, i))
        elif score > least:
            heapq.heappush(queue, (-score, i, len(kept)))
    return kept
