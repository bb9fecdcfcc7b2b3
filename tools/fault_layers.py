"""Mistakes of compilers and converters in other layers: axes, orders, modes, activations.

A mistake changes a copy of a graph in place and says whether it applies to the layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fault_filters import array_of, rolled, swapped, with_input, with_op

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.elementwise import Abs, Tanh


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
