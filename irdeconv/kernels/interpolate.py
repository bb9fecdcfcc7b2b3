"""Interpolation, one axis after the other: each is a sparse matrix from input to output positions.

Coordinates are computed in f32, as OpenVINO does: whether a position is exactly on a half decides
which neighbour `nearest` takes. I is the input's size along the axis, O the output's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from irdeconv.spec import Array

Mode = Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"]
Transformation = Literal[
    "half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"
]
NearestMode = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]

_HALF = np.float32(0.5)


@dataclass(frozen=True)
class Rules:
    """How coordinates are mapped and neighbours weighed."""

    mode: Mode = "nearest"
    transformation: Transformation = "half_pixel"
    nearest: NearestMode = "round_prefer_floor"
    antialias: bool = False
    cube_coeff: float = -0.75


@dataclass(frozen=True)
class Resize:
    """One resized axis; `scale` is O / I or the scale that was given instead of a size."""

    axis: int
    size: int
    scale: float


@dataclass(frozen=True)
class Weights:
    """A sparse matrix: output o is the sum over t of x[index[o, t]] * weight[o, t]."""

    index: Array
    weight: Array


def coordinates(resize: Resize, size: int, rule: Transformation) -> Array:
    """Return the position in the input, `[O]` f32, of every output position."""
    o = np.arange(resize.size, dtype=np.float32)
    scale = np.float32(resize.scale)
    if scale == 1 and size == resize.size:
        return o
    if rule == "asymmetric":
        return o / scale
    if rule == "tf_half_pixel_for_nn":
        return (o + _HALF) / scale
    if rule == "align_corners":
        last = resize.size - 1
        return o * np.float32(size - 1) / np.float32(last) if last else o * 0
    if rule == "pytorch_half_pixel" and resize.size == 1:
        return o * 0
    half: Array = (o + _HALF) / scale - _HALF
    return half


def nearest_index(x: Array, rule: NearestMode, scale: float) -> Array:
    """Return the input index, `[O]` i64 and not yet clipped, that `nearest` takes at x."""
    if rule == "simple":
        rule = "ceil" if scale < 1 else "floor"
        x = np.maximum(x, 0)  # truncation: positions before the data belong to its first element
    found: Array
    if rule == "floor":
        found = np.floor(x)
    elif rule == "ceil":
        found = np.ceil(x)
    elif rule == "round_prefer_floor":
        found = np.ceil(x - _HALF)
    else:
        found = np.floor(x + _HALF)
    return found.astype(np.int64)


def _triangle(x: Array) -> Array:
    weight: Array = np.maximum(1 - np.abs(x), 0)
    return weight


def _cubic(coeff: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = ((coeff + 2) * x - (coeff + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * coeff - 4 * coeff
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


def _lerp(x: Array, size: int) -> Weights:
    """Weigh the two neighbours of each position, clamped to the data."""
    x = np.clip(x, 0, size - 1).astype(np.float64)
    low = np.floor(x).astype(np.int64)
    part = x - low
    index = np.stack([low, np.minimum(low + 1, size - 1)], axis=1)
    return Weights(index, np.stack([1 - part, part], axis=1))


def _cubic_clamped(x: Array, size: int, coeff: float) -> Weights:
    """Weigh four neighbours; those outside the data repeat its border."""
    low = np.floor(x).astype(np.int64)
    taps = low[:, None] + np.arange(-1, 3)
    weight = _cubic(coeff)(x.astype(np.float64)[:, None] - taps)
    return Weights(np.clip(taps, 0, size - 1), weight)


def _filtered(
    center: Array, size: int, kernel: Callable[[Array], Array], stretch: float, support: float
) -> Weights:
    """Weigh all neighbours within `support` by a kernel that is `stretch` times as wide.

    Weights are normalised over the neighbours inside the data.
    """
    first = np.ceil(center - support).astype(np.int64)
    taps = first[:, None] + np.arange(math.floor(2 * support) + 1)
    weight = kernel((taps - center[:, None]) / stretch)
    weight[(taps < 0) | (taps >= size) | (np.abs(taps - center[:, None]) > support)] = 0
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)
    return Weights(np.clip(taps, 0, size - 1), weight)


def _pillow(resize: Resize, size: int, rules: Rules) -> Weights:
    """Weigh as Pillow's resize does: half-pixel centres, always antialiased, O / I as the scale."""
    ratio = size / resize.size
    stretch = max(ratio, 1.0)
    center = (np.arange(resize.size) + 0.5) * ratio - 0.5
    if rules.mode == "bilinear_pillow":
        return _filtered(center, size, _triangle, stretch, stretch)
    return _filtered(center, size, _cubic(rules.cube_coeff), stretch, 2 * stretch)


def weights(resize: Resize, size: int, rules: Rules) -> Weights:
    """Return the matrix of one axis for every mode but nearest; `antialias` as it is given."""
    if rules.mode.endswith("pillow"):
        return _pillow(resize, size, rules)
    x = coordinates(resize, size, rules.transformation)
    if rules.mode == "cubic":
        return _cubic_clamped(x, size, rules.cube_coeff)
    if rules.mode == "linear" and rules.antialias:
        stretch = 1 / resize.scale
        return _filtered(x.astype(np.float64), size, _triangle, stretch, stretch)
    return _lerp(x, size)


