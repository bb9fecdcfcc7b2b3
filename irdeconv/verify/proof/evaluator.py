"""A small evaluator of its own for what surrounds a lowered convolution, on NumPy arrays.

It reads types and attributes of nodes and nothing else of the package: no kernel, no `evaluate`, no
inferred shape. A value is asked for in a role: "vector" (integers that say where to pad, cut or
reshape) or "tensor" (elements that are moved about). The port through which a node uses a value
decides the role.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Attributes, Ints, attributes_of
from irdeconv.verify.proof.definition import Unproved

# From this input port on, the operation takes vectors; all others only have tensors.
FIRST_VECTOR = {
    "Broadcast": 1,
    "Gather": 1,
    "Interpolate": 1,
    "Pad": 1,
    "Reshape": 1,
    "Slice": 1,
    "Squeeze": 1,
    "StridedSlice": 1,
    "Tile": 1,
    "Transpose": 1,
    "Unsqueeze": 1,
}


class Evaluator:
    """Evaluates values of a graph on arrays, each once.

    Subclasses say what the leaves are (`leaf`), what constants become (`constant`), and may add
    operations to `rules`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rules: dict[str, Callable[..., Array]] = dict(MOVEMENTS)
        self.values: dict[tuple[Value, str], Array] = {}

    def leaf(self, value: Value, role: str) -> Array | None:
        """Return what a value is bound to, None where it is computed."""
        return None

    def constant(self, array: Array, role: str) -> Array:
        """Return what stands for the elements of a constant."""
        return array

    def shape(self, value: Value) -> Ints:
        """Return the shape of a value."""
        return self.value(value, "tensor").shape

    def value(self, value: Value, role: str) -> Array:
        """Return a value in a role; Unproved where an operation is not known here."""
        key = (value, role)
        if key not in self.values:
            bound = self.leaf(value, role)
            self.values[key] = self._compute(value, role) if bound is None else bound
        return self.values[key]

    def vector(self, value: Value) -> Ints:
        """Return an integer vector as Python ints."""
        return tuple(int(v) for v in self.value(value, "vector").reshape(-1))

    def _compute(self, value: Value, role: str) -> Array:
        node = self.graph.node(value.node)
        if node.type == "Const":
            return self.constant(constant_array(node), role)
        inputs = self.graph.inputs_of(node.id)
        if node.type == "ShapeOf":
            return np.array(self.shape(inputs[0]), np.int64)
        rule = ARITHMETIC.get(node.type) if role == "vector" else None
        rule = rule or self.rules.get(node.type)
        if rule is None or value.port:
            raise Unproved(f'{node.type} "{node.name}" is not known in a lowered layer')
        first = FIRST_VECTOR.get(node.type, len(inputs))
        roles = (role if port < first else "vector" for port in range(len(inputs)))
        arrays = [self.value(v, r) for v, r in zip(inputs, roles, strict=True)]
        try:
            return rule(node.op, *arrays)
        except (ValueError, IndexError, TypeError) as e:
            raise Unproved(f'{node.type} "{node.name}" does not fit its inputs: {e}') from None


def constant_array(node: Node) -> Array:
    """Return the data of a constant; Unproved where its file is missing."""
    data = attributes_of(node).data
    if not data.available:
        raise Unproved(f'the data of constant "{node.name}" is missing')
    return data.array()


def _axes(values: Array, rank: int) -> list[int]:
    return [int(a) % rank for a in values.reshape(-1)]


def _transpose(op: Attributes, x: Array, order: Array) -> Array:
    return x.transpose(_axes(order, x.ndim) if order.size else None)


def reshape_target(op: Attributes, shape: Sequence[int], pattern: Sequence[int]) -> list[int]:
    """Return the exact target of a Reshape; ValueError where the elements do not fill it."""
    out = [shape[i] if v == 0 and op.special_zero else v for i, v in enumerate(pattern)]
    size = math.prod(shape)
    if -1 in out:
        rest = -math.prod(out)
        out[out.index(-1)] = size // rest if rest else 0
    if math.prod(out) != size or min(out, default=0) < 0:
        raise ValueError(f"{list(shape)} does not fill {list(pattern)}")
    return out


def _reshape(op: Attributes, x: Array, pattern: Array) -> Array:
    return x.reshape(reshape_target(op, x.shape, [int(v) for v in pattern]))


def _squeeze(op: Attributes, x: Array, axes: Array | None = None) -> Array:
    gone = None if axes is None or not axes.size else tuple(_axes(axes, x.ndim))
    return x.squeeze(gone)


def _unsqueeze(op: Attributes, x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(_axes(axes, x.ndim + axes.size)))


def slice_places(size: int, start: int, stop: int, step: int) -> Array:
    """Return the positions that one axis of a Slice keeps."""
    if step < 0 and start < -size:
        start = -size
    return np.arange(size)[slice(start, stop, step)]


def _slice(op: Attributes, x: Array, start: Array, stop: Array, step: Array, *axes: Array) -> Array:
    chosen = _axes(axes[0], x.ndim) if axes else list(range(start.size))
    for a, *bounds in zip(chosen, start, stop, step, strict=True):
        x = x.take(slice_places(x.shape[a], *(int(v) for v in bounds)), a)
    return x


