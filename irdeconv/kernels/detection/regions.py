"""Regions of feature maps read at samples between elements: ROIAlign, straight and rotated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array

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
    """Return lower and upper element, the weight of the upper one, and what lies inside.

    A place up to one element outside reads the border.
    """
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
    """Return the elements that the samples of an axis read, and what each bin takes of them."""
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

    Without samples it is 0 / 0 as in the runtime, where both counts are negative 0.
    """
    (down, rows), (across, columns) = _weights(y, data.shape[1]), _weights(x, data.shape[2])
    part = data[:, rows, columns]
    if np.isfinite(part).all():
        with np.errstate(all="ignore"):
            last = part.transpose(1, 2, 0)  # so few large products do, not a small one per channel
            lines = np.matmul(down, last.reshape(len(last), -1)).reshape(y.bins, *last.shape[1:])
            both = np.matmul(across, lines).transpose(2, 0, 1)
    else:  # a weight of 0 would make a NaN of what is infinite
        both = _along(_along(data, y.places(), 1).sum(2), x.places(), 2).sum(3)
    with np.errstate(invalid="ignore"):
        return np.asarray(both / np.asarray(y.count * x.count, data.dtype))


def largest(data: Array, y: SampledAxis, x: SampledAxis) -> Array:
    """Return the largest sample of each bin or 0, whichever is more: -> (C, y.bins, x.bins)."""
    rows = _along(data, y.places(), 1)
    return np.asarray(_along(rows, x.places(), 3).max((2, 4), initial=0))


Turn = Callable[[Array, Array], tuple[Array, Array]]


def average_at(data: Array, y: SampledAxis, x: SampledAxis, turn: Turn) -> Array:
    """Return the mean of the samples of each bin, at places that `turn` maps into the image."""
    down, across = turn(y.places()[:, :, None, None], x.places())
    height, width = data.shape[1:]
    top, bottom, wy, inside_y = neighbours(down, height)
    left, right, wx, inside_x = neighbours(across, width)
    valid = inside_y & inside_x
    out = np.zeros((len(data), *valid.shape), data.dtype)
    for rows, v in ((top, 1 - wy), (bottom, wy)):
        for columns, h in ((left, 1 - wx), (right, wx)):
            out += data[:, rows, columns] * (v * h * valid).astype(data.dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(out.sum((2, 4)) / np.asarray(y.count * x.count, data.dtype))
