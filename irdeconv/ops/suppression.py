"""Suppression of overlapping boxes.

MatrixNms and MulticlassNms: suppression in every class, the best of all classes together.

NonMaxSuppression and NMSRotated: the best of overlapping boxes, class by class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from irdeconv.base.errors import value_error
from irdeconv.ir.attributes import IndexType, Unlimited, ValueRange
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.op import Op, as_tuple, attribute, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import DYNAMIC, Array, Arrays, Dim, Interval, Spec, bounds
from irdeconv.kernels import suppression
from irdeconv.ops.checks import want_shapes


def most(*factors: Dim | None) -> Dim:
    """Return bounds from 0 to the product; a factor None is unlimited."""
    total = 1
    for factor in factors:
        top = None if factor is None else bounds(factor)[1]
        if top is None:
            return DYNAMIC
        total *= max(top, 0)
    return Interval.of(0, total)


def least_of(*dims: Dim | None) -> Dim | None:
    """Return the smallest upper bound; None if none of them has one."""
    known = [t for t in [bounds(d)[1] for d in dims if d is not None] if t is not None]
    return max(min(known), 0) if known else None


def count_of(op: Op, inputs: Sequence[Spec | None], most: Dim) -> Dim:
    """Return axis 0 of the first output if all values are known, else the most that it can be."""
    given = [s.known for s in inputs if s is not None]
    return most if any(v is None for v in given) else len(as_tuple(op.evaluate(*given))[0])


Order = Literal["none", "score", "classid"]


class Found(NamedTuple):
    """Boxes that are kept, one element of each array per box; `place` counts all boxes."""

    image: Array
    kind: Array
    score: Array
    place: Array

    def take(self, order: Array) -> Found:
        """Return them in another order, or some of them."""
        return Found(*(a[order] for a in self))


def _joined(parts: list[Found]) -> Found:
    empty = Found(*(np.zeros(0, t) for t in (np.int64, np.int64, np.float32, np.int64)))
    return Found(*(np.concatenate(a) for a in zip(empty, *parts, strict=True)))


_CHOSEN = "-> t [M, 6]; output_type [M, 1]; output_type [N]"
_SHARED = "boxes: f32|f16|bf16 t [N, B, 4]; scores: t [N, C, B]"


@dataclass(frozen=True)
class _ByClass(Op):
    """Base: boxes and scores to rows of class, score and box, their places, and counts by image."""

    signature = f"{_SHARED} {_CHOSEN}"
    sort_result_type: Order = "none"
    output_type: IndexType = i64
    nms_top_k: Unlimited = -1
    keep_top_k: Unlimited = -1
    sort_result_across_batch: bool = False
    score_threshold = 0.0
    background_class = -1
    normalized = True

    @property
    def unit(self) -> float:
        """The number added to the sides of a box: 1 if coordinates count pixels."""
        return 0.0 if self.normalized else 1.0

    def complete(self, at: Fit, *inputs: Spec) -> None:
        at["M"] = count_of(self, inputs, self._most(at))

    def _most(self, at: Fit) -> Dim:
        """Return the largest number of boxes that may be kept."""
        each = least_of(at["B"], None if self.nms_top_k < 0 else self.nms_top_k)
        classes = at["C"]
        if isinstance(classes, int) and 0 <= self.background_class < classes:
            classes -= 1
        every = most(each, classes)
        return most(at["N"], least_of(every, None if self.keep_top_k < 0 else self.keep_top_k))

    def select(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        """Return which boxes (B, 4) of one class and image are kept, and their scores."""
        raise NotImplementedError

    def best(self, image: int, boxes: Iterable[Array], scores: Array, places: Array) -> Found:
        """Return the best boxes of an image; all are by class, `places` count them."""
        parts = []
        for kind, (own, values, where) in enumerate(zip(boxes, scores, places, strict=False)):
            if kind != self.background_class:
                which, kept = self.select(own, values)
                same = np.ones(len(which), np.int64)
                parts.append(Found(same * image, same * kind, kept, where[which]))
        found = _joined(parts)
        order = np.lexsort((found.place, found.kind, -found.score))
        return found.take(order[: self.keep_top_k] if self.keep_top_k >= 0 else order)

    def ordered(self, found: Found) -> Found:
        """Return the boxes of all images in the order of the attributes."""
        if not self.sort_result_across_batch or self.sort_result_type == "none":
            return found
        if self.sort_result_type == "score":
            keys = (found.place, found.kind, found.image, -found.score)
        else:
            keys = (found.place, -found.score, found.image, found.kind)
        return found.take(np.lexsort(keys))

    def outputs(self, images: list[Found], boxes: Array) -> Arrays:
        """Return the three outputs; `boxes` (*, 4) is indexed by place."""
        found = self.ordered(_joined(images))
        kind = self.output_type.container
        columns = (found.kind[:, None], found.score[:, None], boxes[found.place])
        rows = np.concatenate([c.astype(np.float32) for c in columns], 1).astype(boxes.dtype)
        counts = np.array([len(f.place) for f in images], kind)
        return rows, found.place[:, None].astype(kind), counts

    def evaluate(self, boxes: Array, scores: Array) -> Arrays:
        """Evaluate boxes (N, B, 4), which all classes share, and scores (N, C, B)."""
        want_shapes(self, boxes, scores)
        wide, values = boxes.astype(np.float32), scores.astype(np.float32)
        count, each = boxes.shape[:2]
        places = np.arange(count * each).reshape(count, 1, each)
        places = np.broadcast_to(places, scores.shape)
        images = [self.best(n, repeat(wide[n]), values[n], places[n]) for n in range(len(scores))]
        return self.outputs(images, boxes.reshape(-1, 4))


@op("MatrixNms", since=8)
class MatrixNms(_ByClass):
    """Lower the scores of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    Rows (M, 6) of class, score and the box [x1, y1, x2, y2]; its index (M, 1) among all N * B; the
    number of rows of each image (N,). Boxes must score more than `score_threshold`; at most
    `nms_top_k` of a class and image are candidates. A score is multiplied by the smallest of
    (1 - o) / (1 - m), gaussian exp((m^2 - o^2) `gaussian_sigma`), over the better boxes of its
    class: o is the overlap with one, m the largest overlap of that one with those better still.
    Kept are the `keep_top_k` best of an image above `post_threshold`, without `background_class`.
    Rows are sorted by image, the best first; "score" and "classid" only matter across images, as in
    the runtime. Equal scores have the order of its partial sorting.  [sort/MatrixNms-8]
    """

    score_threshold: float = 0.0
    background_class: Annotated[int, ValueRange(-1, hint="-1 is none")] = -1
    decay_function: Literal["linear", "gaussian"] = "linear"
    gaussian_sigma: float = 2.0
    post_threshold: float = 0.0
    normalized: bool = True

    def select(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        which = np.flatnonzero(scores > np.float32(self.score_threshold))
        count = len(which) if self.nms_top_k < 0 else min(self.nms_top_k, len(which))
        which = which[suppression.first(-scores[which], count)]
        sigma = self.gaussian_sigma if self.decay_function == "gaussian" else None
        lowered = scores[which] * suppression.decays(boxes[which], sigma, self.unit)
        kept = lowered > np.float32(self.post_threshold)
        return which[kept], lowered[kept]


@op("MulticlassNms", since=8, until=8)
class MulticlassNms8(_ByClass):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    As version 9 with two inputs.  [sort/MulticlassNonMaxSuppression-8]
    """

    iou_threshold: float = 0.0
    score_threshold: float = 0.0
    background_class: Annotated[int, ValueRange(-1, hint="-1 is none")] = -1
    nms_eta: Annotated[float, ValueRange(0, high=1)] = 1.0
    normalized: bool = True

    def select(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        count = None if self.nms_top_k < 0 else self.nms_top_k
        limits = (self.score_threshold, self.iou_threshold, self.nms_eta)
        which = suppression.multiclass_select(boxes, scores, count, *limits, self.unit)
        return which, scores[which]

    def ordered(self, found: Found) -> Found:
        if self.sort_result_type == "classid" and not self.sort_result_across_batch:
            return found.take(np.lexsort((found.place, -found.score, found.kind, found.image)))
        return super().ordered(found)


@op("MulticlassNms", since=9)
class MulticlassNms(MulticlassNms8):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    Rows (M, 6) of class, score and the box [x1, y1, x2, y2]; its index (M, 1) among all N * B; the
    number of rows of each image (N,). Candidates are the `nms_top_k` best of a class and image that
    reach `score_threshold`. One is removed if its overlap with a better one reaches
    `iou_threshold`; every box that is kept lowers that by the factor `nms_eta`, down to 0.5.
    Kept are the `keep_top_k` best of an image, without `background_class`. With a third input,
    roisnum (N,), every class has its own boxes: boxes (C, B, 4) and scores (C, B) hold those of all
    images one after another, roisnum of each; indices then count (B, C).
    Rows are sorted by image, the best first, or with "classid" class by class, or in the requested
    order across all images.  [sort/MulticlassNonMaxSuppression-9]
    """

    signature = f"{_SHARED}; roisnum?: i32|i64 [N] {_CHOSEN}"

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        if inputs[2:] in ((), (None,)):
            return self.signature
        shared = self.signature.replace("[N, B, 4]", "[C, B, 4]").replace("[N, C, B]", "[C, B]")
        return shared.replace("?:", ":")

    def evaluate(self, boxes: Array, scores: Array, roisnum: Array | None = None) -> Arrays:
        if roisnum is None:
            return super().evaluate(boxes, scores)
        want_shapes(self, boxes, scores, roisnum)
        classes, number = scores.shape
        counts = [int(v) for v in roisnum]
        if min(counts, default=0) < 0 or sum(counts) > number:
            text = f"roisnum is {counts}; its numbers must be 0 or more and add up to {number}"
            raise value_error(2, f"{text} at most")
        wide, values = boxes.astype(np.float32), scores.astype(np.float32)
        places = np.arange(number * classes).reshape(number, classes).T
        images = [
            self.best(n, wide[:, a:b], values[:, a:b], places[:, a:b])
            for n, (a, b) in enumerate(pairwise(np.cumsum([0, *counts])))
        ]
        return self.outputs(images, boxes.transpose(1, 0, 2).reshape(-1, 4))


_BOXES = "boxes: real [N, B, 4]; scores: real [N, C, B]"


Scored = list[tuple[float, int]]


class _Suppression(Op):
    """Base: boxes and scores, then up to four scalars, to rows of batch, class, box and score."""

    sort_result_descending: bool
    output_type: ElementType

    def complete(self, at: Fit, *inputs: Spec | None) -> None:
        name = "max_output_boxes_per_class"
        top = 0 if at.spec(name) is None else at.value(name)
        at["M"] = count_of(self, inputs, most(at["N"], at["C"], least_of(at["B"], top)))

    def chosen(self, boxes: Array, scores: Array, limit: int, *thresholds: float) -> Scored:
        """Return (score, box) of the kept boxes of one class, the best first; all in f32."""
        raise NotImplementedError

    def evaluate(self, boxes: Array, scores: Array, *limits: Array) -> Any:
        """Return places, scores and their number for the boxes that are kept; no limit is 0."""
        want_shapes(self, boxes, scores, *limits)
        count, *numbers = [v.item() for v in limits] + [0] * (4 - len(limits))
        rows: list[tuple[int, int, int, float]] = []
        for n, one in enumerate(boxes.astype(np.float32)):
            for c, of_class in enumerate(scores[n].astype(np.float32)):
                kept = self.chosen(one, of_class, int(count), *map(float, numbers))
                rows += [(n, c, box, score) for score, box in kept]
        if self.sort_result_descending:
            rows.sort(key=lambda row: (-row[3], *row[:3]))
        kind = self.output_type.container
        places = np.array([row[:3] for row in rows], kind).reshape(-1, 3)
        found = np.array([(row[0], row[1], row[3]) for row in rows], np.float32)
        return places, found.reshape(-1, 3), np.array([len(rows)], kind)


@op("NonMaxSuppression", since=5)
class NonMaxSuppression(_Suppression):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> three outputs.

    Places (M, 3) as batch, class, box; scores (M, 3) as batch, class, score; M (1,). Optional
    scalars, 0 by default: the most boxes of a class, the overlap from which a box is removed, the
    score that all must exceed, and the sigma of soft suppression, which lowers scores by
    exp(-overlap^2 / 2 sigma) and has no limit of overlap, as in the runtime. Boxes are
    [y1, x1, y2, x2], with "center" [x, y, width, height]. Types may be mixed; scores are f32.
    [sort/NonMaxSuppression-5]
    """

    signature = (
        f"{_BOXES}; max_output_boxes_per_class?: integer one; iou_threshold?: real one; "
        "score_threshold?: real one; soft_nms_sigma?: real one "
        "-> output_type [M, 3]; f32 [M, 3]; output_type [1]"
    ).replace("real", "f32|f16|bf16")
    box_encoding: Literal["corner", "center"] = "corner"
    sort_result_descending: bool = True
    output_type: IndexType = i64

    def chosen(self, boxes: Array, scores: Array, limit: int, *thresholds: float) -> Scored:
        ready = suppression.corners(boxes, center=self.box_encoding == "center")
        return suppression.select(ready, scores, limit, *thresholds)


@op("NonMaxSuppression", since=3, until=4)
class NonMaxSuppression3(NonMaxSuppression):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> places (M, 3).

    Places are batch, class and box. Optional scalars, 0 by default: the most boxes of a class, the
    overlap from which a box is removed, the score that all must exceed. M is the number of boxes
    that are kept: the specification fills up with -1 to a fixed size (and to another one in version
    4), the runtime does not.  [sort/NonMaxSuppression-3]
    """

    signature = (
        f"{_BOXES}; max_output_boxes_per_class?: integer []; iou_threshold?: real []; "
        "score_threshold?: real [] -> output_type [M, 3]"
    )

    def evaluate(self, boxes: Array, scores: Array, *limits: Array) -> Any:
        return super().evaluate(boxes, scores, *limits)[0]


@op("NonMaxSuppression", until=2)
class NonMaxSuppression1(NonMaxSuppression3):
    """Keep the best of overlapping boxes: boxes (N, B, 4), scores (N, C, B) -> places (M, 3), i64.

    As version 3, without a choice of the element type.  [sort/NonMaxSuppression-1]
    """

    output_type: IndexType = attribute(i64, internal=True)


@op("NMSRotated", since=13)
class NMSRotated(_Suppression):
    """Keep the best of overlapping rotated boxes: (N, B, 5), scores (N, C, B) -> three outputs.

    Boxes are [x, y, width, height, angle] with the angle in radians, turning from x to y;
    `clockwise` false turns them the other way. The scalars are required: the most boxes of a class,
    the overlap above which a box is removed, the score that all must exceed. Outputs as those of
    NonMaxSuppression.  [sort/NMSRotated-13]
    """

    signature = (
        "boxes: real [N, B, 5]; scores: real [N, C, B]; max_output_boxes_per_class: integer one; "
        "iou_threshold: real one; score_threshold: real one "
        "-> output_type [M, 3]; f32 [M, 3]; output_type [1]"
    )
    sort_result_descending: bool = True
    output_type: IndexType = i64
    clockwise: bool = True

    def chosen(self, boxes: Array, scores: Array, limit: int, *thresholds: float) -> Scored:
        iou, least, *_ = thresholds
        order = suppression.ranked(scores, scores > least)
        ready = boxes[order] * np.array([1, 1, 1, 1, 1 if self.clockwise else -1], np.float32)

        def goes(box: Array, others: Array) -> Array:
            return suppression.rotated_overlap(box[:, 0, 0], others[:, 0].T)[None] > iou

        kept = suppression.greedy(ready, limit, goes, block=1)
        return [(float(scores[i]), int(i)) for i in order[kept]]
