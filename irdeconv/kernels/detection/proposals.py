"""Boxes that a network proposes: corrected anchors, and their suppression."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.kernels.detection import anchors, ordering, suppression
from irdeconv.spec import Array

LARGEST = math.log(1000 / 16)  # of the logarithm by which a side of an anchor may grow


def corrected(boxes: Array, deltas: Array, unit: float, largest: float) -> Array:
    """Return boxes as `anchors.shifted`, whose last pixel belongs to them where `unit` is 1."""
    out = anchors.shifted(boxes, deltas, unit, largest)
    out[..., 2:] -= np.float32(unit)
    return out


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
