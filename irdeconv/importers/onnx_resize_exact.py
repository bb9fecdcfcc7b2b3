"""Resize as ONNX defines it, axis by axis: a product with a matrix of weights, or a Gather.

It serves what Interpolate lacks: antialiasing, crops, weights that leave out what lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.dtypes import boolean
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.ops.elementwise import LogicalAnd, Select
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.movement import Transpose
from irdeconv.ops.slicing import Gather
from irdeconv.spec import Array

MATRIX_LIMIT = 1 << 22  # elements of the matrix of an axis


@dataclass(frozen=True)
class ResizedAxis:
    """An axis of `size` elements that gets `wanted` at a scale; the crop is a part of it."""

    axis: int
    size: int
    wanted: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)


def resized(
    b: ImportBuilder, x: Value, axes: list[ResizedAxis], attributes: Mapping[str, Any]
) -> Value:
    """Return the data resized along axes, one after the other."""
    mode = attributes["coordinate_transformation_mode"]
    inside: Value | None = None
    start = x
    for one in axes:
        if one.size < 1 or one.size * one.wanted > MATRIX_LIMIT:
            raise Refusal(f"axis {one.axis} of size {one.size} resized to {one.wanted}")
        places = _places(one, mode)
        start = _along(b, start, one, places, attributes)
        if mode == "tf_crop_and_resize":
            there = (places >= 0) & (places <= one.size - 1)
            mask = b.const(there.reshape((-1, *(1,) * (b.rank(x) - one.axis - 1))), boolean)
            inside = mask if inside is None else b.add(LogicalAnd(), inside, mask)
    if inside is None:
        return start
    return b.add(Select(), inside, start, b.like(attributes["extrapolation_value"], x))


def _places(one: ResizedAxis, mode: str) -> Array:
    """Return where each element of the result lies in the data."""
    at: Array = np.arange(one.wanted, dtype=np.float64)
    exact = one.scale * one.size
    if mode == "align_corners":
        return at * (one.size - 1) / (exact - 1) if exact != 1 else at * 0
    if mode == "tf_crop_and_resize":
        low, high = (c * (one.size - 1) for c in one.crop)
        steps = at / (exact - 1) if exact != 1 else at * 0 + 0.5
        return low + steps * (high - low)
    if mode == "asymmetric":
        return at / one.scale
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / one.scale
    if mode == "pytorch_half_pixel" and exact == 1:
        return at - 0.5
    out = (at + 0.5) / one.scale - 0.5
    if mode == "half_pixel_symmetric":
        out += one.size / 2 * (1 - one.wanted / exact)
    return out


def _along(
    b: ImportBuilder, x: Value, one: ResizedAxis, places: Array, attributes: Mapping[str, Any]
) -> Value:
    if attributes["mode"] == "nearest":
        near = np.clip(_nearest(places, attributes["nearest_mode"]), 0, one.size - 1)
        return b.add(Gather(), x, b.const(near), b.scalar(one.axis))
    weights = _weights(one, places, attributes).astype(b.dtype(x).container)
    rank = b.rank(x)
    matrix = b.const(weights, b.dtype(x))
    if one.axis == rank - 2:
        return b.add(MatMul(), matrix, x)
    order = [a for a in range(rank) if a != one.axis]
    moved = b.add(Transpose(), x, b.ints(*order, one.axis)) if one.axis != rank - 1 else x
    y = b.add(MatMul(transpose_b=True), moved, matrix)
    if one.axis == rank - 1:
        return y
    return b.add(Transpose(), y, b.ints(*np.argsort([*order, one.axis]).tolist()))


def _nearest(places: Array, mode: str) -> Array:
    rules: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return np.asarray(rules[mode](places), np.int64)


def _weights(one: ResizedAxis, places: Array, attributes: Mapping[str, Any]) -> Array:
    """Return the weights (wanted, size): of the neighbours, where those outside are the border."""
    cubic = attributes["mode"] == "cubic"
    reach = 2 if cubic else 1
    shrink = min(one.scale, 1.0) if attributes["antialias"] else 1.0
    first = math.floor(-reach / shrink) + 1
    if max(one.wanted, 1) * (2 - 2 * first) > MATRIX_LIMIT:
        raise Refusal(f"axis {one.axis} of size {one.size} resized by {one.scale:g}")
    around = np.arange(first, 2 - first)
    base = np.floor(places).astype(np.int64)
    away = np.abs((around[None] - (places - base)[:, None]) * shrink)
    values = _cubic(away, attributes["cube_coeff"]) if cubic else np.clip(1 - away, 0, 1)
    at = base[:, None] + around[None]
    if attributes["exclude_outside"]:
        values = np.where((at < 0) | (at >= one.size), 0, values)
    if attributes["exclude_outside"] or attributes["antialias"]:
        values /= values.sum(1, keepdims=True)
    out = np.zeros((one.wanted, one.size))
    rows = np.broadcast_to(np.arange(one.wanted)[:, None], at.shape)
    np.add.at(out, (rows, np.clip(at, 0, one.size - 1)), values)
    return out


def _cubic(away: Array, a: float) -> Array:
    """Return the cubic convolution kernel at distances."""
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = a * (((away - 5) * away + 8) * away - 4)
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))
