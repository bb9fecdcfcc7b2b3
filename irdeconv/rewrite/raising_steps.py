"""What each operation that moves elements makes of a tensor's axes.

This is the list of the operations that a decomposition may consist of, beside its convolutions:
ZeroInsertion, Interpolate (nearest, by whole factors), DepthToSpace, Reshape, Squeeze, Unsqueeze,
Transpose, Pad with zeros, Slice and StridedSlice (of step 1 in space), Concat with zeros or with
itself, Broadcast and Tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.image import Interpolate1
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.raising_tensor import (
    Digits,
    Pattern,
    Pulse,
    Signal,
    Size,
    SizeEvaluator,
    Tensor,
    Unreadable,
    known_type,
    pad_axis,
    regroup,
    single,
)

END_OF_AXIS = 2**31 - 1  # a bound of a slice that stands for the end of any axis


class AxisTracer:
    """Follows single nodes; `vectors` evaluates the numbers that they need."""

    def __init__(self, graph: Graph, vectors: SizeEvaluator) -> None:
        self.graph = graph
        self.vectors = vectors

    def apply(self, node: Node, tensor: Tensor) -> Tensor:
        """Return what a node makes of a tensor; Unreadable where that cannot be followed."""
        try:
            return TRACED[node.type](self, node, self.graph.inputs_of(node.id), tensor)
        except (IndexError, ValueError) as e:
            raise Unreadable(f'{node.type} "{node.name}" does not fit its inputs: {e}') from None

    def _axes(self, value: Value, rank: int) -> list[int]:
        return [a % rank for a in self.vectors.numbers(value)]

    def zero_insertion(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Put zeros between the neighbours of every spatial axis."""
        op: Any = node.op
        axes = list(tensor.axes)
        for a, stride in enumerate(op.strides, 2):
            digit = single(axes[a])
            if isinstance(digit, Pattern):
                raise Unreadable(f'ZeroInsertion "{node.name}" spreads no axis of its source')
            wide = digit.spread((0, *(None,) * (stride - 1)))
            axes[a] = (wide if op.trailing else wide.padded(0, 1 - stride),)
        return Tensor(tuple(axes))

    def reshape(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Group the axes anew."""
        op: Any = node.op
        target: list[Size | None] = []
        for i, size in enumerate(self.vectors.get(inputs[1])):
            if size.number == 0 and op.special_zero:
                size = tensor.shape[i]
            target.append(None if size.number == -1 else size)
        if not target:
            raise Unreadable(f'Reshape "{node.name}" makes a scalar')
        return regroup(tensor, target)

    def unsqueeze(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Insert axes of size 1."""
        axes = self.vectors.numbers(inputs[1])
        rank = len(tensor.axes) + len(axes)
        places = {a % rank for a in axes}
        old = iter(tensor.axes)
        return Tensor(tuple(() if i in places else next(old) for i in range(rank)))

    def squeeze(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Remove axes of size 1."""
        if len(inputs) < 2:
            raise Unreadable(f'Squeeze "{node.name}" names no axes')
        gone = self._axes(inputs[1], len(tensor.axes))
        if any(tensor.shape[a].number != 1 for a in gone):
            raise Unreadable(f'Squeeze "{node.name}" removes an axis of open size')
        if any(tensor.axes[a] for a in gone):
            kept = [s for a, s in enumerate(tensor.shape) if a not in gone]
            return regroup(tensor, [*kept])
        return Tensor(tuple(x for a, x in enumerate(tensor.axes) if a not in gone))

    def transpose(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Permute the axes."""
        rank = len(tensor.axes)
        order = self._axes(inputs[1], rank) or list(reversed(range(rank)))
        return Tensor(tuple(tensor.axes[a] for a in order))

    def pad(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Pad with zeros; negative pads crop."""
        op: Any = node.op
        begin, end = (self.vectors.numbers(v) for v in inputs[1:3])
        if not any(begin) and not any(end):
            return tensor
        if op.pad_mode != "constant":
            raise Unreadable(f'Pad "{node.name}" pads by the mode {op.pad_mode}')
        if len(inputs) > 3 and not _is_zero(self.graph, inputs[3]):
            raise Unreadable(f'Pad "{node.name}" pads with another value than 0')
        rows = zip(tensor.axes, begin, end, strict=True)
        return Tensor(tuple(pad_axis(*row) for row in rows))

    def slice(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Cut parts out of axes."""
        start, stop, step = (self.vectors.get(v) for v in inputs[1:4])
        rank = len(tensor.axes)
        axes = self._axes(inputs[4], rank) if len(inputs) > 4 else list(range(len(start)))
        for a, *bounds in zip(axes, start, stop, step, strict=True):
            tensor = tensor.with_axis(a, _cut(tensor.axes[a], bounds[0], bounds[1], bounds[2]))
        return tensor

    def strided_slice(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Cut parts out of axes, by masks."""
        op: Any = node.op
        if any(map(any, (op.new_axis_mask, op.shrink_axis_mask, op.ellipsis_mask))):
            raise Unreadable(f'StridedSlice "{node.name}" adds or removes axes')
        begin, end = (self.vectors.get(v) for v in inputs[1:3])
        step = self.vectors.get(inputs[3]) if len(inputs) > 3 else [Size.of(1)] * len(begin)
        for a, row in enumerate(zip(begin, end, step, strict=True)):
            first = None if a < len(op.begin_mask) and op.begin_mask[a] else row[0]
            last = None if a < len(op.end_mask) and op.end_mask[a] else row[1]
            tensor = tensor.with_axis(a, _cut(tensor.axes[a], first, last, row[2]))
        return tensor

    def depth_to_space(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Move blocks of channels into space."""
        op: Any = node.op
        n, c, *space = tensor.shape
        axes, b = len(space), op.block_size
        depth = (c.number or 0) // b**axes
        if not depth:
            raise Unreadable(f'the channels of DepthToSpace "{node.name}" are not known')
        blocks = [Size.of(b)] * axes
        first = op.mode == "blocks_first"
        inner = [*blocks, Size.of(depth)] if first else [Size.of(depth), *blocks]
        wide = regroup(tensor, [n, *inner, *space])
        at, channel = (1, 1 + axes) if first else (2, 1)
        made = [wide.axes[0], wide.axes[channel]]
        made += [wide.axes[2 + axes + a] + wide.axes[at + a] for a in range(axes)]
        return Tensor(tuple(made))

    def interpolate(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Enlarge spatial axes by whole factors, every element standing for its copies."""
        op: Any = node.op
        if op.mode != "nearest":
            raise Unreadable(f'Interpolate "{node.name}" is of the mode {op.mode}')
        if any(op.pads_begin) or any(op.pads_end):
            raise Unreadable(f'Interpolate "{node.name}" pads')
        if not _holds(op):
            raise Unreadable(f'the coordinates of Interpolate "{node.name}" do not repeat elements')
        for a, factor in self._factors(node, inputs, tensor.shape).items():
            if factor == 1:
                continue
            digit = single(tensor.axes[a])
            if isinstance(digit, Pattern):
                raise Unreadable(f'Interpolate "{node.name}" enlarges axis {a}')
            tensor = tensor.with_axis(a, (digit.spread((0,) * factor),))
        return tensor

    def _factors(
        self, node: Node, inputs: Sequence[Value], shape: Sequence[Size]
    ) -> dict[int, int]:
        """Return the whole factor of every axis that is resized."""
        op: Any = node.op
        rank = len(shape)
        if isinstance(op, Interpolate1):
            axes, scales, target = sorted(op.axes), False, inputs[1]
        else:
            old = node.op.versions[0] == "opset4"
            scales = op.shape_calculation_mode == "scales"
            target = inputs[2] if old and scales else inputs[1]
            last = inputs[3 if old else 2 :]
            axes = self._axes(last[0], rank) if last else list(range(rank))
        if scales:
            known = self.graph.spec(target).known
            if known is None:
                raise Unreadable(f'the scales of Interpolate "{node.name}" are not constant')
            factors = [float(f) for f in known.reshape(-1)]
            if any(f != int(f) or f < 1 for f in factors):
                raise Unreadable(f'Interpolate "{node.name}" scales by {factors}, no whole factors')
            return dict(zip(axes, map(int, factors), strict=False))
        pairs = zip(axes, self.vectors.get(target), strict=False)
        return {a: _factor(shape[a], size, node) for a, size in pairs}

    def concat(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Put zeros, or the same tensor again, behind one another."""
        op: Any = node.op
        axis = op.axis % len(tensor.axes)
        own = [v for v in inputs if v == moved_input(self.graph, node)]
        zeros = [self.zeros(v, axis, tensor.shape) if v != own[0] else None for v in inputs]
        digit = single(tensor.axes[axis])
        if isinstance(digit, Pattern):
            parts = [digit.pulse if n is None else (None,) * n for n in zeros]
            joined: Pulse = tuple(p for part in parts for p in part)
            return tensor.with_axis(axis, (Pattern(joined),))
        if len(own) > 1:
            raise Unreadable(f'Concat "{node.name}" repeats a tensor as a whole')
        at = zeros.index(None)
        begin, end = sum(n or 0 for n in zeros[:at]), sum(n or 0 for n in zeros[at:])
        return tensor.with_axis(axis, (digit.padded(begin, end),))

    def zeros(self, value: Value, axis: int, beside: Sequence[Size]) -> int:
        """Return how many zeros stand along an axis of a value that is all zero.

        Along the other axes it must have the sizes of what it stands beside.
        """
        node, shape = self.graph.node(value.node), self.graph.spec(value).shape
        zero, target = value, None
        if known_type(node) == "Broadcast":
            zero, target = self.graph.inputs_of(node.id)[:2]
        if not _is_zero(self.graph, zero) or shape is None:
            raise Unreadable(f'{node.type} "{node.name}", which joins the data, is not zero')
        fixed = [Size.of(d) for d in shape if isinstance(d, int)]
        sizes = fixed if target is None else self.vectors.get(target)
        rows = zip(sizes, beside, strict=True)
        count = sizes[axis].number
        if count is None or any(a != axis and s != t for a, (s, t) in enumerate(rows)):
            raise Unreadable(f'the zeros of {node.type} "{node.name}" have other sizes')
        return count

    def broadcast(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Repeat axes of size 1."""
        op: Any = node.op
        if op.mode not in ("numpy", "bidirectional"):
            raise Unreadable(f'Broadcast "{node.name}" is of the mode {op.mode}')
        target = self.vectors.get(inputs[1])
        more = len(target) - len(tensor.axes)
        axes: list[Digits] = [()] * max(more, 0) + list(tensor.axes)
        for a, size in enumerate(target, max(-more, 0)):
            have = Tensor((axes[a],)).shape[0]
            if size == have or size.number == 1:
                continue
            if axes[a] or size.number is None:
                raise Unreadable(f'Broadcast "{node.name}" repeats an axis an unknown number')
            axes[a] = (Pattern((0,) * size.number),)
        return Tensor(tuple(axes))

    def tile(self, node: Node, inputs: Sequence[Value], tensor: Tensor) -> Tensor:
        """Repeat axes as a whole."""
        repeats = self.vectors.numbers(inputs[1])
        more = len(repeats) - len(tensor.axes)
        axes: list[Digits] = [()] * max(more, 0) + list(tensor.axes)
        for a, count in enumerate(repeats, max(-more, 0)):
            if count == 1:
                continue
            digit = single(axes[a])
            if isinstance(digit, Signal) or count < 1:
                raise Unreadable(f'Tile "{node.name}" repeats axis {a} as a whole')
            axes[a] = (Pattern(digit.pulse * count),)
        return Tensor(tuple(axes))


def moved_input(graph: Graph, node: Node) -> Value:
    """Return the input whose elements a node moves."""
    inputs = graph.inputs_of(node.id)
    if known_type(node) != "Concat":
        return inputs[0]
    return next((v for v in inputs if not _may_be_zeros(graph, v)), inputs[0])


def _is_zero(graph: Graph, value: Value) -> bool:
    array = constant(graph, value)
    return array is not None and not np.any(array != 0)


def _may_be_zeros(graph: Graph, value: Value) -> bool:
    node = graph.node(value.node)
    if known_type(node) == "Broadcast":
        node = graph.node(graph.inputs_of(node.id)[0].node)
    return known_type(node) == "Const"


def _cut(axis: Digits, start: Size | None, stop: Size | None, step: Size) -> Digits:
    """Return start:stop:step of an axis; None stands for its ends."""
    size = Tensor((axis,)).shape[0]
    by = step.number
    if by is None or by < 1:
        raise Unreadable("a slice runs backwards or by an unknown step")
    exact = size.number
    if exact is not None:
        ends = [None if s is None else s.number for s in (start, stop)]
        if any(s is not None and e is None for s, e in zip((start, stop), ends, strict=True)):
            raise Unreadable("the bounds of a slice are not known")
        kept = range(exact)[slice(ends[0], ends[1], by)]
        digit = single(axis)
        if kept == range(exact):
            return axis
        if not len(kept):
            raise Unreadable("nothing is left of an axis")
        if isinstance(digit, Pattern):
            return (Pattern(tuple(digit.pulse[i] for i in kept)),)
        if by != 1:
            raise Unreadable("a slice takes single positions of an axis")
        return pad_axis(axis, -kept[0], kept[-1] + 1 - exact)
    if by != 1:
        raise Unreadable("a slice takes single positions of an axis")
    return pad_axis(axis, -_begin(start), -_end(stop, size))


def _begin(start: Size | None) -> int:
    n = 0 if start is None else start.number
    if n is None or n < 0:
        raise Unreadable("a slice of an open axis begins at an unknown position")
    return n


def _end(stop: Size | None, size: Size) -> int:
    """Return how many positions are cut off at the end of an open axis."""
    if stop is None or (stop.number or 0) >= END_OF_AXIS:
        return 0
    if stop.number is not None and stop.number < 0:
        return -stop.number
    rest = (size - stop).number
    if rest is None:
        raise Unreadable("a slice of an open axis ends at an unknown position")
    return max(rest, 0)


def _holds(op: Any) -> bool:
    """Whether enlarging by a whole factor S reads element o // S at position o.

    With r = o mod S, half pixels are i + (r + 1/2)/S - 1/2, less than 1/2 from i, so every rounding
    to the nearest gives i; asymmetric and tf_half_pixel_for_nn positions lie in i..i+1, so rounding
    down gives i, as `simple` does where it enlarges.
    """
    if isinstance(op, Interpolate1):
        return not op.align_corners
    if op.coordinate_transformation_mode in ("half_pixel", "pytorch_half_pixel"):
        return op.nearest_mode in ("round_prefer_floor", "round_prefer_ceil")
    if op.coordinate_transformation_mode in ("asymmetric", "tf_half_pixel_for_nn"):
        return op.nearest_mode in ("floor", "simple")
    return False


def _factor(have: Size, want: Size, node: Node) -> int:
    """Return the whole factor between two sizes."""
    if have.number is not None and want.number is not None:
        factor, rest = divmod(want.number, max(have.number, 1))
    else:
        factor, rest = (want.terms[0][1] // (have.terms[0][1] or 1) if want.terms else 0), 0
    if factor < 1 or rest or have * factor != want:
        raise Unreadable(f'Interpolate "{node.name}" resizes by no whole factor that is known')
    return factor


TRACED: dict[str, Callable[[AxisTracer, Node, Sequence[Value], Tensor], Tensor]] = {
    "Broadcast": AxisTracer.broadcast,
    "Concat": AxisTracer.concat,
    "DepthToSpace": AxisTracer.depth_to_space,
    "Interpolate": AxisTracer.interpolate,
    "Pad": AxisTracer.pad,
    "Reshape": AxisTracer.reshape,
    "Slice": AxisTracer.slice,
    "Squeeze": AxisTracer.squeeze,
    "StridedSlice": AxisTracer.strided_slice,
    "Tile": AxisTracer.tile,
    "Transpose": AxisTracer.transpose,
    "Unsqueeze": AxisTracer.unsqueeze,
    "ZeroInsertion": AxisTracer.zero_insertion,
}