def strided_places(
    op: Attributes,
    shape: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    step: Sequence[int],
) -> list[Array]:
    """Return the positions that each axis of a StridedSlice keeps; Unproved for new axes."""
    if any(map(any, (op.new_axis_mask, op.shrink_axis_mask, op.ellipsis_mask))):
        raise Unproved("a StridedSlice that adds or removes axes is not followed")
    places = [np.arange(n) for n in shape]
    for a, (b, e, s) in enumerate(zip(begin, end, step, strict=True)):
        first = None if a < len(op.begin_mask) and op.begin_mask[a] else b
        last = None if a < len(op.end_mask) and op.end_mask[a] else e
        places[a] = places[a][slice(first, last, s)]
    return places


def _strided_slice(op: Attributes, x: Array, begin: Array, end: Array, *step: Array) -> Array:
    steps = step[0] if step else np.ones_like(begin)
    rows = ([int(v) for v in values] for values in (begin, end, steps))
    for a, kept in enumerate(strided_places(op, x.shape, *rows)):
        x = x.take(kept, a)
    return x


def window_places(size: int, begin: int, end: int) -> Array:
    """Return which position stands at each place of a padded axis, -1 for padding."""
    if size + begin + end < 0:
        raise ValueError(f"size {size} with pads {begin} and {end}")
    at = np.arange(-begin, size + end)
    return np.where((at >= 0) & (at < size), at, -1)


def _pad(op: Attributes, x: Array, begin: Array, end: Array, *fill: Array) -> Array:
    if op.pad_mode != "constant" or (fill and fill[0].any()):
        raise Unproved(f"a Pad of mode {op.pad_mode} does not fill with zeros")
    return padded(x, [int(v) for v in begin], [int(v) for v in end])


def padded(x: Array, begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return an array with zeros around it; negative pads crop."""
    for a, (b, e) in enumerate(zip(begin, end, strict=True)):
        at = window_places(x.shape[a], b, e)
        out = np.zeros((*x.shape[:a], at.size, *x.shape[a + 1 :]), x.dtype)
        to, whence = [slice(None)] * a + [at >= 0], [slice(None)] * a + [at[at >= 0]]
        out[tuple(to)] = x[tuple(whence)]
        x = out
    return x


def _concat(op: Attributes, *parts: Array) -> Array:
    return np.concatenate(parts, op.axis)


def _gather(op: Attributes, x: Array, indices: Array, axis: Array) -> Array:
    if op.versions[0] != "opset1" and op.batch_dims:
        raise Unproved("a Gather with batch dimensions is not followed")
    return np.take(x, indices, int(axis.reshape(-1)[0]))


def _broadcast(op: Attributes, x: Array, shape: Array, *mapping: Array) -> Array:
    if op.mode != "numpy":
        raise Unproved(f"a Broadcast of mode {op.mode} is not followed")
    return np.broadcast_to(x, tuple(int(v) for v in shape))


def _zero_insertion(op: Attributes, x: Array) -> Array:
    rows = zip(x.shape[2:], op.strides, strict=True)
    sizes = [s * i if op.trailing or not i else s * (i - 1) + 1 for i, s in rows]
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    every = [slice(None, None, s) for s in (1, 1, *op.strides)]
    out[tuple(every)] = x
    return out


def _depth_to_space(op: Attributes, x: Array) -> Array:
    n, c, *space = x.shape
    axes, b = len(space), op.block_size
    inner = c // b**axes
    if op.mode == "blocks_first":
        x = x.reshape(n, *(b,) * axes, inner, *space)
        order = [0, axes + 1]
        order += [v for a in range(axes) for v in (axes + 2 + a, 1 + a)]
    else:
        x = x.reshape(n, inner, *(b,) * axes, *space)
        order = [0, 1] + [v for a in range(axes) for v in (axes + 2 + a, 2 + a)]
    return x.transpose(order).reshape(n, inner, *(d * b for d in space))


def convert(op: Attributes, x: Array) -> Array:
    """Change the element type; Unproved for packed ones."""
    target = op.destination_type
    if target.is_packed or target.kind not in ("float", "int", "uint"):
        raise Unproved(f"a Convert to {target} is not followed")
    return x.astype(op.destination_type.container)


MOVEMENTS: dict[str, Callable[..., Array]] = {
    "Broadcast": _broadcast,
    "Concat": _concat,
    "Tile": lambda op, x, repeats: np.tile(x, [int(r) for r in repeats]),
    "DepthToSpace": _depth_to_space,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "ZeroInsertion": _zero_insertion,
}


def _toward_zero(op: Attributes, a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


ARITHMETIC: dict[str, Callable[..., Array]] = {
    "Add": lambda op, a, b: a + b,
    "Convert": convert,
    "Divide": _toward_zero,
    "FloorMod": lambda op, a, b: a % b,
    "Maximum": lambda op, a, b: np.maximum(a, b),
    "Minimum": lambda op, a, b: np.minimum(a, b),
    "Multiply": lambda op, a, b: a * b,
    "Subtract": lambda op, a, b: a - b,
}


class Constants(Evaluator):
    """Evaluates what depends on constants alone: compressed or rearranged weights."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.rules["Convert"] = convert

    def get(self, value: Value) -> Array | None:
        """Return a constant value, None where it depends on an input or is not computed here."""
        try:
            return self.value(value, "tensor")
        except Unproved:
            return None
