"""Element-wise operations of one, two and three tensors: arithmetic, comparison, logic, Select.

Every operation is a row: its name, function and accepted types. The attribute `auto_broadcast` is
the rule of broadcasting: `numpy`, `none` (equal shapes), `pdpd` (the second into the first axes of
the first). Types below 32 bits are computed in float32 and rounded once.

Below them FakeQuantize and FakeConvert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import floordiv
from typing import Annotated, Any, ClassVar, Literal

import ml_dtypes
import numpy as np

from irdeconv.base.errors import size_error
from irdeconv.ir.attributes import ValueRange
from irdeconv.ir.dtypes import ELEMENT_TYPES, boolean
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.op import (
    COMPOSITE,
    FUNCTION,
    JUMPS,
    KEEPS,
    LAST_OPSET,
    LEVELS,
    MOVES,
    REMAINDER,
    STEPS,
    Bound,
    ChainStep,
    Op,
    Operand,
    Rounding,
    attribute,
    op,
    roundings,
)
from irdeconv.ir.ports import Fit, Types
from irdeconv.ir.spec import (
    Array,
    Interval,
    Spec,
    broadcasts_into,
    compatible,
    format_shape,
    is_static,
)
from irdeconv.kernels import elementwise
from irdeconv.kernels.candidate import type_of_sums
from irdeconv.kernels.elementwise import Rule, cut, rounded, saturated
from irdeconv.ops import checks, ranges

BinaryFunction = Callable[[Array, Array], Array]


def quiet(fn: Callable[..., Array]) -> Callable[..., Array]:
    """Let a function overflow and divide by zero without warnings, as IEEE arithmetic does."""

    def silent(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            return fn(*args)

    return silent


@dataclass(frozen=True)
class Binary(Op):
    """Base of operations on two tensors of one element type.

    `fn` computes any element type as it is; a ufunc writes into given memory. `rule` computes
    floating-point numbers in a chain, if the operation may be a step of one.
    """

    partial: ClassVar[bool] = True
    fn: ClassVar[BinaryFunction]
    rule: ClassVar[Rule | None] = None
    scalar: ClassVar[Callable[[Any, Any], Any] | None] = None
    signature = "a: number t; b: t -> t [*O]"

    auto_broadcast: checks.AutoBroadcast = "numpy"

    def complete(self, at: Fit, a: Spec, b: Spec) -> None:
        at.groups["O"] = checks.broadcast_shapes(a.shape, b.shape, self.auto_broadcast)

    def evaluate(self, a: Array, b: Array) -> Array:
        b = checks.aligned(b, a.ndim, self.auto_broadcast)
        if a.dtype == object or b.dtype == object:
            return self.estimate(a, b)
        return quiet(type(self).fn)(a, b)

    def estimate(self, a: Array, b: Array) -> Array:
        """Compute on partly known values; TypeError if the operation cannot."""
        scalar = type(self).scalar
        if scalar is None:
            raise TypeError(f"{self.type} of partly known values")
        return ranges.each(scalar, a, b)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        rule = type(self).rule
        if rule is None or self.auto_broadcast != "pdpd":
            return None if rule is None else ChainStep(rule, (Operand(0), Operand(1)))
        a, b = inputs[0].shape, inputs[1].shape
        if not is_static(a) or not is_static(b):
            return None
        return ChainStep(rule, (Operand(0), Operand(1, checks.aligned_shape(b, len(a)))))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Comparisons, logic, bits and integer arithmetic; floats are steps of chains."""
        ufunc, dtype = type(self).fn, inputs[0].dtype
        if dtype is None or dtype.kind == "string" or not isinstance(ufunc, np.ufunc):
            return None
        if outputs[0].dtype != boolean and (dtype.is_real or dtype.is_packed):
            return None
        mode = self.auto_broadcast
        return Bound(lambda a, b, out, team: ufunc(a, checks.aligned(b, a.ndim, mode), out=out))


