"""Proposal: anchors, shifts and suppression once more, box by box, with distinct scores."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from op_cases import Case, case, f32

H, W, SIDE, STRIDE = 3, 2, 16, 12
RATIOS, SCALES = (0.7, 2.0), (0.5, 1.5)
ANCHORS = len(RATIOS) * len(SCALES)
SCORES = ((np.arange(2 * 2 * ANCHORS * H * W) * 29) % 97 + 1) / 100
SHIFTS = (((np.arange(2 * 4 * ANCHORS * H * W) * 31) % 61) - 30) / 50
Box = tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """Attributes that change what is computed."""

    tensorflow: bool = False
    clip_before: bool = True
    clip_after: bool = False
    normalize: bool = False
    least: int = 4
    place_scale: float = 1.0
    side_scale: float = 1.0

    @property
    def one(self) -> int:
        return 0 if self.tensorflow else 1


def clip(box: Box, width: float, height: float) -> Box:
    return tuple(min(max(v, 0.0), m) for v, m in zip(box, (width, height) * 2, strict=True))


def anchor(ratio: float, scale: float, s: Setting) -> Box:
    wide = math.sqrt(SIDE * SIDE / ratio)
    wide = wide if s.tensorflow else math.floor(wide + 0.5)
    tall = wide * ratio if s.tensorflow else math.floor(wide * ratio + 0.5)
    middle = 0.0 if s.tensorflow else (SIDE - 1) / 2
    half = ((wide * scale - s.one) / 2, (tall * scale - s.one) / 2)
    return middle - half[0], middle - half[1], middle + half[0], middle + half[1]


def moved(box: Box, shift: Any, s: Setting) -> Box:
    wide, tall = box[2] - box[0] + s.one, box[3] - box[1] + s.one
    x = box[0] + wide / 2 + shift[0] / s.place_scale * wide
    y = box[1] + tall / 2 + shift[1] / s.place_scale * tall
    wide *= math.exp(shift[2] / s.side_scale)
    tall *= math.exp(shift[3] / s.side_scale)
    return x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2


def share(a: Box, b: Box, one: int) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    tall = min(a[3], b[3]) - max(a[1], b[1])
    if wide < 0 or tall < 0:
        return 0.0
    common = (wide + one) * (tall + one)
    both = sum((x[2] - x[0] + one) * (x[3] - x[1] + one) for x in (a, b))
    return common / (both - common)


def proposals(
    s: Setting, image: tuple[float, ...], counts: tuple[int, int], limit: float
) -> tuple[Any, Any]:
    """Return rows and scores of both images."""
    wide, tall = (image[0], image[1]) if s.tensorflow else (image[1], image[0])
    scores = SCORES.reshape(2, 2, ANCHORS, H, W)[:, 1]
    shifts = SHIFTS.reshape(2, ANCHORS, 4, H, W)
    shapes = [anchor(r, k, s) for r in RATIOS for k in SCALES]
    rows, found = np.zeros((2, counts[1], 5)), np.zeros((2, counts[1]))
    for n in range(2):
        boxes: list[tuple[float, Box]] = []
        for y, x, a in np.ndindex(H, W, ANCHORS):
            at = (y, x) * 2 if s.tensorflow else (x, y) * 2
            box = tuple(v + STRIDE * k for v, k in zip(shapes[a], at, strict=True))
            box = clip(box, wide, tall) if s.tensorflow else box
            box = moved(box, shifts[n, a, :, y, x], s)
            box = clip(box, wide - s.one, tall - s.one) if s.clip_before else box
            big = box[2] - box[0] + s.one >= s.least * image[-1]
            big = big and box[3] - box[1] + s.one >= s.least * image[2]
            boxes.append((float(scores[n, a, y, x]) * big, box))
        kept: list[tuple[float, Box]] = []
        for score, box in sorted(boxes, reverse=True)[: counts[0]]:
            if all(share(box, k, s.one) <= limit for _, k in kept):
                kept.append((score, box))
        for i, (score, box) in enumerate(kept[: counts[1]]):
            shown = clip(box, wide, tall) if s.clip_after else box
            size = (wide, tall) * 2 if s.normalize else (1,) * 4
            rows[n, i] = (n, *(v / m for v, m in zip(shown, size, strict=True)))
            found[n, i] = score
        if len(kept) < counts[1]:
            rows[n, len(kept), 0] = -1
    return rows, found


def row(
    op: str,
    s: Setting,
    image: tuple[float, ...] = (60, 50, 1),
    counts: tuple[int, int] = (12, 5),
    limit: float = 0.4,
    **more: Any,
) -> Case:
    rows, found = proposals(s, image, counts, limit)
    text = (
        f'base_size="{SIDE}" pre_nms_topn="{counts[0]}" post_nms_topn="{counts[1]}" '
        f'nms_thresh="{limit}" feat_stride="{STRIDE}" min_size="{s.least}" '
        f'ratio="{",".join(map(str, RATIOS))}" scale="{",".join(map(str, SCALES))}" '
        f'clip_before_nms="{s.clip_before}" clip_after_nms="{s.clip_after}" '
        f'normalize="{s.normalize}" box_coordinate_scale="{s.place_scale}" '
        f'box_size_scale="{s.side_scale}" framework="{"tensorflow" * s.tensorflow}"'
    )
    shape = (2, 2 * ANCHORS, H, W), (2, 4 * ANCHORS, H, W)
    inputs = [f32(SCORES, shape[0]), f32(SHIFTS, shape[1]), f32(image)]
    outputs = [f32(rows, (2 * counts[1], 5)), f32(found, (2 * counts[1],))]
    wanted = outputs[:1] if op.endswith("-1") else outputs
    return case(op, text, inputs, wanted, tolerance=2.0**-20, **more)


CASES = [
    row("Proposal-4", Setting()),
    row("Proposal-1", Setting(clip_after=True, normalize=True, clip_before=False)),
    # Small boxes score 0 and do not take part; so rows stay free.
    row("Proposal-1", Setting(least=7), (60, 50, 1.5, 1.0), (9, 8), 0.25),
    row("Proposal-4", Setting(tensorflow=True, place_scale=10, side_scale=5)),
    row("Proposal-4", Setting(tensorflow=True, clip_before=False, clip_after=True, normalize=True)),
    row(
        "Proposal-4",
        Setting(),
        counts=(9, 8),
        limit=0.1,
        crash="OpenVINO leaves the scores of free rows unwritten: any number",
    ),
]
