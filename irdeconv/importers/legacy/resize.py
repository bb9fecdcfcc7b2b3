"""Legacy layers that resize images: Resample, Interp, Upsampling; how places map differs."""

from __future__ import annotations

import numpy as np

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import Ints, LegacyLayer, Outputs, layer
from irdeconv.importers.legacy.slicing import cropped
from irdeconv.ops.interpolate import Interpolate4
from irdeconv.ops.matmul import MatMul
from irdeconv.spec import Array

_WEIGHTS = 1 << 24  # of a matrix that smooths


def _to_declared(n: LegacyLayer, b: ImportBuilder, x: Value, **attributes: object) -> Value:
    """Resize the spatial axes to the declared sizes."""
    shape, target = b.static(x, "the image"), n.shape
    if len(shape) != len(target) or shape[:2] != target[:2] or len(shape) < 3:
        raise Refusal(f"an image {list(shape)} is resized to {list(target)}")
    axes = tuple(range(2, len(shape)))
    if 0 in shape[2:]:
        raise Refusal(f"an image {list(shape)} without elements is resized")
    scales: Array = np.array([target[a] / shape[a] for a in axes], np.float32)
    op = Interpolate4(shape_calculation_mode="sizes", **attributes)  # type: ignore[arg-type]
    sizes = b.ints(*(target[a] for a in axes))
    return b.add(op, x, sizes, b.const(scales), b.ints(*axes))


@layer("Resample")
def resample(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Places map by half pixels; halves round up, linear may smooth what it shrinks."""
    n.ignore("factor", "width", "height")
    smooth = n.flag("antialias", False)
    if n.word("type", "", "NEAREST LINEAR") == "NEAREST":
        nearest = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
        return _to_declared(n, b, n[0], coordinate_transformation_mode="half_pixel", **nearest)
    shape = b.static(n[0], "the image")
    if smooth and any(i > o for i, o in zip(shape[2:], n.shape[2:], strict=False)):
        return _smoothed(n, b, shape)
    return _to_declared(n, b, n[0], mode="linear", coordinate_transformation_mode="half_pixel")


def _smoothed(n: LegacyLayer, b: ImportBuilder, shape: Ints) -> Value:
    """Return products with the weights of rows and columns: runtimes do not smooth a linear one."""
    if len(shape) != 4 or len(n.shape) != 4:
        raise Refusal(f"antialias of an image of {len(shape)} dimensions")
    rows, columns = (b.const(_triangles(shape[a], n.shape[a])) for a in (2, 3))
    return b.add(MatMul(transpose_b=True), b.add(MatMul(), rows, n[0]), columns)


def _triangles(size: int, target: int) -> Array:
    """Return what each of `size` elements gives to each of `target`, by triangles."""
    if not 0 < size * target <= _WEIGHTS:
        raise Refusal(f"antialias from {size} to {target} elements")
    step = size / target
    places: Array = (np.arange(target) + 0.5) * step - 0.5
    weights = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size)) / step)
    total = weights.sum(1, keepdims=True)
    found: Array = (weights / np.where(total, total, 1)).astype(np.float32)
    return found


@layer("Interp")
def interp(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Linear between the corners, else by x * size / target; negative pads cut off the border."""
    n.ignore("factor", "zoom_factor", "shrink_factor", "height", "width")
    begin, end = n.integer("pad_beg", 0), n.integer("pad_end", 0)
    if begin > 0 or end > 0:
        raise Refusal(f"pads {begin} and {end}: the runtime read beyond the image")
    x = cropped(b, n[0], 2, -begin, -end) if begin or end else n[0]
    if b.rank(x) != 4:
        raise Refusal(f"an image of {b.rank(x)} dimensions")
    corners = n.flag("align_corners", True)
    return _to_declared(
        n,
        b,
        x,
        mode="linear_onnx",
        coordinate_transformation_mode="align_corners" if corners else "asymmetric",
    )


@layer("Upsampling")
def upsampling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Every element `scale` times on each spatial axis."""
    scale, shape = n.integer("scale"), b.static(n[0], "the image")
    if tuple(s * scale for s in shape[2:]) != n.shape[2:]:
        raise Refusal(f"scale {scale} of {list(shape)} gives not {list(n.shape)}")
    floor = {"mode": "nearest", "nearest_mode": "floor"}
    return _to_declared(n, b, n[0], coordinate_transformation_mode="asymmetric", **floor)