def binary(
    name: str,
    fn: BinaryFunction,
    what: str,
    rounding: Rounding = JUMPS,
    *,
    group: str,
    section: str = "",
    since: int = 1,
    until: int = LAST_OPSET,
    accepts: Types = "number",
    gives: str = "t",
    **members: Any,
) -> type[Binary]:
    """Register an element-wise operation of two tensors; `group` and `section` are the document's.

    In chains numbers are computed by `rule`, by default `fn`, if that is a ufunc; `rounding` is how
    `compare` judges it. `members` are class variables that differ from the base's.
    """
    types = f"{_TYPES[accepts]}; {'the same type' if gives == 't' else gives}"
    body = {
        "__doc__": f"{what} (a, b broadcast), {types}.  [{group}/{section or name}-{since}]",
        "__module__": __name__,
        "fn": fn,
        "rule": fn if accepts == "number" and gives == "t" and isinstance(fn, np.ufunc) else None,
        "rounding": rounding,
        "signature": f"a: {accepts} t; b: t -> {gives} [*O]",
        **members,
    }
    return op(name, since=since, until=until)(type(name, (Binary,), body))


_TYPES = {
    "any": "one type",
    "number": "any numbers of one type",
    "boolean": "boolean",
    "bits": "integers of one type or boolean",
    "integer": "integers of one type",
}


def _power(a: Array, b: Array) -> Array:
    """Return a ** b; integers of 8 bits saturate, negative exponents give truncated results."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    if a.dtype.itemsize == 1 or (b.size and b.min() < 0):
        return cut(np.power(a.astype(np.float64), b), a.dtype)
    return np.power(a, b)


def _by_zero(out: Array, b: Array) -> Array:
    """Return integers with each quotient by 0 replaced by -2**31, cut to their type."""
    return np.where(b == 0, cut(np.array(-np.inf), out.dtype), out)


def _remainder(ufunc: np.ufunc) -> BinaryFunction:
    """Return a remainder; that of integers by 0 equals their quotient by 0."""

    def remainder(a: Array, b: Array) -> Array:
        out = np.asarray(ufunc(a, b))
        return _by_zero(out, b) if out.dtype.kind in "iu" else out

    return remainder


_numeric = partial(binary, group="arithmetic")
_compare = partial(binary, group="comparison", accepts="any", gives="boolean")
_logical = partial(binary, group="logical", accepts="boolean")
_bitwise = partial(binary, group="bitwise", since=13, accepts="bits")
_shift = partial(binary, group="bitwise", since=15, accepts="integer")

Add = _numeric("Add", np.add, "a + b", roundings(1, "adds"), scalar=ranges.add)
Subtract = _numeric("Subtract", np.subtract, "a - b", roundings(1, "adds"), scalar=ranges.subtract)
Multiply = _numeric(
    "Multiply", np.multiply, "a * b", roundings(1, "products"), scalar=ranges.multiply
)
Maximum = _numeric(
    "Maximum", np.maximum, "Larger one", MOVES, rule=elementwise.maximum, scalar=ranges.maximum
)
_SMALLER = Rounding("exact", carry="larger")
Minimum = _numeric(
    "Minimum", np.minimum, "Smaller one", _SMALLER, rule=elementwise.minimum, scalar=ranges.minimum
)
Power = _numeric("Power", _power, "a to the power b", FUNCTION, rule=elementwise.power)
Mod = _numeric("Mod", _remainder(np.fmod), "Remainder of a / b, sign of a", REMAINDER, rule=np.fmod)
FloorMod = _numeric(
    "FloorMod",
    _remainder(np.remainder),
    "Remainder of a / b, sign of b",
    REMAINDER,
    rule=np.remainder,
    scalar=ranges.floor_modulo,
)
SquaredDifference = _numeric(
    "SquaredDifference",
    lambda a, b: elementwise.evaluate(elementwise.squared_difference, (a, b)),
    "(a - b) squared",
    roundings(3),
    rule=elementwise.squared_difference,
)


@op("Divide")
class Divide(Binary):
    """a / b (a, b broadcast), numbers of one type; the same type.  [arithmetic/Divide-1]

    Integers: the document rounds down with `m_pythondiv`, else towards zero. So does OpenVINO if it
    folds constants of more than 8 bits. Its runtime always rounds towards zero, which models
    converted from ONNX rely on; so does `semantics` "runtime". By zero: -2**31 as the type has it,
    the lowest in 8 bits.
    """

    fn: ClassVar[BinaryFunction] = np.divide
    rule: ClassVar[Rule | None] = np.divide
    rounding = roundings(3, "quotient")

    m_pythondiv: bool = True
    semantics: Semantics = attribute("runtime", internal=True)

    @property
    def rounds_down(self) -> bool:
        """Whether integer quotients below zero are rounded down instead of towards zero."""
        return self.m_pythondiv and self.semantics == "document"

    def fold(self, a: Array, b: Array) -> Array:
        folds = a.dtype.kind in "iu" and a.dtype.itemsize > 1 and b.dtype != object
        return replace(self, semantics="document").evaluate(a, b) if folds else self.evaluate(a, b)

    def evaluate(self, a: Array, b: Array) -> Array:
        b = checks.aligned(b, a.ndim, self.auto_broadcast)
        if a.dtype == object or b.dtype == object:
            return self.estimate(a, b)
        with np.errstate(all="ignore"):
            if a.dtype.kind not in "iu":
                return np.divide(a, b)
            out: Array = np.floor_divide(a, b)
            if not self.rounds_down:
                out = np.add(out, (out < 0) & (out * b != a), dtype=a.dtype)
            return _by_zero(out, b)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Integers are rounded, which no single ufunc does."""
        return None

    def estimate(self, a: Array, b: Array) -> Array:
        real = ranges.holds_real(a, b)
        if real or real is None:
            return ranges.each(ranges.divide_real, a, b)
        return ranges.each(floordiv if self.rounds_down else ranges.divide_truncate, a, b)


