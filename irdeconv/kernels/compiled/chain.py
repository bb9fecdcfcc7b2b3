"""Bias, residual and activation of f32 rows in one pass, compiled.

Import it only where jit.available(). exp is a polynomial (two units in the last place) that
becomes vector instructions. The results may differ from those of chain_steps by the last bits;
below exp(-87.3) exp is 0. All work in place with x the memory's content: with two arrays that may
be one nothing becomes a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irdeconv.kernels.compiled.bits import adjacent, bits_to_float
from irdeconv.kernels.shared.jit import compiled, compiled_for
from irdeconv.spec import Array

PIECE = 2048  # elements; a piece of a row stays in the level 1 cache

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
def _activate(into: Any, b: Any, s: Any, low: Any, high: Any, code: int) -> None:
    """Apply an activation to x + b in place; `s` is the slope of a PReLU, `low` beta of a Swish."""
    if code == 0:
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b, low, high)
    elif code == 1:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * s if v < _ZERO else v + _ZERO * s
    elif code == 2:
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b + _THREE, _ZERO, _SIX) / _SIX
    elif code == 3:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * (_clamp(v + _THREE, _ZERO, _SIX) / _SIX)
    elif code == 4:
        for i in range(len(into)):
            into[i] = _sigmoid(into[i] + b)
    elif code == 5:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v / (_ONE + _exp(-low * v))
    elif code == 6:
        for i in range(len(into)):
            into[i] = _clamp((into[i] + b) * low + high, _ZERO, _ONE)
    else:
        for i in range(len(into)):
            into[i] += b


@compiled
def _add(into: Any, b: Any, more: Any) -> None:
    for i in range(len(into)):
        into[i] = into[i] + b + more[i]


_MATRIX, _VECTOR = "float32[:,:]", "float32[::1]"


@compiled_for(
    f"void({_MATRIX}, {_VECTOR}, {_VECTOR}, {_MATRIX}, {_MATRIX}, float32, float32, int64)"
)
def finish_rows(
    out: Any, bias: Any, slope: Any, before: Any, after: Any, low: Any, high: Any, code: int
) -> None:
    """Compute act(x + bias + before) + after in place; elements of a row are neighbours.

    What has a single row is the same for all rows, what has none is left out.
    """
    rows, width = out.shape
    for r in range(rows):
        row = adjacent(out[r])
        s = slope[r if len(slope) > 1 else 0]
        for at in range(0, width, PIECE):
            part = row[at : at + PIECE]
            b = bias[r if len(bias) > 1 else 0]
            if len(before):
                _add(part, b, adjacent(before[r if len(before) > 1 else 0])[at : at + PIECE])
                b = _ZERO
            if code < 7 or not len(before):
                _activate(part, b, s, low, high, code)
            if len(after):
                _add(part, _ZERO, adjacent(after[r if len(after) > 1 else 0])[at : at + PIECE])


_NONE = np.zeros((0, 0), _F)
CODES = {
    "relu": 0,
    "clamp": 0,
    "prelu": 1,
    "leaky_relu": 1,
    "hsigmoid": 2,
    "hswish": 3,
    "sigmoid": 4,
    "swish": 5,
    "hard_sigmoid": 6,
    "nothing": 7,
}


@dataclass(frozen=True)
class Given:
    """The registers of tensors that are added, 0 for none."""

    before: int = 0
    after: int = 0


class Fused:
    """A chain of a constant that is added (or none), a tensor, an activation, a tensor.

    `bias` and `slope` are constants of any shape; `fits` says whether they vary by channel alone.
    """

    def __init__(
        self, name: str, bias: Array, slope: Array, params: Sequence[float], given: Given
    ) -> None:
        self._code, self.given = CODES[name], given
        self._shapes = bias.shape, slope.shape
        self._bias, self._slope = (np.array(a, _F).reshape(-1) for a in (bias, slope))
        low, high = {"relu": (0.0, np.inf), "swish": (*params, 1.0)[:1] * 2}.get(
            name, (*params, 0.0, 0.0)[:2]
        )
        self._low, self._high = _F(low), _F(high)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the constants are scalars or vary along axis 1 of an output `[N, M, *O]`."""
        along = [(1,) * (len(shape) - len(s)) + s for s in self._shapes if math.prod(s) > 1]
        return all(len(s) == len(shape) and s[1] == math.prod(s) == shape[1] for s in along)

    @property
    def scalar(self) -> bool:
        """Whether nothing varies by channel, and no tensor is added."""
        return self._bias.size == self._slope.size == 1 and self.given == Given()

    def __call__(
        self, out: Array, channels: slice, before: Array = _NONE, after: Array = _NONE
    ) -> None:
        """Finish `out [channels, positions]`, f32 and each row contiguous, in place.

        `before` and `after` are the tensors to add, each `[channels or 1, positions]`.
        """
        self.fixed(out, channels, before, after)()

    def fixed(
        self, out: Array, channels: slice, before: Array = _NONE, after: Array = _NONE
    ) -> Callable[[], None]:
        """Return what a call would do, to be done often."""
        bias, slope = (a[channels] if a.size > 1 else a for a in (self._bias, self._slope))
        constants = self._low, self._high, self._code
        return partial(finish_rows, out, bias, slope, before, after, *constants)


class _Reading:
    """Reads steps from the main tensor on."""

    def __init__(self, steps: Sequence[Any], operands: Sequence[Array | None]) -> None:
        self.steps, self.operands, self.at = steps, operands, 0

    @property
    def value(self) -> int:
        """The register of what was computed last."""
        return self.at and len(self.operands) + self.at

    def constant(self, register: int) -> Array | None:
        """Return a register's constant."""
        return self.operands[register - 1] if 0 < register <= len(self.operands) else None

    def added(self, constant: bool) -> int:
        """Go over an addition of a constant or of a tensor; return its register, 0 for none."""
        if self.at == len(self.steps) or self.steps[self.at].name != "add":
            return 0
        others = [a for a in self.steps[self.at].args if a != self.value]
        if len(others) != 1 or not 0 < others[0] <= len(self.operands):
            return 0
        if (self.constant(others[0]) is not None) != constant:
            return 0
        self.at += 1
        return int(others[0])

    def activation(self) -> Any:
        """Go over an activation; None for none."""
        if self.at == len(self.steps):
            return None
        step = self.steps[self.at]
        if step.name not in CODES or step.args[0] != self.value:
            return None
        if step.name == "prelu" and self.constant(step.args[1]) is None:
            return None
        self.at += 1
        return step


def fused(steps: Sequence[Any], operands: Sequence[Array | None]) -> Fused | None:
    """Return the compiled form of the steps of a chain; None where they are no such chain."""
    reading = _Reading(steps, operands)
    constant = reading.constant(reading.added(True))
    nothing: Array = np.zeros(1, _F)
    bias = nothing if constant is None else constant
    before = reading.added(False)
    last = reading.activation()
    after = reading.added(False)
    if reading.at < len(steps) or not steps:
        return None
    used = {s for s in (before, after) if s}
    if used != {i for i, a in enumerate(operands, 1) if a is None}:
        return None
    if last is None:
        return Fused("nothing", bias, nothing, (), Given(before, after))
    slope = reading.constant(last.args[1]) if last.name == "prelu" else None
    if last.name == "leaky_relu":
        slope = np.array(last.params[:1], _F)
    slope = nothing if slope is None else slope
    return Fused(last.name, bias, slope, last.params, Given(before, after))
