"""NonMaxSuppression, NMSRotated; overlaps are worked by hand."""

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


def places(op: str, attributes: str, found: list[tuple[int, int, int]], kind: Any) -> Case:
    scalars = [i64(5), f32(0.5), f32(0.2)]
    inputs = [f32([BARS, BARS]), f32([[SCORES, SCORES[::-1]], [SCORES, SCORES]]), *scalars]
    return case(op, attributes, inputs, kind(found))


def turned(
    attributes: str,
    boxes: list[list[float]],
    scores: list[float],
    iou: float,
    found: list[tuple[int, float]],
    *,
    limit: int = 5,
) -> Case:
    rows = [(0, 0, box) for box, _ in found]
    wanted = [
        i32(rows, (len(rows), 3)),
        f32([(0, 0, score) for _, score in found], (len(found), 3)),
        i32([len(found)]),
    ]
    inputs = [f32([boxes]), f32([[scores]]), i64(limit), f32(iou), f32([0.1])]
    return case("NMSRotated-13", f'output_type="i32" {attributes}', inputs, wanted)


SOFT = 0.5
HALF, MOST = math.exp(-0.5 * 0.25 / SOFT), math.exp(-0.5 * 0.36 / SOFT)
# Of two images with two classes, the second of which has the scores of the first turned round.
KEPT = [(0, 0, 3), (0, 0, 1), (0, 1, 1), (0, 1, 3), (1, 0, 3), (1, 0, 1), (1, 1, 3), (1, 1, 1)]
EIGHTH = math.pi / 4
# Two squares of side 2 on one centre, one turned by an eighth: their common octagon has the area
# 8 (sqrt 2 - 1), the overlap is 1 / sqrt 2 = 0.7071.
STARS = [[3, 4, 2, 2, 0], [3, 4, 2, 2, EIGHTH]]
# Bars 4 long, the second 2 further on the diagonal: in line with the first, the overlap is 1/3.
SLANTED = [[0, 0, 4, 1, EIGHTH], [math.sqrt(2), math.sqrt(2), 4, 1, EIGHTH]]
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
    # Version 1 to 4: as many rows as boxes are kept, which the runtime does not fill up either.
    places(
        "NonMaxSuppression-1",
        "",
        [*KEPT[0::2], *KEPT[1::2], (0, 1, 4)],
        i64,
    ),
    places(
        "NonMaxSuppression-4",
        'sort_result_descending="false" output_type="i32"',
        [*KEPT[:4], (0, 1, 4), *KEPT[4:]],
        i32,
    ),
    turned("", STARS, [0.5, 0.75], 0.7, [(1, 0.75)]),
    turned("", STARS, [0.5, 0.75], 0.71, [(1, 0.75), (0, 0.5)]),
    turned("", SLANTED, [0.75, 0.5], 0.3, [(0, 0.75)]),
    turned('clockwise="false"', SLANTED, [0.75, 0.5], 0.3, [(0, 0.75), (1, 0.5)]),
    # A box without area overlaps nothing; a score at the threshold is not above it.
    turned("", [*STARS, [3, 4, 0, 2, 1]], [0.1, 0.5, 0.5], 0.7, [(1, 0.5), (2, 0.5)]),
    turned("", [*STARS, [3, 4, 2, 2, 0]], [0.5, 0.25, 0.5], 1, [(0, 0.5), (2, 0.5)], limit=2),
]
