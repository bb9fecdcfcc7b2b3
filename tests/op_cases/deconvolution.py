"""ConvolutionBackpropData, GroupConvolutionBackpropData: scatters worked by hand.

ROW has the elements 1, 2, 3; the kernel 1, 10, 100 shows which tap an output comes from.
"""

from __future__ import annotations

from op_cases import case, f16, f32, i64

ROW = f32([1, 2, 3], (1, 1, 3))
TAPS = f32([1, 10, 100], (1, 1, 3))
# Two groups of two inputs and three outputs.
GROUPED = f32([1, 2, 3, 4], (1, 4, 1))
GROUPS = f32([1, 10, 100, 2, 20, 200, 3, 30, 300, 5, 50, 500], (2, 2, 3, 1))


def lists(strides: int, begin: int = 0, end: int = 0, dilations: int = 1, more: str = "") -> str:
    return (
        f'strides="{strides}" pads_begin="{begin}" pads_end="{end}" dilations="{dilations}" {more}'
    )


CASES = [
    # Stride 1: every output is the sum of three shifted taps.
    case(
        "ConvolutionBackpropData-1",
        lists(1),
        [ROW, TAPS],
        f32([1, 12, 123, 230, 300], (1, 1, 5)),
    ),
    # Stride 2: taps 0 and 2 meet at the even places.
    case(
        "ConvolutionBackpropData-1",
        lists(2),
        [ROW, TAPS],
        f32([1, 10, 102, 20, 203, 30, 300], (1, 1, 7)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2, 1, 2),
        [ROW, TAPS],
        f32([10, 102, 20, 203], (1, 1, 4)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2, 0, 0, 1, 'output_padding="1" auto_pad="valid"'),
        [ROW, TAPS],
        f32([1, 10, 102, 20, 203, 30, 300, 0], (1, 1, 8)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(1, 0, 0, 2),
        [ROW, TAPS],
        f32([1, 2, 13, 20, 130, 200, 300], (1, 1, 7)),
    ),
    # A kernel shorter than the stride leaves gaps.
    case(
        "ConvolutionBackpropData-1",
        lists(3),
        [ROW, f32([5, 7], (1, 1, 2))],
        f32([5, 7, 0, 10, 14, 0, 15, 21], (1, 1, 8)),
    ),
    # output_shape: explicit pads stay, the odd element goes to the begin for same_upper.
    case(
        "ConvolutionBackpropData-1",
        lists(2, 1, 0),
        [ROW, TAPS, i64([3], (1,))],
        f32([10, 102, 20], (1, 1, 3)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2, 0, 0, 1, 'auto_pad="same_upper"'),
        [ROW, TAPS, i64([6], (1,))],
        f32([10, 102, 20, 203, 30, 300], (1, 1, 6)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2, 0, 0, 1, 'auto_pad="same_lower"'),
        [ROW, TAPS, i64([6], (1,))],
        f32([1, 10, 102, 20, 203, 30], (1, 1, 6)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2, 0, 0, 1, 'auto_pad="SAME_UPPER"'),
        [ROW, TAPS],
        f32([1, 10, 102, 20, 203, 30, 300], (1, 1, 7)),
    ),
    case(
        "ConvolutionBackpropData-1",
        lists(2),
        [f16([1, 2], (1, 1, 2)), f16([1, 2, 4], (1, 1, 3))],
        f16([1, 2, 6, 4, 8], (1, 1, 5)),
    ),
    # Two axes with different strides: rows 2 apart, columns next to each other.
    case(
        "ConvolutionBackpropData-1",
        'strides="2,1" pads_begin="0,1" pads_end="0,0" dilations="1,1"',
        [f32([1, 2, 3, 4], (1, 1, 2, 2)), f32([1, 10], (1, 1, 1, 2))],
        f32([12, 20, 0, 0, 34, 40], (1, 1, 3, 2)),
    ),
    # Outputs of a group are contiguous: 1*1 + 2*2, ten and a hundred times that; then 3*3 + 4*5.
    case(
        "GroupConvolutionBackpropData-1",
        lists(1),
        [GROUPED, GROUPS],
        f32([5, 50, 500, 29, 290, 2900], (1, 6, 1)),
    ),
]
