"""Boxes of detectors, regions of feature maps, and conversion of colours.

Boxes: anchors, priors, proposals, decoding, levels of a feature pyramid. Regions are divided into
bins (largest elements, means, single points) or read at samples between elements (ROIAlign,
straight and rotated).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
            widths = rounded(widths)
        heights = widths * ratios
        if self.offset:
            heights = rounded(heights)
        sides = np.stack([widths, heights], -1)[:, None] * scales[:, None]
        half = (np.float32(0.5) * (sides - np.float32(self.offset))).reshape(-1, 2)
        centre = np.float32(0.5 * (self.base - self.offset))
        out = np.concatenate([centre - half, centre + half], 1)
        return out if self.offset else out - np.float32(self.base * 0.5)


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


def rounded(x: Array) -> Array:
    """Round to integers, halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(np.float32(0.5), x)))


def borders(start: int, extent: int, bins: int, size: int) -> list[tuple[int, int]]:
    """Divide whole elements into bins that may share elements, cut at the image."""
    inner = [(k * extent // bins, -(-(k + 1) * extent // bins)) for k in range(bins)]
    return [tuple(min(max(start + e, 0), size) for e in pair) for pair in inner]  # type: ignore[misc]


def maxima(data: Array, region: Array, scale: float, bins: tuple[int, int]) -> Array:
    """Return the largest element of each bin, 0 if there is none: (C, H, W) -> (C, h, w)."""
    left, top, right, bottom = map(int, np.nan_to_num(rounded(region * np.float32(scale))))
    rows, row_of = _distinct(borders(top, max(bottom - top + 1, 1), bins[0], data.shape[1]))
    columns, column_of = _distinct(borders(left, max(right - left + 1, 1), bins[1], data.shape[2]))
    out = np.zeros((len(data), len(rows), len(columns)), data.dtype)
    for i, (y0, y1) in enumerate(rows):
        for j, (x0, x1) in enumerate(columns):
            if y0 < y1 and x0 < x1:
                out[:, i, j] = data[:, y0:y1, x0:x1].max((1, 2))
    return out[:, row_of][:, :, column_of]


def _distinct(bins: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the different bins, and the index of each; many more than elements repeat."""
    number = {each: i for i, each in enumerate(dict.fromkeys(bins))}
    return list(number), [number[each] for each in bins]


def spread(begin: np.float32, end: np.float32, bins: int, size: int) -> Array:
    """Return `bins` places from begin to end of an axis, given as fractions; one: the middle."""
    last = np.float32(size - 1)
    if bins == 1:
        return np.array([0.5 * float(begin + end) * (size - 1)], np.float32)
    step = (end - begin) * last / np.float32(bins - 1)
    out = np.arange(bins, dtype=np.float32) * step + begin * last
    out[-1] = end * last
    return out


def _within(places: Array, size: int) -> Array:
    """Move places into an axis, those that are no numbers to its begin."""
    return np.where(places > 0, np.minimum(places, size - 1), 0)


def at_points(data: Array, y: Array, x: Array) -> Array:
    """Read data (C, H, W) between elements at rows y and columns x: (C, h, w), 0 outside."""
    height, width = data.shape[1:]
    valid = ((y >= 0) & (y <= height - 1))[:, None] & ((x >= 0) & (x <= width - 1))
    y, x = _within(y, height), _within(x, width)
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    bottom, right = np.ceil(y).astype(np.int64), np.ceil(x).astype(np.int64)
    across = (x - left.astype(x.dtype)).astype(data.dtype)
    down = (y - top.astype(y.dtype)).astype(data.dtype)[:, None]
    upper, lower = data[:, top], data[:, bottom]
    above = upper[:, :, left] + (upper[:, :, right] - upper[:, :, left]) * across
    below = lower[:, :, left] + (lower[:, :, right] - lower[:, :, left]) * across
    return np.where(valid, above + (below - above) * down, 0)


@dataclass(frozen=True)
class Groups:
    """Position-sensitive bins: `size` of them along y and x, each with channels of its own."""

    size: int
    channels: int
    bins: tuple[int, int]
    scale: float

    def average(self, data: Array, region: Array) -> Array:
        """Return the mean of each bin of its own channels: (C, H, W) -> (channels, size, size)."""
        begin = rounded(region[:2]) * np.float32(self.scale)
        end = rounded(region[2:] + np.float32(1)) * np.float32(self.scale)
        step = np.maximum(end - begin, np.float32(0.1)) / np.float32(self.size)
        edges = np.arange(self.size + 1, dtype=np.float32)[:, None] * step + begin
        limits = data.shape[:0:-1]
        low = np.clip(np.floor(edges[:-1]), 0, limits).astype(int)
        high = np.clip(np.ceil(edges[1:]), 0, limits).astype(int)
        groups = data.reshape(self.channels, self.size, self.size, *data.shape[1:])
        out = np.zeros((self.channels, self.size, self.size), data.dtype)
        for i in range(self.size):
            for j in range(self.size):
                part = groups[:, i, j, low[i, 1] : high[i, 1], low[j, 0] : high[j, 0]]
                if part.shape[1] and part.shape[2]:
                    out[:, i, j] = part.mean((1, 2))
        return out

    def bilinear(self, data: Array, region: Array) -> Array:
        """Return the mean over spatial bins of points of their own channels."""
        places = region * np.float32(self.scale)
        steps = (places[2:] - places[:2]) / np.array(self.bins[::-1], np.float32)
        groups = data.reshape(*self.bins, self.channels, *data.shape[1:])
        out = np.zeros((self.channels, self.size, self.size), data.dtype)
        for i in range(self.bins[0]):
            y = self._points(places[1], steps[1], i, data.shape[1])
            for j in range(self.bins[1]):
                x = self._points(places[0], steps[0], j, data.shape[2])
                out += at_points(groups[i, j], y, x)
        return out / np.float32(self.bins[0] * self.bins[1])

    def _points(self, start: np.float32, step: np.float32, bin: int, size: int) -> Array:
        """Return the places of a spatial bin, which runs from fraction to fraction of an axis."""
        low, high = start + np.float32(bin) * step, start + np.float32(bin + 1) * step
        last = np.float32(size - 1)
        if self.size == 1:
            return np.array([0.5 * (low + high) * last], np.float32)
        by = (high - low) * last / np.float32(self.size - 1)
        return np.arange(self.size, dtype=np.float32) * by + low * last

    def deformed(self, data: Array, region: Array, moves: Array | None) -> Array:
        """Return the mean of samples, `moves` (2, channels, size, size) of the sides away."""
        half, scale = np.float32(0.5), np.float32(self.scale)
        begin = rounded(region[:2]) * scale - half
        end = (rounded(region[2:]) + np.float32(1)) * scale - half
        extent = np.maximum(end - begin, np.float32(0.1))
        step = extent / np.float32(self.size)
        inner = step / np.array(self.bins[::-1], np.float32)
        at = np.arange(self.size, dtype=np.float32)
        x = np.broadcast_to(at * step[0] + begin[0], (self.channels, self.size, self.size))
        y = np.broadcast_to((at * step[1] + begin[1])[:, None], x.shape)
        if moves is not None:
            x, y = x + moves[0] * extent[0], y + moves[1] * extent[1]
        return self._samples(data, x, y, inner)

    def _samples(self, data: Array, x: Array, y: Array, inner: Array) -> Array:
        """Return the mean of `bins` samples `inner` apart from (x, y) that lie in the image."""
        height, width = data.shape[1:]
        channel = np.arange(x.size).reshape(x.shape)
        total, count = np.zeros(x.shape, data.dtype), np.zeros(x.shape, data.dtype)
        for i in range(self.bins[0]):
            for j in range(self.bins[1]):
                down, across = y + np.float32(i) * inner[1], x + np.float32(j) * inner[0]
                valid = (across >= -0.5) & (across <= width - 0.5)
                valid &= (down >= -0.5) & (down <= height - 0.5)
                total += np.where(valid, _between(data, channel, down, across), 0)
                count += valid
        return np.where(count > 0, total / np.maximum(count, 1), 0)


def _between(data: Array, channel: Array, y: Array, x: Array) -> Array:
    """Read data (C, H, W) between elements, moved into the image."""
    y, x = _within(y, data.shape[1]), _within(x, data.shape[2])
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    bottom, right = np.ceil(y).astype(np.int64), np.ceil(x).astype(np.int64)
    v, h = (y - top).astype(data.dtype), (x - left).astype(data.dtype)
    above = (1 - h) * data[channel, top, left] + h * data[channel, top, right]
    below = (1 - h) * data[channel, bottom, left] + h * data[channel, bottom, right]
    return np.asarray((1 - v) * above + v * below)


REGION_SAMPLES = 1 << 24  # of a region; a larger region is surely a mistake in its numbers


@dataclass(frozen=True)
class SampledAxis:
    """Samples of an axis: `bins` bins of `step` from `start` on, each with `count` samples."""

    start: np.float32
    step: np.float32
    bins: int
    count: int

    def places(self) -> Array:
        """Return the places (bins, count) of the samples."""
        if self.count <= 0:
            return np.empty((self.bins, 0), np.float32)
        distance = self.step / np.float32(self.count)
        inner = (np.arange(self.count, dtype=np.float32) + np.float32(0.5)) * distance
        first = self.start + np.arange(self.bins, dtype=np.float32) * self.step
        return first[:, None] + inner


def axis_of_samples(start: np.float32, extent: np.float32, bins: int, ratio: int) -> SampledAxis:
    """Divide an extent into bins; `ratio` samples each, 0: one per element."""
    step = extent / np.float32(max(bins, 1))
    count = ratio if ratio else int(np.ceil(step)) if np.isfinite(step) else 0
    return SampledAxis(start, step, bins, count)


def neighbours(places: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Return lower and upper element, the upper's weight, a mask of places at most 1 outside."""
    inside = (places >= -1) & (places <= size)
    at = np.clip(np.where(inside, places, 0), 0, size - 1)
    low = at.astype(np.int64)
    return low, np.minimum(low + 1, size - 1), at - low.astype(at.dtype), inside


def _along(data: Array, places: Array, axis: int) -> Array:
    """Read data at places (B, S) of an axis, which becomes (B, S); 0 outside."""
    low, high, weight, inside = neighbours(places, data.shape[axis])
    shape = (1,) * axis + weight.shape + (1,) * (data.ndim - axis - 1)
    upper = (weight * inside).astype(data.dtype).reshape(shape)
    lower = ((1 - weight) * inside).astype(data.dtype).reshape(shape)
    return np.asarray(np.take(data, low, axis) * lower + np.take(data, high, axis) * upper)


def _weights(axis: SampledAxis, size: int) -> tuple[Array, slice[int, int, None]]:
    """Return the elements that the samples of an axis read, and their weights in each bin."""
    low, high, share, inside = neighbours(axis.places(), size)
    first, last = int(low.min(initial=size - 1)), int(high.max(initial=0))
    first = min(first, last)
    weights = np.zeros((axis.bins, last - first + 1), np.float32)
    rows = np.broadcast_to(np.arange(axis.bins)[:, None], low.shape)
    np.add.at(weights, (rows, low - first), (1 - share) * inside)
    np.add.at(weights, (rows, high - first), share * inside)
    return weights, slice(first, last + 1)


def average(data: Array, y: SampledAxis, x: SampledAxis) -> Array:
    """Return the mean of the samples of each bin: data (C, H, W) -> (C, y.bins, x.bins).

    Without samples it is 0 / 0 as in the runtime; if both counts are negative it is 0.
    """
    (down, rows), (across, columns) = _weights(y, data.shape[1]), _weights(x, data.shape[2])
    part = data[:, rows, columns]
    if np.isfinite(part).all():
        with np.errstate(all="ignore"):
            last = part.transpose(1, 2, 0)  # so few large products do, not a small one per channel
            lines = np.matmul(down, last.reshape(len(last), -1)).reshape(y.bins, *last.shape[1:])
            both = np.matmul(across, lines).transpose(2, 0, 1)
    else:  # a weight of 0 would make a NaN of an infinity
        both = _along(_along(data, y.places(), 1).sum(2), x.places(), 2).sum(3)
    with np.errstate(invalid="ignore"):
        return np.asarray(both / np.asarray(y.count * x.count, data.dtype))


def largest(data: Array, y: SampledAxis, x: SampledAxis) -> Array:
    """Return the largest sample of each bin or 0, whichever is more: -> (C, y.bins, x.bins)."""
    rows = _along(data, y.places(), 1)
    return np.asarray(_along(rows, x.places(), 3).max((2, 4), initial=0))


Turn = Callable[[Array, Array], tuple[Array, Array]]


def average_at(data: Array, y: SampledAxis, x: SampledAxis, turn: Turn) -> Array:
    """Return the mean of the samples of each bin, at places that `turn` maps into the image.

    Without samples it is 0 as in the runtime.
    """
    down, across = turn(y.places()[:, :, None, None], x.places())
    height, width = data.shape[1:]
    top, bottom, wy, inside_y = neighbours(down, height)
    left, right, wx, inside_x = neighbours(across, width)
    valid = inside_y & inside_x
    out = np.zeros((len(data), *valid.shape), data.dtype)
    for rows, v in ((top, 1 - wy), (bottom, wy)):
        for columns, h in ((left, 1 - wx), (right, wx)):
            out += data[:, rows, columns] * (v * h * valid).astype(data.dtype)
    return np.asarray(out.sum((2, 4)) / np.asarray(y.count * x.count or 1, data.dtype))


def to_rgb(y: Array, u: Array, v: Array) -> Array:
    """Return red, green and blue (..., 3) in 0..255: y (N, H, W), u and v (N, H / 2, W / 2), f32.

    Every step is rounded to f32, in the runtime's order, so that u8 rounds to the same.
    """
    luma = (y - np.float32(16)) * np.float32(1.164)
    u, v = ((p - np.float32(128)).repeat(2, 1).repeat(2, 2) for p in (u, v))
    red = luma + np.float32(1.596) * v
    green = luma - np.float32(0.391) * u - np.float32(0.813) * v
    blue = luma + np.float32(2.018) * u
    return np.asarray(np.clip(np.stack([red, green, blue], -1), 0, 255))
