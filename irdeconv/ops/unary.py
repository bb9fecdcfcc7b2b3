"""Element-wise operations of one tensor: their bases, arithmetic, predicates.

Types below 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.dtypes import boolean
from irdeconv.kernels.elementwise import calls, steps
from irdeconv.kernels.elementwise.calls import Rule
from irdeconv.kernels.elementwise.integers import rounded, saturated
from irdeconv.op import Op, op
from irdeconv.ops import ranges
from irdeconv.ops.checks import Types, want_type
from irdeconv.spec import Array, Spec
from irdeconv.traits import (
    COMPOSITE,
    FUNCTION,
    JUMPS,
    KEEPS,
    ChainStep,
    Operand,
    Rounding,
    roundings,
)

Scalar = Callable[[Any], Any]  # what an operation makes of a partly known value


def wide(fn: Callable[..., Array], *, clips: bool = False) -> Callable[..., Array]:
    """Compute all but f64 in float32 and round once; `clips`: see kernels.elementwise.integers."""

    def computed(x: Array, *args: Any) -> Array:
        dtype = x.dtype
        with np.errstate(all="ignore"):
            if dtype in (np.float32, np.float64):
                return fn(x, *args)
            out = fn(x.astype(np.float32), *args)
            return rounded(out, dtype, clips=clips) if dtype.kind in "iu" else out.astype(dtype)

    return computed


def compute(rule: Rule, x: Array, *params: Any, clips: bool = False) -> Array:
    """Compute what a rule says of a tensor."""
    return wide(lambda real: calls.evaluate(rule, (real,), params), clips=clips)(x)


@dataclass(frozen=True)
class Unary(Op):
    """Base of operations on each element by itself; the shape stays."""

    accepts: ClassVar[Types] = "number"
    gives_boolean: ClassVar[bool] = False
    scalar: ClassVar[Scalar | None] = None

    def infer(self, data: Spec) -> Spec:
        want_type(data, self.accepts, 0, "data")
        return Spec(boolean if self.gives_boolean else data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        if data.dtype == object:
            scalar = type(self).scalar
            if scalar is None:
                raise TypeError(f"{self.type} of partly known values")
            return ranges.each(scalar, data)
        return self.compute(data)

    def compute(self, data: Array) -> Array:
        """Compute the elements."""
        raise NotImplementedError


@dataclass(frozen=True)
class UnaryFunction(Unary):
    """Base of functions of a number; the type stays.

    `rule` says what is computed, evaluated alone as in a chain. Of integers it is computed in
    float32 and rounded (`clips` says how what has no integer is), unless `integers` computes them.
    """

    rule: ClassVar[Rule]
    clips: ClassVar[bool] = False
    integers: ClassVar[Callable[[Array], Array] | None] = None

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        """Return the rule and its parameters."""
        return type(self).rule, ()

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep:
        rule, params = self.formula()
        return ChainStep(rule, (Operand(0),), params)

    def compute(self, data: Array) -> Array:
        integers = type(self).integers
        if integers is not None and data.dtype.kind in "iu":
            return integers(data)
        rule, params = self.formula()
        return compute(rule, data, *params, clips=type(self).clips)


@dataclass(frozen=True)
class UnaryTest(Unary):
    """Base of what looks at truth values, bits or kinds of numbers: one ufunc."""

    rounding = JUMPS
    ufunc: ClassVar[np.ufunc]

    def compute(self, data: Array) -> Array:
        return np.asarray(type(self).ufunc(data))


def unary(
    name: str,
    rule: Rule,
    doc: str,
    *,
    rounding: Rounding,
    since: int = 1,
    accepts: Types = "number",
    integers: Callable[[Array], Array] | None = None,
    scalar: Scalar | None = None,
    clips: bool = False,
) -> type[UnaryFunction]:
    """Register a function of each element.

    `rule` is a ufunc or one of kernels.elementwise.steps; `rounding` how `compare` judges it.
    """
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "rule": rule,
        "rounding": rounding,
        "accepts": accepts,
        "integers": integers,
        "partial": scalar is not None,
        "scalar": scalar,
        "clips": clips,
    }
    return op(name, since=since)(type(name, (UnaryFunction,), body))


def row(what: str, section: str, types: str = "any numbers") -> str:
    """Return the docstring of a function of each element."""
    return f"{what}, {types}; same shape and type.  [{section}]"


def _function(
    name: str,
    rule: Rule,
    what: str,
    since: int = 1,
    rounding: Rounding = FUNCTION,
    *,
    clips: bool = False,
) -> type[UnaryFunction]:
    doc = row(what, f"arithmetic/{name}-{since}")
    return unary(name, rule, doc, since=since, rounding=rounding, clips=clips)


def _same(x: Array) -> Array:
    return x


def _saturating(fn: np.ufunc) -> Callable[[Array], Array]:
    """Compute integers exactly; 8-bit ones saturate, so that -(-128) is 127."""
    return lambda x: saturated(fn(x.astype(np.int64)), x.dtype)


Abs = unary(
    "Abs",
    np.abs,
    row("Absolute value", "arithmetic/Abs-1"),
    rounding=KEEPS,
    integers=lambda x: x if x.dtype.kind == "u" else _saturating(np.abs)(x),
)
Negative = unary(
    "Negative",
    steps.negative,
    row("-x", "arithmetic/Negative-1"),
    rounding=KEEPS,
    integers=_saturating(np.negative),
    scalar=lambda v: ranges.subtract(0, v),
)
Sign = _function("Sign", np.sign, "-1, 0 or 1", rounding=JUMPS)
Floor = unary(
    "Floor",
    np.floor,
    row("Largest integer not above x", "arithmetic/Floor-1"),
    rounding=JUMPS,
    integers=_same,
    scalar=ranges.floor,
)
Ceiling = unary(
    "Ceiling",
    np.ceil,
    row("Smallest integer not below x", "arithmetic/Ceiling-1"),
    rounding=JUMPS,
    integers=_same,
    scalar=ranges.ceiling,
)
Sqrt = _function("Sqrt", np.sqrt, "Square root", rounding=roundings(2))
Exp = unary("Exp", np.exp, row("e to the power x", "activation/Exp-1"), rounding=FUNCTION)
Log = _function("Log", np.log, "Natural logarithm")
Sin = _function("Sin", np.sin, "Sine of x in radians")
Cos = _function("Cos", np.cos, "Cosine of x in radians")
Tan = _function("Tan", np.tan, "Tangent of x in radians")
Asin = _function("Asin", np.arcsin, "Inverse sine", clips=True)
Acos = _function("Acos", np.arccos, "Inverse cosine", clips=True)
Atan = _function("Atan", np.arctan, "Inverse tangent")
Sinh = _function("Sinh", np.sinh, "Hyperbolic sine", clips=True)
Cosh = _function("Cosh", np.cosh, "Hyperbolic cosine", clips=True)
Asinh = _function("Asinh", np.arcsinh, "Inverse hyperbolic sine", since=4)
Acosh = _function("Acosh", np.arccosh, "Inverse hyperbolic cosine", since=4, clips=True)
Atanh = _function("Atanh", np.arctanh, "Inverse hyperbolic tangent", since=4, clips=True)
Tanh = _function("Tanh", np.tanh, "Hyperbolic tangent")
# Runtimes take polynomials that are equally far off everywhere: OpenVINO's 9.2 u at -0.05.
Erf = _function("Erf", steps.erf, "Error function", rounding=replace(COMPOSITE, count=2))


@op("Round", since=5)
class Round(UnaryFunction):
    """Nearest integer; halves to the even one or away from zero.  [arithmetic/Round-5]"""

    rounding = JUMPS
    integers = _same
    mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even"

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        return np.rint if self.mode == "half_to_even" else steps.round_half_away, ()


@op("LogicalNot")
class LogicalNot(UnaryTest):
    """Not x, boolean; same shape and type.  [logical/LogicalNot-1]"""

    accepts: ClassVar[Types] = "boolean"
    gives_boolean: ClassVar[bool] = True
    ufunc = np.logical_not


@op("BitwiseNot", since=13)
class BitwiseNot(UnaryTest):
    """Every bit inverted, integers or boolean; same shape and type.  [bitwise/BitwiseNot-13]"""

    accepts: ClassVar[Types] = "bits"
    ufunc = np.invert


@op("IsNaN", since=10)
class IsNaN(UnaryTest):
    """Whether x is not a number, floating-point; boolean.  [comparison/IsNaN-10]"""

    accepts: ClassVar[Types] = "real"
    gives_boolean: ClassVar[bool] = True
    ufunc = np.isnan


@op("IsFinite", since=10)
class IsFinite(UnaryTest):
    """Whether x is finite, floating-point; boolean.  [comparison/IsFinite-10]"""

    accepts: ClassVar[Types] = "real"
    gives_boolean: ClassVar[bool] = True
    ufunc = np.isfinite


@op("IsInf", since=10)
class IsInf(UnaryTest):
    """Whether x is infinite, of the signs that are asked for; boolean.  [comparison/IsInf-10]"""

    accepts: ClassVar[Types] = "real"
    gives_boolean: ClassVar[bool] = True
    detect_negative: bool = True
    detect_positive: bool = True

    def compute(self, data: Array) -> Array:
        infinite = np.isinf(data)
        if not self.detect_negative:
            infinite &= data > 0
        if not self.detect_positive:
            infinite &= data < 0
        return infinite
