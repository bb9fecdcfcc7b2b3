"""The operations of oneDNN Graph with exact counterparts, and the registry of their rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irdeconv.formats.activations import by_numbers, one_operation
from irdeconv.formats.importing import ImportBuilder, Refusal, SourceNode
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ops import activation, elementwise, reduction
from irdeconv.ops.activation import LogSoftmax, SoftMax
from irdeconv.ops.dialect_onednn import OneDnnConvTranspose
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.normalization import BatchNormInference
from irdeconv.ops.pooling import AvgPool14, MaxPool14
from irdeconv.ops.shape import Reshape


@dataclass(kw_only=True)
class DumpNode(SourceNode):
    """An operation; `target` is the type of its output; `modern`: oneDNN 3 or later wrote it."""

    kind: str
    modern: bool
    target: ElementType

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute; without a default it is required."""
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is None:
            raise Refusal(f"the attribute {name} is missing")
        values = found if isinstance(found, list) else [found]
        if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
            raise Refusal(f"{name} holds a number of more than 64 bits")
        return found

    def ints(
        self, name: str, axes: int | None = None, default: int | None = None
    ) -> tuple[int, ...]:
        """Return a list of integers, `axes` of them; the library pads lists with zeros."""
        if default is not None and axes is not None and name not in self:
            return (default,) * axes
        values = self.get(name)
        found = tuple(int(v) for v in (values if isinstance(values, list) else [values]))
        if axes is not None and len(found) > axes and not any(found[axes:]):
            found = found[:axes]
        if axes is not None and len(found) != axes:
            raise Refusal(f"{name} has {len(found)} values for {axes} spatial axes")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a floating-point attribute; without a default it is required."""
        return float(self.get(name, default))

    def word(self, name: str, default: str, allowed: str) -> str:
        """Return one of the allowed words, in lower case as they are compared."""
        text = str(self.get(name, default))
        for choice in allowed.split():
            if choice.lower() == text.lower():
                return choice
        raise Refusal(f'{name}="{text}" is not covered')


_NUMBERS: dict[str, tuple[type, ...]] = {"s64": (int,), "f32": (int, float), "string": (str,)}


def wrong_value(attribute: dict[str, Any]) -> Any:
    """Return what is not of the type that an attribute of a dump states; None where all is."""
    stated = str(attribute.get("type", ""))
    types = _NUMBERS.get(stated.removesuffix("[]"))
    if types is None:
        return None
    value = attribute["value"]
    values = value if stated.endswith("[]") and isinstance(value, list) else [value]
    return next((v for v in values if not _is(v, types)), None)


def _is(value: Any, types: tuple[type, ...]) -> bool:
    if type(value) is int and int in types:
        return -(2**63) <= value < 2**63
    return type(value) in types and value == value  # no NaN


Rule = Callable[[DumpNode, ImportBuilder], Value]
RULES: dict[str, Rule] = {}


def rule(kinds: str) -> Callable[[Rule], Rule]:
    """Register a rule for operation kinds, a list of words."""

    def register(fn: Rule) -> Rule:
        for kind in kinds.split():
            RULES[kind] = fn
        return fn

    return register


AUTO_PADS = "none same_upper same_lower valid"


def to_ncx(n: DumpNode, b: ImportBuilder, x: Value) -> Value:
    """Return data with the channels in front, wherever data_format has them."""
    last = n.word("data_format", "NXC", "NXC NCX") == "NXC"
    return b.channels_first(x) if last else x


def from_ncx(n: DumpNode, b: ImportBuilder, y: Value) -> Value:
    """Return a result in data_format."""
    last = n.word("data_format", "NXC", "NXC NCX") == "NXC"
    return b.channels_last(y) if last else y


def _windows(n: DumpNode, axes: int) -> dict[str, Any]:
    """Return strides, pads and dilations of a convolution or pooling."""
    lists: dict[str, Any] = {
        "strides": n.ints("strides", axes),
        "pads_begin": n.ints("pads_begin", axes),
        "pads_end": n.ints("pads_end", axes),
        "dilations": n.ints("dilations", axes, 1),
    }
    if min(lists["pads_begin"] + lists["pads_end"]) < 0:
        raise Refusal("negative pads")
    auto_pad = n.word("auto_pad", "none", AUTO_PADS)
    if auto_pad == "none":
        return lists | {"auto_pad": "explicit"}
    return lists | {"auto_pad": auto_pad, "pads_begin": (0,) * axes, "pads_end": (0,) * axes}


@rule("Convolution")
def convolution(n: DumpNode, b: ImportBuilder) -> Value:
    """Data NXC or NCX, filter XIO = [X, I/g, O] or OIX = [O, I/g, X], optional bias [O]."""
    x = to_ncx(n, b, n[0])
    axes, groups = b.rank(x) - 2, int(n.get("groups", 1))
    name = "filter_format" if "filter_format" in n else "weights_format"
    layout = n.word(name, "XIO", "XIO OIX")
    order = (axes + 1, axes, *range(axes)) if layout == "XIO" else tuple(range(axes + 2))
    w = b.permute(n[1], order)
    y = b.convolution(x, w, groups, **_windows(n, axes))
    return from_ncx(n, b, b.plus(y, b.per_channel(n[2], axes)) if len(n.inputs) > 2 else y)


@rule("ConvTranspose")
def conv_transpose(n: DumpNode, b: ImportBuilder) -> Value:
    """Kept as oneDNN's own deconvolution."""
    axes = b.rank(n[0]) - 2
    layout: dict[str, Any] = {}
    for name in ("filter_format", "weights_format"):
        if name in n:
            layout[name] = n.word(name, "", "XIO OIX XOI IOX")
    if not layout:
        # The default changed with the attribute's name.
        layout = {"weights_format": "XOI"} if n.modern else {"filter_format": "XIO"}
    auto_pad: Any = n.word("auto_pad", "none", AUTO_PADS)
    data_format: Any = n.word("data_format", "NXC", "NXC NCX")
    op = OneDnnConvTranspose(
        strides=n.ints("strides", axes),
        pads_begin=n.ints("pads_begin", axes),
        pads_end=n.ints("pads_end", axes),
        dilations=n.ints("dilations", axes, 1),
        auto_pad=auto_pad,
        output_padding=n.ints("output_padding", axes, 0),
        groups=int(n.get("groups", 1)),
        data_format=data_format,
        semantics=n.semantics,
        **layout,
    )
    return b.outputs(op, *n.given)[0]


