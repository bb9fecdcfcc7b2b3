"""MatrixNms, MulticlassNms; overlaps and decays are worked by hand."""

from __future__ import annotations

import math
from typing import Any

from op_cases import Case, bf16, case, f32, i32, i64

# Bars of height 1: the first two share 3/5, the last two as well, the outer ones 1/3; with sides
# that count pixels 2/3, 2/3 and 3/7.
BARS = [[0, 0, 4, 1], [1, 0, 5, 1], [2, 0, 6, 1]]
SCORES = [0.5, 0.875, 0.75]  # the second is the best, then the third
Row = tuple[int, int, float, int]


def nms(
    op: str,
    attributes: str,
    found: list[Row],
    *,
    boxes: Any = (BARS,),
    scores: Any = ((SCORES,),),
    kind: Any = i64,
    real: Any = f32,
    **more: Any,
) -> Case:
    """Write a row; `found` has image, class, score and place of each box."""
    flat = [box for image in boxes for box in image]
    wanted = [
        real([[c, score, *flat[at]] for _, c, score, at in found], (len(found), 6)),
        kind([at for *_, at in found], (len(found), 1)),
        kind([sum(row[0] == n for row in found) for n in range(len(boxes))]),
    ]
    return case(op, attributes, [real(list(boxes)), real(list(scores))], wanted, **more)


def separate(attributes: str, counts: list[int], found: list[Row], **more: Any) -> Case:
    """Write a row of MulticlassNms with boxes of their own for two classes."""
    boxes = [BARS, [[y, x, b, a] for x, y, a, b in BARS]]
    flat = [boxes[c][i] for i in range(3) for c in range(2)]
    wanted = [
        f32([[c, score, *flat[at]] for _, c, score, at in found], (len(found), 6)),
        i64([at for *_, at in found], (len(found), 1)),
        i64([sum(row[0] == n for row in found) for n in range(len(counts))]),
    ]
    inputs = [f32(boxes), f32([SCORES, [0.25, 0.125, 1]]), i64(counts)]
    return case("MulticlassNms-9", attributes, inputs, wanted, fixed=(2,), **more)


TWO = {"boxes": (BARS, BARS), "scores": ([SCORES, [0.125, 0, 0.25]], [[0.25, 0, 0], [0, 1, 0]])}
ALONE = [(0, 0, 0.875, 1), (0, 1, 0.25, 2), (1, 1, 1.0, 4), (1, 0, 0.25, 3)]
FEW = 'iou_threshold="0.3" score_threshold="0.2"'

