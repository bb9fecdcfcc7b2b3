"""From scores and encoded boxes to detections: decoding, suppression, the best of an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.detection import ordering
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


def overlaps(box: Array, others: Array) -> Array:
    """Return the intersection over the union of a box with others (N, 4); 0 where they part."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = sides[:, 0] * sides[:, 1]
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    own = (box[2] - box[0]) * (box[3] - box[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = common / (own + areas - common)
    return np.where((sides > 0).all(1), shares, 0)


def suppress(boxes: Array, order: Array, limit: float) -> list[int]:
    """Return those of `order` (the best first) that overlap none kept before by more than limit."""
    kept: list[int] = []
    left = order
    while len(left):
        kept.append(int(left[0]))
        rest = left[1:]
        left = rest[~(overlaps(boxes[left[0]], boxes[rest]) > np.float32(limit))]
    return kept


def by_score(scores: Array, chosen: Array, top: int) -> Array:
    """Return the chosen places in order of their scores, equal ones as they are; -1: all."""
    order = chosen[np.argsort(-scores[chosen], kind="stable")]
    return order if top < 0 else order[:top]


@dataclass(frozen=True)
class BestBoxes:
    """Which candidates stay: thresholds, how many of a class or an image, what is background."""

    background: int
    confidence: float
    overlap: float
    top: int
    keep: int

    def of_classes(self, scores: Array, boxes: Array, *, shared: bool) -> dict[int, list[int]]:
        """Select class by class: scores (C, P), boxes (1 or C, P, 4) -> priors by class."""
        found = {}
        for c, row in enumerate(scores):
            if c != self.background:
                chosen = np.flatnonzero(row > np.float32(self.confidence))
                order = by_score(row, chosen, self.top)
                found[c] = suppress(boxes[0 if shared else c], order, self.overlap)
        return self._best(scores, found)

    def of_priors(self, scores: Array, boxes: Array, *, shared: bool) -> dict[int, list[int]]:
        """Give each prior its best class, 0 is none; the best priors, then class by class."""
        if len(scores) < 2 or not scores.shape[1]:
            return {}
        valid = np.where((scores >= np.float32(self.confidence)) & (scores > -1), scores, -np.inf)
        best = valid[1:].argmax(0) + 1
        priors = np.flatnonzero(valid[1:].max(0) > -np.inf)
        places = np.sort(best[priors] * scores.shape[1] + priors)
        order = by_score(scores.reshape(-1), places, self.top)
        classes, at = np.divmod(order, scores.shape[1])
        found = {}
        for c in np.unique(classes).tolist():
            found[c] = suppress(boxes[0 if shared else c], at[classes == c], self.overlap)
        return self._best(scores, found)

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
