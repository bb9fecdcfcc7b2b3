"""Legacy convolutions, poolings, resizes, regions of interest, YOLO and detectors.

Filters are blobs. Sizes of poolings round up by default; means divide in three ways.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from irdeconv.base.errors import values_of
from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.legacy_arithmetic import cropped
from irdeconv.formats.legacy_layer import (
    Ints,
    LegacyLayer,
    Outputs,
    integers,
    layer,
    plain,
    standard,
)
from irdeconv.ir.dtypes import f32, i32, i64
from irdeconv.ir.geometry import AutoPad, extent, pads
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.dialect_openvino import backprop_data
from irdeconv.ops.image import Interpolate4
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Pad12, Reshape, ShapeOf, Unsqueeze
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.slicing import Slice

_LETTERS = "yx"  # version 2 names the axes of an image


Lists = dict[str, Any]  # attributes of windows, a value for each spatial axis


def windows(n: LegacyLayer, sizes: Ints, *, transposed: bool = False) -> Lists:
    """Return kernel, strides, pads and dilations; pads follow from auto_pad if it is given.

    `sizes` are the spatial ones of the data. Pads at the end are those at the begin unless given.
    """
    if "kernel" in n:
        kernel, axes = n.ints("kernel"), len(sizes)
        strides, begin = n.ints("strides", (1,) * axes), n.ints("pads_begin", (0,) * axes)
        end, dilations = n.ints("pads_end", begin), n.ints("dilations", (1,) * axes)
    else:
        kernel = tuple(n.integer(f"kernel-{a}") for a in _LETTERS)
        strides = tuple(n.integer(f"stride-{a}", 1) for a in _LETTERS)
        begin = tuple(n.integer(f"pad-{a}", 0) for a in _LETTERS)
        pairs = zip("br", begin, strict=True)
        end = tuple(n.integer(f"pad-{a}", p) for a, p in pairs)
        dilations = tuple(n.integer(f"dilation-{a}", 1) for a in _LETTERS)
    # 0 means 1, as in the Inference Engine.
    steps, spread = (tuple(v or 1 for v in values) for values in (strides, dilations))
    names = ("kernel", "strides", "pads_begin", "pads_end", "dilations")
    found = dict(zip(names, (kernel, steps, begin, end, spread), strict=True))
    for name, values in found.items():
        if len(values) != len(sizes):
            raise Refusal(f"{name} has {values_of(len(values))} for {len(sizes)} spatial axes")
    auto = n.text("auto_pad", "").lower() or "explicit"
    if auto not in get_args(AutoPad):
        raise Refusal(f'auto_pad="{auto}" is not covered')
    # A deconvolution pads as if the data were one stride long.
    over = steps if transposed else sizes
    begin, end = pads(auto, over, kernel, steps, spread, (begin, end))
    return found | {"pads_begin": begin, "pads_end": end}


def _image(n: LegacyLayer, b: ImportBuilder) -> Ints:
    shape = b.static(n[0], "the data")
    if len(shape) not in (3, 4, 5):
        raise Refusal(f"data of {len(shape)} dimensions")
    return shape


def _weights(n: LegacyLayer, b: ImportBuilder, at: int, shape: Ints) -> Value:
    """Return the filter: a blob, or since version 6 an input, in the order of that shape."""
    given = n.input(at)
    if given is None:
        return n.blob(b, "weights", shape)
    if min(shape) < 0:
        raise Refusal(f"a filter {list(shape)}")
    return given if b.shape(given) == shape else b.reshape(given, shape)


def _biased(n: LegacyLayer, b: ImportBuilder, y: Value, at: int, shape: Ints) -> Value:
    given = n.input(at)
    return b.plus(y, n.optional(b, "biases", shape) if given is None else b.reshape(given, shape))


def _filtered(
    n: LegacyLayer, b: ImportBuilder, *, transposed: bool = False
) -> tuple[int, int, int, Ints, Lists]:
    """Return input and output channels, groups, the kernel and the other lists of windows."""
    _, channels, *sizes = _image(n, b)
    outputs, groups = n.integer("output"), n.integer("group", 1)
    if groups < 1 or channels % groups or outputs % groups:
        raise Refusal(f"{channels} and {outputs} channels do not divide into {groups} groups")
    lists = windows(n, tuple(sizes), transposed=transposed)
    return channels, outputs, groups, lists.pop("kernel"), lists


def _with_bias(n: LegacyLayer, b: ImportBuilder, y: Value, at: int) -> Value:
    """Add a value for each output channel."""
    return _biased(n, b, y, at, (1, n.integer("output"), *(1,) * (b.rank(y) - 2)))


@layer("Convolution")
def convolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Convolve with a filter [g, M/g, C/g, *K] and add a value for each output channel."""
    channels, outputs, groups, kernel, lists = _filtered(n, b)
    n.accept("input")
    lead = (groups,) if groups > 1 else ()
    shape = (*lead, outputs // groups, channels // groups, *kernel)
    op = (GroupConvolution if lead else Convolution)(**lists)
    return _with_bias(n, b, b.add(op, n[0], _weights(n, b, 1, shape)), 2)


@layer("Deconvolution")
def deconvolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Transposed convolution with a filter [g, C/g, M/g, *K], and a bias.

    Sizes are S * (I - 1) + D * (K - 1) + 1 - pads, under same_upper and same_lower S * I.
    """
    channels, outputs, groups, kernel, lists = _filtered(n, b, transposed=True)
    n.accept("input")
    # Under same_upper and same_lower a stride longer than the kernel leaves zeros at the end.
    same = n.text("auto_pad", "").lower().startswith("same")
    rows = zip(lists["strides"], kernel, lists["dilations"], strict=True)
    spare = tuple(max(s - extent(k, d), 0) for s, k, d in rows)
    if same and any(spare):
        lists["output_padding"] = spare
    lead = (groups,) if groups > 1 else ()
    shape = (*lead, channels // groups, outputs // groups, *kernel)
    op = backprop_data(groups)(**lists, semantics=n.semantics)
    return _with_bias(n, b, b.add(op, n[0], _weights(n, b, 1, shape)), 2)


@layer("DeformableConvolution")
def deformable_convolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Convolve at places that the second input moves; a filter [M, C/g, *K] and a bias."""
    channels, outputs, groups, kernel, lists = _filtered(n, b)
    lists |= {"group": groups, "deformable_group": n.integer("deformable_group", 1)}
    op = standard("DeformableConvolution", "opset1", **lists)
    shape = (outputs, channels // groups, *kernel)
    return _with_bias(n, b, b.add(op, n[0], n[1], _weights(n, b, 2, shape)), 3)


@layer("FullyConnected InnerProduct")
def fully_connected(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x W^T + bias over the last axes together, as many as a row of W [out-size, in] takes."""
    outputs, shape = n.integer("out-size"), b.static(n[0], "the data")
    n.accept("alpha", "beta")  # left over from Gemm, and never read
    given = n.input(1)
    size = n.elements("weights") if given is None else math.prod(b.static(given, "the weights"))
    if outputs < 1 or size % outputs or not size:
        raise Refusal(f"{size} weights do not divide into {outputs} rows")
    width = size // outputs
    w = _weights(n, b, 1, (outputs, width))
    first = next((a for a in range(1, len(shape)) if math.prod(shape[a:]) == width), None)
    if first is None:
        raise Refusal(f"a row has {width} weights, which no last axes of {list(shape)} have")
    x = n[0]
    if first < len(shape) - 1:
        x = b.add(Reshape(special_zero=True), x, b.ints(*(0,) * first, width))
    y = _biased(n, b, b.add(MatMul(transpose_b=True), x, w), 2, (1,) * first + (outputs,))
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


@layer("Pooling")
def pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Maxima or means of windows.

    Sizes are ceil((I + pads - K) / S) + 1, less a window that would begin behind the data and the
    pads in front; `rounding_type` floor rounds down. Means divide by the elements of the data
    unless `exclude-pad` is false and something is padded in front: then by those of the data with
    as many zeros behind as in front.
    """
    sizes = _image(n, b)[2:]
    w = windows(n, sizes)
    method = n.word("pool-method", "max", "max avg")
    excludes = n.flag("exclude-pad", False)
    if any(d != 1 for d in w["dilations"]):
        raise Refusal(f"dilations {list(w['dilations'])} of a pooling")
    del w["dilations"]
    found = _sizes(n, w, sizes)
    if method == "max":
        return b.add(MaxPool1(**_lists(w, found, sizes)), n[0])
    if excludes or not any(w["pads_begin"]):
        return b.add(AvgPool1(exclude_pad=True, **_lists(w, found, sizes)), n[0])
    return _padded(b, n[0], w, found, sizes)


_WindowCounts = tuple[Ints, Ints]  # windows on each axis, how far they reach behind the data


def _sizes(n: LegacyLayer, w: Lists, sizes: Ints) -> _WindowCounts:
    """Return the number of windows by the rule of the Inference Engine."""
    texts = {n.text(a).lower() for a in ("rounding_type", "rounding-type") if a in n}
    if texts - {"ceil", "floor"} or len(texts) > 1:
        raise Refusal(f"the rounding {', '.join(sorted(texts))} is not covered")
    up, auto = texts != {"floor"}, n.text("auto_pad", "").lower()
    outputs, ends = [], []
    for size, k, s, p, q in zip(sizes, *w.values(), strict=True):
        if auto.startswith("same"):
            count = -(-size // s)
        else:
            room = size + p + q - k
            count = (-(-room // s) if up and auto != "valid" else room // s) + 1
            count -= (count - 1) * s >= size + p
        outputs.append(count)
        ends.append((count - 1) * s + k - p - size)
    return tuple(outputs), tuple(ends)


def _lists(w: Lists, found: _WindowCounts, sizes: Ints) -> Lists:
    """Return the attributes of a pooling that has these windows, as plain as they can be."""
    outputs, ends = found
    rooms = [(i + p + q - k, s) for i, k, s, p, q in zip(sizes, *w.values(), strict=True)]
    if tuple(r // s + 1 for r, s in rooms) == outputs:
        return w
    if tuple(-(-r // s) + 1 for r, s in rooms) == outputs:
        return {**w, "rounding_type": "ceil"}
    # Neither way of rounding has this many windows: pads extend to the end of the last one.
    return {**w, "pads_end": tuple(max(e, 0) for e in ends)}


def _padded(b: ImportBuilder, x: Value, w: Lists, found: _WindowCounts, sizes: Ints) -> Value:
    """Return means over the data and as many zeros behind as in front."""
    front = w["pads_begin"]
    if all(e <= p for e, p in zip(found[1], front, strict=True)):
        # No window reaches beyond these zeros: all means divide by the whole kernel.
        return b.add(AvgPool1(exclude_pad=False, **_lists(w, found, sizes)), x)
    pads = b.ints(0, 0, *front)
    padded = b.add(Pad12(pad_mode="constant"), x, pads, pads)
    within = tuple(s + 2 * p for s, p in zip(sizes, front, strict=True))
    ends = tuple(max(e - p, 0) for e, p in zip(found[1], front, strict=True))
    moved = {**w, "pads_begin": (0,) * len(sizes), "pads_end": ends}
    return b.add(AvgPool1(exclude_pad=True, **_lists(moved, found, within)), padded)


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
    return b.add(op, x, b.ints(*(target[a] for a in axes)), b.const(scales), b.ints(*axes))


@layer("Resample")
def resample(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Positions map by half pixels; halves round up, linear may smooth when it shrinks."""
    n.accept("factor", "width", "height")
    smooth = n.flag("antialias", False)
    if n.word("type", "", "NEAREST LINEAR") == "NEAREST":
        nearest = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
        return _to_declared(n, b, n[0], coordinate_transformation_mode="half_pixel", **nearest)
    shape = b.static(n[0], "the image")
    if smooth and any(i > o for i, o in zip(shape[2:], n.shape[2:], strict=False)):
        # Products with the weights of rows and columns: runtimes do not smooth a linear one.
        if len(shape) != 4 or len(n.shape) != 4:
            raise Refusal(f"antialias of an image of {len(shape)} dimensions")
        rows, columns = (b.const(_triangles(shape[a], n.shape[a])) for a in (2, 3))
        return b.add(MatMul(transpose_b=True), b.add(MatMul(), rows, n[0]), columns)
    return _to_declared(n, b, n[0], mode="linear", coordinate_transformation_mode="half_pixel")


def _triangles(size: int, target: int) -> Array:
    """Return the weight of each of `size` elements in each of `target`, by triangles."""
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
    n.accept("factor", "zoom_factor", "shrink_factor", "height", "width")
    begin, end = n.integer("pad_beg", 0), n.integer("pad_end", 0)
    if begin > 0 or end > 0:
        raise Refusal(f"pads {begin} and {end}: the runtime read beyond the image")
    x = cropped(b, n[0], 2, -begin, -end) if begin or end else n[0]
    if b.rank(x) != 4:
        raise Refusal(f"an image of {b.rank(x)} dimensions")
    how = "align_corners" if n.flag("align_corners", True) else "asymmetric"
    return _to_declared(n, b, x, mode="linear_onnx", coordinate_transformation_mode=how)


@layer("Upsampling")
def upsampling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Every element `scale` times on each spatial axis."""
    scale, shape = n.integer("scale"), b.static(n[0], "the image")
    if tuple(s * scale for s in shape[2:]) != n.shape[2:]:
        raise Refusal(f"scale {scale} of {list(shape)} gives not {list(n.shape)}")
    floor = {"mode": "nearest", "nearest_mode": "floor"}
    return _to_declared(n, b, n[0], coordinate_transformation_mode="asymmetric", **floor)


def _roi_pooling(n: LegacyLayer, b: ImportBuilder) -> Op:
    """Maxima, or bilinear samples, of boxes: [boxes, C, pooled_h, pooled_w]."""
    fixed: dict[str, Any] = {name: n.integer(name) for name in ("pooled_h", "pooled_w")}
    method = n.word("method", "max", "max bilinear")
    fixed |= {"method": method, "output_size": (), "output_roi": ()}
    return n.same("ROIPooling", "opset2", None, **fixed)


@layer("PSROIPooling")
def psroi_pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Means of boxes, each cell of channels of its own: [boxes, output_dim, *group_size]."""
    mode = n.word("mode", "average", "average bilinear bilinear_deformable")
    group = n.integer("group_size")
    pooled = n.integer("pooled_height", group), n.integer("pooled_width", group)
    n.accept("no_trans")
    if mode == "bilinear_deformable":
        op = n.same("DeformablePSROIPooling", "opset1", group_size=group, mode=mode)
        return b.add(op, *n.given)
    n.accept("trans_std", "part_size")
    if pooled != (group, group):
        raise Refusal(f"pooled to {list(pooled)}, in groups of {group}")
    return b.add(n.same("PSROIPooling", "opset2", mode=mode), n[0], n[1])


@layer("RegionYolo")
def region_yolo(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Logistic coordinates and scores of the boxes of each cell, softmax of classes if asked."""
    n.accept("axis", "end_axis", "anchors", "mask_size")
    usual = {"do_softmax": True}
    y = b.add(n.same("RegionYolo", "opset1", usual, axis=1, end_axis=3, anchors=()), n[0])
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


plain("ROIPooling", _roi_pooling, 2)
# Squares of places as channels: [N, C * stride^2, H / stride, W / stride].
plain("ReorgYolo", lambda n, b: standard("ReorgYolo", "opset2", stride=(n.integer("stride"),)))


_CORNER, _CENTRE = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"


def _size(b: ImportBuilder, image: Value) -> Value:
    """Return height and width of an image; shapes that are given later come through."""
    if b.rank(image) != 4:
        raise Refusal(f"an image of {b.rank(image)} dimensions")
    return b.keep(Slice(), b.keep(ShapeOf(i64), image), b.ints(2), b.ints(4), b.ints(1), b.ints(0))


@layer("PriorBox")
def prior_box(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes of some sizes and ratios at each place, with variances: [1, 2, 4 * boxes]."""
    for name in ("img_size", "img_h", "img_w"):
        n.only(name, 0, "the size of the second input is taken")
    for name in ("step_h", "step_w"):
        n.only(name, n.number("step", 0), "only one step is read")
    made = b.keep(n.same("PriorBox", "opset1"), _size(b, n[0]), _size(b, n[1]))
    return b.keep(Unsqueeze(), made, b.ints(0))


@layer("PriorBoxClustered")
def prior_box_clustered(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes of some widths and heights at each place, with variances: [1, 2, 4 * boxes]."""
    n.accept("flip")
    height, width = n.integer("img_h", 0), n.integer("img_w", 0)
    image = b.static(n[1], "the image", 4)
    step = n.number("step", 0)
    steps = (n.number("step_h", 0) or step, n.number("step_w", 0) or step)
    if (steps[0] == 0) != (steps[1] == 0):
        raise Refusal(f"the steps {steps[0]} and {steps[1]}: one of them is 0")
    usual = {"width": (), "height": (), "clip": False}
    op = n.same("PriorBoxClustered", "opset1", usual, step=0.0, step_h=steps[0], step_w=steps[1])
    fixed = bool(height or width)
    size = b.ints(height or image[2], width or image[3]) if fixed else _size(b, n[1])
    return b.keep(Unsqueeze(), b.keep(op, _size(b, n[0]), size), b.ints(0))


_UNREAD = (
    "visualize visualize_threshold num_orient_classes interpolate_orientation eta "
    "label_map_file output_directory output_format output_name_prefix "
    "name_size_file num_test_image save_file label_file prob resize_mode pad_mode "
    "pad_value interp_mode height_scale width_scale height width"
)


@layer("DetectionOutput")
def detection_output(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The boxes that are left: [1, 1, count, 7] of image, class, confidence and corners."""
    n.accept(*_UNREAD.split())
    centre = n.word("code_type", _CORNER, "CORNER CENTER_SIZE") == "CENTER_SIZE"
    clips = n.flag("clip_before_nms", False), n.flag("clip", False)
    op = n.same(
        "DetectionOutput",
        "opset1",
        {"confidence_threshold": float(np.finfo(np.float32).min), "normalized": True},
        keep_top_k=n.integer("keep_top_k", -1),
        code_type=_CENTRE if centre else _CORNER,
        clip_before_nms=any(clips),
    )
    return b.keep(op, *n.given)


@layer("Proposal")
def proposal(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes by anchors, scores and offsets: [N * post_nms_topn, 5], and their scores."""
    n.accept("num_outputs", "for_deformable")
    return b.outputs(n.same("Proposal", "opset4"), n[0], n[1], b.reshape(n[2], (-1,)))


@layer("NonMaxSuppression")
def non_max_suppression(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The selected boxes: as many rows of image, class and box as are declared, -1 in the rest."""
    op = standard(
        "NonMaxSuppression",
        "opset5",
        box_encoding="center" if n.flag("center_point_box", False) else "corner",
        sort_result_descending=n.flag("sort_result_descending", True),
        output_type="i32",
    )
    limit = n.input(2)
    most = b.scalar(0) if limit is None else b.as_scalar(integers(b, limit))
    given = (n.input(3), n.input(4))
    thresholds = (b.as_scalar(b.convert(v, f32)) if v else b.scalar(0.0, f32) for v in given)
    found = b.outputs(op, n[0], n[1], most, *thresholds)[0]
    rows = n.shape[0]
    every = b.add(Concat(axis=0), found, b.broadcast(b.scalar(-1, i32), b.ints(rows, 3)))
    return b.slice(every, [0], [rows], [1], [0])


@layer("CTCGreedyDecoder")
def ctc_greedy_decoder(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The most probable class of each step without repetitions: [N, T, 1, 1], -1 behind the end."""
    steps = b.static(n[0], "the data")[:2]
    mask = n.input(1)
    if mask is None:
        mask = b.broadcast(b.scalar(1.0, f32), b.ints(*steps))
    return b.add(n.same("CTCGreedyDecoder", "opset1"), n[0], b.convert(mask, b.dtype(n[0])))


@layer("GatherTree")
def gather_tree(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The beams, followed from their ends to the begin."""
    ids = b.dtype(n[0])
    rest = [b.convert(v, ids) for v in n.given[1:3]]
    end = b.as_scalar(b.convert(n[3], ids))
    return b.add(standard("GatherTree", "opset1"), n[0], *rest, end)
