"""ONNX's element-wise operations, casts, quantization and products of integers; CumProd and Det.

OpenVINO multiplies real numbers. Sums of products of integers are exact in f32 up to 2^24, in any
order of additions; f64 is used if they may become larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.formats.importing import ImportBuilder, Refusal, by_numbers, named_operations
from irdeconv.formats.onnx_convolution import convolved
from irdeconv.formats.onnx_node import (
    OnnxNode,
    Outputs,
    element_type,
    onnx_module,
    plain,
    rule,
    wrap,
)
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, f32, f64, i32, u8
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import is_static
from irdeconv.ops import activation, elementwise
from irdeconv.ops.activation import Clamp
from irdeconv.ops.basic import Convert
from irdeconv.ops.elementwise import Add, Multiply, Round, Subtract
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Pad12, Reshape
from irdeconv.rewrite.compressed_filters import constant

VERSIONS = "10 13 19 21 23 24 25 28"
FEW = 16  # elements of a constant that is folded at once
EXACT_BITS = 8  # bits of integers whose differences have no rounding in f16 and bf16


@dataclass(frozen=True)
class Grid:
    """Scale and zero point as they broadcast to the data of `shape`, that `data` has for them."""

    scale: Value
    zero: Value | None
    shape: tuple[int, ...] | None = None


@rule("DequantizeLinear", VERSIONS)
@rule("DequantizeLinear", "1", "com.microsoft")
def dequantize_linear(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(x - zero point) * scale, in the type of the scale or another one."""
    lists = n.integer("axis", 1), n.integer("block_size", 0)
    y = dequantized(b, n[0], n[1], n.input(2), *lists)
    return b.convert(y, n.element("output_dtype", b.dtype(y)))


