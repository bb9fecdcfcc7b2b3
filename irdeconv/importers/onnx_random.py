"""ONNX's random numbers. The generator is OpenVINO's: ONNX leaves it open."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.dtypes import ElementType, f32, i32, i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_tensors import element_type
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.ops.random.multinomial import Multinomial
from irdeconv.ops.random.uniform import RandomUniform
from irdeconv.ops.unary import Cos, Log, Sqrt


def _seed(n: OnnxNode, b: ImportBuilder) -> int:
    """Return a seed above 0: the node's, or one that no other node of the model has."""
    if "seed" not in n:
        return len(b.graph) + 1
    given = n.number("seed", 0.0)
    if math.isnan(given):  # every NaN has a hash of its own
        raise Refusal("seed is no number")
    return abs(hash(given)) % (1 << 62) + 1


def _what(n: OnnxNode, b: ImportBuilder) -> tuple[Value, ElementType]:
    """Return shape and element type: attributes, or those of the input."""
    wanted = n.integer("dtype", 0)
    if n.type.endswith("Like"):
        return b.shape_of(n[0]), element_type(wanted) if wanted else b.dtype(n[0])
    return b.ints(*n.ints("shape")), element_type(wanted) if wanted else f32


@rule("RandomUniform RandomUniformLike", "1 22")
def uniform(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Numbers from low up to high."""
    shape, dtype = _what(n, b)
    low, high = n.number("low", 0.0), n.number("high", 1.0)
    if not dtype.is_real:
        raise Refusal(f"random numbers of type {dtype}")
    op = RandomUniform(dtype, 0, _seed(n, b))
    return b.add(op, shape, b.scalar(low, dtype), b.scalar(high, dtype))


@rule("RandomNormal RandomNormalLike", "1 22")
def normal(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Normally distributed numbers, each of two uniform ones: sqrt(-2 log u) cos(2 pi v)."""
    shape, dtype = _what(n, b)
    if not dtype.is_real:
        raise Refusal(f"random numbers of type {dtype}")
    mean, scale, seed = n.number("mean", 0.0), n.number("scale", 1.0), _seed(n, b)
    least = b.scalar(np.finfo(np.float32).tiny, f32)
    u = b.add(RandomUniform(f32, 1, seed), shape, least, b.scalar(1, f32))
    v = b.add(RandomUniform(f32, 2, seed), shape, b.scalar(0, f32), b.scalar(1, f32))
    far = b.add(Sqrt(), b.add(Multiply(), b.add(Log(), u), b.scalar(-2, f32)))
    turn = b.add(Cos(), b.add(Multiply(), v, b.scalar(2 * math.pi, f32)))
    y = b.add(Multiply(), b.add(Multiply(), far, turn), b.scalar(scale, f32))
    return b.convert(b.add(Add(), y, b.scalar(mean, f32)), dtype)


@rule("Multinomial", "7 22")
def multinomial(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Classes drawn by the logarithms of their probabilities [batch, classes]."""
    wanted = n.integer("dtype", 0)
    dtype = element_type(wanted) if wanted else i32
    if dtype not in (i32, i64):
        raise Refusal(f"classes of type {dtype}")
    op = Multinomial(convert_type=dtype, with_replacement=True, log_probs=True, op_seed=_seed(n, b))
    return b.add(op, n[0], b.scalar(n.integer("sample_size", 1)))
