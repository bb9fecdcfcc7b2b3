"""The operations of Detectron, and proposals of regions: GenerateProposals, Proposal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from irdeconv.base.errors import attribute_error, size_error, value_error
from irdeconv.ir import attributes
from irdeconv.ir.dtypes import i64
from irdeconv.ir.op import JUMPS, Op, attribute, op, roundings
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import Array, Arrays, Dim, Spec, merge
from irdeconv.kernels import boxes, suppression
from irdeconv.kernels.boxes import Anchors, SampledAxis
from irdeconv.ops.checks import want_shapes
from irdeconv.ops.regions import limited_axes
from irdeconv.ops.suppression import count_of, least_of, most


@op("ExperimentalDetectronPriorGridGenerator", since=6)
class ExperimentalDetectronPriorGridGenerator(Op):
    """Put priors (P, 4) on the centres of a grid: (H, W, P, 4), flat (H * W * P, 4).

    The grid is that of feature_map (N, C, H, W), `h` and `w` may name its size; its steps are
    `stride_x` and `stride_y` or, if these are 0, the size of im_data (N, C, ...) divided by that of
    the grid. Only sizes of the two are read.  [detection/ExperimentalDetectronPriorGridGenerator-6]
    """

    rounding = roundings(3)
    signature = (
        "priors: real t [P, 4]; feature_map: t [N, ?, H, W]; im_data: t [N, ?, ?, ?] -> t [*G, 4]"
    )
    flatten: bool = attribute(False, documented=True)
    h: attributes.Natural = 0
    w: attributes.Natural = 0
    stride_x: attributes.NotNegative = 0.0
    stride_y: attributes.NotNegative = 0.0

    def complete(self, at: Fit, *inputs: Spec) -> None:
        for name, size in (("h", at["H"]), ("w", at["W"])):
            value = getattr(self, name)
            if value and merge(value, size) is None:
                text = f"{name} is {value}, feature_map has {size}; they must be the same"
                raise attribute_error(name, text)
        grid = (at["H"], at["W"], at["P"])
        at.groups["G"] = (grid[0] * grid[1] * grid[2],) if self.flatten else grid

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

    Rows without a region are 0; the runtime leaves them unwritten. Equal probabilities have the
    order of the runtime's sorting, which is not stable.
    [sort/ExperimentalDetectronTopKROIs-6]
    """

    rounding = JUMPS
    signature = "input_rois: real t [R, 4]; input_probs: t [R] -> t [max_rois, 4]"
    max_rois: attributes.Natural = attribute(0, documented=True)

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

    signature = (
        "input_rois: real t [R, 4]; level+: t [1, C, ?, ?] "
        "-> t [R, C, output_size, output_size]; t [R, 4]"
    )
    output_size: attributes.Positive = attribute(0, documented=True)
    sampling_ratio: attributes.Natural = attribute(0, documented=True)
    pyramid_scales: Annotated[attributes.Ints, attributes.ValueRange(1)] = attribute(
        (), documented=True
    )
    aligned: bool = False

    def complete(self, at: Fit, input_rois: Spec, *levels: Spec) -> None:
        if len(self.pyramid_scales) < len(levels):
            text = f"pyramid_scales has {len(self.pyramid_scales)} numbers for {len(levels)} levels"
            raise attribute_error("pyramid_scales", text)

    def evaluate(self, input_rois: Array, *levels: Array) -> tuple[Array, Array]:
        want_shapes(self, input_rois, *levels)
        regions = input_rois.astype(np.float32)
        size, channels = self.output_size, levels[0].shape[1]
        out = np.zeros((len(regions), channels, size, size), np.float32)
        # Channels side by side in memory: a region's window is then read in long pieces.
        last = [np.ascontiguousarray(x[0].transpose(1, 2, 0), np.float32) for x in levels]
        maps = [x.transpose(2, 0, 1) for x in last]
        for n, level in enumerate(boxes.levels(regions, len(levels))):
            if level < len(levels) and maps[level].size:
                stride = self.pyramid_scales[level]
                out[n] = boxes.average(maps[level], *self._axes(regions[n], stride))
        return out.astype(input_rois.dtype), input_rois

    def _axes(self, region: Array, stride: int) -> tuple[SampledAxis, SampledAxis]:
        """Return the samples along y and x of a region, in elements of its level; E305."""
        scaled = region.reshape(2, 2) * np.float32(1 / stride)
        begin, end = scaled - np.float32(0.5 if self.aligned else 0)
        extent = np.maximum(end - begin, np.float32(1))
        size = self.output_size
        return limited_axes(begin, extent, (size, size), self.sampling_ratio)


