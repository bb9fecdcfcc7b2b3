"""Anchors: boxes of all ratios and scales at each cell of a grid, and how a network shifts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array


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
