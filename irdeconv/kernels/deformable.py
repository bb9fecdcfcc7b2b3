"""Deformable convolution: every tap of every window reads at a place of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels.shared.blocking import pieces
from irdeconv.spec import Array

TAPS_AT_ONCE = 1 << 16  # elements of the taps that are read at a time


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
    """Read channels at places (P, K) of a plane (H, W, C): (P, K, C)."""
    height, width, channels = plane.shape
    rows, row_inside = windows.neighbours(y, height)
    columns, column_inside = windows.neighbours(x, width)
    inside = row_inside & column_inside
    flat = plane.reshape(-1, channels)
    out = np.zeros((*y.shape, channels), plane.dtype)
    for row, high in rows:
        for column, wide in columns:
            weight = np.where(inside, high * wide, 0).astype(plane.dtype)
            read = np.take(flat, row * width + column, 0)
            np.multiply(read, weight[..., None], out=read)
            np.add(out, read, out=out)
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
    # Taps before channels, as they are read.
    split = filters.reshape(plain, count // plain, -1, height * width)
    weights = split.transpose(0, 3, 2, 1).reshape(plain, -1, count // plain)
    out = np.empty((batch, count, rows, columns), data.dtype)
    planes = data.reshape(batch, deformable, -1, *data.shape[2:]).transpose(0, 1, 3, 4, 2)
    planes = np.ascontiguousarray(planes)
    # In f32 whatever the type: at a border a place that is rounded otherwise reads 0.
    narrow = offsets.astype(np.float32, copy=False)
    moved = narrow.reshape(batch, deformable, height * width, 2, rows, columns)
    scaled = None if mask is None else mask.reshape(batch, deformable, -1, rows, columns)
    step = max(1, TAPS_AT_ONCE // max(1, channels * height * width * columns))
    for n, part in itertools.product(range(batch), pieces(rows, step)):
        base = _places(windows, (height, width), part, columns)
        masks = None if scaled is None else scaled[n, :, :, part]
        read = _patches(planes[n], base, moved[n, :, :, :, part], masks, windows)
        grouped = read.reshape(*read.shape[:2], plain, -1)
        parts = [grouped[:, :, g].reshape(len(read), -1) for g in range(plain)]
        sums = [np.matmul(p, w) for p, w in zip(parts, weights, strict=True)]
        out[n, :, part] = np.concatenate(sums, 1).T.reshape(count, -1, columns)
    return out


def _patches(
    planes: Array,
    base: list[Array],
    moved: Array,
    masks: Array | None,
    windows: DeformableWindows,
) -> Array:
    """Return the taps (P, K, C) of planes (d, H, W, C / d) at places (P, K) plus offsets."""
    read = []
    for d, plane in enumerate(planes):
        offset = moved[d].reshape(*moved.shape[1:3], -1).transpose(1, 2, 0)
        y, x = ((b + o).astype(plane.dtype) for b, o in zip(base, offset, strict=True))
        found = taps(plane, y, x, windows)
        if masks is not None:
            found *= masks[d].reshape(len(masks[d]), -1).T[..., None]
        read.append(found)
    return read[0] if len(read) == 1 else np.concatenate(read, -1)


def _places(
    windows: DeformableWindows, kernel: tuple[int, ...], part: slice, columns: int
) -> list[Array]:
    """Return y and x of every tap without offsets: [rows * columns, taps]."""
    y = windows.base(0, kernel[0], part).T[:, None, :, None]
    x = windows.base(1, kernel[1], slice(0, columns)).T[None, :, None, :]
    shape = (part.stop - part.start, columns, *kernel)
    return [np.broadcast_to(v, shape).reshape(-1, kernel[0] * kernel[1]) for v in (y, x)]
