"""PriorBox and PriorBoxClustered: the sides of a cell's boxes are worked by hand."""

import math
from collections.abc import Sequence
from typing import Any

from op_cases import Case, case, f32, i32, i64

GRID, IMAGE = (2, 3), (16, 30)  # height and width: cells of 10 x 8 pixels
Sides = tuple[float, ...]  # width, height of a box; before them where its centre is, if not 0, 0


def row(
    op: str,
    attributes: str,
    boxes: Sequence[Sides],
    *,
    centres: tuple[Sequence[float], Sequence[float]] = ((5, 15, 25), (4, 12)),
    variance: Sequence[float] = (0.1,) * 4,
    clip: bool = False,
    ends: bool = False,
    kind: Any = i64,
    count: int | None = None,
    **more: Any,
) -> Case:
    """Write a row; `ends`: boxes begin not before 0 and end not behind 1."""
    out: list[float] = []
    for y in centres[1]:
        for x in centres[0]:
            for *offset, width, height in boxes:
                cx, cy = x + (offset or (0, 0))[0], y + (offset or (0, 0))[1]
                box = [(cx - width / 2) / IMAGE[1], (cy - height / 2) / IMAGE[0]]
                box += [(cx + width / 2) / IMAGE[1], (cy + height / 2) / IMAGE[0]]
                if ends:
                    box = [*(max(v, 0) for v in box[:2]), *(min(v, 1) for v in box[2:])]
                out += [min(max(v, 0), 1) for v in box] if clip else box
    cells = len(centres[0]) * len(centres[1])
    count = cells * (len(boxes) if count is None else count)
    wanted = f32([out[: 4 * count], list(variance) * count])
    return case(op, attributes, [kind(GRID), kind(IMAGE)], wanted, **more)


ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)
SQUARE, BETWEEN = (4, 4), (6, 6)  # min_size 4, max_size 9: sqrt(36)
WIDE, TALL = (8, 2), (2, 8)  # aspect ratios 4 and 1 / 4
SSD = 'min_size="4" max_size="9" aspect_ratio="4" flip="true" offset="0.5"'
# Four centres of a dense square of 8 pixels: shift 4, first at 4 / 2 - 8 / 2.
DENSE = [(x, y) for y in (-2, 2) for x in (-2, 2)]

CASES = [
    row("PriorBox-8", SSD, [SQUARE, BETWEEN, WIDE, TALL]),
    row("PriorBox-1", SSD, [SQUARE, BETWEEN, WIDE, TALL], kind=i32),
    row(
        "PriorBox-8",
        f'{SSD} min_max_aspect_ratios_order="false" clip="true" variance="0.1,0.2,0.3,0.4"',
        [SQUARE, WIDE, TALL, BETWEEN],
        clip=True,
        variance=(0.1, 0.2, 0.3, 0.4),
        defect="priors whose size is no constant",
    ),
    # Ratios that are there already count once; offset and step place the centres.
    row(
        "PriorBox-8",
        'min_size="4,5" max_size="9" aspect_ratio="4,0.25,1,4" flip="true" step="6" offset="0.25" '
        'variance="0.5"',
        [SQUARE, BETWEEN, WIDE, TALL, (5, 5), (10, 2.5), (2.5, 10)],
        centres=((1.5, 7.5, 13.5), (1.5, 7.5)),
        variance=(0.5,) * 4,
    ),
    # Fractions of the image's height, 16; only the last size has ratios, those of the first.
    row(
        "PriorBox-8",
        'min_size="0.25,0.5" aspect_ratio="4" scale_all_sizes="false" step="-1" offset="0.5"',
        [(4, 4), (8, 8), (8, 2)],
        centres=((4, 12, 20), (4, 12)),
    ),
    row(
        "PriorBox-1",
        'min_size="0.25" scale_all_sizes="false" step="0.5" offset="0.25"',
        [(4, 4)],
        centres=((2, 10, 18), (2, 10)),
    ),
    row(
        "PriorBox-8",
        'fixed_size="8" density="2" fixed_ratio="4" offset="0.5"',
        [(x, y, 16, 4) for x, y in DENSE],
        ends=True,
    ),
    row(
        "PriorBox-1",
        'fixed_size="8,6" density="2,1" aspect_ratio="4" offset="0.5"',
        [
            *((x, y, 8, 8) for x, y in DENSE),
            *((x, y, 16, 4) for x, y in DENSE),
            (0, 0, 6, 6),
            (0, 0, 12, 3),
        ],
        ends=True,
    ),
    # Two ratios where the rule of the shape counts one: the boxes run on from cell to cell.
    row(
        "PriorBox-8",
        'fixed_size="8" density="2" fixed_ratio="4,0.25" offset="0.5"',
        [*((x, y, 16, 4) for x, y in DENSE), *((x, y, 4, 16) for x, y in DENSE)],
        ends=True,
        count=7,
    ),
    # An odd size, in the middle.
    row("PriorBox-8", 'fixed_size="5" density="1" offset="0.5"', [(5, 5)], ends=True),
    row(
        "PriorBox-8",
        'min_size="6" aspect_ratio="2,3" offset="0.5"',
        [(6, 6), (6 * ROOT2, 6 / ROOT2), (6 * ROOT3, 6 / ROOT3)],
    ),
    row(
        "PriorBoxClustered-1",
        'width="4,40" height="6,2" offset="0.5"',
        [(4, 6), (40, 2)],
        clip=True,
    ),
    row(
        "PriorBoxClustered-1",
        'width="4" height="6" step_w="6" step="4" offset="0.25" clip="false" variance="1,2,3,4"',
        [(4, 6)],
        centres=((1.5, 7.5, 13.5), (1, 5)),
        variance=(1, 2, 3, 4),
        kind=i32,
    ),
]
