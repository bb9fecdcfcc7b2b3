"""ONNX's quantization (per tensor, per axis, in blocks) and products of integers.

OpenVINO multiplies real numbers. Sums of products of integers are exact in f32 up to 2^24, in any
order of additions; f64 is used if they may become larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.onnx_convolution import convolved
from irdeconv.formats.onnx_node import OnnxNode, Outputs, element_type, rule
from irdeconv.ir.dtypes import ElementType, f32, f64, i32, u8
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import is_static
from irdeconv.ops.activation import Clamp
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Add, Divide, Multiply, Round, Subtract
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.shape import Reshape
from irdeconv.ops.slicing import Gather
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
    scale = n[1]
    wanted = n.integer("output_dtype", 0)
    y = dequantized(b, n[0], scale, n.input(2), n.integer("axis", 1), n.integer("block_size", 0))
    return b.convert(y, element_type(wanted)) if wanted else y


@rule("QuantizeLinear", VERSIONS)
@rule("QuantizeLinear", "1", "com.microsoft")
def quantize_linear(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """round(x / scale) + zero point, halves to even, within the range of the new type."""
    zero, wanted = n.input(2), n.integer("output_dtype", 0)
    target = element_type(wanted) if wanted else u8 if zero is None else b.dtype(zero)
    if zero is not None and b.dtype(zero) != target:
        raise Refusal(f"output_dtype is {target}, the zero point {b.dtype(zero)}")
    saturate, precision = n.integer("saturate", 1), n.integer("precision", 0)
    grid = _grid(b, n[0], n[1], zero, n.integer("axis", 1), n.integer("block_size", 0))
    wide = element_type(precision) if precision else f32
    if b.dtype(n[0]).bits > wide.bits and b.dtype(n[0]).is_real:
        raise Refusal(f"{b.dtype(n[0])} data would be rounded to {wide} first")
    return _quantize(b, n[0], grid, target, wide, saturate=bool(saturate))


def dequantized(
    b: ImportBuilder,
    x: Value,
    scale: Value,
    zero: Value | None,
    axis: int = 1,
    block: int = 0,
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
        y = b.add(Subtract(), y, b.convert(grid.zero, wide))
    y = b.convert(b.add(Multiply(), y, b.convert(grid.scale, wide)), real)
    return y if grid.shape is None else b.add(Reshape(special_zero=False), y, shape)


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
    y = b.add(Divide(), b.convert(y, wide), b.convert(grid.scale, wide))
    if not target.is_real:
        y = b.add(Round("half_to_even"), y)
    if grid.zero is not None:
        y = b.add(Add(), y, b.convert(grid.zero, wide))
    y = narrowed(b, y, target) if saturate else b.convert(y, target)
    return y if grid.shape is None else b.add(Reshape(special_zero=False), y, shape)


def limits(dtype: ElementType) -> tuple[float, float]:
    """Return the least and the largest finite value of an element type."""
    if dtype.is_real:
        info: Any = ml_dtypes.finfo(dtype.container)  # type: ignore[no-untyped-call]
        return float(info.min), float(info.max)
    if dtype.kind == "int":
        return -(2.0 ** (dtype.bits - 1)), 2.0 ** (dtype.bits - 1) - 1
    return 0.0, 2.0**dtype.bits - 1


def narrowed(b: ImportBuilder, x: Value, target: ElementType) -> Value:
    """Convert real numbers to a type that holds few of them; the ends stand for what is beyond."""
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

    Where the last block is shorter, the values are repeated instead.
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
    return [b.add(Gather(), v, places, b.scalar(axis)) for v in both], None


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
