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
    """Return the intersection over the union of a box (4,) with each of others (4, n).

    It is 0 for an empty box. `unit` is added to every side: 1 where corners are pixels that belong
    to the box.
    """
    with np.errstate(all="ignore"):  # sides may be infinite
        down = np.minimum(box[2], others[2]) - np.maximum(box[0], others[0]) + unit
        across = np.minimum(box[3], others[3]) - np.maximum(box[1], others[1]) + unit
        common = np.maximum(down, 0) * np.maximum(across, 0)
        own = (box[2] - box[0] + unit) * (box[3] - box[1] + unit)
        areas = (others[2] - others[0] + unit) * (others[3] - others[1] + unit)
        return np.where((areas > 0) & (own > 0), common / (own + areas - common), 0)


def touching(box: Array, others: Array, unit: float) -> Array:
    """Return `overlap`, but 0 for boxes with a gap between them that `unit` would fill."""
    apart = (others[0] > box[2]) | (others[2] < box[0])
    apart |= (others[1] > box[3]) | (others[3] < box[1])
    return np.where(apart, 0, overlap(box, others, unit))


def greedy(boxes: Array, limit: int, goes: Callable[[Array, Array], Array]) -> list[int]:
    """Return the places that are kept of boxes (n, numbers) in the order of their scores.

    `goes(box, others)` says which of others (numbers, m), none of which is better, go where the box
    is kept.
    """
    rest, places = np.ascontiguousarray(boxes.T), np.arange(len(boxes))
    kept: list[int] = []
    while len(places) and len(kept) < limit:
        kept.append(int(places[0]))
        gone = goes(rest[:, 0], rest[:, 1:])
        rest, places = rest[:, 1:], places[1:]
        if gone.any():
            rest, places = rest[:, ~gone], places[~gone]
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
    kept = greedy(boxes[order], limit, lambda box, others: overlap(box, others) >= iou)
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
        shares = overlap(boxes[i], boxes[[k for _, k in kept[seen:]]].T)
        score = -negative * math.exp(-0.5 * float(np.sum(shares * shares)) / sigma)
        if score == -negative:
            kept.append((score, i))
        elif score > least:
            heapq.heappush(queue, (-score, i, len(kept)))
    return kept
