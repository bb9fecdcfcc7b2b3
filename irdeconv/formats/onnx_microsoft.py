"""Operations of com.microsoft, which ONNX Runtime's optimizer and exporters write.

A quantized operation becomes a conversion to real numbers, the operation, and a rounding to its
grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from irdeconv.formats.importing import ACTIVATIONS, ImportBuilder, Refusal, by_numbers
from irdeconv.formats.onnx_convolution import average_pool, convolved, global_pool
from irdeconv.formats.onnx_elementwise import compressed, dequantized, product, quantized
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule
from irdeconv.formats.onnx_normalization import general_product, root_mean_square
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32, u8
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Array
from irdeconv.ops.activation import Clamp, Gelu, Sigmoid, SoftMax, Swish
from irdeconv.ops.channels import Split
from irdeconv.ops.elementwise import Equal, Maximum, Minimum, Round
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.reduction import MVN, GroupNormalization, ReduceMax, ReduceMean, ReduceMin
from irdeconv.ops.shape import Reshape, Unsqueeze

MICROSOFT = "com.microsoft"
_leaky = ACTIVATIONS["leakyrelu"]
DEFAULTS = {  # parameters of activations if a node has none
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": (0.01,),
    "Clip": (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)),
    "HardSigmoid": (0.2, 0.5),
}


def activated(b: ImportBuilder, x: Value, name: str, given: Sequence[float]) -> Value:
    """Return a fused activation of x; an empty name means none."""
    if not name:
        return x
    if name not in DEFAULTS:
        raise Refusal(f"the activation {name} is not covered")
    usual = DEFAULTS[name]
    return ACTIVATIONS[name.lower()](b, x, *given[: len(usual)], *usual[len(given) :])


@rule("FusedConv", "1", MICROSOFT)
def fused_conv(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A convolution with bias [M] and a further summand, then an activation."""
    y, bias, more = convolved(n, b, n[0], n[1]), n.input(2), n.input(3)
    if bias is not None:
        y = b.plus(y, b.per_channel(bias, b.rank(y) - 2))
    parameters = n.numbers("activation_params")
    return activated(b, b.plus(y, more), n.text("activation", ""), parameters)