@op("ExperimentalDetectronDetectionOutput", since=6)
class ExperimentalDetectronDetectionOutput(Op):
    """Correct regions for each class and keep the best: boxes (D, 4), classes (D,), scores (D,).

    input_rois (R, 4) as [x1, y1, x2, y2]; input_deltas (R, 4C), divided by `deltas_weights`: moves
    relative to the sides and logarithms of growth, cut to `max_delta_log_wh`; input_scores (R, C);
    input_im_info (1, 3), which like the runtime this does not read. Class 0 is the background.
    Boxes of other classes are removed if their overlap with a better one exceeds `nms_threshold` or
    their score does not exceed `score_threshold`; `post_nms_count` of a class are kept, -1: all. D
    is `max_detections_per_image`: of more only the best are kept, sorted; otherwise classes follow
    each other; rows without a box are 0. Classes are i32. Coordinates count pixels: a box from 0 to
    0 has the side 1.  [detection/ExperimentalDetectronDetectionOutput-6]
    """

    signature = (
        "input_rois: real t [R, 4]; input_deltas: t [R, 4*num_classes]; "
        "input_scores: t [R, num_classes]; input_im_info: t [1, 3] -> "
        "t [max_detections_per_image, 4]; i32 [max_detections_per_image]; "
        "t [max_detections_per_image]"
    )
    score_threshold: float = attribute(0.0, documented=True)
    nms_threshold: float = attribute(0.0, documented=True)
    max_delta_log_wh: float = attribute(0.0, documented=True)
    num_classes: attributes.Positive = attribute(0, documented=True)
    post_nms_count: attributes.Unlimited = attribute(0, documented=True)
    max_detections_per_image: attributes.Natural = attribute(0, documented=True)
    class_agnostic_box_regression: bool = False
    deltas_weights: Annotated[attributes.Floats, attributes.ValueRange(None, counts=(4,))] = (
        attribute((), documented=True)
    )

    def evaluate(
        self, input_rois: Array, input_deltas: Array, input_scores: Array, input_im_info: Array
    ) -> Arrays:
        want_shapes(self, input_rois, input_deltas, input_scores, input_im_info)
        wide = (a.astype(np.float32) for a in (input_rois, input_deltas, input_scores))
        found, scores = self._corrected(*wide)
        places = [self._of_class(found[:, c], scores[:, c]) for c in range(1, self.num_classes)]
        kind = np.repeat(np.arange(1, self.num_classes), [len(p) for p in places])
        place = np.concatenate([np.zeros(0, np.int64), *places])
        count = self.max_detections_per_image
        if len(place) > count:
            # Equal scores of one region stand as the runtime's partial sorting leaves them.
            keys = np.stack([-scores[place, kind], place])
            ranks = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
            order = suppression.first(ranks, count)
            kind, place = kind[order], place[order]
        rows = np.zeros((count, 4), input_rois.dtype)
        kinds, values = np.zeros(count, np.int32), np.zeros(count, input_rois.dtype)
        n = len(place)
        rows[:n], kinds[:n], values[:n] = found[place, kind], kind, scores[place, kind]
        return rows, kinds, values

    def _corrected(self, regions: Array, deltas: Array, scores: Array) -> tuple[Array, Array]:
        """Return boxes (R, C, 4) and their scores (R, C); of a region without area both are 0."""
        moves = deltas.reshape(len(regions), self.num_classes, 4)
        moves = moves / np.array(self.deltas_weights, np.float32)
        moved = boxes.corrected(regions[:, None], moves, 1.0, self.max_delta_log_wh)
        empty = np.any(regions[:, 2:] - regions[:, :2] <= 0, 1)
        moved[empty] = 0
        return np.maximum(moved, np.float32(0)), np.where(empty[:, None], np.float32(0), scores)

    def _of_class(self, moved: Array, scores: Array) -> Array:
        """Return the places of the boxes of a class that are kept, the best first."""
        order = suppression.ranked(scores, scores > np.float32(self.score_threshold))
        count = len(order) if self.post_nms_count < 0 else self.post_nms_count
        limit = np.float32(self.nms_threshold)
        touching = suppression.touching
        kept = suppression.greedy(moved[order], count, lambda box, o: touching(box, o, 1.0) > limit)
        return order[kept]


