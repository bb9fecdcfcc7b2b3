"""Convolution, GroupConvolution."""

from __future__ import annotations

import numpy as np

from op_cases import case, count, f16, f32, f64, i8, i32, tensor

ROW = f32([1, 2, 3, 4, 5], (1, 1, 5))
DIFFERENCE = f32([1, 0, -1], (1, 1, 3))
PLANE = count((1, 1, 3, 4), 1)
CROSS = f32([1, 0, 0, -1], (1, 1, 2, 2))
PLAIN = 'strides="1" pads_begin="0" pads_end="0" dilations="1"'


def padded(begin: int, end: int, more: str = "") -> str:
    return f'strides="1" pads_begin="{begin}" pads_end="{end}" dilations="1" {more}'


def automatic(rule: str, stride: int = 1) -> str:
    # The pads given here count for nothing.
    return f'strides="{stride}" pads_begin="7" pads_end="7" dilations="1" auto_pad="{rule}"'


# Two groups of two inputs and three outputs: x = channel number, each filter sums its group.
GROUPED = tensor("f32", np.repeat([1, 10, 100, 1000], 2), (1, 4, 2))
SUMS = f32([1, 1, 1, 2, 2, 1, 1, 1, 1, 3, 0, 5], (2, 3, 2, 1))

CASES = [
    case("Convolution-1", PLAIN, [ROW, DIFFERENCE], f32([-2, -2, -2], (1, 1, 3))),
    case("Convolution-1", padded(1, 1), [ROW, DIFFERENCE], f32([-2, -2, -2, -2, 4], (1, 1, 5))),
    case("Convolution-1", padded(0, 2), [ROW, DIFFERENCE], f32([-2, -2, -2, 4, 5], (1, 1, 5))),
    case(
        "Convolution-1",
        padded(-1, 0),
        [ROW, DIFFERENCE],
        f32([-2, -2], (1, 1, 2)),
        defect="Convolution with negative pads",
    ),
    case(
        "Convolution-1",
        padded(4, 3),
        [f32([1, 2], (1, 1, 2)), f32([1, 10], (1, 1, 2))],
        f32([0, 0, 0, 10, 21, 2, 0, 0], (1, 1, 8)),
    ),
    case(
        "Convolution-1",
        'strides="2" pads_begin="1" pads_end="2" dilations="2"',
        [ROW, DIFFERENCE],
        f32([-4, 2], (1, 1, 2)),
    ),
    case(
        "Convolution-1", automatic("same_upper", 2), [ROW, DIFFERENCE], f32([-2, -2, 4], (1, 1, 3))
    ),
    case(
        "Convolution-1",
        automatic("same_upper"),
        [ROW, f32([1, 10], (1, 1, 2))],
        f32([21, 32, 43, 54, 5], (1, 1, 5)),
    ),
    case(
        "Convolution-1",
        automatic("SAME_LOWER"),
        [ROW, f32([1, 10], (1, 1, 2))],
        f32([10, 21, 32, 43, 54], (1, 1, 5)),
    ),
    case("Convolution-1", automatic("valid"), [ROW, DIFFERENCE], f32([-2, -2, -2], (1, 1, 3))),
    case(
        "Convolution-1",
        'strides="1,2" pads_begin="0,1" pads_end="1,0" dilations="2,1"',
        [PLANE, CROSS],
        f32([-9, -9, 0, 6], (1, 1, 2, 2)),
    ),
    case(
        "Convolution-1",
        PLAIN,
        [f64([1, 2, 3], (1, 1, 3)), f64([0.5], (1, 1, 1))],
        f64([0.5, 1, 1.5], (1, 1, 3)),
    ),
    case(
        "Convolution-1",
        PLAIN,
        [f16([1, 2, 3], (1, 1, 3)), f16([0.5], (1, 1, 1))],
        f16([0.5, 1, 1.5], (1, 1, 3)),
    ),
    case(
        "Convolution-1",
        PLAIN,
        [i32([1 << 20, 2, 3], (1, 1, 3)), i32([(1 << 11) + 1], (1, 1, 1))],
        i32([-(1 << 31) + (1 << 20), 4098, 6147], (1, 1, 3)),
        defect="integers computed in f32",
    ),
    case(
        "Convolution-1",
        PLAIN,
        [i8([100, 50, -3], (1, 1, 3)), i8([2], (1, 1, 1))],
        i8([-56, 100, -6], (1, 1, 3)),
        defect="8-bit integers that overflow",
    ),
    case(
        "Convolution-1",
        'strides="1,1,1" pads_begin="0,0,0" pads_end="0,0,0" dilations="1,1,1"',
        [count((1, 2, 2, 2, 2)), f32([1] * 16, (1, 2, 2, 2, 2))],
        f32([120], (1, 1, 1, 1, 1)),
    ),
    case(
        "GroupConvolution-1",
        PLAIN,
        [GROUPED, SUMS],
        f32([11, 11, 21, 21, 12, 12, 1100, 1100, 3100, 3100, 5000, 5000], (1, 6, 2)),
    ),
    case(
        "GroupConvolution-1",
        'strides="1" pads_begin="1" pads_end="0" dilations="1"',
        [f32([1, 2, 3, 10, 20, 30], (1, 2, 3)), f32([1, 0, 1, 1, 0, 2, -1, 0], (2, 2, 1, 2))],
        f32([0, 1, 2, 1, 3, 5, 20, 40, 60, 0, -10, -20], (1, 4, 3)),
    ),
]
