"""The operations of Detectron, and proposals of regions.

What remains of Detectron's detectors: a grid of priors, the best regions, features, results.

Proposals of regions: GenerateProposals, and that of one image in Detectron.

Proposal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir.attributes import Floats, Ints
from irdeconv.ir.dtypes import ElementType, i32, i64
from irdeconv.ir.op import JUMPS, Op, attribute, op, roundings
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Spec, merge
from irdeconv.kernels import boxes as anchors
from irdeconv.kernels import (
    boxes as proposals,
)
from irdeconv.kernels import (
    boxes as pyramid,
)
from irdeconv.kernels import regions as sampled
from irdeconv.kernels import (
    suppression,
)
from irdeconv.kernels.boxes import Anchors
from irdeconv.kernels.regions import SampledAxis
from irdeconv.ops.checks import (
    axis_sizes,
    index_type,
    positive_number,
    real_types,
    want_rank,
    want_shapes,
    want_type,
)
from irdeconv.ops.regions import limited_axes
from irdeconv.ops.suppression import known_count, least_of, most, one_real


@op("ExperimentalDetectronPriorGridGenerator", since=6)
class ExperimentalDetectronPriorGridGenerator(Op):
    """Put priors (P, 4) on the centres of a grid: (H, W, P, 4), flat (H * W * P, 4).

    The grid is that of feature_map (N, C, H, W), `h` and `w` may name its size; its steps are
    `stride_x` and `stride_y` or, where these are 0, the size of im_data (N, C, ...) through that of
    the grid. Only sizes of the two are read.  [detection/ExperimentalDetectronPriorGridGenerator-6]
    """

    rounding = roundings(3)
    flatten: bool = attribute(False, documented=True)
    h: int = 0
    w: int = 0
    stride_x: float = 0.0
    stride_y: float = 0.0

    def check(self) -> Iterator[Problem]:
        for name in ("h", "w", "stride_x", "stride_y"):
            value = getattr(self, name)
            if value < 0:
                yield Problem("E210", f"{name} is {value}; it must not be negative", attribute=name)

    def infer(self, priors: Spec, feature_map: Spec, im_data: Spec) -> Spec:
        names = ("priors", "feature_map", "im_data")
        letters = ("P4", "N?HW", "N???")
        given = (priors, feature_map, im_data)
        one_real(*given, names=names)
        at = axis_sizes(given, names, letters, **{"4": 4})
        for name, size in (("h", at["H"]), ("w", at["W"])):
            value = getattr(self, name)
            if value and merge(value, size) is None:
                text = f"{name} is {value}, feature_map has {size}; they must be the same"
                raise OpError(text, code="E304", attribute=name)
        grid = (at["H"], at["W"], at["P"])
        if self.flatten:
            return Spec(priors.dtype, (grid[0] * grid[1] * grid[2], 4))
        return Spec(priors.dtype, (*grid, 4))

    def evaluate(self, priors: Array, feature_map: Array, im_data: Array) -> Array:
        want_shapes(self, priors, feature_map, im_data)
        (height, width), image = feature_map.shape[2:], im_data.shape[2:]
        step_y = np.float32(self.stride_y or image[0] / np.float32(max(height, 1)))
        step_x = np.float32(self.stride_x or image[1] / np.float32(max(width, 1)))
        y = step_y * (np.arange(height, dtype=np.float32) + np.float32(0.5))
        x = step_x * (np.arange(width, dtype=np.float32) + np.float32(0.5))
        at = np.stack(np.broadcast_arrays(x, y[:, None], x, y[:, None]), -1)
        out = (priors.astype(np.float32) + at[:, :, None]).astype(priors.dtype)
        return np.asarray(out.reshape(-1, 4) if self.flatten else out)


@op("ExperimentalDetectronTopKROIs", since=6)
class ExperimentalDetectronTopKROIs(Op):
    """The regions (R, 4) with the highest probabilities (R,): (max_rois, 4).

    Rows without a region are 0; the runtime leaves them unwritten. Equal probabilities stand as the
    runtime's sorting, which is not stable, leaves them.
    [sort/ExperimentalDetectronTopKROIs-6]
    """

    rounding = JUMPS
    max_rois: int = attribute(0, documented=True)

    def check(self) -> Iterator[Problem]:
        if self.max_rois < 0:
            text = f"max_rois is {self.max_rois}; it must not be negative"
            yield Problem("E210", text, attribute="max_rois")

    def infer(self, input_rois: Spec, input_probs: Spec) -> Spec:
        names = ("input_rois", "input_probs")
        one_real(input_rois, input_probs, names=names)
        axis_sizes((input_rois, input_probs), names, ("R4", "R"), **{"4": 4})
        return Spec(input_rois.dtype, (self.max_rois, 4))

    def evaluate(self, input_rois: Array, input_probs: Array) -> Array:
        want_shapes(self, input_rois, input_probs)
        order = suppression.ascending(-input_probs.astype(np.float32))
        out = np.zeros((self.max_rois, 4), input_rois.dtype)
        out[: len(order)] = input_rois[order[: self.max_rois]]
        return out


@op("ExperimentalDetectronROIFeatureExtractor", since=6)
class ExperimentalDetectronROIFeatureExtractor(Op):
    """Average pooling of regions (R, 4): features (R, C, S, S) and the regions as they are.

    The inputs behind the regions [x1, y1, x2, y2] are levels (1, C, H, W) of a pyramid, of which
    `pyramid_scales` has the strides. A region is pooled from the level floor(2 + log2(side / 224)),
    cut to those that there are; side is the root of its area; without area its features are 0. S is
    `output_size`; every bin is the mean of `sampling_ratio` samples along each axis, 0: as many as
    elements. `aligned` moves the regions by half an element.
    [detection/ExperimentalDetectronROIFeatureExtractor-6]
    """

    output_size: int = attribute(0, documented=True)
    sampling_ratio: int = attribute(0, documented=True)
    pyramid_scales: Ints = attribute((), documented=True)
    aligned: bool = False

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "output_size")
        if self.sampling_ratio < 0:
            text = f"sampling_ratio is {self.sampling_ratio}; it must not be negative"
            yield Problem("E210", text, attribute="sampling_ratio")
        if min(self.pyramid_scales, default=1) < 1:
            text = f"pyramid_scales is {list(self.pyramid_scales)}; they must be positive"
            yield Problem("E210", text, attribute="pyramid_scales")

    def infer(self, input_rois: Spec, *levels: Spec) -> tuple[Spec, Spec]:
        if len(self.pyramid_scales) < len(levels):
            text = f"pyramid_scales has {len(self.pyramid_scales)} numbers for {len(levels)} levels"
            raise OpError(text, code="E304", attribute="pyramid_scales")
        names = ("input_rois", *(f"level {i}" for i in range(len(levels))))
        letters = ("R4", *("1C??" for _ in levels))
        one_real(input_rois, *levels, names=names)
        if not levels:
            raise OpError("it reads no level of the pyramid", code="E208")
        at = axis_sizes((input_rois, *levels), names, letters, **{"4": 4, "1": 1})
        features = (at["R"], at["C"], self.output_size, self.output_size)
        return Spec(input_rois.dtype, features), Spec(input_rois.dtype, (at["R"], 4))

    def evaluate(self, input_rois: Array, *levels: Array) -> tuple[Array, Array]:
        want_shapes(self, input_rois, *levels)
        regions = input_rois.astype(np.float32)
        size, channels = self.output_size, levels[0].shape[1]
        out = np.zeros((len(regions), channels, size, size), np.float32)
        # Channels side by side in memory: a region's window is then read in long pieces.
        last = [np.ascontiguousarray(x[0].transpose(1, 2, 0), np.float32) for x in levels]
        maps = [x.transpose(2, 0, 1) for x in last]
        for n, level in enumerate(pyramid.levels(regions, len(levels))):
            if level < len(levels) and maps[level].size:
                stride = self.pyramid_scales[level]
                out[n] = sampled.average(maps[level], *self._axes(regions[n], stride))
        return out.astype(input_rois.dtype), input_rois

    def _axes(self, region: Array, stride: int) -> tuple[SampledAxis, SampledAxis]:
        """Return the samples along y and x of a region, in elements of its level; E305."""
        scaled = region.reshape(2, 2) * np.float32(1 / stride)
        begin, end = scaled - np.float32(0.5 if self.aligned else 0)
        extent = np.maximum(end - begin, np.float32(1))
        return limited_axes(
            begin, extent, (self.output_size, self.output_size), self.sampling_ratio
        )


@op("ExperimentalDetectronDetectionOutput", since=6)
class ExperimentalDetectronDetectionOutput(Op):
    """Correct regions for each class and keep the best: boxes (D, 4), classes (D,), scores (D,).

    input_rois (R, 4) as [x1, y1, x2, y2]; input_deltas (R, 4C), divided by `deltas_weights`: moves
    relative to the sides and logarithms of growth, cut to `max_delta_log_wh`; input_scores (R, C);
    input_im_info (1, 3), which like the runtime this does not read. Class 0 is the background.
    Of every other class, boxes go whose overlap with a better one exceeds `nms_threshold` or whose
    score does not exceed `score_threshold`; `post_nms_count` of a class are kept, -1: all. D is
    `max_detections_per_image`: of more only the best are kept, sorted, otherwise they stand class
    by class; rows without a box are 0. Classes are i32. Coordinates count pixels: a box from 0 to 0
    has the side 1.  [detection/ExperimentalDetectronDetectionOutput-6]
    """

    score_threshold: float = attribute(0.0, documented=True)
    nms_threshold: float = attribute(0.0, documented=True)
    max_delta_log_wh: float = attribute(0.0, documented=True)
    num_classes: int = attribute(0, documented=True)
    post_nms_count: int = attribute(0, documented=True)
    max_detections_per_image: int = attribute(0, documented=True)
    class_agnostic_box_regression: bool = False
    deltas_weights: Floats = attribute((), documented=True)

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "num_classes")
        if self.max_detections_per_image < 0:
            text = f"max_detections_per_image is {self.max_detections_per_image}"
            attribute = "max_detections_per_image"
            yield Problem("E210", f"{text}; it must not be negative", attribute=attribute)
        if self.post_nms_count < -1:
            text = f"post_nms_count is {self.post_nms_count}; it must be -1, which is all, or more"
            yield Problem("E210", text, attribute="post_nms_count")
        if len(self.deltas_weights) != 4:
            text = f"deltas_weights has {len(self.deltas_weights)} numbers; 4 are needed"
            yield Problem("E210", text, attribute="deltas_weights")

    def infer(
        self, input_rois: Spec, input_deltas: Spec, input_scores: Spec, input_im_info: Spec
    ) -> tuple[Spec, ...]:
        names = ("input_rois", "input_deltas", "input_scores", "input_im_info")
        given = (input_rois, input_deltas, input_scores, input_im_info)
        known = {"4": 4, "1": 1, "3": 3, "C": self.num_classes, "D": 4 * self.num_classes}
        one_real(*given, names=names)
        axis_sizes(given, names, ("R4", "RD", "RC", "13"), **known)
        kind, count = input_rois.dtype, self.max_detections_per_image
        return Spec(kind, (count, 4)), Spec(i32, (count,)), Spec(kind, (count,))

    def evaluate(
        self, input_rois: Array, input_deltas: Array, input_scores: Array, input_im_info: Array
    ) -> tuple[Array, ...]:
        want_shapes(self, input_rois, input_deltas, input_scores, input_im_info)
        boxes, scores = self._corrected(
            *(a.astype(np.float32) for a in (input_rois, input_deltas, input_scores))
        )
        places = [self._of_class(boxes[:, c], scores[:, c]) for c in range(1, self.num_classes)]
        kind = np.repeat(np.arange(1, self.num_classes), [len(p) for p in places])
        place = np.concatenate([np.zeros(0, np.int64), *places])
        count = self.max_detections_per_image
        if len(place) > count:
            # Equal scores of one region stand as the runtime's partial sorting leaves them.
            keys = np.stack([-scores[place, kind], place])
            order = suppression.first(
                np.unique(keys, axis=1, return_inverse=True)[1].ravel(), count
            )
            kind, place = kind[order], place[order]
        rows = np.zeros((count, 4), input_rois.dtype)
        kinds, values = np.zeros(count, np.int32), np.zeros(count, input_rois.dtype)
        n = len(place)
        rows[:n], kinds[:n], values[:n] = boxes[place, kind], kind, scores[place, kind]
        return rows, kinds, values

    def _corrected(self, regions: Array, deltas: Array, scores: Array) -> tuple[Array, Array]:
        """Return boxes (R, C, 4) and their scores (R, C); of a region without area both are 0."""
        moves = deltas.reshape(len(regions), self.num_classes, 4) / np.array(
            self.deltas_weights, np.float32
        )
        boxes = proposals.corrected(regions[:, None], moves, 1.0, self.max_delta_log_wh)
        empty = np.any(regions[:, 2:] - regions[:, :2] <= 0, 1)
        boxes[empty] = 0
        return np.maximum(boxes, np.float32(0)), np.where(empty[:, None], np.float32(0), scores)

    def _of_class(self, boxes: Array, scores: Array) -> Array:
        """Return the places of the boxes of a class that are kept, the best first."""
        order = suppression.ranked(scores, scores > np.float32(self.score_threshold))
        count = len(order) if self.post_nms_count < 0 else self.post_nms_count
        limit = np.float32(self.nms_threshold)
        kept = suppression.greedy(
            boxes[order],
            count,
            lambda box, others: suppression.touching(box, others, 1.0) > limit,
        )
        return order[kept]


NAMES = ("im_info", "anchors", "deltas", "scores")


class _Proposals(Op):
    fewest: ClassVar[int] = 0
    min_size: float
    nms_threshold: float
    pre_nms_count: int
    post_nms_count: int

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "post_nms_count")
        if self.pre_nms_count < self.fewest:
            text = f"pre_nms_count is {self.pre_nms_count}; it must be {self.fewest} or more"
            yield Problem("E210", text, attribute="pre_nms_count")

    @property
    def counts(self) -> tuple[int, int]:
        """How many take part, how many are kept at most."""
        return self.pre_nms_count, self.post_nms_count

    def boxes(self, image: Array, anchors: Array, deltas: Array, unit: float) -> Array:
        """Return corrected anchors (*, 4), within an image [height, width, ...]; all in f32."""
        count = len(anchors)
        # deltas (A * 4, H, W) belong to anchors that stand by H, W, A
        grid = deltas.reshape(len(deltas) // 4, 4, *deltas.shape[1:])
        by_box = grid.transpose(2, 3, 0, 1).reshape(count, 4)
        found = proposals.corrected(anchors, by_box, unit, proposals.LARGEST)
        edge = image[[1, 0, 1, 0]] - np.float32(unit)
        return np.maximum(np.minimum(found, edge), np.float32(0))


def _fourfold(deltas: Dim, anchors: Dim) -> None:
    """Require four deltas for each anchor; E302."""
    if merge(deltas, anchors * 4) is None:
        text = f"deltas have {deltas} channels; four for each of {anchors} anchors are needed"
        raise OpError(text, code="E302", port=2)


@op("GenerateProposals", since=9)
class GenerateProposals(_Proposals):
    """Correct anchors and keep the best that do not overlap; three outputs.

    im_info (N, 3 or 4): height, width and scale (or scales of height and width) of each image;
    anchors (H, W, A, 4) as [x1, y1, x2, y2]; deltas (N, 4A, H, W): moves relative to the sides,
    logarithms of growth; scores (N, A, H, W). The `pre_nms_count` best take part, cut to the image;
    those with a side below `min_size` times the scale go, and those whose overlap with a better one
    exceeds `nms_threshold`; at most `post_nms_count` of an image are kept. Boxes (M, 4), scores
    (M,), how many belong to each image (N,). Without `normalized` coordinates count pixels: a box
    from 0 to 0 has the side 1. Equal scores stand as the runtime's partial sorting leaves them.
    `nms_eta` must be 1. Types may be mixed, results have that of im_info.
    [detection/GenerateProposals-9]
    """

    fewest = 1
    min_size: float = attribute(0.0, documented=True)
    nms_threshold: float = attribute(0.0, documented=True)
    post_nms_count: int = attribute(0, documented=True)
    pre_nms_count: int = attribute(0, documented=True)
    normalized: bool = True
    nms_eta: float = 1.0
    roi_num_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        yield from index_type(self, "roi_num_type")
        if self.nms_eta != 1:
            text = f"nms_eta is {self.nms_eta}; OpenVINO knows 1 only"
            yield Problem("E210", text, attribute="nms_eta")

    def infer(self, im_info: Spec, anchors: Spec, deltas: Spec, scores: Spec) -> tuple[Spec, ...]:
        given = (im_info, anchors, deltas, scores)
        kind = real_types(*given, names=NAMES)
        at = axis_sizes(given, NAMES, ("NI", "HWA4", "NDHW", "NAHW"), **{"4": 4})
        _fourfold(at["D"], at["A"])
        if merge(at["I"], 3) is None and merge(at["I"], 4) is None:
            text = f"im_info has {at['I']} numbers for each image; it must have 3 or 4"
            raise OpError(text, code="E302", port=0)
        count: Dim | None = known_count(self, *given)
        if count is None:
            each = most(at["H"], at["W"], at["A"])
            count = most(at["N"], least_of(each, *self.counts))
        number = Spec(self.roi_num_type, (at["N"],))
        return Spec(kind, (count, 4)), Spec(kind, (count,)), number

    def evaluate(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, ...]:
        want_shapes(self, im_info, anchors, deltas, scores)
        unit = 0.0 if self.normalized else 1.0
        info, fixed = im_info.astype(np.float32), anchors.astype(np.float32).reshape(-1, 4)
        found = []
        for n, image in enumerate(info):
            boxes = self.boxes(image, fixed, deltas[n].astype(np.float32), unit)
            ranks = scores[n].astype(np.float32).transpose(1, 2, 0).reshape(-1)
            # The scale of x stands last, that of y third: they are one where there are three.
            smallest = np.float32(self.min_size) * image[[-1, 2]]
            alive = np.all(boxes[:, 2:] - boxes[:, :2] + np.float32(unit) >= smallest, 1)
            kept = proposals.best(boxes, ranks, alive, self.counts, self.nms_threshold, unit)
            found.append((boxes[kept], ranks[kept]))
        rows = np.concatenate([np.zeros((0, 4), np.float32), *(b for b, _ in found)])
        values = np.concatenate([np.zeros(0, np.float32), *(s for _, s in found)])
        counts = np.array([len(b) for b, _ in found], self.roi_num_type.container)
        kind = im_info.dtype
        return rows.astype(kind), values.astype(kind), counts


@op("ExperimentalDetectronGenerateProposalsSingleImage", since=6)
class ExperimentalDetectronGenerateProposalsSingleImage(_Proposals):
    """Correct anchors and keep the best that do not overlap: boxes (P, 4) and scores (P,).

    im_info (3,): height, width, scale; anchors (H * W * A, 4) as [x1, y1, x2, y2]; deltas
    (4A, H, W): moves relative to the sides, logarithms of growth; scores (A, H, W). The
    `pre_nms_count` best take part, cut to the image; one with a side below `min_size` scores 0, one
    goes whose overlap with a better one exceeds `nms_threshold`. P is `post_nms_count`; rows
    without a box are 0. Coordinates count pixels, a box from 0 to 0 has the side 1, except in
    overlaps. Equal scores stand as the runtime's partial sorting leaves them.
    [detection/ExperimentalDetectronGenerateProposalsSingleImage-6]
    """

    min_size: float = attribute(0.0, documented=True)
    nms_threshold: float = attribute(0.0, documented=True)
    post_nms_count: int = attribute(0, documented=True)
    pre_nms_count: int = attribute(0, documented=True)

    def infer(self, im_info: Spec, anchors: Spec, deltas: Spec, scores: Spec) -> tuple[Spec, ...]:
        given = (im_info, anchors, deltas, scores)
        kind = one_real(*given, names=NAMES)
        at = axis_sizes(given, NAMES, ("3", "B4", "DHW", "AHW"), **{"3": 3, "4": 4})
        _fourfold(at["D"], at["A"])
        every = at["A"] * at["H"] * at["W"]
        if merge(at["B"], every) is None:
            text = f"there are {at['B']} anchors; {every} are needed, as many as scores"
            raise OpError(text, code="E302", port=1)
        count = self.post_nms_count
        return Spec(kind, (count, 4)), Spec(kind, (count,))

    def evaluate(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, ...]:
        want_shapes(self, im_info, anchors, deltas, scores)
        image, fixed = im_info.astype(np.float32), anchors.astype(np.float32)
        boxes = self.boxes(image, fixed, deltas.astype(np.float32), 1.0)
        ranks = scores.astype(np.float32).transpose(1, 2, 0).reshape(-1)
        large = np.all(boxes[:, 2:] - boxes[:, :2] + 1 >= np.float32(self.min_size), 1)
        ranks = np.where(large, ranks, np.float32(0))
        alive = np.ones(len(boxes), bool)
        kept = proposals.best(boxes, ranks, alive, self.counts, self.nms_threshold, 0.0)
        rows = np.zeros((self.post_nms_count, 4), scores.dtype)
        values = np.zeros(self.post_nms_count, scores.dtype)
        rows[: len(kept)], values[: len(kept)] = boxes[kept], ranks[kept]
        return rows, values


Framework = Literal["", "tensorflow"]
_NAMES = ("class_probs", "bbox_deltas", "image_shape")


@dataclass(frozen=True)
class _Proposal(Op):
    """Base of the two versions."""

    base_size: int = attribute(0, documented=True)
    pre_nms_topn: int = attribute(0, documented=True)
    post_nms_topn: int = attribute(0, documented=True)
    nms_thresh: float = attribute(0.0, documented=True)
    feat_stride: int = attribute(1, documented=True)
    min_size: int = attribute(1, documented=True)
    ratio: Floats = attribute((), documented=True)
    scale: Floats = attribute((), documented=True)
    clip_before_nms: bool = True
    clip_after_nms: bool = False
    normalize: bool = False
    box_size_scale: float = 1.0
    box_coordinate_scale: float = 1.0
    framework: Framework = ""

    def check(self) -> Iterator[Problem]:
        for name in ("base_size", "post_nms_topn", "feat_stride"):
            yield from positive_number(self, name)
        if self.pre_nms_topn < 0:
            text = f"pre_nms_topn is {self.pre_nms_topn}; it must not be negative"
            yield Problem("E210", text, attribute="pre_nms_topn")
        for name in ("ratio", "scale"):
            values: Floats = getattr(self, name)
            if not values or any(not v > 0 for v in values):
                text = f"{name} is {list(values)}; it must have positive numbers"
                yield Problem("E210", text, attribute=name)

    def _rows(self, class_probs: Spec, bbox_deltas: Spec, image_shape: Spec) -> Dim:
        """Return the number of proposals of all images; E301, E302, E303."""
        specs = (class_probs, bbox_deltas, image_shape)
        for port, (spec, rank) in enumerate(zip(specs, (4, 4, 1), strict=True)):
            want_type(spec, "real", port, _NAMES[port])
            want_rank(spec.shape, rank, rank, port, _NAMES[port])
        p, d = class_probs.shape or (DYNAMIC,) * 4, bbox_deltas.shape or (DYNAMIC,) * 4
        anchors = len(self.ratio) * len(self.scale)
        wanted = ((0, p[1], 2 * anchors), (1, d[1], 4 * anchors))
        for port, channels, count in wanted:
            if merge(channels, count) is None:
                text = f"{_NAMES[port]} has {channels} channels; {anchors} anchors need {count}"
                raise OpError(text, code="E302", port=port)
        for axis in (0, 2, 3):
            if merge(p[axis], d[axis]) is None:
                text = f"axis {axis} is {p[axis]} in class_probs and {d[axis]} in bbox_deltas"
                raise OpError(text, code="E302", port=1)
        numbers = (image_shape.shape or (DYNAMIC,))[0]
        if merge(numbers, 3) is None and merge(numbers, 4) is None:
            text = f"image_shape has {numbers} numbers; it must have 3 or 4"
            raise OpError(text, code="E302", port=2)
        batch = merge(p[0], d[0])
        return self.post_nms_topn * (DYNAMIC if batch is None else batch)

    def _propose(self, class_probs: Array, bbox_deltas: Array, info: Array) -> tuple[Array, Array]:
        """Return the proposals (N * post, 5) and their scores."""
        height, width, *scales = info.astype(np.float32).tolist()
        if not (0 < height < np.inf and 0 < width < np.inf and 0 <= min(scales) < np.inf):
            text = f"image_shape is {info.tolist()}; sizes must be positive, scales not negative"
            raise OpError(text, code="E305", port=2)
        tensorflow = self.framework == "tensorflow"
        image = (height, width) if tensorflow else (width, height)
        least = np.array([scales[-1], scales[0]], np.float32) * np.float32(self.min_size)
        images, post = len(class_probs), self.post_nms_topn
        rows = np.zeros((images, post, 5), np.float32)
        probabilities = np.zeros((images, post), np.float32)
        unit = 0.0 if tensorflow else 1.0
        half = class_probs.shape[1] // 2
        for n, boxes in enumerate(self._boxes(bbox_deltas.astype(np.float32), image)):
            scores = class_probs[n, half:].transpose(1, 2, 0).reshape(-1).astype(np.float32)
            sides = boxes[:, 2:] - boxes[:, :2] + np.float32(unit)
            scores = scores * (sides >= least).all(1)
            every, counts = np.ones(len(scores), bool), (self.pre_nms_topn, post)
            kept = proposals.best(boxes, scores, every, counts, self.nms_thresh, unit)
            rows[n, : len(kept), 0] = n
            rows[n, : len(kept), 1:] = self._shown(boxes[kept], image)
            rows[n, len(kept) : len(kept) + 1, 0] = -1
            probabilities[n, : len(kept)] = scores[kept]
        return rows.reshape(-1, 5), probabilities.reshape(-1)

    def _boxes(self, deltas: Array, image: tuple[float, float]) -> Array:
        """Return the shifted anchors (N, H * W * A, 4); `image` is its extent along x and y."""
        offset = 0.0 if self.framework == "tensorflow" else 1.0
        each = Anchors(self.base_size, self.ratio, self.scale, offset).boxes()
        images, _, height, width = deltas.shape
        places = anchors.grid_of(each, height, width, self.feat_stride, swapped=offset == 0)
        if self.framework == "tensorflow":
            places = anchors.clipped(places, *image)
        by = np.array([self.box_coordinate_scale] * 2 + [self.box_size_scale] * 2, np.float32)
        parted = deltas.reshape(images, len(each), 4, height, width)
        moves = parted.transpose(0, 3, 4, 1, 2) / by
        boxes = anchors.shifted(places, moves, offset)
        if self.clip_before_nms:
            boxes = anchors.clipped(boxes, image[0] - offset, image[1] - offset)
        return boxes.reshape(images, height * width * len(each), 4)

    def _shown(self, boxes: Array, image: tuple[float, float]) -> Array:
        if self.clip_after_nms:
            boxes = anchors.clipped(boxes, *image)
        return boxes / np.array([*image, *image], np.float32) if self.normalize else boxes


@op("Proposal", until=3)
class Proposal1(_Proposal):
    """Regions of interest: scores (N, 2A, H, W), shifts (N, 4A, H, W), image -> (N * post, 5).

    A = ratios times scales anchors at each cell of `feat_stride` pixels; the second half of the
    channels of the scores is foreground. The image is height, width and one or two scales, by
    which `min_size` is multiplied: what is smaller scores 0. Of the best `pre_nms_topn` the best
    `post_nms_topn` stay that do not overlap a better one by more than `nms_thresh`. A row is the
    image and left, top, right, bottom; the first free row of an image begins with -1, the rest is
    0. For "tensorflow" sides are not rounded and end before the last pixel, anchors are clipped
    first, and x follows the rows of the grid, as in the runtime.  [detection/Proposal-1]
    """

    def infer(self, class_probs: Spec, bbox_deltas: Spec, image_shape: Spec) -> Spec:
        rows = self._rows(class_probs, bbox_deltas, image_shape)
        return Spec(class_probs.dtype, (rows, 5))

    def evaluate(self, class_probs: Array, bbox_deltas: Array, image_shape: Array) -> Array:
        return self._propose(class_probs, bbox_deltas, image_shape)[0].astype(class_probs.dtype)


@op("Proposal", since=4)
class Proposal(_Proposal):
    """Regions of interest, as Proposal-1, and their scores: scores (N, 2A, H, W), shifts
    (N, 4A, H, W), image -> (N * post, 5) and (N * post).

    Scores of free rows are 0; the runtime leaves them unwritten.  [detection/Proposal-4]
    """

    def infer(self, class_probs: Spec, bbox_deltas: Spec, image_shape: Spec) -> tuple[Spec, ...]:
        rows = self._rows(class_probs, bbox_deltas, image_shape)
        return Spec(class_probs.dtype, (rows, 5)), Spec(class_probs.dtype, (rows,))

    def evaluate(
        self, class_probs: Array, bbox_deltas: Array, image_shape: Array
    ) -> tuple[Array, Array]:
        rows, scores = self._propose(class_probs, bbox_deltas, image_shape)
        return rows.astype(class_probs.dtype), scores.astype(class_probs.dtype)
