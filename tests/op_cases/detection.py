"""NonMaxSuppression; overlaps are worked by hand."""

from __future__ import annotations

import math
from typing import Any

from op_cases import Case, Tensor, case, f32, i32, i64

# Bars of height 1 along x: the pairs that overlap share 3/5, 1/2 and nothing.
BARS = [[0, 0, 1, 4], [0, 1, 1, 5], [1, 14, 0, 10], [0, 10, 1, 12], [0, 20, 1, 21]]
CENTERS = [[2, 0.5, 4, 1], [3, 0.5, 4, 1], [12, 0.5, 4, 1], [11, 0.5, 2, 1], [20.5, 0.5, 1, 1]]
SCORES = [0.5, 0.75, 0.25, 0.875, 0.125]


def row(
    attributes: str,
    found: list[tuple[int, int, int, float]],
    *,
    boxes: Any = (BARS,),
    scores: Any = ((SCORES,),),
    limits: tuple[int, float, float, float] = (5, 0.55, 0, 0),
    kind: Any = i64,
    op: str = "NonMaxSuppression-9",
    **more: Any,
) -> Case:
    scalars: list[Tensor] = [i64(limits[0]), *(f32(v) for v in limits[1:])]
    wanted = [
        kind([r[:3] for r in found], (len(found), 3)),
        f32([(r[0], r[1], r[3]) for r in found], (len(found), 3)),
        kind([len(found)]),
    ]
    return case(op, attributes, [f32(list(boxes)), f32(list(scores)), *scalars], wanted, **more)


SOFT = 0.5
HALF, MOST = math.exp(-0.5 * 0.25 / SOFT), math.exp(-0.5 * 0.36 / SOFT)
BEST = [(0, 0, 3, 0.875), (0, 0, 1, 0.75), (0, 0, 2, 0.25), (0, 0, 4, 0.125)]

CASES = [
    row("", BEST),
    row("", BEST, op="NonMaxSuppression-5"),
    row('box_encoding="center" output_type="i32"', BEST, boxes=(CENTERS,), kind=i32),
    # An overlap of exactly the limit goes; a score of exactly the limit as well.
    row("", [*BEST[:2], BEST[3]], limits=(5, 0.5, 0, 0)),
    row("", BEST[:2], limits=(5, 0.55, 0.25, 0)),
    row("", BEST[:2], limits=(2, 0.55, 0, 0)),
    row(
        "",
        [],
        limits=(0, 0.5, 0, 0),
        crash="OpenVINO leaves the count unwritten where nothing may be kept: any number",
    ),
    row(
        "",
        [
            (0, 0, 3, 0.875),
            (0, 0, 1, 0.75),
            (0, 0, 0, 0.5 * MOST),
            (0, 0, 2, 0.25 * HALF),
            (0, 0, 4, 0.125),
        ],
        limits=(5, 0.5, 0, SOFT),
    ),
    row(
        'sort_result_descending="false"',
        [(0, 0, 3, 0.875), (0, 0, 1, 0.75), (0, 1, 1, 0.875), (0, 1, 3, 0.75)],
        scores=([SCORES, [0.125, 0.875, 0.25, 0.75, 0.5]],),
        limits=(2, 0.5, 0, 0),
    ),
    row(
        "",
        [(0, 0, 3, 0.875), (1, 0, 1, 0.875), (0, 0, 1, 0.75), (1, 0, 3, 0.75)],
        boxes=(BARS, BARS),
        scores=([SCORES], [[0.125, 0.875, 0.25, 0.75, 0.5]]),
        limits=(2, 0.5, 0, 0),
    ),
]
