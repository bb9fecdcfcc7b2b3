"""Mistakes of compilers and converters that can be planted in a graph, one layer each.

A plant changes a copy of the graph in place and says whether it applies to the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.constant import ArrayData
from irdeconv.dtypes import of_numpy
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert
from irdeconv.ops.unary import Abs, Tanh
from irdeconv.reducing.candidate import is_valid

Plant = Callable[[Graph, Node], bool]  # changes a copy in place; False where it does not apply


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


def layer_dropped(graph: Graph, node: Node) -> bool:
    """An activation left out."""
    if node.type not in ("ReLU", "PReLU", "Clamp", "HSwish", "Tanh", "Sigmoid", "Elu"):
        return False
    value = graph.inputs_of(node.id)[0]
    if graph.node(value.node).type in ("Parameter", "Const"):
        return False
    graph.replace_uses(Value(node.id), value)
    graph.remove(node.id)
    kept = graph.node(value.node)
    kept.tensor_names = node.tensor_names or kept.tensor_names
    return True


def activation(graph: Graph, node: Node) -> bool:
    """Another activation of the same kind."""
    others = {"ReLU": Abs(), "Sigmoid": Tanh(), "Tanh": Sigmoid(), "HSwish": ReLU()}
    if node.type not in others:
        return False
    graph.replace_op(node.id, others[node.type])
    return True


def slope(graph: Graph, node: Node) -> bool:
    """A PReLU with the slope of the next channel, or with twice its slope."""
    port = {"PReLU": 1, "HardSigmoid": 1}.get(node.type)
    change = rolled if node.type == "PReLU" else lambda a: a
    return port is not None and (
        with_input(graph, node, port, change) or with_input(graph, node, port, lambda a: 2 * a)
    )


def clamp(graph: Graph, node: Node) -> bool:
    """Another bound of a Clamp."""
    op: Any = node.op
    return node.type == "Clamp" and with_op(graph, node, max=float(op.min + (op.max - op.min) / 4))


def epsilon(graph: Graph, node: Node) -> bool:
    """A thousand times the epsilon, at least 0.01."""
    for name in ("eps", "epsilon"):
        if hasattr(node.op, name):
            return with_op(graph, node, **{name: max(getattr(node.op, name) * 1000, 0.01)})
    return False


def eps_mode(graph: Graph, node: Node) -> bool:
    """The epsilon outside of the root."""
    modes = {
        "inside_sqrt": "outside_sqrt",
        "outside_sqrt": "inside_sqrt",
        "add": "max",
        "max": "add",
    }
    mode = getattr(node.op, "eps_mode", None)
    op: Any = node.op
    return mode is not None and with_op(
        graph, node, eps_mode=modes[mode], eps=max(float(op.eps), 0.01)
    )


def softmax_axis(graph: Graph, node: Node) -> bool:
    """Softmax along the next axis."""
    rank = graph.spec(graph.inputs_of(node.id)[0]).rank or 0
    op: Any = node.op
    if not node.type.lower().endswith("softmax") or rank < 2:
        return False
    return with_op(graph, node, axis=(op.axis + 1) % rank)


def concat_order(graph: Graph, node: Node) -> bool:
    """Two inputs of a Concat swapped."""
    inputs = graph.inputs_of(node.id)
    if node.type != "Concat" or len(set(inputs)) < 2 or inputs[0] == inputs[1]:
        return False
    graph.set_input(node.id, 0, inputs[1])
    graph.set_input(node.id, 1, inputs[0])
    return True


def operand_order(graph: Graph, node: Node) -> bool:
    """a - b for b - a, a / b for b / a."""
    inputs = graph.inputs_of(node.id)
    if node.type not in ("Subtract", "Divide") or inputs[0] == inputs[1]:
        return False
    graph.set_input(node.id, 0, inputs[1])
    graph.set_input(node.id, 1, inputs[0])
    return True


def split_order(graph: Graph, node: Node) -> bool:
    """The first two outputs of a Split swapped."""
    if node.type not in ("Split", "VariadicSplit"):
        return False
    first, second = graph.users(Value(node.id, 0)), graph.users(Value(node.id, 1))
    for user, port in first:
        graph.set_input(user, port, Value(node.id, 1))
    for user, port in second:
        graph.set_input(user, port, Value(node.id, 0))
    return bool(first or second)


def transposed_axes(graph: Graph, node: Node) -> bool:
    """The last two axes of a Transpose swapped."""
    return node.type == "Transpose" and with_input(
        graph, node, 1, lambda order: [*order[:-2], order[-1], order[-2]]
    )


def interpolate_mode(graph: Graph, node: Node) -> bool:
    """Corners aligned where they are not, or the other way round; asymmetric for nearest."""
    mode = getattr(node.op, "coordinate_transformation_mode", None)
    if mode is None:
        return False
    return with_op(
        graph,
        node,
        coordinate_transformation_mode="asymmetric" if mode == "half_pixel" else "half_pixel",
    ) and (node.op.mode != "nearest" or with_op(graph, node, nearest_mode="ceil"))  # type: ignore[attr-defined]


def exclude_pad(graph: Graph, node: Node) -> bool:
    """Padded elements counted in an average, or not."""
    op: Any = node.op
    return node.type == "AvgPool" and with_op(graph, node, exclude_pad=not op.exclude_pad)


def rounding_type(graph: Graph, node: Node) -> bool:
    """A pooling that rounds its size up instead of down, or the other way round."""
    kind = getattr(node.op, "rounding_type", None)
    other = "ceil" if kind == "floor" else "floor"
    return kind is not None and with_op(graph, node, rounding_type=other)


def slice_start(graph: Graph, node: Node) -> bool:
    """A slice that begins and ends one element earlier."""
    if node.type not in ("StridedSlice", "Slice"):
        return False
    return with_input(graph, node, 1, lambda a: np.where(a > 0, a - 1, a)) and (
        with_input(graph, node, 2, lambda a: np.where((a > 0) & (a < 2**31 - 1), a - 1, a)) or True
    )


def reduce_kind(graph: Graph, node: Node) -> bool:
    """A sum for a mean, a mean for a maximum."""
    from irdeconv.ops.reduction import ReduceMean, ReduceSum

    op: Any = node.op
    if node.type not in ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"):
        return False
    other = ReduceSum if node.type == "ReduceMean" else ReduceMean
    graph.replace_op(node.id, other(keep_dims=op.keep_dims))
    return True


def reduce_axes(graph: Graph, node: Node) -> bool:
    """The axis in front of the first one that is reduced, or only the last one."""
    if not node.type.startswith("Reduce"):
        return False
    return with_input(graph, node, 1, lambda a: a[-1:] if a.ndim and a.size > 1 else a - 1)


def pad_mode(graph: Graph, node: Node) -> bool:
    """Zeros instead of reflected elements; the border repeated instead of zeros."""
    mode = getattr(node.op, "pad_mode", None)
    other = {"constant": "edge", "edge": "constant", "reflect": "edge", "symmetric": "edge"}
    if mode is None or (mode == "constant" and len(graph.inputs_of(node.id)) > 4):
        return False
    return with_op(graph, node, pad_mode=other[mode])


def pad_side(graph: Graph, node: Node) -> bool:
    """Pads at the begin and at the end swapped."""
    inputs = graph.inputs_of(node.id)
    if node.type != "Pad" or np.array_equal(*(array_of(graph, v) for v in inputs[1:3])):
        return False
    graph.set_input(node.id, 1, inputs[2])
    graph.set_input(node.id, 2, inputs[1])
    return True


def gather_index(graph: Graph, node: Node) -> bool:
    """The next index."""
    return node.type == "Gather" and with_input(
        graph, node, 1, lambda i: np.where(i > 0, i - 1, i + 1)
    )


def shuffle_groups(graph: Graph, node: Node) -> bool:
    """Channels shuffled the other way round."""
    op: Any = node.op
    size = (graph.spec(graph.inputs_of(node.id)[0]).shape or (0, 0))[1]
    if node.type != "ShuffleChannels" or not isinstance(size, int):
        return False
    return with_op(graph, node, group=size // op.group)


def depth_mode(graph: Graph, node: Node) -> bool:
    """DCR for CRD."""
    mode = getattr(node.op, "mode", None)
    other = {"blocks_first": "depth_first", "depth_first": "blocks_first"}.get(str(mode))
    return other is not None and with_op(graph, node, mode=other)


def matmul_transposed(graph: Graph, node: Node) -> bool:
    """A square matrix transposed, or the wrong columns."""
    return node.type == "MatMul" and with_input(graph, node, 1, lambda w: swapped(w, w.ndim - 1))


def recurrent_gates(graph: Graph, node: Node) -> bool:
    """The first two gates of a recurrent cell swapped."""

    def gates(w: Any) -> Any:
        size = int(getattr(node.op, "hidden_size", 0))
        axis = w.ndim - 2
        order = np.arange(w.shape[axis]).reshape(-1, size)
        order[:2] = order[:2][::-1]
        return np.take(w, order.reshape(-1), axis)

    if not hasattr(node.op, "hidden_size"):
        return False
    ports = [p for p, v in enumerate(graph.inputs_of(node.id)) if np.ndim(array_of(graph, v)) >= 2]
    return bool(ports) and with_input(graph, node, ports[-2] if len(ports) > 2 else ports[0], gates)


def low_precision(graph: Graph, node: Node) -> bool:
    """Weights rounded to 4 bits of mantissa."""

    def coarse(w: Any) -> Any:
        mantissa, exponent = np.frexp(w.astype(np.float64))
        return np.ldexp(np.round(mantissa * 16) / 16, exponent)

    return is_conv(node) and with_input(graph, node, 1, coarse)


PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        pads_shifted, auto_pad, kernel_flipped, kernel_transposed, input_channels,
        output_channels, group_order, dilation, stride_start, bias_missing, bias_order,
        scale_order, layer_dropped, activation, slope, clamp, epsilon, eps_mode, softmax_axis,
        concat_order, operand_order, split_order, transposed_axes, interpolate_mode,
        exclude_pad, rounding_type, slice_start, reduce_kind, reduce_axes, pad_mode, pad_side,
        gather_index, shuffle_groups, depth_mode, matmul_transposed, recurrent_gates,
        low_precision,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A mistake in one layer."""

    kind: str
    layer: str
    type: str

    def planted(self, graph: Graph) -> Graph | None:
        """Return a broken copy; None where the graph has no such layer or does not fit then."""
        copy = graph.copy()
        found = [n for n in copy.find(self.layer) if n.type == self.type]
        try:
            if len(found) != 1 or not PLANTS[self.kind](copy, found[0]):
                return None
        except (IndexError, ValueError):
            return None
        return copy if is_valid(copy) else None


def faults(graph: Graph) -> Iterator[Fault]:
    """Yield every fault that can be planted in an inferred graph."""
    for node in graph.nodes():
        for kind in PLANTS:
            fault = Fault(kind, node.name, node.type)
            if node.type not in ("Const", "Parameter", "Result") and fault.planted(graph):
                yield fault
