"""Rules of element-wise operations: the calls of each, as few as the accuracy allows.

What is one ufunc of NumPy needs no rule: the ufunc is one.

A pass over a tile in cache costs 0.08 ns per element (add, multiply), 0.11 (divide, clip), about 1
(exp, tanh, log on AVX2; 0.4 on AVX-512). `np.maximum` with a scalar costs 0.4, so `clip` stands in
for it. Not used in f32: expm1 and log1p, which are 12 ns where NumPy has no vector loop for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irdeconv.kernels.elementwise.calls import Emitter
from irdeconv.kernels.shared import special
from irdeconv.spec import Array

INF = math.inf

# np.clip checks its arguments for a microsecond before it comes to this loop.
clip_loop: Any = getattr(getattr(np, "_core", np), "umath", np).clip


def clip(x: Array, low: Any, high: Any, out: Array) -> None:
    """Limit to low..high (arrays of the type of `x`, for speed)."""
    clip_loop(x, low, high, out)


def negative(e: Emitter, x: int) -> int:
    """Multiply: np.negative in place on columns of a matrix is wrong in NumPy 2.4."""
    return e.call(np.multiply, x, -1.0)


def _single(e: Emitter, value: int) -> float | None:
    """Return a constant of one element that is a number."""
    array = e.known(value)
    if array is None or array.size != 1 or np.isnan(array).any():
        return None
    return float(array.reshape(-1)[0])


def maximum(e: Emitter, a: int, b: int) -> int:
    """The larger one, a NaN where either is."""
    for x, bound in ((a, b), (b, a)):
        low = _single(e, bound)
        if low is not None:
            return e.call(clip_loop, x, low, INF)
    return e.call(np.maximum, a, b)


def minimum(e: Emitter, a: int, b: int) -> int:
    """The smaller one, a NaN where either is."""
    for x, bound in ((a, b), (b, a)):
        high = _single(e, bound)
        if high is not None:
            return e.call(clip_loop, x, -INF, high)
    return e.call(np.minimum, a, b)


def relu(e: Emitter, x: int) -> int:
    """max(x, 0)."""
    return e.call(clip_loop, x, 0.0, INF)


def clamp(e: Emitter, x: int, low: float, high: float) -> int:
    """min(max(x, low), high)."""
    return e.call(clip_loop, x, low, high)


def squared_difference(e: Emitter, a: int, b: int) -> int:
    """(a - b)^2."""
    return e.call(np.square, e.call(np.subtract, a, b))


def power(e: Emitter, a: int, b: int) -> int:
    """a^b, as products for small exponents."""
    exponent = _single(e, b)
    if exponent == 1:
        return e.call(np.positive, a)
    if exponent == 2:
        return e.call(np.square, a)
    if exponent == 3:
        return e.call(np.multiply, e.call(np.square, a), a)
    return e.call(np.power, a, b)


def prelu(e: Emitter, x: int, slope: int) -> int:
    """Choose between x and its product with the slope, which maximum does for slopes in (0, 1]."""
    known = e.known(slope)
    if known is not None and known.size and (known > 0).all():
        # At 0 < slope an infinite x keeps its sign in the product, so that nothing becomes a NaN.
        if (known <= 1).all():
            return e.call(np.maximum, x, e.call(np.multiply, x, slope))
        if (known >= 1).all() and np.isfinite(known).all():
            return e.call(np.minimum, x, e.call(np.multiply, x, slope))
    low = e.call(np.multiply, e.call(clip_loop, x, -INF, 0.0), slope)
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), low)


def sigmoid(e: Emitter, x: int) -> int:
    """1 / (1 + exp(-x))."""
    power = e.call(np.exp, e.call(np.multiply, x, -1.0))
    return e.call(np.divide, 1.0, e.call(np.add, power, 1.0))


def swish(e: Emitter, x: int, beta: float) -> int:
    """Compute x / (1 + exp(-beta x)); -inf / inf is a NaN, as the product -inf * 0 is."""
    power = e.call(np.exp, e.call(np.multiply, x, -beta))
    return e.call(np.divide, x, e.call(np.add, power, 1.0))


def hsigmoid(e: Emitter, x: int) -> int:
    """min(max(x + 3, 0), 6) / 6."""
    return e.call(np.divide, e.call(clip_loop, e.call(np.add, x, 3.0), 0.0, 6.0), 6.0)


def hswish(e: Emitter, x: int) -> int:
    """x * hsigmoid(x)."""
    return e.call(np.multiply, x, hsigmoid(e, x))


def hard_sigmoid(e: Emitter, x: int, alpha: float, beta: float) -> int:
    """min(max(alpha * x + beta, 0), 1)."""
    return e.call(clip_loop, e.call(np.add, e.call(np.multiply, x, alpha), beta), 0.0, 1.0)


def softsign(e: Emitter, x: int) -> int:
    """x / (1 + |x|)."""
    return e.call(np.divide, x, e.call(np.add, e.call(np.abs, x), 1.0))


def _expm1(e: Emitter, x: int) -> int:
    """exp(x) - 1 for x <= 0: 2t / (1 - t) with t = tanh(x / 2), in which nothing cancels."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(np.expm1, x)
    t = e.call(np.tanh, e.call(np.multiply, x, 0.5))
    return e.call(np.divide, e.call(np.add, t, t), e.call(np.subtract, 1.0, t))


