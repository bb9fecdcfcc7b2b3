"""Walk a lowered layer backwards from its output to its data, and know every element on the way.

The data's way is followed as a `TensorView` (views.py); weights and bias as arrays, where a filter
that is no constant is followed as an array of element numbers (1, 2, ...; 0 is a zero).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import Array
from irdeconv.verify.proof import views
from irdeconv.verify.proof.attributes import Attributes, Ints, attributes_of
from irdeconv.verify.proof.definition import Unproved
from irdeconv.verify.proof.evaluator import (
    FIRST_VECTOR,
    Evaluator,
    block_steps,
    constant_array,
    convert,
    reshape_target,
)
from irdeconv.verify.proof.places import (
    NOTHING,
    PLACES,
    axes_of,
    repeat_places,
    resized,
    same_pads,
)
from irdeconv.verify.proof.views import EVERYWHERE, ConvolutionBlock, Stack, TensorView


@dataclass(frozen=True)
class Boundary:
    """Where a layer begins in the lowered graph.

    `data` and its exact shape; `numbered` has the element numbers of what is no constant, by role
    ("filter", "bias"); `output_shape` has the numbers that a computed one is to stand for.
    `data_axes` are the data's axes as N, C, then the spatial ones.
    """

    data: Value
    shape: Ints
    data_axes: Ints
    numbered: dict[str, tuple[Value, Array]] = field(default_factory=dict)
    output_shape: tuple[Value, Ints] | None = None


class WeightEvaluator(Evaluator):
    """Follows filter, bias and vectors; `view_shape` gives shapes of what depends on the data."""

    def __init__(self, graph: Graph, boundary: Boundary, view_shape: Callable[[Value], Ints]):
        super().__init__(graph)
        self.boundary = boundary
        self.view_shape = view_shape
        self.rules["Convert"] = self._convert

    def leaf(self, value: Value, role: str) -> Array | None:
        """Return element numbers, or a computed output_shape."""
        bound = self.boundary
        if role == "vector":
            computed = bound.output_shape
            return np.array(computed[1], np.int64) if computed and computed[0] == value else None
        numbered = bound.numbered.get(role)
        return numbered[1] if numbered and numbered[0] == value else None

    def constant(self, array: Array, role: str) -> Array:
        """Return a constant; beside element numbers only zeros are possible."""
        if role not in self.boundary.numbered:
            return array
        if array.any():
            raise Unproved(f"a constant that is not zero joins a computed {role}")
        return np.zeros(array.shape, np.int64)

    def shape(self, value: Value) -> Ints:
        """Return the shape of the data, of a part of the layer, or of weights."""
        for at, numbers in self.boundary.numbered.values():
            if at == value:
                return numbers.shape
        return self.view_shape(value)

    def _convert(self, op: Attributes, x: Array) -> Array:
        if self.boundary.numbered:
            raise Unproved("a Convert of a computed filter or bias is not followed")
        return convert(op, x)


class Walk:
    """Follows one lowered layer of exact sizes."""

    def __init__(self, graph: Graph, boundary: Boundary) -> None:
        self.graph = graph
        self.boundary = boundary
        self.weights = WeightEvaluator(graph, boundary, self._shape)
        self.views: dict[Value, TensorView] = {}
        self.reached: dict[Value, bool] = {}

    def view(self, value: Value) -> TensorView:
        """Return what a value is, element for element; Unproved where that cannot be followed."""
        if value not in self.views:
            if value == self.boundary.data:
                self.views[value] = TensorView.of(None, self.boundary.shape)
            else:
                self.views[value] = self._step(value)
        return self.views[value]

    def depends(self, value: Value) -> bool:
        """Whether a value is computed from the data's elements."""
        if value == self.boundary.data:
            return True
        if value not in self.reached:
            node = self.graph.node(value.node)
            inputs = self.graph.inputs_of(value.node)
            first = FIRST_VECTOR.get(node.type, len(inputs))
            used = () if node.type == "ShapeOf" else inputs[:first]
            self.reached[value] = any(self.depends(v) for v in used)
        return self.reached[value]

    def _shape(self, value: Value) -> Ints:
        if self.depends(value):
            return self.view(value).shape
        return self.weights.value(value, "filter").shape

    def _step(self, value: Value) -> TensorView:
        node = self.graph.node(value.node)
        inputs = self.graph.inputs_of(node.id)
        if not self.depends(value):
            return self._zeros(node, value)
        if node.type in ACTIVATIONS:
            return self._activate(node, inputs)
        step = STEPS.get(node.type)
        if step is None or value.port:
            raise Unproved(f'{node.type} "{node.name}" is not followed')
        try:
            return step(self, node, inputs)
        except (ValueError, IndexError, TypeError) as e:
            raise Unproved(f'{node.type} "{node.name}" does not fit its inputs: {e}') from None
        except MemoryError:
            raise Unproved(f'{node.type} "{node.name}" does not fit into memory') from None

    def _zeros(self, node: Node, value: Value) -> TensorView:
        """Return zeros that stand for outputs without taps."""
        if node.type == "Broadcast":
            data, target = self.graph.inputs_of(node.id)[:2]
            zero, shape = self.weights.value(data, "vector"), self.weights.vector(target)
        elif node.type == "Const":
            zero = constant_array(node)
            shape = zero.shape
        else:
            raise Unproved(f'{node.type} "{node.name}" does not come from the data')
        if np.any(zero != 0) or len(shape) < 2:
            raise Unproved(f'{node.type} "{node.name}" is not zero')
        return TensorView.of(Stack((ConvolutionBlock(node=node.id, count=shape[1]),)), shape)

    def _activate(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view = self.view(inputs[0])
        if view.activation:
            raise Unproved("there are two activations")
        if node.type == "Clamp":
            op = attributes_of(node)
            parameters = [np.asarray(limit, np.float64) for limit in (op.min, op.max)]
        else:
            arrays = [self.weights.value(v, "vector") for v in inputs[1:]]
            if any(a.size != 1 for a in arrays):
                raise Unproved(f'the parameters of {node.type} "{node.name}" are no scalars')
            parameters = [a.reshape(()) for a in arrays]
        return replace(view, activation=(node.type, tuple(parameters)))

    def _chosen(self, value: Value, rank: int) -> list[int]:
        return axes_of(self.weights.value(value, "vector"), rank)

    def _movable(self, value: Value) -> TensorView:
        """Return a value whose elements are moved next: a bias goes into the base."""
        view = self.view(value)
        plain = replace(view, bias=())
        if len(view.bias) != 1 or view.bias[0][0] not in (1, EVERYWHERE) or not plain.is_plain:
            return view
        if view.base is None or view.base.bias is not None:
            return view
        values = np.broadcast_to(view.bias[0][1], (view.shape[1],))
        return TensorView.of(replace(view.base, bias=values), view.shape)

    def _pad(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        op = attributes_of(node)
        fill = [self.weights.value(v, "vector") for v in inputs[3:]]
        if op.pad_mode != "constant" or any(np.any(f != 0) for f in fill):
            raise Unproved(f'Pad "{node.name}" does not fill with zeros')
        return self._read(node, inputs)

    def _read(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view, op = self._movable(inputs[0]), attributes_of(node)
        vectors = (self.weights.value(v, "vector") for v in inputs[1:])
        return views.read(view, PLACES[node.type](op, view.shape, *vectors))

    def _interpolate(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view, op = self._movable(inputs[0]), attributes_of(node)

        def vector(port: int) -> Array:
            return self.weights.value(inputs[port], "vector")

        return views.read(view, resized(op, view.shape, len(inputs), vector))

    def _transpose(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view = self.view(inputs[0])
        rank = len(view.axes)
        order = self._chosen(inputs[1], rank) or list(reversed(range(rank)))
        if sorted(order) != list(range(rank)):
            raise Unproved(f'Transpose "{node.name}" has the order {order}')
        return views.transpose(view, order)

    def _reshape(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        pattern = self.weights.vector(inputs[1])
        view = self._movable(inputs[0])
        return views.regroup(view, reshape_target(attributes_of(node), view.shape, pattern))

    def _unsqueeze(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view = self.view(inputs[0])
        places = self.weights.vector(inputs[1])
        rank = len(view.axes) + len(places)
        return views.unsqueeze(view, [p % rank for p in places])

    def _squeeze(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view = self.view(inputs[0])
        if len(inputs) < 2:
            raise Unproved(f'Squeeze "{node.name}" names no axes')
        return views.squeeze(view, self._chosen(inputs[1], len(view.axes)))

    def _depth_to_space(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view = self._movable(inputs[0])
        apart, order, target = block_steps(attributes_of(node), view.shape)
        return views.regroup(views.transpose(views.regroup(view, apart), order), target)

    def _concat(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        op = attributes_of(node)
        if any(self.depends(v) and self.view(v).base is None for v in inputs):
            return self._joined(node, inputs)
        parts = [self.view(v) for v in inputs]
        ranks = {len(p.axes) for p in parts}
        stacks = [p.base for p in parts if p.base is not None and p.base.bias is None]
        if len(stacks) < len(parts) or not all(p.is_plain for p in parts) or len(ranks) > 1:
            raise Unproved(f'Concat "{node.name}" joins more than outputs of convolutions')
        if op.axis % ranks.pop() != 1:
            raise Unproved(f'Concat "{node.name}" runs along axis {op.axis}, not the channels')
        shapes = {(p.shape[0], *p.shape[2:]) for p in parts}
        if len(shapes) > 1:
            raise Unproved(f'Concat "{node.name}" joins the sizes {sorted(shapes)}')
        batch, *spatial = shapes.pop()
        channels = sum(p.shape[1] for p in parts)
        blocks = tuple(b for stack in stacks for b in stack.blocks)
        return TensorView.of(Stack(blocks), (batch, channels, *spatial))

    def _joined(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        """Join the data with zeros or with itself."""
        op = attributes_of(node)
        data = next(v for v in inputs if self.depends(v))
        view = self.view(data)
        at = op.axis % len(view.axes)
        places = []
        for v in inputs:
            size = view.shape[at]
            if v != data:
                other = self.weights.value(v, "vector")
                if np.any(other != 0) or other.ndim != len(view.axes):
                    raise Unproved(f'Concat "{node.name}" joins the data with something else')
                size = other.shape[at]
            places.append(np.arange(size) if v == data else np.full(size, NOTHING))
        every = [np.arange(n) for n in view.shape]
        every[at] = np.concatenate(places)
        return views.read(view, every)

    def _broadcast(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        op = attributes_of(node)
        view = self._movable(inputs[0])
        if op.mode not in ("numpy", "bidirectional"):
            raise Unproved(f"a Broadcast of mode {op.mode} is not followed")
        return views.read(view, repeat_places(view.shape, self.weights.vector(inputs[1])))

    def _tile(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        view, repeats = self._movable(inputs[0]), self.weights.vector(inputs[1])
        if len(repeats) != len(view.axes):
            raise Unproved("a Tile to another rank is not followed")
        rows = zip(view.shape, repeats, strict=True)
        return views.read(view, [np.tile(np.arange(n), r) for n, r in rows])

    def _add(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        summed, other = inputs if self.depends(inputs[0]) else inputs[::-1]
        view, bias = self.view(summed), self.weights.value(other, "bias")
        rank = len(view.axes)
        shape = (1,) * (rank - bias.ndim) + bias.shape
        along = [a for a, n in enumerate(shape) if n != 1]
        if view.activation or len(along) > 1 or len(shape) > rank:
            raise Unproved(f'Add "{node.name}" is no bias')
        at = along[0] if along else EVERYWHERE
        if along and shape[at] != view.shape[at]:
            raise Unproved(f'Add "{node.name}" adds {shape[at]} values to {view.shape[at]}')
        return replace(view, bias=(*view.bias, (at, bias.reshape(-1))))

    def _convolution(self, node: Node, inputs: tuple[Value, ...]) -> TensorView:
        op = attributes_of(node)
        view, w = self.view(inputs[0]), self.weights.value(inputs[1], "filter")
        if node.type == "Convolution":
            w = w[None]
        n = len(view.axes) - 2
        groups, outputs, inner = w.shape[:3]
        if view.base is not None or view.bias or view.activation:
            raise Unproved(f'{node.type} "{node.name}" is not the first one')
        if w.ndim != n + 3 or view.shape[1] != groups * inner:
            raise Unproved(f'{node.type} "{node.name}": the filter {list(w.shape)} does not fit')
        where = [view.coordinate(b, a) for a, b in enumerate(self.boundary.data_axes)]
        if not np.array_equal(where[0], np.arange(view.shape[0])):
            raise Unproved("the batch is not kept as it is")
        reading = tuple(_reading(op, a, where[2 + a], w.shape[3 + a]) for a in range(n))
        block = ConvolutionBlock(
            node=node.id,
            count=groups * outputs,
            weights=w,
            channels=where[1].reshape(groups, inner),
            reading=reading,
        )
        sizes = (len(r) for r in reading)
        return TensorView.of(Stack((block,)), (view.shape[0], block.count, *sizes))


def _reading(op: Attributes, axis: int, where: Array, taps: int) -> Array:
    """Return what each output of a convolution reads along an axis: [Q, T], -1 for a zero."""
    stride, dilation = (v[axis] if v else 1 for v in (op.strides, op.dilations))
    begin, end = same_pads(op, axis, dilation * (taps - 1))
    room = where.size + begin + end - dilation * (taps - 1) - 1
    if room < -1:
        raise Unproved(f"the kernel does not fit on spatial axis {axis}")
    at = np.arange(room // stride + 1)[:, None] * stride + np.arange(taps) * dilation - begin
    inside = (at >= 0) & (at < where.size)
    if not where.size:
        return np.full(at.shape, NOTHING)
    return np.where(inside, where[np.clip(at, 0, where.size - 1)], NOTHING)


ACTIVATIONS = frozenset(["Clamp", "HardSigmoid", "PReLU", "ReLU", "Sigmoid", "Tanh"])
STEPS: dict[str, Callable[[Walk, Node, tuple[Value, ...]], TensorView]] = {
    "Add": Walk._add,
    "Broadcast": Walk._broadcast,
    "Concat": Walk._concat,
    "Convolution": Walk._convolution,
    "DepthToSpace": Walk._depth_to_space,
    "GroupConvolution": Walk._convolution,
    "Interpolate": Walk._interpolate,
    "Pad": Walk._pad,
    "Reshape": Walk._reshape,
    "Slice": Walk._read,
    "Squeeze": Walk._squeeze,
    "StridedSlice": Walk._read,
    "Tile": Walk._tile,
    "Transpose": Walk._transpose,
    "Unsqueeze": Walk._unsqueeze,
    "ZeroInsertion": Walk._read,
}
