"""Legacy element-wise layers, normalizations, reductions, shapes, slices and recurrent cells.

Statistics are blobs. One blob has the weights of data and state of a cell side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irdeconv.formats.importing import (
    ACTIVATIONS,
    ImportBuilder,
    Refusal,
    by_numbers,
    named_operations,
)
from irdeconv.formats.legacy_layer import (
    Ints,
    LegacyLayer,
    Outputs,
    Rule,
    computed,
    integers,
    layer,
    plain,
    standard,
    truth,
)
from irdeconv.ir.dtypes import f32, i32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ops import elementwise
from irdeconv.ops.activation import Clamp, LogSoftmax, PReLU, ReLU, SoftMax
from irdeconv.ops.channels import Split, VariadicSplit
from irdeconv.ops.elementwise import Exp, FakeQuantize, Log, Power
from irdeconv.ops.generation import Range
from irdeconv.ops.indexing import ScatterUpdate, TopK3
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Reshape, ShapeOf, Squeeze1, Tile, Transpose, Unsqueeze
from irdeconv.ops.reduction import BatchNormInference, NormalizeL2
from irdeconv.ops.slicing import Gather1, Slice, StridedSlice

_LOGICAL = dict(
    named_operations("logical_and=LogicalAnd logical_or=LogicalOr logical_xor=LogicalXor")
)
_PAIRS = _LOGICAL | dict(
    named_operations(
        "sum=Add mul=Multiply prod=Multiply max=Maximum min=Minimum sub=Subtract div=Divide"
        " squared_diff=SquaredDifference floor_mod=FloorMod pow=Power mean=Add equal=Equal"
        " not_equal=NotEqual less=Less less_equal=LessEqual greater=Greater"
        " greater_equal=GreaterEqual"
    )
)

for _name, _op in named_operations(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil=Ceiling Cos Cosh Erf Exp Floor Log Neg=Negative Sign"
    " Sin Sinh Sqrt Tan TanH=Tanh Sigmoid Logistic=Sigmoid"
):
    plain(_name, _op)


@layer("Eltwise")
def eltwise(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One operation of all inputs, from the first on; a sum may have a factor for each."""
    word, inputs = n.text("operation", "sum").lower(), n.given
    if word == "logical_not" and len(inputs) == 1:
        return b.add(elementwise.LogicalNot(), truth(b, inputs[0]))
    factors = n.numbers("coeff", ())
    if any(f != 1 for f in factors):
        if word not in ("sum", "") or len(factors) != len(inputs):
            raise Refusal(f"the factors {list(factors)} of {len(inputs)} inputs to a {word}")
        inputs = tuple(b.times(v, f) for v, f in zip(inputs, factors, strict=True))
    op = _PAIRS.get(word or "sum")
    if op is None:
        raise Refusal(f'the operation "{word}" is not covered')
    if word in _LOGICAL:
        inputs = tuple(truth(b, v) for v in inputs)
    y = inputs[0]
    for other in inputs[1:]:
        y = b.add(op, y, other if word in _LOGICAL else b.convert(other, b.dtype(y)))
    return b.div(y, b.like(len(inputs), y)) if word == "mean" else y