Equal = _compare("Equal", np.equal, "a == b", scalar=ranges.equal)
NotEqual = _compare("NotEqual", np.not_equal, "a != b", scalar=lambda a, b: not ranges.equal(a, b))
Less = _compare("Less", np.less, "a < b", scalar=ranges.less)
LessEqual = _compare(
    "LessEqual", np.less_equal, "a <= b", scalar=lambda a, b: not ranges.less(b, a)
)
Greater = _compare("Greater", np.greater, "a > b", scalar=lambda a, b: ranges.less(b, a))
GreaterEqual = _compare(
    "GreaterEqual", np.greater_equal, "a >= b", scalar=lambda a, b: not ranges.less(a, b)
)


LogicalAnd = _logical("LogicalAnd", np.logical_and, "a and b")
LogicalOr = _logical("LogicalOr", np.logical_or, "a or b")
LogicalXor = _logical("LogicalXor", np.logical_xor, "Exactly one of a, b")
Xor = _logical(
    "Xor", np.logical_xor, "Exactly one of a, b, an older name", until=1, section="LogicalXor"
)


BitwiseAnd = _bitwise("BitwiseAnd", np.bitwise_and, "Bits set in a and b")
BitwiseOr = _bitwise("BitwiseOr", np.bitwise_or, "Bits set in a or b")
BitwiseXor = _bitwise("BitwiseXor", np.bitwise_xor, "Bits set in exactly one of a, b")
BitwiseLeftShift = _shift(
    "BitwiseLeftShift", np.left_shift, "a * 2^b, high bits lost, all of them if b is out of range"
)
BitwiseRightShift = _shift(
    "BitwiseRightShift",
    np.right_shift,
    "a / 2^b rounded down, as by many bits if b is out of range",
)


