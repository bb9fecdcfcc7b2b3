"""Legacy element-wise layers, normalizations, poolings, reductions, and the largest elements.

Statistics are blobs. Sizes of poolings round up by default; means divide in three ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.formats.activations import ACTIVATIONS, by_numbers
from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.legacy_convolution import WindowLists, windows
from irdeconv.formats.legacy_layer import (
    Ints,
    LegacyLayer,
    Outputs,
    integers,
    layer,
    plain,
    standard,
    truth,
)
from irdeconv.ir.dtypes import i32
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ops import elementwise
from irdeconv.ops.activation import (
    Clamp,
    LogSoftmax,
    PReLU,
    ReLU,
    Sigmoid,
    SoftMax,
)
from irdeconv.ops.elementwise import Add, Divide, Exp, Log, Multiply, Power, Select, Subtract
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat
from irdeconv.ops.normalization import BatchNormInference, NormalizeL2
from irdeconv.ops.ordering import TopK3
from irdeconv.ops.padding import Pad12
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.quantize import FakeQuantize
from irdeconv.ops.shape import Unsqueeze
from irdeconv.ops.slicing import Slice

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
_FUNCTIONS = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Sign Sin Sinh Sqrt"
    " Tan TanH"
)
_RENAMED = {"Ceil": "Ceiling", "Neg": "Negative", "TanH": "Tanh"}


for _name in _FUNCTIONS.split():
    plain(_name, getattr(elementwise, _RENAMED.get(_name, _name))())
plain("Sigmoid Logistic", Sigmoid())


@layer("Eltwise")
def eltwise(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One operation of all inputs, from the first on; a sum may have a factor for each."""
    word, given = n.text("operation", "sum").lower(), n.given
    if word == "logical_not" and len(given) == 1:
        return b.add(elementwise.LogicalNot(), truth(b, given[0]))
    factors = n.numbers("coeff", ())
    if any(f != 1 for f in factors):
        if word not in ("sum", "") or len(factors) != len(given):
            raise Refusal(f"the factors {list(factors)} of {len(given)} inputs to a {word}")
        given = tuple(b.times(v, f) for v, f in zip(given, factors, strict=True))
    op = _PAIRS.get(word) or _LOGICAL.get(word)
    if op is None:
        raise Refusal(f'the operation "{word}" is not covered')
    if word in _LOGICAL:
        given = tuple(truth(b, v) for v in given)
    y = given[0]
    for other in given[1:]:
        y = b.add(op(), y, other if word in _LOGICAL else b.convert(other, b.dtype(y)))
    return b.add(Divide(), y, b.like(len(given), y)) if word == "mean" else y


