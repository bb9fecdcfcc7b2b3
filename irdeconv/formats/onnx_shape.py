"""ONNX's operations on shapes, layouts and indices, and on sampling positions; Resize.

Resize is an Interpolate if that means the same numbers. Otherwise (antialiasing, crops, weights
without the outside) each axis is a product with a matrix of weights, or a Gather.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.base.limits import LARGEST_INT
from irdeconv.formats.importing import ImportBuilder, OpenSizeRefusal, Refusal
from irdeconv.formats.onnx_node import (
    OnnxNode,
    Outputs,
    plain,
    require_one_length,
    rule,
    to_array,
    wrap,
)
from irdeconv.ir.dtypes import boolean, f32, i64, of_numpy
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array, dims
from irdeconv.ops import elementwise
from irdeconv.ops.channels import DepthToSpace, ReverseSequence, SpaceToDepth, Split, VariadicSplit
from irdeconv.ops.elementwise import LogicalAnd
from irdeconv.ops.generation import Eye, Range
from irdeconv.ops.image import SCALE_SLACK, Col2Im, GridSample, Interpolate11
from irdeconv.ops.indexing import NonZero, ScatterElementsUpdate, Unique
from irdeconv.ops.matrix import Einsum, MatMul
from irdeconv.ops.movement import Broadcast, Concat, Reshape, Squeeze1, Tile, Transpose, Unsqueeze
from irdeconv.ops.reduction import ReduceProd
from irdeconv.ops.regions import ROIAlign
from irdeconv.ops.slicing import Slice
from irdeconv.ops.suppression import NonMaxSuppression

BLOCKS = {"DCR": "blocks_first", "CRD": "depth_first"}

plain("Expand", "8 13", Broadcast("bidirectional"), inputs=2)
plain("Tile", "6 13", Tile(), inputs=2)
plain("NonZero", "9 13", NonZero(i64))


@rule("Reshape", "1 5 13 14 19 21 23 24 25")
def reshape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """0 copies a dimension unless allowzero is set."""
    copies = not n.flag("allowzero", False)
    target = b.ints(*n.ints("shape")) if n.version < 5 else n[1]
    return b.add(Reshape(special_zero=copies), n[0], target)


@rule("Flatten", "1 9 11 13 21 23 24 25")
def flatten(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A matrix; the axes before `axis` become the rows."""
    axis, rank = n.integer("axis", 1), b.rank(n[0])
    if not -rank <= axis <= rank:
        raise Refusal(f"axis is {axis}, but the rank is {rank}")
    return b.flatten(n[0], axis + rank if axis < 0 else axis)


rule("Transpose", "1 13 21 23 24 25")(  # without perm the axes are reversed
    lambda n, b: b.add(Transpose(), n[0], b.ints(*n.ints("perm") or reversed(range(b.rank(n[0])))))
)


