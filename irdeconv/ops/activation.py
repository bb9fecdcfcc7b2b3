"""Element-wise operations of one tensor: arithmetic, activations, predicates.

Types below 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.dtypes import boolean
from irdeconv.errors import OpError
from irdeconv.kernels.shared.special import erf
from irdeconv.op import Op, attribute, op
from irdeconv.ops import ranges
from irdeconv.ops.checks import Types, one_type, want_rank, want_type
from irdeconv.ops.elementwise import quiet
from irdeconv.spec import Array, Spec, format_shape, merge

UnaryFunction = Callable[[Array], Array]


def wide(fn: Callable[..., Array]) -> Callable[..., Array]:
    """Compute f16, bf16 and f8 in float32 and integers in float64; round to nearest once."""

    def computed(x: Array, *args: Any) -> Array:
        dtype = x.dtype
        with np.errstate(all="ignore"):
            if dtype in (np.float32, np.float64):
                return fn(x, *args)
            if dtype.kind in "iu":
                return np.rint(fn(x.astype(np.float64), *args)).astype(dtype)
            return fn(x.astype(np.float32), *args).astype(dtype)

    return computed


@dataclass(frozen=True)
class Unary(Op):
    """Base of operations on each element by itself; the shape stays."""

    fn: ClassVar[Callable[..., Array]]
    accepts: ClassVar[Types] = "number"
    gives_boolean: ClassVar[bool] = False
    scalar: ClassVar[Callable[[Any], Any] | None] = None

    def infer(self, data: Spec) -> Spec:
        want_type(data, self.accepts, 0, "data")
        return Spec(boolean if self.gives_boolean else data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        if data.dtype == object:
            scalar = type(self).scalar
            if scalar is None:
                raise TypeError(f"{self.type} of partly known values")
            return ranges.each(scalar, data)
        return type(self).fn(data)


def unary(
    name: str,
    fn: UnaryFunction,
    doc: str,
    *,
    since: int = 1,
    accepts: Types = "number",
    scalar: Callable[[Any], Any] | None = None,
) -> type[Unary]:
    """Register an element-wise operation of one tensor."""
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "fn": staticmethod(fn),
        "accepts": accepts,
        "gives_boolean": accepts == "boolean",
        "partial": scalar is not None,
        "scalar": None if scalar is None else staticmethod(scalar),
    }
    return op(name, since=since)(type(name, (Unary,), body))


def _row(what: str, section: str, types: str = "any numbers") -> str:
    return f"{what}, {types}; same shape and type.  [{section}]"


def _function(name: str, fn: UnaryFunction, what: str, since: int = 1) -> type[Unary]:
    return unary(name, wide(fn), _row(what, f"arithmetic/{name}-{since}"), since=since)


def _activation(name: str, fn: UnaryFunction, what: str, since: int = 1) -> type[Unary]:
    doc = _row(what, f"activation/{name}-{since}", "floating-point")
    return unary(name, wide(fn), doc, since=since, accepts="real")


def sigmoid(x: Array) -> Any:
    """Return 1 / (1 + exp(-x)); exp may overflow to infinity, which gives the right 0."""
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Any:
    return _relu(x) + np.log1p(np.exp(-np.abs(x)))


def _hsigmoid(x: Array) -> Any:
    return np.clip(x + 3, 0, 6) / 6


def _relu(x: Array) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _integral(fn: UnaryFunction) -> UnaryFunction:
    """Leave integers as they are."""
    real = wide(fn)

    def rounded(x: Array) -> Array:
        return x if x.dtype.kind in "iu" else real(x)

    return rounded


Abs = unary("Abs", np.abs, _row("Absolute value", "arithmetic/Abs-1"))
Negative = unary(
    "Negative",
    np.negative,
    _row("-x", "arithmetic/Negative-1"),
    scalar=lambda v: ranges.subtract(0, v),
)
Sign = unary("Sign", wide(np.sign), _row("-1, 0 or 1", "arithmetic/Sign-1"))
Floor = unary(
    "Floor",
    _integral(np.floor),
    _row("Largest integer not above x", "arithmetic/Floor-1"),
    scalar=ranges.floor,
)
Ceiling = unary(
    "Ceiling",
    _integral(np.ceil),
    _row("Smallest integer not below x", "arithmetic/Ceiling-1"),
    scalar=ranges.ceiling,
)
Sqrt = _function("Sqrt", np.sqrt, "Square root")
Exp = unary("Exp", wide(np.exp), _row("e to the power x", "activation/Exp-1"))
Log = unary("Log", wide(np.log), _row("Natural logarithm", "arithmetic/Log-1"))
Sin = _function("Sin", np.sin, "Sine of x in radians")
Cos = _function("Cos", np.cos, "Cosine of x in radians")
Tan = _function("Tan", np.tan, "Tangent of x in radians")
Asin = _function("Asin", np.arcsin, "Inverse sine")
Acos = _function("Acos", np.arccos, "Inverse cosine")
Atan = _function("Atan", np.arctan, "Inverse tangent")
Sinh = _function("Sinh", np.sinh, "Hyperbolic sine")
Cosh = _function("Cosh", np.cosh, "Hyperbolic cosine")
Asinh = _function("Asinh", np.arcsinh, "Inverse hyperbolic sine", since=4)
Acosh = _function("Acosh", np.arccosh, "Inverse hyperbolic cosine", since=4)
Atanh = _function("Atanh", np.arctanh, "Inverse hyperbolic tangent", since=4)
Tanh = _function("Tanh", np.tanh, "Hyperbolic tangent")
Erf = _function("Erf", erf, "Error function")
Sigmoid = unary("Sigmoid", wide(sigmoid), _row("1 / (1 + exp(-x))", "activation/Sigmoid-1"))
ReLU = unary(
    "ReLU",
    _relu,
    _row("max(0, x)", "activation/ReLU-1"),
    scalar=lambda v: ranges.maximum(v, 0),
)
SoftPlus = _activation("SoftPlus", _softplus, "ln(exp(x) + 1)", since=4)
Mish = _activation("Mish", lambda x: x * np.tanh(_softplus(x)), "x * tanh(SoftPlus(x))", since=4)
HSwish = _activation("HSwish", lambda x: x * _hsigmoid(x), "x * min(ReLU(x + 3), 6) / 6", since=4)
HSigmoid = _activation("HSigmoid", _hsigmoid, "min(ReLU(x + 3), 6) / 6", since=5)
SoftSign = _activation("SoftSign", lambda x: x / (1 + np.abs(x)), "x / (1 + |x|)", since=9)
LogicalNot = unary(
    "LogicalNot",
    np.logical_not,
    _row("Not x", "logical/LogicalNot-1", "boolean"),
    accepts="boolean",
)


@op("BitwiseNot", since=13)
class BitwiseNot(Unary):
    """Every bit inverted, integers or boolean; same shape and type.  [bitwise/BitwiseNot-13]"""

    fn: ClassVar[Callable[..., Array]] = staticmethod(np.invert)
    accepts: ClassVar[Types] = "bits"


@op("Elu")
class Elu(Unary):
    """x where x >= 0, else alpha * (exp(x) - 1), floating-point.  [activation/Elu-1]"""

    accepts: ClassVar[Types] = "real"
    alpha: float = attribute(0.0, documented=True)

    def evaluate(self, data: Array) -> Array:
        return wide(self._compute)(data)

    def _compute(self, x: Array) -> Any:
        return _relu(x) + x.dtype.type(self.alpha) * np.expm1(np.minimum(x, 0))


@op("Clamp")
class Clamp(Unary):
    """min(max(x, `min`), `max`), any numbers.  [activation/Clamp-1]

    Integers: bounds are rounded inwards (2.5..3.5 keeps only 3).
    """

    min: float = attribute(0.0, documented=True)
    max: float = attribute(0.0, documented=True)

    def evaluate(self, data: Array) -> Array:
        if data.dtype.kind not in "iu":
            low, high = data.dtype.type(self.min), data.dtype.type(self.max)
            return np.clip(data, low, high).astype(data.dtype, copy=False)  # bf16 becomes f32
        info = np.iinfo(data.dtype)
        least = info.min if self.min <= info.min else int(np.ceil(self.min))
        most = info.max if self.max >= info.max else int(np.floor(self.max))
        return np.clip(data, least, most)


def _gelu_erf(x: Array) -> Any:
    return x * (1 + erf(x * x.dtype.type(0.5**0.5))) / 2


def _gelu_tanh(x: Array) -> Any:
    return x * (1 + np.tanh(x.dtype.type((2 / np.pi) ** 0.5) * (x + 0.044715 * x * x * x))) / 2


@op("Gelu", since=2, until=6)
class Gelu2(Unary):
    """x * (1 + erf(x / sqrt(2))) / 2, floating-point.  [activation/Gelu-2]"""

    fn: ClassVar[Callable[..., Array]] = staticmethod(wide(_gelu_erf))
    accepts: ClassVar[Types] = "real"


@op("Gelu", since=7)
class Gelu(Unary):
    """x * Phi(x) by the error function or its tanh approximation.  [activation/Gelu-7]"""

    accepts: ClassVar[Types] = "real"
    approximation_mode: Literal["ERF", "TANH"] = attribute("ERF", documented=True)

    def evaluate(self, data: Array) -> Array:
        return wide(_gelu_erf if self.approximation_mode == "ERF" else _gelu_tanh)(data)


def _half_away(x: Array) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


@op("Round", since=5)
class Round(Unary):
    """Nearest integer; halves to the even one or away from zero.  [arithmetic/Round-5]"""

    mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even"

    def evaluate(self, data: Array) -> Array:
        return _integral(np.rint if self.mode == "half_to_even" else _half_away)(data)


@op("IsInf", since=10)
class IsInf(Unary):
    """Whether x is infinite, of the signs that are asked for; boolean.  [comparison/IsInf-10]"""

    accepts: ClassVar[Types] = "real"
    gives_boolean: ClassVar[bool] = True
    detect_negative: bool = True
    detect_positive: bool = True

    def evaluate(self, data: Array) -> Array:
        found = np.isinf(data)
        if not self.detect_negative:
            found &= data > 0
        if not self.detect_positive:
            found &= data < 0
        return found


def _predicate(name: str, fn: UnaryFunction, what: str) -> type[Unary]:
    body = {
        "__doc__": f"Whether x is {what}, floating-point; boolean.  [comparison/{name}-10]",
        "__module__": __name__,
        "fn": staticmethod(fn),
        "accepts": "real",
        "gives_boolean": True,
    }
    return op(name, since=10)(type(name, (Unary,), body))


IsNaN = _predicate("IsNaN", np.isnan, "not a number")
IsFinite = _predicate("IsFinite", np.isfinite, "finite")


@op("Swish", since=4)
class Swish(Op):
    """x * sigmoid(beta * x); beta: a scalar, 1 by default.  [activation/Swish-4]"""

    def infer(self, data: Spec, beta: Spec | None = None) -> Spec:
        want_type(data, "real", 0, "data")
        if beta is not None:
            one_type(data, beta, names=("data", "beta"))
            want_rank(beta.shape, 0, 0, 1, "beta")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, beta: Array | None = None) -> Array:
        factor = 1.0 if beta is None else float(beta.reshape(-1)[0])
        return wide(lambda x: x * sigmoid(x * x.dtype.type(factor)))(data)


@op("PReLU", aliases=("PRelu",))
class PReLU(Op):
    """x where x >= 0, else x * slope, one floating-point type.

    A slope of one axis whose size is the data's axis 1 runs along that axis, one of a single value
    fits any data; any other broadcasts as NumPy does, without widening the data.
    [activation/PReLU-1]
    """

    def infer(self, data: Spec, slope: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        dtype = one_type(data, slope, names=("data", "slope"))
        if data.shape is not None and slope.shape is not None:
            self._check(data.shape, slope.shape)
        return Spec(dtype, data.shape)

    def _check(self, data: tuple[Any, ...], slope: tuple[Any, ...]) -> None:
        along_channels = len(slope) == 1 and len(data) > 1 and merge(data[1], slope[0]) is not None
        if along_channels or all(merge(1, s) is not None for s in slope):
            return
        pairs = zip(reversed(data), reversed(slope), strict=False)
        if len(slope) > len(data) or any(
            merge(d, s) is None and merge(1, s) is None for d, s in pairs
        ):
            raise OpError(
                f"slope {format_shape(slope)} does not fit data {format_shape(data)}: it must "
                "have one value for each channel (axis 1) or broadcast to the data",
                code="E302",
                port=1,
            )

    def evaluate(self, data: Array, slope: Array) -> Array:
        if slope.ndim == 1 and data.ndim > 1 and slope.shape[0] == data.shape[1]:
            slope = slope.reshape(-1, *(1,) * (data.ndim - 2))
        elif slope.size == 1:
            slope = slope.reshape(())
        # Two clipped terms are several times as fast as a selection by sign.
        zero = data.dtype.type(0)
        return quiet(np.add)(np.maximum(data, zero), np.minimum(data, zero) * slope)


@op("HardSigmoid")
class HardSigmoid(Op):
    """max(0, min(1, alpha * x + beta)); alpha, beta: scalars.  [activation/HardSigmoid-1]"""

    def infer(self, data: Spec, alpha: Spec, beta: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        dtype = one_type(data, alpha, beta, names=("data", "alpha", "beta"))
        for port, s, name in ((1, alpha, "alpha"), (2, beta, "beta")):
            want_rank(s.shape, 0, 0, port, name)
        return Spec(dtype, data.shape)

    def evaluate(self, data: Array, alpha: Array, beta: Array) -> Array:
        return wide(_linear)(data, alpha.astype(np.float64), beta.astype(np.float64))


def _linear(x: Array, alpha: Array, beta: Array) -> Any:
    return np.clip(x.dtype.type(alpha) * x + x.dtype.type(beta), 0, 1)


@op("Selu")
class Selu(Op):
    """lambda * (x where x > 0, else alpha * (exp(x) - 1)); alpha, lambda of one element.

    [activation/Selu-1]
    """

    def infer(self, data: Spec, alpha: Spec, lambda_: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        dtype = one_type(data, alpha, lambda_, names=("data", "alpha", "lambda"))
        return Spec(dtype, data.shape)

    def evaluate(self, data: Array, alpha: Array, lambda_: Array) -> Array:
        a, scale = float(alpha.reshape(-1)[0]), float(lambda_.reshape(-1)[0])
        return wide(lambda x: scale * (_relu(x) + a * np.expm1(np.minimum(x, 0))))(data)
