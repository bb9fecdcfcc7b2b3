"""ZeroInsertion."""

from __future__ import annotations

from op_cases import case, f32

ROW = f32([1, 2, 3], (1, 1, 3))

CASES = [
    case("ZeroInsertion-irdeconv_1", 'strides="1"', [ROW], ROW),
    case(
        "ZeroInsertion-irdeconv_1",
        'strides="2,3"',
        [f32([1, 2, 3, 4], (1, 1, 2, 2))],
        f32([1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 4], (1, 1, 3, 4)),
    ),
]
