"""The bias behind a deconvolution: an Add of one number per output channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.elementwise import Add
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.stored import constant_of, stored
from irdeconv.spec import Array


@dataclass(frozen=True)
class ChannelBias:
    """An Add behind a deconvolution, and its constant [M], or its value [1, M, 1, ...]."""

    add: Node
    other: Value
    constant: Array | None
    rank: int

    def value(self, b: GraphBuilder) -> Value:
        """Return the bias as a value [1, M, 1, ...]."""
        if self.constant is None:
            return self.other
        shape = (1, -1, *(1,) * (self.rank - 2))
        return b.const(self.constant.reshape(shape), b.spec(self.other).dtype)


def bias_behind(graph: Graph, node: Node) -> ChannelBias | None:
    """Return the bias of a deconvolution of which nothing else reads the output."""
    users, output = graph.users(Value(node.id)), node.spec()
    if len(users) != 1 or not isinstance(graph.node(users[0][0]).op, Add) or not output.shape:
        return None
    add, channels = graph.node(users[0][0]), output.shape[1]
    other = graph.inputs_of(add.id)[1 - users[0][1]]
    spec, rank = graph.spec(other), len(output.shape)
    if other.node == node.id or not isinstance(channels, int) or spec.shape is None:
        return None
    values = constant_of(graph, other)
    if values is None:
        same = spec.shape == (1, channels, *(1,) * (rank - 2))
        return ChannelBias(add, other, None, rank) if same and _made_of(graph, other, add) else None
    shape = (1,) * (rank - values.ndim) + values.shape
    along = [a for a, n in enumerate(shape) if n != 1]
    if len(shape) != rank or along not in ([], [1]) or values.size not in (1, channels):
        return None
    row = np.broadcast_to(values.reshape(-1), (channels,))
    return ChannelBias(add, other, np.ascontiguousarray(row), rank)


def is_quantized(graph: Graph, node: Node) -> bool:
    """Whether a layer will run in int8: its data are quantized, or its filter is stored so."""
    data, filter, *_ = graph.inputs_of(node.id)
    known = stored(graph, filter)
    if known is not None and known.dtype.kind != "float":
        return True
    producer = graph.node(data.node)
    while producer.type in ("Convert", "Multiply", "Subtract"):
        producer = graph.node(graph.inputs_of(producer.id)[0].node)
        dtype = producer.spec().dtype
        if dtype is not None and dtype.name in ("i8", "u8"):
            return True
    return producer.type == "FakeQuantize"


def _made_of(graph: Graph, other: Value, add: Node) -> bool:
    """Whether the value was made by the expansion of the same layer as the Add."""
    return bool(add.origins) and graph.node(other.node).origins == add.origins