@op("Select")
class Select(Op):
    """Choose elements of `then` if `cond` is true, else of `otherwise` (broadcast to one shape).

    cond: boolean; then, otherwise: one type. `pdpd` broadcasts into `then`.
    [condition/Select-1]
    """

    partial: ClassVar[bool] = True
    rounding = MOVES
    signature = "cond: boolean; then: any t; otherwise: t -> t [*O]"
    auto_broadcast: checks.AutoBroadcast = "numpy"

    def complete(self, at: Fit, cond: Spec, then: Spec, otherwise: Spec) -> None:
        rule = self.auto_broadcast
        shape = checks.broadcast_shapes(then.shape, otherwise.shape, rule, port=2)
        pair = (shape, cond.shape) if rule == "pdpd" else (cond.shape, shape)
        at.groups["O"] = checks.broadcast_shapes(*pair, rule, port=0)

    def evaluate(self, cond: Array, then: Array, otherwise: Array) -> Array:
        if any(isinstance(v, Interval) for v in cond.flat if cond.dtype == object):
            raise TypeError("Select with an unknown condition")
        cond, otherwise = self._aligned(then.ndim, cond, otherwise)
        return np.where(cond.astype(bool), then, otherwise)

    def _aligned(self, rank: int, *arrays: Array) -> list[Array]:
        return [checks.aligned(array, rank, self.auto_broadcast) for array in arrays]

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        def call(cond: Array, then: Array, otherwise: Array, out: Array, team: Any) -> None:
            cond, otherwise = self._aligned(then.ndim, cond, otherwise)
            np.copyto(out, otherwise)
            np.copyto(out, then, where=cond)

        return Bound(call)


Scalar = Callable[[Any], Any]  # an operation on a partly known value


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
    """Compute a rule on a tensor."""
    return wide(lambda real: elementwise.evaluate(rule, (real,), params), clips=clips)(x)