@layer("Power")
def power(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(scale * x + shift) ** power; what changes nothing is left out."""
    exponent, scale, shift = n.number("power"), n.number("scale"), n.number("shift")
    y = b.times(n[0], scale)
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
    return b.plus(y, biases)


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
    return ACTIVATIONS["leakyrelu"](b, n[0], slope) if slope else b.add(ReLU(), n[0])


@layer("PReLU")
def prelu(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """max(x, 0) + slope * min(x, 0), a slope for each channel or one for all."""
    channels, count = b.static(n[0], "the data", 2)[1], n.elements("weights")
    shared = n.flag("channel_shared", count == 1)
    n.ignore("filler_type", "filler_value")
    if count != (1 if shared else channels):
        raise Refusal(f"{count} slopes for {channels} channels")
    return b.add(PReLU(), n[0], n.blob(b, "weights", (count,)))


@layer("Not")
def negation(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """1 where x is 0, else 0."""
    return b.add(elementwise.LogicalNot(), truth(b, n[0]))


@layer("Softsign")
def softsign(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / (1 + |x|)."""
    size = b.add(elementwise.Abs(), n[0])
    return b.add(Divide(), n[0], b.add(Add(), size, b.like(1, size)))


@layer("Reciprocal")
def reciprocal(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """1 / x."""
    return b.add(Divide(), b.like(1, n[0]), n[0])


layer("Clamp")(by_numbers("clip", min=None, max=None))
layer("ELU")(by_numbers("elu", alpha=1))
layer("HardSigmoid")(by_numbers("hardsigmoid", alpha=0.2, beta=0.5))
layer("Selu")(by_numbers("selu", alpha=1.67326324, gamma=1.05070098))
plain("FakeQuantize Quantize", lambda n, b: FakeQuantize(levels=n.integer("levels")), 5)
plain("GRN", lambda n, b: n.same("GRN", "opset1", {"bias": 0}))
plain("LogSoftmax", lambda n, b: LogSoftmax(axis=n.axis(b, n[0], default=-1)))
plain("MVN", lambda n, b: n.same("MVN", "opset2", {"eps": 1e-9}))
plain("ReLU6", lambda n, b: Clamp(min=0.0, max=n.number("n", 6)))
plain("SoftMax", lambda n, b: SoftMax(axis=n.axis(b, n[0])))
plain("Softplus", standard("SoftPlus", "opset4"))


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


@layer("Gemm MatMul")
def gemm(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """alpha * A B + beta * C, A and B transposed where it is said."""
    op = MatMul(transpose_a=n.flag("transpose_a", False), transpose_b=n.flag("transpose_b", False))
    y = b.times(b.add(op, n[0], n[1]), n.number("alpha", 1))
    c, beta = n.input(2), n.number("beta", 1)
    return y if c is None else b.plus(y, b.times(c, beta))


@layer("BatchNormalization")
def batch_normalization(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(x - biases) / sqrt(weights + epsilon): the weights are variances, the biases means."""
    channels = b.static(n[0], "the data", 2)[1]
    single = n.elements("weights") == 1 and channels != 1
    if single:
        raise Refusal("one variance for all channels")
    mean, variance = n.blob(b, "biases", (channels,)), n.blob(b, "weights", (channels,))
    # Only now is it known that there are as many numbers in the file.
    b.room(channels)
    ones, zeros = (np.full(channels, v, b.dtype(n[0]).container) for v in (1, 0))
    op = BatchNormInference(epsilon=n.number("epsilon"))
    return b.add(op, n[0], b.const(ones), b.const(zeros), mean, variance)


@layer("Norm LRN")
def norm(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / (k + alpha / size^axes * sum of squares)^beta over channels or a square of places.

    k is read as an integer, as the Inference Engine did.
    """
    across = n.word("region", "across", "across same") == "across"
    sizes = [n.integer(a) for a in ("local-size", "local_size", "size") if a in n]
    if len(sizes) != 1:
        raise Refusal("its size is not given" if not sizes else f"it has the sizes {sizes}")
    op = standard(
        "LRN",
        "opset1",
        alpha=n.number("alpha"),
        beta=n.number("beta"),
        bias=float(math.trunc(n.finite("k", 1))),
        size=sizes[0],
    )
    axes = (1,) if across else range(2, b.rank(n[0]))
    return b.add(op, n[0], b.ints(*axes))


@layer("Normalize")
def normalize(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / sqrt(eps + sum of squares) * weights, over the channels or all of an image."""
    shape = b.static(n[0], "the data", 2)
    axes = range(1, len(shape)) if n.flag("across_spatial", False) else (1,)
    op = NormalizeL2(eps=n.number("eps", 1e-10), eps_mode="add")
    y = b.add(op, n[0], b.ints(*axes))
    shared, count = n.flag("channel_shared", False), n.elements("weights")
    if count == 0:
        return y
    if count != (1 if shared else shape[1]) and count != shape[1]:
        raise Refusal(f"{count} weights for {shape[1]} channels")
    scale = n.blob(b, "weights", (1, count, *(1,) * (len(shape) - 2)))
    return b.add(Multiply(), y, _first(b, scale) if shared and count > 1 else scale)


def _first(b: ImportBuilder, values: Value) -> Value:
    """Return the first of several channels' values: the only one that counts where they share."""
    one = b.ints(1)
    return b.add(Slice(), values, b.ints(0), one, one, one)


@dataclass(frozen=True)
class _WindowCounts:
    """How many windows there are on each axis, and where they end behind the data."""

    outputs: Ints
    ends: Ints


@layer("Pooling")
def pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Maxima or means of windows.

    Sizes are ceil((I + pads - K) / S) + 1, less a window that would begin behind the data and the
    pads in front; `rounding_type` floor rounds down. Means divide by the elements of the data
    unless `exclude-pad` is false and something is padded in front: then by those of the data with
    as many zeros behind as in front.
    """
    shape = b.static(n[0], "the data")
    sizes = shape[2:]
    if len(shape) not in (3, 4, 5):
        raise Refusal(f"data of {len(shape)} dimensions")
    w = windows(n, sizes)
    method = n.word("pool-method", "max", "max avg")
    excludes = n.flag("exclude-pad", False)
    if any(d != 1 for d in w.dilations):
        raise Refusal(f"dilations {list(w.dilations)} of a pooling")
    found = _sizes(n, w, sizes)
    if method == "max":
        return b.add(MaxPool1(**_lists(w, found, sizes)), n[0])
    if excludes or not any(w.pads_begin):
        return b.add(AvgPool1(exclude_pad=True, **_lists(w, found, sizes)), n[0])
    return _with_zeros(b, n[0], w, found, sizes)


def _rounds_up(n: LegacyLayer) -> bool:
    spelled = [a for a in ("rounding_type", "rounding-type") if a in n]
    texts = {n.text(a).lower() for a in spelled}
    if texts - {"ceil", "floor"} or len(texts) > 1:
        raise Refusal(f"the rounding {', '.join(sorted(texts))} is not covered")
    return texts != {"floor"}


def _sizes(n: LegacyLayer, w: WindowLists, sizes: Ints) -> _WindowCounts:
    """Return the number of windows by the rule of the Inference Engine."""
    up, auto = _rounds_up(n), n.text("auto_pad", "").lower()
    outputs, ends = [], []
    for size, k, s, p, q in zip(sizes, w.kernel, w.strides, w.pads_begin, w.pads_end, strict=True):
        if auto.startswith("same"):
            count = -(-size // s)
        else:
            room = size + p + q - k
            count = (-(-room // s) if up and auto != "valid" else room // s) + 1
            count -= (count - 1) * s >= size + p
        outputs.append(count)
        ends.append((count - 1) * s + k - p - size)
    return _WindowCounts(tuple(outputs), tuple(ends))


def _lists(w: WindowLists, found: _WindowCounts, sizes: Ints) -> dict[str, Any]:
    """Return the attributes of a pooling that has these windows, as plain as they can be."""
    lists: dict[str, Any] = {
        "kernel": w.kernel,
        "strides": w.strides,
        "pads_begin": w.pads_begin,
        "pads_end": w.pads_end,
    }
    rooms = [
        (i + p + q - k, s)
        for i, p, q, k, s in zip(sizes, w.pads_begin, w.pads_end, w.kernel, w.strides, strict=True)
    ]
    if tuple(r // s + 1 for r, s in rooms) == found.outputs:
        return lists
    if tuple(-(-r // s) + 1 for r, s in rooms) == found.outputs:
        return {**lists, "rounding_type": "ceil"}
    # Neither way of rounding has this many windows: pads at the end tell how far the last reaches.
    return {**lists, "pads_end": tuple(max(e, 0) for e in found.ends)}


def _with_zeros(
    b: ImportBuilder, x: Value, w: WindowLists, found: _WindowCounts, sizes: Ints
) -> Value:
    """Return means over the data and as many zeros behind as in front."""
    if all(e <= p for e, p in zip(found.ends, w.pads_begin, strict=True)):
        # No window reaches beyond these zeros: all means divide by the whole kernel.
        return b.add(AvgPool1(exclude_pad=False, **_lists(w, found, sizes)), x)
    pads = b.ints(0, 0, *w.pads_begin)
    padded = b.add(Pad12(pad_mode="constant"), x, pads, pads)
    zeros = (0,) * len(sizes)
    within = tuple(s + 2 * p for s, p in zip(sizes, w.pads_begin, strict=True))
    ends = tuple(max(e - p, 0) for e, p in zip(found.ends, w.pads_begin, strict=True))
    moved = WindowLists(w.kernel, w.strides, zeros, ends, w.dilations)
    return b.add(AvgPool1(exclude_pad=True, **_lists(moved, found, within)), padded)


def _over_axes(
    kind: str, of: Callable[[ImportBuilder, Value], Value], then: Op | None = None
) -> Callable[[LegacyLayer, ImportBuilder], Outputs]:
    """Return the rule of a reduction of what `of` makes of the data; `then` is applied to it."""

    def rule(n: LegacyLayer, b: ImportBuilder) -> Outputs:
        op = standard(kind, "opset4", keep_dims=n.flag("keep_dims", True))
        y = b.add(op, of(b, n[0]), integers(b, n[1]))
        return y if then is None else b.add(then, y)

    return rule


def _itself(b: ImportBuilder, x: Value) -> Value:
    return x


for _name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"):
    layer(f"Reduce{_name}")(_over_axes(f"Reduce{_name}", _itself))
for _name in ("And", "Or"):
    layer(f"Reduce{_name}")(_over_axes(f"ReduceLogical{_name}", truth))
layer("ReduceLogSum")(_over_axes("ReduceSum", _itself, Log()))
layer("ReduceLogSumExp")(_over_axes("ReduceSum", lambda b, x: b.add(Exp(), x), Log()))
layer("ReduceSumSquare")(_over_axes("ReduceSum", lambda b, x: b.add(Multiply(), x, x)))


@layer("ArgMax")
def arg_max(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The `top_k` largest along an axis: their indices, or with out_max_val their values.

    Without an axis they are those of all axes but the first: indices [N, 1, top_k], or [N, 2,
    top_k] with the values behind. Indices are numbers of the data's type.
    """
    count, valued = n.integer("top_k"), n.flag("out_max_val", False)
    dtype = b.dtype(n[0])
    if "axis" in n:
        op = TopK3(axis=n.axis(b, n[0]), mode="max", sort="value", index_element_type=i32)
        values, indices = b.outputs(op, n[0], b.scalar(count))
        return values if valued else b.convert(indices, dtype)
    flat = b.flatten(n[0], 1)
    op = TopK3(axis=1, mode="max", sort="value", index_element_type=i32)
    values, indices = b.outputs(op, flat, b.scalar(count))
    parts = [b.convert(indices, dtype), *((values,) if valued else ())]
    rows = [b.add(Unsqueeze(), part, b.ints(1)) for part in parts]
    y = rows[0] if len(rows) == 1 else b.add(Concat(axis=1), *rows)
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


@layer("TopK")
def top_k(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The largest or smallest along an axis, by value or by index, and their indices.

    A single output has the values, or the indices where it is declared an integer.
    """
    op = TopK3(
        axis=n.axis(b, n[0], default=-1),
        mode="max" if n.word("mode", "max", "max min") == "max" else "min",
        sort="value" if n.word("sort", "index", "index value none") == "value" else "index",
        index_element_type=i32,
    )
    values, indices = b.outputs(op, n[0], b.as_scalar(integers(b, n[1])))
    if len(n.declared) > 1:
        return values, indices
    dtype = n.declared[0].dtype
    return indices if dtype is not None and dtype.is_integral else values
