"""ONNX Runtime's quantised operations: to real numbers, the operation, back onto a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irdeconv.dtypes import f32, u8
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_convolution import average_pool, global_pool
from irdeconv.importers.onnx_integer import product
from irdeconv.importers.onnx_microsoft import MICROSOFT
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_quantization import dequantized, quantized
from irdeconv.op import Op
from irdeconv.ops import activation as act
from irdeconv.ops.elementwise import (
    Add,
    Divide,
    Equal,
    Maximum,
    Minimum,
    Multiply,
    Select,
    Subtract,
)
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.reduction import ReduceMax, ReduceMean, ReduceMin
from irdeconv.ops.softmax import SoftMax
from irdeconv.ops.unary import Round


def _real(n: OnnxNode, b: ImportBuilder, at: int) -> Value:
    """Return the real numbers of three inputs: integers, scale, zero point."""
    return dequantized(b, n[at], n[at + 1], n.input(at + 2))


def _back(n: OnnxNode, b: ImportBuilder, y: Value, at: int, like: Value) -> Value:
    """Return a result on the grid of two inputs: scale, zero point."""
    zero = n.input(at + 1)
    if zero is None:
        dtype = b.dtype(like)
        zero = b.scalar(0, dtype)
    return quantized(b, y, n[at], zero)


def _two(type: str, op: Op) -> None:
    def both(n: OnnxNode, b: ImportBuilder) -> Outputs:
        return _back(n, b, b.add(op, _real(n, b, 0), _real(n, b, 3)), 6, n[0])

    rule(type, "1", MICROSOFT)(both)


_two("QLinearAdd", Add())
_two("QLinearMul", Multiply())


@rule("QLinearSigmoid", "1", MICROSOFT)
def sigmoid(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 / (1 + exp(-x))."""
    return _back(n, b, b.add(act.Sigmoid(), _real(n, b, 0)), 3, n[0])


@rule("QLinearLeakyRelu", "1", MICROSOFT)
def leaky_relu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x, or alpha * x below 0."""
    x = _real(n, b, 0)
    slope = b.const(np.array([n.number("alpha", 0.01)], b.dtype(x).container))
    return _back(n, b, b.add(act.PReLU(), x, slope), 3, n[0])


@rule("QLinearSoftmax", "1", MICROSOFT)
def softmax(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """exp(x) over its sum along one axis; with an `opset` below 13 along all axes from it on."""
    x, axis = _real(n, b, 0), n.axis(b, n[0], default=-1)
    if n.integer("opset") < 13 and axis != b.rank(x) - 1:
        raise Refusal("softmax over several axes is not covered")
    return _back(n, b, b.add(SoftMax(axis), x), 3, n[0])


def _channels_first(
    n: OnnxNode, b: ImportBuilder, pool: Callable[[OnnxNode, ImportBuilder], Outputs]
) -> Outputs:
    """Apply a pooling to the real numbers of the first input, channels last or not."""
    x, rank = _real(n, b, 0), b.rank(n[0])
    last = bool(n.integer("channels_last", 0))
    if last:
        x = b.add(Transpose(), x, b.ints(0, rank - 1, *range(1, rank - 1)))
    given = n.inputs
    n.inputs = (x,)
    y = pool(n, b)
    n.inputs = given
    assert isinstance(y, Value)
    if last:
        y = b.add(Transpose(), y, b.ints(0, *range(2, rank), 1))
    return _back(n, b, y, 3, n[0])


@rule("QLinearAveragePool", "1", MICROSOFT)
def qlinear_average_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means over windows."""
    return _channels_first(n, b, average_pool)


@rule("QLinearGlobalAveragePool", "1", MICROSOFT)
def qlinear_global_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means over all spatial axes."""
    return _channels_first(n, b, global_pool)


@rule("QLinearReduceMean", "1", MICROSOFT)
def reduce_mean(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means over axes."""
    x = _real(n, b, 0)
    axes = n.ints("axes") or tuple(range(b.rank(x)))
    op = ReduceMean(keep_dims=bool(n.integer("keepdims", 1)))
    return _back(n, b, b.add(op, x, b.ints(*axes)), 3, n[0])


@rule("QLinearConcat", "1", MICROSOFT)
def concat(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Join along an axis; the result's scale and zero point come first."""
    parts = [_real(n, b, at) for at in range(2, len(n.inputs), 3)]
    joined = b.add(Concat(n.axis(b, parts[0])), *parts)
    return _back(n, b, joined, 0, n[2])


@rule("QLinearWhere", "1", MICROSOFT)
def where(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Elements of one or of the other input."""
    return _back(n, b, b.add(Select(), n[0], _real(n, b, 1), _real(n, b, 4)), 7, n[1])


@rule("MatMulIntegerToFloat", "1", MICROSOFT)
def matmul_to_float(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(A - a_zero_point) (B - b_zero_point) times both scales, plus a bias."""
    sums = b.convert(product(b, n[0], n[1], (n.input(4), n.input(5))), b.dtype(n[2]))
    y = b.add(Multiply(), sums, b.add(Multiply(), n[2], n[3]))
    return y if n.input(6) is None else b.add(Add(), y, n[6])


@rule("DynamicQuantizeMatMul", "1", MICROSOFT)
def dynamic_matmul(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A is put on a grid of u8 that fits its values; then as MatMulIntegerToFloat."""
    a, scale, zero = dynamic(b, n[0])
    sums = b.convert(product(b, a, n[1], (zero, n.input(3))), f32)
    y = b.add(Multiply(), sums, b.add(Multiply(), scale, n[2]))
    return y if n.input(4) is None else b.add(Add(), y, n[4])


@rule("DynamicQuantizeLinear", "11")
def dynamic_quantize(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x on a grid of u8 that fits its values and 0, the scale, the zero point."""
    return dynamic(b, n[0])


def dynamic(b: ImportBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Return u8 numbers, their scale and their zero point, from the range of x and 0."""
    every, zero = b.ints(*range(b.rank(x))), b.like(0, x)
    low = b.add(Minimum(), b.add(ReduceMin(keep_dims=False), x, every), zero)
    high = b.add(Maximum(), b.add(ReduceMax(keep_dims=False), x, every), zero)
    scale = b.add(Divide(), b.add(Subtract(), high, low), b.like(255, x))
    # Where every number is 0, any scale will do.
    scale = b.add(Select(), b.add(Equal(), scale, zero), b.like(1, x), scale)
    place = b.add(Round("half_to_even"), b.add(Divide(), b.add(Subtract(), zero, low), scale))
    point = b.convert(b.add(act.Clamp(0.0, 255.0), place), u8)
    return quantized(b, x, scale, point), scale, point
