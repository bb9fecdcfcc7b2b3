"""Regions of feature maps divided into bins: their largest elements, means, or one point each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array


def rounded(x: Array) -> Array:
    """Round to integers, halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(np.float32(0.5), x)))


def borders(start: int, extent: int, bins: int, size: int) -> list[tuple[int, int]]:
    """Divide whole elements into bins that may share elements, cut at the image."""
    inner = [(k * extent // bins, -(-(k + 1) * extent // bins)) for k in range(bins)]
    return [tuple(min(max(start + e, 0), size) for e in pair) for pair in inner]  # type: ignore[misc]


def maxima(data: Array, region: Array, scale: float, bins: tuple[int, int]) -> Array:
    """Return the largest element of each bin, 0 where there is none: (C, H, W) -> (C, h, w)."""
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
    """Return the bins that differ, and which of them each is; many more than elements repeat."""
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
