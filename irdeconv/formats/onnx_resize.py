"""ONNX's Resize and Upsample: Interpolate if it means the same numbers.

Otherwise (antialiasing, crops, weights without the outside) each axis is a product with a matrix of
weights, or a Gather.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.base.limits import LARGEST_INT
from irdeconv.formats.importing import ImportBuilder, Refusal, require_one_length
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule, wrap
from irdeconv.ir.dtypes import boolean, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Array, dims
from irdeconv.ops.elementwise import LogicalAnd, Select
from irdeconv.ops.image import SCALE_SLACK, Interpolate11
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Transpose
from irdeconv.ops.slicing import Gather

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


MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
# Attributes whose words mean the same in both; the first one is the default.
CHOICES = {
    "coordinate_transformation_mode": (
        *("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"),
        "tf_half_pixel_for_nn",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
}


@dataclass(frozen=True)
class ResizeTarget:
    """What the resized axes become: sizes (an i64 vector), else scales; one value for each axis."""

    axes: tuple[int, ...]
    sizes: Value | None = None
    scales: tuple[float, ...] = ()


@rule("Upsample", "7 9 10")
def upsample(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Scales for all axes; position x of the output is x / scale, rounded down for nearest."""
    old = n.version < 9
    scales = n.numbers("scales") if old else b.vector(n[1], "scales")
    if any(s < 1 for s in scales):
        raise Refusal(f"scales {list(scales)} below 1")
    return _resize(b, n[0], _by_scales(b, n[0], scales), _plain(n))


def _plain(n: OnnxNode) -> dict[str, Any]:
    modes = {"nearest": "nearest", "linear": "linear_onnx", "bilinear": "linear_onnx"}
    return {
        "mode": n.meaning("mode", "nearest", modes),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "simple",
    }


def _attributes(n: OnnxNode) -> dict[str, Any]:
    out = {
        name: n.meaning(name, words[0], {w: w for w in words}) for name, words in CHOICES.items()
    }
    out["mode"] = n.meaning("mode", "nearest", MODES)
    coefficient = n.number("cubic_coeff_a", -0.75)
    return out | {"cube_coeff": coefficient} if out["mode"] == "cubic" else out


POLICIES: dict[str, Callable[[Iterable[float]], float] | None] = {
    "stretch": None,
    "not_larger": min,
    "not_smaller": max,
}


def _exactly(n: OnnxNode, b: ImportBuilder, axes: tuple[int, ...]) -> Value | None:
    """Return what Interpolate cannot compute; None for all that it can."""
    flags = {name: n.integer(name, 0) for name in ("antialias", "exclude_outside")}
    policy = n.meaning("keep_aspect_ratio_policy", "stretch", POLICIES)
    value = n.number("extrapolation_value", 0.0)
    mode = n.text("coordinate_transformation_mode", "half_pixel")
    cubic = n.text("mode", "nearest") == "cubic"
    flags["exclude_outside"] &= cubic
    special = mode in ("tf_crop_and_resize", "half_pixel_symmetric")
    if not (special or any(flags.values()) or policy is not None):
        return None
    if b.dtype(n[0]).is_integral and n.text("mode", "nearest") != "nearest":
        raise Refusal(f"{b.dtype(n[0])} data is rounded differently by systems")
    extra = {"extrapolation_value": value, "coordinate_transformation_mode": mode, "cube_coeff": 0}
    words = {m: m for m in CHOICES["nearest_mode"]}
    extra["nearest_mode"] = n.meaning("nearest_mode", "round_prefer_floor", words)
    extra |= {"mode": n.meaning("mode", "nearest", {m: m for m in MODES})}
    extra |= {"cube_coeff": n.number("cubic_coeff_a", -0.75)}
    return resized(b, n[0], _axes_of(n, b, axes, policy), flags | extra)


def _axes_of(
    n: OnnxNode,
    b: ImportBuilder,
    axes: tuple[int, ...],
    policy: Callable[[Iterable[float]], float] | None,
) -> list[ResizedAxis]:
    """Return the axes that change, with their scales, sizes and crops."""
    shape = b.static(n[0], "the data")
    before = [shape[a] for a in axes]
    given = n.known(b, 2, "scales")
    if given is not None and given.size:
        scales = [float(v) for v in b.vector(n[2], "scales")]
        require_one_length(axes=axes, scales=scales)
        wanted = [math.floor(s * d) for s, d in zip(scales, before, strict=True)]
    else:
        wanted = [int(v) for v in b.vector(n[3], "sizes")]
        require_one_length(axes=axes, sizes=wanted)
        scales = [w / d for w, d in zip(wanted, before, strict=True)]
        if policy is not None:
            scales = [policy(scales)] * len(axes)
            wanted = [math.floor(s * d + 0.5) for s, d in zip(scales, before, strict=True)]
    crops = [(0.0, 1.0)] * len(axes)
    if n.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        roi = [float(v) for v in b.vector(n[1], "roi")]
        require_one_length(roi=roi, axes_twice=axes * 2)
        crops = list(zip(roi[: len(axes)], roi[len(axes) :], strict=True))
    rows = zip(axes, before, wanted, scales, crops, strict=True)
    every = [ResizedAxis(*row) for row in rows]
    if any(e.crop != (0.0, 1.0) and e.scale == 1 for e in every):
        n.remarks.append("a crop of an axis whose size stays: ONNX Runtime does not cut it")
    return [e for e in every if e.crop != (0.0, 1.0) or e.size != e.wanted or e.scale != 1]