@rule("MaxPool AvgPool")
def pool(n: DumpNode, b: ImportBuilder) -> Value:
    """Maxima or means of windows; rounding up only where nothing is left over."""
    x = to_ncx(n, b, n[0])
    axes = b.rank(x) - 2
    kernel, lists = n.ints("kernel", axes), _windows(n, axes)
    if n.word("rounding_type", "floor", "floor ceil") == "ceil" and lists["auto_pad"] == "explicit":
        for a, size in enumerate(b.static(x, "the data")[2:]):
            reach = lists["dilations"][a] * (kernel[a] - 1) + 1
            padded = size + lists["pads_begin"][a] + lists["pads_end"][a]
            if (padded - reach) % lists["strides"][a]:
                raise Refusal("rounding_type=ceil with windows that reach beyond the padding")
    if n.kind == "MaxPool":
        y = b.outputs(MaxPool14(kernel=kernel, **lists, axis=0), x)[0]
        return from_ncx(n, b, y)
    if any(d != 1 for d in lists.pop("dilations")):
        raise Refusal("dilations of AvgPool")
    exclude = bool(n.get("exclude_pad"))
    return from_ncx(n, b, b.add(AvgPool14(kernel=kernel, **lists, exclude_pad=exclude), x))


@rule("BiasAdd")
def bias_add(n: DumpNode, b: ImportBuilder) -> Value:
    """Add one value for each channel."""
    rank = b.rank(n[0])
    last = n.word("data_format", "NXC", "NXC NCX") == "NXC"
    bias = b.reshape(n[1], (*(1,) * (rank - 1), -1)) if last else b.per_channel(n[1], rank - 2)
    return b.add(elementwise.Add(), n[0], bias)


