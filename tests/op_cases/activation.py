"""Operations of one tensor, parametric activations, SoftMax, FakeQuantize.

Expected numbers come from Python's math module or are worked by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from op_cases import Case, Tensor, case, f32

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
    case("Swish-4", "", [f32([1, -1]), f32(2)], f32([sigmoid(2), -sigmoid(-2)])),
]