@layer("Power")
def power(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(scale * x + shift) ** power; steps without effect are left out."""
    exponent, scale, shift = n.number("power"), n.number("scale"), n.number("shift")
    y = b.times(n[0], scale)
    if shift:
        y = b.plus(y, b.like(shift, y))
    return y if exponent == 1 else b.add(Power(), y, b.like(exponent, y))


@layer("ScaleShift")
def scale_shift(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x * weights + biases, a value for each channel (axis 1), or one for all."""
    n.accept("broadcast")
    weights, biases = (_per_channel(n, b, name) for name in ("weights", "biases"))
    if weights is None and biases is None:
        raise Refusal("it has neither weights nor biases")
    return b.plus(n[0] if weights is None else b.mul(n[0], weights), biases)


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
    n.accept("filler_type", "filler_value")
    if count != (1 if shared else channels):
        raise Refusal(f"{count} slopes for {channels} channels")
    return b.add(PReLU(), n[0], n.blob(b, "weights", (count,)))


def _first_axis(n: LegacyLayer, b: ImportBuilder) -> int:
    return n.axis(b, n[0], default=0)


_SHORT: dict[str, Rule] = {
    "Broadcast": lambda n, b: b.broadcast(n[0], integers(b, n[1])),
    "Fill": lambda n, b: b.broadcast(b.as_scalar(n[1]), integers(b, n[0])),
    "Gather": lambda n, b: b.add(Gather1(), n[0], integers(b, n[1]), b.scalar(_first_axis(n, b))),
    "Not": lambda n, b: b.add(elementwise.LogicalNot(), truth(b, n[0])),
    "Permute": lambda n, b: b.add(Transpose(), n[0], b.ints(*n.ints("order"))),
    "Reciprocal": lambda n, b: b.div(b.like(1, n[0]), n[0]),
    "ScatterUpdate": lambda n, b: b.add(
        ScatterUpdate(), n[0], integers(b, n[1]), n[2], b.scalar(_first_axis(n, b))
    ),
    "Select": lambda n, b: b.select(truth(b, n[0]), n[1], b.convert(n[2], b.dtype(n[1]))),
    "Softsign": lambda n, b: b.div(n[0], b.plus(b.add(elementwise.Abs(), n[0]), b.like(1, n[0]))),
}
for _name, _rule in _SHORT.items():
    layer(_name)(_rule)
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
    n.accept("dropout_ratio")
    return n[0]


@layer("Convert")
def convert(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x in the element type that the layer declares."""
    n.accept("precision")
    return n[0]


@layer("Gemm MatMul")
def gemm(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """alpha * A B + beta * C, A and B transposed if their attribute is set."""
    op = MatMul(transpose_a=n.flag("transpose_a", False), transpose_b=n.flag("transpose_b", False))
    y = b.times(b.add(op, n[0], n[1]), n.number("alpha", 1))
    c, beta = n.input(2), n.number("beta", 1)
    return y if c is None else b.plus(y, b.times(c, beta))


@layer("BatchNormalization")
def batch_normalization(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(x - biases) / sqrt(weights + epsilon): the weights are variances, the biases means."""
    channels = b.static(n[0], "the data", 2)[1]
    if n.elements("weights") == 1 and channels != 1:
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
    alpha, beta, k = n.number("alpha"), n.number("beta"), n.number("k", 1)
    if not math.isfinite(k):
        raise Refusal(f"k is {k}")
    bias = float(math.trunc(k))
    op = standard("LRN", "opset1", alpha=alpha, beta=beta, bias=bias, size=sizes[0])
    axes = (1,) if across else range(2, b.rank(n[0]))
    return b.add(op, n[0], b.ints(*axes))


@layer("Normalize")
def normalize(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / sqrt(eps + sum of squares) * weights, over the channels or all of an image."""
    shape = b.static(n[0], "the data", 2)
    axes = range(1, len(shape)) if n.flag("across_spatial", False) else (1,)
    y = b.add(NormalizeL2(eps=n.number("eps", 1e-10), eps_mode="add"), n[0], b.ints(*axes))
    shared, count = n.flag("channel_shared", False), n.elements("weights")
    if count == 0:
        return y
    if count != (1 if shared else shape[1]) and count != shape[1]:
        raise Refusal(f"{count} weights for {shape[1]} channels")
    scale = n.blob(b, "weights", (1, count, *(1,) * (len(shape) - 2)))
    if shared and count > 1:  # the first channel's value is the only one used
        one = b.ints(1)
        scale = b.add(Slice(), scale, b.ints(0), one, one, one)
    return b.mul(y, scale)


def _over_axes(
    kind: str, of: Callable[[ImportBuilder, Value], Value] | None = None, then: Op | None = None
) -> Callable[[LegacyLayer, ImportBuilder], Outputs]:
    """Return the rule of a reduction of `of(data)`; `then` is applied to the result."""

    def rule(n: LegacyLayer, b: ImportBuilder) -> Outputs:
        op = standard(kind, "opset4", keep_dims=n.flag("keep_dims", True))
        x = n[0] if of is None else of(b, n[0])
        y = b.add(op, x, integers(b, n[1]))
        return y if then is None else b.add(then, y)

    return rule


for _name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"):
    layer(f"Reduce{_name}")(_over_axes(f"Reduce{_name}"))
for _name in ("And", "Or"):
    layer(f"Reduce{_name}")(_over_axes(f"ReduceLogical{_name}", truth))
layer("ReduceLogSum")(_over_axes("ReduceSum", then=Log()))
layer("ReduceLogSumExp")(_over_axes("ReduceSum", lambda b, x: b.add(Exp(), x), Log()))
layer("ReduceSumSquare")(_over_axes("ReduceSum", lambda b, x: b.mul(x, x)))


@layer("ArgMax")
def arg_max(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The `top_k` largest along an axis: their indices, or with out_max_val their values.

    Without an axis they are those of all axes but the first: indices [N, 1, top_k], or [N, 2,
    top_k] with the values behind. Indices are numbers of the data's type.
    """
    count, valued = n.integer("top_k"), n.flag("out_max_val", False)
    dtype = b.dtype(n[0])
    x, axis = (n[0], n.axis(b, n[0])) if "axis" in n else (b.flatten(n[0], 1), 1)
    op = TopK3(axis=axis, mode="max", sort="value", index_element_type=i32)
    values, indices = b.outputs(op, x, b.scalar(count))
    if "axis" in n:
        return values if valued else b.convert(indices, dtype)
    parts = [b.convert(indices, dtype), *((values,) if valued else ())]
    rows = [b.unsqueeze(part, 1) for part in parts]
    y = rows[0] if len(rows) == 1 else b.add(Concat(axis=1), *rows)
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


@layer("TopK")
def top_k(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The largest or smallest along an axis, by value or by index, and their indices.

    A single output has the values, or the indices if it is declared an integer.
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


@layer("Input")
def parameter(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A model input of the declared shape, of f32 if the file says FP16."""
    spec = n.declared[0]
    n.accept("shape")
    return b.parameter(n.name, spec.dtype or f32, n.shape)


@layer("Const")
def constant(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The blob `custom`, in the declared shape."""
    names = set(n.blobs)
    if len(names) != 1:
        raise Refusal(f"a constant with {len(names)} blobs")
    n.accept("shape", "element_type")
    return n.blob(b, names.pop(), n.shape)


@layer("Reshape")
def reshape(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The elements in another shape: 0 keeps a size, -1 takes the rest.

    Without `dim` and a second input, and if they are outdated, it is the declared shape, as it
    always was in the Inference Engine. The same holds for random blobs.
    """
    n.accept("axis", "num_axes")
    target = n.input(1)
    if target is not None and n.source.seed is None:
        return b.add(Reshape(special_zero=True), n[0], integers(b, target))
    dims = n.ints("dim", ())
    if not dims:
        return b.reshape(n[0], n.shape)
    y = b.add(Reshape(special_zero=True), n[0], b.ints(*dims))
    return y if b.shape(y) == n.shape else b.reshape(n[0], n.shape)


@layer("Flatten")
def flatten(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The axes from `axis` to `end_axis` as one."""
    shape = b.static(n[0], "the data")
    first, last = n.integer("axis", 0), n.integer("end_axis", -1)
    last += len(shape) if last < 0 else 0
    if not 0 <= first <= last < len(shape):
        raise Refusal(f"the axes {first} to {last} of {len(shape)}")
    kept = (*(0,) * first, -1, *shape[last + 1 :])
    return b.add(Reshape(special_zero=True), n[0], b.ints(*kept))


@layer("Squeeze Unsqueeze")
def squeeze(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Without or with axes of size 1."""
    if n.source.seed is not None:
        return b.reshape(n[0], n.shape)
    if n.kind == "unsqueeze":
        return b.add(Unsqueeze(), n[0], integers(b, n[1]))
    axes = n.input(1)
    return b.add(Squeeze1(), n[0], *(() if axes is None else (integers(b, axes),)))


@layer("Concat")
def concat(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """All inputs along an axis, of the first one's element type."""
    dtype = b.dtype(n[0])
    return b.add(Concat(axis=n.axis(b, n[0])), *(b.convert(v, dtype) for v in n.given))


@layer("Tile")
def tile(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The data several times along an axis."""
    axis, tiles, rank = n.axis(b, n[0]), n.integer("tiles"), b.rank(n[0])
    return b.add(Tile(), n[0], b.ints(*(tiles if a == axis else 1 for a in range(rank))))


@layer("Pad")
def pad(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """More elements on both sides of each axis: a value, the edge, or a reflection."""
    mode = n.word("pad_mode", "constant", "constant edge reflect symmetric")
    begin, end = b.ints(*n.ints("pads_begin")), b.ints(*n.ints("pads_end"))
    value = n.number("pad_value", 0)
    op = standard("Pad", "opset12", pad_mode=mode)
    return b.add(op, n[0], begin, end, *((b.like(value, n[0]),) if mode == "constant" else ()))


@layer("Range")
def arange(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The numbers from a start by a step up to a stop."""
    dtype = computed(n.declared[0].dtype) or f32
    terms = (b.as_scalar(b.convert(n[i], dtype)) for i in range(3))
    return b.add(Range(output_type=dtype), *terms)


def _blocks(n: LegacyLayer, b: ImportBuilder) -> Op:
    """Channels as blocks of places, or back; the block is the slower part of the channels."""
    kind = "DepthToSpace" if n.kind == "depthtospace" else "SpaceToDepth"
    return standard(kind, "opset1", mode="blocks_first", block_size=n.integer("block_size", 1))


plain("DepthToSpace SpaceToDepth", _blocks)
plain("Shape", ShapeOf(i32))
plain("ShuffleChannels", lambda n, b: n.same("ShuffleChannels", "opset1", axis=n.axis(b, n[0])))


@layer("Split Slice")
def split(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Parts along an axis, as long as the declared outputs."""
    axis, shapes = n.axis(b, n[0]), n.shapes
    n.accept("out_sizes", "num_split", "slice_point")
    if any(len(s) <= axis for s in shapes):
        raise Refusal(f"an output without the axis {axis}")
    lengths = [s[axis] for s in shapes]
    if sum(lengths) != b.static(n[0], "the data")[axis]:
        raise Refusal(f"parts of {lengths} along an axis of {b.shape(n[0])[axis]}")
    at = b.scalar(axis)
    if len(lengths) == 1:
        return n[0]
    if len(set(lengths)) == 1:
        return b.outputs(Split(num_splits=len(lengths)), n[0], at)
    return b.outputs(VariadicSplit(), n[0], at, b.ints(*lengths))


@layer("Crop")
def crop(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A part of some axes.

    It is given by offsets with sizes `dim`, with those of a second input, or with how much to leave
    out at the end (`crop_begin`, `crop_end`).
    """
    axes, shape = n.ints("axis"), b.static(n[0], "the data")
    if any(not 0 <= a < len(shape) for a in axes):
        raise Refusal(f"the axes {list(axes)} of {len(shape)}")
    begin = n.ints("crop_begin" if "crop_begin" in n else "offset", (0,) * len(axes))
    end = _ends(n, b, axes, begin)
    if not len(axes) == len(begin) == len(end):
        raise Refusal(f"{len(axes)} axes, {len(begin)} begins and {len(end)} ends")
    for axis, first, last in zip(axes, begin, end, strict=True):
        if not 0 <= first < last <= shape[axis]:
            raise Refusal(f"{first} to {last} of axis {axis}, which has {shape[axis]} elements")
    return b.slice(n[0], begin, end, (1,) * len(axes), axes)


def _ends(n: LegacyLayer, b: ImportBuilder, axes: Ints, begin: Ints) -> Ints:
    shape = b.static(n[0], "the data")
    like = n.input(1)
    if like is not None:
        n.accept("dim")
        sizes = b.static(like, "the second input")
        if any(a >= len(sizes) for a in axes):
            raise Refusal(f"the axes {list(axes)} of a second input {list(sizes)}")
        return tuple(o + sizes[a] for a, o in zip(axes, begin, strict=False))
    if "dim" in n:
        return tuple(o + d for o, d in zip(begin, n.ints("dim"), strict=False))
    return tuple(shape[a] - e for a, e in zip(axes, n.ints("crop_end"), strict=False))


def cropped(b: ImportBuilder, x: Value, first: int, begin: int, end: int) -> Value:
    """Return an image without elements at both sides of the axes from `first` on."""
    axes = tuple(range(first, b.rank(x)))
    shape = b.static(x, "the data")
    if any(begin + end >= shape[a] for a in axes):
        raise Refusal(f"{begin} and {end} elements are cut off of {list(shape)}")
    stop, one = [shape[a] - end for a in axes], (1,) * len(axes)
    return b.slice(x, (begin,) * len(axes), stop, one, axes)


@layer("StridedSlice")
def strided_slice(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Parts of all axes. In the masks of begin and end 1 means: as given; today 1 means: not."""
    masks = {name: n.ints(name, ()) for name in ("begin_mask", "end_mask")}
    rest = {a: n.ints(a, ()) for a in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")}
    inverted = {name: tuple(1 - bool(m) for m in mask) for name, mask in masks.items()}
    size = max(map(len, (inverted | rest).values()))
    filled = {name: (*m, *(0,) * (size - len(m))) for name, m in (inverted | rest).items()}
    terms = (integers(b, v) for v in n.given[1:])
    return b.add(StridedSlice(**filled), n[0], *terms)


@layer("ReverseSequence")
def reverse_sequence(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The first elements of each sequence in reverse order, as many as the second input says."""
    axes = [n.axis(b, n[0], name, i) for i, name in ((1, "seq_axis"), (0, "batch_axis"))]
    op = standard("ReverseSequence", "opset1", seq_axis=axes[0], batch_axis=axes[1])
    return b.add(op, n[0], integers(b, n[1]))


@layer("OneHot")
def one_hot(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A new axis with one value at the index and another one elsewhere."""
    op = standard("OneHot", "opset1", axis=n.integer("axis", -1))
    values = (n.number("on_value", 1), n.number("off_value", 0))
    dtype = n.declared[0].dtype or f32
    terms = (b.scalar(v, dtype) for v in values)
    return b.add(op, b.convert(n[0], i64), b.scalar(n.integer("depth")), *terms)


# Operation, gates, activations.
_CELLS = {
    "lstmcell": ("LSTMCell", "opset4", 4, "sigmoid,tanh,tanh"),
    "grucell": ("GRUCell", "opset3", 3, "sigmoid,tanh"),
    "rnncell": ("RNNCell", "opset3", 1, "tanh"),
}


@layer("LSTMCell GRUCell RNNCell")
def cell(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One step. The blob [G * H, D + H] is W beside R; gates are f, i, c, o and z, r, h."""
    data, state = b.static(n[0], "the data"), b.static(n[1], "the state")
    if len(data) != 2 or len(state) != 2:
        raise Refusal(f"data {list(data)} and a state {list(state)}; each has two axes")
    hidden, (kind, version, gates, usual) = n.integer("hidden_size", state[1]), _CELLS[n.kind]
    if n.numbers("activation_alpha", ()) or n.numbers("activation_beta", ()):
        raise Refusal("activations with parameters")
    clip, activations = n.number("clip", 0), n.text("activations", usual)
    attributes = {"hidden_size": hidden, "clip": clip, "activations": activations}
    biases = gates
    if n.kind == "grucell":
        attributes["linear_before_reset"] = n.flag("linear_before_reset", False)
        biases += bool(attributes["linear_before_reset"])
    op = standard(kind, version, **attributes)
    both = n.blob(b, "weights", (gates * hidden, data[1] + hidden))
    w, r = _columns(b, both, 0, data[1]), _columns(b, both, data[1], data[1] + hidden)
    return b.outputs(op, *n.given, w, r, n.blob(b, "biases", (biases * hidden,)))


def _columns(b: ImportBuilder, matrix: Value, begin: int, end: int) -> Value:
    one = b.ints(1)
    return b.add(Slice(), matrix, b.ints(begin), b.ints(end), one, one)


# A body for each part of the sliced inputs, joined by a port map and back edges.
layer("TensorIterator")(lambda n, b: n.iterate(n, b))
