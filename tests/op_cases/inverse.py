"""Inverse and FakeConvert, worked by hand."""

from __future__ import annotations

import math

from op_cases import case, f16, f32, f64

STACK = [[[1, 2], [3, 4]], [[0, 2], [4, 0]]]
INVERSES = [[[-2, 1], [1.5, -0.5]], [[0, 0.25], [0.5, 0]]]
TURNED = [[[-2, 1.5], [1, -0.5]], [[0, 0.5], [0.25, 0]]]
NAN, INF = math.nan, math.inf
CASES = [
    case("Inverse-14", 'adjoint="false"', [f32(STACK)], f32(INVERSES)),
    case("Inverse-14", 'adjoint="true"', [f32(STACK)], f32(TURNED)),
    case("Inverse-14", "", [f64([[STACK]])], f64([[INVERSES]])),
    case("Inverse-14", "", [f16([[4]])], f16([[0.25]])),
    case("Inverse-14", "", [f32([], (0, 3, 3))], f32([], (0, 3, 3))),
    case(
        "Inverse-14",
        "",
        [f32([[[1, 2], [2, 4]], [[1, 0], [0, 2]]])],
        f32([[[-INF, INF], [INF, -INF]], [[1, 0], [0, 0.5]]]),
    ),
    # f8e4m3 has steps of 1/8 from 1 on, 2 ** -9 below 2 ** -6, and ends at 448.
    case(
        "FakeConvert-13",
        'destination_type="f8e4m3"',
        [f32([0, 1.0625, 1.07, -1.1875, 460, -1e9, 0.001, 0.0009]), f32([1])],
        f32([0, 1, 1.125, -1.25, 448, -448, 2.0**-9, 0]),
    ),
    # f8e5m2 has steps of 1/4 from 1 on, and ends at 57344.
    case(
        "FakeConvert-13",
        'destination_type="f8e5m2"',
        [f32([[1.125, 1.13], [1.375, -70000]]), f32([1])],
        f32([[1, 1.25], [1.5, -57344]]),
    ),
    case("FakeConvert-13", "", [f32([NAN, 2]), f32([1])], f32([-448, 2])),
    case(
        "FakeConvert-13",
        "",
        [f32([[1, 2.2], [3, 5.1]]), f32([[2], [0.5]]), f32([[1], [-0.5]])],
        # 1, 3.4 -> 3.5; 2, 3.05 -> 3: plus the shift, over the scale
        f32([[1, 2.25], [3, 5]]),
    ),
    case("FakeConvert-13", "", [f16([10.3, -7]), f16([2])], f16([10, -7])),
]
