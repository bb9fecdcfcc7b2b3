"""From scores and encoded boxes to detections: decoding, suppression, the best of an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.detection import ordering, suppression
from irdeconv.spec import Array

DETECTION = 7  # numbers of a detection: image, class, score, left, top, right, bottom


@dataclass(frozen=True)
class Coding:
    """How boxes are encoded: relative to priors in pixels of `image` (height, width) if given."""

    centred: bool
    image: tuple[int, int] | None
    clip: bool


def decode(priors: Array, variances: Array | None, deltas: Array, coding: Coding) -> Array:
    """Decode boxes (..., 4) relative to priors (..., 4); variances scale them, None is 1."""
    if coding.image is not None:
        height, width = coding.image
        priors = priors / np.array([width, height, width, height], np.float32)
    scaled = deltas if variances is None else variances * deltas
    if coding.centred:
        low, high = priors[..., :2], priors[..., 2:]
        size = high - low
        centre = scaled[..., :2] * size + (low + high) / 2
        half = np.exp(scaled[..., 2:]) * size / 2
        out = np.concatenate([centre - half, centre + half], -1)
    else:
        out = priors + scaled
    return np.clip(out, 0, 1) if coding.clip else out


@dataclass(frozen=True)
class BestBoxes:
    """Which candidates stay: thresholds, how many of a class or an image, what is background.

    `top` best scores of a class take part (None: all), `keep` of an image stay (-1: all).
    """

    background: int
    confidence: float
    overlap: float
    top: int | None
    keep: int

    def of_classes(self, scores: Array, boxes: Array, *, shared: bool) -> dict[int, list[int]]:
        """Select class by class: scores (C, P), boxes (1 or C, P, 4) -> priors by class."""
        found = {}
        for c, row in enumerate(scores):
            if c != self.background:
                order = suppression.ranked(row, row > np.float32(self.confidence))[: self.top]
                found[c] = self._suppress(boxes[0 if shared else c], order)
        return self._best(scores, found)

    def of_priors(self, scores: Array, boxes: Array, *, shared: bool) -> dict[int, list[int]]:
        """Give each prior its best class, 0 is none; the best priors, then class by class."""
        if len(scores) < 2 or not scores.shape[1]:
            return {}
        valid = np.where((scores >= np.float32(self.confidence)) & (scores > -1), scores, -np.inf)
        best = valid[1:].argmax(0) + 1
        priors = np.flatnonzero(valid[1:].max(0) > -np.inf)
        chosen = np.zeros(scores.shape, bool)
        chosen[best[priors], priors] = True
        order = suppression.ranked(scores.reshape(-1), chosen.reshape(-1))[: self.top]
        classes, at = np.divmod(order, scores.shape[1])
        found = {}
        for c in np.unique(classes).tolist():
            found[c] = self._suppress(boxes[0 if shared else c], at[classes == c])
        return self._best(scores, found)

    def _suppress(self, boxes: Array, order: Array) -> list[int]:
        """Return those of `order` that overlap none kept before by more than the limit."""
        limit = np.float32(self.overlap)
        kept = suppression.greedy(
            boxes[order], len(order), lambda box, others: suppression.overlap(box, others) > limit
        )
        places: list[int] = order[kept].tolist()
        return places

    def _best(self, scores: Array, found: dict[int, list[int]]) -> dict[int, list[int]]:
        """Keep the best of all classes; equal scores in the order of priors, then the runtime's."""
        rows = [(c, p) for c, priors in found.items() for p in priors]
        if self.keep < 0 or len(rows) <= self.keep:
            return found
        keys = np.array([(-scores[row], row[1]) for row in rows])
        places = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        kept: dict[int, list[int]] = {}
        for at in ordering.ascending(places)[: self.keep]:
            kept.setdefault(rows[at][0], []).append(rows[at][1])
        return dict(sorted(kept.items()))


def fill(rows: list[Array], count: int) -> Array:
    """Return (1, 1, count, 7) of rows, then one that begins with -1, then zeros."""
    out = np.zeros((count, DETECTION), np.float32)
    found = np.concatenate(rows)[:count] if rows else out[:0]
    out[: len(found)] = found
    if len(found) < count:
        out[len(found), 0] = -1
    return out[None, None]
