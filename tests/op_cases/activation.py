"""Operations of one tensor, parametric activations, SoftMax, FakeQuantize.

Expected numbers come from Python's math module or are worked by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from op_cases import Case, Tensor, bf16, boolean, case, f16, f32, f64, i32, u8

NAN, INF = float("nan"), float("inf")
POINTS = [-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.5]
POSITIVE = [0.125, 0.5, 1.0, 2.0, 10.0]
INNER = [-0.75, -0.5, 0.0, 0.25, 0.5]


def values(op: str, fn: Callable[[float], float], points: list[float]) -> Case:
    return case(op, "", [f32(points)], f32([fn(p) for p in points]))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def hsigmoid(x: float) -> float:
    return min(max(x + 3, 0), 6) / 6


FUNCTIONS = [
    values("Abs-1", abs, POINTS),
    values("Negative-1", lambda x: -x, POINTS),
    values("Sqrt-1", math.sqrt, POSITIVE),
    values("Exp-1", math.exp, POINTS),
    values("Log-1", math.log, POSITIVE),
    values("Sin-1", math.sin, POINTS),
    values("Cos-1", math.cos, POINTS),
    values("Tan-1", math.tan, INNER),
    values("Asin-1", math.asin, INNER),
    values("Acos-1", math.acos, INNER),
    values("Atan-1", math.atan, POINTS),
    values("Sinh-1", math.sinh, POINTS),
    values("Cosh-1", math.cosh, POINTS),
    values("Tanh-1", math.tanh, POINTS),
    values("Asinh-4", math.asinh, POINTS),
    values("Acosh-4", math.acosh, [1.0, 1.5, 10.0]),
    values("Atanh-4", math.atanh, INNER),
    values("Erf-1", math.erf, [*POINTS, 0.03125, 1e-4, -7.0]),
    values("Sigmoid-1", sigmoid, [*POINTS, -100.0, 100.0]),
    values("ReLU-1", lambda x: max(x, 0), POINTS),
    values("SoftPlus-4", softplus, POINTS),
    values("Mish-4", lambda x: x * math.tanh(softplus(x)), POINTS),
    values("HSwish-4", lambda x: x * hsigmoid(x), [*POINTS, -4.0, 4.0]),
    values("HSigmoid-5", hsigmoid, [*POINTS, -4.0, 4.0]),
    values("SoftSign-9", lambda x: x / (1 + abs(x)), POINTS),
    values("Swish-4", lambda x: x * sigmoid(x), POINTS),
    values("Gelu-2", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, POINTS),
]


def ramp(*shape: int) -> Tensor:
    return f32(np.arange(np.prod(shape)) - 4, shape)


ROUND = [2.5, 3.5, -0.5, -1.5, 0.4, -2.6]
THIRDS = [
    1 / (1 + math.e + math.e**2),
    1 / (1 + 1 / math.e + math.e),
    1 / (1 + 1 / math.e + math.e**-2),
]

CASES = [
    *FUNCTIONS,
    case("Exp-1", "", [f16([1, 20])], f16([math.e, INF]), tolerance=1e-3),
    case(
        "Sigmoid-1",
        "",
        [bf16([0, 1])],
        bf16([0.5, 0.73046875]),
    ),
    case("Sqrt-1", "", [f64([2.25])], f64([1.5])),
    case("Sqrt-1", "", [i32([9, 8, 5])], i32([3, 3, 2])),
    case("Erf-1", "", [f64([0.5, 3.0])], f64([math.erf(0.5), math.erf(3)])),
    case("ReLU-1", "", [i32([-3, 4])], i32([0, 4])),
    case("Abs-1", "", [i32([-3, 4])], i32([3, 4])),
    case("Sign-1", "", [f32([-2.5, 0, 7])], f32([-1, 0, 1])),
    case("Floor-1", "", [f32([-1.5, 1.5, 2])], f32([-2, 1, 2])),
    case("Floor-1", "", [i32([-1, 1])], i32([-1, 1])),
    case("Ceiling-1", "", [f32([-1.5, 1.5, 2])], f32([-1, 2, 2])),
    case("LogicalNot-1", "", [boolean([1, 0])], boolean([0, 1])),
    case("BitwiseNot-13", "", [u8([0, 5])], u8([255, 250])),
    case("BitwiseNot-13", "", [boolean([0, 1])], boolean([1, 0])),
    case("Round-5", 'mode="half_to_even"', [f32(ROUND)], f32([2, 4, 0, -2, 0, -3])),
    case("Round-5", 'mode="half_away_from_zero"', [f32(ROUND)], f32([3, 4, -1, -2, 0, -3])),
    case("Round-5", "", [i32([-3, 4])], i32([-3, 4])),
    case("Elu-1", 'alpha="2"', [f32([-1, 0, 3])], f32([2 * (math.exp(-1) - 1), 0, 3])),
    case("Clamp-1", 'min="-1.5" max="2"', [f32([-3, 0, 3])], f32([-1.5, 0, 2])),
    case("Clamp-1", 'min="-1.5" max="2"', [bf16([-3, 0, 3])], bf16([-1.5, 0, 2])),
    case("Clamp-1", 'min="-1.5" max="2.5"', [i32([-3, 0, 3])], i32([-1, 0, 2])),
    case("Gelu-7", 'approximation_mode="ERF"', [f32([1, -2])], f32([0.8413447461, -0.0455002639])),
    case(
        "Gelu-7",
        'approximation_mode="tanh"',
        [f32([1, -2])],
        f32([0.8411919906, -0.0454022926]),
    ),
    case("Swish-4", "", [f32([1, -1]), f32(2)], f32([sigmoid(2), -sigmoid(-2)])),
    case(
        "HardSigmoid-1",
        "",
        [f32([[3, 0.5, -3]]), f32(0.5), f32(0.25)],
        f32([[1, 0.5, 0]]),
    ),
    case(
        "Selu-1",
        "",
        [f32([[3, 0, -1]]), f32([2]), f32([3])],
        f32([[9, 0, 6 * (math.exp(-1) - 1)]]),
    ),
    case("IsInf-10", "", [f32([INF, -INF, 1, NAN])], boolean([1, 1, 0, 0])),
    case(
        "IsInf-10",
        'detect_negative="false" detect_positive="true"',
        [f32([INF, -INF, 1])],
        boolean([1, 0, 0]),
    ),
    case(
        "IsInf-10",
        'detect_negative="true" detect_positive="false"',
        [f32([INF, -INF, 1])],
        boolean([0, 1, 0]),
    ),
    case("IsNaN-10", "", [f32([INF, NAN, 1])], boolean([0, 1, 0])),
    case("IsFinite-10", "", [f32([INF, NAN, 1])], boolean([0, 0, 1])),
    # One slope for each channel, also where the last axis has as many elements.
    case("PReLU-1", "", [f32([[1, -1], [-2, -3]]), f32([10, 20])], f32([[1, -20], [-20, -60]])),
    case(
        "PReLU-1",
        "",
        [f32([-1, -2, -3, -4], (1, 2, 2, 1)), f32([10, 20])],
        f32([-10, -20, -60, -80], (1, 2, 2, 1)),
    ),
    case(
        "PReLU-1",
        "",
        [f32([-1, -2, -3, -4, -5, -6], (1, 2, 3)), f32([1, 10, 100])],
        f32([-1, -20, -300, -4, -50, -600], (1, 2, 3)),
    ),
    case("PReLU-1", "", [ramp(1, 3, 2), f32([0.5])], f32([-2, -1.5, -1, -0.5, 0, 1], (1, 3, 2))),
    case(
        "PReLU-1",
        "",
        [f32([-1, -2, -3, 4], (1, 2, 2)), f32([10, 100], (1, 2, 1))],
        f32([-10, -20, -300, 4], (1, 2, 2)),
    ),
    # A single value fits any data, whatever its rank.
    case("PReLU-1", "", [f32(-2), f32([0.5])], f32(-1)),
    case("PReLU-1", "", [f32([-2, 4]), f32([[[0.5]]])], f32([-1, 4])),
    case("SoftMax-1", "", [f32([[0, 1, 2]])], f32([[1, 1, 1]])),
    case("SoftMax-1", 'axis="1"', [f32([[0, 1, 2]])], f32([THIRDS])),
    case("SoftMax-8", 'axis="-2"', [f32([[0], [1], [2]])], f32([[v] for v in THIRDS])),
    case("SoftMax-8", 'axis="1"', [f32([[1000, 1000]])], f32([[0.5, 0.5]])),
    case("LogSoftmax-5", 'axis="-1"', [f32([[0, 1, 2]])], f32([[math.log(v) for v in THIRDS]])),
    case(
        "FakeQuantize-1",
        'levels="3" auto_broadcast="numpy"',
        [f32([[-1, 0, 0.25, 0.5, 0.75, 1, 2]]), f32(0), f32(1), f32(-1), f32(1)],
        f32([[-1, -1, -1, 0, 1, 1, 1]]),
    ),
    case(
        "FakeQuantize-1",
        'levels="5"',
        [f32([[0.0, 0.25, 0.75, 1.25]]), f32(1), f32(0), f32(-1), f32(1)],
        f32([[-1, 0.5, -0.5, 1]]),
        defect="a FakeQuantize whose constant limits go down",
    ),
    case(
        "FakeQuantize-1",
        'levels="2"',
        [
            f32([1, 3, 1, 3], (1, 2, 2)),
            f32([0, 0], (1, 2, 1)),
            f32([4, 2], (1, 2, 1)),
            f32([0, 5], (1, 2, 1)),
            f32([8, 6], (1, 2, 1)),
        ],
        f32([0, 8, 5, 6], (1, 2, 2)),
    ),
]
