"""ONNX's QuantizeLinear and DequantizeLinear: per tensor, per axis, in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.dtypes import ElementType, f32, u8
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_tensors import element_type
from irdeconv.ops.activation import Clamp
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Add, Divide, Multiply, Subtract
from irdeconv.ops.shape import Reshape
from irdeconv.ops.slicing import Gather
from irdeconv.ops.unary import Round
from irdeconv.passes.stored import constant

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
