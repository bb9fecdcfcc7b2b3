"""Sampling at real coordinates: GridSample and deformable convolution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels.scratch import pieces

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
        """Return the places of the taps of outputs without offsets: [taps, outputs], f32."""
        at = np.arange(outputs.start, outputs.stop) * self.strides[axis] - self.begin[axis]
        places = np.arange(taps)[:, None] * self.dilations[axis] + at
        return np.asarray(places, np.float32)

    def neighbours(self, place: Array, size: int) -> tuple[list[tuple[Array, Array]], Array]:
        """Return (index, weight) of the elements around places, and a mask of used places."""
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
    # In f32 for every type: at a border a place that is rounded otherwise reads 0.
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


CUBIC = -0.75  # the parameter of the cubic convolution


def source(place: Array, size: int, *, align_corners: bool) -> Array:
    """Map -1..1 to element numbers: to the centres of the outer elements, or to their edges."""
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


def bordered(at: Array, size: int) -> Array:
    """Return the nearest element inside."""
    return np.clip(at, 0, size - 1)


def reflected(at: Array, size: int, *, align_corners: bool) -> Array:
    """Mirror element numbers at the outer centres (align_corners) or edges, again and again."""
    if align_corners:
        period = max(2 * (size - 1), 1)
        inside = np.abs(at) % period
        return np.where(inside >= size, period - inside, inside)
    inside = at % (2 * size)
    return np.where(inside >= size, 2 * size - 1 - inside, inside)


def linear_weights(fraction: Array) -> list[tuple[int, Array]]:
    """Return (offset, weight) of the two elements around a place."""
    return [(0, 1 - fraction), (1, fraction)]


def cubic_weights(fraction: Array) -> list[tuple[int, Array]]:
    """Return (offset, weight) of the four elements around a place."""
    near, far = fraction, 1 - fraction

    def inner(d: Array) -> Array:
        return ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1

    def outer(d: Array) -> Array:
        return ((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC

    return [(-1, outer(1 + near)), (0, inner(near)), (1, inner(far)), (2, outer(1 + far))]


NeighbourWeights = Callable[[Array], list[tuple[int, Array]]]
Extend = Callable[[Array, int], Array] | None


def sample(
    data: Array, y: Array, x: Array, weights: NeighbourWeights | None, extend: Extend
) -> Array:
    """Read data (N, C, H, W) at rows y and columns x (N, *O); returns (N, C, *O).

    `weights` None takes the nearest element (halves to even ones). `extend` maps element numbers
    outside to ones inside; None reads zeros there.
    """
    if weights is None:
        return _read(data, np.rint(y).astype(np.int64), np.rint(x).astype(np.int64), extend)
    top, left = np.floor(y), np.floor(x)
    rows, columns = weights(y - top), weights(x - left)
    out = np.zeros((*data.shape[:2], *y.shape[1:]), data.dtype)
    for down, wy in rows:
        for across, wx in columns:
            at = (top + down).astype(np.int64), (left + across).astype(np.int64)
            out += _read(data, *at, extend) * (wy * wx)[:, None]
    return out


def _read(data: Array, y: Array, x: Array, extend: Extend) -> Array:
    height, width = data.shape[2:]
    batch = np.arange(len(data)).reshape(-1, *(1,) * (y.ndim - 1))
    if extend is not None:
        y, x = extend(y, height), extend(x, width)
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    found = data[batch, :, bordered(y, height), bordered(x, width)]
    return np.moveaxis(np.where(inside[..., None], found, 0), -1, 1).astype(data.dtype)
