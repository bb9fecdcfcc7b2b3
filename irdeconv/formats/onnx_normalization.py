"""ONNX's normalizations, softmax, matrix products, reductions and cumulative sums."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from irdeconv.formats.importing import ImportBuilder, OpenSizeRefusal, Refusal
from irdeconv.formats.onnx_elementwise import limits
from irdeconv.formats.onnx_node import OnnxNode, Outputs, plain, rule
from irdeconv.ir.dtypes import f32, i32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import is_static
from irdeconv.ops import indexing, reduction
from irdeconv.ops.activation import LogSoftmax, SoftMax
from irdeconv.ops.elementwise import Equal, Exp, IsFinite, Log, Sqrt
from irdeconv.ops.indexing import GatherND as GatherNDOp
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Squeeze1


@rule("BatchNormalization", "1 6 7 9 14 15")
def batch_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(x - mean) / sqrt(var + epsilon) * scale + bias with the given statistics."""
    training = n.flag("training_mode", False)
    n.only("spatial", 1)
    if n.version < 7 and not n.integer("is_test", 0):
        raise Refusal("is_test=0 is training; only inference is covered")
    momentum = n.number("momentum", 0.9)
    if training:
        return _trained(n, b, momentum)
    if any(n.wants(i) for i in range(1, len(n.outputs))):
        raise Refusal("outputs beyond the first are those of training")
    inputs = tuple(n[i] for i in range(5))
    types = [b.dtype(v) for v in inputs]
    if len(set(types)) > 1:
        # The statistics may be wider than the data: computed in f32, rounded once.
        if not all(t.name in ("f16", "bf16", "f32") for t in types):
            raise Refusal(f"inputs of types {', '.join(str(t) for t in types)}")
        inputs = tuple(b.convert(v, f32) for v in inputs)
    y = b.add(reduction.BatchNormInference(epsilon=n.number("epsilon", 1e-5)), *inputs)
    return b.convert(y, types[0])


def _trained(n: OnnxNode, b: ImportBuilder, momentum: float) -> Outputs:
    """Normalize with the data's own statistics; the running ones move towards these."""
    x, axes = b.convert(n[0], f32), b.ints(0, *range(2, b.rank(n[0])))
    mean = b.add(reduction.ReduceMean(keep_dims=True), x, axes)
    centred = b.sub(x, mean)
    variance = b.add(reduction.ReduceMean(keep_dims=True), b.mul(centred, centred), axes)
    own = [b.reshape(v, (-1,)) for v in (mean, variance)]
    given = [b.convert(n[i], f32) for i in (1, 2)]
    y = b.add(reduction.BatchNormInference(epsilon=n.number("epsilon", 1e-5)), x, *given, *own)
    moved = []
    for before, now in zip((n[3], n[4]), own, strict=True):
        kept = b.mul(before, b.like(momentum, before))
        new = b.mul(b.convert(now, b.dtype(before)), b.like(1 - momentum, before))
        moved.append(b.plus(kept, new))
    return (b.convert(y, b.dtype(n[0])), *moved)


@rule("InstanceNormalization", "1 6 22")
def instance_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Standardize each channel of each batch element, then * scale + bias."""
    x, rank = n[0], b.rank(n[0])
    op = reduction.MVN(normalize_variance=True, eps=n.number("epsilon", 1e-5))
    y = b.add(op, x, b.ints(*range(2, rank)))
    scale, bias = (b.per_channel(n[i], rank - 2) for i in (1, 2))
    return b.plus(b.mul(y, scale), bias)


def _wide(n: OnnxNode, b: ImportBuilder, x: Value) -> Value:
    """Return the data in the type in which statistics are computed."""
    stash = n.integer("stash_type", 1)
    if stash != 1:
        raise Refusal(f"stash_type={stash}: only FLOAT is covered")
    if b.dtype(x).name not in ("f32", "f16", "bf16"):
        raise Refusal(f"{b.dtype(x)} data would be rounded to f32 first")
    return b.convert(x, f32)


def _over_last(n: OnnxNode, b: ImportBuilder) -> tuple[Value, Value, float]:
    """Return the data in a wide type, the axes from `axis` on, epsilon."""
    first, wide = n.axis(b, n[0], default=-1), _wide(n, b, n[0])
    return wide, b.ints(*range(first, b.rank(n[0]))), n.number("epsilon", 1e-5)


def root_mean_square(b: ImportBuilder, x: Value, axes: Value, epsilon: float) -> Value:
    """Return the root of the mean square and epsilon."""
    mean = b.add(reduction.ReduceMean(keep_dims=True), b.mul(x, x), axes)
    return b.add(Sqrt(), b.plus(mean, b.like(epsilon, mean)))


@rule("LayerNormalization", "17")
def layer_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Standardize over the axes from `axis` on, then * scale + bias; mean and 1 / deviation."""
    x, (wide, axes, epsilon) = n[0], _over_last(n, b)
    if not n.wants(1) and not n.wants(2):
        y = b.add(reduction.MVN(normalize_variance=True, eps=epsilon), wide, axes)
        return b.plus(b.mul(b.convert(y, b.dtype(x)), n[1]), n.input(2))
    mean = b.add(reduction.ReduceMean(keep_dims=True), wide, axes)
    centred = b.sub(wide, mean)
    root = root_mean_square(b, centred, axes, epsilon)
    inverse = b.div(b.like(1, root), root)
    y = b.convert(b.mul(centred, inverse), b.dtype(x))
    return b.plus(b.mul(y, n[1]), n.input(2)), mean, inverse