@rule("BatchNormInference")
def batch_norm(n: DumpNode, b: ImportBuilder) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel."""
    x = to_ncx(n, b, n[0])
    statistics = tuple(b.convert(n[i], b.dtype(x)) for i in range(1, 5))
    if any(b.dtype(n[i]) != b.dtype(x) for i in range(1, 5)):
        raise Refusal("statistics of another element type than the data")
    y = b.add(BatchNormInference(float(n.get("epsilon"))), x, *statistics)
    return from_ncx(n, b, y)


_BINARY: dict[str, type[elementwise.Binary]] = {
    name: getattr(elementwise, name)
    for name in "Add Subtract Multiply Divide Maximum Minimum SquaredDifference".split()
}


@rule(" ".join(_BINARY))
def binary(n: DumpNode, b: ImportBuilder) -> Value:
    """Two tensors, broadcast as auto_broadcast says."""
    mode: Any = n.word("auto_broadcast", "numpy", "numpy none")
    return b.add(_BINARY[n.kind](auto_broadcast=mode), n[0], n[1])


@rule("Square")
def square(n: DumpNode, b: ImportBuilder) -> Value:
    """x * x."""
    return b.add(elementwise.Multiply(), n[0], n[0])


@rule("Reciprocal")
def reciprocal(n: DumpNode, b: ImportBuilder) -> Value:
    """1 / x."""
    return b.add(elementwise.Divide(), b.like(1, n[0]), n[0])


def _gelu(n: DumpNode, b: ImportBuilder) -> Op:
    mode = n.word("mode", "gelu_erf", "gelu_erf gelu_tanh")
    return activation.Gelu("ERF" if mode == "gelu_erf" else "TANH")


def _softmax(n: DumpNode, b: ImportBuilder) -> Op:
    if n.kind == "SoftMax":
        n.word("mode", "none", "none")
    return (SoftMax if n.kind == "SoftMax" else LogSoftmax)(int(n.get("axis", 1)))


_ONE_OPERATION: dict[str, Rule] = {
    "Abs": one_operation(elementwise.Abs()),
    "Clamp": by_numbers("clip", min=None, max=None),
    "Concat": one_operation(lambda n, b: Concat(int(n.get("axis"))), None),
    "Elu": by_numbers("elu", alpha=None),
    "Exp": one_operation(elementwise.Exp()),
    "GELU": one_operation(_gelu),
    "HardSigmoid": by_numbers("hardsigmoid", alpha=None, beta=None),
    "HardSwish": one_operation(activation.HSwish()),
    "LeakyReLU": by_numbers("leakyrelu", alpha=None),
    "Log": one_operation(elementwise.Log()),
    "LogSoftmax": one_operation(_softmax),
    "Mish": one_operation(activation.Mish()),
    "Pow": by_numbers("pow", beta=None),
    "ReLU": one_operation(activation.ReLU()),
    "Round": one_operation(elementwise.Round("half_to_even")),
    "Sigmoid": one_operation(activation.Sigmoid()),
    "SoftMax": one_operation(_softmax),
    "SoftPlus": by_numbers("softplus", beta=1.0),
    "Sqrt": one_operation(elementwise.Sqrt()),
    "Tanh": one_operation(elementwise.Tanh()),
}
RULES |= _ONE_OPERATION


@rule("MatMul")
def matmul(n: DumpNode, b: ImportBuilder) -> Value:
    """Matrix product, perhaps of transposed matrices, plus an optional bias of the columns."""
    op = MatMul(bool(n.get("transpose_a", False)), bool(n.get("transpose_b", False)))
    return b.plus(b.add(op, n[0], n[1]), n.input(2))


@rule("StaticReshape")
def reshape(n: DumpNode, b: ImportBuilder) -> Value:
    """Reshape; 0 copies a dimension with special_zero."""
    op = Reshape(special_zero=bool(n.get("special_zero")))
    return b.add(op, n[0], b.ints(*n.ints("shape")))


@rule("StaticTranspose")
def transpose(n: DumpNode, b: ImportBuilder) -> Value:
    """Permute the axes; negative ones count from the end."""
    rank = b.rank(n[0])
    order = tuple(a + rank if a < 0 else a for a in n.ints("order", rank))
    return b.add(Transpose(), n[0], b.ints(*order))


_REDUCE: dict[str, type[reduction.Reduction]] = {
    f"Reduce{name}": getattr(reduction, f"Reduce{name}")
    for name in ("L1", "L2", "Max", "Min", "Mean", "Prod", "Sum")
}


@rule(" ".join(_REDUCE))
def reduce(n: DumpNode, b: ImportBuilder) -> Value:
    """Reduce the axes of the attribute or of the second input."""
    axes = b.ints(*n.ints("axes")) if "axes" in n else n[1]
    keep = bool(n.get("keep_dims", False))
    return b.add(_REDUCE[n.kind](keep_dims=keep), n[0], axes)


@rule("TypeCast")
def type_cast(n: DumpNode, b: ImportBuilder) -> Value:
    """Convert to the element type of the output."""
    if not (b.dtype(n[0]).is_real and n.target.is_real):
        raise Refusal(f"a conversion from {b.dtype(n[0])} to {n.target}")
    return b.convert(n[0], n.target)


@rule("Reorder")
def reorder(n: DumpNode, b: ImportBuilder) -> Value:
    """Another memory layout of the same values."""
    return n[0]