@rule("QuantizeLinear", VERSIONS)
@rule("QuantizeLinear", "1", "com.microsoft")
def quantize_linear(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """round(x / scale) + zero point, halves to even, within the range of the new type."""
    zero = n.input(2)
    target = n.element("output_dtype", u8 if zero is None else b.dtype(zero))
    if zero is not None and b.dtype(zero) != target:
        raise Refusal(f"output_dtype is {target}, the zero point {b.dtype(zero)}")
    saturate, wide = n.flag("saturate", True), n.element("precision", f32)
    grid = _grid(b, n[0], n[1], zero, n.integer("axis", 1), n.integer("block_size", 0))
    if b.dtype(n[0]).bits > wide.bits and b.dtype(n[0]).is_real:
        raise Refusal(f"{b.dtype(n[0])} data would be rounded to {wide} first")
    return _quantize(b, n[0], grid, target, wide, saturate=saturate)


def dequantized(
    b: ImportBuilder, x: Value, scale: Value, zero: Value | None, axis: int = 1, block: int = 0
) -> Value:
    """Return (x - zero point) * scale in the type of the scale; weights stay compressed."""
    grid, real = _grid(b, x, scale, zero, axis, block), b.dtype(scale)
    wide = real
    if b.dtype(x).is_integral and b.dtype(x).bits > EXACT_BITS and real.bits < f32.bits:
        wide = f32
    shape = b.shape_of(x)
    y = x if grid.shape is None else b.reshape(x, grid.shape)
    stored = constant(b.graph, y)
    if stored is not None and stored.size > FEW and wide == real:
        zero = None if grid.zero is None else b.convert(grid.zero, wide)
        y = compressed(b, y, zero, grid.scale)
        return y if grid.shape is None else b.keep(Reshape(special_zero=False), y, shape)
    y = b.convert(y, wide)
    if grid.zero is not None:
        y = b.sub(y, b.convert(grid.zero, wide))
    y = b.convert(b.mul(y, b.convert(grid.scale, wide)), real)
    return y if grid.shape is None else b.reshape(y, shape)


def compressed(b: ImportBuilder, stored: Value, zero: Value | None, scale: Value) -> Value:
    """Return (stored - zero) * scale of a constant in the type of the scale, nothing folded."""
    y = b.keep(Convert(b.dtype(scale)), stored)
    if zero is not None:
        y = b.keep(Subtract(), y, zero)
    return b.keep(Multiply(), y, scale)


def quantized(b: ImportBuilder, x: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    """Return x on the grid of a scale and a zero point, u8 without one."""
    target = u8 if zero is None else b.dtype(zero)
    return _quantize(b, x, _grid(b, x, scale, zero, axis, 0), target, f32, saturate=True)


def _quantize(
    b: ImportBuilder,
    x: Value,
    grid: Grid,
    target: ElementType,
    wide: ElementType,
    *,
    saturate: bool,
) -> Value:
    shape = b.shape_of(x)
    y = x if grid.shape is None else b.reshape(x, grid.shape)
    y = b.div(b.convert(y, wide), b.convert(grid.scale, wide))
    if not target.is_real:
        y = b.add(Round("half_to_even"), y)
    if grid.zero is not None:
        y = b.plus(y, b.convert(grid.zero, wide))
    y = narrowed(b, y, target) if saturate else b.convert(y, target)
    return y if grid.shape is None else b.reshape(y, shape)


def limits(dtype: ElementType) -> tuple[float, float]:
    """Return the least and the largest finite value of an element type."""
    if dtype.is_real:
        info: Any = ml_dtypes.finfo(dtype.container)  # type: ignore[no-untyped-call]
        return float(info.min), float(info.max)
    if dtype.kind == "int":
        return -(2.0 ** (dtype.bits - 1)), 2.0 ** (dtype.bits - 1) - 1
    return 0.0, 2.0**dtype.bits - 1


def narrowed(b: ImportBuilder, x: Value, target: ElementType) -> Value:
    """Convert real numbers to a type with a small range; numbers beyond become its ends."""
    return b.convert(b.add(Clamp(*limits(target)), x), target)


def _grid(
    b: ImportBuilder, x: Value, scale: Value, zero: Value | None, axis: int, block: int
) -> Grid:
    """Return scale and zero point as they broadcast to the data, which may be cut into blocks."""
    shape, size = b.shape(x), b.shape(scale)
    both = [scale] if zero is None else [scale, zero]
    if block:
        made, cut = _blocks(b, x, both, axis % len(shape), block)
    elif len(size) == 1 and len(shape) > 0 and size != (1,):
        at = axis % len(shape)
        ends = (1,) * (len(shape) - at - 1)
        made, cut = [b.reshape(v, ((1,) * at + (-1,) + ends)) for v in both], None
    else:
        made, cut = [b.as_scalar(v) if size in ((), (1,)) else v for v in both], None
    return Grid(made[0], made[1] if zero is not None else None, cut)


def _blocks(
    b: ImportBuilder, x: Value, both: list[Value], axis: int, block: int
) -> tuple[list[Value], tuple[int, ...] | None]:
    """Return scale and zero point of blocks along an axis, and the data's shape cut into these.

    If the last block is shorter, the values are repeated instead.
    """
    shape = b.static(x, "data in blocks")
    count = -(-shape[axis] // block)
    for v in both:
        found = b.static(v, "a scale of blocks")
        if found != (*shape[:axis], count, *shape[axis + 1 :]):
            raise Refusal(f"a scale of shape {list(found)} for blocks of {block} on axis {axis}")
    if count * block == shape[axis]:
        apart = [b.reshape(v, (*b.static(v, "")[: axis + 1], 1, *shape[axis + 1 :])) for v in both]
        return apart, (*shape[:axis], count, block, *shape[axis + 1 :])
    b.room(shape[axis])
    places = b.const(np.arange(shape[axis]) // block)
    return [b.take(v, places, axis) for v in both], None


EXACT_SUMS = 2.0**24


def reach(dtype: ElementType) -> float:
    """Return the largest difference of two values of an integer type."""
    low, high = limits(dtype)
    return high - low


def centred(b: ImportBuilder, x: Value, zero: Value | None, wide: ElementType) -> Value:
    """Return x - zero point in a wider type."""
    y = b.convert(x, wide)
    return y if zero is None else b.sub(y, b.convert(zero, wide))


def sum_type(
    b: ImportBuilder, x: Value, w: Value, zero: Value | None, axes: tuple[int, ...]
) -> ElementType:
    """Return the type in which sums over these axes of w times x are exact."""
    shape = b.shape(w, 1 + max(axes, default=-1))
    weights = None if b.known(w) is None else b.known(centred(b, w, zero, f32))
    if weights is not None:
        most = float(np.abs(weights).sum(axes).max(initial=0))
    else:
        sizes = tuple(shape[a] for a in axes)
        most = math.prod(sizes) * reach(b.dtype(w)) if is_static(sizes) else math.inf
    return f32 if most * reach(b.dtype(x)) <= EXACT_SUMS else f64


def per_row(b: ImportBuilder, zero: Value, axes: int) -> Value:
    """Return a zero point of the first axis as it broadcasts to data with `axes` behind it."""
    if _one(b, zero):
        return b.as_scalar(zero)
    return b.reshape(zero, (-1, *(1,) * axes)) if b.rank(zero) == 1 else zero


def _convolution(
    n: OnnxNode, b: ImportBuilder, x: Value, w: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Return the exact sums of a convolution, as real numbers."""
    axes = b.rank(w) - 1
    zero = None if zeros[1] is None else per_row(b, zeros[1], axes)
    wide = sum_type(b, x, w, zero, tuple(range(1, axes + 1)))
    first = None if zeros[0] is None else b.as_scalar(zeros[0])
    return convolved(n, b, centred(b, x, first, wide), centred(b, w, zero, wide))


def product(
    b: ImportBuilder, x: Value, y: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Return the exact sums of a matrix product, as real numbers."""
    second = zeros[1]
    if second is not None and _one(b, second):
        second = b.as_scalar(second)
    wide = sum_type(b, x, y, second, (max(b.rank(y) - 2, 0),))
    first = None if zeros[0] is None else per_row(b, zeros[0], 1)
    left = centred(b, x, first, wide)
    return b.add(MatMul(), left, centred(b, y, second, wide))


def _one(b: ImportBuilder, v: Value) -> bool:
    return b.shape(v) in ((), (1,))


def _zeros(n: OnnxNode) -> tuple[Value | None, Value | None]:
    return n.input(2), n.input(3)


# Sums of products of x - x_zero_point and w - w_zero_point; padding is 0 of these.
rule("ConvInteger", "10")(lambda n, b: b.convert(_convolution(n, b, n[0], n[1], _zeros(n)), i32))
rule("MatMulInteger", "10")(lambda n, b: b.convert(product(b, n[0], n[1], _zeros(n)), i32))


@rule("QLinearConv", "10")
@rule("QLinearConv", "1", "com.microsoft")
def qlinear_conv(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A convolution of quantised numbers, its sums scaled onto the grid of the result."""
    last = n.flag("channels_last", False)
    x = b.channels_first(n[0]) if last else n[0]
    sums, axes = _convolution(n, b, x, n[3], (n[2], n[5])), b.rank(x) - 2
    bias = n.input(8)
    if bias is not None:
        sums = b.plus(sums, b.per_channel(b.convert(bias, b.dtype(sums)), axes))
    scale = b.div(b.mul(b.as_scalar(n[1]), n[4]), b.as_scalar(n[6]))
    if not _one(b, scale):
        scale = b.per_channel(scale, axes)
    y = requantized(b, sums, scale, n[7])
    return b.channels_last(y) if last else y


@rule("QLinearMatMul", "10 21")
def qlinear_matmul(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A matrix product of quantised numbers, its sums scaled onto the grid of the result."""
    sums = product(b, n[0], n[3], (n[2], n[5]))
    factor = b.mul(b.convert(per_row(b, n[1], 1), f32), b.convert(n[4], f32))
    out, zero = per_row(b, n[6], 1), per_row(b, n[7], 1)
    return requantized(b, sums, b.div(factor, b.convert(out, f32)), zero)


@rule("QGemm", "1", "com.microsoft")
def qgemm(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """alpha times a product plus integers; real numbers if the result has no zero point."""
    sides = ((n[0], "transA"), (n[3], "transB"))
    x, y = (b.permute(v, (1, 0)) if n.flag(name, False) else v for v, name in sides)
    sums = product(b, x, y, (n[2], n[5]))
    sums = sums if n.input(6) is None else b.plus(sums, b.convert(n[6], b.dtype(sums)))
    scale = b.mul(b.mul(b.scalar(n.number("alpha", 1.0), f32), b.as_scalar(n[1])), n[4])
    if n.input(8) is None:
        return b.mul(b.convert(sums, f32), scale)
    return requantized(b, sums, b.div(scale, b.as_scalar(n[7])), b.as_scalar(n[8]))


def requantized(b: ImportBuilder, sums: Value, scale: Value, zero: Value) -> Value:
    """Return round(sums * scale) + zero point in the zero point's type, computed in f32."""
    target = b.dtype(zero)
    if not target.is_integral:
        raise Refusal(f"a result of type {target}")
    y = b.add(Round("half_to_even"), b.mul(b.convert(sums, f32), b.convert(scale, f32)))
    return narrowed(b, b.plus(y, b.convert(zero, f32)), target)


def _binary(types: str, versions: str, op: Op) -> None:
    rule(types, versions)(lambda n, b: b.add(op, n[0], _second(n, b)))


def _second(n: OnnxNode, b: ImportBuilder) -> Value:
    """Return the second input as it broadcasts to the first; before version 7 from an axis on."""
    if b.dtype(n[0]).kind == "string":
        raise Refusal("strings are not covered")
    y, old = n[1], n.version < 7
    if not old or not n.flag("broadcast", False):
        return y
    rank = b.rank(n[0])
    behind = rank - wrap(n.integer("axis", rank - b.rank(y)), rank + 1) - b.rank(y)
    if behind < 0:
        raise Refusal(f"axis leaves no place for {b.rank(y)} axes in rank {rank}")
    return b.unsqueeze(y, *range(-behind, 0)) if behind else y


for _versions, _words in (
    ("1 6 13", "Abs Neg=Negative Floor Ceil=Ceiling Sqrt Exp Log Tanh Sigmoid"),
    ("1 6 13 14", "Relu=ReLU"),
    ("1 22", "Softplus=SoftPlus Softsign=SoftSign"),
    ("7 22", "Sin Cos Tan Asin Acos Atan"),
    ("9 13", "Sign Erf"),
    ("9 22", "Sinh Cosh Asinh Acosh Atanh"),
    ("14 22", "HardSwish=HSwish"),
    ("18 22", "Mish"),
    ("1", "Not=LogicalNot"),
    ("18", "BitwiseNot"),
    ("9 13 20", "IsNaN"),
):
    for _name, _op in named_operations(_words):
        plain(_name, _versions, _op)
plain("Round", "11 22", elementwise.Round("half_to_even"))
plain("Where", "9 16", elementwise.Select(), inputs=3)

_binary("Div", "1 6 7 13 14", elementwise.Divide(m_pythondiv=False))
for _versions, _words in (
    ("1 6 7 13 14", "Add Sub=Subtract Mul=Multiply"),
    ("1 7", "And=LogicalAnd Or=LogicalOr Xor=LogicalXor"),
    ("18", "BitwiseAnd BitwiseOr BitwiseXor"),
    ("1 7 11 13 19", "Equal"),
    ("1 7 9 13", "Less Greater"),
    ("12 16", "LessOrEqual=LessEqual GreaterOrEqual=GreaterEqual"),
):
    for _name, _op in named_operations(_words):
        _binary(_name, _versions, _op)


def _of_all(n: OnnxNode, b: ImportBuilder, op: Op) -> Value:
    return reduce(lambda x, y: b.add(op, x, y), n.given)


rule("Sum", "1 6 8 13")(partial(_of_all, op=elementwise.Add()))
rule("Max", "1 6 8 12 13")(partial(_of_all, op=elementwise.Maximum()))
rule("Min", "1 6 8 12 13")(partial(_of_all, op=elementwise.Minimum()))


@rule("Mean", "1 6 8 13")
def mean(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Sum / count, broadcast."""
    total = _of_all(n, b, elementwise.Add())
    if len(n.inputs) == 1:
        return total
    return b.add(elementwise.Divide(m_pythondiv=False), total, b.like(len(n.inputs), total))


@rule("Mod", "10 13 28")
def mod(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """fmod=1 has the sign of the dividend, fmod=0 (integers only before 28) that of the divisor."""
    fmod = n.flag("fmod", False)
    if not fmod and n.version < 28 and b.dtype(n[0]).is_real:
        raise Refusal("fmod=0 with floating-point inputs")
    return b.add(elementwise.Mod() if fmod else elementwise.FloorMod(), n[0], n[1])


_SHIFTS = {"LEFT": elementwise.BitwiseLeftShift(), "RIGHT": elementwise.BitwiseRightShift()}
_SIGNS = ("detect_negative", "detect_positive")
_GELUS = {"none": "ERF", "tanh": "TANH"}

plain("BitShift", "11 28", lambda n, b: n.meaning("direction", "", _SHIFTS), 2)
plain("Gelu", "20", lambda n, b: activation.Gelu(n.meaning("approximate", "none", _GELUS)))
plain("IsInf", "10 20", lambda n, b: elementwise.IsInf(*(n.flag(a, True) for a in _SIGNS)))

for _name, _versions, _usual in (
    ("Elu", "1 6 22", {"alpha": 1.0}),
    ("HardSigmoid", "1 6 22", {"alpha": 0.2, "beta": 0.5}),
    ("LeakyRelu", "1 6 16", {"alpha": 0.01}),
    ("Selu", "1 6 22", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    ("Swish", "24", {"alpha": 1.0}),
    ("ThresholdedRelu", "10 22", {"alpha": 1.0}),
):
    rule(_name, _versions)(by_numbers(_name.lower(), **_usual))


@rule("Pow", "1 7 12 13 15")
def power(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x to the power y in x's type; y's type may differ."""
    x, y = n[0], _second(n, b)
    base, exponent = b.dtype(x), b.dtype(y)
    if base.is_integral and exponent.is_real:
        return b.convert(b.add(elementwise.Power(), b.convert(x, exponent), y), base)
    return b.add(elementwise.Power(), x, b.convert(y, base))


rule("Reciprocal", "1 6 13")(
    lambda n, b: b.add(elementwise.Divide(m_pythondiv=False), b.like(1, n[0]), n[0])
)


@rule("PRelu", "1 6 7 9 16")
def prelu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x, or slope * x below 0; the slope broadcasts to x as NumPy does."""
    x, slope = n[0], n[1]
    if n.version < 7 and b.rank(slope) == 1 and b.rank(x) > 2:  # a value for each channel
        slope = b.reshape(slope, (-1, *(1,) * (b.rank(x) - 2)))
    data, shape = b.shape(x), b.shape(slope)
    if len(shape) > len(data):
        raise Refusal(f"the slope has rank {len(shape)}, above that of the data")
    padded = (1,) * (len(data) - len(shape)) + shape
    if all(d == 1 for d in padded):
        return b.add(activation.PReLU(), x, b.reshape(slope, (1,)))
    channel = len(data) > 1 and all(d == 1 for i, d in enumerate(padded) if i != 1)
    if channel and padded[1] == data[1] and isinstance(data[1], int):
        return b.add(activation.PReLU(), x, b.reshape(slope, (data[1],)))
    below = b.add(elementwise.Less(), x, b.like(0, x))
    return b.select(below, b.mul(x, slope), x)


@rule("Celu", "12 28")
def celu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    x, alpha = n[0], b.like(n.number("alpha", 1.0), n[0])
    below = b.mul(alpha, b.add(activation.Elu(alpha=1.0), b.div(x, alpha)))
    zero, positive = b.like(0, x), b.add(activation.ReLU(), x)
    return b.plus(positive, b.add(elementwise.Minimum(), zero, below))


@rule("Clip", "1 6 11 12 13")
def clip(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """min(max(x, low), high); either bound may be left out."""
    x = n[0]
    if n.version < 11:
        low = b.like(n.number("min", 0), x) if "min" in n else None
        high = b.like(n.number("max", 0), x) if "max" in n else None
    else:
        low, high = (None if v is None else b.as_scalar(v) for v in (n.input(1), n.input(2)))
    bounds = [None if v is None else b.known(v) for v in (low, high)]
    if b.dtype(x).is_real and bounds[0] is not None and bounds[1] is not None:
        least, most = float(bounds[0]), float(bounds[1])
        if least <= most and np.isfinite([least, most]).all():
            return b.add(activation.Clamp(least, most), x)
    if low is not None:
        x = b.add(elementwise.Maximum(), x, low)
    return x if high is None else b.add(elementwise.Minimum(), x, high)


@rule("Dropout", "1 6 7 10 12 13 22")
def dropout(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The input itself, as in inference; the mask is all true."""
    x = n[0]
    n.accept("ratio", "seed", "is_test")
    training = n.known(b, 2, "training_mode")
    if training is not None and bool(training):
        ratio = n.known(b, 1, "ratio")
        if ratio is None or float(ratio) != 0:
            raise Refusal("training_mode=true draws random numbers")
    if not n.wants(1):
        return x
    truth = b.const(np.array(True))
    if n.version < 10:
        truth = b.like(1, x)
    return x, b.broadcast(truth, b.shape_of(x))


@rule("Shrink", "9")
def shrink(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x moved towards 0 by bias if |x| is above lambd, else 0."""
    x, lambd, bias = n[0], n.number("lambd", 0.5), n.number("bias", 0.0)
    if not b.dtype(x).is_real:
        raise Refusal("integers are not covered")
    above = b.add(elementwise.Greater(), x, b.like(lambd, x))
    below = b.add(elementwise.Less(), x, b.like(-lambd, x))
    low, high = b.plus(x, b.like(bias, x)), b.sub(x, b.like(bias, x))
    return b.select(above, high, b.select(below, low, b.like(0, x)))


LARGEST_MATRIX = 3  # rows of a matrix whose determinant is written out


@rule("CumProd", "26")
def cum_prod(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Products of all earlier elements: each step multiplies by those twice as far ahead."""
    x = n[0]
    axis = wrap(int(b.need(b.as_scalar(n[1]), "axis")), b.rank(x))
    size = b.size(x, axis)
    reverse = n.flag("reverse", False)
    if n.flag("exclusive", False):
        x = _moved(b, x, axis, 1, reverse=reverse)
    step = 1
    while step < size:
        x = b.mul(x, _moved(b, x, axis, step, reverse=reverse))
        step *= 2
    return x


def _moved(b: ImportBuilder, x: Value, axis: int, step: int, *, reverse: bool) -> Value:
    """Return the elements `step` positions earlier along an axis, with ones at the border."""
    ahead = [step if a == axis else 0 for a in range(b.rank(x))]
    behind = [-s for s in ahead]
    ends = (behind, ahead) if reverse else (ahead, behind)
    return b.add(Pad12("constant"), x, *(b.ints(*e) for e in ends), b.like(1, x))


@rule("Det", "11 22")
def determinant(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The determinants of small square matrices."""
    x = n[0]
    rows, columns = b.shape(x, 2)[-2:]
    if rows != columns or not isinstance(rows, int) or not 1 <= rows <= LARGEST_MATRIX:
        raise Refusal(
            f"matrices of {rows} x {columns}: up to {LARGEST_MATRIX} x {LARGEST_MATRIX} are covered"
        )
    lines = [b.take(x, b.scalar(i), -2) for i in range(rows)]
    cells = [[b.take(r, b.scalar(j), -1) for j in range(rows)] for r in lines]
    return _determinant(b, cells)


def _determinant(b: ImportBuilder, cells: list[list[Value]]) -> Value:
    if len(cells) == 1:
        return cells[0][0]
    total: Value | None = None
    for j, head in enumerate(cells[0]):
        minor = [row[:j] + row[j + 1 :] for row in cells[1:]]
        term = b.mul(head, _determinant(b, minor))
        op = Subtract() if j % 2 else Add()
        total = term if total is None else b.add(op, total, term)
    assert total is not None
    return total


PLAIN = tuple(
    ELEMENT_TYPES[n]
    for n in "f64 f32 f16 bf16 i64 i32 i16 i8 i4 u64 u32 u16 u8 u4 u2 boolean".split()
)
E2M1, E8M0 = ELEMENT_TYPES["f4e2m1"], ELEMENT_TYPES["f8e8m0"]


@rule("Cast", "1 6 9 13 19 21 23 24 25 28")
@rule("CastLike", "15 19 21 23 24 25")
def cast(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Convert to the type `to`, or for CastLike that of the second input.

    Real numbers become 8-bit ones within their range (saturate=1), or infinite or NaN beyond it.
    """
    x, saturate = n[0], n.flag("saturate", True)
    mode = n.choice("round_mode", "up down nearest")
    target = element_type(_number(n)) if n.type == "Cast" else b.dtype(n[1])
    source = b.dtype(x)
    if "string" in (source.kind, target.kind) and source != target:
        raise Refusal(f"a conversion from {source} to {target} is not covered")
    if source == target or target in PLAIN:
        return b.convert(x, target)
    wide = x if source.is_real and source.bits >= 16 else b.convert(x, f32)
    if target == E8M0:
        if not saturate:
            raise Refusal("saturate=0 for powers of two is not covered")
        return _power_of_two(b, wide, mode)
    if target == E2M1 or saturate:
        return narrowed(b, wide, target)
    return b.convert(wide, target)


def _number(n: OnnxNode) -> int:
    """Return the data type's number; version 1 has its name."""
    if n.version > 1:
        return n.integer("to")
    return int(onnx_module().TensorProto.DataType.Value(n.text("to", "FLOAT")))


def _power_of_two(b: ImportBuilder, x: Value, mode: str) -> Value:
    """Return the power of two above, below or next to x; the least one if x is not positive."""
    x = b.add(Clamp(*limits(E8M0)), b.convert(x, f32))
    near = b.convert(b.convert(x, E8M0), f32)
    if mode != "nearest":
        beside = elementwise.Less() if mode == "up" else elementwise.Greater()
        moved = b.scaled(near, 2 if mode == "up" else 0.5)
        near = b.select(b.add(beside, near, x), moved, near)
    return narrowed(b, near, E8M0)
