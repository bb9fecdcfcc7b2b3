"""What each step of a chain computes: its calls, as few as the accuracy allows.

A pass over a tile in cache costs 0.08 ns per element (add, multiply), 0.11 (divide, clip), about 1
(exp, tanh, log on AVX2; 0.4 on AVX-512). `np.maximum` with a scalar costs 0.4, so `clip` stands in
for it. Not used in f32: expm1 and log1p, which are 12 ns where NumPy has no vector loop for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.kernels.elementwise.calls import Emitter
from irdeconv.kernels.shared.special import erf
from irdeconv.spec import Array

Rule = Callable[..., int]  # (emitter, *arguments, *parameters) -> value
INF = math.inf

RULES: dict[str, Rule] = {}

# np.clip checks its arguments for a microsecond before it comes to this loop.
_clip: Any = getattr(getattr(np, "_core", np), "umath", np).clip


def clip(x: Array, low: Any, high: Any, out: Array) -> None:
    """Limit to low..high (arrays of the type of `x`, for speed)."""
    _clip(x, low, high, out)


def rule(name: str) -> Callable[[Rule], Rule]:
    """Register what a step computes."""

    def register(fn: Rule) -> Rule:
        RULES[name] = fn
        return fn

    return register


def _plain(fn: Callable[..., Any]) -> Rule:
    def emit(e: Emitter, *args: int) -> int:
        return e.call(fn, *args)

    return emit


RULES |= {
    name: _plain(fn)
    for name, fn in {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.divide,
        "fmod": np.fmod,
        "remainder": np.remainder,
        "abs": np.abs,
        "sign": np.sign,
        "square": np.square,
        "sqrt": np.sqrt,
        "exp": np.exp,
        "log": np.log,
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "tanh": np.tanh,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": np.rint,
        "trunc": np.trunc,
    }.items()
}


@rule("negative")
def _negative(e: Emitter, x: int) -> int:
    """Multiply: np.negative in place on columns of a matrix is wrong in NumPy 2.4."""
    return e.call(np.multiply, x, -1.0)


def _single(e: Emitter, value: int) -> float | None:
    """Return a constant of one element that is a number."""
    array = e.known(value)
    if array is None or array.size != 1 or np.isnan(array).any():
        return None
    return float(array.reshape(-1)[0])


@rule("maximum")
def _maximum(e: Emitter, a: int, b: int) -> int:
    for x, bound in ((a, b), (b, a)):
        low = _single(e, bound)
        if low is not None:
            return e.call(_clip, x, low, INF)
    return e.call(np.maximum, a, b)


@rule("minimum")
def _minimum(e: Emitter, a: int, b: int) -> int:
    for x, bound in ((a, b), (b, a)):
        high = _single(e, bound)
        if high is not None:
            return e.call(_clip, x, -INF, high)
    return e.call(np.minimum, a, b)


@rule("relu")
def _relu(e: Emitter, x: int) -> int:
    return e.call(_clip, x, 0.0, INF)


@rule("clamp")
def _clamp(e: Emitter, x: int, low: float, high: float) -> int:
    return e.call(_clip, x, low, high)


@rule("squared_difference")
def _squared_difference(e: Emitter, a: int, b: int) -> int:
    return e.call(np.square, e.call(np.subtract, a, b))


@rule("power")
def _power(e: Emitter, a: int, b: int) -> int:
    exponent = _single(e, b)
    if exponent == 1:
        return e.call(np.positive, a)
    if exponent == 2:
        return e.call(np.square, a)
    if exponent == 3:
        return e.call(np.multiply, e.call(np.square, a), a)
    return e.call(np.power, a, b)


@rule("prelu")
def _prelu(e: Emitter, x: int, slope: int) -> int:
    """Choose between x and its product with the slope, which maximum does for slopes in (0, 1]."""
    known = e.known(slope)
    if known is not None and known.size and (known > 0).all():
        # At 0 < slope an infinite x keeps its sign in the product, so that nothing becomes a NaN.
        if (known <= 1).all():
            return e.call(np.maximum, x, e.call(np.multiply, x, slope))
        if (known >= 1).all() and np.isfinite(known).all():
            return e.call(np.minimum, x, e.call(np.multiply, x, slope))
    low = e.call(np.multiply, e.call(_clip, x, -INF, 0.0), slope)
    return e.call(np.add, e.call(_clip, x, 0.0, INF), low)


@rule("leaky_relu")
def _leaky_relu(e: Emitter, x: int, slope: float) -> int:
    return _prelu(e, x, e.constant(slope))


@rule("sigmoid")
def _sigmoid(e: Emitter, x: int) -> int:
    power = e.call(np.exp, e.call(np.multiply, x, -1.0))
    return e.call(np.divide, 1.0, e.call(np.add, power, 1.0))


@rule("swish")
def _swish(e: Emitter, x: int, beta: float = 1.0) -> int:
    """Compute x / (1 + exp(-beta x)); -inf / inf is a NaN, as the product -inf * 0 is."""
    power = e.call(np.exp, e.call(np.multiply, x, -beta))
    return e.call(np.divide, x, e.call(np.add, power, 1.0))


@rule("hsigmoid")
def _hsigmoid(e: Emitter, x: int) -> int:
    return e.call(np.divide, e.call(_clip, e.call(np.add, x, 3.0), 0.0, 6.0), 6.0)


@rule("hswish")
def _hswish(e: Emitter, x: int) -> int:
    return e.call(np.multiply, x, _hsigmoid(e, x))


@rule("hard_sigmoid")
def _hard_sigmoid(e: Emitter, x: int, alpha: float, beta: float) -> int:
    return e.call(_clip, e.call(np.add, e.call(np.multiply, x, alpha), beta), 0.0, 1.0)


@rule("softsign")
def _softsign(e: Emitter, x: int) -> int:
    return e.call(np.divide, x, e.call(np.add, e.call(np.abs, x), 1.0))


def _expm1(e: Emitter, x: int) -> int:
    """exp(x) - 1 for x <= 0: 2t / (1 - t) with t = tanh(x / 2), in which nothing cancels."""
    if e.dtype != np.float32:
        return e.call(np.expm1, x)
    t = e.call(np.tanh, e.call(np.multiply, x, 0.5))
    return e.call(np.divide, e.call(np.add, t, t), e.call(np.subtract, 1.0, t))


@rule("elu")
def _elu(e: Emitter, x: int, alpha: float) -> int:
    low = e.call(np.multiply, _expm1(e, e.call(_clip, x, -INF, 0.0)), alpha)
    return e.call(np.add, e.call(_clip, x, 0.0, INF), low)


@rule("selu")
def _selu(e: Emitter, x: int, alpha: float, scale: float) -> int:
    return e.call(np.multiply, _elu(e, x, alpha), scale)


# log(1 + v) = 2 artanh(s), s = v / (2 + v) <= 1/3: the series to s^13 leaves 1.3e-8 of it.
_ARTANH = [2 / n for n in (13, 11, 9, 7, 5, 3, 1)]


def _log1p(e: Emitter, v: int) -> int:
    """log(1 + v) for 0 <= v <= 1."""
    if e.dtype != np.float32:
        return e.call(np.log1p, v)
    s = e.call(np.divide, v, e.call(np.add, v, 2.0))
    square = e.call(np.square, s)
    total = e.call(np.multiply, square, _ARTANH[0])
    for term in _ARTANH[1:-1]:
        total = e.call(np.multiply, e.call(np.add, total, term), square)
    return e.call(np.multiply, e.call(np.add, total, _ARTANH[-1]), s)


@rule("softplus")
def _softplus(e: Emitter, x: int) -> int:
    tail = _log1p(e, e.call(np.exp, e.call(np.multiply, e.call(np.abs, x), -1.0)))
    return e.call(np.add, e.call(_clip, x, 0.0, INF), tail)


@rule("mish")
def _mish(e: Emitter, x: int) -> int:
    """x * n / (n + 2) with v = exp(x), n = v (v + 2): the tangent in closed form.

    From 25 on the quotient is 1 in both types (n > 2 / epsilon), so v may stop growing there.
    """
    v = e.call(np.exp, e.call(_clip, x, -INF, 25.0))
    n = e.call(np.multiply, e.call(np.add, v, 2.0), v)
    return e.call(np.multiply, x, e.call(np.divide, n, e.call(np.add, n, 2.0)))


@rule("erf")
def _erf(e: Emitter, x: int) -> int:
    return e.call(erf, x)


@rule("gelu_erf")
def _gelu_erf(e: Emitter, x: int) -> int:
    part = e.call(erf, e.call(np.multiply, x, 0.5**0.5))
    half = e.call(np.multiply, e.call(np.add, part, 1.0), 0.5)
    return e.call(np.multiply, half, x)


@rule("gelu_tanh")
def _gelu_tanh(e: Emitter, x: int) -> int:
    """x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 x^3), x factored out."""
    factor = (2 / math.pi) ** 0.5
    inner = e.call(np.add, e.call(np.multiply, e.call(np.square, x), 0.044715 * factor), factor)
    half = e.call(np.add, e.call(np.tanh, e.call(np.multiply, inner, x)), 1.0)
    return e.call(np.multiply, e.call(np.multiply, half, 0.5), x)


@rule("round_half_away")
def _round_half_away(e: Emitter, x: int) -> int:
    """The integer part, and 1 of x's sign more where the rest is a half at least."""
    whole = e.call(np.trunc, x)
    rest = e.call(np.fmax, e.call(np.subtract, x, whole), -1.0)  # inf - inf is no rest
    return e.call(np.add, whole, e.call(np.trunc, e.call(np.add, rest, rest)))


@rule("fake_quantize")
def _fake_quantize(
    e: Emitter, x: int, low: int, high: int, scale: int, onto: int, first: int, levels: int
) -> int:
    """Quantize as ops.quantize does; `scale` is high - low, `onto` the output's extent."""
    inside = e.call(np.minimum, e.call(np.maximum, x, low), high)
    part = e.call(np.divide, e.call(np.subtract, inside, low), scale)
    step = e.call(np.rint, e.call(np.multiply, part, levels - 1.0))
    part = e.call(np.divide, step, levels - 1.0)
    return e.call(np.add, e.call(np.multiply, part, onto), first)


@rule("affine")
def _affine(e: Emitter, x: int, center: int, factor: int, offset: int) -> int:
    part = e.call(np.multiply, e.call(np.subtract, x, center), factor)
    return e.call(np.add, part, offset)


@rule("identity")
def _identity(e: Emitter, x: int) -> int:
    return e.call(np.positive, x)


@rule("narrow")
def _narrow(e: Emitter, x: int, name: str) -> int:
    """Round to a narrower element type; the values stay in the type that is computed with."""
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name, name))

    def through(values: Array, out: Array) -> None:
        np.copyto(out, values.astype(dtype))

    return e.call(through, x)
