"""Filters that are stored in few bits: a constant and the element-wise operations behind it.

f16 weights stand behind a Convert, quantized ones behind Convert, Subtract of a zero point and
Multiply by a scale. What moves elements commutes with these where zero points and scales are moved
alike. So a rewritten filter stays as small as it was, and
a runtime that executes quantized layers still finds a quantized filter in front of the layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Op, as_tuple
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.ops.padding import Pad12
from irdeconv.spec import Array

MOST_STEPS = 8
SMALL = 2  # zero points and scales may have one element for so many of the filter, not more


def constant(graph: Graph, value: Value) -> Array | None:
    """Return the data of a constant, None for any other value."""
    op = graph.node(value.node).op
    return op.data.array() if isinstance(op, Const) and op.data.available else None


@dataclass(frozen=True)
class FilterParameter:
    """A zero point or scale: its values, how they are stored, what converts them."""

    values: Array
    dtype: ElementType | None
    convert: Node | None = None

    def converted(self) -> Array:
        """Return the values as the step reads them."""
        return self.values if self.convert is None else _apply(self.convert.op, self.values)


@dataclass(frozen=True)
class Dequantization:
    """An element-wise operation; `port` is the one that the filter comes by."""

    node: Node
    port: int = 0
    parameters: tuple[FilterParameter, ...] = ()

    def apply(self, data: Array) -> Array:
        """Compute the step."""
        inputs = [p.converted() for p in self.parameters]
        inputs.insert(self.port, data)
        return _apply(self.node.op, *inputs)


@dataclass(frozen=True)
class StoredFilter:
    """A constant and the steps from it to the filter that a layer reads."""

    values: Array
    dtype: ElementType | None
    steps: tuple[Dequantization, ...]

    def filter(self) -> Array:
        """Return the filter that the layer reads."""
        data = self.values
        for step in self.steps:
            data = step.apply(data)
        return data


def stored(graph: Graph, value: Value) -> StoredFilter | None:
    """Return how a filter is stored; None where it is no constant or anything else is behind it."""
    steps: list[Dequantization] = []
    while len(steps) < MOST_STEPS:
        values = constant(graph, value)
        if values is not None:
            return StoredFilter(values, graph.spec(value).dtype, tuple(reversed(steps)))
        step = _step(graph, graph.node(value.node))
        if step is None:
            return None
        value = graph.inputs_of(value.node)[step.port]
        steps.append(step)
    return None


def _step(graph: Graph, node: Node) -> Dequantization | None:
    if not isinstance(node.op, Convert | Subtract | Multiply):
        return None
    inputs = graph.inputs_of(node.id)
    whole = [p for p, v in enumerate(inputs) if graph.spec(v).shape == node.spec().shape]
    port = next((p for p in whole if constant(graph, inputs[p]) is None), whole[0] if whole else 1)
    if port and not isinstance(node.op, Multiply):
        return None  # x - filter
    found = [_parameter(graph, v) for p, v in enumerate(inputs) if p != port]
    parameters = tuple(p for p in found if p is not None)
    return Dequantization(node, port, parameters) if len(parameters) == len(found) else None


def _parameter(graph: Graph, value: Value) -> FilterParameter | None:
    node, convert = graph.node(value.node), None
    if isinstance(node.op, Convert):
        convert, value = node, graph.inputs_of(node.id)[0]
    values = constant(graph, value)
    return None if values is None else FilterParameter(values, graph.spec(value).dtype, convert)


def moved(filter: StoredFilter, op: Op, rest: list[Array]) -> StoredFilter | None:
    """Return how a filter is stored behind `op`, which moves elements or pads by zeros.

    None where a zero has no number in the constant, or the parameters would grow large.
    """
    shape = filter.values.shape
    values = _apply(op, filter.values, *rest)
    steps = []
    for step in filter.steps:
        parameters = [_moved(p, op, rest, shape) for p in step.parameters]
        found = tuple(p for p in parameters if p is not None)
        large = any(p.values.size > max(1, values.size // SMALL) for p in found)
        if len(found) < len(parameters) or large:
            return None
        steps.append(replace(step, parameters=found))
    if not op.moves:
        kept = _apply(op, np.ones(shape, np.uint8), *rest) != 0
        zero = _zero(tuple(steps), values)
        if zero is None:
            return None
        values = np.where(kept, values, zero)
    return StoredFilter(values, filter.dtype, tuple(steps))


def _moved(
    p: FilterParameter, op: Op, rest: list[Array], shape: tuple[int, ...]
) -> FilterParameter | None:
    """Move a parameter with the filter; axes along which it does not change have one element."""
    if p.values.size == 1:
        return replace(p, values=p.values.reshape(()))
    if isinstance(op, Pad12):
        op = replace(op, pad_mode="edge")
    try:
        values = _apply(op, np.broadcast_to(p.values, shape), *rest)
    except Exception:  # an edge of nothing, or a broadcast by other rules
        return None
    for axis in range(values.ndim):
        first = values.take([0], axis) if values.shape[axis] > 1 else values
        if np.array_equal(np.broadcast_to(first, values.shape), values):
            values = first
    return replace(p, values=np.ascontiguousarray(values))


def _zero(steps: tuple[Dequantization, ...], values: Array) -> Array | None:
    """Return what has to be stored for a zero of the filter; None where there is no such number."""
    target: Array = np.zeros(())
    for step in reversed(steps):
        if isinstance(step.node.op, Subtract):
            target = target + step.parameters[0].converted().astype(np.float64)
        elif not isinstance(step.node.op, Convert) and np.any(target):
            return None
    with np.errstate(all="ignore"):
        found = target.astype(values.dtype)
    full = np.broadcast_to(found, values.shape)
    data: Array = full
    for step in steps:
        data = step.apply(data)
    return None if np.any(data != 0) else full


def _apply(op: Op, *arrays: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(as_tuple(op.evaluate(*arrays))[0])