def elu(e: Emitter, x: int, alpha: float) -> int:
    """x, below 0 alpha * (exp(x) - 1)."""
    low = e.call(np.multiply, _expm1(e, e.call(clip_loop, x, -INF, 0.0)), alpha)
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), low)


def selu(e: Emitter, x: int, alpha: float, scale: float) -> int:
    """elu(x, alpha) * scale."""
    return e.call(np.multiply, elu(e, x, alpha), scale)


# log(1 + v) = 2 artanh(s), s = v / (2 + v) <= 1/3: the series to s^13 leaves 1.3e-8 of it.
_ARTANH = [2 / n for n in (13, 11, 9, 7, 5, 3, 1)]


def _log1p(e: Emitter, v: int) -> int:
    """log(1 + v) for 0 <= v <= 1."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(np.log1p, v)
    s = e.call(np.divide, v, e.call(np.add, v, 2.0))
    square = e.call(np.square, s)
    total = e.call(np.multiply, square, _ARTANH[0])
    for term in _ARTANH[1:-1]:
        total = e.call(np.multiply, e.call(np.add, total, term), square)
    return e.call(np.multiply, e.call(np.add, total, _ARTANH[-1]), s)


def softplus(e: Emitter, x: int) -> int:
    """log(1 + exp(x))."""
    tail = _log1p(e, e.call(np.exp, e.call(np.multiply, e.call(np.abs, x), -1.0)))
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), tail)


def mish(e: Emitter, x: int) -> int:
    """x * n / (n + 2) with v = exp(x), n = v (v + 2): the tangent in closed form.

    From 25 on the quotient is 1 in both types (n > 2 / epsilon), so v may stop growing there.
    """
    v = e.call(np.exp, e.call(clip_loop, x, -INF, 25.0))
    n = e.call(np.multiply, e.call(np.add, v, 2.0), v)
    return e.call(np.multiply, x, e.call(np.divide, n, e.call(np.add, n, 2.0)))


def erf(e: Emitter, x: int) -> int:
    """The error function; in f32 the roundings of the quotient's steps add up to 7 u at most."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(special.erf, x)
    v = e.call(clip_loop, x, -special.ERF_END, special.ERF_END)
    square = e.call(np.square, v)
    over = e.call(np.multiply, square, special.ERF_P[0])
    for term in special.ERF_P[1:-1]:
        over = e.call(np.multiply, e.call(np.add, over, term), square)
    over = e.call(np.multiply, e.call(np.add, over, special.ERF_P[-1]), v)
    under = e.call(np.add, square, special.ERF_Q[0])
    for term in special.ERF_Q[1:]:
        under = e.call(np.add, e.call(np.multiply, under, square), term)
    return e.call(clip_loop, e.call(np.divide, over, under), -1.0, 1.0)


def gelu_erf(e: Emitter, x: int) -> int:
    """x * (1 + erf(x / sqrt(2))) / 2."""
    part = erf(e, e.call(np.multiply, x, 0.5**0.5))
    half = e.call(np.multiply, e.call(np.add, part, 1.0), 0.5)
    return e.call(np.multiply, half, x)


def gelu_tanh(e: Emitter, x: int) -> int:
    """x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 x^3), x factored out."""
    factor = (2 / math.pi) ** 0.5
    inner = e.call(np.add, e.call(np.multiply, e.call(np.square, x), 0.044715 * factor), factor)
    half = e.call(np.add, e.call(np.tanh, e.call(np.multiply, inner, x)), 1.0)
    return e.call(np.multiply, e.call(np.multiply, half, 0.5), x)


def round_half_away(e: Emitter, x: int) -> int:
    """The integer part, and 1 of x's sign more where the rest is a half at least."""
    whole = e.call(np.trunc, x)
    rest = e.call(np.fmax, e.call(np.subtract, x, whole), -1.0)  # inf - inf is no rest
    return e.call(np.add, whole, e.call(np.trunc, e.call(np.add, rest, rest)))


def fake_quantize(
    e: Emitter, x: int, low: int, high: int, scale: int, onto: int, first: int, levels: int
) -> int:
    """Quantize as ops.quantize does; `scale` is high - low, `onto` the output's extent."""
    inside = e.call(np.minimum, e.call(np.maximum, x, low), high)
    part = e.call(np.divide, e.call(np.subtract, inside, low), scale)
    step = e.call(np.rint, e.call(np.multiply, part, levels - 1.0))
    part = e.call(np.divide, step, levels - 1.0)
    return e.call(np.add, e.call(np.multiply, part, onto), first)


def affine(e: Emitter, x: int, center: int, factor: int, offset: int) -> int:
    """(x - center) * factor + offset."""
    part = e.call(np.multiply, e.call(np.subtract, x, center), factor)
    return e.call(np.add, part, offset)


def narrow(e: Emitter, x: int, dtype: np.dtype[Any]) -> int:
    """Round to a narrower element type; the values stay in the type that is computed with."""

    def through(values: Array, out: Array) -> None:
        np.copyto(out, values.astype(dtype))

    return e.call(through, x)
