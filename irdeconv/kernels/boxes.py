"""Boxes of detectors: anchors, priors, proposals, decoding, levels of a feature pyramid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import suppression


@dataclass(frozen=True)
class Anchors:
    """A square of `base` pixels in all ratios (height to width) and scales.

    `offset`: the last pixel belongs to a box, whose side is then one more than the difference of
    its corners, ratios give whole sides, and the square begins at 0; otherwise its centre is 0.
    """

    base: int
    ratios: Sequence[float]
    scales: Sequence[float]
    offset: float

    def boxes(self) -> Array:
        """Return the anchors (A, 4), the scales of each ratio side by side."""
        ratios, scales = np.array(self.ratios, np.float32), np.array(self.scales, np.float32)
        widths = np.sqrt(np.float32(self.base * self.base) / ratios)
        if self.offset:
            widths = _rounded(widths)
        heights = widths * ratios
        if self.offset:
            heights = _rounded(heights)
        sides = np.stack([widths, heights], -1)[:, None] * scales[:, None]
        half = (np.float32(0.5) * (sides - np.float32(self.offset))).reshape(-1, 2)
        centre = np.float32(0.5 * (self.base - self.offset))
        out = np.concatenate([centre - half, centre + half], 1)
        return out if self.offset else out - np.float32(self.base * 0.5)


def _rounded(x: Array) -> Array:
    """Round positive numbers, halves up."""
    return np.floor(x + np.float32(0.5))


def grid_of(anchors: Array, height: int, width: int, stride: int, *, swapped: bool) -> Array:
    """Return the anchors at each cell of a grid (height, width, A, 4); swapped: x follows rows."""
    rows = np.arange(height, dtype=np.float32)[:, None] * np.float32(stride)
    columns = np.arange(width, dtype=np.float32) * np.float32(stride)
    y, x = np.broadcast_arrays(rows, columns)
    at = np.stack([y, x, y, x] if swapped else [x, y, x, y], -1)
    return at[:, :, None] + anchors


def shifted(boxes: Array, deltas: Array, offset: float, largest: float = math.inf) -> Array:
    """Move boxes [x1, y1, x2, y2] by deltas [x, y, log width, log height], the moves in sides.

    `offset` is the side of a box of one pixel: 1 or 0. Logarithms are cut to `largest`.
    """
    half = np.float32(0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        size = boxes[..., 2:] - boxes[..., :2] + np.float32(offset)
        centre = deltas[..., :2] * size + (boxes[..., :2] + half * size)
        growth = np.exp(np.minimum(deltas[..., 2:], np.float32(largest)))
        reach = half * (growth * size)
        return np.concatenate([centre - reach, centre + reach], -1)


def clipped(boxes: Array, width: float, height: float) -> Array:
    """Move corners into an image of a size."""
    limits = np.array([width, height, width, height], np.float32)
    return np.maximum(np.minimum(boxes, limits), np.float32(0))


DETECTION = 7  # numbers of a detection: image, class, score, left, top, right, bottom


@dataclass(frozen=True)
class Coding:
    """The encoding of boxes: relative to priors in pixels of `image` (height, width) if given."""

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
    """Limits of the selection: thresholds, `top` of a class, `keep` of an image (-1, None: all)."""

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
        for at in suppression.ascending(places)[: self.keep]:
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


SAME_RATIO = 1e-6  # aspect ratios nearer than this are one


@dataclass(frozen=True)
class Candidates:
    """The attributes that say which boxes a cell has.

    Lengths in pixels; with `scale_all_sizes` off `min_size` are fractions of the image's height.
    `maximum_first`: the box between `min_size` and `max_size` comes before the aspect ratios.
    """

    min_size: Sequence[float]
    max_size: Sequence[float]
    aspect_ratio: Sequence[float]
    density: Sequence[float]
    fixed_ratio: Sequence[float]
    fixed_size: Sequence[float]
    flip: bool
    scale_all_sizes: bool
    maximum_first: bool = True

    def ratios(self) -> list[float]:
        """Return the aspect ratios other than 1 in the order of their boxes."""
        found = [1.0]
        for ratio in np.array(self.aspect_ratio, np.float32):
            if all(abs(ratio - r) >= SAME_RATIO for r in found):
                found += [float(ratio), float(1 / ratio)] if self.flip else [float(ratio)]
        return [r for r in found if abs(r - 1) >= SAME_RATIO]

    @np.errstate(all="ignore")  # attributes may be any numbers, here and below
    def counted(self) -> int:
        """Return the boxes of a cell as the shape rule counts them, which is not always right."""
        unique = {1.0}
        for ratio in np.array(self.aspect_ratio, np.float32):
            unique |= {round(float(r), 6) for r in ((ratio, 1 / ratio) if self.flip else (ratio,))}
        ratios = len(unique)
        count = ratios + len(self.min_size) - 1
        if self.scale_all_sizes:
            count = ratios * len(self.min_size) + len(self.max_size)
        if self.fixed_size:
            count = ratios * len(self.fixed_size)
        more = len(self.fixed_ratio) or ratios
        return count + sum(more * (int(d) ** 2 - 1) for d in self.density)

    @np.errstate(all="ignore")
    def boxes(self, image_height: int) -> Array:
        """Return the boxes of a cell (B, 5): offset x, y of the centre, half sides, 1: clipped."""
        rows = [*self._dense(), *self._sized(image_height)]
        return np.array(rows, np.float32).reshape(-1, 5)

    def _dense(self) -> Iterator[tuple[float, ...]]:
        """Yield the boxes of `fixed_size`: a square of `density` times `density` centres each."""
        for i, size in enumerate(np.array(self.fixed_size, np.float32)):
            dense = int(self.density[i]) if i < len(self.density) else 0
            half = int(size) * 0.5
            sides = [] if self.fixed_ratio or not self.density else [(half, half)]
            for ratio in np.array(self.fixed_ratio or self.ratios(), np.float32):
                root = np.sqrt(ratio)
                sides.append((size / 2 * root, size / 2 / root))
            shift = int(size / dense) if dense else 0
            at = [shift / 2 + k * shift - half for k in range(dense)]
            yield from ((x, y, w, h, 1) for w, h in sides for y in at for x in at)

    def _sized(self, image_height: int) -> Iterator[tuple[float, ...]]:
        """Yield the boxes of `min_size`: the square, that up to `max_size`, the aspect ratios."""
        sizes = np.array(self.min_size, np.float32)
        if not self.scale_all_sizes:
            sizes = sizes * np.float32(image_height)
        roots = np.sqrt(np.array(self.ratios(), np.float32))
        for i, size in enumerate(sizes):
            between, shaped = [], []
            if i < len(self.max_size):
                between = [(np.sqrt(size * np.float32(self.max_size[i])) / 2,) * 2]
            if self.scale_all_sizes or i == len(sizes) - 1:
                base = size if self.scale_all_sizes else sizes[0]
                shaped = [(base / 2 * root, base / 2 / root) for root in roots]
            later = between + shaped if self.maximum_first else shaped + between
            yield from ((0, 0, w, h, 0) for w, h in [(size / 2, size / 2), *later])


def grid(count: int, step: np.float32, offset: float) -> Array:
    """Return the centres of `count` cells: (i + offset) * step."""
    return (np.arange(count, dtype=np.float32) + np.float32(offset)) * step


def around(x: Array, y: Array, boxes: Array, image: tuple[int, int]) -> Array:
    """Place boxes (B, 5) around centres x (W) and y (H); returns (H, W, B, 4) in image sizes.

    Marked boxes end at the border if they begin outside of it: below 0, or behind 1.
    """
    across = 1 / np.float32(image[1])
    down = 1 / np.float32(image[0])
    out = np.empty((len(y), len(x), len(boxes), 4), np.float32)
    cx, cy = x[:, None] + boxes[:, 0], y[:, None] + boxes[:, 1]
    out[..., 0] = (cx - boxes[:, 2]) * across
    out[..., 1] = ((cy - boxes[:, 3]) * down)[:, None]
    out[..., 2] = (cx + boxes[:, 2]) * across
    out[..., 3] = ((cy + boxes[:, 3]) * down)[:, None]
    marked = boxes[:, 4] == 1
    low, high = np.maximum(out[..., :2], 0), np.minimum(out[..., 2:], 1)
    return np.where(marked[:, None], np.concatenate([low, high], -1), out)


def clustered(x: Array, y: Array, sides: Array, image: tuple[int, int]) -> Array:
    """Place boxes of sides (B, 2), width and height, around centres; returns (H, W, B, 4)."""
    size = np.array(image[::-1], np.float32)
    centres = np.stack(np.broadcast_arrays(x, y[:, None]), -1)[:, :, None]
    return np.concatenate([(centres - sides / 2) / size, (centres + sides / 2) / size], -1)


LARGEST = math.log(1000 / 16)  # of the logarithm by which a side of an anchor may grow


def corrected(boxes: Array, deltas: Array, unit: float, largest: float) -> Array:
    """Return boxes as `shifted`; if `unit` is 1, their last pixel belongs to them."""
    out = shifted(boxes, deltas, unit, largest)
    out[..., 2:] -= np.float32(unit)
    return out


def best(
    boxes: Array, scores: Array, alive: Array, counts: tuple[int, int], iou: float, unit: float
) -> Array:
    """Return the places of the boxes that are kept, the best first.

    `counts`: as many of the best boxes take part, dead ones too, and as many are kept at most. A
    box goes whose overlap with a better one exceeds `iou`.
    """
    order = suppression.first(-scores, min(counts[0], len(scores)))
    order = order[alive[order]]
    kept = suppression.greedy(
        boxes[order],
        counts[1],
        lambda box, others: suppression.touching(box, others, unit) > np.float32(iou),
    )
    return order[kept]


CANONICAL = 224  # the side of a region that belongs to level 2


def levels(regions: Array, count: int) -> Array:
    """Return the level of each region [x1, y1, x2, y2]; `count`, which is none, without area."""
    sides = regions[:, 2:] - regions[:, :2]
    area = sides[:, 0] * sides[:, 1]
    side = np.sqrt(np.where(area > 0, area, 1)) / np.float32(CANONICAL)
    level = np.floor(np.log2(side + np.float32(1e-6)) + 2)
    return np.where(area > 0, np.clip(level, 0, count - 1), count).astype(np.int64)
