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
from irdeconv.verify.proof.places import PLACES, axes_of, gathered, ints_of

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
        return ints_of(self.value(value, "vector"))

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
        except MemoryError:
            raise Unproved(f'{node.type} "{node.name}" does not fit into memory') from None


def constant_array(node: Node) -> Array:
    """Return the data of a constant; Unproved where its file is missing."""
    data = attributes_of(node).data
    if not data.available:
        raise Unproved(f'the data of constant "{node.name}" is missing')
    return data.array()


def _transpose(op: Attributes, x: Array, order: Array) -> Array:
    return x.transpose(axes_of(order, x.ndim) if order.size else None)


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
    return x.reshape(reshape_target(op, x.shape, ints_of(pattern)))


def _squeeze(op: Attributes, x: Array, axes: Array | None = None) -> Array:
    gone = None if axes is None or not axes.size else tuple(axes_of(axes, x.ndim))
    return x.squeeze(gone)


def _unsqueeze(op: Attributes, x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(axes_of(axes, x.ndim + axes.size)))


def _concat(op: Attributes, *parts: Array) -> Array:
    return np.concatenate(parts, op.axis)


def _gather(op: Attributes, x: Array, indices: Array, axis: Array) -> Array:
    if op.versions[0] != "opset1" and op.batch_dims:
        raise Unproved("a Gather with batch dimensions is not followed")
    return np.take(x, indices, int(axis.reshape(-1)[0]))


def _broadcast(op: Attributes, x: Array, shape: Array, *mapping: Array) -> Array:
    if op.mode != "numpy":
        raise Unproved(f"a Broadcast of mode {op.mode} is not followed")
    return np.broadcast_to(x, ints_of(shape))


def block_steps(op: Attributes, shape: Ints) -> tuple[Ints, Ints, Ints]:
    """Return how DepthToSpace moves elements: the shape taken apart, its order, the result's shape.

    Unproved where the channels do not make whole blocks.
    """
    n, c, *space = shape
    axes, b = len(space), op.block_size
    inner = c // b**axes
    if inner * b**axes != c:
        raise Unproved(f"DepthToSpace of {c} channels in blocks of {b} on {axes} axes")
    first = op.mode == "blocks_first"
    blocks = (b,) * axes
    channels = (*blocks, inner) if first else (inner, *blocks)
    at, channel = (1, 1 + axes) if first else (2, 1)
    moved = (v for a in range(axes) for v in (2 + axes + a, at + a))
    return (n, *channels, *space), (0, channel, *moved), (n, inner, *(d * b for d in space))


def _depth_to_space(op: Attributes, x: Array) -> Array:
    apart, order, target = block_steps(op, x.shape)
    return x.reshape(apart).transpose(order).reshape(target)


def convert(op: Attributes, x: Array) -> Array:
    """Change the element type; Unproved for packed ones."""
    target = op.destination_type
    if target.is_packed or target.kind not in ("float", "int", "uint"):
        raise Unproved(f"a Convert to {target} is not followed")
    return x.astype(op.destination_type.container)


def _reading(places: Callable[..., list[Array]]) -> Callable[..., Array]:
    return lambda op, x, *vectors: gathered(x, places(op, x.shape, *vectors))


MOVEMENTS: dict[str, Callable[..., Array]] = {
    **{type: _reading(rule) for type, rule in PLACES.items()},
    "Broadcast": _broadcast,
    "Concat": _concat,
    "Tile": lambda op, x, repeats: np.tile(x, ints_of(repeats)),
    "DepthToSpace": _depth_to_space,
    "Gather": _gather,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def _toward_zero(op: Attributes, a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


ARITHMETIC: dict[str, Callable[..., Array]] = {
    "Abs": lambda op, a: abs(a),
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
