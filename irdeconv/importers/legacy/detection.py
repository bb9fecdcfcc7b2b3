"""Legacy layers of detectors: prior boxes, DetectionOutput, Proposal, suppression, beams."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import f32, i32, i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, integers, layer, standard
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.movement import Concat
from irdeconv.ops.shape import ShapeOf, Unsqueeze
from irdeconv.ops.slicing import Slice

_CORNER, _CENTRE = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"


def _size(b: ImportBuilder, image: Value) -> Value:
    """Return height and width of an image; shapes that are given later come through."""
    if b.rank(image) != 4:
        raise Refusal(f"an image of {b.rank(image)} dimensions")
    sizes = b.keep(ShapeOf(i64), image)
    return b.keep(Slice(), sizes, b.ints(2), b.ints(4), b.ints(1), b.ints(0))


@layer("PriorBox")
def prior_box(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes of some sizes and ratios at each place, with variances: [1, 2, 4 * boxes]."""
    for name in ("img_size", "img_h", "img_w"):
        n.only(name, 0, "the size of the second input is taken")
    for name in ("step_h", "step_w"):
        n.only(name, n.number("step", 0), "only one step is read")
    lists = ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio", "fixed_size")
    op = standard(
        "PriorBox",
        "opset1",
        **{name: n.numbers(name, ()) for name in lists},
        clip=n.flag("clip", False),
        flip=n.flag("flip", False),
        step=n.number("step", 0),
        offset=n.number("offset"),
        variance=n.numbers("variance", ()),
        scale_all_sizes=n.flag("scale_all_sizes", True),
    )
    made = b.keep(op, _size(b, n[0]), _size(b, n[1]))
    return b.keep(Unsqueeze(), made, b.ints(0))


@layer("PriorBoxClustered")
def prior_box_clustered(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes of some widths and heights at each place, with variances: [1, 2, 4 * boxes]."""
    n.ignore("flip")
    height, width = n.integer("img_h", 0), n.integer("img_w", 0)
    image = b.static(n[1], "the image", 4)
    step = n.number("step", 0)
    steps = (n.number("step_h", 0) or step, n.number("step_w", 0) or step)
    if (steps[0] == 0) != (steps[1] == 0):
        raise Refusal(f"the steps {steps[0]} and {steps[1]}: one of them is 0")
    op = standard(
        "PriorBoxClustered",
        "opset1",
        width=n.numbers("width", ()),
        height=n.numbers("height", ()),
        clip=n.flag("clip", False),
        step_h=steps[0],
        step_w=steps[1],
        offset=n.number("offset"),
        variance=n.numbers("variance", ()),
    )
    fixed = bool(height or width)
    size = b.ints(height or image[2], width or image[3]) if fixed else _size(b, n[1])
    made = b.keep(op, _size(b, n[0]), size)
    return b.keep(Unsqueeze(), made, b.ints(0))


@layer("DetectionOutput")
def detection_output(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The boxes that are left: [1, 1, count, 7] of image, class, confidence and corners."""
    n.ignore("visualize", "visualize_threshold", "num_orient_classes", "interpolate_orientation")
    n.ignore("eta", "label_map_file", "output_directory", "output_format", "output_name_prefix")
    n.ignore("name_size_file", "num_test_image", "save_file", "label_file", "prob", "resize_mode")
    n.ignore(
        "pad_mode", "pad_value", "interp_mode", "height_scale", "width_scale", "height", "width"
    )
    centre = n.word("code_type", _CORNER, "CORNER CENTER_SIZE") == "CENTER_SIZE"
    flags = {
        "variance_encoded_in_target": False,
        "share_location": True,
        "decrease_label_id": False,
        "clip_after_nms": False,
        "normalized": True,
    }
    clips = n.flag("clip_before_nms", False), n.flag("clip", False)
    op = standard(
        "DetectionOutput",
        "opset1",
        num_classes=n.integer("num_classes"),
        background_label_id=n.integer("background_label_id", 0),
        top_k=n.integer("top_k", -1),
        keep_top_k=n.integer("keep_top_k", -1),
        code_type=_CENTRE if centre else _CORNER,
        nms_threshold=n.number("nms_threshold"),
        confidence_threshold=n.number("confidence_threshold", float(np.finfo(np.float32).min)),
        objectness_score=n.number("objectness_score", 0),
        input_height=n.integer("input_height", 1),
        input_width=n.integer("input_width", 1),
        clip_before_nms=any(clips),
        **{name: n.flag(name, usual) for name, usual in flags.items()},
    )
    return b.keep(op, *n.given)


@layer("Proposal")
def proposal(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Boxes by anchors, scores and offsets: [N * post_nms_topn, 5], and their scores."""
    n.ignore("num_outputs", "for_deformable")
    op = standard(
        "Proposal",
        "opset4",
        base_size=n.integer("base_size"),
        pre_nms_topn=n.integer("pre_nms_topn"),
        post_nms_topn=n.integer("post_nms_topn"),
        nms_thresh=n.number("nms_thresh"),
        feat_stride=n.integer("feat_stride"),
        min_size=n.integer("min_size"),
        ratio=n.numbers("ratio"),
        scale=n.numbers("scale"),
        clip_before_nms=n.flag("clip_before_nms", True),
        clip_after_nms=n.flag("clip_after_nms", False),
        normalize=n.flag("normalize", False),
        box_size_scale=n.number("box_size_scale", 1),
        box_coordinate_scale=n.number("box_coordinate_scale", 1),
        framework=n.text("framework", ""),
    )
    info = b.reshape(n[2], (-1,))
    return b.outputs(op, n[0], n[1], info)


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
    thresholds = (
        b.scalar(0.0, f32) if v is None else b.as_scalar(b.convert(v, f32))
        for v in (n.input(3), n.input(4))
    )
    found = b.outputs(op, n[0], n[1], most, *thresholds)[0]
    rows = n.shape[0]
    rest = b.add(Broadcast(), b.scalar(-1, i32), b.ints(rows, 3))
    every = b.add(Concat(axis=0), found, rest)
    return b.add(Slice(), every, b.ints(0), b.ints(rows), b.ints(1), b.ints(0))


@layer("CTCGreedyDecoder")
def ctc_greedy_decoder(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The most probable class of each step without repetitions: [N, T, 1, 1], -1 behind the end."""
    steps = b.static(n[0], "the data")[:2]
    mask = n.input(1)
    if mask is None:
        mask = b.add(Broadcast(), b.scalar(1.0, f32), b.ints(*steps))
    merges = n.flag("ctc_merge_repeated", True)
    op = standard("CTCGreedyDecoder", "opset1", ctc_merge_repeated=merges)
    return b.add(op, n[0], b.convert(mask, b.dtype(n[0])))


@layer("GatherTree")
def gather_tree(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The beams, followed from their ends to the begin."""
    ids = b.dtype(n[0])
    rest = [b.convert(v, ids) for v in n.given[1:3]]
    end = b.as_scalar(b.convert(n[3], ids))
    return b.add(standard("GatherTree", "opset1"), n[0], *rest, end)
