"""Prior boxes: candidates of fixed sizes around the centre of every cell of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.spec import Array

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

    Marked boxes end at the border where they begin outside of it: below 0, or behind 1.
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


def with_variances(boxes: Array, count: int, variance: Sequence[float]) -> Array:
    """Return (2, count): the first `count` numbers of the boxes, and the variances of each.

    One variance stands for all four numbers of a box, none for 0.1.
    """
    out = np.empty((2, count), np.float32)
    out[0] = boxes.reshape(-1)[:count]
    out[1] = np.resize(np.array(variance or (0.1,), np.float32), count)
    return out
