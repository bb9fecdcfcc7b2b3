"""Operations of com.microsoft, which ONNX Runtime's optimizer writes, and of ai.onnx.ml.

A quantized operation becomes a conversion to real numbers, the operation, and a rounding to its
grid. Of ai.onnx.ml: scaling, linear models, trees and support vector machines. All trees are walked
at once. ONNX Runtime settles what ONNX leaves open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from irdeconv.base.errors import attribute_error
from irdeconv.formats.importing import (
    ACTIVATIONS,
    ImportBuilder,
    Refusal,
    by_numbers,
    named_operations,
)
from irdeconv.formats.onnx_convolution import average_pool, conv, global_pool, max_pool
from irdeconv.formats.onnx_elementwise import compressed, dequantized, product, quantized
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule
from irdeconv.formats.onnx_normalization import general_product, root_mean_square
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32, f64, i64, string, u8
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Array
from irdeconv.ops import elementwise, reduction
from irdeconv.ops.activation import Clamp, Gelu, Sigmoid, SoftMax, Swish
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput
from irdeconv.ops.channels import Split
from irdeconv.ops.control import Loop
from irdeconv.ops.elementwise import Greater, GreaterEqual, Power, Tanh
from irdeconv.ops.indexing import GatherElements, TopK
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Broadcast, Concat, Reshape, Transpose, Unsqueeze
from irdeconv.ops.reduction import ReduceL1, ReduceL2, ReduceMax
from irdeconv.ops.slicing import Slice

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
    y, parameters = b.plus(conv(n, b), n.input(3)), n.numbers("activation_params")
    return activated(b, y, n.text("activation", ""), parameters)


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
        y = b.add(reduction.MVN(normalize_variance=True, eps=epsilon), wide, last)
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
    op = reduction.GroupNormalization(n.integer("groups"), n.number("epsilon", 1e-5))
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
    if count * block != depth:  # the last block is padded
        weights = b.keep(Slice(), weights, *map(b.ints, (0, depth, 1, 1)))
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
    # ONNX Runtime multiplies by the whole part of 1 / scale.
    scale = n[3]
    whole = b.add(elementwise.Floor(), b.div(b.like(1, scale), scale))
    return b.mul(b.add(SoftMax(axis), x), b.mul(whole, scale))


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
    return b.add(reduction.ReduceMean(keep_dims=n.flag("keepdims", True)), x, b.ints(*axes))


_on_grid("QLinearAdd", lambda n, b, v: b.plus(*v), 0, 3)
_on_grid("QLinearMul", lambda n, b, v: b.mul(*v), 0, 3)
_on_grid("QLinearWhere", lambda n, b, v: b.select(n[0], *v), 1, 4)
_on_grid("QLinearSigmoid", lambda n, b, v: b.add(Sigmoid(), *v), 0)
_on_grid("QLinearLeakyRelu", lambda n, b, v: _leaky(b, *v, n.number("alpha", 0.01)), 0)
_on_grid("QLinearSoftmax", lambda n, b, v: _softmax(n, b, *v), 0)
_on_grid("QLinearReduceMean", lambda n, b, v: _mean(n, b, *v), 0)
_on_grid("QLinearAveragePool", lambda n, b, v: _pooled(n, b, v[0], average_pool), 0)
_on_grid("QLinearGlobalAveragePool", lambda n, b, v: _pooled(n, b, v[0], global_pool), 0)


rule("NhwcMaxPool", "1", MICROSOFT)(
    lambda n, b: b.channels_last(_pooled(n, b, b.channels_first(n[0]), max_pool))
)


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
    low = b.add(elementwise.Minimum(), b.add(reduction.ReduceMin(keep_dims=False), x, every), zero)
    high = b.add(elementwise.Maximum(), b.add(ReduceMax(keep_dims=False), x, every), zero)
    scale = b.div(b.sub(high, low), b.like(255, x))
    # If every number is 0, any scale will do.
    scale = b.select(b.add(elementwise.Equal(), scale, zero), b.like(1, x), scale)
    place = b.add(elementwise.Round("half_to_even"), b.div(b.sub(zero, low), scale))
    point = b.convert(b.add(Clamp(0.0, 255.0), place), u8)
    return quantized(b, x, scale, point), scale, point


ML = "ai.onnx.ml"
# OpenVINO's plugin takes NaN for the greater one on processors with AVX-512, so GTE and GT compare
# the other way round.
_COMPARISONS = "LEQ=LessEqual LT=Less GTE=LessEqual GT=Less EQ=Equal NEQ=NotEqual"
_TURNED = ("BRANCH_GTE", "BRANCH_GT")
COMPARISONS = {f"BRANCH_{word}": op for word, op in named_operations(_COMPARISONS)}
DEEPEST_TREE = 128  # levels, of which each becomes some ten operations


def _numbers(n: OnnxNode, b: ImportBuilder, name: str, *shape: int) -> Value:
    return b.const(np.array(n.numbers(name), np.float32).reshape(shape or (-1,)))


def _rows(n: OnnxNode, b: ImportBuilder) -> Value:
    """Return the data (N, features); a vector is one row."""
    return n[0] if b.rank(n[0]) > 1 else b.reshape(n[0], (1, -1))


rule("ArrayFeatureExtractor", "1", ML)(  # along the last axis
    lambda n, b: b.take(_rows(n, b), b.reshape(n[1], (-1,)), -1)
)


@rule("Binarizer", "1", ML)
def binarizer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 if x is above the threshold, else 0."""
    above = b.add(Greater(), n[0], b.like(n.number("threshold", 0.0), n[0]))
    return b.select(above, b.like(1, n[0]), b.like(0, n[0]))


