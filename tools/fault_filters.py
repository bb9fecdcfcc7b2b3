"""Mistakes of compilers and converters in filters, pads, biases and scales.

A mistake changes a copy of a graph in place and says whether it applies to the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import of_numpy
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert


def array_of(graph: Graph, value: Value) -> Any:
    """Return a constant, also a compressed one behind its Convert; None for other values."""
    op = graph.node(value.node).op
    if isinstance(op, Const):
        return op.data.array()
    if isinstance(op, Convert):
        compressed = array_of(graph, graph.inputs_of(value.node)[0])
        return None if compressed is None else op.evaluate(compressed)
    return None


def with_input(graph: Graph, node: Node, port: int, change: Callable[[Any], Any]) -> bool:
    """Give a node another constant at a port; False where there is none, or nothing changes."""
    inputs = graph.inputs_of(node.id)
    old = array_of(graph, inputs[port]) if port < len(inputs) else None
    if old is None:
        return False
    changed = np.asarray(change(old))
    new = np.ascontiguousarray(changed.astype(old.dtype)).reshape(changed.shape)
    if new.shape == old.shape and np.array_equal(new, old):
        return False
    dtype = of_numpy(new.dtype)
    op = Const(element_type=dtype, shape=new.shape, data=ArrayData.of(new, dtype))
    graph.set_input(node.id, port, Value(graph.add(op, name=f"{node.name}/wrong{port}").id))
    return True


def with_op(graph: Graph, node: Node, **changes: Any) -> bool:
    """Give a node other attributes; False where it has none of these or nothing changes."""
    if not all(hasattr(node.op, name) for name in changes):
        return False
    new = replace(node.op, **changes)
    graph.replace_op(node.id, new)
    return True


def is_conv(node: Node) -> bool:
    """Whether it is a convolution or deconvolution."""
    return "Convolution" in node.type


def spatial(node: Node, array: Any) -> tuple[int, ...]:
    """Return the spatial axes of a filter."""
    first = 3 if node.type.startswith("Group") else 2
    return tuple(range(first, array.ndim))


def pads_shifted(graph: Graph, node: Node) -> bool:
    """One pad moved from the begin to the end, as for SAME_UPPER taken for SAME_LOWER."""
    op: Any = node.op
    if not (is_conv(node) or node.type in ("MaxPool", "AvgPool")) or op.auto_pad != "explicit":
        return False
    if not op.pads_begin or op.pads_begin[-1] < 1:
        return False
    begin, end = (
        (*op.pads_begin[:-1], op.pads_begin[-1] - 1),
        (*op.pads_end[:-1], op.pads_end[-1] + 1),
    )
    return with_op(graph, node, pads_begin=begin, pads_end=end)


def auto_pad(graph: Graph, node: Node) -> bool:
    """same_upper taken for same_lower."""
    other = {"same_upper": "same_lower", "same_lower": "same_upper"}
    name = other.get(getattr(node.op, "auto_pad", ""))
    return name is not None and with_op(graph, node, auto_pad=name)


def kernel_flipped(graph: Graph, node: Node) -> bool:
    """Correlation taken for convolution."""
    return is_conv(node) and with_input(graph, node, 1, lambda w: np.flip(w, spatial(node, w)))


def kernel_transposed(graph: Graph, node: Node) -> bool:
    """Height and width of the kernel swapped."""

    def swapped(w: Any) -> Any:
        axes = spatial(node, w)
        square = len(axes) > 1 and w.shape[axes[0]] == w.shape[axes[1]]
        return np.swapaxes(w, axes[0], axes[1]) if square else w

    return is_conv(node) and with_input(graph, node, 1, swapped)


def input_channels(graph: Graph, node: Node) -> bool:
    """The first two input channels swapped (RGB and BGR)."""
    grouped, back = node.type.startswith("Group"), "Backprop" in node.type
    return is_conv(node) and with_input(graph, node, 1, lambda w: swapped(w, grouped + (not back)))


def output_channels(graph: Graph, node: Node) -> bool:
    """The first two output channels swapped."""
    grouped, back = node.type.startswith("Group"), "Backprop" in node.type
    return is_conv(node) and with_input(graph, node, 1, lambda w: swapped(w, grouped + back))


def swapped(w: Any, axis: int) -> Any:
    """Return an array with the first two places of an axis swapped."""
    order = np.arange(w.shape[axis])
    order[:2] = order[:2][::-1]
    return np.take(w, order, axis)


def group_order(graph: Graph, node: Node) -> bool:
    """The groups' filters in reverse order."""
    return node.type.startswith("Group") and with_input(graph, node, 1, lambda w: np.flip(w, 0))


def dilation(graph: Graph, node: Node) -> bool:
    """Dilations ignored, the pads made to fit."""
    op: Any = node.op
    w = array_of(graph, graph.inputs_of(node.id)[1]) if is_conv(node) else None
    if w is None or not op.dilations or max(op.dilations) == 1 or op.auto_pad != "explicit":
        return False
    sizes = [w.shape[a] for a in spatial(node, w)]
    less = [(d - 1) * (k - 1) for d, k in zip(op.dilations, sizes, strict=True)]
    if "Backprop" in node.type or any(n % 2 for n in less):
        return False
    begin = tuple(p - n // 2 for p, n in zip(op.pads_begin, less, strict=True))
    end = tuple(p - n // 2 for p, n in zip(op.pads_end, less, strict=True))
    ones = (1,) * len(less)
    return with_op(graph, node, dilations=ones, pads_begin=begin, pads_end=end)


def stride_start(graph: Graph, node: Node) -> bool:
    """A strided convolution that begins one element later."""
    op: Any = node.op
    if not is_conv(node) or not op.strides or max(op.strides) < 2 or op.auto_pad != "explicit":
        return False
    begin, end = tuple(p - 1 for p in op.pads_begin), tuple(p + 1 for p in op.pads_end)
    return min(begin) >= 0 and with_op(graph, node, pads_begin=begin, pads_end=end)


def bias_missing(graph: Graph, node: Node) -> bool:
    """The bias is zero."""
    return node.type == "Add" and is_data(graph, node) and with_input(graph, node, 1, np.zeros_like)


def bias_order(graph: Graph, node: Node) -> bool:
    """The bias of the next channel."""
    return node.type == "Add" and is_data(graph, node) and with_input(graph, node, 1, rolled)


def scale_order(graph: Graph, node: Node) -> bool:
    """The scale of the next channel."""
    return node.type == "Multiply" and is_data(graph, node) and with_input(graph, node, 1, rolled)


def is_data(graph: Graph, node: Node) -> bool:
    """Whether the first input is a tensor of reals that is no constant."""
    value = graph.inputs_of(node.id)[0]
    dtype = graph.spec(value).dtype
    return array_of(graph, value) is None and dtype is not None and dtype.is_real


def rolled(a: Any) -> Any:
    """Return an array rolled by one along its longest axis."""
    return np.roll(a, 1, int(np.argmax(a.shape))) if a.ndim else a


def low_precision(graph: Graph, node: Node) -> bool:
    """Weights rounded to 4 bits of mantissa."""

    def coarse(w: Any) -> Any:
        mantissa, exponent = np.frexp(w.astype(np.float64))
        return np.ldexp(np.round(mantissa * 16) / 16, exponent)

    return is_conv(node) and with_input(graph, node, 1, coarse)