@rule("RMSNormalization", "23")
def rms_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Divide by the root of the mean square over the axes from `axis` on, then * scale."""
    wide, axes, epsilon = _over_last(n, b)
    root = root_mean_square(b, wide, axes, epsilon)
    return b.mul(b.convert(b.div(wide, root), b.dtype(n[0])), n[1])


@rule("GroupNormalization", "21")
def group_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Standardize groups of channels, then * scale + bias for each channel."""
    x = n[0]
    groups, epsilon = n.integer("num_groups"), n.number("epsilon", 1e-5)
    wide = tuple(b.convert(v, f32) for v in (_wide(n, b, x), n[1], n[2]))
    return b.convert(b.add(reduction.GroupNormalization(groups, epsilon), *wide), b.dtype(x))


@rule("MeanVarianceNormalization", "9 13")
def mean_variance_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(x - mean) / (standard deviation + 1e-9) over `axes`."""
    op = reduction.MVN(normalize_variance=True, eps=1e-9, eps_mode="outside_sqrt")
    return b.add(op, n[0], b.ints(*n.ints("axes", (0, 2, 3))))


@rule("Softmax LogSoftmax", "1 11 13")
def softmax(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Along one axis; before version 13 along all axes from `axis` on, flattened."""
    x, old = n[0], n.version < 13
    axis = n.axis(b, x, default=1 if old else -1)
    op = SoftMax if n.type == "Softmax" else LogSoftmax
    if not old or axis == b.rank(x) - 1:
        return b.add(op(axis), x)
    flat = b.add(op(1), b.flatten(x, axis))
    return b.reshape(flat, b.shape_of(x))