@rule("Squeeze Unsqueeze", "1 11 13 21 23 24 25")
def squeeze(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Remove axes of size 1, the given ones or all, or insert them; an input from version 13 on."""
    axes = n.vector(b, "axes", 1, since=13)
    if axes is None and n.type == "Unsqueeze":
        raise Refusal("axes are missing")
    op = Squeeze1() if n.type == "Squeeze" else Unsqueeze()
    return b.add(op, n[0], *(() if axes is None else (axes,)))


plain("Concat", "1 4 11 13", lambda n, b: Concat(n.axis(b, n[0], default=1)), None)


@rule("Split", "2 11 13 18")
def split(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Cut along an axis: by lengths, or into equal parts of which the last may be shorter."""
    x, count = n[0], len(n.outputs)
    axis = n.axis(b, x)
    lengths = n.vector(b, "split", 1, since=13)
    at = b.scalar(axis)
    if lengths is not None:
        if b.shape(lengths) != (count,):
            raise Refusal(f"split is {b.spec(lengths).without_value()} for {count} outputs")
        return b.outputs(VariadicSplit(), x, at, lengths)
    if n.version >= 18 and n.integer("num_outputs", count) != count:
        raise Refusal(f"num_outputs is {n.integer('num_outputs')} for {count} outputs")
    size = b.size(x, axis, f" into {count} parts")
    if size % count == 0:
        return b.outputs(Split(count), x, at)
    part = -(-size // count)
    last = size - part * (count - 1)
    if n.version < 18 or last < 0:
        raise Refusal(f"axis {axis} of size {size} does not divide into {count} parts")
    return b.outputs(VariadicSplit(), x, at, b.ints(*(part,) * (count - 1), last))


@rule("Slice", "1 10 11 13")
def slice_(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take start:end:step of axes."""
    x = n[0]
    if n.version < 10:
        starts, ends = n.ints("starts"), n.ints("ends")
        axes = n.ints("axes") or tuple(range(len(starts)))
        return b.slice(x, starts, ends, (1,) * len(starts), axes)
    start, end, steps, chosen = n[1], n[2], n.input(4), n.input(3)
    if steps is None:
        count = b.size(start, 0, ": the starts")
        b.room(count)
        steps = b.const(np.ones(count, b.dtype(start).container))
    more = () if chosen is None else (chosen,)
    return b.add(Slice(), x, start, end, steps, *more)


rule("Size", "1 13 19 21 23 24 25")(
    lambda n, b: b.add(ReduceProd(keep_dims=False), b.shape_of(n[0]), b.ints(0))
)


@rule("Shape", "1 13 15 19 21 23 24 25")
def shape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The shape as i64; from version 15 on perhaps a part of it."""
    whole = b.shape_of(n[0])
    if "start" not in n and "end" not in n:
        return whole
    rank = b.rank(n[0])
    start, end, _ = slice(n.integer("start", 0), n.integer("end", rank)).indices(rank)
    return b.slice(whole, [start], [max(end, start)], [1], [0])


def _blocks(n: OnnxNode, b: ImportBuilder) -> Op:
    """Blocks of channels become pixels, or back; DCR has the block first, CRD the channel."""
    op = DepthToSpace if n.type == "DepthToSpace" else SpaceToDepth
    return op(n.meaning("mode", "DCR", BLOCKS), n.integer("blocksize"))


plain("DepthToSpace", "1 11 13 28", _blocks)
plain("SpaceToDepth", "1 13 28", _blocks)


CONSTANTS: dict[str, tuple[Any, Callable[[OnnxNode, str], Any]]] = {
    "value_float": (np.float32, lambda n, name: n.number(name, 0.0)),
    "value_floats": (np.float32, OnnxNode.numbers),
    "value_int": (np.int64, OnnxNode.integer),
    "value_ints": (np.int64, OnnxNode.ints),
    "value_string": (object, lambda n, name: n.text(name, "")),
    "value_strings": (object, OnnxNode.texts),
}


@rule("Constant", "1 9 11 12 13 19 21 23 24 25")
def constant(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A constant tensor."""
    if len(n.attributes) != 1:
        raise Refusal("exactly one value attribute is needed")
    (name,) = n.attributes
    if name == "value":
        return b.const(*to_array(n.tensor(name)))
    if name not in CONSTANTS:
        raise Refusal(f"the attribute {name} is not covered")
    type, value = CONSTANTS[name]
    array = np.array(value(n, name), type)
    return b.const(array, of_numpy(array.dtype))


@rule("ConstantOfShape", "9 20 21 23 24 25")
def constant_of_shape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A tensor of one repeated value, f32 zero by default."""
    tensor = n.tensor("value")
    array, dtype = (np.zeros(1, np.float32), f32) if tensor is None else to_array(tensor)
    if array.shape != (1,):
        raise Refusal(f"its value has the shape {list(array.shape)}, not [1]")
    return b.broadcast(b.const(array.reshape(()), dtype), n[0])


@rule("Range", "11 27")
def range_(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """start, start + delta, ... below limit; f16 and bf16 ones are computed in f32."""
    n.only("stash_type", 1)
    ends, dtype = [b.as_scalar(n[i]) for i in range(3)], b.dtype(n[0])
    if dtype.name not in ("f16", "bf16"):
        return b.add(Range(dtype), *ends)
    return b.convert(b.add(Range(f32), *(b.convert(v, f32) for v in ends)), dtype)


@rule("Trilu", "14")
def trilu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Keep the triangle above (or below) the k-th diagonal of matrices, else 0."""
    x = n[0]
    rows, columns = b.shape(x, 2)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise OpenSizeRefusal("matrices of open size")
    b.room(rows, columns)
    across, down = b.const(np.arange(columns)[None, :]), b.const(np.arange(rows)[:, None])
    away = b.sub(across, down)
    k = n.scalar(b, 1, 0)
    inside = elementwise.GreaterEqual() if n.flag("upper", True) else elementwise.LessEqual()
    return b.select(b.add(inside, away, k), x, b.like(0, x))


plain("Einsum", "12 28", lambda n, b: Einsum(n.text("equation", "").replace(" ", "")), None)


@rule("Compress", "9 11 28")
def compress(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take the slices along an axis, or of the flat data, at which a condition holds."""
    x = n[0] if "axis" in n else b.reshape(n[0], (-1,))
    axis = n.axis(b, x)
    places = b.squeeze(b.add(NonZero(i64), n[1]), 0)
    return b.take(x, places, axis)


@rule("Unique", "11 28")
def unique(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Distinct elements or slices, their first places, the number of each element, how often."""
    axis = (b.scalar(n.axis(b, n[0])),) if "axis" in n else ()
    return b.outputs(Unique(n.flag("sorted", True), i64, i64), n[0], *axis)


@rule("EyeLike", "9 22")
def eye_like(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 on the k-th diagonal of a matrix of the input's shape."""
    dtype, shape = n.element("dtype", b.dtype(n[0])), b.shape_of(n[0])
    rows, columns = (b.take(shape, b.scalar(i), 0) for i in (0, 1))
    return b.add(Eye(dtype), rows, columns, b.scalar(n.integer("k", 0)))


@rule("NonMaxSuppression", "10 11")
def non_max_suppression(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The kept boxes as (batch, class, box), classes in order, the best of each first."""
    center = n.flag("center_point_box", False)
    op = NonMaxSuppression("center" if center else "corner", False, i64)
    most, iou = n.scalar(b, 2, 0), n.scalar(b, 3, 0, like=n[1])
    least = n.scalar(b, 4, float(np.finfo(np.float32).min), like=n[1])
    return b.outputs(op, n[0], n[1], most, _above(b, iou), least)[0]


def _above(b: ImportBuilder, overlap: Value) -> Value:
    """Return the next larger overlap: ONNX drops boxes above a threshold, here those at it, too."""
    known = b.known(overlap)
    if known is None:
        return b.scaled(overlap, 1 + 2.0**-23)
    above = np.nextafter(known.astype(np.float32), np.float32(np.inf))
    return b.like(max(float(above), float(np.finfo(np.float32).tiny)), overlap)


SAMPLING = {w: w for w in ("bilinear", "nearest", "bicubic")}
SAMPLING |= {"linear": "bilinear", "cubic": "bicubic"}


@rule("GridSample", "16 20 22")
def grid_sample(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Read an image at places from -1 to 1."""
    if b.rank(n[0]) != 4:
        raise Refusal(f"data of rank {b.rank(n[0])}: only images are covered")
    op = GridSample(
        align_corners=n.flag("align_corners", False),
        mode=n.meaning("mode", "bilinear" if n.version < 20 else "linear", SAMPLING),
        padding_mode=n.choice("padding_mode", "zeros border reflection"),
    )
    return b.add(op, n[0], n[1])


@rule("TensorScatter", "24")
def tensor_scatter(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Write updates into a cache along an axis, from a place on that each batch element has."""
    cache, updates = n[0], n[1]
    axis, rank = n.axis(b, cache, default=-2), b.rank(cache)
    circular = n.meaning("mode", "linear", {"linear": False, "circular": True})
    size, count = (b.size_of(v, axis) for v in n.given[:2])
    start = b.scalar(0) if n.input(2) is None else b.convert(n[2], i64)
    if b.rank(start):
        start = b.reshape(start, (-1, *(1,) * (rank - 1)))
    steps = b.add(Range(i64), b.scalar(0), count, b.scalar(1))
    steps = b.reshape(steps, ((1,) * axis + (-1,) + (1,) * (rank - axis - 1)))
    places = b.plus(start, steps)
    if circular:
        places = b.add(elementwise.FloorMod(), places, size)
    places = b.add(Broadcast("bidirectional"), places, b.shape_of(updates))
    return b.add(ScatterElementsUpdate(), cache, places, updates, b.scalar(axis))


def _reverse_sequence(n: OnnxNode, b: ImportBuilder) -> Op:
    return ReverseSequence(n.axis(b, n[0], "batch_axis", 1), n.axis(b, n[0], "time_axis", 0))


plain("ReverseSequence", "10 28", _reverse_sequence, 2)


@rule("Col2Im", "18")
def col2im(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Add up columns at the windows of an image that they came from."""
    axes = b.shape(n[1], 1)[0]
    if axes != 2:
        raise Refusal(f"{axes} spatial axes: only images are covered")
    pads = n.ints("pads") or (0,) * 4
    op = Col2Im(
        strides=n.ints("strides") or (1, 1),
        dilations=n.ints("dilations") or (1, 1),
        pads_begin=pads[:2],
        pads_end=pads[2:],
    )
    return b.add(op, n[0], n[1], n[2])


@rule("RoiAlign", "10 16 22")
def roi_align(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Pool regions of images; half_pixel subtracts half an element from the scaled places."""
    words = {"half_pixel": "half_pixel_for_nn", "output_half_pixel": "asymmetric"}
    usual = "half_pixel" if n.version >= 16 else "output_half_pixel"
    if n.text("mode", "avg") != "avg":
        raise Refusal("mode=max: systems differ in what is the largest of a sample")
    op = ROIAlign(
        pooled_h=n.integer("output_height", 1),
        pooled_w=n.integer("output_width", 1),
        sampling_ratio=n.integer("sampling_ratio", 0),
        spatial_scale=n.number("spatial_scale", 1.0),
        mode="avg",
        aligned_mode=n.meaning("coordinate_transformation_mode", usual, words),
    )
    return b.add(op, n[0], n[1], n[2])


MATRIX_LIMIT = 1 << 22  # elements of the matrix of an axis
NEAREST_RULES: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


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
    return b.select(inside, start, b.like(attributes["extrapolation_value"], x))


def _places(one: ResizedAxis, mode: str) -> Array:
    """Return the position in the data of each element of the result."""
    index: Array = np.arange(one.wanted, dtype=np.float64)
    exact = one.scale * one.size
    if mode == "align_corners":
        return index * (one.size - 1) / (exact - 1) if exact != 1 else index * 0
    if mode == "tf_crop_and_resize":
        low, high = (c * (one.size - 1) for c in one.crop)
        steps = index / (exact - 1) if exact != 1 else index * 0 + 0.5
        return low + steps * (high - low)
    if mode == "asymmetric":
        return index / one.scale
    if mode == "tf_half_pixel_for_nn":
        return (index + 0.5) / one.scale
    if mode == "pytorch_half_pixel" and exact == 1:
        return index - 0.5
    out = (index + 0.5) / one.scale - 0.5
    if mode == "half_pixel_symmetric":
        out += one.size / 2 * (1 - one.wanted / exact)
    return out


def _along(
    b: ImportBuilder, x: Value, one: ResizedAxis, places: Array, attributes: Mapping[str, Any]
) -> Value:
    if attributes["mode"] == "nearest":
        near = np.asarray(NEAREST_RULES[attributes["nearest_mode"]](places), np.int64)
        return b.take(x, b.const(np.clip(near, 0, one.size - 1)), one.axis)
    weights = _weights(one, places, attributes).astype(b.dtype(x).container)
    rank = b.rank(x)
    matrix = b.const(weights, b.dtype(x))
    if one.axis == rank - 2:
        return b.add(MatMul(), matrix, x)
    order = [*(a for a in range(rank) if a != one.axis), one.axis]
    y = b.add(MatMul(transpose_b=True), b.permute(x, order), matrix)
    return b.permute(y, np.argsort(order).tolist())


def _weights(one: ResizedAxis, places: Array, attributes: Mapping[str, Any]) -> Array:
    """Return the neighbours' weights (wanted, size); those outside count for the border."""
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
_WAYS = "half_pixel pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn"
_NEAREST = " ".join(NEAREST_RULES)
CHOICES = {"coordinate_transformation_mode": _WAYS, "nearest_mode": _NEAREST}


@dataclass(frozen=True)
class ResizeTarget:
    """The target of the resized axes: sizes (an i64 vector), else scales; a value per axis."""

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
    out: dict[str, Any] = {name: n.choice(name, words) for name, words in CHOICES.items()}
    out["mode"] = n.meaning("mode", "nearest", MODES)
    coefficient = n.number("cubic_coeff_a", -0.75)
    return out | {"cube_coeff": coefficient} if out["mode"] == "cubic" else out


Policy = Callable[[Iterable[float]], float] | None
POLICIES: dict[str, Policy] = {"stretch": None, "not_larger": min, "not_smaller": max}


def _exactly(n: OnnxNode, b: ImportBuilder, axes: tuple[int, ...]) -> Value | None:
    """Return the result if Interpolate cannot compute it, else None."""
    flags = {name: n.integer(name, 0) for name in ("antialias", "exclude_outside")}
    policy = n.meaning("keep_aspect_ratio_policy", "stretch", POLICIES)
    value = n.number("extrapolation_value", 0.0)
    mode = n.text("coordinate_transformation_mode", "half_pixel")
    flags["exclude_outside"] &= n.text("mode", "nearest") == "cubic"
    special = mode in ("tf_crop_and_resize", "half_pixel_symmetric")
    if not (special or any(flags.values()) or policy is not None):
        return None
    if b.dtype(n[0]).is_integral and n.text("mode", "nearest") != "nearest":
        raise Refusal(f"{b.dtype(n[0])} data is rounded differently by systems")
    extra: dict[str, Any] = {"nearest_mode": n.choice("nearest_mode", _NEAREST)}
    extra |= {"mode": n.choice("mode", " ".join(MODES)), "coordinate_transformation_mode": mode}
    extra |= {"extrapolation_value": value, "cube_coeff": n.number("cubic_coeff_a", -0.75)}
    return resized(b, n[0], _axes_of(n, b, axes, policy), flags | extra)


def _axes_of(
    n: OnnxNode, b: ImportBuilder, axes: tuple[int, ...], policy: Policy
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

    Version 10 resizes as Upsample; if nearest shrinks, it rounds up, as ONNX Runtime does.
    """
    x = n[0]
    if n.version < 11:
        return _resize(b, x, _by_scales(b, x, b.vector(n[1], "scales")), _plain(n))
    rank = b.rank(x)
    axes = tuple(wrap(a, rank) for a in n.ints("axes")) or tuple(range(rank))
    scales, sizes = n.input(2), n.input(3)
    known = None if scales is None else b.known(scales)
    by_scales = scales is not None and (known is None or known.size > 0)
    if by_scales == (sizes is not None):
        raise Refusal("one of scales and sizes must be given, and not both")
    exact = _exactly(n, b, axes)
    if exact is not None:
        return exact
    attributes = _attributes(n)
    if scales is not None and by_scales:
        target = _by_scales(b, x, b.vector(scales, "scales"), axes)
        if attributes["coordinate_transformation_mode"] == "align_corners":
            _want_whole(b, x, target)
    else:
        assert sizes is not None
        target = _by_sizes(b, x, sizes, axes)
    return _resize(b, x, target, attributes)


def _want_whole(b: ImportBuilder, x: Value, target: ResizeTarget) -> None:
    """Refuse scales for which systems place the last corner differently."""
    for axis, scale in zip(target.axes, target.scales, strict=True):
        size = b.shape(x, 1)[axis]
        whole = scale if not isinstance(size, int) else size * scale
        if not float(whole).is_integer():
            kind = Refusal if isinstance(size, int) else OpenSizeRefusal
            raise kind(f"align_corners with scale {scale:g} of axis {axis} of size {size}")


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
                raise OpenSizeRefusal(f"scale {scale:g} of axis {axis}, whose size is open")
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
        raise OpenSizeRefusal(f"sizes do not have one value for each of {len(axes)} axes")
    kept = [
        i for i, a in enumerate(axes) if not isinstance(wanted[i], int) or wanted[i] != shape[a]
    ]
    chosen = sizes
    if len(kept) < len(axes):
        chosen = b.take(sizes, b.ints(*kept), 0)
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
    return b.add(op, x, b.const(np.array(target.scales, np.float32)), b.ints(*target.axes))