CASES = [
    # The best stays; of the first 1 - 3/5 is left. The third shares 1/3 with the first, which is
    # itself lowered by 3/5: (1 - 1/3) / (1 - 3/5) does not count, the best's 1 - 3/5 does.
    nms("MatrixNms-8", "", [(0, 0, 0.875, 1), (0, 0, 0.3, 2), (0, 0, 0.2, 0)]),
    nms(
        "MatrixNms-8",
        'decay_function="gaussian" gaussian_sigma="0.5" output_type="i32"',
        [
            (0, 0, 0.875, 1),
            (0, 0, 0.75 * math.exp(-0.18), 2),
            (0, 0, 0.5 * math.exp(-0.18), 0),
        ],
        kind=i32,
    ),
    nms(
        "MatrixNms-8",
        'normalized="false"',
        [(0, 0, 0.875, 1), (0, 0, 0.25, 2), (0, 0, 0.5 / 3, 0)],
    ),
    nms("MatrixNms-8", 'post_threshold="0.25"', [(0, 0, 0.875, 1), (0, 0, 0.3, 2)]),
    nms("MatrixNms-8", 'score_threshold="0.5"', [(0, 0, 0.875, 1), (0, 0, 0.3, 2)]),
    # Sorting a heap of four equal scores leaves 1, 3, 0, 2.
    nms(
        "MatrixNms-8",
        "",
        [(0, 0, 0.5, 1), (0, 0, 0.5, 3), (0, 0, 0.2, 0), (0, 0, 0.2, 2)],
        boxes=([*BARS, [10, 0, 14, 1]],),
        scores=([[0.5, 0.5, 0.5, 0.5]],),
    ),
    nms(
        "MatrixNms-8",
        'score_threshold="2"',
        [],
        crash="OpenVINO refuses to find nothing, then dies of the next model",
    ),
    nms(
        "MatrixNms-8",
        'keep_top_k="2" background_class="1"',
        [(0, 0, 0.875, 1), (0, 0, 0.3, 2), (1, 0, 0.25, 3)],
        **TWO,
    ),
    nms(
        "MatrixNms-8",
        'keep_top_k="2" sort_result_across_batch="true" sort_result_type="score"',
        [(1, 1, 1, 4), (0, 0, 0.875, 1), (0, 0, 0.3, 2), (1, 0, 0.25, 3)],
        **TWO,
    ),
    nms(
        "MatrixNms-8",
        'keep_top_k="2" sort_result_across_batch="true" sort_result_type="classid"',
        [(0, 0, 0.875, 1), (0, 0, 0.3, 2), (1, 0, 0.25, 3), (1, 1, 1, 4)],
        **TWO,
    ),
    # Within an image the order is always that of the scores.
    nms(
        "MatrixNms-8",
        'keep_top_k="2" sort_result_type="classid"',
        [(0, 0, 0.875, 1), (0, 0, 0.3, 2), (1, 1, 1, 4), (1, 0, 0.25, 3)],
        **TWO,
    ),
    nms(
        "MulticlassNms-8",
        'iou_threshold="0.65"',
        [(0, 0, s, i) for s, i in ((0.875, 1), (0.75, 2), (0.5, 0))],
    ),
    # An overlap of exactly the limit goes, a score of exactly the limit stays.
    nms("MulticlassNms-8", 'iou_threshold="0.6"', [(0, 0, 0.875, 1)]),
    nms(
        "MulticlassNms-9",
        'iou_threshold="0.65" score_threshold="0.75" output_type="i32"',
        [(0, 0, 0.875, 1), (0, 0, 0.75, 2)],
        kind=i32,
    ),
    nms("MulticlassNms-9", 'iou_threshold="0.65" normalized="false"', [(0, 0, 0.875, 1)]),
    # The limit sinks to 0.585 with the first box that is kept.
    nms("MulticlassNms-9", 'iou_threshold="0.65" nms_eta="0.9"', [(0, 0, 0.875, 1)]),
    nms(
        "MulticlassNms-9",
        'iou_threshold="0.5" nms_eta="0.5"',
        [(0, 0, 1, 0), (0, 0, 0.5, 2)],
        scores=([[1, 0.75, 0.5]],),
    ),
    # A score of exactly the threshold meets only the last of those that are kept.
    nms(
        "MulticlassNms-9",
        'iou_threshold="0.5" nms_eta="0.9" score_threshold="0.25"',
        [(0, 0, 1, 0), (0, 0, 0.5, 2), (0, 0, 0.25, 3)],
        boxes=([BARS[0], BARS[1], BARS[2], BARS[0]],),
        scores=([[1, 0.75, 0.5, 0.25]],),
    ),
    # Boxes that take part are counted before any goes.
    nms(
        "MulticlassNms-9",
        'iou_threshold="0.5" nms_top_k="2"',
        [(0, 0, 1, 0)],
        scores=([[1, 0.75, 0.5]],),
    ),
    nms("MulticlassNms-9", 'score_threshold="2"', []),
    nms(
        "MulticlassNms-9",
        'iou_threshold="0.65"',
        [(0, 0, 0.875, 1), (0, 0, 0.75, 2), (0, 0, 0.5, 0)],
        real=bf16,
        defect="detections of constants",
    ),
    nms("MulticlassNms-9", f'{FEW} background_class="1"', [ALONE[0], ALONE[3]], **TWO),
    nms("MulticlassNms-9", f'{FEW} keep_top_k="1"', [ALONE[0], ALONE[2]], **TWO),
    nms("MulticlassNms-9", FEW, ALONE, **TWO),
    nms(
        "MulticlassNms-9",
        f'{FEW} sort_result_type="classid"',
        [ALONE[0], ALONE[1], ALONE[3], ALONE[2]],
        **TWO,
    ),
    nms(
        "MulticlassNms-9",
        f'{FEW} sort_result_type="score" sort_result_across_batch="true"',
        [ALONE[2], ALONE[0], ALONE[1], ALONE[3]],
        **TWO,
    ),
    nms(
        "MulticlassNms-9",
        f'{FEW} sort_result_type="classid" sort_result_across_batch="true"',
        [ALONE[0], ALONE[3], ALONE[1], ALONE[2]],
        **TWO,
    ),
    nms("MulticlassNms-9", 'nms_top_k="0"', [], crash="OpenVINO leaves all outputs unwritten"),
    separate(
        'iou_threshold="0.5"',
        [1, 2],
        [(0, 0, 0.5, 0), (0, 1, 0.25, 1), (1, 1, 1, 5), (1, 0, 0.875, 2)],
    ),
    separate(
        'iou_threshold="0.5" background_class="0" keep_top_k="1"',
        [0, 2],
        [(1, 1, 0.25, 1)],
    ),
]
