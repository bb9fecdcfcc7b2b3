"""NonMaxSuppression and NMSRotated: the best of overlapping boxes, class by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irdeconv.dtypes import ElementType, f32, i64
from irdeconv.errors import Problem
from irdeconv.kernels.detection import rotated, suppression
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import (
    index_type,
    real_types,
    single,
    want_one,
    want_rank,
    want_shapes,
    want_type,
)
from irdeconv.ops.detection.inputs import known_count, least_of, matched, most
from irdeconv.spec import Array, Dim, Spec

Scalar = Spec | None
Row = tuple[int, int, int, float]
Encoding = Literal["corner", "center"]
_REAL = ("iou_threshold", "score_threshold", "soft_nms_sigma")


class _Suppression(Op):
    """Base: boxes and scores, then up to four scalars, to rows of batch, class, box and score."""

    sort_result_descending: bool
    output_type: ElementType

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def count(
        self, boxes: Spec, scores: Spec, limit: Scalar, *thresholds: Scalar, numbers: int = 4
    ) -> Dim:
        """Return how many boxes are kept: exactly where all values are known, else an interval."""
        real_types(boxes, scores, names=("boxes", "scores"))
        batch, classes, number = matched(boxes, scores, numbers)
        top: Dim = 0
        if limit is not None:
            top = single(limit, 2, "max_output_boxes_per_class")
        for port, (spec, name) in enumerate(zip(thresholds, _REAL, strict=False), 3):
            if spec is not None:
                want_type(spec, "real", port, name)
                want_one(spec, port, name)
        exact = known_count(self, boxes, scores, limit, *thresholds)
        if exact is not None:
            return exact
        return most(batch, classes, least_of(number, top))

    def chosen(
        self, boxes: Array, scores: Array, limit: int, *thresholds: float
    ) -> list[tuple[float, int]]:
        """Return (score, box) of the kept boxes of one class, the best first; all in f32."""
        raise NotImplementedError

    def rows(
        self, boxes: Array, scores: Array, limit: Array | None, thresholds: tuple[Array, ...]
    ) -> list[Row]:
        """Return what is kept in all batches and classes."""
        count = 0 if limit is None else int(limit.item())
        numbers = [float(t.item()) for t in thresholds] + [0.0] * (3 - len(thresholds))
        rows: list[Row] = []
        for n, one in enumerate(boxes.astype(np.float32)):
            for c, of_class in enumerate(scores[n].astype(np.float32)):
                kept = self.chosen(one, of_class, count, *numbers)
                rows += [(n, c, box, score) for score, box in kept]
        if self.sort_result_descending:
            rows.sort(key=lambda row: (-row[3], *row[:3]))
        return rows

    def places(self, rows: list[Row]) -> Array:
        """Return batch, class and box (M, 3)."""
        found = np.array([row[:3] for row in rows], self.output_type.container)
        return found.reshape(-1, 3)


class _ThreeOutputs(_Suppression):
    """Base: places, scores and their number."""

    def specs(self, count: Dim) -> tuple[Spec, ...]:
        """Return the specs of the outputs."""
        places = Spec(self.output_type, (count, 3))
        return places, Spec(f32, (count, 3)), Spec(self.output_type, (1,))

    def evaluate(
        self,
        boxes: Array,
        scores: Array,
        max_output_boxes_per_class: Array | None = None,
        *thresholds: Array,
    ) -> tuple[Array, ...]:
        want_shapes(self, boxes, scores, max_output_boxes_per_class, *thresholds)
        rows = self.rows(boxes, scores, max_output_boxes_per_class, thresholds)
        found = np.array([(row[0], row[1], row[3]) for row in rows], np.float32)
        count = np.array([len(rows)], self.output_type.container)
        return self.places(rows), found.reshape(-1, 3), count


@dataclass(frozen=True)
class _Upright(_Suppression):
    """Base: boxes whose sides are parallel to the axes."""

    box_encoding: Encoding = "corner"
    sort_result_descending: bool = True
    output_type: ElementType = i64

    def chosen(
        self, boxes: Array, scores: Array, limit: int, *thresholds: float
    ) -> list[tuple[float, int]]:
        ready = suppression.corners(boxes, center=self.box_encoding == "center")
        return suppression.select(ready, scores, limit, *thresholds)


class _PlacesOnly(_Upright):
    """Base of the versions that return places alone; scalars are no vectors here."""

    def infer(
        self,
        boxes: Spec,
        scores: Spec,
        max_output_boxes_per_class: Scalar = None,
        iou_threshold: Scalar = None,
        score_threshold: Scalar = None,
    ) -> Spec:
        scalars = (max_output_boxes_per_class, iou_threshold, score_threshold)
        for port, (spec, name) in enumerate(
            zip(scalars, ("max_output_boxes_per_class", *_REAL), strict=False), 2
        ):
            if spec is not None:
                want_rank(spec.shape, 0, 0, port, name)
        return Spec(self.output_type, (self.count(boxes, scores, *scalars), 3))

    def evaluate(
        self,
        boxes: Array,
        scores: Array,
        max_output_boxes_per_class: Array | None = None,
        *thresholds: Array,
    ) -> Any:
        want_shapes(self, boxes, scores, max_output_boxes_per_class, *thresholds)
        return self.places(self.rows(boxes, scores, max_output_boxes_per_class, thresholds))


@op("NonMaxSuppression", until=2)
class NonMaxSuppression1(_PlacesOnly):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> places (M, 3), i64.

    As version 3, without a choice of the element type.  [sort/NonMaxSuppression-1]
    """

    output_type: ElementType = attribute(i64, internal=True)


