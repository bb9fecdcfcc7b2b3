"""Deconvolution layers for tests: graphs of one layer, data, and the window that semantics fixes.

The window arithmetic is written here from the rules, axis by axis in plain integers, apart from
irdeconv.ir.geometry, so that the two check each other.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES, of_numpy
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import DYNAMIC
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from support import oracle

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One deconvolution: data [batch, g*c, *size], filter [g, c, m, *kernel].

    `groups` None stands for ConvolutionBackpropData, whose filter is [c, m, *kernel].
    """

    batch: int
    size: Ints
    groups: int | None
    c: int
    m: int
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    auto_pad: str = "explicit"
    output_shape: Ints | None = None
    semantics: Any = "runtime"

    @property
    def axes(self) -> int:
        return len(self.size)

    @property
    def data_shape(self) -> Ints:
        return (self.batch, (self.groups or 1) * self.c, *self.size)

    @property
    def filter_shape(self) -> Ints:
        return (*(() if self.groups is None else (self.groups,)), self.c, self.m, *self.kernel)

    @property
    def products(self) -> int:
        return self.batch * math.prod(self.size) * math.prod(self.filter_shape)

    @property
    def op(self) -> ConvolutionBackpropData | GroupConvolutionBackpropData:
        cls = ConvolutionBackpropData if self.groups is None else GroupConvolutionBackpropData
        return cls(
            strides=self.strides,
            dilations=self.dilations,
            pads_begin=self.pads_begin,
            pads_end=self.pads_end,
            output_padding=self.output_padding,
            auto_pad=self.auto_pad,  # type: ignore[arg-type]
            semantics=self.semantics,
        )

    def full(self, axis: int) -> int:
        """Size of the uncropped scatter: the last input element's last tap, plus one."""
        last = self.strides[axis] * (self.size[axis] - 1)
        return last + self.dilations[axis] * (self.kernel[axis] - 1) + 1

    def window(self) -> list[tuple[int, int]]:
        """(where the output begins in the scatter, its size) on every axis."""
        return [self._window(axis) for axis in range(self.axes)]

    def _window(self, axis: int) -> tuple[int, int]:
        full, extra = self.full(axis), self.output_padding[axis]
        if self.output_shape is None:
            begin = self.pads_begin[axis] if self.auto_pad == "explicit" else 0
            end = self.pads_end[axis] if self.auto_pad == "explicit" else 0
            return begin, full - begin - end + extra
        size = self.output_shape[axis]
        total = full - size + extra
        if self.semantics == "document":
            if self.auto_pad == "same_upper":
                return total - math.floor(total / 2), size
            return math.floor(total / 2), size
        if self.auto_pad == "explicit":
            return self.pads_begin[axis], size
        if self.auto_pad == "valid":
            return 0, size
        if total <= 0:
            return 0, size
        # An odd extra element: same_upper cuts it off at the begin, same_lower at the end.
        odd = total % 2 if self.auto_pad == "same_upper" else 0
        return total // 2 + odd, size

    @property
    def output_size(self) -> Ints:
        return tuple(size for _, size in self.window())


EMPTY_DATA = (  # 1 to 3 axes, some of size 0; K = S takes the form gemm
    Layer(1, (0,), None, 1, 1, (4,), (2,), (1,), (0,), (0,), (0,)),
    Layer(2, (0,), 2, 1, 3, (3,), (3,), (2,), (-1,), (1,), (2,)),
    Layer(1, (0,), None, 2, 3, (3,), (3,), (1,), (-2,), (0,), (0,)),
    Layer(1, (0, 4), None, 1, 2, (3, 2), (2, 3), (1, 1), (0, 1), (0, 0), (0, 0)),
    Layer(1, (3, 0), None, 2, 2, (3, 5), (1, 2), (1, 2), (1, 1), (1, 0), (0, 1)),
    Layer(1, (0, 0), 2, 2, 1, (6, 4), (4, 2), (1, 1), (1, 0), (0, 1), (0, 0)),
    Layer(
        1, (2, 0, 3), None, 1, 2, (2, 3, 4), (2, 2, 3), (1, 1, 1), (0, 0, 1), (0, 0, 0), (0,) * 3
    ),
    Layer(0, (3,), None, 2, 1, (3,), (2,), (1,), (0,), (0,), (0,)),
)

# Layers whose output is empty: on one axis, on several, on none of the others.
EMPTY_OUTPUT = (
    Layer(1, (3,), None, 1, 1, (3,), (1,), (1,), (5,), (0,), (0,)),
    Layer(1, (3, 4), None, 2, 2, (3, 3), (2, 2), (1, 1), (4, 0), (3, 0), (0, 0)),
    Layer(2, (2, 3), 2, 1, 3, (2, 2), (3, 1), (1, 2), (0, 2), (5, 3), (0, 0)),
)


def begun(
    shape: Any, dtype: Any = np.float32, name: str = "x", info: Info | None = None
) -> tuple[Graph, Value]:
    """Return a graph of one input, and the input."""
    g = Graph() if info is None else Graph(info)
    return g, parameter(g, shape, dtype, name)


def numbers(rng: np.random.Generator, shape: Ints, dtype: Any, top: int = 9) -> Any:
    """Random integers -top..top, never zero, in the given type."""
    values = rng.integers(1, top + 1, shape) * rng.choice([-1, 1], shape)
    return values.astype(dtype)


def expected(layer: Layer, x: Any, w: Any) -> Any:
    """The result by the definition."""
    grouped = w if layer.groups is not None else w[None]
    begin = [b for b, _ in layer.window()]
    y = oracle.deconvolution(x, grouped, layer.strides, layer.dilations, begin, layer.output_size)
    return y.astype(x.dtype)


