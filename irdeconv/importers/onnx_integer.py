"""ONNX's products of integers: ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul.

OpenVINO multiplies real numbers. Sums of products of integers are exact in f32 up to 2^24, whatever
the order of additions; f64 is used where they may become larger.
"""

from __future__ import annotations

import math

import numpy as np

from irdeconv.dtypes import ElementType, f32, f64, i32
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_convolution import convolved
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_quantization import limits, narrowed
from irdeconv.ops.elementwise import Add, Divide, Multiply, Subtract
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.unary import Round
from irdeconv.spec import is_static

EXACT_SUMS = 2.0**24


def reach(dtype: ElementType) -> float:
    """Return the largest difference of two values of an integer type."""
    low, high = limits(dtype)
    return high - low


def centred(b: ImportBuilder, x: Value, zero: Value | None, wide: ElementType) -> Value:
    """Return x - zero point in a wider type."""
    y = b.convert(x, wide)
    return y if zero is None else b.add(Subtract(), y, b.convert(zero, wide))


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


def per_row(b: ImportBuilder, zero: Value | None, axes: int) -> Value | None:
    """Return a zero point of the first axis as it broadcasts to data with `axes` behind it."""
    if zero is None or b.shape(zero) in ((), (1,)):
        return None if zero is None else b.as_scalar(zero)
    return b.reshape(zero, (-1, *(1,) * axes)) if b.rank(zero) == 1 else zero


def _convolution(
    n: OnnxNode, b: ImportBuilder, x: Value, w: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Return the exact sums of a convolution, as real numbers."""
    axes = b.rank(w) - 1
    zero = per_row(b, zeros[1], axes)
    wide = sum_type(b, x, w, zero, tuple(range(1, axes + 1)))
    first = None if zeros[0] is None else b.as_scalar(zeros[0])
    return convolved(n, b, centred(b, x, first, wide), centred(b, w, zero, wide))


def product(
    b: ImportBuilder, x: Value, y: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Return the exact sums of a matrix product, as real numbers."""
    second = None if zeros[1] is None else b.as_scalar(zeros[1]) if _one(b, zeros[1]) else zeros[1]
    wide = sum_type(b, x, y, second, (max(b.rank(y) - 2, 0),))
    left = centred(b, x, per_row(b, zeros[0], 1), wide)
    return b.add(MatMul(), left, centred(b, y, second, wide))


def _one(b: ImportBuilder, v: Value) -> bool:
    return b.shape(v) in ((), (1,))


@rule("ConvInteger", "10")
def conv_integer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The convolution of x - x_zero_point with w - w_zero_point as i32; padding is 0 of these."""
    return b.convert(_convolution(n, b, n[0], n[1], (n.input(2), n.input(3))), i32)


@rule("MatMulInteger", "10")
def matmul_integer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(A - a_zero_point) (B - b_zero_point) as i32."""
    return b.convert(product(b, n[0], n[1], (n.input(2), n.input(3))), i32)


@rule("QLinearConv", "10")
@rule("QLinearConv", "1", "com.microsoft")
def qlinear_conv(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A convolution of quantised numbers, its sums scaled onto the grid of the result."""
    n.only("channels_last", 0)
    sums, axes = _convolution(n, b, n[0], n[3], (n[2], n[5])), b.rank(n[0]) - 2
    bias = n.input(8)
    if bias is not None:
        sums = b.add(Add(), sums, b.per_channel(b.convert(bias, b.dtype(sums)), axes))
    scale = b.add(Divide(), b.add(Multiply(), b.as_scalar(n[1]), n[4]), b.as_scalar(n[6]))
    if not _one(b, scale):
        scale = b.per_channel(scale, axes)
    return requantized(b, sums, scale, n[7])


@rule("QLinearMatMul", "10 21")
def qlinear_matmul(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A matrix product of quantised numbers, its sums scaled onto the grid of the result."""
    sums = product(b, n[0], n[3], (n[2], n[5]))
    left = per_row(b, n[1], 1)
    assert left is not None
    factor = b.add(Multiply(), b.convert(left, f32), b.convert(n[4], f32))
    out = per_row(b, n[6], 1)
    assert out is not None
    zero = per_row(b, n[7], 1)
    assert zero is not None
    return requantized(b, sums, b.add(Divide(), factor, b.convert(out, f32)), zero)


def requantized(b: ImportBuilder, sums: Value, scale: Value, zero: Value) -> Value:
    """Return round(sums * scale) + zero point in the zero point's type, computed in f32."""
    target = b.dtype(zero)
    if not target.is_integral:
        raise Refusal(f"a result of type {target}")
    y = b.add(Round("half_to_even"), b.add(Multiply(), b.convert(sums, f32), b.convert(scale, f32)))
    return narrowed(b, b.add(Add(), y, b.convert(zero, f32)), target)