@dataclass(frozen=True)
class _Proposals(Op):
    min_size: float = attribute(0.0, documented=True)
    nms_threshold: float = attribute(0.0, documented=True)
    post_nms_count: attributes.Positive = attribute(0, documented=True)
    pre_nms_count: attributes.Natural = attribute(0, documented=True)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of candidates, and the most that are kept."""
        return self.pre_nms_count, self.post_nms_count

    def corrected(self, image: Array, anchors: Array, deltas: Array, unit: float) -> Array:
        """Return corrected anchors (*, 4), within an image [height, width, ...]; all in f32."""
        count = len(anchors)
        # deltas (A * 4, H, W) belong to anchors that stand by H, W, A
        grid = deltas.reshape(len(deltas) // 4, 4, *deltas.shape[1:])
        by_box = grid.transpose(2, 3, 0, 1).reshape(count, 4)
        found = boxes.corrected(anchors, by_box, unit, boxes.LARGEST)
        return np.maximum(np.minimum(found, image[[1, 0, 1, 0]] - np.float32(unit)), np.float32(0))


def _three_or_four(numbers: Dim, text: str, port: int) -> None:
    """Require 3 or 4 numbers of an image; E302."""
    if merge(numbers, 3) is None and merge(numbers, 4) is None:
        raise size_error(port, f"{text}; it must have 3 or 4")


@op("GenerateProposals", since=9)
class GenerateProposals(_Proposals):
    """Correct anchors and keep the best that do not overlap; three outputs.

    im_info (N, 3 or 4): height, width and scale (or scales of height and width) of each image;
    anchors (H, W, A, 4) as [x1, y1, x2, y2]; deltas (N, 4A, H, W): moves relative to the sides,
    logarithms of growth; scores (N, A, H, W). The `pre_nms_count` best are cut to the image. Those
    with a side below `min_size` times the scale are removed, and those whose overlap with a better
    one exceeds `nms_threshold`; at most `post_nms_count` of an image are kept. Boxes (M, 4), scores
    (M,), the number for each image (N,). Without `normalized` coordinates count pixels: a box from
    0 to 0 has the side 1. Equal scores have the order of the runtime's partial sorting.
    `nms_eta` must be 1. Types may be mixed, results have that of im_info.
    [detection/GenerateProposals-9]
    """

    signature = (
        "im_info: real t [N, I]; anchors: real [H, W, A, 4]; deltas: real [N, 4*A, H, W]; "
        "scores: real [N, A, H, W] -> t [M, 4]; t [M]; roi_num_type [N]"
    )
    pre_nms_count: attributes.Positive = attribute(0, documented=True)
    normalized: bool = True
    nms_eta: Annotated[float, attributes.ValueRange(1, high=1)] = 1.0
    roi_num_type: attributes.IndexType = i64

    def complete(self, at: Fit, *inputs: Spec) -> None:
        _three_or_four(at["I"], f"im_info has {at['I']} numbers for each image", 0)
        each = least_of(most(at["H"], at["W"], at["A"]), *self.counts)
        at["M"] = count_of(self, inputs, most(at["N"], each))

    def evaluate(self, im_info: Array, anchors: Array, deltas: Array, scores: Array) -> Arrays:
        want_shapes(self, im_info, anchors, deltas, scores)
        unit = 0.0 if self.normalized else 1.0
        info, fixed = im_info.astype(np.float32), anchors.astype(np.float32).reshape(-1, 4)
        found = []
        for n, image in enumerate(info):
            moved = self.corrected(image, fixed, deltas[n].astype(np.float32), unit)
            ranks = scores[n].astype(np.float32).transpose(1, 2, 0).reshape(-1)
            # The scale of x is the last, that of y the third: the same one if there are three.
            smallest = np.float32(self.min_size) * image[[-1, 2]]
            alive = np.all(moved[:, 2:] - moved[:, :2] + np.float32(unit) >= smallest, 1)
            kept = boxes.best(moved, ranks, alive, self.counts, self.nms_threshold, unit)
            found.append((moved[kept], ranks[kept]))
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
    `pre_nms_count` best are cut to the image. One with a side below `min_size` scores 0; one is
    removed if its overlap with a better one exceeds `nms_threshold`. P is `post_nms_count`; rows
    without a box are 0. Coordinates count pixels, a box from 0 to 0 has the side 1, except in
    overlaps. Equal scores have the order of the runtime's partial sorting.
    [detection/ExperimentalDetectronGenerateProposalsSingleImage-6]
    """

    signature = (
        "im_info: real t [3]; anchors: t [A*H*W, 4]; deltas: t [4*A, H, W]; scores: t [A, H, W] "
        "-> t [post_nms_count, 4]; t [post_nms_count]"
    )

    def evaluate(self, im_info: Array, anchors: Array, deltas: Array, scores: Array) -> Arrays:
        want_shapes(self, im_info, anchors, deltas, scores)
        image, fixed = im_info.astype(np.float32), anchors.astype(np.float32)
        moved = self.corrected(image, fixed, deltas.astype(np.float32), 1.0)
        ranks = scores.astype(np.float32).transpose(1, 2, 0).reshape(-1)
        large = np.all(moved[:, 2:] - moved[:, :2] + 1 >= np.float32(self.min_size), 1)
        ranks = np.where(large, ranks, np.float32(0))
        alive = np.ones(len(moved), bool)
        kept = boxes.best(moved, ranks, alive, self.counts, self.nms_threshold, 0.0)
        rows = np.zeros((self.post_nms_count, 4), scores.dtype)
        values = np.zeros(self.post_nms_count, scores.dtype)
        rows[: len(kept)], values[: len(kept)] = moved[kept], ranks[kept]
        return rows, values


