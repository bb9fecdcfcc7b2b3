"""Layers of every system's deconvolution: graphs, data, the window that semantics fixes.

The window arithmetic is written here from the rules, axis by axis in plain integers, apart from
irdeconv.ir.geometry, so that the two check each other.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import of_numpy
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, SugarOp, attributes, infer_op, parse_attributes
from irdeconv.ir.spec import Spec
from support import oracle
from support.layers import Ints, constant, numbers, parameter, result

ONEDNN, TENSORRT = "onednn_graph_1", "tensorrt"
ONNX = ("onnx_opset1", "onnx_opset11", "onnx_opset22")
NHWC = ("com.ms.internal.nhwc_1", "com.ms.internal.nhwc_11")
DIALECTS = {"onednn": (ONEDNN,), "onnx": ONNX, "nhwc": NHWC, "tensorrt": (TENSORRT,)}
VERSIONS = tuple(version for versions in DIALECTS.values() for version in versions)
# The element types of each version.
TYPES = dict.fromkeys(VERSIONS, ("f32", "f64", "f16")) | {
    ONEDNN: ("f32", "f16", "bf16"),
    ONNX[2]: ("f32", "f64", "f16", "bf16"),
    TENSORRT: ("f32", "f16", "bf16", "i8"),
}
INEXACT = ("Tanh", "Sigmoid")

_NAMES = {
    ONEDNN: ("strides", "dilations", "groups"),
    TENSORRT: ("stride", "dilation", "num_groups"),
}


@dataclass(frozen=True)
class DialectLayer:
    """One layer; `attributes` are fields of the operation's class, in Python values.

    c and m count a group's channels. `bias` None: there is none; otherwise it has that many values
    too many. `surplus` are data channels too many, `ranks` an axis too many in the filter.
    """

    version: str
    batch: int
    size: Ints
    groups: int
    c: int
    m: int
    kernel: Ints
    attributes: Mapping[str, Any] = field(default_factory=dict)
    bias: int | None = None
    surplus: int = 0
    ranks: int = 0

    @property
    def axes(self) -> int:
        return len(self.size)

    @property
    def cls(self) -> type[SugarOp]:
        type_name = "Deconvolution" if self.version == TENSORRT else "ConvTranspose"
        return REGISTRY[type_name, self.version]  # type: ignore[return-value]

    @property
    def op(self) -> Any:
        return self.cls(**self.attributes)

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def texts(self) -> dict[str, str]:
        """The attributes as XML texts."""
        spelled = {a.name: a.xml for a in attributes(self.cls).values()}
        return {
            spelled[name]: ",".join(map(str, v)) if isinstance(v, tuple) else str(v)
            for name, v in self.attributes.items()
            if name in spelled and v is not None
        }

    @property
    def channels_last(self) -> bool:
        return self.version in NHWC or (
            self.version == ONEDNN and self.get("data_format", "NXC") == "NXC"
        )

    @property
    def layout(self) -> str:
        """The filter's axes: I inputs, O outputs of a group, X spatial."""
        if self.version != ONEDNN:
            return "IOX"
        return self.get("weights_format") or self.get("filter_format") or "XIO"

    @property
    def data_shape(self) -> Ints:
        c = self.c * self.groups + self.surplus
        return (self.batch, *self.size, c) if self.channels_last else (self.batch, c, *self.size)

    @property
    def filter_shape(self) -> Ints:
        sizes = {"I": (self.c * self.groups,), "O": (self.m,), "X": self.kernel + (1,) * self.ranks}
        return tuple(v for letter in self.layout for v in sizes[letter])

    @property
    def shapes(self) -> list[Ints]:
        bias = [] if self.bias is None else [(self.m * self.groups + self.bias,)]
        return [self.data_shape, self.filter_shape, *bias]

    def per_axis(self, at: int) -> Ints:
        """Strides (0) or dilations (1)."""
        name = _NAMES.get(self.version, ("strides", "dilations", "group"))[at]
        return self.get(name) or (1,) * self.axes

    @property
    def strides(self) -> Ints:
        return self.per_axis(0)

    @property
    def dilations(self) -> Ints:
        return self.per_axis(1)

    def reach(self, axis: int) -> int:
        """DK: what a dilated kernel covers."""
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1

    def full(self, axis: int) -> int:
        """FULL: where the last tap of the last element lands, plus one."""
        return self.strides[axis] * (self.size[axis] - 1) + self.reach(axis)

    def window(self) -> list[tuple[int, int]]:
        """(where the output begins in the scatter, its size) on every axis."""
        rule = _RULES.get(self.version, _onnx)
        return [rule(self, axis) for axis in range(self.axes)]

    @property
    def output_size(self) -> Ints:
        return tuple(size for _, size in self.window())

    @property
    def output_shape(self) -> Ints:
        m = self.m * self.groups
        inner = (*self.output_size, m) if self.channels_last else (m, *self.output_size)
        return (self.batch, *inner)

    @property
    def products(self) -> int:
        return self.batch * math.prod(self.size) * math.prod(self.filter_shape)


def _at(layer: DialectLayer, name: str, axis: int) -> int:
    values = layer.get(name)
    return values[axis] if values else 0


