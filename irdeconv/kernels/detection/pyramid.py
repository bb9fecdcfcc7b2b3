"""The levels of a feature pyramid."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array

CANONICAL = 224  # the side of a region that belongs to level 2


def levels(regions: Array, count: int) -> Array:
    """Return the level of each region [x1, y1, x2, y2]; `count`, which is none, without area."""
    sides = regions[:, 2:] - regions[:, :2]
    area = sides[:, 0] * sides[:, 1]
    side = np.sqrt(np.where(area > 0, area, 1)) / np.float32(CANONICAL)
    level = np.floor(np.log2(side + np.float32(1e-6)) + 2)
    return np.where(area > 0, np.clip(level, 0, count - 1), count).astype(np.int64)