@dataclass(frozen=True)
class Unary(Op):
    """Base of operations on each element by itself; the shape stays."""

    signature = "data: number t [*I] -> t [*I]"
    scalar: ClassVar[Scalar | None] = None

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

    `rule` is the formula, alone and in a chain. For integers it is computed in float32 and rounded
    (`clips` decides about numbers without an integer), unless `integers` computes them. OpenVINO
    folds some functions of integer constants by cutting (`cuts`), the others by rounding.
    """

    rule: ClassVar[Rule]
    group: ClassVar[str] = ""  # the document's, if `unary` has made the class
    clips: ClassVar[bool] = False
    cuts: ClassVar[bool] = False
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

    def fold(self, data: Array) -> Array:
        """Compute constants; integers of more than 8 bits are not clipped."""
        if data.dtype.kind not in "iu" or data.dtype.itemsize == 1 or type(self).integers:
            return self.evaluate(data)
        rule, params = self.formula()
        with np.errstate(all="ignore"):
            wide = elementwise.evaluate(rule, (data.astype(np.float64),), params)
        return cut(wide if type(self).cuts else np.rint(wide), data.dtype)


@dataclass(frozen=True)
class UnaryTest(Unary):
    """Base of tests of truth values, bits or kinds of numbers: one ufunc."""

    rounding = JUMPS
    ufunc: ClassVar[np.ufunc]

    def compute(self, data: Array) -> Array:
        return np.asarray(type(self).ufunc(data))


def unary(
    name: str,
    rule: Rule,
    what: str,
    since: int = 1,
    *,
    rounding: Rounding = FUNCTION,
    group: str = "arithmetic",
    accepts: Types = "number",
    **members: Any,
) -> type[UnaryFunction]:
    """Register a function of each element; `group` is the document's.

    `rule` is a ufunc or one of kernels.elementwise; `rounding` how `compare` judges it. `members`
    are class variables that differ from the base's.
    """
    types = "floating-point" if accepts == "real" else "any numbers"
    body = {
        "__doc__": _row(what, f"{group}/{name}-{since}", types),
        "__module__": __name__,
        "rule": rule,
        "group": group,
        "rounding": rounding,
        "signature": f"data: {accepts} t [*I] -> t [*I]",
        "partial": "scalar" in members,
        **members,
    }
    return op(name, since=since)(type(name, (UnaryFunction,), body))


def _row(what: str, section: str, types: str) -> str:
    """Return the docstring of a function of each element."""
    return f"{what}, {types}; same shape and type.  [{section}]"


def _same(x: Array) -> Array:
    return x


def _saturating(fn: np.ufunc) -> Callable[[Array], Array]:
    """Compute integers exactly; 8-bit ones saturate, so that -(-128) is 127."""
    return lambda x: saturated(fn(x.astype(np.int64)), x.dtype)


Abs = unary(
    "Abs",
    np.abs,
    "Absolute value",
    rounding=KEEPS,
    integers=lambda x: x if x.dtype.kind == "u" else _saturating(np.abs)(x),
)
Negative = unary(
    "Negative",
    elementwise.negative,
    "-x",
    rounding=KEEPS,
    integers=_saturating(np.negative),
    scalar=lambda v: ranges.subtract(0, v),
)
Sign = unary("Sign", np.sign, "-1, 0 or 1", rounding=STEPS)
_whole = partial(unary, rounding=STEPS, integers=_same)
Floor = _whole("Floor", np.floor, "Largest integer not above x", scalar=ranges.floor)
Ceiling = _whole("Ceiling", np.ceil, "Smallest integer not below x", scalar=ranges.ceiling)
Sqrt = unary("Sqrt", np.sqrt, "Square root", rounding=roundings(2))
Exp = unary("Exp", np.exp, "e to the power x", cuts=True, group="activation")
Log = unary("Log", np.log, "Natural logarithm", cuts=True)
Sin = unary("Sin", np.sin, "Sine of x in radians", cuts=True)
Cos = unary("Cos", np.cos, "Cosine of x in radians")
Tan = unary("Tan", np.tan, "Tangent of x in radians")
Asin = unary("Asin", np.arcsin, "Inverse sine", cuts=True, clips=True)
Acos = unary("Acos", np.arccos, "Inverse cosine", clips=True)
Atan = unary("Atan", np.arctan, "Inverse tangent")
Sinh = unary("Sinh", np.sinh, "Hyperbolic sine", clips=True)
Cosh = unary("Cosh", np.cosh, "Hyperbolic cosine", clips=True)
Asinh = unary("Asinh", np.arcsinh, "Inverse hyperbolic sine", since=4)
Acosh = unary("Acosh", np.arccosh, "Inverse hyperbolic cosine", since=4, clips=True)
Atanh = unary("Atanh", np.arctanh, "Inverse hyperbolic tangent", cuts=True, since=4, clips=True)
Tanh = unary("Tanh", np.tanh, "Hyperbolic tangent")
# Runtimes take polynomials that are equally far off everywhere: OpenVINO's 9.2 u at -0.05.
Erf = unary("Erf", elementwise.erf, "Error function", rounding=replace(COMPOSITE, count=2))


@op("Round", since=5)
class Round(UnaryFunction):
    """Nearest integer; halves to the even one or away from zero.  [arithmetic/Round-5]"""

    rounding = STEPS
    integers = _same
    mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even"

    def formula(self) -> tuple[Rule, tuple[Any, ...]]:
        return np.rint if self.mode == "half_to_even" else elementwise.round_half_away, ()


def _test(name: str, ufunc: np.ufunc, doc: str, since: int, accepts: Types) -> type[UnaryTest]:
    signature = f"data: {accepts} t [*I] -> {'t' if accepts == 'bits' else 'boolean'} [*I]"
    body = {"ufunc": ufunc, "signature": signature, "__module__": __name__}
    return op(name, since=since)(type(name, (UnaryTest,), {"__doc__": doc, **body}))


LogicalNot = _test(
    "LogicalNot", np.logical_not, _row("Not x", "logical/LogicalNot-1", "boolean"), 1, "boolean"
)
BitwiseNot = _test(
    "BitwiseNot",
    np.invert,
    _row("Every bit inverted", "bitwise/BitwiseNot-13", "integers or boolean"),
    13,
    "bits",
)
_KIND = "Whether x is {}, floating-point; boolean.  [comparison/{}-10]"
IsNaN = _test("IsNaN", np.isnan, _KIND.format("not a number", "IsNaN"), 10, "real")
IsFinite = _test("IsFinite", np.isfinite, _KIND.format("finite", "IsFinite"), 10, "real")


@op("IsInf", since=10)
class IsInf(UnaryTest):
    """Whether x is infinite, of the requested signs; boolean.  [comparison/IsInf-10]"""

    signature = "data: real [*I] -> boolean [*I]"
    detect_negative: bool = True
    detect_positive: bool = True

    def compute(self, data: Array) -> Array:
        infinite = np.isinf(data)
        if not self.detect_negative:
            infinite &= data > 0
        if not self.detect_positive:
            infinite &= data < 0
        return infinite


@op("FakeQuantize")
class FakeQuantize(Op):
    """Map in_low..in_high to out_low..out_high in `levels` steps; below and above: the ends.

    data and the four limits: floating-point, of any types; the limits broadcast to the data.
    round((x - il) / (ih - il) * (levels - 1)) / (levels - 1) * (oh - ol) + ol, halves to even.
    [quantization/FakeQuantize-1]
    """

    rounding = LEVELS
    signature = "data: real t; in_low: real; in_high: real; out_low: real; out_high: real -> t [*O]"

    levels: Annotated[int, ValueRange(2)]
    auto_broadcast: checks.AutoBroadcast = "numpy"

    def complete(self, at: Fit, data: Spec, *limits: Spec) -> None:
        shape = data.shape
        for port, s in enumerate(limits, 1):
            shape = checks.broadcast_shapes(shape, s.shape, self.auto_broadcast, port)
        at.groups["O"] = shape

    def evaluate(self, data: Array, *limits: Array) -> Array:
        placed = (checks.aligned(v, data.ndim, self.auto_broadcast) for v in limits)
        x, il, ih, ol, oh = checks.widest(data, *placed)
        steps = x.dtype.type(self.levels - 1)
        with np.errstate(all="ignore"):
            q = np.rint((x - il) / (ih - il) * steps) / steps * (oh - ol) + ol
        low, high = np.minimum(il, ih), np.maximum(il, ih)
        return np.asarray(np.where(x <= low, ol, np.where(x > high, oh, q)), data.dtype)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Constant limits in order; others need the selections of the general form."""
        limits = checks.known(inputs[1:])
        if limits is None or inputs[0].dtype is None or self.auto_broadcast == "pdpd":
            return None
        kind = type_of_sums(inputs[0].dtype.container)
        low, high, first, last = (np.asarray(v, kind) for v in limits)
        if not np.all(low < high):
            return None
        level = (last - first) / kind.type(self.levels - 1)
        args = (Operand(0), low, high, high - low, level, first)
        return ChainStep(elementwise.fake_quantize, args, (self.levels,))


