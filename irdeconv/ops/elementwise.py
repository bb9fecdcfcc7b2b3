"""Element-wise operations of two or three tensors: arithmetic, comparison, logic, Select.

Every operation is a row: name, what it computes, what it accepts. Tensors broadcast as the
attribute `auto_broadcast` says: `numpy`, `none` (equal shapes), `pdpd` (the second into the first
axes of the first).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from irdeconv.dtypes import boolean
from irdeconv.geometry import Semantics
from irdeconv.kernels.elementwise import calls, integers, steps
from irdeconv.kernels.elementwise.calls import Rule
from irdeconv.op import LAST_OPSET, Op, attribute, op
from irdeconv.ops import ranges
from irdeconv.ops.auto_broadcast import AutoBroadcast, aligned, aligned_shape, broadcast_shapes
from irdeconv.ops.checks import Types, one_type, want_type
from irdeconv.spec import Array, Interval, Spec, is_static
from irdeconv.traits import (
    FUNCTION,
    JUMPS,
    MOVES,
    REMAINDER,
    Bound,
    ChainStep,
    Operand,
    Rounding,
    roundings,
)

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

    `fn` computes any element type as it is; a ufunc writes into given memory. `rule` is what a
    chain computes of floating-point numbers, if it may be a step of one.
    """

    partial: ClassVar[bool] = True
    fn: ClassVar[BinaryFunction]
    rule: ClassVar[Rule | None] = None
    accepts: ClassVar[Types] = "number"
    gives_boolean: ClassVar[bool] = False
    scalar: ClassVar[Callable[[Any, Any], Any] | None] = None

    auto_broadcast: AutoBroadcast = "numpy"

    def infer(self, a: Spec, b: Spec) -> Spec:
        dtype = one_type(a, b, names=("a", "b"))
        want_type(a, self.accepts, 0, "a")
        want_type(b, self.accepts, 1, "b")
        shape = broadcast_shapes(a.shape, b.shape, self.auto_broadcast)
        return Spec(boolean if self.gives_boolean else dtype, shape)

    def evaluate(self, a: Array, b: Array) -> Array:
        b = aligned(b, a.ndim, self.auto_broadcast)
        if a.dtype == object or b.dtype == object:
            return self.estimate(a, b)
        return quiet(type(self).fn)(a, b)

    def estimate(self, a: Array, b: Array) -> Array:
        """Compute on partly known values; TypeError where the operation cannot."""
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
        return ChainStep(rule, (Operand(0), Operand(1, aligned_shape(b, len(a)))))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Comparisons, logic, bits and integer arithmetic; floats are steps of chains."""
        ufunc, dtype = type(self).fn, inputs[0].dtype
        if dtype is None or dtype.kind == "string" or not isinstance(ufunc, np.ufunc):
            return None
        if not self.gives_boolean and (dtype.is_real or dtype.is_packed):
            return None
        mode = self.auto_broadcast
        return Bound(lambda a, b, out, team: ufunc(a, aligned(b, a.ndim, mode), out=out))


def binary(
    name: str,
    fn: BinaryFunction,
    doc: str,
    *,
    rounding: Rounding,
    rule: Rule | None = None,
    since: int = 1,
    until: int = LAST_OPSET,
    accepts: Types = "number",
    gives_boolean: bool = False,
    scalar: Callable[[Any, Any], Any] | None = None,
) -> type[Binary]:
    """Register an element-wise operation of two tensors.

    In chains numbers are computed by `rule`, by default `fn`, if that is a ufunc; `rounding` is how
    `compare` judges it.
    """
    numbers = accepts == "number" and not gives_boolean
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "fn": fn,
        "rule": rule or (fn if numbers and isinstance(fn, np.ufunc) else None),
        "rounding": rounding,
        "accepts": accepts,
        "gives_boolean": gives_boolean,
        "scalar": scalar,
    }
    return op(name, since=since, until=until)(type(name, (Binary,), body))


def _row(what: str, types: str, section: str, out: str = "the same type") -> str:
    return f"{what} (a, b broadcast), {types}; {out}.  [{section}]"


def _power(a: Array, b: Array) -> Array:
    """Return a ** b; integers of 8 bits saturate, negative exponents give truncated results."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    if a.dtype.itemsize == 1 or (b.size and b.min() < 0):
        return integers.cut(np.power(a.astype(np.float64), b), a.dtype)
    return np.power(a, b)