@rule("Scaler", "1", ML)
def scaler(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(x - offset) * scale, numbers for all features or one for each."""
    centred = b.sub(b.convert(n[0], f32), _numbers(n, b, "offset"))
    return b.mul(centred, _numbers(n, b, "scale"))


@rule("Normalizer", "1", ML)
def normalizer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Divide rows by their maximum or norm, unless it is 0."""
    x, norms = b.convert(n[0], f32), {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}
    size = b.add(n.meaning("norm", "MAX", norms)(keep_dims=True), x, b.ints(-1))
    empty = b.add(elementwise.Equal(), size, b.like(0, size))
    return b.div(x, b.select(empty, b.like(1, size), size))


@rule("ZipMap", "1", ML)
def zip_map(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The probabilities as they are: a tensor instead of a sequence of maps by label."""
    n.accept("classlabels_int64s", "classlabels_strings")
    n.remarks.append("the output is the tensor of probabilities; ONNX Runtime returns maps of them")
    return n[0]


def _after(n: OnnxNode, b: ImportBuilder, y: Value) -> Value:
    ops = {"NONE": None, "LOGISTIC": Sigmoid(), "SOFTMAX": SoftMax(1)}
    op = n.meaning("post_transform", "NONE", ops)
    return y if op is None else b.add(op, y)


def _labels(n: OnnxNode, b: ImportBuilder, integers: str) -> Value:
    texts, numbers = n.texts("classlabels_strings"), n.ints(integers)
    return b.const(np.array(texts, object), string) if texts else b.ints(*numbers)


def _best(b: ImportBuilder, labels: Value, scores: Value) -> Value:
    """Return the label of the highest score, of equal ones the first."""
    place = b.outputs(TopK(1, "max", "value", True, i64), scores, b.scalar(1))[1]
    return b.take(labels, b.squeeze(place, 1), 0)


def _classified(n: OnnxNode, b: ImportBuilder, y: Value, labels: Value, *ends: float) -> Outputs:
    """Return labels and scores; of two classes by the second's score: its threshold, both's sum."""

    def both(total: float) -> Value:
        return b.add(Concat(1), b.sub(b.like(total, y), y), y)

    count, columns = b.size(labels, 0), b.size(y, 1)
    if (columns, count) == (1, 2):
        logistic = n.choice("post_transform", "NONE SOFTMAX LOGISTIC") == "LOGISTIC"
        scores = b.add(Sigmoid(), both(0)) if logistic else both(ends[1])
        return _best(b, labels, both(2 * ends[0])), scores
    if columns != count or count < 2:
        raise Refusal(f"{columns} scores for {count} labels")
    return _best(b, labels, y), _after(n, b, y)


def _linear(n: OnnxNode, b: ImportBuilder, rows: int) -> Value:
    x, weights = b.convert(_rows(n, b), f32), _numbers(n, b, "coefficients", rows, -1)
    y = b.add(MatMul(transpose_b=True), x, weights)
    return b.plus(y, _numbers(n, b, "intercepts")) if n.numbers("intercepts") else y


rule("LinearRegressor", "1", ML)(lambda n, b: _after(n, b, _linear(n, b, n.integer("targets", 1))))


@rule("LinearClassifier", "1", ML)
def linear_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels and scores: linear functions of the features, one for each class or of the second."""
    n.accept("multi_class")
    labels = _labels(n, b, "classlabels_ints")
    y = _linear(n, b, len(n.numbers("intercepts")) or b.size(labels, 0))
    return _classified(n, b, y, labels, 0, 1)


def _votes(n: OnnxNode, b: ImportBuilder, kind: str, columns: int) -> tuple[Value, Array]:
    """Return the sums (N, columns) of the weights of the leaves that rows reach; all weights."""
    n.accept("nodes_hitrates")
    trees, modes = n.ints("nodes_treeids"), n.texts("nodes_modes")
    given = {f"nodes_{k}": n.ints(f"nodes_{k}") for k in ("nodeids", "truenodeids", "falsenodeids")}
    for key, values in {**given, "nodes_modes": modes}.items():
        if len(values) != len(trees):
            raise attribute_error(key, f"{key} has {len(values)} values for {len(trees)} nodes")
    number = {key: at for at, key in enumerate(zip(trees, n.ints("nodes_nodeids"), strict=True))}
    leaf, nexts = np.array(modes) == "LEAF", []
    for side in ("nodes_truenodeids", "nodes_falsenodeids"):
        nodes = enumerate(zip(leaf, trees, n.ints(side), strict=True))
        # A leaf follows itself.
        nexts.append(np.array([at if end else number[t, to] for at, (end, t, to) in nodes]))
    level = np.setdiff1d(np.arange(leaf.size), [side[~leaf] for side in nexts])
    step, depth = _step(n, b, nexts), 0
    rows = b.take(b.shape_of(_rows(n, b)), b.ints(0), 0)
    place = b.add(Broadcast("numpy"), b.const(level), b.add(Concat(0), rows, b.ints(level.size)))
    while (level := level[~leaf[level]]).size:
        if (depth := depth + 1) > DEEPEST_TREE:
            raise Refusal(f"trees of more than {DEEPEST_TREE} levels")
        place, level = step(place), np.unique([side[level] for side in nexts])
    weights = np.zeros((leaf.size, columns), np.float32)
    keys = zip(n.ints(f"{kind}_treeids"), n.ints(f"{kind}_nodeids"), strict=True)
    cells = [number[key] for key in keys], list(n.ints(f"{kind}_ids"))
    leaves = Counter(zip(trees, modes, strict=True))
    votes = Counter(zip(n.ints(f"{kind}_treeids"), cells[1], strict=True))
    partial = any(count != leaves[tree, "LEAF"] for (tree, _), count in votes.items())
    if partial and (n.numbers("base_values") or min(n.numbers(f"{kind}_weights")) < 0):
        raise Refusal("leaves of one tree with weights of different classes or targets")
    np.add.at(weights, cells, n.numbers(f"{kind}_weights"))
    if n.choice("aggregate_function", "SUM AVERAGE") == "AVERAGE":
        weights /= len(set(trees))
    found = b.take(b.const(weights), place, 0)
    y = b.add(reduction.ReduceSum(keep_dims=False), found, b.ints(1))
    base = _numbers(n, b, "base_values") if n.numbers("base_values") else None
    return b.plus(y, base), weights


def _step(n: OnnxNode, b: ImportBuilder, nexts: Sequence[Array]) -> Callable[[Value], Value]:
    """Return the function from nodes (N, trees) to those that follow."""
    kinds = {*n.texts("nodes_modes")} - {"LEAF"}
    if len(kinds) > 1:
        raise Refusal(f"the comparisons {', '.join(sorted(kinds))} in one ensemble")
    wide = f64 if b.dtype(n[0]) == f64 else f32
    x, edges = (b.convert(v, wide) for v in (_rows(n, b), _numbers(n, b, "nodes_values")))
    missing = np.array(n.ints("nodes_missing_value_tracks_true"), bool)
    feature = b.ints(*n.ints("nodes_featureids"))
    tables = [edges, *map(b.const, nexts), b.const(missing)]

    def step(place: Value) -> Value:
        def of(table: Value) -> Value:
            return b.take(table, place, 0)

        found = b.add(GatherElements(1), x, of(feature))
        sides = (found, of(tables[0]))[:: -1 if min(kinds) in _TURNED else 1]
        goes = b.add(COMPARISONS[min(kinds)], *sides)
        if missing.any():
            lost = b.add(elementwise.LogicalAnd(), b.add(elementwise.IsNaN(), found), of(tables[3]))
            goes = b.add(elementwise.LogicalOr(), goes, lost)
        return b.select(goes, of(tables[1]), of(tables[2]))

    return step


rule("TreeEnsembleRegressor", "1 3", ML)(
    lambda n, b: _after(n, b, _votes(n, b, "target", n.integer("n_targets", 1))[0])
)


@rule("TreeEnsembleClassifier", "1 3", ML)
def tree_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels and scores: sums of the trees' weights, of each class or the second of two."""
    labels, classes = _labels(n, b, "classlabels_int64s"), set(n.ints("class_ids"))
    count, base = b.size(labels, 0), len(n.numbers("base_values"))
    columns = 1 if count == 2 else count
    if classes != set(range(columns)) or base not in (0, columns):
        raise Refusal("systems differ in labels for these class_ids and base_values")
    y, weights = _votes(n, b, "class", columns)
    return _classified(n, b, y, labels, *((0.5, 1) if (weights >= 0).all() else (0, 0)))


def _kernel(n: OnnxNode, b: ImportBuilder, vectors: Array, kind: str) -> Value:
    """Return the kernel's values (N, vectors) of the rows and the support vectors."""
    x = b.convert(_rows(n, b), f32)
    gamma, start, degree = n.numbers("kernel_params") or (0.0, 0.0, 0.0)
    if kind == "RBF":
        apart = b.add(elementwise.SquaredDifference(), b.unsqueeze(x, 1), b.const(vectors))
        squares = b.add(reduction.ReduceSum(keep_dims=False), apart, b.ints(2))
        return b.add(elementwise.Exp(), b.times(squares, -gamma))
    y = b.add(MatMul(transpose_b=True), x, b.const(vectors))
    if kind == "LINEAR":
        return y
    y = b.plus(b.times(y, gamma), b.like(start, y))
    return b.add(Tanh(), y) if kind == "SIGMOID" else b.add(Power(), y, b.like(degree, y))


def _support(n: OnnxNode, b: ImportBuilder, count: int, rows: int) -> tuple[Value, Array]:
    """Return the kernel's values and the coefficients (rows, vectors).

    Without support vectors the coefficients take their place, and the kernel is linear.
    """
    kind = n.choice("kernel_type", "LINEAR POLY RBF SIGMOID")
    numbers = np.array(n.numbers("coefficients"), np.float32).reshape(rows, -1)
    if not count:
        return _kernel(n, b, numbers, "LINEAR"), numbers
    vectors = np.array(n.numbers("support_vectors"), np.float32).reshape(count, -1)
    return _kernel(n, b, vectors, kind), numbers


@rule("SVMRegressor", "1", ML)
def svm_regressor(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The kernel's values times the coefficients, + rho; 1 or -1 by its sign for one class."""
    n.only("post_transform", "NONE")
    count = n.integer("n_supports")
    y, numbers = _support(n, b, count, 1)
    if count:
        y = b.add(MatMul(transpose_b=True), y, b.const(numbers))
    y = b.plus(y, b.like(n.numbers("rho")[0], y))
    if not n.flag("one_class", False):
        return y
    return b.select(b.add(Greater(), y, b.like(0, y)), b.like(1, y), b.like(-1, y))


@rule("SVMClassifier", "1", ML)
def svm_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels by the votes of all pairs of classes; scores of pairs, or probabilities of classes.

    Without support vectors each class has a linear score, and the highest one decides.
    """
    labels, counts = _labels(n, b, "classlabels_ints"), n.ints("vectors_per_class")
    classes, total = b.size(labels, 0), sum(counts)
    if classes < 2 or (total and len(counts) != classes):
        raise Refusal(f"{len(counts)} numbers of vectors_per_class for {classes} labels")
    values, numbers = _support(n, b, total, classes - 1 if total else classes)
    if not total:
        y = b.plus(values, b.like(n.numbers("rho")[0], values))
        return _highest(n, b, labels, y, positive=bool((numbers >= 0).all())), _after(n, b, y)
    y, votes = _pairs(n, b, values, numbers, counts)
    if n.numbers("prob_a"):
        scores = _after(n, b, _probabilities(n, b, y, classes))
    elif classes > 2:
        scores = _after(n, b, y)
    else:
        post = n.choice("post_transform", "NONE SOFTMAX LOGISTIC")
        scores = b.add(Concat(1), b.sub(b.like(post == "SOFTMAX", y), y), y)
        scores = b.add(Sigmoid(), scores) if post == "LOGISTIC" else scores
    return _best(b, labels, votes), scores


def _highest(n: OnnxNode, b: ImportBuilder, labels: Value, y: Value, *, positive: bool) -> Value:
    """Return the label of the highest score; of two classes the second's beyond a threshold."""
    best = _best(b, labels, y)
    n.accept("prob_b")
    if b.size(labels, 0) != 2 or n.numbers("prob_a"):
        return best
    top, op = b.add(ReduceMax(keep_dims=False), y, b.ints(1)), (Greater, GreaterEqual)[positive]
    second = b.take(labels, b.scalar(1), 0)
    return b.select(b.add(op(), top, b.like(positive / 2, top)), second, best)


def _each_pair(n: OnnxNode, b: ImportBuilder, name: str, pairs: int) -> Value:
    """Return numbers of pairs of classes."""
    if len(n.numbers(name)) < pairs:
        raise Refusal(f"{len(n.numbers(name))} numbers of {name} for {pairs} pairs of classes")
    return b.const(np.array(n.numbers(name)[:pairs], np.float32))


def _pairs(
    n: OnnxNode, b: ImportBuilder, values: Value, numbers: Array, counts: Sequence[int]
) -> tuple[Value, Value]:
    """Return the scores (N, pairs) of classes i < j, and the votes (N, classes).

    Row j - 1 of the coefficients has those of class i against j, row i those of j against i.
    """
    ends, pairs = np.cumsum((0, *counts)), list(combinations(range(len(counts)), 2))
    weights = np.zeros((len(pairs), int(ends[-1])))
    wins, losses = np.zeros((2, len(pairs), len(counts)), np.float32)
    for at, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            weights[at, part] = numbers[row, part]
        wins[at, i] = losses[at, j] = 1
    # ONNX Runtime adds in f64.
    y = b.add(MatMul(transpose_b=True), b.convert(values, f64), b.const(weights))
    y = b.plus(y, b.convert(_each_pair(n, b, "rho", len(pairs)), f64))
    first = b.convert(b.add(Greater(), y, b.like(0, y)), f32)
    second = b.sub(b.like(1, first), first)
    votes = (b.add(MatMul(), v, b.const(w)) for v, w in ((first, wins), (second, losses)))
    return b.convert(y, f32), b.plus(*votes)


def _probabilities(n: OnnxNode, b: ImportBuilder, y: Value, classes: int) -> Value:
    """Return the probabilities p (N, classes) that fit those of the pairs, r.

    They minimise the sum over pairs of (r_ji p_i - r_ij p_j)^2, which is p'Qp, by steps along one
    class after another (Wu, Lin and Weng 2004).
    """
    count = classes * (classes - 1) // 2
    z = b.mul(y, _each_pair(n, b, "prob_a", count))
    z = b.add(Sigmoid(), b.plus(z, _each_pair(n, b, "prob_b", count)))
    won = b.add(Clamp(1e-7, 1 - 1e-7), b.sub(b.like(1, z), z))
    each = b.add(Concat(1), won, b.sub(b.like(1, won), won), b.times(won, 0))
    pairs = list(combinations(range(classes), 2))
    place = np.full((classes, classes), 2 * len(pairs))
    for at, (i, j) in enumerate(pairs):
        place[i, j], place[j, i] = at, at + len(pairs)
    r, transposed = (b.take(each, b.const(v), 1) for v in (place, place.T))
    squares = b.add(reduction.ReduceSum(keep_dims=True), b.mul(r, r), b.ints(1))
    unit = b.const(np.eye(classes, dtype=np.float32))
    q = b.sub(b.mul(squares, unit), b.mul(r, transposed))
    nothing = b.take(b.times(q, 0), b.ints(0), 1)
    start = b.plus(nothing, b.like(1 / classes, q))
    body = _coupling(b, q, start)
    p = b.add(Loop(bodies=(body,)), b.scalar(100), b.const(np.array(True)), start, q)
    return b.squeeze(p, 1)


def _coupling(b: ImportBuilder, q: Value, start: Value) -> Body:
    """Return a round of steps of p (N, 1, classes) along each class, with Q (N, classes, classes).

    Rows of the batch whose error is small keep p: their steps are 0. Without others it is over.
    """
    inner, classes = b.inner(b.source.name), b.size(q, 2)
    p, q = (inner.stand_in(*pair) for pair in (("p", b.spec(start)), ("q", b.spec(q))))
    entries = (BodyInput(p.node, 2), BodyInput(q.node, 3))

    first, f = p, inner.add(MatMul(), p, q)
    s = inner.add(MatMul(transpose_b=True), p, f)
    error = inner.add(elementwise.Abs(), inner.sub(f, s))
    error = inner.add(ReduceMax(keep_dims=True), error, inner.ints(2))
    going = inner.add(GreaterEqual(), error, inner.like(0.005 / classes, s))
    for i in range(classes):
        row = inner.take(q, inner.ints(i), 1)
        own, slope = (inner.take(v, inner.ints(i), 2) for v in (row, f))
        step = inner.div(inner.sub(s, slope), own)
        step = inner.select(going, step, inner.like(0, s))
        total = inner.plus(inner.like(1, s), step)
        gain = inner.plus(inner.mul(step, own), inner.times(slope, 2))
        s = inner.plus(s, inner.mul(step, gain))
        s = inner.div(inner.div(s, total), total)
        f = inner.div(inner.plus(f, inner.mul(step, row)), total)
        unit = inner.const(np.eye(classes, dtype=np.float32)[i])
        p = inner.div(inner.plus(p, inner.mul(step, unit)), total)
    more = inner.add(reduction.ReduceLogicalOr(keep_dims=False), going, inner.ints(0, 1, 2))
    for name, value in (("more", more), ("next", p)):
        inner.result(value, name)
    condition, after = (n.id for n in inner.graph.results)
    inner.finish()
    outputs = BodyOutput(condition, condition=True), BodyOutput(after, 0)
    return Body(inner.graph, entries, outputs, ((after, first.node),))
