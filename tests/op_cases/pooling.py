"""AvgPool and MaxPool of every operation set."""

from __future__ import annotations

import numpy as np

from op_cases import Case, Tensor, case, count, f32, i8, i32, i64, u8

LOWEST = float(np.finfo(np.float32).min)
DIGITS = f32([3, 1, 4, 1, 5, 9, 2], (1, 1, 7))
RAMP = f32([1, 2, 3, 4, 5, 6], (1, 1, 6))
PLANES = count((1, 2, 2, 3), 1)


def rule(kernel: int, stride: int, begin: int, end: int, more: str = "") -> str:
    return f'kernel="{kernel}" strides="{stride}" pads_begin="{begin}" pads_end="{end}" {more}'


def best(
    attributes: str, x: Tensor, y: Tensor, where: list[int], op: str = "MaxPool-8", **more: str
) -> Case:
    places = i64(where, y.values.shape)
    return case(op, attributes + ' dilations="1"', [x], [y, places], **more)


def mean(attributes: str, exclude: str, x: Tensor, y: Tensor, op: str = "AvgPool-1") -> Case:
    return case(op, f'{attributes} exclude-pad="{exclude}"', [x], y)


def row(*values: float) -> Tensor:
    return f32(values, (1, 1, len(values)))


CASES = [
    case("MaxPool-1", rule(3, 2, 0, 0), [DIGITS], row(4, 5, 9)),
    case("MaxPool-1", rule(3, 2, 1, 1), [DIGITS], row(3, 4, 9, 9)),
    case("MaxPool-1", rule(2, 2, 0, 0, 'rounding_type="ceil"'), [DIGITS], row(3, 4, 9, 2)),
    case("MaxPool-1", rule(2, 2, 9, 9, 'auto_pad="same_lower"'), [DIGITS], row(3, 4, 5, 9)),
    case("MaxPool-1", rule(2, 2, 9, 9, 'auto_pad="same_upper"'), [DIGITS], row(3, 4, 9, 2)),
    case("MaxPool-1", rule(3, 4, 9, 9, 'auto_pad="valid"'), [DIGITS], row(4, 9)),
    case("MaxPool-1", rule(2, 2, 3, 0), [DIGITS], row(LOWEST, 3, 4, 5, 9)),
    case("MaxPool-1", rule(2, 2, 0, 0), [i8([-5, -7, 3], (1, 1, 3))], i8([-5], (1, 1, 1))),
    best(rule(3, 2, 1, 1), DIGITS, row(3, 4, 9, 9), [0, 2, 5, 5]),
    best(rule(2, 1, 0, 0), row(2, 2, 1, 1), row(2, 2, 1), [0, 1, 2]),
    best(rule(1, 4, 1, 1), row(5, 6, 7), row(LOWEST, LOWEST), [0, 0]),
    # Windows of extent 4 begin at -2, 1 and 4 under same_lower, at -1, 2 and 5 under same_upper.
    case(
        "MaxPool-14",
        rule(2, 3, 9, 9, 'dilations="3" auto_pad="same_lower"'),
        [DIGITS],
        [row(1, 5, 5), i64([1, 4, 4], (1, 1, 3))],
    ),
    case(
        "MaxPool-8",
        rule(2, 3, 9, 9, 'dilations="3" auto_pad="same_upper"'),
        [DIGITS],
        [row(4, 9, 9), i64([2, 5, 5], (1, 1, 3))],
    ),
    case(
        "MaxPool-8",
        rule(3, 1, 0, 0, 'dilations="2" index_element_type="i32"'),
        [DIGITS],
        [row(5, 9, 5), i32([4, 5, 4], (1, 1, 3))],
    ),
    *(
        case(
            "MaxPool-8",
            'kernel="2,2" strides="1,1" pads_begin="0,0" pads_end="0,0" dilations="1,1" '
            f'axis="{axis}"',
            [PLANES],
            [f32([5, 6, 11, 12], (1, 2, 1, 2)), i64(where, (1, 2, 1, 2))],
        )
        for axis, where in (
            (0, [4, 5, 10, 11]),
            (1, [4, 5, 10, 11]),
            (2, [4, 5, 4, 5]),
            (-1, [1, 2, 1, 2]),
        )
    ),
    best(
        rule(2, 1, 0, 0),
        u8([0, 0, 0], (1, 1, 3)),
        u8([0, 0], (1, 1, 2)),
        [0, 1],
        defect="places of MaxPool in windows of the lowest number",
    ),
    best(
        rule(3, 3, 1, 1, 'rounding_type="ceil_torch"'),
        count((1, 1, 8), 1),
        row(2, 5, 8),
        [1, 4, 7],
        "MaxPool-14",
    ),
    best(
        rule(3, 3, 1, 1, 'rounding_type="ceil"'),
        count((1, 1, 8), 1),
        row(2, 5, 8, LOWEST),
        [1, 4, 7, 0],
        "MaxPool-14",
    ),
    mean(rule(3, 2, 0, 0), "true", DIGITS, row(8 / 3, 10 / 3, 16 / 3)),
    mean(rule(3, 3, 1, 1), "true", RAMP, row(1.5, 4)),
    mean(rule(3, 3, 1, 1), "false", RAMP, row(1, 4)),
    mean(rule(3, 2, 2, 0, 'rounding_type="ceil"'), "true", RAMP, row(1, 2, 4, 5.5)),
    mean(rule(3, 2, 2, 0, 'rounding_type="ceil"'), "false", RAMP, row(1 / 3, 2, 4, 11 / 3)),
    # A window without data: 0, not 0 / 0.
    mean(rule(2, 3, 1, 1, 'rounding_type="ceil"'), "true", row(1, 3, 4, 6), row(1, 5, 0)),
    # Without pads the overhang of ceil does not count, whatever exclude-pad says.
    mean(rule(3, 2, 0, 0, 'rounding_type="ceil"'), "false", RAMP, row(2, 4, 5.5)),
    mean(rule(3, 2, 9, 9, 'auto_pad="same_upper"'), "false", RAMP, row(2, 4, 11 / 3)),
    mean(rule(3, 2, 9, 9, 'auto_pad="same_lower"'), "true", RAMP, row(1.5, 3, 5)),
    mean(rule(2, 1, 0, 0), "true", i32([1, 2, 3, 6], (1, 1, 4)), i32([2, 2, 4], (1, 1, 3))),
    mean(
        rule(3, 3, 1, 1, 'rounding_type="ceil_torch"'),
        "true",
        count((1, 1, 8), 1),
        row(1.5, 4, 7),
        "AvgPool-14",
    ),
    mean(rule(2, 1, 1, 0, 'dilations="3"'), "false", RAMP, row(1.5, 2.5, 3.5, 4.5), "AvgPool-16"),
    mean(
        'kernel="2,2" strides="1,1" pads_begin="0,0" pads_end="0,0"',
        "true",
        PLANES,
        f32([3, 4, 9, 10], (1, 2, 1, 2)),
    ),
]