def _by_zero(out: Array, b: Array) -> Array:
    """Return integers with -2**31, as their type has it, where the divisor is 0."""
    return np.where(b == 0, integers.cut(np.array(-np.inf), out.dtype), out)


def _remainder(ufunc: np.ufunc) -> BinaryFunction:
    """Return a remainder; that of integers by 0 is what a quotient by 0 is."""

    def remainder(a: Array, b: Array) -> Array:
        out = np.asarray(ufunc(a, b))
        return _by_zero(out, b) if out.dtype.kind in "iu" else out

    return remainder


def _arithmetic(
    name: str, fn: BinaryFunction, what: str, rounding: Rounding, **more: Any
) -> type[Binary]:
    doc = _row(what, "any numbers of one type", f"arithmetic/{name}-1")
    return binary(name, fn, doc, rounding=rounding, **more)


Add = _arithmetic("Add", np.add, "a + b", roundings(1, "adds"), scalar=ranges.add)
Subtract = _arithmetic(
    "Subtract", np.subtract, "a - b", roundings(1, "adds"), scalar=ranges.subtract
)
Multiply = _arithmetic(
    "Multiply", np.multiply, "a * b", roundings(1, "products"), scalar=ranges.multiply
)
Maximum = _arithmetic(
    "Maximum", np.maximum, "Larger one", MOVES, rule=steps.maximum, scalar=ranges.maximum
)
Minimum = _arithmetic(
    "Minimum",
    np.minimum,
    "Smaller one",
    Rounding("exact", carry="larger"),
    rule=steps.minimum,
    scalar=ranges.minimum,
)
Power = _arithmetic("Power", _power, "a to the power b", FUNCTION, rule=steps.power)
Mod = _arithmetic(
    "Mod", _remainder(np.fmod), "Remainder of a / b, sign of a", REMAINDER, rule=np.fmod
)
FloorMod = _arithmetic(
    "FloorMod",
    _remainder(np.remainder),
    "Remainder of a / b, sign of b",
    REMAINDER,
    rule=np.remainder,
    scalar=ranges.floor_modulo,
)
SquaredDifference = _arithmetic(
    "SquaredDifference",
    lambda a, b: calls.evaluate(steps.squared_difference, (a, b)),
    "(a - b) squared",
    roundings(3),
    rule=steps.squared_difference,
)


@op("Divide")
class Divide(Binary):
    """a / b (a, b broadcast), numbers of one type; the same type.  [arithmetic/Divide-1]

    Integers: the document rounds down with `m_pythondiv`, else towards zero. OpenVINO's runtime
    always rounds towards zero, which models converted from ONNX rely on; so does `semantics`
    "runtime". By zero: -2**31 as the type has it, the lowest in 8 bits.
    """

    fn: ClassVar[BinaryFunction] = np.divide
    rule: ClassVar[Rule | None] = np.divide
    rounding = roundings(3)

    m_pythondiv: bool = True
    semantics: Semantics = attribute("runtime", internal=True)

    @property
    def rounds_down(self) -> bool:
        """Whether integer quotients below zero go down instead of towards zero."""
        return self.m_pythondiv and self.semantics == "document"

    def evaluate(self, a: Array, b: Array) -> Array:
        b = aligned(b, a.ndim, self.auto_broadcast)
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
        return ranges.each(
            ranges.divide_floor if self.rounds_down else ranges.divide_truncate, a, b
        )


def _comparison(
    name: str, fn: BinaryFunction, what: str, scalar: Callable[[Any, Any], bool]
) -> type[Binary]:
    doc = _row(what, "one type", f"comparison/{name}-1", "boolean")
    return binary(name, fn, doc, accepts="any", gives_boolean=True, scalar=scalar, rounding=JUMPS)


