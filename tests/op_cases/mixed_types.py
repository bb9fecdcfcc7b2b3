"""Operations whose inputs may be of several floating-point types: the result has the first's."""

from __future__ import annotations

from op_cases import case, f16, f32, i64

HALF = 2.0**-10  # two units in the last place of f16
LIMITS = [f32(0), f32(1), f32(-1), f32(1)]
CASES = [
    case("PReLU-1", "", [f16([[-2, 4]]), f32([0.25])], f16([[-0.5, 4]])),
    case("PReLU-1", "", [f16([[[-2], [-4]]]), f32([0.25, 0.5])], f16([[[-0.5], [-2]]])),
    case("PReLU-1", "", [f32([[-2, 4]]), f16([0.25])], f32([[-0.5, 4]])),
    case(
        "FakeQuantize-1",
        'levels="3"',
        [f16([[-1, 0, 0.25, 0.5, 0.75, 1, 2]]), *LIMITS],
        f16([[-1, -1, -1, 0, 1, 1, 1]]),
    ),
    case(
        "FakeQuantize-1",
        'levels="3"',
        [f32([[-1, 0.5, 2]]), f16(0), f16(1), f32(-1), f16(1)],
        f32([[-1, 0, 1]]),
    ),
    case(
        "GroupNormalization-12",
        'num_groups="2" epsilon="0.5625"',
        [f16([1, 3, 10, 10], (1, 4, 1)), f32([1, 10, 1, 1]), f32([0, 1, 2, 3])],
        f16([-0.8, 9, 2, 3], (1, 4, 1)),
        tolerance=HALF,
    ),
    case(
        "GroupNormalization-12",
        'num_groups="2" epsilon="0.5"',
        [f32([], (0, 4, 3)), f32([1, 2, 3, 4]), f32([0, 1, 2, 3])],
        f32([], (0, 4, 3)),
    ),
    case(
        "NonMaxSuppression-9",
        "",
        [f16([[[0, 0, 1, 4], [0, 2, 1, 5]]]), f32([[[0.5, 0.75]]]), i64(2), f32(0.75), f32(0)],
        [i64([[0, 0, 1], [0, 0, 0]]), f32([[0, 0, 0.75], [0, 0, 0.5]]), i64([2])],
        fixed=(2,),
    ),
]
