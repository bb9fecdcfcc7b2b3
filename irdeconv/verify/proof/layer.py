"""A source layer, and the place that it has in a lowered graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import Array, Shape, ints
from irdeconv.verify.proof.attributes import Ints
from irdeconv.verify.proof.definition import Definition, Unproved, define
from irdeconv.verify.proof.evaluator import Constants


@dataclass(frozen=True)
class LayerPlace:
    """Where a source layer lies in the lowered graph: its data, filter, bias, output_shape, output.

    None stands for an input that is a constant or absent.
    """

    output: Value
    data: Value
    filter: Value | None = None
    bias: Value | None = None
    output_shape: Value | None = None


@dataclass(frozen=True, kw_only=True)
class SourceLayer:
    """A source layer: its definition and what its inputs are known to be.

    `filter` and `bias` are constants, or None where they are computed; shapes may be open.
    """

    definition: Definition
    data: Shape
    filter_shape: Shape
    filter: Array | None
    bias: Array | None
    has_bias: bool
    output_shape: Ints | None
    computed_output: bool
    container: np.dtype[np.generic] = np.dtype(np.float32)

    def output(self, data: Ints, filter: Ints, wanted: Ints | None) -> Ints:
        """Return the output's spatial sizes for exact sizes."""
        d = self.definition
        windows = d.windows(data, d.canonical_shape(filter), wanted or self.output_shape)
        return tuple(o for _, o in windows)


def source_layer(
    graph: Graph, node: Node, constants: Constants, add: int | None = None
) -> SourceLayer:
    """Read a source layer, with the bias that node `add` puts on it; Unproved without a rank."""
    d = define(graph, node)
    inputs = graph.inputs_of(node.id)
    shape, filter_shape = (graph.spec(v).shape for v in inputs[:2])
    dtype = graph.spec(inputs[0]).dtype
    filter = constants.get(inputs[1])
    if filter is not None:
        filter_shape = filter.shape
    if shape is None or filter_shape is None:
        raise Unproved("the rank of data or filter is unknown")
    wanted = None if d.output_shape is None else ints(graph.spec(inputs[d.output_shape]))
    if wanted is None and d.output_shape is not None:
        sizes = constants.get(inputs[d.output_shape])
        wanted = None if sizes is None else tuple(int(v) for v in sizes.reshape(-1))
    bias = None if d.bias is None else constants.get(inputs[d.bias])
    if add is not None:
        bias = _added(graph, node, add, constants)
    return SourceLayer(
        definition=d,
        data=shape,
        filter_shape=filter_shape,
        filter=filter,
        bias=bias,
        has_bias=d.bias is not None or add is not None,
        output_shape=wanted,
        computed_output=d.output_shape is not None and wanted is None,
        container=dtype.container if dtype else np.dtype(np.float32),
    )


def _added(graph: Graph, node: Node, add: int, constants: Constants) -> Array:
    """Return the constant that an Add puts on a deconvolution, a value per output channel."""
    d = define(graph, node)
    other = next(v for v in graph.inputs_of(add) if v.node != node.id)
    array, filter = constants.get(other), constants.get(graph.inputs_of(node.id)[1])
    if d.bias is not None or d.activation is not None or array is None or filter is None:
        raise Unproved("what is added to the source layer is no bias")
    groups, _, each = d.canonical_shape(filter.shape)[:3]
    channels = groups * each
    shape = (1,) * (d.axes + 2 - array.ndim) + array.shape
    along = [a for a, n in enumerate(shape) if n != 1]
    if len(shape) != d.axes + 2 or along not in ([], [d.data_axes[1]]):
        raise Unproved("what is added to the source layer is no bias")
    return np.array(np.broadcast_to(array.reshape(-1), (channels,)))


def region(graph: Graph, place: LayerPlace) -> list[Node]:
    """Return the nodes between a layer's inputs and its output, constants left out, in order."""
    ends = {place.data, place.filter, place.bias, place.output_shape}
    inside = needed([place.output], graph.inputs_of, ends.__contains__)
    # Producers first; ids alone do not say so where a node was replaced.
    order = TopologicalSorter({i: {v.node for v in graph.inputs_of(i)} & inside for i in inside})
    order.prepare()
    nodes: list[Node] = []
    while order:
        ready = sorted(order.get_ready())
        order.done(*ready)
        nodes += map(graph.node, ready)
    return [n for n in nodes if n.type != "Const"]


def needed(
    values: Iterable[Value],
    inputs_of: Callable[[int], Iterable[Value]],
    ends: Callable[[Value], bool] = lambda value: False,
) -> set[int]:
    """Return the nodes that some values are computed by, back to those where the way ends."""
    seen: set[int] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.node not in seen and not ends(value):
            seen.add(value.node)
            stack += inputs_of(value.node)
    return seen