Equal = _comparison("Equal", np.equal, "a == b", ranges.equal)
NotEqual = _comparison("NotEqual", np.not_equal, "a != b", lambda a, b: not ranges.equal(a, b))
Less = _comparison("Less", np.less, "a < b", ranges.less)
LessEqual = _comparison("LessEqual", np.less_equal, "a <= b", lambda a, b: not ranges.less(b, a))
Greater = _comparison("Greater", np.greater, "a > b", lambda a, b: ranges.less(b, a))
GreaterEqual = _comparison(
    "GreaterEqual", np.greater_equal, "a >= b", lambda a, b: not ranges.less(a, b)
)


def _logical(
    name: str, fn: BinaryFunction, what: str, until: int = LAST_OPSET, section: str = ""
) -> type[Binary]:
    doc = _row(what, "boolean", f"logical/{section or name}-1")
    kind: Any = {"accepts": "boolean", "gives_boolean": True, "rounding": JUMPS}
    return binary(name, fn, doc, until=until, **kind)


LogicalAnd = _logical("LogicalAnd", np.logical_and, "a and b")
LogicalOr = _logical("LogicalOr", np.logical_or, "a or b")
LogicalXor = _logical("LogicalXor", np.logical_xor, "Exactly one of a, b")
Xor = _logical("Xor", np.logical_xor, "Exactly one of a, b, an older name", 1, "LogicalXor")


def _bitwise(name: str, fn: BinaryFunction, what: str) -> type[Binary]:
    doc = _row(what, "integers of one type or boolean", f"bitwise/{name}-13")
    return binary(name, fn, doc, since=13, accepts="bits", rounding=JUMPS)


def _shift(name: str, fn: BinaryFunction, what: str) -> type[Binary]:
    doc = _row(what, "integers of one type", f"bitwise/{name}-15")
    return binary(name, fn, doc, since=15, accepts="integer", rounding=JUMPS)


BitwiseAnd = _bitwise("BitwiseAnd", np.bitwise_and, "Bits set in a and b")
BitwiseOr = _bitwise("BitwiseOr", np.bitwise_or, "Bits set in a or b")
BitwiseXor = _bitwise("BitwiseXor", np.bitwise_xor, "Bits set in exactly one of a, b")
BitwiseLeftShift = _shift(
    "BitwiseLeftShift",
    np.left_shift,
    "a * 2^b, high bits lost, all of them where b is out of range",
)
BitwiseRightShift = _shift(
    "BitwiseRightShift",
    np.right_shift,
    "a / 2^b rounded down, as by many bits where b is out of range",
)


@op("Select")
class Select(Op):
    """Take `then` where `cond` is true, else `otherwise` (all broadcast to one shape).

    cond: boolean; then, otherwise: one type. `pdpd` broadcasts into `then`.
    [condition/Select-1]
    """

    partial: ClassVar[bool] = True
    rounding = MOVES
    auto_broadcast: AutoBroadcast = "numpy"

    def infer(self, cond: Spec, then: Spec, otherwise: Spec) -> Spec:
        want_type(cond, "boolean", 0, "cond")
        dtype = one_type(then, otherwise, names=("then", "otherwise"), ports=(1, 2))
        rule = self.auto_broadcast
        shape = broadcast_shapes(then.shape, otherwise.shape, rule, port=2)
        if rule == "pdpd":
            return Spec(dtype, broadcast_shapes(shape, cond.shape, rule, port=0))
        return Spec(dtype, broadcast_shapes(cond.shape, shape, rule, port=0))

    def evaluate(self, cond: Array, then: Array, otherwise: Array) -> Array:
        if any(isinstance(v, Interval) for v in cond.flat if cond.dtype == object):
            raise TypeError("Select with an unknown condition")
        cond, otherwise = self._aligned(then.ndim, cond, otherwise)
        return np.where(cond.astype(bool), then, otherwise)

    def _aligned(self, rank: int, *arrays: Array) -> list[Array]:
        return [aligned(array, rank, self.auto_broadcast) for array in arrays]

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        def call(cond: Array, then: Array, otherwise: Array, out: Array, team: Any) -> None:
            cond, otherwise = self._aligned(then.ndim, cond, otherwise)
            np.copyto(out, otherwise)
            np.copyto(out, then, where=cond)

        return Bound(call)