@rule("FusedGemm", "1", MICROSOFT)
def fused_gemm(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """alpha * A * B + beta * C, A and B perhaps transposed, then an activation."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [n.number(name, 0.0) for name in names if name in n]
    return activated(b, general_product(n, b), n.text("activation", ""), parameters)


@rule("FusedMatMul TransposeMatMul", "1", MICROSOFT)
def fused_matmul(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """alpha * A * B, both perhaps with the last two axes swapped, or the first batch axis moved."""
    sides, swap = [], []
    for at, letter in enumerate("AB"):
        x, rank = n[at], b.rank(n[at])
        if n.integer(f"transBatch{letter}", 0):
            # [M, ...batch, K] becomes [...batch, M, K], as the product needs it.
            x = b.add(Transpose(), x, b.ints(*range(1, rank - 1), 0, rank - 1))
        sides.append(x)
        swap.append(n.flag(f"trans{letter}", False) and rank > 1)  # never of a vector
    return b.times(b.add(MatMul(*swap), *sides), n.number("alpha", 1.0))


rule("Gelu BiasGelu FastGelu", "1", MICROSOFT)(  # of the sum of both inputs, if there are two
    lambda n, b: b.add(Gelu("TANH" if n.type == "FastGelu" else "ERF"), b.plus(n[0], n.input(1)))
)
rule("BiasAdd", "1", MICROSOFT)(lambda n, b: b.plus(b.plus(n[0], n[1]), n[2]))
rule("ExpandDims", "1", MICROSOFT)(lambda n, b: b.add(Unsqueeze(), n[0], b.reshape(n[1], (1,))))
rule("DynamicQuantizeLinear", "11")(lambda n, b: dynamic(b, n[0]))
rule("QuickGelu", "1", MICROSOFT)(by_numbers("swish", alpha=1.702))


@rule("BiasSplitGelu", "1", MICROSOFT)
def bias_split_gelu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The first half of the channels times gelu of the second one, after a bias."""
    halves = b.outputs(Split(2), b.plus(n[0], n[1]), b.scalar(-1))
    return b.mul(halves[0], b.add(Gelu("ERF"), halves[1]))


@rule("SimplifiedLayerNormalization", "0 1")
@rule("SimplifiedLayerNormalization", "1", MICROSOFT)
def simplified(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Divide by the root of the mean square over the axes from `axis` on, then * scale."""
    x = n[0]
    n.only("stash_type", 1)
    axes = b.ints(*range(n.axis(b, x, default=-1), b.rank(x)))
    wide = b.convert(x, f32)
    root = root_mean_square(b, wide, axes, n.number("epsilon", 1e-5))
    y = b.mul(b.convert(b.div(wide, root), b.dtype(x)), n[1])
    return (y, b.div(b.like(1, root), root)) if n.wants(1) else y


@rule("SkipLayerNormalization SkipSimplifiedLayerNormalization", "1", MICROSOFT)
def skip_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Normalize the last axis of the sum of input, skip and bias; the sum is output 3."""
    simple = n.type.startswith("SkipSimplified")
    beta, bias = (None, n.input(3)) if simple else (n.input(3), n.input(4))
    total = b.plus(b.plus(n[0], n[1]), bias)
    if n.wants(1) or n.wants(2):
        raise Refusal("the outputs of training are not covered")
    wide, last, epsilon = b.convert(total, f32), b.ints(-1), n.number("epsilon", 1e-12)
    if simple:
        y = b.div(wide, root_mean_square(b, wide, last, epsilon))
    else:
        y = b.add(MVN(normalize_variance=True, eps=epsilon), wide, last)
    y = b.mul(y, b.convert(n[2], f32))
    if beta is not None:
        y = b.plus(y, b.convert(beta, f32))
    y = b.convert(y, b.dtype(total))
    return (y, y, y, total) if n.wants(3) else y


@rule("GroupNorm", "1", MICROSOFT)
def group_norm(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Standardize groups of channels, the last axis, then * gamma + beta, then perhaps Swish."""
    last = n.flag("channels_last", True)
    x = b.channels_first(n[0]) if last else n[0]
    wide = tuple(b.convert(v, f32) for v in (x, n[1], n[2]))
    op = GroupNormalization(n.integer("groups"), n.number("epsilon", 1e-5))
    y = b.add(op, *wide)
    if n.integer("activation"):
        y = b.add(Swish(), y)
    y = b.convert(y, b.dtype(x))
    return b.channels_last(y) if last else y


@rule("MatMulNBits", "1", MICROSOFT)
def matmul_bits(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A times the transposed B (N, K), in blocks of K: (packed integers - zero points) * scales."""
    rows, depth = n.integer("N"), n.integer("K")
    bits, block = n.integer("bits", 4), n.integer("block_size")
    n.accept("accuracy_level")
    if bits not in (2, 4, 8):
        raise Refusal(f"bits={bits} is not covered")
    if n.input(4) is not None:
        raise Refusal("g_idx is not covered")
    count, dtype = -(-depth // block), ELEMENT_TYPES[f"u{bits}"]
    packed = b.need(n[1], "B").reshape(rows, count, -1)
    values = _unpacked(packed, bits)[..., :block]
    real = b.dtype(n[0])
    scale = b.convert(b.reshape(n[2], (rows, count, 1)), real)
    zero = _zero_points(n, b, bits, (rows, count))
    weights = compressed(b, b.const(np.ascontiguousarray(values), dtype), zero, scale)
    weights = b.keep(Reshape(special_zero=False), weights, b.ints(rows, count * block))
    if count * block != depth:
        raise Refusal(f"K={depth} is no multiple of block_size={block}")
    return b.plus(b.add(MatMul(transpose_b=True), n[0], weights), n.input(5))


def _unpacked(packed: Array, bits: int) -> Array:
    """Return the integers of bytes, the low bits first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts: Array = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)


def _zero_points(n: OnnxNode, b: ImportBuilder, bits: int, size: tuple[int, int]) -> Value:
    """Return the zero points (N, blocks, 1) as real numbers, the middle without them."""
    rows, count = size
    real = b.dtype(n[0])
    if n.input(3) is None:
        return b.scalar(1 << (bits - 1), real)
    if b.dtype(n[3]).is_real:
        return b.reshape(b.convert(n[3], real), (rows, count, 1))
    values = _unpacked(b.need(n[3], "zero_points").reshape(rows, -1), bits)[:, :count]
    made = b.const(np.ascontiguousarray(values[..., None]), ELEMENT_TYPES[f"u{bits}"])
    return b.convert(made, real)


def _real(n: OnnxNode, b: ImportBuilder, at: int) -> Value:
    """Return the real numbers of three inputs: integers, scale, zero point."""
    return dequantized(b, n[at], n[at + 1], n.input(at + 2))


def _back(n: OnnxNode, b: ImportBuilder, y: Value, at: int, like: Value) -> Value:
    """Return a result on the grid of two inputs: scale, zero point."""
    zero = n.input(at + 1)
    if zero is None:
        zero = b.scalar(0, b.dtype(like))
    return quantized(b, y, n[at], zero)


def _on_grid(
    type: str, compute: Callable[[OnnxNode, ImportBuilder, Sequence[Value]], Value], *inputs: int
) -> None:
    """Register an operation of the real numbers of inputs; the result's grid follows them."""

    def apply(n: OnnxNode, b: ImportBuilder) -> Outputs:
        y = compute(n, b, [_real(n, b, at) for at in inputs])
        return _back(n, b, y, inputs[-1] + 3, n[inputs[0]])

    rule(type, "1", MICROSOFT)(apply)


def _softmax(n: OnnxNode, b: ImportBuilder, x: Value) -> Value:
    """exp(x) over its sum along one axis; with an `opset` below 13 along all axes from it on."""
    axis = n.axis(b, n[0], default=-1)
    if n.integer("opset") < 13 and axis != b.rank(x) - 1:
        raise Refusal("softmax over several axes is not covered")
    return b.add(SoftMax(axis), x)


def _pooled(n: OnnxNode, b: ImportBuilder, x: Value, pool: Callable[..., Outputs]) -> Value:
    """Pool real numbers, channels last or not."""
    last, given = n.flag("channels_last", False), n.inputs
    n.inputs = (b.channels_first(x) if last else x,)
    y = pool(n, b)
    n.inputs = given
    assert isinstance(y, Value)
    return b.channels_last(y) if last else y


def _mean(n: OnnxNode, b: ImportBuilder, x: Value) -> Value:
    axes = n.ints("axes") or tuple(range(b.rank(x)))
    return b.add(ReduceMean(keep_dims=n.flag("keepdims", True)), x, b.ints(*axes))


_on_grid("QLinearAdd", lambda n, b, v: b.plus(*v), 0, 3)
_on_grid("QLinearMul", lambda n, b, v: b.mul(*v), 0, 3)
_on_grid("QLinearWhere", lambda n, b, v: b.select(n[0], *v), 1, 4)
_on_grid("QLinearSigmoid", lambda n, b, v: b.add(Sigmoid(), *v), 0)
_on_grid("QLinearLeakyRelu", lambda n, b, v: _leaky(b, *v, n.number("alpha", 0.01)), 0)
_on_grid("QLinearSoftmax", lambda n, b, v: _softmax(n, b, *v), 0)
_on_grid("QLinearReduceMean", lambda n, b, v: _mean(n, b, *v), 0)
_on_grid("QLinearAveragePool", lambda n, b, v: _pooled(n, b, v[0], average_pool), 0)
_on_grid("QLinearGlobalAveragePool", lambda n, b, v: _pooled(n, b, v[0], global_pool), 0)


@rule("QLinearConcat", "1", MICROSOFT)
def concat(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Join along an axis; the result's scale and zero point come first."""
    parts = [_real(n, b, at) for at in range(2, len(n.inputs), 3)]
    joined = b.add(Concat(n.axis(b, parts[0])), *parts)
    return _back(n, b, joined, 0, n[2])


@rule("MatMulIntegerToFloat", "1", MICROSOFT)
def matmul_to_float(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(A - a_zero_point) (B - b_zero_point) times both scales, plus a bias."""
    sums = b.convert(product(b, n[0], n[1], (n.input(4), n.input(5))), b.dtype(n[2]))
    y = b.mul(sums, b.mul(n[2], n[3]))
    return b.plus(y, n.input(6))


@rule("DynamicQuantizeMatMul", "1", MICROSOFT)
def dynamic_matmul(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A is put on a grid of u8 that fits its values; then as MatMulIntegerToFloat."""
    a, scale, zero = dynamic(b, n[0])
    sums = b.convert(product(b, a, n[1], (zero, n.input(3))), f32)
    y = b.mul(sums, b.mul(scale, n[2]))
    return b.plus(y, n.input(4))


def dynamic(b: ImportBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Return u8 numbers, their scale and their zero point, from the range of x and 0."""
    every, zero = b.ints(*range(b.rank(x))), b.like(0, x)
    low = b.add(Minimum(), b.add(ReduceMin(keep_dims=False), x, every), zero)
    high = b.add(Maximum(), b.add(ReduceMax(keep_dims=False), x, every), zero)
    scale = b.div(b.sub(high, low), b.like(255, x))
    # If every number is 0, any scale will do.
    scale = b.select(b.add(Equal(), scale, zero), b.like(1, x), scale)
    place = b.add(Round("half_to_even"), b.div(b.sub(zero, low), scale))
    point = b.convert(b.add(Clamp(0.0, 255.0), place), u8)
    return quantized(b, x, scale, point), scale, point
