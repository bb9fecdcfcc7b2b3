"""Activations, some with parameters that are inputs, SoftMax and LogSoftmax.

Types below 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_problem, size_error
from irdeconv.ir.op import (
    COMPOSITE,
    KEEPS,
    MOVES,
    Bound,
    ChainStep,
    Op,
    Operand,
    Rounding,
    attribute,
    op,
    roundings,
)
from irdeconv.ir.ports import Fit, axis_of
from irdeconv.ir.spec import Array, Shape, Spec, broadcasts_into, format_shape, is_static, merge
from irdeconv.kernels import elementwise, reductions
from irdeconv.kernels.elementwise import Rule
from irdeconv.ops import ranges
from irdeconv.ops.checks import is_computed, known, shape_of, widest
from irdeconv.ops.elementwise import UnaryFunction, compute, quiet, unary, wide

_activation = partial(unary, group="activation", rounding=COMPOSITE)

Sigmoid = _activation("Sigmoid", elementwise.sigmoid, "1 / (1 + exp(-x))")
ReLU = _activation(
    "ReLU",
    elementwise.relu,
    "max(0, x)",
    rounding=MOVES,
    integers=lambda x: np.maximum(x, x.dtype.type(0)),
    scalar=lambda v: ranges.maximum(v, 0),
)
SoftPlus = _activation("SoftPlus", elementwise.softplus, "ln(exp(x) + 1)", 4, accepts="real")
Mish = _activation("Mish", elementwise.mish, "x * tanh(SoftPlus(x))", 4, accepts="real")
HSwish = _activation("HSwish", elementwise.hswish, "x * min(ReLU(x + 3), 6) / 6", 4)
HSigmoid = _activation("HSigmoid", elementwise.hsigmoid, "min(ReLU(x + 3), 6) / 6", 5)
SoftSign = _activation("SoftSign", elementwise.softsign, "x / (1 + |x|)", 9, accepts="real")


@op("Elu")
class Elu(UnaryFunction):
    """x if x >= 0, else alpha * (exp(x) - 1), any numbers.  [activation/Elu-1]"""

    rounding = COMPOSITE
    alpha: float = attribute(0.0, documented=True)

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        return elementwise.elu, (self.alpha,)


@op("Clamp")
class Clamp(UnaryFunction):
    """min(max(x, `min`), `max`), any numbers.  [activation/Clamp-1]

    Integers: bounds are rounded inwards (2.5..3.5 keeps only 3).
    """

    rounding = KEEPS
    min: float = attribute(0.0, documented=True)
    max: float = attribute(0.0, documented=True)

    def check(self) -> Iterator[Problem]:
        if not self.min <= self.max:  # nor is a NaN
            message = f"min is {self.min:g} and max {self.max:g}; min must not be above max"
            yield attribute_problem("min", message)

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        return elementwise.clamp, (self.min, self.max)

    def compute(self, data: Array) -> Array:
        if data.dtype.kind not in "iu":
            return super().compute(data)
        info = np.iinfo(data.dtype)
        low, high = (min(max(v, info.min), info.max) for v in (self.min, self.max))
        return np.clip(data, int(np.ceil(low)), int(np.floor(high)))

    def fold(self, data: Array) -> Array:
        return self.evaluate(data)


@op("Gelu", since=2, until=6)
class Gelu2(UnaryFunction):
    """x * (1 + erf(x / sqrt(2))) / 2, floating-point.  [activation/Gelu-2]"""

    rounding = COMPOSITE
    signature = "data: real t [*I] -> t [*I]"
    rule: ClassVar[Rule] = elementwise.gelu_erf


@op("Gelu", since=7)
class Gelu(Gelu2):
    """x * Phi(x) by the error function or its tanh approximation.  [activation/Gelu-7]"""

    approximation_mode: Literal["ERF", "TANH"] = attribute("ERF", documented=True)

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        erf = self.approximation_mode == "ERF"
        return elementwise.gelu_erf if erf else elementwise.gelu_tanh, ()


class _Parametric(Op):
    """Base of functions whose parameters are inputs of one element; `absent`: without them."""

    rounding = COMPOSITE
    rule: ClassVar[Rule]
    absent: ClassVar[tuple[float, ...]] = ()

    def evaluate(self, data: Array, *parameters: Array) -> Array:
        return compute(type(self).rule, data, *self._numbers(parameters))

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        values = known(inputs[1:])
        if values is None or any(v.size != 1 for v in values):
            return None
        return ChainStep(type(self).rule, (Operand(0),), self._numbers(values))

    def _numbers(self, parameters: Sequence[Array]) -> tuple[float, ...]:
        return tuple(float(p.reshape(-1)[0]) for p in parameters) or self.absent


@op("Swish", since=4)
class Swish(_Parametric):
    """x * sigmoid(beta * x); beta: a scalar, 1 by default.  [activation/Swish-4]"""

    rule: ClassVar[Rule] = elementwise.swish
    absent = (1.0,)
    signature = "data: real t [*I]; beta?: t [] -> t [*I]"


@op("PReLU", aliases=("PRelu",))
class PReLU(Op):
    """x if x >= 0, else x * slope; the data's type.

    Any numbers, or floating-point data and slope of two types, computed in the wider one. A slope
    of one axis whose size is the data's axis 1 runs along that axis, one of a single value fits any
    data; any other broadcasts as NumPy does, without widening the data.
    [activation/PReLU-1]
    """

    rounding = roundings(1, "slope")
    signature = "data: number t [*I]; slope: number -> t [*I]"

    def complete(self, at: Fit, data: Spec, slope: Spec) -> None:
        a, b = data.dtype, slope.dtype
        at.types.setdefault("t", b)
        if a is not None and b is not None and a != b and not (a.is_real and b.is_real):
            text = f"data is {a} and slope is {b}; both must have one element type or be real"
            raise OpError(text, code="E303", port=1)
        if data.shape is not None and slope.shape is not None:
            self._check(data.shape, slope.shape)

    def _check(self, data: Shape, slope: Shape) -> None:
        along_channels = len(slope) == 1 and len(data) > 1 and merge(data[1], slope[0]) is not None
        if along_channels or all(merge(1, s) is not None for s in slope):
            return
        if not broadcasts_into(slope, data):
            text = f"slope {format_shape(slope)} does not fit data {format_shape(data)}: it must "
            text += "have one value for each channel (axis 1) or broadcast to the data"
            raise size_error(1, text)

    def evaluate(self, data: Array, slope: Array) -> Array:
        self._check(data.shape, slope.shape)
        if slope.ndim == 1 and data.ndim > 1 and slope.shape[0] == data.shape[1]:
            slope = slope.reshape(-1, *(1,) * (data.ndim - 2))
        elif slope.size == 1:
            slope = slope.reshape(())
        if data.dtype != slope.dtype:
            return self.evaluate(*widest(data, slope)).astype(data.dtype)
        # Two clipped terms are several times as fast as a selection by sign.
        zero = data.dtype.type(0)
        return quiet(np.add)(np.maximum(data, zero), np.minimum(data, zero) * slope)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        data, slope = inputs[0].shape, inputs[1].shape
        if not is_static(data) or not is_static(slope):
            return None
        by_channel = len(slope) == 1 and len(data) > 1 and slope[0] == data[1]
        seen = (slope[0], *(1,) * (len(data) - 2)) if by_channel else None
        return ChainStep(elementwise.prelu, (Operand(0), Operand(1, seen)))


@op("HardSigmoid")
class HardSigmoid(_Parametric):
    """max(0, min(1, alpha * x + beta)), any numbers of one type; alpha, beta: scalars.

    [activation/HardSigmoid-1]
    """

    rule: ClassVar[Rule] = elementwise.hard_sigmoid
    signature = "data: number t [*I]; alpha: t []; beta: t [] -> t [*I]"


@op("Selu")
class Selu(_Parametric):
    """lambda * (x if x > 0, else alpha * (exp(x) - 1)); alpha, lambda of one element.

    [activation/Selu-1]
    """

    rule: ClassVar[Rule] = elementwise.selu

    signature = "data: real t [*I]; alpha: t; lambda_: t -> t [*I]"

    def complete(self, at: Fit, data: Spec, *numbers: Spec) -> None:
        for port, (s, name) in enumerate(zip(numbers, ("alpha", "lambda"), strict=True), 1):
            if s.size not in (None, 1):
                raise size_error(port, f"{name} has {s.size} values; it must have one")


def softmax(x: Array, axis: int) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis, shifted so that nothing overflows."""
    e = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Any:
    """Return the logarithm of the softmax along an axis."""
    shifted = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))


