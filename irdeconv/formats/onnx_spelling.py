"""Lowered layers as ONNX nodes, in the spelling of the model's operation set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.formats.importing import registrar
from irdeconv.formats.onnx_node import onnx_module, onnx_type
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.ir.graph import FreshNames, Graph, Node, Value
from irdeconv.ir.spec import Array, Dim, Spec, dims, ints, is_static
from irdeconv.ops.activation import Clamp
from irdeconv.ops.basic import Const
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_openvino import BackpropData
from irdeconv.ops.slicing import StridedSlice

TO_THE_END = np.iinfo(np.int64).max


@dataclass
class NodeWriter:
    """Writes the nodes of a graph that an output needs, each once, producers first.

    `opset` is the operation set, `base` the prefix of new names, `given` the names of the graph's
    inputs. Tensors that are no part of nodes (`as_nodes` is false) are collected in `tensors`.
    """

    graph: Graph
    opset: int
    names: FreshNames
    base: str
    given: dict[int, str]
    as_nodes: bool = False
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    written: dict[Value, str] = field(default_factory=dict)
    constants: dict[tuple[object, ...], str] = field(default_factory=dict)

    def value(self, value: Value) -> str:
        """Return the name of a value; write it if necessary."""
        if value not in self.written:
            self.written[value] = self._write(value)
        return self.written[value]

    def _write(self, value: Value) -> str:
        node = self.graph.node(value.node)
        if node.id in self.given:
            return self.given[node.id]
        if isinstance(node.op, Const):
            return self.constant(node.op.data.array(), node.op.element_type)
        rule = RULES.get(node.type)
        if rule is None:
            raise OpError(f"{node.type} has no spelling in ONNX", code="E402")
        return rule(self, node, self.graph.inputs_of(node.id))

    def add(self, type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        name = self.names.fresh(f"{self.base}/{type}")
        node = onnx_module("onnx.helper").make_node(type, inputs, [name], name, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, array: Array, dtype: ElementType = i64, what: str = "") -> str:
        """Return the name of a constant; equal ones are written once."""
        array = np.ascontiguousarray(array) if array.ndim else array
        key = (dtype.name, array.shape, array.tobytes())
        if key in self.constants:
            return self.constants[key]
        if array.size > 1 and array.size > ZEROS and not array.any():
            return self.zeros(self.constant(np.array(array.shape, np.int64)), dtype)
        tensor = onnx_module().TensorProto(data_type=onnx_type(dtype), raw_data=key[2])
        tensor.dims.extend(array.shape)
        if self.as_nodes:
            name = self.add("Constant", value=tensor)
        else:
            word = "filter" if array.ndim > 2 else "constant" if dtype.kind == "int" else "value"
            name = self.names.fresh(f"{self.base}/{what or word}")
            tensor.name = name
            self.tensors.append(tensor)
        self.constants[key] = name
        return name

    def zeros(self, shape: str, dtype: ElementType) -> str:
        """Add a tensor of zeros whose shape is the value of another tensor."""
        self.require(9, "zeros of a shape known at run time")
        zero = onnx_module().TensorProto(data_type=onnx_type(dtype), dims=[1])
        zero.raw_data = bytes(dtype.container.itemsize)
        return self.add("ConstantOfShape", shape, value=zero)

    def require(self, opset: int, what: str) -> None:
        """Raise OpError if the operation set is older than `opset`."""
        if self.opset < opset:
            raise OpError(
                f"{what} need operation set {opset}; the model has {self.opset}: "
                "onnx.version_converter raises it",
                code="E402",
            )

    def known(self, value: Value) -> tuple[int, ...] | None:
        """Return the numbers of an integer vector that is known; of a constant in any case."""
        op = self.graph.node(value.node).op
        if isinstance(op, Const) and op.element_type.kind == "int":
            return ints(Spec.of(op.data.array()))
        return ints(self.graph.spec(value))

    def numbers(self, value: Value) -> tuple[int, ...]:
        """Return the numbers of an integer vector; OpError if it is computed."""
        found = self.known(value)
        if found is None:
            made = self.graph.node(value.node).type
            raise OpError(f"computed positions ({made}) have no spelling here", code="E402")
        return found

    def along(self, type: str, x: str, axes: Sequence[int]) -> str:
        """Squeeze or unsqueeze axes."""
        if self.opset < 13:
            return self.add(type, x, axes=list(axes))
        return self.add(type, x, self.constant(np.array(axes, np.int64)))

    def pad(self, x: str, begin: Sequence[int], end: Sequence[int]) -> str:
        """Pad with zeros by numbers; a crop alone is a Slice."""
        if not any(begin) and not any(end):
            return x
        if max(*begin, *end) <= 0:
            axes = [a for a, (p, q) in enumerate(zip(begin, end, strict=True)) if p or q]
            stop = [end[a] or TO_THE_END for a in axes]
            return self.slice(x, [-begin[a] for a in axes], stop, axes)
        pads = [*begin, *end]
        if self.opset < 11:
            return self.add("Pad", x, pads=pads)
        return self.add("Pad", x, self.constant(np.array(pads, np.int64), what="pads"))

    def slice(
        self,
        x: str,
        start: Sequence[int],
        stop: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] = (),
    ) -> str:
        """Take a part by numbers."""
        if self.opset < 10:
            if any(s != 1 for s in steps):
                self.require(10, "slices with steps")
            return self.add("Slice", x, starts=list(start), ends=list(stop), axes=list(axes))
        lists = [start, stop, axes, *([steps] if any(s != 1 for s in steps) else [])]
        return self.add("Slice", x, *(self.constant(np.array(v, np.int64)) for v in lists))

    def reshape(self, x: str, target: Sequence[int]) -> str:
        """Bring into a shape of exact numbers, of which one may be -1; 0 is no elements."""
        shape = self.constant(np.array(target, np.int64), what="shape")
        return self.reshape_to(x, shape, 0 in target)

    def reshape_to(self, x: str, target: str, literal: bool) -> str:
        """Bring into a shape that is computed; with `literal` it may have no elements."""
        if not literal:
            return self.add("Reshape", x, target)
        self.require(14, "shapes without elements")
        return self.add("Reshape", x, target, allowzero=1)

    def larger(self, a: str, b: str) -> str:
        """Return the larger of two integers, element by element."""
        if self.opset >= 12:
            return self.add("Max", a, b)
        # Max takes no integers there.
        return self.add("Where", self.add("Greater", a, b), a, b)


OLDEST = 7  # operation set: before it Pad, Reshape and others have other attributes and inputs
ZEROS = 1 << 12  # more zeros than these are made at run time
Inputs = tuple[Value, ...]
Rule = Callable[[NodeWriter, Node, Inputs], str]
RULES: dict[str, Rule] = {}
spelling = registrar(RULES)


def _plain(name: str, inputs: int | None = None, **attributes: Callable[[Any], Any]) -> Rule:
    """Return the spelling by the first inputs, and attributes that follow from the operation."""

    def write(w: NodeWriter, node: Node, given: Inputs) -> str:
        values = {k: f(node.op) for k, f in attributes.items()}
        return w.add(name, *map(w.value, given[:inputs]), **values)

    return write


_SAME = "Tanh Sigmoid ReLU=Relu PReLU=PRelu Subtract=Sub Multiply=Mul Divide=Div ShapeOf=Shape Tile"
for _ours, _, _theirs in (pair.partition("=") for pair in _SAME.split()):
    RULES[_ours] = _plain(_theirs or _ours)
RULES |= {
    "Concat": _plain("Concat", axis=lambda op: op.axis),
    "Convert": _plain("Cast", to=lambda op: onnx_type(op.destination_type)),
    "Maximum": lambda w, node, inputs: w.larger(*map(w.value, inputs)),
    "Transpose": lambda w, node, inputs: w.add(
        "Transpose", w.value(inputs[0]), perm=list(w.numbers(inputs[1]))
    ),
    **dict.fromkeys(
        ("Squeeze", "Unsqueeze"),
        lambda w, node, inputs: w.along(node.type, w.value(inputs[0]), w.numbers(inputs[1])),
    ),
}


@spelling("Clamp")
def _clamp(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    op, dtype = node.op, node.spec().dtype
    assert isinstance(op, Clamp)
    assert dtype is not None
    if w.opset < 11:
        return w.add("Clip", w.value(inputs[0]), min=float(op.min), max=float(op.max))
    ends = (w.constant(np.array(v, dtype.container), dtype) for v in (op.min, op.max))
    return w.add("Clip", w.value(inputs[0]), *ends)


@spelling("HardSigmoid")
def _hard_sigmoid(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    known = [w.graph.spec(v).known for v in inputs[1:]]
    if known[0] is None or known[1] is None:
        raise OpError("HardSigmoid of computed parameters has no spelling in ONNX", code="E402")
    alpha, beta = (float(v.reshape(())) for v in known if v is not None)
    return w.add("HardSigmoid", w.value(inputs[0]), alpha=alpha, beta=beta)


@spelling("Gather")
def _gather(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    axis = w.numbers(inputs[2])
    return w.add("Gather", w.value(inputs[0]), w.value(inputs[1]), axis=axis[0])


@spelling("Broadcast")
def _broadcast(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    data = w.graph.spec(inputs[0])
    if data.known is None or np.any(data.known != 0) or data.dtype is None:
        raise OpError("a Broadcast of anything but zeros has no spelling here", code="E402")
    return w.zeros(w.value(inputs[1]), data.dtype)


@spelling("Slice")
def _slice(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    start, stop, step, axes = map(w.numbers, inputs[1:])
    return w.slice(w.value(inputs[0]), start, stop, axes, step)


@spelling("Reshape")
def _reshape(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    x, target = inputs
    wanted = dims(w.graph.spec(target))
    numbers = None if wanted is None else _with_one_open(wanted)
    if numbers is not None:
        return w.reshape(w.value(x), numbers)
    return w.reshape_to(w.value(x), w.value(target), w.opset >= 14)


def _with_one_open(target: Sequence[Dim]) -> list[int] | None:
    """Return sizes with -1 for a single one that is not known; None if there are more."""
    numbers = [n if isinstance(n, int) else -1 for n in target]
    return numbers if numbers.count(-1) < 2 and (0 not in numbers or -1 not in numbers) else None


@spelling("DepthToSpace")
def _depth_to_space(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    op = node.op
    assert isinstance(op, DepthToSpace)
    mode = {"blocks_first": "DCR", "depth_first": "CRD"}[op.mode]
    more = {"mode": mode} if w.opset >= 11 else {}
    return w.add("DepthToSpace", w.value(inputs[0]), blocksize=op.block_size, **more)


@spelling("Pad")
def _pad(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    begin, end = (w.known(v) for v in inputs[1:3])
    if begin is not None and end is not None:
        return w.pad(w.value(inputs[0]), begin, end)
    w.require(11, "pads that follow from sizes")
    ends = (w.value(v) for v in inputs[1:])
    return w.add("Pad", w.value(inputs[0]), w.add("Concat", *ends, axis=0))


@spelling("StridedSlice")
def _strided_slice(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    op = node.op
    assert isinstance(op, StridedSlice)
    begin, end, step = map(w.numbers, inputs[1:4])
    masks = zip(op.begin_mask or (0,) * len(begin), op.end_mask or (0,) * len(end), strict=True)
    rows = [(a, *row) for a, row in enumerate(zip(begin, end, step, masks, strict=True))]
    kept = [(a, b * (not m), TO_THE_END if n else e, s) for a, b, e, s, (m, n) in rows]
    kept = [r for r in kept if r[1:] != (0, TO_THE_END, 1)]
    axes, start, stop, steps = zip(*kept, strict=True)
    return w.slice(w.value(inputs[0]), start, stop, axes, steps)


@spelling("Interpolate")
def _interpolate(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    w.require(11, "Resize that repeats elements")
    scales = w.value(inputs[2])
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    roi = "" if w.opset >= 13 else w.constant(np.zeros(0, np.float32), ELEMENT_TYPES["f32"])
    return w.add("Resize", w.value(inputs[0]), roi, scales, nearest_mode="floor", **how)


def _windowed(w: NodeWriter, node: Node, inputs: Inputs, *bias: str) -> str:
    """Write a convolution, or a deconvolution with explicit pads."""
    op, shape = node.op, w.graph.spec(inputs[1]).shape
    assert isinstance(op, ConvolutionBase | BackpropData)
    grouped = op.group_count is None if isinstance(op, BackpropData) else op.grouped
    lists = {
        "pads": ((*op.pads_begin, *op.pads_end), 0),
        "strides": (op.strides, 1),
        "dilations": (op.dilations, 1),
        "output_padding": (getattr(op, "output_padding", ()), 0),
    }
    more = {k: list(v) for k, (v, default) in lists.items() if any(n != default for n in v)}
    if is_static(shape):  # onnx2tf fails without it
        more["kernel_shape"] = list(shape[2 + grouped :])
    name, x = "Conv" if isinstance(op, ConvolutionBase) else "ConvTranspose", w.value(inputs[0])
    if not grouped:
        return w.add(name, x, w.value(inputs[1]), *bias, **more)
    if shape is None or not isinstance(shape[0], int):
        raise OpError("the number of groups is unknown", code="E402")
    return w.add(name, x, _without_groups(w, inputs[1]), *bias, group=shape[0], **more)


spelling("Convolution GroupConvolution")(_windowed)
spelling("ConvolutionBackpropData GroupConvolutionBackpropData")(_windowed)


@spelling("Add")
def _add(w: NodeWriter, node: Node, inputs: Inputs) -> str:
    """Add; a bias behind a convolution becomes its third input."""
    convolution = w.graph.node(inputs[0].node)
    summed = isinstance(convolution.op, ConvolutionBase | BackpropData)
    if summed and len(w.graph.users(inputs[0])) == 1:
        bias = _bias(w, inputs[1], node.spec().rank or 0)
        if bias is not None:
            return _windowed(w, convolution, w.graph.inputs_of(convolution.id), bias)
    return w.add("Add", *map(w.value, inputs))


def _bias(w: NodeWriter, value: Value, rank: int) -> str | None:
    """Return the vector of a bias (1, M, 1, ...); None for any other value."""
    node = w.graph.node(value.node)
    shape = w.graph.spec(value).shape
    if shape is None or len(shape) != rank or any(n != 1 for n in (shape[0], *shape[2:])):
        return None
    if node.type == "Unsqueeze":
        return w.value(w.graph.inputs_of(node.id)[0])
    if node.type == "Reshape":
        return w.reshape(w.value(value), [-1])
    if isinstance(node.op, Const):
        return w.constant(node.op.data.array().reshape(-1), node.op.element_type, "bias")
    return None


def _without_groups(w: NodeWriter, filter: Value) -> str:
    """(g, M/g, C/g, *K) -> (M, C/g, *K)"""
    shape, op = w.graph.spec(filter).shape, w.graph.node(filter.node).op
    assert shape is not None
    if isinstance(op, Const):
        array = op.data.array()
        joined = array.reshape(math.prod(array.shape[:2]), *array.shape[2:])
        return w.constant(joined, op.element_type)
    first = math.prod(shape[:2]) if is_static(shape[:2]) else -1
    rest = _with_one_open([first, *shape[2:]])
    if rest is not None:
        return w.reshape(w.value(filter), rest)
    sizes = w.add("Shape", w.value(filter))
    kernel = w.slice(sizes, [2], [TO_THE_END], [0])
    target = w.add("Concat", w.constant(np.array([-1], np.int64)), kernel, axis=0)
    return w.add("Reshape", w.value(filter), target)
