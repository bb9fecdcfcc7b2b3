"""What remains of Detectron's detectors: a grid of priors, the best regions, features, results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irdeconv.attributes import Floats, Ints
from irdeconv.dtypes import i32
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import ordering, proposals, pyramid, suppression
from irdeconv.kernels.detection import regions as sampled
from irdeconv.kernels.detection.regions import SampledAxis
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_sizes, positive_number, want_shapes
from irdeconv.ops.detection.inputs import one_real
from irdeconv.ops.detection.roi_align import limited_axes
from irdeconv.spec import Array, Spec, merge
from irdeconv.traits import JUMPS, roundings


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
        order = ordering.ascending(-input_probs.astype(np.float32))
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
            order = ordering.first(np.unique(keys, axis=1, return_inverse=True)[1].ravel(), count)
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