@op("FakeConvert", since=13)
class FakeConvert(Op):
    """Round data * scale - shift to an 8-bit float and undo both: (rounded + shift) / scale.

    data, scale and the optional shift: one floating-point type; the shape of the latter two
    broadcasts to the data's. The product is rounded to f16 and then to `destination_type`, ties to
    even. Larger numbers become the type's largest one, NaN the lowest, as in the runtime.
    [quantization/FakeConvert-13]
    """

    rounding = FUNCTION

    signature = "data: f32|f16|bf16 t [*I]; scale: t; shift?: t -> t [*I]"
    destination_type: Literal["f8e4m3", "f8e5m2"] = "f8e4m3"

    def complete(self, at: Fit, data: Spec, scale: Spec, shift: Spec | None = None) -> None:
        if shift is not None and not compatible(scale.shape, shift.shape):
            text = f"shift {format_shape(shift.shape)} has not the shape of scale"
            raise size_error(2, f"{text}, {format_shape(scale.shape)}")
        if data.shape is not None and not broadcasts_into(scale.shape or (), data.shape):
            text = f"scale {format_shape(scale.shape)} does not broadcast to the data's shape"
            raise size_error(1, f"{text}, {format_shape(data.shape)}")

    def evaluate(self, data: Array, scale: Array, shift: Array | None = None) -> Array:
        kind = ELEMENT_TYPES[self.destination_type].container
        top = np.float32(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            moved = data * scale if shift is None else data * scale - shift
            x = moved.astype(np.float16).astype(np.float32)
            rounded = np.minimum(np.fmax(x, -top), top).astype(kind).astype(data.dtype)
            out = rounded / scale if shift is None else (rounded + shift) / scale
        return np.asarray(out, data.dtype)
