"""Legacy element-wise layers: activations, Eltwise, Power, ScaleShift, functions, Gemm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, layer, standard, truth
from irdeconv.op import Op
from irdeconv.ops import elementwise, unary
from irdeconv.ops.activation import Clamp, Elu, HardSigmoid, PReLU, ReLU, Selu, Sigmoid
from irdeconv.ops.elementwise import Add, Divide, Multiply, Power, Select, Subtract
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.quantize import FakeQuantize

_PAIRS: dict[str, type[Op]] = {
    "sum": Add,
    "": Add,
    "mul": Multiply,
    "prod": Multiply,
    "max": elementwise.Maximum,
    "min": elementwise.Minimum,
    "sub": Subtract,
    "div": Divide,
    "squared_diff": elementwise.SquaredDifference,
    "floor_mod": elementwise.FloorMod,
    "pow": Power,
    "mean": Add,
    "equal": elementwise.Equal,
    "not_equal": elementwise.NotEqual,
    "less": elementwise.Less,
    "less_equal": elementwise.LessEqual,
    "greater": elementwise.Greater,
    "greater_equal": elementwise.GreaterEqual,
}
_LOGICAL: dict[str, type[Op]] = {
    "logical_and": elementwise.LogicalAnd,
    "logical_or": elementwise.LogicalOr,
    "logical_xor": elementwise.LogicalXor,
}
_FUNCTIONS: dict[str, type[Op]] = {
    "Abs": unary.Abs,
    "Acos": unary.Acos,
    "Acosh": unary.Acosh,
    "Asin": unary.Asin,
    "Asinh": unary.Asinh,
    "Atan": unary.Atan,
    "Atanh": unary.Atanh,
    "Ceil": unary.Ceiling,
    "Cos": unary.Cos,
    "Cosh": unary.Cosh,
    "Erf": unary.Erf,
    "Exp": unary.Exp,
    "Floor": unary.Floor,
    "Log": unary.Log,
    "Neg": unary.Negative,
    "Sigmoid": Sigmoid,
    "Logistic": Sigmoid,
    "Sign": unary.Sign,
    "Sin": unary.Sin,
    "Sinh": unary.Sinh,
    "Sqrt": unary.Sqrt,
    "Tan": unary.Tan,
    "TanH": unary.Tanh,
}


def _function(op: type[Op]) -> Callable[[LegacyLayer, ImportBuilder], Outputs]:
    return lambda n, b: b.add(op(), n[0])


for _name, _op in _FUNCTIONS.items():
    layer(_name)(_function(_op))


@layer("Eltwise")
def eltwise(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One operation of all inputs, from the first on; a sum may have a factor for each."""
    word, given = n.text("operation", "sum").lower(), n.given
    if word == "logical_not" and len(given) == 1:
        return b.add(unary.LogicalNot(), truth(b, given[0]))
    factors = n.numbers("coeff", ())
    if any(f != 1 for f in factors):
        if word not in ("sum", "") or len(factors) != len(given):
            raise Refusal(f"the factors {list(factors)} of {len(given)} inputs to a {word}")
        given = tuple(_scaled(b, v, f) for v, f in zip(given, factors, strict=True))
    op = _PAIRS.get(word) or _LOGICAL.get(word)
    if op is None:
        raise Refusal(f'the operation "{word}" is not covered')
    if word in _LOGICAL:
        given = tuple(truth(b, v) for v in given)
    y = given[0]
    for other in given[1:]:
        y = b.add(op(), y, other if word in _LOGICAL else b.convert(other, b.dtype(y)))
    return b.add(Divide(), y, b.like(len(given), y)) if word == "mean" else y