@op("SoftMax", since=8, aliases=("Softmax",))
class SoftMax(Op):
    """exp(x) / sum of exp along `axis` (may be negative).  [activation/SoftMax-8]"""

    rounding = Rounding("softmax")
    signature = "data: real t [*I] -> t [*I]"
    axis: int = 1

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        axis_of(self.axis, len(shape), attribute="axis")

    def evaluate(self, data: Array) -> Array:
        return wide(softmax)(data, self.axis)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(inputs[0]):
            return None
        shape = shape_of(inputs[0])
        at = axis_of(self.axis, len(shape))
        block = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
        return Bound(reductions.Softmax(block, self.rounding.rule == "log_softmax"))

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[0].shape[self.axis]) if inputs[0].ndim else 1


@op("SoftMax", until=7, aliases=("Softmax",))
class SoftMax1(SoftMax):
    """exp(x) / sum of exp along `axis` (not negative), floating-point.

    Absent, it is 0 in the runtime, 1 in the specification.  [activation/SoftMax-1]
    """

    axis: int = 0

    def check(self) -> Iterator[Problem]:
        if self.axis < 0:
            message = f"axis is {self.axis}; it must not be negative before opset8"
            yield attribute_problem("axis", message)


@op("LogSoftmax", since=5)
class LogSoftmax(SoftMax):
    """x - log(sum of exp) along `axis`, floating-point.  [activation/LogSoftmax-5]"""

    rounding = Rounding("log_softmax")

    def evaluate(self, data: Array) -> Array:
        return wide(log_softmax)(data, self.axis)
