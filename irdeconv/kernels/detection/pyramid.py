"""Average pooling of regions out of the levels of a feature pyramid, by bilinear samples."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array

CANONICAL = 224  # the side of a region that belongs to level 2
SAMPLES = 1 << 20  # the most samples of a region along an axis


def levels(regions: Array, count: int) -> Array:
    """Return the level of each region [x1, y1, x2, y2]; `count`, which is none, without area."""
    sides = regions[:, 2:] - regions[:, :2]
    area = sides[:, 0] * sides[:, 1]
    side = np.sqrt(np.where(area > 0, area, 1)) / np.float32(CANONICAL)
    level = np.floor(np.log2(side + np.float32(1e-6)) + 2)
    return np.where(area > 0, np.clip(level, 0, count - 1), count).astype(np.int64)


def pooled(features: Array, region: Array, bins: int, sampling: int) -> Array:
    """Return the means (C, bins, bins) of features (H, W, C) over a region's bins.

    `region` is [[x1, y1], [x2, y2]] in elements of the features; it is at least one element large.
    A bin has `sampling` samples along each axis; 0: one for each element that it covers, at least.
    Samples more than one element outside are 0, others outside the border's.
    """
    (x, columns), (y, rows) = (
        _axis(float(region[0, i]), float(region[1, i]), features.shape[1 - i], bins, sampling)
        for i in (0, 1)
    )
    part = features[rows, columns]
    with np.errstate(all="ignore"):  # features may be infinite
        lines = np.matmul(y, part.reshape(len(part), -1)).reshape(bins, *part.shape[1:])
        return np.asarray(np.matmul(x, lines).transpose(2, 0, 1))


def _axis(
    begin: float, end: float, size: int, bins: int, sampling: int
) -> tuple[Array, slice[int, int, None]]:
    """Return the weights (bins, n) of the n elements that the samples read, and which these are."""
    step = np.float32(max(end - begin, 1)) / np.float32(bins)
    samples = samples_of(float(step), sampling)
    inner = (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * step / np.float32(samples)
    at = np.float32(begin) + np.arange(bins, dtype=np.float32)[:, None] * step + inner
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.minimum(at.astype(np.int64), max(size - 2, 0))
    high = np.minimum(low + 1, size - 1)
    first, last = int(low.min()), int(high.max())
    weights = np.zeros((bins, last - first + 1), np.float32)
    share = (at - low).astype(np.float32)
    rows = np.broadcast_to(np.arange(bins)[:, None], at.shape)
    np.add.at(weights, (rows, low - first), (1 - share) * inside)
    np.add.at(weights, (rows, high - first), share * inside)
    return weights / np.float32(samples), slice(first, last + 1)


def samples_of(step: float, sampling: int) -> int:
    """Return the samples of a bin along an axis."""
    return sampling if sampling > 0 else int(np.ceil(np.float32(step)))
