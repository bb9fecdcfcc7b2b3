"""Filters stored in few bits, and moved constants, which are not copied before they are read.

A filter in few bits is a constant and the element-wise operations behind it: a Convert for f16
weights; Convert, Subtract of a zero point and Multiply by a scale for quantized ones. Movements of
elements commute with these if zero points and scales are moved alike. So a rewritten filter stays
as small as it was, and a runtime that executes quantized layers still finds a quantized filter in
front of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.constant import NO_ELEMENT, ArrayData, ConstantData, MovedData
from irdeconv.ir.dtypes import ElementType, of_numpy
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, as_tuple
from irdeconv.ir.ports import axis_of
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops import movement
from irdeconv.ops.basic import Const, Convert
from irdeconv.ops.checks import axes_of
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.ops.slicing import Gather, Slice, taken

SMALL_BYTES = 1 << 16  # up to this size a constant is moved by copying it


def moved_data(
    op: Op, data: ConstantData, dtype: ElementType, shape: tuple[int, ...], *rest: Array
) -> MovedData | None:
    """Return a constant after an operation that moves elements, or pads by zeros.

    None if the constant is small or has no whole bytes, or if the operation is invalid or is none
    of those that lowering emits.
    """
    if dtype.is_packed or dtype.kind == "string":
        return None
    if not isinstance(data, MovedData) and dtype.nbytes(math.prod(shape)) <= SMALL_BYTES:
        return None
    source = MovedData.of(data, dtype, shape)
    try:
        return _moved(op, source, rest)
    except (OpError, ValueError, TypeError, IndexError):
        return None


def _moved(op: Op, data: MovedData, rest: tuple[Array, ...]) -> MovedData | None:
    shape = data.shape
    if isinstance(op, movement.Transpose):
        return data.transposed(np.arange(len(shape))[_numbers(rest[0])].tolist())
    if isinstance(op, movement.Reshape | movement.Squeeze1 | movement.Unsqueeze):
        return data.reshaped(op.view(shape, *rest)(np.broadcast_to(np.empty(()), shape)).shape)
    index: dict[int, Array] = {}
    if isinstance(op, Gather) and rest[0].ndim == 1 and not op.batch_dims:
        axis = axis_of(int(rest[1].reshape(-1)[0]), len(shape), port=2)
        index[axis] = np.arange(shape[axis])[rest[0]]
    elif isinstance(op, Slice) and len(rest) == 4:
        axes = axes_of(_numbers(rest[3]), len(shape), 4)
        for axis, *bounds in zip(axes, *map(_numbers, rest[:3]), strict=True):
            index[axis] = np.arange(shape[axis])[taken(shape[axis], *bounds)]
    elif isinstance(op, movement.Pad1) and len(rest) == 2:
        for axis, pads in enumerate(zip(*map(_numbers, rest), strict=True)):
            index[axis] = _padded(op.pad_mode, shape[axis], *pads)
    else:
        return None
    found: MovedData | None = data
    for axis, at in index.items():
        found = None if found is None else found.taken(axis, at)
    return found


def _padded(mode: movement.PadMode, size: int, begin: int, end: int) -> Array:
    """Return the index of the axis element at each position of a padded axis."""
    if mode != "constant":
        return movement.pad_indices(mode, size, begin, end)
    at = np.arange(-begin, size + end)
    return np.where((at < 0) | (at >= size), NO_ELEMENT, at)


def _numbers(values: Array) -> list[int]:
    return [int(v) for v in values.reshape(-1)]


MOST_STEPS = 8
PART_ELEMENTS = 1 << 20  # of a filter that is looked at part by part
SMALL = 2  # zero points and scales may have one element for so many of the filter, not more


def constant(graph: Graph, value: Value) -> Array | None:
    """Return the data of a constant, None for any other value."""
    op = graph.node(value.node).op
    return op.data.array() if isinstance(op, Const) and op.data.available else None


def is_constant(graph: Graph, value: Value) -> bool:
    """Whether a value is a constant with available data."""
    op = graph.node(value.node).op
    return isinstance(op, Const) and op.data.available


@dataclass(frozen=True)
class FilterParameter:
    """A zero point or scale: its values, their stored type, the Convert behind them."""

    values: Array
    dtype: ElementType | None
    convert: Node | None = None

    def converted(self) -> Array:
        """Return the values as the step reads them."""
        return self.values if self.convert is None else _apply(self.convert.op, self.values)


@dataclass(frozen=True)
class Dequantization:
    """An element-wise operation; `port` is the filter's input."""

    node: Node
    port: int = 0
    parameters: tuple[FilterParameter, ...] = ()

    def apply(self, data: Array, rank: int = 0, index: tuple[slice, ...] = ()) -> Array:
        """Compute the step, also of the part at `index` of a filter with `rank` axes."""
        inputs = [_part(p.converted(), rank, index) for p in self.parameters]
        inputs.insert(self.port, data)
        return _apply(self.node.op, *inputs)


