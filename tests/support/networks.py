"""A small network for comparisons: two convolutions, a deconvolution, biases, activations."""

from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import Op
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.channels import Split
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.elementwise import Add
from support.layers import constant, parameter, result

SHAPE = (1, 3, 12, 12)
LAYERS = ("conv1", "add1", "relu1", "conv2", "relu2", "up", "add3", "split", "out")


def image(seed: int = 0) -> np.ndarray:
    """An input."""
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def network(edit: dict[str, Any] | None = None, *, names: dict[str, str] | None = None) -> Graph:
    """Build it; `edit` maps a constant's name to a function of its values, `names` renames."""
    rng = np.random.default_rng(42)
    g = Graph()

    def const(name: str, *shape: int) -> Value:
        values = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        change = (edit or {}).get(name)
        return constant(g, np.float32(values if change is None else change(values)), name)

    def add(name: str, op: Op, *inputs: Value) -> Value:
        spelled = (names or {}).get(name, name)
        node = g.add(op, list(inputs), name=spelled)
        g.node(node.id).tensor_names = ((f"{spelled}:0",), (f"{spelled}:1",))[
            : 1 + (name == "split")
        ]
        return Value(node.id)

    same = {"pads_begin": (1, 1), "pads_end": (1, 1)}
    y = parameter(g, SHAPE, np.float32, "x")
    y = add("conv1", Convolution(**same), y, const("w1", 16, 3, 3, 3))
    y = add("add1", Add(), y, const("b1", 1, 16, 1, 1))
    y = add("relu1", ReLU(), y)
    y = add("conv2", Convolution(**same), y, const("w2", 24, 16, 3, 3))
    y = add("relu2", ReLU(), y)
    y = add(
        "up",
        ConvolutionBackpropData(strides=(2, 2), output_padding=(1, 1), **same),
        y,
        const("w3", 24, 4, 3, 3),
    )
    y = add("add3", Add(), y, const("b3", 1, 4, 1, 1))
    y = add("split", Split(num_splits=2), y, constant(g, np.int64(1), "axis"))
    result(g, add("out", Sigmoid(), Value(y.node, 1)), "y")
    return g
