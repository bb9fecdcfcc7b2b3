"""Tensors as small pictures of 8 bits: feature maps, images in colour, signals as lines.

Sizes are reduced by the mean of the elements that a pixel covers. A pixel is 0 where one of them is
not finite; 1 to 255 go from the least to the largest number of its channel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from irdeconv.page.statistics import PART_SIZE, rounded
from irdeconv.spec import Array

Kind = Literal["maps", "colour", "lines"]


@dataclass(frozen=True)
class Level:
    """How large pictures may be: maps and lines of a tensor, and pixels of a side or a line."""

    channels: int
    side: int
    length: int
    colour: int


LEVELS = (
    Level(16, 64, 256, 256),
    Level(16, 48, 192, 192),
    Level(12, 32, 128, 128),
    Level(8, 24, 96, 96),
    Level(4, 24, 64, 64),
    Level(4, 16, 48, 48),
    Level(1, 16, 32, 32),
    Level(1, 8, 16, 16),
)


@dataclass(frozen=True)
class TensorPicture:
    """The first channels of a tensor, [channels, height, width]; NaN where one is not finite.

    `total` counts all channels, `axes` says how the tensor was read, `size` is that of a channel
    before it was reduced.
    """

    kind: Kind
    axes: str
    total: int
    size: tuple[int, int]
    values: Array

    def at_most(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level; the same where it is small enough."""
        return self if self.values.shape == self._shape(level) else self.read_at(level)

    def read_at(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level, of float64, with NaN for what is not finite."""
        channels, height, width = self._shape(level)
        return replace(self, values=_reduced(self.values[:channels], height, width))

    def _shape(self, level: Level) -> tuple[int, int, int]:
        channels, height, width = self.values.shape
        if self.kind == "lines":
            return min(channels, level.channels), 1, min(width, level.length)
        most = level.colour if self.kind == "colour" else level.side
        scale = min(1.0, most / max(height, width))
        fewer = channels if self.kind == "colour" else min(channels, level.channels)
        return fewer, max(1, round(height * scale)), max(1, round(width * scale))

    @cached_property
    def ranges(self) -> list[tuple[float, float] | None]:
        """The least and largest number of each channel, of all together where they are colours."""
        whole = [self.values] * len(self.values) if self.kind == "colour" else [*self.values]
        finite = [v[np.isfinite(v)] for v in whole]
        return [(float(v.min()), float(v.max())) if v.size else None for v in finite]

    @property
    def facts(self) -> dict[str, Any]:
        """What the page says of the picture."""
        channels, height, width = self.values.shape
        digits = [None if r is None else [rounded(v, 5) for v in r] for r in self.ranges]
        return {
            "kind": self.kind,
            "axes": self.axes,
            "total": self.total,
            "size": list(self.size),
            "shape": [channels, height, width],
            "ranges": digits[:1] if self.kind == "colour" else digits,
        }


def picture(
    values: Array, level: Level = LEVELS[0], *, colour: bool = False
) -> TensorPicture | None:
    """Return a tensor of floating-point numbers as a picture; None where it is none.

    [N, C, H, W] are maps, [N, C, L] and shorter ones lines; of [N, C, D, H, W] the middle slice is
    taken, of a batch the first. 3 channels are a `colour` picture where the caller says so.
    """
    read = _read(values)
    if read is None:
        return None
    axes, channels = read
    total, height, width = channels.shape
    if height == 1:
        kind: Kind = "lines"
    else:
        kind = "colour" if colour and total == 3 else "maps"
    return TensorPicture(kind, axes, total, (height, width), channels).read_at(level)


def _read(values: Array) -> tuple[str, Array] | None:
    """Return how the axes are read, and [channels, height, width] of a batch's first element."""
    shape = values.shape
    if values.size < 2:
        return None
    if values.ndim == 5:
        middle = shape[2] // 2
        return f"N,C,D,H,W at D = {middle}", values[0, :, middle]
    if values.ndim == 4 and shape[2] == shape[3] == 1:
        return "N,C,1,1", values[0].reshape(1, 1, -1)
    if values.ndim == 4 and shape[3] in (1, 3, 4) and shape[1] > 4 and shape[2] > 4:
        return "N,H,W,C", np.moveaxis(values[0], -1, 0)
    if values.ndim == 4 and shape[2] == 1:
        return "N,C,1,W", values[0]
    if values.ndim == 4:
        return "N,C,H,W", values[0]
    if values.ndim == 3:
        return "N,C,L", values[0][:, None, :]
    if values.ndim in (1, 2):
        rows = values.reshape(-1, shape[-1])
        return ("N,L" if values.ndim == 2 else "L"), rows[:, None, :]
    return None


def _reduced(values: Array, height: int, width: int) -> Array:
    """Return the means of the elements that each pixel covers; whole elements count.

    Large tensors are read in parts, so that little of them is float64 at a time.
    """
    channels, rows, columns = values.shape
    wide = max(1, min(columns, PART_SIZE // channels))
    tall = max(1, PART_SIZE // (channels * wide))
    out = np.zeros((channels, height, width))
    down, along = _pixels(rows, height), _pixels(columns, width)
    for y in range(0, rows, tall):
        for x in range(0, columns, wide):
            part = values[:, y : y + tall, x : x + wide].astype(np.float64)
            part[~np.isfinite(part)] = np.nan
            part, top = _sums(part, 1, down[y : y + tall], rows, height)
            part, left = _sums(part, 2, along[x : x + wide], columns, width)
            out[:, top : top + part.shape[1], left : left + part.shape[2]] += part
    return out


def _pixels(whole: int, size: int) -> Array:
    """Return the pixel of each element of an axis."""
    return np.repeat(np.arange(size), np.diff(np.arange(size + 1) * whole // size))


def _sums(part: Array, axis: int, pixels: Array, whole: int, size: int) -> tuple[Array, int]:
    """Return the share of a part in the mean of each pixel, and the first of these pixels."""
    covered = np.diff(np.arange(size + 1) * whole // size)[pixels]
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))
    # Divided first: a sum of large numbers may overflow.
    part = part / np.expand_dims(covered, [a for a in range(3) if a != axis])
    return np.add.reduceat(part, starts, axis), int(pixels[0])


def encoded(shown: TensorPicture) -> bytes:
    """Return the pixels as bytes, channel by channel and row by row."""
    out = np.zeros(shown.values.shape, np.uint8)
    for channel, (values, range) in enumerate(zip(shown.values, shown.ranges, strict=True)):
        if range is None:
            continue
        low, high = range
        scale = max(abs(low), abs(high)) or 1.0
        wide = high / scale - low / scale
        # Equal numbers are in the middle; NaN stays NaN.
        place = (values / scale - low / scale) / wide if wide else values * 0 + 0.5
        level = 1 + np.round(254 * place)
        out[channel] = np.where(np.isnan(level), 0, level).astype(np.uint8)
    return out.tobytes()
