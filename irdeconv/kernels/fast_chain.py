"""Bias and activation of f32 rows in one pass, compiled. Import it only where jit.available().

exp is a polynomial (two units in the last place) that becomes vector instructions. The
results may differ from those of chain_steps by the last bits; below exp(-87.3) exp is 0. All work
in place with x the memory's content: with two arrays that may be one nothing becomes a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.kernels.bits import bits_to_float
from irdeconv.kernels.jit import compiled
from irdeconv.spec import Array

Kernel = Callable[[Array, Array, Array, Any, Any], None]

_F = np.float32
_LOG2E, _LN2_HIGH, _LN2_LOW = _F(1.44269504), _F(0.693359375), _F(-2.12194440e-4)
_E0, _E1, _E2 = _F(1.9875691500e-4), _F(1.3981999507e-3), _F(8.3334519073e-3)
_E3, _E4, _E5 = _F(4.1665795894e-2), _F(1.6666665459e-1), _F(5.0000001201e-1)
_TOP, _BOTTOM, _INF = _F(88.3762), _F(-87.3), _F(np.inf)
_ZERO, _HALF, _ONE, _THREE, _SIX = (_F(v) for v in (0, 0.5, 1, 3, 6))


@compiled
def _exp(x: Any) -> Any:
    """2^n * p(r) with x = n ln 2 + r."""
    inside = min(max(x, _BOTTOM), _TOP) if x == x else _ZERO
    n = np.floor(inside * _LOG2E + _HALF)
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    y = (p * r * r + r + _ONE) * bits_to_float((np.int32(n) + np.int32(127)) << np.int32(23))
    y = _INF if x > _TOP else y
    y = _ZERO if x < _BOTTOM else y
    return y if x == x else x


@compiled
def _sigmoid(x: Any) -> Any:
    return _ONE / (_ONE + _exp(-x))


@compiled
def _clamp(x: Any, low: Any, high: Any) -> Any:
    """Limit as two selections of which neither takes a NaN for a bound."""
    x = low if x < low else x
    return high if x > high else x


@compiled
def clamp_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute min(max(x + bias, low), high)."""
    for r in range(len(out)):
        b, into = bias[r], out[r]
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b, low, high)


@compiled
def prelu_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute max(v, 0) + min(v, 0) * slope with v = x + bias."""
    for r in range(len(out)):
        b, s, into = bias[r], slope[r], out[r]
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * s if v < _ZERO else v + _ZERO * s


@compiled
def hsigmoid_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute min(max(v + 3, 0), 6) / 6 with v = x + bias."""
    for r in range(len(out)):
        b, into = bias[r], out[r]
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b + _THREE, _ZERO, _SIX) / _SIX


@compiled
def hswish_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute v * min(max(v + 3, 0), 6) / 6 with v = x + bias."""
    for r in range(len(out)):
        b, into = bias[r], out[r]
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * (_clamp(v + _THREE, _ZERO, _SIX) / _SIX)


@compiled
def sigmoid_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute 1 / (1 + exp(-x - bias))."""
    for r in range(len(out)):
        b, into = bias[r], out[r]
        for i in range(len(into)):
            into[i] = _sigmoid(into[i] + b)


@compiled
def swish_rows(out: Array, bias: Array, slope: Array, low: Any, high: Any) -> None:
    """Compute v / (1 + exp(-low * v)) with v = x + bias; `low` is beta."""
    for r in range(len(out)):
        b, into = bias[r], out[r]
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v / (_ONE + _exp(-low * v))


KERNELS: dict[str, Kernel] = {
    "clamp": clamp_rows,
    "hsigmoid": hsigmoid_rows,
    "hswish": hswish_rows,
    "leaky_relu": prelu_rows,
    "prelu": prelu_rows,
    "relu": clamp_rows,
    "sigmoid": sigmoid_rows,
    "swish": swish_rows,
}


class Fused:
    """A chain of an addition of a constant (or none) and an activation.

    `bias` and `slope` are constants of any shape; `fits` says whether they vary by channel alone.
    """

    def __init__(self, name: str, bias: Array, slope: Array, params: Sequence[float]) -> None:
        self._kernel = KERNELS[name]
        self._given = bias, slope
        self._bias, self._slope = (np.ascontiguousarray(a, _F).reshape(-1) for a in (bias, slope))
        low, high = {"relu": (0.0, np.inf), "swish": (*params, 1.0)[:1] * 2}.get(
            name, (*params, 0.0, 0.0)[:2]
        )
        self._low, self._high = _F(low), _F(high)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the constants are scalars or vary along axis 1 of an output `[N, M, *O]`."""
        along = [(1,) * (len(shape) - a.ndim) + a.shape for a in self._given if a.size > 1]
        return all(len(s) == len(shape) and s[1] == math.prod(s) == shape[1] for s in along)

    @property
    def scalar(self) -> bool:
        """Whether nothing varies by channel."""
        return self._bias.size == self._slope.size == 1

    def __call__(self, out: Array, channels: slice) -> None:
        """Finish `out [channels, positions]`, C-contiguous f32, in place."""
        bias, slope = (
            a[channels] if a.size > 1 else np.repeat(a, len(out)) for a in (self._bias, self._slope)
        )
        self._kernel(out, bias, slope, self._low, self._high)


def fused(steps: Sequence[Any], operands: Sequence[Array | None]) -> Fused | None:
    """Return the compiled form of `kernels.chain.Step`s; None where they are no such chain."""
    known = [a for a in operands if a is not None]
    if not 0 < len(steps) < 3 or len(known) < len(operands) or steps[-1].name not in KERNELS:
        return None
    *before, last = steps
    bias = slope = np.zeros(1, _F)
    if before:
        (add,) = before
        if add.name != "add" or add.args[0] != 0 or not 0 < add.args[1] <= len(known):
            return None
        bias = known[add.args[1] - 1]
    if last.args[0] != (len(known) + 1 if before else 0):
        return None
    if last.name == "prelu":
        if not 0 < last.args[1] <= len(known):
            return None
        slope = known[last.args[1] - 1]
    elif last.name == "leaky_relu":
        slope = np.array(last.params[:1], _F)
    return Fused(last.name, bias, slope, last.params)
