"""Sampling images at real coordinates: GridSample's interpolations and paddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irdeconv.spec import Array

CUBIC = -0.75  # the parameter of the cubic convolution


def source(place: Array, size: int, *, align_corners: bool) -> Array:
    """Map -1..1 to element numbers: to the centres of the outer elements, or to their edges."""
    if align_corners:
        return (place + 1) / 2 * (size - 1)
    return ((place + 1) * size - 1) / 2


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
