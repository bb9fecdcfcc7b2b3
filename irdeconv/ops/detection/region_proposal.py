"""Proposal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from irdeconv.attributes import Floats
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import anchors, proposals
from irdeconv.kernels.detection.anchors import Anchors
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import positive_number, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, merge

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
