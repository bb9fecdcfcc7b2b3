"""Boxes that a network proposes: corrected anchors, and their suppression."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.kernels.detection import ordering, suppression
from irdeconv.spec import Array

LARGEST = math.log(1000 / 16)  # of the logarithm by which a side of an anchor may grow


def corrected(boxes: Array, deltas: Array, unit: float, largest: float) -> Array:
    """Move and scale boxes [x1, y1, x2, y2] by deltas [x, y, log width, log height].

    Moves are relative to the sides. `unit` is the side of a box of one pixel: 1 or 0.
    """
    with np.errstate(all="ignore"):  # sides may become infinite
        sides = boxes[..., 2:] - boxes[..., :2] + unit
        centers = deltas[..., :2] * sides + (boxes[..., :2] + np.float32(0.5) * sides)
        half = np.float32(0.5) * np.exp(np.minimum(deltas[..., 2:], np.float32(largest))) * sides
        return np.concatenate([centers - half, centers + half - unit], -1)


def best(
    boxes: Array, scores: Array, alive: Array, counts: tuple[int, int], iou: float, unit: float
) -> Array:
    """Return the places of the boxes that are kept, the best first.

    `counts`: as many of the best boxes take part, dead ones too, and as many are kept at most. A
    box goes whose overlap with a better one exceeds `iou`.
    """
    order = ordering.first(-scores, min(counts[0], len(scores)))
    order = order[alive[order]]
    kept = suppression.greedy(
        boxes[order],
        counts[1],
        lambda box, others: suppression.touching(box, others, unit) > np.float32(iou),
    )
    return order[kept]
