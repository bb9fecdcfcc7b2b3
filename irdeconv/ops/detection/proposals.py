"""Proposals of regions: GenerateProposals, and that of one image in Detectron."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import proposals
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_sizes, index_type, positive_number, real_types, want_shapes
from irdeconv.ops.detection.inputs import known_count, least_of, most, one_real
from irdeconv.spec import Array, Dim, Spec, merge

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