@rule("Resize", "10 11 13 18 19")
def resize(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Resize by sizes or scales, of all axes or some.

    Version 10 resizes as Upsample; where nearest shrinks it rounds up, as ONNX Runtime does.
    """
    x = n[0]
    if n.version < 11:
        return _resize(b, x, _by_scales(b, x, b.vector(n[1], "scales")), _plain(n))
    rank = b.rank(x)
    axes = tuple(wrap(a, rank) for a in n.ints("axes")) or tuple(range(rank))
    exact = _exactly(n, b, axes)
    if exact is not None:
        return exact
    attributes = _attributes(n)
    scales, sizes = n.input(2), n.input(3)
    known = None if scales is None else b.known(scales)
    if scales is not None and (known is None or known.size):
        factors = b.vector(scales, "scales")
        target = _by_scales(b, x, factors, axes)
        if attributes["coordinate_transformation_mode"] == "align_corners":
            _want_whole(b, x, target)
    elif sizes is None:
        raise Refusal("neither scales nor sizes are given")
    else:
        target = _by_sizes(b, x, sizes, axes)
    return _resize(b, x, target, attributes)


def _want_whole(b: ImportBuilder, x: Value, target: ResizeTarget) -> None:
    """Refuse scales for which systems place the last corner differently."""
    for axis, scale in zip(target.axes, target.scales, strict=True):
        size = b.shape(x, 1)[axis]
        whole = scale if not isinstance(size, int) else size * scale
        if not float(whole).is_integer():
            raise Refusal(f"align_corners with scale {scale:g} of axis {axis} of size {size}")


def _by_scales(b: ImportBuilder, x: Value, scales: Any, axes: tuple[int, ...] = ()) -> ResizeTarget:
    """Return the axes that scales change; refuse sizes that depend on how products round."""
    axes = axes or tuple(range(b.rank(x)))
    if len(scales) != len(axes):
        raise Refusal(f"{len(scales)} scales for {len(axes)} axes")
    shape = b.shape(x)
    kept = [(a, float(s)) for a, s in zip(axes, scales, strict=True) if s != 1]
    for axis, scale in kept:
        size = shape[axis]
        if not 0 < scale <= LARGEST_INT:
            raise Refusal(f"scale {scale:g} of axis {axis}")
        if not isinstance(size, int):
            if not (scale * 64).is_integer():
                raise Refusal(f"scale {scale:g} of axis {axis}, whose size is open")
            continue
        exact = math.floor(size * scale)
        single = math.floor(np.float32(size) * np.float32(scale))
        runtime = math.floor(size * (float(np.float32(scale)) + SCALE_SLACK))
        if not exact == single == runtime:
            raise Refusal(
                f"scale {scale:g} of axis {axis} of size {size}: systems round it to "
                f"{exact}, {single} or {runtime}; give sizes"
            )
        if exact == size:
            raise Refusal(
                f"scale {scale:g} leaves axis {axis} at size {size}: systems copy or interpolate"
            )
    return ResizeTarget(tuple(a for a, _ in kept), scales=tuple(s for _, s in kept))


def _by_sizes(b: ImportBuilder, x: Value, sizes: Value, axes: tuple[int, ...]) -> ResizeTarget:
    """Return the axes that sizes change, as far as that is known."""
    wanted, shape = dims(b.spec(sizes)), b.shape(x)
    if wanted is None or len(wanted) != len(axes):
        raise Refusal(f"sizes do not have one value for each of {len(axes)} axes")
    kept = [
        i for i, a in enumerate(axes) if not isinstance(wanted[i], int) or wanted[i] != shape[a]
    ]
    chosen = sizes
    if len(kept) < len(axes):
        chosen = b.add(Gather(), sizes, b.ints(*kept), b.scalar(0))
    return ResizeTarget(tuple(axes[i] for i in kept), b.convert(chosen, i64))


def _resize(b: ImportBuilder, x: Value, target: ResizeTarget, attributes: dict[str, Any]) -> Value:
    if not target.axes:
        return x
    mode = attributes["mode"]
    if mode == "linear_onnx" and len(target.axes) > 3:
        mode = "linear"  # the same numbers for any count of axes
    if b.dtype(x).is_integral and mode != "nearest":
        raise Refusal(f"{b.dtype(x)} data is rounded differently by systems")
    by = "scales" if target.sizes is None else "sizes"
    op = Interpolate11(**(attributes | {"mode": mode, "shape_calculation_mode": by}))
    if target.sizes is not None:
        return b.add(op, x, target.sizes, b.ints(*target.axes))
    scales = b.const(np.array(target.scales, np.float32))
    return b.add(op, x, scales, b.ints(*target.axes))
