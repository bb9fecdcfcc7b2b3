"""Overlaps of rotated boxes [x, y, width, height, angle], the angle in radians."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array

_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_FLAT = 1e-7  # relative: an edge that rises less is level, dividing by its rise would cancel


def axes(boxes: Array) -> Array:
    """Return the directions (..., 2, 2) of width and height: two rows, each x and y."""
    cos, sin = np.cos(boxes[..., 4]), np.sin(boxes[..., 4])
    return np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)


def overlap(box: Array, others: Array) -> Array:
    """Return the intersection over the union with each of the others (n, 5); 0 for empty boxes."""
    box, others = box.astype(np.float64), others.astype(np.float64)
    own, areas = box[2] * box[3], others[:, 2] * others[:, 3]
    with np.errstate(all="ignore"):  # sides may be infinite
        corners = np.matmul(_CORNERS * others[:, None, 2:4], axes(others)) + others[:, None, :2]
        common = clipped(np.matmul(corners - box[:2], axes(box).T), box[2:4] / 2)
        valid = (areas > 0) & (own > 0)
        return np.where(valid, common / np.where(valid, own + areas - common, 1), 0)


def clipped(polygons: Array, half: Array) -> Array:
    """Return the area of polygons (n, corners, 2) within the box -half..half.

    Moving every point to the nearest one of the box leaves the common part where it is and folds
    the rest to lines: the area is the integral of the moved y over the moved x along the edges.
    """
    (x, y), (to_x, to_y) = (
        np.moveaxis(polygons, -1, 0),
        np.moveaxis(np.roll(polygons, -1, 1), -1, 0),
    )
    begin, end = np.clip(x, -half[0], half[0]), np.clip(to_x, -half[0], half[0])
    run = np.where(to_x == x, 1, to_x - x)
    slope = (to_y - y) / run
    low, high = y + slope * (begin - x), y + slope * (end - x)
    rise = high - low
    level = np.abs(rise) <= _FLAT * (np.abs(low) + np.abs(high) + half[1])
    middle = np.clip((low + high) / 2, -half[1], half[1])
    mean = (_integral(high, half[1]) - _integral(low, half[1])) / np.where(level, 1, rise)
    parts: Array = np.where(level, middle, mean) * (end - begin)
    return np.asarray(np.abs(np.sum(parts, -1)))


def _integral(y: Array, half: float) -> Array:
    """Return the integral of y cut to -half..half, up to a constant."""
    cut = np.clip(y, -half, half)
    return np.asarray(cut * y - cut * cut / 2)
