"""A network with a layer of nearly every kind, for faults that are planted in it."""

from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import lookup
from support.layers import constant, parameter, result

SHAPE = (2, 8, 12, 12)


class _Builder:
    """Adds layers whose names say their types; constants have seeded values."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.rng = np.random.default_rng(5)
        self.count = 0

    def add(self, kind: str, *inputs: Value, name: str | None = None, **fields: Any) -> Value:
        """Add `Type-opset`."""
        type, _, number = kind.partition("-")
        cls = lookup(type, f"opset{number or 1}")
        assert cls is not None, kind
        self.count += 1
        node = self.graph.add(cls(**fields), inputs, name=name or f"{type.lower()}{self.count}")
        return Value(node.id)

    def weights(self, *shape: int) -> Value:
        """Add a constant of reals."""
        values = self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)
        self.count += 1
        return constant(self.graph, values.astype(np.float32), f"weights{self.count}")

    def ints(self, *values: int) -> Value:
        """Add a vector of integers."""
        self.count += 1
        return constant(self.graph, np.array(values, np.int64), f"ints{self.count}")

    def scalar(self, value: float) -> Value:
        """Add a real."""
        self.count += 1
        return constant(self.graph, np.float32(value), f"scalar{self.count}")

    def axis(self, value: int) -> Value:
        """Add an integer without axes."""
        self.count += 1
        return constant(self.graph, np.int64(value), f"axis{self.count}")


def wide_network() -> Graph:
    """Return it: input x of SHAPE, outputs `image` and `scores`."""
    b = _Builder()
    y = _filters(b, parameter(b.graph, SHAPE, np.float32, "x"))
    y = _normalised(b, y)
    y = _moved(b, y)
    y = _resized(b, y)
    result(b.graph, y, "image")
    result(b.graph, _scored(b, y), "scores")
    return b.graph


def _filters(b: _Builder, x: Value) -> Value:
    """8 channels of 12 x 12 in and out."""
    padded = {"pads_begin": (1, 1), "pads_end": (1, 1), "strides": (1, 1), "dilations": (1, 1)}
    y = b.add("Convolution", x, b.weights(8, 8, 3, 3), **padded)
    y = b.add("ReLU", b.add("Add", y, b.weights(1, 8, 1, 1)))
    wide = {**padded, "pads_begin": (2, 2), "pads_end": (2, 2), "dilations": (2, 2)}
    y = b.add("Convolution", y, b.weights(8, 8, 3, 3), **wide)
    y = b.add("PReLU", y, b.weights(8))
    y = b.add("GroupConvolution", y, b.weights(4, 2, 2, 3, 3), **padded)
    halved = {**padded, "strides": (2, 2), "auto_pad": "same_upper"}
    y = b.add("HSwish-4", b.add("Convolution", y, b.weights(6, 8, 3, 3), **halved))
    doubled = {**padded, "strides": (2, 2), "output_padding": (1, 1)}
    y = b.add("ConvolutionBackpropData", y, b.weights(6, 8, 3, 3), **doubled)
    return b.add("Multiply", y, b.weights(1, 8, 1, 1))


def _normalised(b: _Builder, x: Value) -> Value:
    positive = b.add("Abs", b.weights(8))
    y = b.add(
        "BatchNormInference-5", x, b.weights(8), b.weights(8), b.weights(8), positive, epsilon=1e-5
    )
    y = b.add("MVN-6", y, b.ints(2, 3), normalize_variance=True, eps=1e-5)
    y = b.add("Add", y, x)
    y = b.add("NormalizeL2", y, b.ints(1), eps=1e-3)
    y = b.add("Clamp", y, min=-0.6, max=0.9)
    rules = {"kernel": (3, 3), "strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    mean = b.add("AvgPool", y, **rules)
    most = b.add("MaxPool", y, **rules)
    coarse = b.add("MaxPool", y, **{**rules, "strides": (2, 2), "rounding_type": "ceil"})
    whole = b.add("ReduceMean", coarse, b.ints(2, 3), keep_dims=True)
    return b.add("Add", b.add("Subtract", mean, b.add("Tanh", most)), whole)


def _moved(b: _Builder, x: Value) -> Value:
    y = b.add("Transpose", x, b.ints(0, 1, 3, 2))
    y = b.add("ShuffleChannels", y, axis=1, group=2)
    first = b.add("Split", y, b.axis(1), num_splits=2, name="split")
    sharp = b.add("Sigmoid", Value(first.node, 0))
    y = b.add("Concat", sharp, Value(first.node, 1), axis=1)
    y = b.add("Pad", y, b.ints(0, 0, 2, 1), b.ints(0, 0, 1, 2), pad_mode="reflect")
    masks = {"begin_mask": (0, 0, 0, 0), "end_mask": (1, 1, 0, 0)}
    every = b.ints(1, 1, 1, 1)
    y = b.add("StridedSlice", y, b.ints(0, 0, 2, 1), b.ints(0, 0, 14, 13), every, **masks)
    y = b.add("DepthToSpace", y, mode="blocks_first", block_size=2)
    return b.add("SpaceToDepth", y, mode="depth_first", block_size=2)


def _resized(b: _Builder, x: Value) -> Value:
    ways = {
        "mode": "linear_onnx",
        "shape_calculation_mode": "sizes",
        "coordinate_transformation_mode": "half_pixel",
    }
    scales = constant(b.graph, np.array([1.5, 1.5], np.float32), "scales")
    return b.add("Interpolate-4", x, b.ints(18, 18), scales, b.ints(2, 3), **ways)


def _scored(b: _Builder, x: Value) -> Value:
    y = b.add("ReduceMax", x, b.ints(2, 3), keep_dims=False)
    y = b.add("Gather-8", y, b.ints(0, 2, 3, 5, 6), b.axis(1), batch_dims=0)
    y = b.add("MatMul", y, b.weights(5, 4), transpose_a=False, transpose_b=False)
    y = b.add("HardSigmoid", y, b.scalar(0.3), b.scalar(0.5))
    state, cell = b.weights(2, 3), b.weights(2, 3)
    w, r, bias = b.weights(12, 4), b.weights(12, 3), b.weights(12)
    y = b.add("LSTMCell-4", y, state, cell, w, r, bias, hidden_size=3)
    return b.add("SoftMax-8", b.add("Divide", y, b.scalar(0.4)), axis=1)
