"""NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from irdeconv.dtypes import ElementType, f32, i64
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import suppression
from irdeconv.op import Op, op
from irdeconv.ops.checks import index_type, real_types, single, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Spec, bounds, merge

Scalar = Spec | None
_REAL = ("iou_threshold", "score_threshold", "soft_nms_sigma")


@op("NonMaxSuppression", since=5)
class NonMaxSuppression(Op):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    Places (M, 3) as batch, class, box; scores (M, 3) as batch, class, score; M (1,). Optional
    scalars, 0 by default: the most boxes of a class, the overlap from which a box goes, the score
    that all must exceed, and the sigma of soft suppression, which lowers scores by
    exp(-overlap^2 / 2 sigma) and knows no limit of overlap, as in the runtime. Boxes are
    [y1, x1, y2, x2], with "center" [x, y, width, height]. Types may be mixed; scores come out as
    f32.  [sort/NonMaxSuppression-5]
    """

    box_encoding: Literal["corner", "center"] = "corner"
    sort_result_descending: bool = True
    output_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def infer(
        self,
        boxes: Spec,
        scores: Spec,
        max_output_boxes_per_class: Scalar = None,
        iou_threshold: Scalar = None,
        score_threshold: Scalar = None,
        soft_nms_sigma: Scalar = None,
    ) -> tuple[Spec, ...]:
        real_types(boxes, scores, names=("boxes", "scores"))
        want_rank(boxes.shape, 3, 3, 0, "boxes")
        want_rank(scores.shape, 3, 3, 1, "scores")
        most: Dim = 0
        if max_output_boxes_per_class is not None:
            most = single(max_output_boxes_per_class, 2, "max_output_boxes_per_class")
        thresholds = (iou_threshold, score_threshold, soft_nms_sigma)
        for port, (spec, name) in enumerate(zip(thresholds, _REAL, strict=True), 3):
            if spec is not None:
                want_type(spec, "real", port, name)
                want_rank(spec.shape, 0, 1, port, name)
        count = self._count(boxes, scores, most)
        given = (boxes, scores, max_output_boxes_per_class, *thresholds)
        values = [s.known for s in given if s is not None]
        if all(v is not None for v in values):
            count = len(self.evaluate(*values)[0])  # type: ignore[arg-type]
        places = Spec(self.output_type, (count, 3))
        return places, Spec(f32, (count, 3)), Spec(self.output_type, (1,))

    def _count(self, boxes: Spec, scores: Spec, most: Dim) -> Dim:
        """Return how many boxes may be kept; E302 where the shapes do not fit."""
        b, s = boxes.shape or (DYNAMIC,) * 3, scores.shape or (DYNAMIC,) * 3
        batch, number = merge(b[0], s[0]), merge(b[1], s[2])
        if merge(b[2], 4) is None:
            raise OpError(f"a box has {b[2]} numbers; it must have 4", code="E302", port=0)
        if batch is None or number is None:
            text = f"scores are for {s[0]} x {s[2]} boxes, there are {b[0]} x {b[1]}"
            raise OpError(text, code="E302", port=1)
        tops = [bounds(d)[1] for d in (batch, s[1], number, most)]
        limits = [t for t in tops[2:] if t is not None]
        if tops[0] is None or tops[1] is None or not limits:
            return DYNAMIC
        return Interval.of(0, tops[0] * tops[1] * max(min(limits), 0))

    def evaluate(
        self,
        boxes: Array,
        scores: Array,
        max_output_boxes_per_class: Array | None = None,
        *thresholds: Array,
    ) -> tuple[Array, ...]:
        most = max_output_boxes_per_class
        limit = 0 if most is None else int(most.item())
        numbers = [float(t.item()) for t in thresholds] + [0.0] * (3 - len(thresholds))
        rows: list[tuple[int, int, int, float]] = []
        for n, one in enumerate(boxes.astype(np.float32)):
            ready = suppression.corners(one, center=self.box_encoding == "center")
            for c, of_class in enumerate(scores[n].astype(np.float32)):
                kept = suppression.select(ready, of_class, limit, *numbers)
                rows += [(n, c, box, score) for score, box in kept]
        if self.sort_result_descending:
            rows.sort(key=lambda row: (-row[3], *row[:3]))
        places = np.array([row[:3] for row in rows], self.output_type.container)
        found = np.array([(row[0], row[1], row[3]) for row in rows], np.float32)
        count = np.array([len(rows)], self.output_type.container)
        return places.reshape(-1, 3), found.reshape(-1, 3), count