@dataclass(frozen=True)
class StoredFilter:
    """A constant and the steps from it to the filter that a layer reads."""

    data: ConstantData
    dtype: ElementType
    shape: tuple[int, ...]
    steps: tuple[Dequantization, ...]

    @property
    def values(self) -> Array:
        """The values of the constant."""
        return self.data.array()

    def filter(self) -> Array:
        """Return the filter that the layer reads."""
        return self._behind(self.values)

    def parts(self) -> Iterator[Array]:
        """Yield the filter part by part along an axis: together they are large, each is not."""
        values = self.values
        axis = next((a for a, n in enumerate(self.shape) if n > 1), 0)
        rows = max(PART_ELEMENTS * self.shape[axis] // max(values.size, 1), 1) if self.shape else 1
        if rows >= (self.shape or (1,))[axis]:
            yield self._behind(values)
            return
        for start in range(0, self.shape[axis], rows):
            index = (slice(None),) * axis + (slice(start, start + rows),)
            yield self._behind(values[index], index)

    def _behind(self, data: Array, index: tuple[slice, ...] = ()) -> Array:
        for step in self.steps:
            data = step.apply(data, len(self.shape), index)
        return data


def _part(parameter: Array, rank: int, index: tuple[slice, ...]) -> Array:
    """Return the part of a broadcast parameter that belongs to a part of the filter."""
    axis = len(index) - 1 - (rank - parameter.ndim)
    if axis < 0 or parameter.shape[axis] == 1:
        return parameter
    return parameter[(slice(None),) * axis + index[-1:]]


def stored(graph: Graph, value: Value) -> StoredFilter | None:
    """Return a filter as it is stored; None if it is not a constant with such steps behind it."""
    steps: list[Dequantization] = []
    while len(steps) < MOST_STEPS:
        op = graph.node(value.node).op
        if isinstance(op, Const):
            if not op.data.available or not is_static(op.shape):
                return None
            return StoredFilter(op.data, op.element_type, op.shape, tuple(reversed(steps)))
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
    port = next((p for p in whole if not is_constant(graph, inputs[p])), whole[0] if whole else 1)
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
    """Return a stored filter after `op`, which moves elements or pads by zeros.

    None if a zero has no number in the constant, or the parameters would grow large.
    """
    found = moved_data(op, filter.data, filter.dtype, filter.shape, *rest)
    data = found or ArrayData.of(_apply(op, filter.values, *rest), filter.dtype)
    shape = data.shape if isinstance(data, MovedData) else data.values.shape
    steps = []
    for step in filter.steps:
        parameters = [_stored_moved(p, op, rest, filter.shape) for p in step.parameters]
        known = tuple(p for p in parameters if p is not None)
        large = any(p.values.size > max(1, math.prod(shape) // SMALL) for p in known)
        if len(known) < len(parameters) or large:
            return None
        steps.append(replace(step, parameters=known))
    if not op.moves:
        zero = _zero(tuple(steps), filter.dtype)
        if zero is None:
            return None
        if zero.any():
            kept = _apply(op, np.ones(filter.shape, np.uint8), *rest) != 0
            data = ArrayData.of(np.where(kept, data.array(), zero), filter.dtype)
    return StoredFilter(data, filter.dtype, shape, tuple(steps))


def _stored_moved(
    p: FilterParameter, op: Op, rest: list[Array], shape: tuple[int, ...]
) -> FilterParameter | None:
    """Move a parameter with the filter; axes along which it does not change have one element."""
    if p.values.size == 1:
        return replace(p, values=p.values.reshape(()))
    if isinstance(op, movement.Pad1):
        op = movement.Pad12("edge")
    dtype = p.dtype or of_numpy(p.values.dtype)
    held = moved_data(op, MovedData.broadcast(p.values, dtype, shape), dtype, shape, *rest)
    try:
        values = held.narrowed() if held else _apply(op, np.broadcast_to(p.values, shape), *rest)
    except Exception:  # an edge of nothing, or a broadcast by other rules
        return None
    return replace(p, values=narrowed(values))


def narrowed(values: Array) -> Array:
    """Return a parameter with one element on each axis along which it does not change."""
    for axis in range(values.ndim):
        first = values.take([0], axis) if values.shape[axis] > 1 else values
        if np.array_equal(np.broadcast_to(first, values.shape), values):
            values = first
    return np.ascontiguousarray(values)


def _zero(steps: tuple[Dequantization, ...], dtype: ElementType) -> Array | None:
    """Return the stored number for a zero of the filter; None if there is no such number.

    It has the shape of the zero points, which is broadcast to the filter's.
    """
    target: Array = np.zeros(())
    for step in reversed(steps):
        if isinstance(step.node.op, Subtract):
            target = target + step.parameters[0].converted().astype(np.float64)
        elif not isinstance(step.node.op, Convert) and np.any(target):
            return None
    with np.errstate(all="ignore"):
        found: Array = target.astype(dtype.container)
    data = found
    for step in steps:
        data = step.apply(data)
    return None if np.any(data != 0) else found


def _apply(op: Op, *arrays: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(as_tuple(op.evaluate(*arrays))[0])


def constant_of(graph: Graph, value: Value) -> Array | None:
    """Return the array of a constant, also of one that is stored in few bits."""
    found = stored(graph, value)
    return None if found is None else found.filter()