@rule("Hardmax", "1 11 13")
def hardmax(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 at the first maximum along the axis (before version 13: flattened), else 0."""
    x, old = n[0], n.version < 13
    axis = n.axis(b, x, default=1 if old else -1)
    flat = b.flatten(x, axis) if old else x
    axis = 1 if old else axis
    places = b.outputs(indexing.TopK(axis, "max", "value", True, i64), flat, b.scalar(1))[1]
    size = b.size(flat, axis)
    places = b.squeeze(places, axis)
    y = b.add(indexing.OneHot1(axis), places, b.scalar(size), b.like(1, x), b.like(0, x))
    return b.reshape(y, b.shape_of(x)) if old else y


plain("MatMul", "1 9 13", MatMul(), inputs=2)


@rule("Gemm", "1 6 7 9 11 13")
def gemm(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """alpha * A * B + beta * C, A and B perhaps transposed, C broadcast."""
    n.accept("broadcast")  # before version 7: otherwise C has the full shape
    return general_product(n, b)


def general_product(n: OnnxNode, b: ImportBuilder) -> Value:
    """Return alpha * A * B + beta * C of matrices."""
    for letter, v in (("A", n[0]), ("B", n[1])):
        shape = b.spec(v).shape
        if shape is not None and len(shape) != 2:
            raise Refusal(f"{letter} has rank {len(shape)}, not 2")
    product = b.add(MatMul(n.flag("transA", False), n.flag("transB", False)), n[0], n[1])
    y = _factor(b, product, n.number("alpha", 1.0), "alpha")
    c, beta = n.input(2), n.number("beta", 1.0)
    return y if c is None else b.plus(y, _factor(b, c, beta, "beta"))


def _factor(b: ImportBuilder, x: Value, factor: float, name: str) -> Value:
    if factor == 1:
        return x
    if not b.dtype(x).is_real and not factor.is_integer():
        raise Refusal(f"{name}={factor} with integers")
    return b.mul(x, b.like(factor, x))


@rule("LpNormalization", "1 22")
def lp_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Divide by the L1 or L2 norm along an axis; 0 if the norm is 0."""
    p = n.integer("p", 2)
    if p not in (1, 2):
        raise Refusal(f"p={p} is not covered")
    x = n[0]
    op = (reduction.ReduceL1 if p == 1 else reduction.ReduceL2)(keep_dims=True)
    norm = b.add(op, x, b.ints(n.axis(b, x, default=-1)))
    zero = b.add(Equal(), norm, b.like(0, x))
    return b.div(x, b.select(zero, b.like(1, x), norm))


@rule("LRN", "1 13")
def lrn(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """x / (bias + alpha / size * sum of squares over the channels around)^beta.

    OpenVINO cuts the bias to an integer, so that it is made 1 and the result scaled.
    """
    x, size = n[0], n.integer("size")
    alpha, beta = n.number("alpha", 1e-4), n.number("beta", 0.75)
    bias, axes = n.number("bias", 1.0), b.ints(1)
    if bias.is_integer() or bias < 0:
        return b.add(reduction.LRN(alpha=alpha, beta=beta, bias=bias, size=size), x, axes)
    y = b.add(reduction.LRN(alpha=alpha / bias, beta=beta, bias=1.0, size=size), x, axes)
    return b.mul(y, b.like(bias**-beta, x))


ALL = "1 11 13 18"


def _axes(n: OnnxNode, b: ImportBuilder, *, noop: bool = False) -> Value | None:
    """Return the reduced axes; None if there are none, which is refused without `noop`."""
    nothing = n.flag("noop_with_empty_axes", False)
    axes = b.ints(*n.ints("axes")) if "axes" in n else n.input(1)
    if axes is not None:
        count = b.shape(axes)[0] if b.rank(axes) else 1
        if not isinstance(count, int):
            raise OpenSizeRefusal("axes of an unknown number")
        if count:
            return axes
    if not nothing:
        return b.ints(*range(b.rank(n[0])))
    if not noop:  # the reduction changes every element, also without axes
        raise Refusal("noop_with_empty_axes=1 without axes")
    return None


def _reduce(
    n: OnnxNode, b: ImportBuilder, op: Any, x: Value | None = None, *, noop: bool = False
) -> Value:
    x = n[0] if x is None else x
    axes = _axes(n, b, noop=noop)
    keep = n.flag("keepdims", True)
    return x if axes is None else b.add(op(keep_dims=keep), x, axes)


for _type, _versions, _op, _noop in (
    ("ReduceSum", "1 11 13", reduction.ReduceSum, True),
    ("ReduceMean", ALL, reduction.ReduceMean, True),
    ("ReduceProd", ALL, reduction.ReduceProd, True),
    ("ReduceL1", ALL, reduction.ReduceL1, False),
    ("ReduceL2", ALL, reduction.ReduceL2, False),
):
    rule(_type, _versions)(partial(_reduce, op=_op, noop=_noop))


@rule("ReduceMax ReduceMin", "1 11 12 13 18 20")
def extreme(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The largest or smallest value; of booleans or, and."""
    x, largest = n[0], n.type == "ReduceMax"
    if 0 in b.shape(x):
        return _of_nothing(n, b, largest=largest)
    if b.dtype(x).kind == "bool":
        op: Any = reduction.ReduceLogicalOr if largest else reduction.ReduceLogicalAnd
    else:
        op = reduction.ReduceMax if largest else reduction.ReduceMin
    return _reduce(n, b, op, noop=True)


def _of_nothing(n: OnnxNode, b: ImportBuilder, *, largest: bool) -> Value:
    """The extreme of an axis without elements: the end of the element type's range."""
    x, dtype = n[0], b.dtype(n[0])
    axes = _axes(n, b, noop=True)
    if axes is None:
        return x
    ends: tuple[Any, Any]
    if dtype.kind == "bool":
        ends = (False, True)
    else:
        ends = (-np.inf, np.inf) if dtype.is_real else limits(dtype)
    sums = reduction.ReduceSum(keep_dims=n.flag("keepdims", True))
    plain = b.const(np.zeros(b.static(x, "data without elements"), np.float32))
    shape = b.static(b.add(sums, plain, axes), "the result")
    value = int(ends[not largest]) if dtype.is_integral else ends[not largest]
    b.room(math.prod(shape))
    return b.const(np.full(shape, value, dtype.container), dtype)


rule("ReduceSumSquare", ALL)(lambda n, b: _reduce(n, b, reduction.ReduceSum, b.mul(n[0], n[0])))
rule("ReduceLogSum", f"{ALL} 28")(lambda n, b: b.add(Log(), _reduce(n, b, reduction.ReduceSum)))


@rule("ReduceLogSumExp", f"{ALL} 28")
def log_sum_exp(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Subtract the maximum first, if it is finite, so that nothing overflows."""
    x, axes = n[0], _axes(n, b)
    shape = b.shape(x)
    if is_static(shape) and math.prod(shape) == 0:
        return b.add(Log(), _reduce(n, b, reduction.ReduceSum, b.add(Exp(), x)))
    assert axes is not None
    top = b.add(reduction.ReduceMax(keep_dims=True), x, axes)
    top = b.select(b.add(IsFinite(), top), top, b.like(0, x))
    y = b.add(Log(), _reduce(n, b, reduction.ReduceSum, b.add(Exp(), b.sub(x, top))))
    if not n.flag("keepdims", True):
        top = b.add(Squeeze1(), top, axes)
    return b.plus(y, top)


@rule("ArgMax ArgMin", "1 11 12 13")
def arg_extreme(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The index of the extreme as i64: the first of equal ones, or the last."""
    x, last = n[0], n.flag("select_last_index", False)
    axis = n.axis(b, x)
    if last:
        x = b.slice(x, [-1], [np.iinfo(np.int64).min], [-1], [axis])
    op = indexing.TopK(axis, "max" if n.type == "ArgMax" else "min", "value", True, i64)
    places = b.outputs(op, x, b.scalar(1))[1]
    if last:
        places = b.sub(b.sub(b.size_of(x, axis), b.scalar(1)), places)
    return places if n.flag("keepdims", True) else b.squeeze(places, axis)


@rule("TopK", "1 10 11 24")
def top_k(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The k largest or smallest elements and their places; of equal ones the first comes first."""
    x = n[0]
    axis = n.axis(b, x, default=-1)
    k = b.scalar(n.integer("k")) if n.version < 10 else b.as_scalar(n[1])
    largest = n.flag("largest", True)
    n.flag("sorted", True)  # unsorted means any order
    return b.outputs(indexing.TopK(axis, "max" if largest else "min", "value", True, i64), x, k)


@rule("CumSum", "11 14")
def cum_sum(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Sums of the preceding elements."""
    flags = n.flag("exclusive", False), n.flag("reverse", False)
    return b.add(indexing.CumSum(*flags), n[0], b.as_scalar(n[1]))


@rule("OneHot", "9 11 28")
def one_hot(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """on_value at the index, off_value elsewhere; negative indices count from the end."""
    indices, depth = (
        v if b.dtype(v) in (i32, i64) else b.convert(v, i64) for v in (n[0], b.as_scalar(n[1]))
    )
    off, on = (b.take(n[2], b.scalar(i), 0) for i in (0, 1))
    return b.add(indexing.OneHot(n.integer("axis", -1), "normalize"), indices, depth, on, off)


REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _scatter(n: OnnxNode, b: ImportBuilder, op: type[Op], *last: Value) -> Value:
    made: Any = op
    reduction = n.meaning("reduction", "none", REDUCTIONS)
    return b.add(made(reduction), n[0], n[1], n[2], *last)


rule("Gather", "1 11 13")(lambda n, b: b.take(n[0], n[1], n.axis(b, n[0])))
plain("GatherElements", "11 13", lambda n, b: indexing.GatherElements(n.axis(b, n[0])), 2)
plain("GatherND", "11 12 13", lambda n, b: GatherNDOp(n.integer("batch_dims", 0)), 2)
for _type, _versions in (("Scatter", "9 11"), ("ScatterElements", "11 13 16 18")):
    rule(_type, _versions)(
        lambda n, b: _scatter(n, b, indexing.ScatterElementsUpdate, b.scalar(n.axis(b, n[0])))
    )
rule("ScatterND", "11 13 16 18")(lambda n, b: _scatter(n, b, indexing.ScatterNDUpdate))
