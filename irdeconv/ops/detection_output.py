"""DetectionOutput, PriorBox and PriorBoxClustered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from sys import float_info
from typing import Annotated, Any, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_problem, size_error
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.attributes import Floats, Ints, Positive, Unlimited, ValueRange, out_of_range
from irdeconv.ir.op import SCALE, Op, attribute, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Spec, merge
from irdeconv.kernels import boxes as kernels
from irdeconv.kernels.boxes import BestBoxes, Coding
from irdeconv.ops.checks import inferred_shape

_NAMES = ("box_logits", "class_preds", "proposals", "aux_class_preds", "aux_box_preds")
Coded = Literal["caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"]
CORNER: Coded = "caffe.PriorBoxParameter.CORNER"


def _divided(size: Dim, by: int, port: int, what: str) -> Dim:
    """Return size / by, open if the size is open; E302 if it is no whole number."""
    if not isinstance(size, int):
        return DYNAMIC
    if by <= 0 or size % by:
        text = f"{_NAMES[port]} has {size} numbers; it must be a multiple of {by}, {what}"
        raise size_error(port, text)
    return size // by


def _matching(size: Dim, wanted: Dim, port: int, what: str) -> None:
    if merge(size, wanted) is None:
        raise size_error(port, f"{_NAMES[port]} has size {size}; it must be {wanted}, {what}")


@op("DetectionOutput", since=8)
class DetectionOutput(Op):
    """Detections of an SSD network, as DetectionOutput-1: boxes (N, 4PL), scores (N, PC), priors
    (1 or N, 2, 4P) -> (1, 1, K, 7).

    The number of classes C follows from the shapes.  [detection/DetectionOutput-8]
    """

    signature = (
        "box_logits: real t [N, B]; class_preds: t [N, C]; proposals: real [P, R, V]; "
        "aux_class_preds?: t [N, A]; aux_box_preds?: t [N, B] -> t [1, 1, K, 7]"
    )
    keep_top_k: Annotated[Ints, ValueRange(-1, needed=True, hint="-1 sets no limit")]
    nms_threshold: float = attribute(0.0, documented=True)
    background_label_id: int = 0
    top_k: Unlimited = -1
    variance_encoded_in_target: bool = False
    code_type: Coded = attribute(CORNER, exact=True)
    share_location: bool = True
    confidence_threshold: float = 0.0
    clip_after_nms: bool = False
    clip_before_nms: bool = False
    decrease_label_id: bool = False
    normalized: bool = False
    input_height: int = 1
    input_width: int = 1
    objectness_score: float = 0.0

    def check(self) -> Iterator[Problem]:
        if self.decrease_label_id and self.background_label_id != 0:
            text = f"background_label_id is {self.background_label_id}; decrease_label_id needs 0"
            yield attribute_problem("background_label_id", text)
        for name in () if self.normalized else ("input_height", "input_width"):
            if getattr(self, name) < 1:
                text = f"{name} is {getattr(self, name)}; it must be positive"
                yield attribute_problem(name, text)

    def complete(self, at: Fit, *inputs: Spec) -> None:
        if len(inputs) == 4:
            raise OpError("aux_class_preds needs aux_box_preds: 3 or 5 inputs", code="E208", port=3)
        batch = at["N"]
        if merge(at["P"], 1) is None and merge(at["P"], batch) is None:
            raise size_error(2, f"proposals has a batch of {at['P']}, there are {batch} images")
        rows = 1 if self.variance_encoded_in_target else 2
        _matching(at["R"], rows, 2, "boxes, and variances unless they are in the target")
        at["K"] = self._count(batch, *self._sizes(at))

    def _count(self, batch: Dim, priors: Dim, classes: Dim) -> Dim:
        if self.keep_top_k and self.keep_top_k[0] > 0:
            return batch * self.keep_top_k[0]
        if self.keep_top_k and self.keep_top_k[0] == -1 and self.top_k > 0:
            return batch * self.top_k * classes
        return batch * priors * classes

    def _sizes(self, at: Fit) -> tuple[Dim, Dim]:
        """Return the numbers of priors and of classes; E302 if sizes do not fit them."""
        priors = _divided(at["V"], 4 if self.normalized else 5, 2, "the numbers of a prior")
        if priors == 0:
            raise size_error(2, "there are no proposals; one is needed")
        known: int | None = getattr(self, "num_classes", None)  # an attribute of version 1
        classes: Dim = DYNAMIC if known is None else known
        if isinstance(classes, int) and not isinstance(priors, int):
            priors = _divided(at["C"], classes, 1, "a score of each class")
        elif isinstance(priors, int) and not isinstance(classes, int):
            classes = _divided(at["C"], priors, 1, "a score of each prior")
            if not isinstance(classes, int) and not self.share_location:
                classes = _divided(at["B"], 4 * priors, 0, "a box of each prior")
        _matching(at["C"], priors * classes, 1, "a score of each prior and class")
        boxes = 4 * priors * (1 if self.share_location else classes)
        _matching(at["B"], boxes, 0, "a box of each prior")
        _matching(at["A"], 2 * priors, 3, "two scores of each prior")
        return priors, classes

    def evaluate(self, box_logits: Array, class_preds: Array, *others: Array) -> Array:
        proposals = others[0].astype(np.float32)
        count = inferred_shape(self, box_logits, class_preds, *others)[2]
        priors = proposals.shape[2] // (4 if self.normalized else 5)
        classes = class_preds.shape[1] // priors
        scores = class_preds.astype(np.float32).reshape(len(class_preds), priors, classes)
        if len(others) == 3:
            scores = self._objects(scores, others[1])
        boxes = self._boxes(proposals, [a.astype(np.float32) for a in (*others[2:], box_logits)])
        select = BestBoxes(
            background=self.background_label_id,
            confidence=self.confidence_threshold,
            overlap=self.nms_threshold,
            top=None if self.top_k < 0 else self.top_k,
            keep=self.keep_top_k[0],
        )
        choose = select.of_priors if self.decrease_label_id else select.of_classes
        rows = []
        for n, of_image in enumerate(scores.transpose(0, 2, 1)):
            own = proposals[n % len(proposals), 0].reshape(priors, proposals.shape[2] // priors)
            # Those count that come before one that begins with -1.
            ends = np.flatnonzero(() if self.normalized else own[:, 0] == -1)
            valid = int(ends[0]) if len(ends) else priors
            found = choose(of_image[:, :valid], boxes[n], shared=self.share_location)
            rows += [self._row(n, c, found[c], of_image[c], boxes[n]) for c in found]
        return kernels.fill(rows, count).astype(box_logits.dtype)

    def _objects(self, scores: Array, aux: Array) -> Array:
        """Make background of priors (N, P, C) whose objectness is below the threshold."""
        alone = np.zeros(scores.shape[2], np.float32)
        if 0 <= self.background_label_id < len(alone):
            alone[self.background_label_id] = 1
        low = aux.astype(np.float32)[:, 1::2] < self.objectness_score
        return np.where(low[..., None], alone, scores)

    def _boxes(self, proposals: Array, deltas: list[Array]) -> Array:
        """Decode (N, L, P, 4), step by step; the first step's results are the second's priors."""
        size = 4 if self.normalized else 5
        count = proposals.shape[2] // size
        priors = proposals[:, 0].reshape(len(proposals), 1, count, size)[..., size - 4 :]
        variances = None
        if not self.variance_encoded_in_target:
            variances = proposals[:, 1, : 4 * count].reshape(len(proposals), 1, count, 4)
        image = None if self.normalized else (self.input_height, self.input_width)
        coding = Coding(self.code_type != CORNER, image, self.clip_before_nms)
        for logits in deltas:
            labels = logits.shape[1] // (4 * count)
            each = logits.reshape(len(logits), count, labels, 4).transpose(0, 2, 1, 3)
            with np.errstate(over="ignore", invalid="ignore"):
                priors = kernels.decode(priors, variances, each, coding)
        return priors

    def _row(self, n: int, label: int, at: list[int], scores: Array, boxes: Array) -> Array:
        """Return the detections (K, 7) of a class in an image."""
        found = boxes[0 if self.share_location else label][at]
        if self.clip_after_nms:
            found = np.clip(found, 0, 1)
        shown = label - 1 if self.decrease_label_id else label
        head = np.full((len(at), 2), (n, shown), np.float32)
        return np.concatenate([head, scores[at, None], found], 1)


@op("DetectionOutput", until=7)
class DetectionOutput1(DetectionOutput):
    """Detections of an SSD network: boxes (N, 4PL), scores (N, PC), priors (1 or N, 2, 4P)
    -> (1, 1, K, 7).

    P priors, C = `num_classes`, L = 1 with `share_location`, else C. A row is image, class, score,
    left, top, right, bottom; the first free row begins with -1, the rest is 0. Boxes are relative
    to the corners of the priors, or to centre and size (exp); the variances, the second row of the
    priors, scale them unless they are encoded in the target. Priors that are not `normalized` have
    five numbers, the first -1 behind the last of them, and are divided by the input's size. Of each
    class but the background the best `top_k` scores above `confidence_threshold` go through
    suppression (an overlap above `nms_threshold`), of each image the best `keep_top_k` stay, class
    by class. With `decrease_label_id` every prior has only its best class, `top_k` counts the
    priors of an image, and labels count from 0 behind the background. Two more inputs, scores
    (N, 2P) and boxes, shift the priors first; priors with less than `objectness_score` there are
    background. As in the runtime, both shifts divide by the input's size.
    [detection/DetectionOutput-1]
    """

    num_classes: Positive = field(kw_only=True)


_LARGEST = float(np.finfo(np.float32).max)


_Variances = Annotated[Floats, ValueRange(0, counts=(0, 1, 4), hint="without values, 0.1 is used")]
_Sides = Annotated[Floats, ValueRange(0, above=True, high=float_info.max)]


class _Priors(Op):
    """Base: a grid's size and an image's size -> (2, 4 * H * W * boxes of a cell)."""

    rounding = SCALE
    signature = "output_size: integer [2] = *G; image_size: integer [2] = *I -> f32 [2, N]"
    variance: _Variances

    def per_cell(self) -> int:
        raise NotImplementedError

    def complete(self, at: Fit, output_size: Spec, image_size: Spec) -> None:
        height, width = at.groups["G"] or (DYNAMIC, DYNAMIC)
        at["N"] = 4 * self.per_cell() * height * width

    def evaluate(self, output_size: Array, image_size: Array) -> Array:
        height, width = map(int, output_size)
        image = int(image_size[0]), int(image_size[1])
        count = 4 * height * width * self.per_cell()
        if not count:
            return np.zeros((2, 0), np.float32)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            boxes = self.place(height, width, image)
        variances = np.resize(np.array(self.variance or (0.1,), np.float32), count)
        return np.stack([boxes.reshape(-1)[:count], variances])

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        """Return the boxes (height, width, B, 4) as left, top, right, bottom."""
        raise NotImplementedError


# The attributes that describe the boxes of a cell.
_DESCRIBED = (
    *("min_size", "max_size", "aspect_ratio", "density"),
    *("fixed_ratio", "fixed_size", "flip", "scale_all_sizes"),
)


@op("PriorBox", until=7)
class PriorBox1(_Priors):
    """Boxes around each cell of a grid: sizes [H, W] of grid and image -> (2, 4 * H * W * B), f32.

    The first row has the boxes as left, top, right, bottom in fractions of the image, the second
    their variances. A cell has, for each `fixed_size`, a square of `density` by `density` boxes of
    each `fixed_ratio` (or of each aspect ratio), then for each `min_size` a square, a square of
    side sqrt(min * max), and a box of each aspect ratio, with `flip` of its reciprocal too. Centres
    are (offset + i) * step; a step of 0 divides the image evenly, from the middle of the first
    cell. With `scale_all_sizes` off `min_size` and `step` are fractions of the image's height, -1
    is a step of one cell, and only the last `min_size` has aspect ratios, those of the first.
    If attributes describe more boxes than the rule of the shape counts, the runtime writes them
    one after the other until the row is full; so does this. If the runtime folds a constant, its
    boxes of an odd `fixed_size` are half a pixel further right and down.
    [detection/PriorBox-1]
    """

    min_size: _Sides = ()
    max_size: _Sides = ()
    aspect_ratio: _Sides = ()
    density: _Sides = ()
    fixed_ratio: _Sides = ()
    fixed_size: Annotated[Floats, ValueRange(-_LARGEST, high=_LARGEST)] = ()
    clip: bool = False
    flip: bool = False
    step: float = 0.0
    offset: float = attribute(0.0, documented=True)
    variance: _Variances = ()
    scale_all_sizes: bool = True
    min_max_aspect_ratios_order: bool = attribute(True, internal=True)

    def check(self) -> Iterator[Problem]:
        if any(out_of_range(self)):
            return
        count = self.per_cell()
        limit = current().boxes
        if count > limit:
            text = f"the attributes describe {count} boxes of a cell; the limit is {limit}"
            yield Problem("E210", text, hint=raise_hint("boxes"))
            return
        made = len(self._candidates().boxes(1))
        if made < count or made > 2 * count:
            text = f"the attributes describe {made} boxes of a cell, the shape rule counts {count}"
            hint = (
                "fixed_size needs a density each, max_size a min_size, and as many fixed_ratio as "
                "there are aspect ratios with 1; fixed_size and min_size exclude each other"
            )
            yield Problem("E210", text, hint=hint)

    def _candidates(self) -> kernels.Candidates:
        given: dict[str, Any] = {name: getattr(self, name) for name in _DESCRIBED}
        return kernels.Candidates(**given, maximum_first=self.min_max_aspect_ratios_order)

    def per_cell(self) -> int:
        return self._candidates().counted()

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        boxes = self._candidates().boxes(image[0])
        x, y = self._centres(height, width, image)
        out = kernels.around(x, y, boxes, image)
        return np.clip(out, 0, 1) if self.clip else out

    def _centres(self, height: int, width: int, image: tuple[int, int]) -> tuple[Array, Array]:
        step, tall = np.float32(self.step), np.float32(image[0])
        if not self.scale_all_sizes:
            step = tall / np.float32(height) if step == -1 else step * tall
        if step != 0:
            x, y, offset = step, step, self.offset
        else:
            x, y, offset = np.float32(image[1]) / np.float32(width), tall / np.float32(height), 0.5
        return kernels.grid(width, x, offset), kernels.grid(height, y, offset)


@op("PriorBox", since=8)
class PriorBox(PriorBox1):
    """Boxes around each cell of a grid, as PriorBox-1: sizes [H, W] of grid and image -> (2, N).

    With `min_max_aspect_ratios_order` off the square up to `max_size` comes after the aspect
    ratios; OpenVINO's CPU plugin supports that only if both inputs are constant.
    [detection/PriorBox-8]
    """

    min_max_aspect_ratios_order: bool = True


@op("PriorBoxClustered")
class PriorBoxClustered(_Priors):
    """Boxes of given sides around each cell of a grid: sizes [H, W] twice -> (2, 4 * H * W * B).

    As PriorBox, f32: centres (offset + i) * step, `step_w` and `step_h` before `step`; if all are
    0 they divide the image evenly.  [detection/PriorBoxClustered-1]
    """

    width: Floats = attribute((), documented=True)
    height: Floats = attribute((), documented=True)
    clip: bool = True
    step: float = 0.0
    step_w: float = 0.0
    step_h: float = 0.0
    offset: float = attribute(0.0, documented=True)
    variance: _Variances = ()

    def check(self) -> Iterator[Problem]:
        if len(self.width) != len(self.height):
            text = f"there are {len(self.width)} widths and {len(self.height)} heights"
            yield attribute_problem("height", text)

    def per_cell(self) -> int:
        return len(self.width)

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        across = np.float32(self.step_w or self.step)
        down = np.float32(self.step_h or self.step)
        if across == 0 and down == 0:
            across = np.float32(image[1]) / np.float32(width)
            down = np.float32(image[0]) / np.float32(height)
        x = kernels.grid(width, across, self.offset)
        y = kernels.grid(height, down, self.offset)
        sides = np.stack([np.array(self.width, np.float32), np.array(self.height, np.float32)], -1)
        out = kernels.clustered(x, y, sides, image)
        return np.clip(out, 0, 1) if self.clip else out