def _onednn(layer: DialectLayer, axis: int) -> tuple[int, int]:
    begin, end = _at(layer, "pads_begin", axis), _at(layer, "pads_end", axis)
    mode = layer.get("auto_pad", "none")
    if mode == "valid":
        begin = end = 0
    elif mode != "none":
        total = max(0, layer.reach(axis) - layer.strides[axis])
        begin = total // 2 if mode == "same_upper" else total - total // 2
        end = total - begin
    return begin, layer.full(axis) + _at(layer, "output_padding", axis) - begin - end


def _onnx(layer: DialectLayer, axis: int) -> tuple[int, int]:
    extra, mode = _at(layer, "output_padding", axis), layer.get("auto_pad", "NOTSET")
    full = layer.full(axis) + extra
    small = mode == "SAME_UPPER"
    if layer.get("semantics") == "document" and layer.version in ("onnx_opset1", *NHWC):
        small = not small
    if layer.get("output_shape"):
        size = layer.get("output_shape")[-layer.axes :][axis]
        total = max(0, full - size)
        return (total // 2 if small else total - total // 2), size
    if mode.startswith("SAME"):
        total = max(0, full - layer.size[axis] * layer.strides[axis])
        return (total // 2 if small else total - total // 2), full - total
    if mode == "VALID" or not layer.get("pads"):
        return 0, full
    begin, end = layer.get("pads")[axis], layer.get("pads")[layer.axes + axis]
    return begin, full - begin - end


def _tensorrt(layer: DialectLayer, axis: int) -> tuple[int, int]:
    full, mode = layer.full(axis), layer.get("padding_mode", "").removeprefix("k")
    if mode.startswith("SAME"):
        total = max(layer.reach(axis) - layer.strides[axis], 0)
        return (total // 2 if mode == "SAME_UPPER" else total - total // 2), full - total
    both = _at(layer, "padding", axis)
    begin = both or _at(layer, "pre_padding", axis)
    end = both or _at(layer, "post_padding", axis)
    return begin, full - begin - end


_RULES = {ONEDNN: _onednn, TENSORRT: _tensorrt}


ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Relu": lambda y, p: np.maximum(y, 0),
    "Tanh": lambda y, p: np.tanh(y),
    "Sigmoid": lambda y, p: 1 / (1 + np.exp(-y)),
    "LeakyRelu": lambda y, p: np.where(y < 0, y * p[0], y),
    "Clip": lambda y, p: np.minimum(np.maximum(y, p[0]), p[1]),
    "HardSigmoid": lambda y, p: np.maximum(0, np.minimum(1, y * p[0] + p[1])),
}


def data(layer: DialectLayer, rng: np.random.Generator, dtype: Any, top: int = 9) -> list[Any]:
    """Random integers for every port."""
    return [numbers(rng, shape, dtype, top) for shape in layer.shapes]


def expected(layer: DialectLayer, x: Any, w: Any, bias: Any = None) -> Any:
    """The result by the definition."""
    if layer.channels_last:
        x = np.moveaxis(x, -1, 1)
    letters = layer.layout.replace("X", "X" * layer.axes)
    first = letters.index("X")
    order = [letters.index("I"), letters.index("O"), *range(first, first + layer.axes)]
    w = np.transpose(w, order).reshape(layer.groups, layer.c, layer.m, *layer.kernel)
    begin = [b for b, _ in layer.window()]
    y = oracle.deconvolution(x, w, layer.strides, layer.dilations, begin, layer.output_size)
    if bias is not None:
        y += bias.astype(y.dtype).reshape(1, -1, *(1,) * layer.axes)
    if layer.get("activation"):
        y = ACTIVATIONS[layer.get("activation")](y, layer.get("activation_params", ()))
    if layer.channels_last:
        y = np.moveaxis(y, 1, -1)
    return y.astype(x.dtype)


def build(
    layer: DialectLayer,
    arrays: list[Any],
    *,
    inputs: tuple[int, ...] = (0,),
    data_shape: Any = None,
) -> tuple[Graph, dict[str, Any]]:
    """Return a graph with the layer `deconv` and the output `y`, and what to feed it.

    The ports in `inputs` are model inputs, the others constants. `data_shape` declares other
    (dynamic) dimensions for the data.
    """
    g, feeds, values = Graph(), {}, []
    for port, (name, array) in enumerate(zip("xwb", arrays, strict=False)):
        if port in inputs:
            shape = data_shape if port == 0 and data_shape is not None else array.shape
            values.append(parameter(g, shape, array.dtype, name))
            feeds[name] = array
        else:
            values.append(constant(g, array, name))
    result(g, Value(g.add(layer.op, values, name="deconv").id))
    return g, feeds


def problems(layer: DialectLayer, dtype: Any = np.float32) -> list[Any]:
    """Every error of irdeconv about a layer: attribute texts, attributes alone, shapes."""
    values, found = parse_attributes(layer.cls, layer.texts())
    found = [p for p in found if p.severity == "error"]
    if found:
        return found
    if "semantics" in layer.attributes:
        values["semantics"] = layer.get("semantics")
    op = layer.cls(**values)
    found = [p for p in op.check() if p.severity == "error"]
    if found:
        return found
    element = of_numpy(np.dtype(dtype))
    try:
        infer_op(op, tuple(Spec(element, s) for s in layer.shapes))
    except OpError as e:
        return [e.problem]
    return []
