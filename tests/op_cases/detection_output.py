"""DetectionOutput: four boxes side by side, each row of the result worked by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from op_cases import ROUNDING, Case, Tensor, case, f32

# Boxes of 0.2 x 0.2: the second overlaps the first by a third, the others nothing.
LEFT = (0.0, 0.1, 0.5, 0.8)
BOXES = [[x, 0.5, x + 0.2, 0.7] for x in LEFT]
VARIANCES = [[0.1, 0.1, 0.2, 0.2]] * 4
STAY = np.zeros((1, 4, 1, 4))  # logits that leave the priors where they are
# Background, then two classes.
SCORES = [[0.1, 0.9, 0.3], [0.2, 0.8, 0.6], [0.3, 0.2, 0.5], [0.4, 0.7, 0.1]]
OVERLAP = {"nms_threshold": 0.3, "confidence_threshold": 0.15, "normalized": "true"}
Found = Sequence[tuple[float, ...]]


def at(image: int, label: int, score: float, box: int) -> tuple[float, ...]:
    return (image, label, score, *BOXES[box])


def row(
    found: Found,
    count: int,
    *,
    op: str = "DetectionOutput-8",
    logits: Any = STAY,
    scores: Any = (SCORES,),
    priors: Any = ((BOXES, VARIANCES),),
    more: Sequence[Tensor] = (),
    tolerance: float = 4 * ROUNDING,
    **attributes: Any,
) -> Case:
    out = np.zeros((count, 7))
    out[: len(found)] = found
    if len(found) < count:
        out[len(found), 0] = -1
    boxes, probabilities = np.array(logits, float), np.array(scores, float)
    sides = [np.array(r, float).reshape(-1) for p in priors for r in p]
    width = max(map(len, sides))
    table = np.array([np.pad(s, (0, width - len(s)), constant_values=7) for s in sides])
    inputs = [
        f32(boxes.reshape(len(boxes), -1)),
        f32(probabilities.reshape(len(probabilities), -1)),
        f32(table.reshape(len(priors), -1, width)),
        *more,
    ]
    text = " ".join(f'{k}="{v}"' for k, v in {**OVERLAP, **attributes}.items())
    return case(op, text, inputs, f32(out, (1, 1, count, 7)), tolerance=tolerance)


ONE = [at(0, 1, 0.9, 0), at(0, 1, 0.7, 3), at(0, 1, 0.2, 2)]  # box 1 overlaps box 0
TWO = [at(0, 2, 0.6, 1), at(0, 2, 0.5, 2)]  # box 0 overlaps box 1
NONE = [at(0, 0, 0.4, 3), at(0, 0, 0.3, 2)]
FIRST = [at(0, 0, 0.9, 0), at(0, 0, 0.7, 3)]
PIXELS = [[0, *(v * s for v, s in zip(b, (20, 10, 20, 10), strict=True))] for b in BOXES]
ENDING = [*PIXELS[:2], [-1, 0, 0, 0, 0], PIXELS[3]]
IN_PIXELS = {"normalized": "false", "input_height": 10, "input_width": 20}
TARGET: dict[str, Any] = {"variance_encoded_in_target": "true", "priors": ((BOXES,),)}
CENTER = {"code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "tolerance": 2.0**-20}
TWICE = {"logits": np.zeros((2, 4, 1, 4)), "scores": (SCORES, SCORES)}


def moved(*logits: tuple[int, Sequence[float]], classes: int = 1) -> Any:
    """Logits of 0 but for those of some priors."""
    out = np.zeros((1, 4, classes, 4))
    for prior, values in logits:
        out[0, prior] = values
    return out


CASES = [
    row([*ONE, *TWO], 12, keep_top_k=-1),
    row([*ONE, *TWO], 12, keep_top_k=-1, num_classes=3, op="DetectionOutput-1"),
    row([*ONE[:2], TWO[0]], 3, keep_top_k=3),
    row([ONE[0], *TWO], 6, keep_top_k=-1, top_k=2),
    row([ONE[0], *TWO], 10, keep_top_k=10, top_k=2),
    # No background: the scores of class 0 count as well.
    row([*NONE, at(0, 0, 0.2, 1), *ONE, *TWO], 12, keep_top_k=-1, background_label_id=-1),
    row([*NONE, *ONE[:2]], 4, keep_top_k=4, background_label_id=2),
    # Each prior its best class: boxes 0, 1 and 3 are of class 0 then, box 2 of class 1.
    row([*FIRST, at(0, 1, 0.5, 2)], 12, keep_top_k=-1, decrease_label_id="true"),
    row(FIRST, 9, keep_top_k=-1, top_k=3, decrease_label_id="true"),
    # Corners: 0.1 * 2 to the right, 0.2 * 1 and 0.2 * -3 at the other corner; clipped at last.
    row([(0, 1, 0.9, 0.2, 0.5, 0.4, 0.1)], 1, keep_top_k=1, logits=moved((0, (2, 0, 1, -3)))),
    row(
        [(0, 1, 0.9, 0.5, 0.0, 0.7, 1.0)],
        1,
        keep_top_k=1,
        clip_after_nms="true",
        logits=moved((0, (0.5, -2, 0.5, 1.25))),
        **TARGET,
    ),
    # Centre and size: 0.1 * 2 sides to the right, half and twice as long: 0.14 +- 0.05, 0.6 +- 0.2.
    row(
        [(0, 1, 0.9, 0.09, 0.4, 0.19, 0.8)],
        1,
        keep_top_k=1,
        logits=moved((0, (2, 0, -5 * np.log(2), 5 * np.log(2)))),
        **CENTER,
    ),
    row(
        [(0, 1, 0.9, 0.25, 0.2, 0.35, 1.0)],
        1,
        keep_top_k=1,
        clip_before_nms="true",
        logits=moved((0, (1, 0, -np.log(2), 2 * np.log(2)))),
        **CENTER,
        **TARGET,
    ),
    # Boxes of each class: class 2 has box 0 far away, so that it does not go.
    row(
        [*ONE, *TWO, (0, 2, 0.3, 0.0, 0.0, 0.2, 0.2)],
        12,
        keep_top_k=-1,
        share_location="false",
        logits=moved((0, [(9, 9, 9, 9), (0, 0, 0, 0), (0, -0.5, 0, -0.5)]), classes=3),
        **TARGET,
    ),
    # Priors in pixels end where one begins with -1.
    row([ONE[0], TWO[0]], 12, keep_top_k=-1, priors=((ENDING, VARIANCES),), **IN_PIXELS),
    # Images with priors of their own and the same priors.
    row(
        [*ONE[:2], TWO[0], *((1, 1, s, *BOXES[b]) for s, b in ((0.9, 3), (0.8, 2), (0.7, 0)))],
        6,
        keep_top_k=3,
        priors=((BOXES, VARIANCES), (BOXES[::-1], VARIANCES)),
        **TWICE,
    ),
    row([*ONE[:2], *((1, *r[1:]) for r in ONE[:2])], 4, keep_top_k=2, **TWICE),
    # Two more inputs: boxes 0 and 3 are no objects; all move down by 0.1, then by 0.2.
    row(
        [
            (0, c, s, x, 0.8, x + 0.2, 1.0)
            for c, s, x in ((1, 0.8, 0.1), (1, 0.2, 0.5), (2, 0.6, 0.1), (2, 0.5, 0.5))
        ],
        12,
        keep_top_k=-1,
        objectness_score=0.5,
        logits=np.full((1, 4, 1, 4), (0, 0.2, 0, 0.2)),
        more=[
            f32([[0, 0.4, 0, 0.6, 0, 0.5, 0, 0.1]]),
            f32(np.full((1, 4, 4), (0, 0.1, 0, 0.1)), (1, 16)),
        ],
        **TARGET,
    ),
]