_PROPOSED = (
    "class_probs: real t [N, 2*anchors, H, W]; bbox_deltas: real [N, 4*anchors, H, W]; "
    "image_shape: real [I] -> t [post_nms_topn*N, 5]"
)

_Ratios = Annotated[attributes.Floats, attributes.ValueRange(0, above=True, needed=True)]


@op("Proposal", since=4)
class Proposal(Op):
    """Regions of interest, as Proposal-1, and their scores: scores (N, 2A, H, W), shifts
    (N, 4A, H, W), image -> (N * post, 5) and (N * post).

    Scores of free rows are 0; the runtime leaves them unwritten.  [detection/Proposal-4]
    """

    signature = f"{_PROPOSED}; t [post_nms_topn*N]"
    base_size: attributes.Positive = attribute(0, documented=True)
    pre_nms_topn: attributes.Natural = attribute(0, documented=True)
    post_nms_topn: attributes.Positive = attribute(0, documented=True)
    nms_thresh: float = attribute(0.0, documented=True)
    feat_stride: attributes.Positive = attribute(1, documented=True)
    min_size: int = attribute(1, documented=True)
    ratio: _Ratios = attribute((), documented=True)
    scale: _Ratios = attribute((), documented=True)
    clip_before_nms: bool = True
    clip_after_nms: bool = False
    normalize: bool = False
    box_size_scale: float = 1.0
    box_coordinate_scale: float = 1.0
    framework: Literal["", "tensorflow"] = ""

    @property
    def anchors(self) -> int:
        """How many anchors a cell has."""
        return len(self.ratio) * len(self.scale)

    def complete(self, at: Fit, *inputs: Spec) -> None:
        _three_or_four(at["I"], f"image_shape has {at['I']} numbers", 2)

    def evaluate(self, class_probs: Array, bbox_deltas: Array, image_shape: Array) -> Any:
        height, width, *scales = image_shape.astype(np.float32).tolist()
        if not (0 < height < np.inf and 0 < width < np.inf and 0 <= min(scales) < np.inf):
            text = f"image_shape is {image_shape.tolist()}; "
            text += "sizes must be positive, scales not negative"
            raise value_error(2, text)
        tensorflow = self.framework == "tensorflow"
        image = (height, width) if tensorflow else (width, height)
        least = np.array([scales[-1], scales[0]], np.float32) * np.float32(self.min_size)
        images, post = len(class_probs), self.post_nms_topn
        rows = np.zeros((images, post, 5), np.float32)
        probabilities = np.zeros((images, post), np.float32)
        unit = 0.0 if tensorflow else 1.0
        half = class_probs.shape[1] // 2
        for n, moved in enumerate(self._boxes(bbox_deltas.astype(np.float32), image)):
            scores = class_probs[n, half:].transpose(1, 2, 0).reshape(-1).astype(np.float32)
            scores = scores * ((moved[:, 2:] - moved[:, :2] + np.float32(unit)) >= least).all(1)
            every, counts = np.ones(len(scores), bool), (self.pre_nms_topn, post)
            kept = boxes.best(moved, scores, every, counts, self.nms_thresh, unit)
            rows[n, : len(kept), 0] = n
            rows[n, : len(kept), 1:] = self._shown(moved[kept], image)
            rows[n, len(kept) : len(kept) + 1, 0] = -1
            probabilities[n, : len(kept)] = scores[kept]
        kind = class_probs.dtype
        return rows.reshape(-1, 5).astype(kind), probabilities.reshape(-1).astype(kind)

    def _boxes(self, deltas: Array, image: tuple[float, float]) -> Array:
        """Return the shifted anchors (N, H * W * A, 4); `image` is its extent along x and y."""
        offset = 0.0 if self.framework == "tensorflow" else 1.0
        each = Anchors(self.base_size, self.ratio, self.scale, offset).boxes()
        images, _, height, width = deltas.shape
        places = boxes.grid_of(each, height, width, self.feat_stride, swapped=offset == 0)
        if self.framework == "tensorflow":
            places = boxes.clipped(places, *image)
        by = np.array([self.box_coordinate_scale] * 2 + [self.box_size_scale] * 2, np.float32)
        parted = deltas.reshape(images, len(each), 4, height, width)
        moved = boxes.shifted(places, parted.transpose(0, 3, 4, 1, 2) / by, offset)
        if self.clip_before_nms:
            moved = boxes.clipped(moved, image[0] - offset, image[1] - offset)
        return moved.reshape(images, height * width * len(each), 4)

    def _shown(self, moved: Array, image: tuple[float, float]) -> Array:
        if self.clip_after_nms:
            moved = boxes.clipped(moved, *image)
        return moved / np.array([*image, *image], np.float32) if self.normalize else moved


@op("Proposal", until=3)
class Proposal1(Proposal):
    """Regions of interest: scores (N, 2A, H, W), shifts (N, 4A, H, W), image -> (N * post, 5).

    A = ratios times scales anchors at each cell of `feat_stride` pixels; the second half of the
    channels of the scores is foreground. The image is height, width and one or two scales, by
    which `min_size` is multiplied: smaller boxes score 0. Of the best `pre_nms_topn` the best
    `post_nms_topn` stay that do not overlap a better one by more than `nms_thresh`. A row is the
    image and left, top, right, bottom; the first free row of an image begins with -1, the rest is
    0. For "tensorflow" sides are not rounded and end before the last pixel, anchors are clipped
    first, and x follows the rows of the grid, as in the runtime.  [detection/Proposal-1]
    """

    signature = _PROPOSED

    def evaluate(self, class_probs: Array, bbox_deltas: Array, image_shape: Array) -> Any:
        return super().evaluate(class_probs, bbox_deltas, image_shape)[0]
