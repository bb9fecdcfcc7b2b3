"""Deformable convolution: every tap of every window reads at a place of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.shared.blocking import pieces
from irdeconv.spec import Array

TAPS_AT_ONCE = 1 << 22  # elements of the taps that are read at a time


@dataclass(frozen=True, kw_only=True)
class DeformableWindows:
    """Windows of two axes: tap k of output o reads around o * stride + k * dilation - begin.

    With `padded` a place up to one element outside of the data is interpolated with zeros there;
    otherwise it is clamped, and a place outside gives zero.
    """

    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    padded: bool

    def base(self, axis: int, taps: int, outputs: slice) -> Array:
        """Return where the taps of outputs lie without offsets: [taps, outputs], f32."""
        at = np.arange(outputs.start, outputs.stop) * self.strides[axis] - self.begin[axis]
        places = np.arange(taps)[:, None] * self.dilations[axis] + at
        return np.asarray(places, np.float32)

    def neighbours(self, place: Array, size: int) -> tuple[list[tuple[Array, Array]], Array]:
        """Return (index, weight) of the elements before and behind places, and which count."""
        if self.padded:
            inside = (place > -1) & (place < size)
            low = np.floor(place)
            high = low + 1
        else:
            inside = (place >= 0) & (place < size)
            low = np.maximum(np.floor(place), 0)
            high = np.minimum(np.ceil(place), size - 1)
        fraction = place - low
        pairs = []
        for at, weight in ((low, 1 - fraction), (high, fraction)):
            valid = inside & (at >= 0) & (at < size)
            index = np.where(valid, at, 0).astype(np.intp)
            pairs.append((index, np.where(valid, weight, 0)))
        return pairs, inside


def taps(plane: Array, y: Array, x: Array, windows: DeformableWindows) -> Array:
    """Read planes (C, H, W) at places (K, P): (C, K, P)."""
    channels, height, width = plane.shape
    rows, row_inside = windows.neighbours(y, height)
    columns, column_inside = windows.neighbours(x, width)
    inside = row_inside & column_inside
    flat = plane.reshape(channels, -1)
    out = np.zeros((channels, *y.shape), plane.dtype)
    for row, high in rows:
        for column, wide in columns:
            weight = np.where(inside, high * wide, 0).astype(plane.dtype)
            out += flat[:, row * width + column] * weight
    return out


def convolve(
    data: Array,
    offsets: Array,
    filters: Array,
    mask: Array | None,
    windows: DeformableWindows,
    groups: tuple[int, int],
) -> Array:
    """Return (N, M, OH, OW) for data (N, C, H, W), all f32 or all f64.

    offsets (N, 2 d K, OH, OW) are pairs of y and x, filters (M, C / g, KH, KW), mask (N, d K, OH,
    OW); `groups` is (g, d): groups of channels that share a filter, or offsets.
    """
    plain, deformable = groups
    batch, channels = data.shape[:2]
    rows, columns = offsets.shape[2:]
    count, (height, width) = len(filters), filters.shape[2:]
    weights = filters.reshape(plain, count // plain, -1)
    out = np.empty((batch, count, rows, columns), data.dtype)
    moved = offsets.reshape(batch, deformable, height * width, 2, rows, columns)
    scaled = None if mask is None else mask.reshape(batch, deformable, -1, rows, columns)
    step = max(1, TAPS_AT_ONCE // max(1, channels * height * width * columns))
    for part in pieces(rows, step):
        lines = part.stop - part.start
        y0 = windows.base(0, height, part)[:, None, :, None]
        x0 = windows.base(1, width, slice(0, columns))[None, :, None, :]
        base = [np.broadcast_to(v, (height, width, lines, columns)) for v in (y0, x0)]
        flat = [b.reshape(height * width, -1) for b in base]
        for n in range(batch):
            read = []
            for d, planes in enumerate(np.split(data[n], deformable)):
                offset = moved[n, d, :, :, part].reshape(height * width, 2, -1)
                found = taps(planes, flat[0] + offset[:, 0], flat[1] + offset[:, 1], windows)
                if scaled is not None:
                    found *= scaled[n, d, :, part].reshape(height * width, -1)
                read.append(found)
            patches = np.concatenate(read).reshape(plain, -1, lines * columns)
            out[n, :, part] = np.matmul(weights, patches).reshape(count, lines, columns)
    return out