def _scaled(b: ImportBuilder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.add(Multiply(), x, b.like(factor, x))


@layer("Power")
def power(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(scale * x + shift) ** power; what changes nothing is left out."""
    exponent, scale, shift = n.number("power"), n.number("scale"), n.number("shift")
    y = _scaled(b, n[0], scale)
    if shift:
        y = b.add(Add(), y, b.like(shift, y))
    return y if exponent == 1 else b.add(Power(), y, b.like(exponent, y))


@layer("ScaleShift")
def scale_shift(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x * weights + biases, a value for each channel (axis 1), or one for all."""
    n.ignore("broadcast")
    y = n[0]
    weights, biases = (_per_channel(n, b, name) for name in ("weights", "biases"))
    if weights is None and biases is None:
        raise Refusal("it has neither weights nor biases")
    y = y if weights is None else b.add(Multiply(), y, weights)
    return y if biases is None else b.add(Add(), y, biases)


def _per_channel(n: LegacyLayer, b: ImportBuilder, name: str) -> Value | None:
    shape = b.static(n[0], "the data")
    axis = 1 if len(shape) > 1 else 0
    count = n.elements(name)
    if count not in (0, 1, shape[axis]):
        raise Refusal(f"{count} {name} for {shape[axis]} channels")
    return n.optional(b, name, (*(1,) * axis, count, *(1,) * (len(shape) - axis - 1)))


@layer("ReLU")
def relu(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """max(x, 0) + negative_slope * min(x, 0)."""
    slope = n.number("negative_slope", 0)
    if not slope:
        return b.add(ReLU(), n[0])
    return b.add(PReLU(), n[0], b.const(np.array([slope], b.dtype(n[0]).container)))


@layer("PReLU")
def prelu(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """max(x, 0) + slope * min(x, 0), a slope for each channel or one for all."""
    channels, count = b.static(n[0], "the data", 2)[1], n.elements("weights")
    shared = n.flag("channel_shared", count == 1)
    n.ignore("filler_type", "filler_value")
    if count != (1 if shared else channels):
        raise Refusal(f"{count} slopes for {channels} channels")
    return b.add(PReLU(), n[0], n.blob(b, "weights", (count,)))


@layer("ReLU6")
def relu6(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """min(max(x, 0), n), n being 6 where it is not given."""
    return b.add(Clamp(min=0.0, max=n.number("n", 6)), n[0])


@layer("Clamp")
def clamp(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """min(max(x, low), high)."""
    return b.add(Clamp(min=n.number("min"), max=n.number("max")), n[0])


@layer("ELU")
def elu(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return b.add(Elu(alpha=n.number("alpha", 1)), n[0])


@layer("Not")
def negation(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """1 where x is 0, else 0."""
    return b.add(unary.LogicalNot(), truth(b, n[0]))


@layer("HardSigmoid")
def hard_sigmoid(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """max(0, min(1, alpha * x + beta))."""
    terms = (b.like(n.number(a, d), n[0]) for a, d in (("alpha", 0.2), ("beta", 0.5)))
    return b.add(HardSigmoid(), n[0], *terms)


@layer("Selu")
def selu(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """gamma * x where it is positive, else gamma * alpha * (exp(x) - 1)."""
    usual = (("alpha", 1.67326324), ("gamma", 1.05070098))
    terms = (b.like(n.number(a, d), n[0]) for a, d in usual)
    return b.add(Selu(), n[0], *terms)


@layer("Softplus")
def softplus(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """log(1 + exp(x))."""
    return b.add(standard("SoftPlus", "opset4"), n[0])


@layer("Softsign")
def softsign(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / (1 + |x|)."""
    size = b.add(unary.Abs(), n[0])
    return b.add(Divide(), n[0], b.add(Add(), size, b.like(1, size)))


@layer("Reciprocal")
def reciprocal(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """1 / x."""
    return b.add(Divide(), b.like(1, n[0]), n[0])


@layer("Copy Dropout Reorder Identity")
def copy(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x itself."""
    n.ignore("dropout_ratio")
    return n[0]


@layer("Convert")
def convert(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x in the element type that the layer declares."""
    n.ignore("precision")
    return n[0]


@layer("Select")
def select(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The second input where the first is not 0, else the third."""
    return b.add(Select(), truth(b, n[0]), n[1], b.convert(n[2], b.dtype(n[1])))


@layer("FakeQuantize Quantize")
def fake_quantize(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Numbers between two limits in so many steps."""
    return b.add(FakeQuantize(levels=n.integer("levels")), *(n[i] for i in range(5)))


@layer("Gemm MatMul")
def gemm(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """alpha * A B + beta * C, A and B transposed where it is said."""
    op = MatMul(transpose_a=n.flag("transpose_a", False), transpose_b=n.flag("transpose_b", False))
    y = _scaled(b, b.add(op, n[0], n[1]), n.number("alpha", 1))
    c, beta = n.input(2), n.number("beta", 1)
    return y if c is None else b.add(Add(), y, _scaled(b, c, beta))