@np.errstate(all="ignore")
def interpolate(x: Array, resizes: Sequence[Resize], rules: Rules) -> Array:
    """Resize the given axes of `x`.

    `nearest` copies elements of any type. The other modes compute in f32 (f64 for f64); the result
    has the element type of `x`, integers rounded to the nearest (halves to even) and saturated.
    [image/Interpolate-11]
    """
    if any(r.size == 0 for r in resizes) or x.size == 0:
        sizes = {r.axis: r.size for r in resizes}
        return np.zeros([sizes.get(a, n) for a, n in enumerate(x.shape)], x.dtype)
    if rules.mode == "nearest":
        for r in resizes:
            x = _take(x, r, rules)
        return x
    # The specification: one shrinking axis scales the kernel of every axis, growing ones too.
    rules = replace(rules, antialias=rules.antialias and any(r.scale < 1 for r in resizes))
    dtype = np.dtype(np.float64 if x.dtype.itemsize == 8 else np.float32)
    y = x.astype(dtype, copy=False)
    # Shrinking axes first leaves less to do for the others.
    for r in sorted(resizes, key=lambda r: r.size / x.shape[r.axis]):
        matrix = weights(r, x.shape[r.axis], rules)
        identity = matrix.index.shape[0] == x.shape[r.axis] and r.scale == 1
        y = y if identity else _apply(y, matrix, r.axis)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), limits.min, limits.max)
    return y.astype(x.dtype, copy=False)


def nearest_of(resize: Resize, size: int, rules: Rules) -> Array:
    """Return the index of the nearest neighbour, `[O]` i64, of an axis of `size`."""
    found = coordinates(resize, size, rules.transformation)
    return np.clip(nearest_index(found, rules.nearest, resize.scale), 0, size - 1)


def _take(x: Array, resize: Resize, rules: Rules) -> Array:
    """Pick the nearest neighbour along one axis: whole repeats and strides without a gather."""
    size = x.shape[resize.axis]
    index = nearest_of(resize, size, rules)
    if resize.size % size == 0:
        factor = resize.size // size
        if np.array_equal(index, np.arange(resize.size) // factor):
            return x if factor == 1 else _repeat(x, factor, resize.axis)
    step = int(index[1] - index[0]) if len(index) > 1 else 1
    if step > 0 and np.array_equal(index, index[0] + step * np.arange(resize.size)):
        return x[(slice(None),) * resize.axis + (slice(int(index[0]), int(index[-1]) + 1, step),)]
    return np.take(x, index, axis=resize.axis)


def _repeat(x: Array, factor: int, axis: int) -> Array:
    """Repeat every element: one broadcast copy, several times faster than numpy.repeat."""
    y = np.empty((*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]), x.dtype)
    if axis == x.ndim - 1:
        for k in range(factor):
            y[..., k] = x
    else:
        y[...] = np.expand_dims(x, axis + 1)
    return y.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])


def _apply(x: Array, matrix: Weights, axis: int) -> Array:
    """Multiply along one axis, by a dense product where that costs less than gathers."""
    if pays_dense(x.shape[axis], matrix, last=axis == x.ndim - 1):
        y = _dense(x, matrix, axis)
        # A dense product spreads an Inf or NaN over its whole row; the gather does not.
        if np.isfinite(y.sum()):
            return y
    return apply_weights(x, matrix, axis)


def pays_dense(size: int, matrix: Weights, *, last: bool) -> bool:
    """Whether a dense product costs less than a gather for each tap, in ns per element."""
    taps: int = matrix.index.shape[1]
    return size * 2 / 85 < taps * (2.0 if last else 0.7)


def dense_matrix(matrix: Weights, size: int, dtype: Any) -> Array:
    """Return the weights as a matrix `[O, I]`."""
    count = len(matrix.index)
    full = np.zeros((count, size))
    np.add.at(full, (np.arange(count)[:, None], matrix.index), matrix.weight)
    return full.astype(dtype)


def _dense(x: Array, matrix: Weights, axis: int) -> Array:
    count, size = matrix.index.shape[0], x.shape[axis]
    full = dense_matrix(matrix, size, x.dtype)
    if axis == x.ndim - 1:
        rows: Array = np.matmul(np.ascontiguousarray(x).reshape(-1, size), full.T)
        return rows.reshape(*x.shape[:-1], count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    y: Array = np.matmul(full, x.reshape(*x.shape[: axis + 1], -1))
    return y.reshape(shape)


def apply_weights(x: Array, matrix: Weights, axis: int) -> Array:
    """Add the weighted neighbours along an axis; a weight of 0 leaves out even an Inf or NaN."""
    behind = (1,) * (x.ndim - axis - 1)
    total: Array | None = None
    for t in range(matrix.index.shape[1]):
        weight = matrix.weight[:, t].astype(x.dtype).reshape(-1, *behind)
        part = np.take(x, matrix.index[:, t], axis=axis)
        # Zero weights (clipped neighbours) must not turn an Inf into a NaN.
        part = np.multiply(part, weight, out=np.zeros_like(part), where=weight != 0)
        total = part if total is None else np.add(total, part, out=total)
    return np.zeros(0, x.dtype) if total is None else total
