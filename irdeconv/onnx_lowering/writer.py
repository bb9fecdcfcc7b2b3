"""A lowered layer as ONNX nodes: standard operations as the model's operation set spells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import OpError
from irdeconv.graph import FreshNames, Graph, Node, Value
from irdeconv.importers.onnx_tensors import onnx_module, onnx_type
from irdeconv.ops.basic import Const
from irdeconv.spec import Array, ints

TO_THE_END = np.iinfo(np.int64).max


@dataclass
class NodeWriter:
    """Writes the nodes of a graph that an output needs, each once, producers first.

    `opset` is the operation set, `base` what new names begin with, `given` the names of the graph's
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
        """Return the name of a value, written where it is not yet."""
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
        """Add a node with one output and return that one's name."""
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
            return self._zeros(array.shape, dtype)
        tensor = onnx_module().TensorProto(data_type=onnx_type(dtype), raw_data=key[2])
        tensor.dims.extend(array.shape)
        if self.as_nodes:
            name = self.add("Constant", value=tensor)
        else:
            name = self.names.fresh(f"{self.base}/{what or _word(array, dtype)}")
            tensor.name = name
            self.tensors.append(tensor)
        self.constants[key] = name
        return name

    def _zeros(self, shape: Sequence[int], dtype: ElementType) -> str:
        return self.zeros(self.constant(np.array(shape, np.int64)), dtype)

    def zeros(self, shape: str, dtype: ElementType) -> str:
        """Add a tensor of zeros whose shape another tensor tells."""
        self.require(9, "zeros of a shape known at run time")
        zero = onnx_module().TensorProto(data_type=onnx_type(dtype), dims=[1])
        zero.raw_data = bytes(dtype.container.itemsize)
        return self.add("ConstantOfShape", shape, value=zero)

    def require(self, opset: int, what: str) -> None:
        """Raise OpError where the operation set is too old for something."""
        if self.opset < opset:
            raise OpError(
                f"{what} need operation set {opset}; the model has {self.opset}", code="E402"
            )

    def known(self, value: Value) -> tuple[int, ...] | None:
        """Return the numbers of an integer vector that is known."""
        return ints(self.graph.spec(value))

    def only_user(self, value: Value) -> bool:
        """Whether a value is read once."""
        return len(self.graph.users(value)) == 1

    # What has another signature in another operation set ---------------------------------------

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
        return self._reshape(
            x, self.constant(np.array(target, np.int64), what="shape"), 0 in target
        )

    def reshape_like(self, x: str, target: str) -> str:
        """Bring into a shape that is computed and may have no elements."""
        return self._reshape(x, target, self.opset >= 14)

    def _reshape(self, x: str, target: str, literal: bool) -> str:
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
Rule = Callable[[NodeWriter, Node, tuple[Value, ...]], str]
RULES: dict[str, Rule] = {}


def _word(array: Array, dtype: ElementType) -> str:
    """Return what a constant is called."""
    return "filter" if array.ndim > 2 else "constant" if dtype.kind == "int" else "value"
