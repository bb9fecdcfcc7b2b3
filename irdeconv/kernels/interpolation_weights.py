"""How interpolation weighs neighbours: each axis is a sparse matrix from input to output positions.

Coordinates are computed in f32, as OpenVINO does: whether a position is exactly on a half decides
which neighbour `nearest` takes. I is the input's size along the axis, O the output's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
class AxisWeights:
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
    nearest: Array
    if rule == "floor":
        nearest = np.floor(x)
    elif rule == "ceil":
        nearest = np.ceil(x)
    elif rule == "round_prefer_floor":
        nearest = np.ceil(x - _HALF)
    else:
        nearest = np.floor(x + _HALF)
    return nearest.astype(np.int64)


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


def _lerp(x: Array, size: int) -> AxisWeights:
    """Weigh the two neighbours of each position, clamped to the data."""
    x = np.clip(x, 0, size - 1).astype(np.float64)
    low = np.floor(x).astype(np.int64)
    part = x - low
    index = np.stack([low, np.minimum(low + 1, size - 1)], axis=1)
    return AxisWeights(index, np.stack([1 - part, part], axis=1))


def _cubic_clamped(x: Array, size: int, coeff: float) -> AxisWeights:
    """Weigh four neighbours; those outside the data repeat its border."""
    low = np.floor(x).astype(np.int64)
    taps = low[:, None] + np.arange(-1, 3)
    weight = _cubic(coeff)(x.astype(np.float64)[:, None] - taps)
    return AxisWeights(np.clip(taps, 0, size - 1), weight)


def _filtered(
    center: Array, size: int, kernel: Callable[[Array], Array], stretch: float, support: float
) -> AxisWeights:
    """Weigh all neighbours within `support` by a kernel that is `stretch` times as wide.

    AxisWeights are normalised over the neighbours inside the data.
    """
    first = np.ceil(center - support).astype(np.int64)
    taps = first[:, None] + np.arange(math.floor(2 * support) + 1)
    weight = kernel((taps - center[:, None]) / stretch)
    weight[(taps < 0) | (taps >= size) | (np.abs(taps - center[:, None]) > support)] = 0
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)
    return AxisWeights(np.clip(taps, 0, size - 1), weight)


def _pillow(resize: Resize, size: int, rules: Rules) -> AxisWeights:
    """Weigh as Pillow's resize does: half-pixel centres, always antialiased, O / I as the scale."""
    ratio = size / resize.size
    stretch = max(ratio, 1.0)
    center = (np.arange(resize.size) + 0.5) * ratio - 0.5
    if rules.mode == "bilinear_pillow":
        return _filtered(center, size, _triangle, stretch, stretch)
    return _filtered(center, size, _cubic(rules.cube_coeff), stretch, 2 * stretch)


def axis_weights(resize: Resize, size: int, rules: Rules) -> AxisWeights:
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


def nearest_of(resize: Resize, size: int, rules: Rules) -> Array:
    """Return the index of the nearest neighbour, `[O]` i64, of an axis of `size`."""
    position = coordinates(resize, size, rules.transformation)
    return np.clip(nearest_index(position, rules.nearest, resize.scale), 0, size - 1)


def pays_dense(size: int, matrix: AxisWeights, *, last: bool) -> bool:
    """Whether a dense product costs less than a gather for each tap, in ns per element."""
    taps: int = matrix.index.shape[1]
    return size * 2 / 85 < taps * (2.0 if last else 0.7)


def dense_matrix(matrix: AxisWeights, size: int, dtype: Any) -> Array:
    """Return the weights as a matrix `[O, I]`."""
    count = len(matrix.index)
    full = np.zeros((count, size))
    np.add.at(full, (np.arange(count)[:, None], matrix.index), matrix.weight)
    return full.astype(dtype)