@op("NonMaxSuppression", since=3, until=4)
class NonMaxSuppression3(_PlacesOnly):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> places (M, 3).

    Places are batch, class and box. Optional scalars, 0 by default: the most boxes of a class, the
    overlap from which a box goes, the score that all must exceed. M is the number of boxes that
    are kept: the specification fills up with -1 to a fixed size (and to another one in version 4),
    the runtime does not.  [sort/NonMaxSuppression-3]
    """


@op("NonMaxSuppression", since=5)
class NonMaxSuppression(_Upright, _ThreeOutputs):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    Places (M, 3) as batch, class, box; scores (M, 3) as batch, class, score; M (1,). Optional
    scalars, 0 by default: the most boxes of a class, the overlap from which a box goes, the score
    that all must exceed, and the sigma of soft suppression, which lowers scores by
    exp(-overlap^2 / 2 sigma) and knows no limit of overlap, as in the runtime. Boxes are
    [y1, x1, y2, x2], with "center" [x, y, width, height]. Types may be mixed; scores come out as
    f32.  [sort/NonMaxSuppression-5]
    """

    def infer(
        self,
        boxes: Spec,
        scores: Spec,
        max_output_boxes_per_class: Scalar = None,
        iou_threshold: Scalar = None,
        score_threshold: Scalar = None,
        soft_nms_sigma: Scalar = None,
    ) -> tuple[Spec, ...]:
        thresholds = (iou_threshold, score_threshold, soft_nms_sigma)
        return self.specs(self.count(boxes, scores, max_output_boxes_per_class, *thresholds))


@op("NMSRotated", since=13)
class NMSRotated(_ThreeOutputs):
    """Keep the best of overlapping rotated boxes: (N, B, 5), scores (N, C, B) -> three outputs.

    Boxes are [x, y, width, height, angle] with the angle in radians, turning from x to y;
    `clockwise` false turns them the other way. The scalars are required: the most boxes of a class,
    the overlap above which a box goes, the score that all must exceed. Outputs as those of
    NonMaxSuppression.  [sort/NMSRotated-13]
    """

    sort_result_descending: bool = True
    output_type: ElementType = i64
    clockwise: bool = True

    def infer(
        self,
        boxes: Spec,
        scores: Spec,
        max_output_boxes_per_class: Spec,
        iou_threshold: Spec,
        score_threshold: Spec,
    ) -> tuple[Spec, ...]:
        scalars = (max_output_boxes_per_class, iou_threshold, score_threshold)
        return self.specs(self.count(boxes, scores, *scalars, numbers=5))

    def chosen(
        self, boxes: Array, scores: Array, limit: int, *thresholds: float
    ) -> list[tuple[float, int]]:
        iou, least, *_ = thresholds
        order = suppression.ranked(scores, scores > least)
        turned = np.array([1, 1, 1, 1, 1 if self.clockwise else -1], np.float32)
        ready = boxes[order] * turned
        kept = suppression.greedy(
            ready, limit, lambda box, others: rotated.overlap(box, others.T) > iou
        )
        return [(float(scores[i]), int(i)) for i in order[kept]]