def constant(g: Graph, array: Any, name: str, element_type: str | None = None) -> Value:
    """Add a constant."""
    array = np.asarray(array)
    dtype = ELEMENT_TYPES[element_type] if element_type else of_numpy(array.dtype)
    op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
    return Value(g.add(op, name=name).id)


def parameter(g: Graph, shape: Any, dtype: Any, name: str) -> Value:
    """Add an input; a dimension None is dynamic."""
    dims = tuple(DYNAMIC if d is None else d for d in shape)
    element_type = of_numpy(np.dtype(dtype))
    return Value(g.add(Parameter(shape=dims, element_type=element_type), name=name).id)


def result(g: Graph, value: Value, name: str = "y") -> None:
    """Add an output."""
    node = g.node(value.node)
    node.tensor_names = node.tensor_names or ((name,),)
    g.add(Result(), [value], name=f"{name}/sink")


def sequential(shape: Any, *steps: Any, dtype: Any = np.float32, output: str = "y") -> Graph:
    """Return the graph input x -> the steps, one behind the other -> an output.

    A step is a name, an operation, and perhaps the constants that it reads behind the data, by
    their names.
    """
    g = Graph()
    y = parameter(g, shape, dtype, "x")
    for name, op, *constants in steps:
        more = [constant(g, array, key) for held in constants for key, array in held.items()]
        y = Value(g.add(op, [y, *more], name=name).id)
    result(g, y, output)
    return g


def build(
    layer: Layer,
    x: Any,
    w: Any,
    *,
    filter_input: bool = False,
    shape_source: str = "const",
    shape_type: Any = np.int64,
    data_shape: Any = None,
) -> tuple[Graph, dict[str, Any]]:
    """Return a graph with the layer `deconv` and the output `y`, and what to feed it.

    `shape_source` says where output_shape comes from: "const", "input" (a model input), "computed"
    (ShapeOf of another input). `data_shape` declares other (dynamic) dimensions for the data.
    """
    g = Graph()
    feeds: dict[str, Any] = {"x": x}
    inputs = [parameter(g, data_shape or x.shape, x.dtype, "x")]
    if filter_input:
        inputs.append(parameter(g, w.shape, w.dtype, "w"))
        feeds["w"] = w
    else:
        inputs.append(constant(g, w, "w"))
    if layer.output_shape is not None:
        inputs.append(_output_shape(g, layer.output_shape, shape_source, shape_type, feeds))
    result(g, Value(g.add(layer.op, inputs, name="deconv").id))
    return g, feeds


def _output_shape(g: Graph, wanted: Ints, source: str, dtype: Any, feeds: dict[str, Any]) -> Value:
    if source == "const":
        return constant(g, np.array(wanted, dtype), "output_shape")
    if source == "input":
        feeds["output_shape"] = np.array(wanted, dtype)
        return parameter(g, (len(wanted),), dtype, "output_shape")
    feeds["like"] = np.zeros((1, 2, *wanted), np.float32)
    like = parameter(g, (1, 2, *(None for _ in wanted)), np.float32, "like")
    sizes = g.add(
        REGISTRY["ShapeOf", "opset3"](output_type=of_numpy(np.dtype(dtype))), [like], name="sizes"
    )
    axes = constant(g, np.arange(2, 2 + len(wanted)), "axes")
    zero = constant(g, np.array(0, np.int64), "zero")
    return Value(
        g.add(REGISTRY["Gather", "opset8"](), [Value(sizes.id), axes, zero], name="spatial").id
    )


def random_layer(rng: np.random.Generator, *, budget: int = 1200) -> Layer:
    """A random layer whose attributes differ from axis to axis, with at most `budget` products."""
    while True:
        layer = _random_layer(rng)
        room = math.prod(max(s, 1) for s in layer.output_size) * layer.m * (layer.groups or 1)
        if layer.products <= budget and room * layer.batch <= 4 * budget:
            return layer


def _random_layer(rng: np.random.Generator) -> Layer:
    axes = int(rng.choice([1, 2, 3], p=[0.3, 0.4, 0.3]))

    def per_axis(lo: int, hi: int) -> Ints:
        return tuple(int(v) for v in rng.integers(lo, hi + 1, axes))

    strides = per_axis(1, 4)
    layer = Layer(
        batch=int(rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15])),
        size=per_axis(1, (9, 5, 3)[axes - 1]),
        groups=None if rng.random() < 0.4 else int(rng.integers(1, 5)),
        c=int(rng.integers(1, 4)),
        m=int(rng.integers(1, 4)),
        kernel=per_axis(1, 4),
        strides=strides,
        dilations=per_axis(1, 3),
        pads_begin=per_axis(-2, 3),
        pads_end=per_axis(-2, 3),
        output_padding=per_axis(0, max(strides) + 1) if rng.random() < 0.5 else (0,) * axes,
        auto_pad=str(rng.choice(["explicit", "same_upper", "same_lower", "valid"])),
        semantics="document" if rng.random() < 0.3 else "runtime",
    )
    if rng.random() < 0.45:
        return layer
    tops = [layer.full(a) + layer.output_padding[a] + 2 for a in range(axes)]
    return replace(layer, output_shape=tuple(int(rng.integers(0, top + 1)) for top in tops))


def graph_of(op: Any, *arrays: Any) -> tuple[Graph, dict[str, Any]]:
    """Return a graph in which every input of one operation is a model input, and its feeds."""
    g, feeds, inputs = Graph(), {}, []
    for name, array in zip(("x", "w", "output_shape"), arrays, strict=False):
        array = np.asarray(array)
        if name == "output_shape":
            inputs.append(constant(g, array, name))
            continue
        feeds[name] = array
        inputs.append(parameter(g, array.shape, array.dtype, name))
    result(g, Value(g.add(op, inputs, name="deconv").id))
    return g, feeds
