"""Smaller tensors: inputs and constants lose elements, the same sizes everywhere together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from irdeconv.constant import ArrayData
from irdeconv.graph import Node
from irdeconv.op import Op
from irdeconv.ops.basic import Const, Parameter
from irdeconv.reducing.search import Search
from irdeconv.reducing.variant import Variant
from irdeconv.spec import Array, Shape

CHANNELS = 1  # their axis in data
AXES = 8  # ranks beyond which single axes are not tried

Place = tuple[str, int]  # a Parameter or Const by its name, and an axis


@dataclass(frozen=True)
class SizeChange:
    """Sizes `old` become `new`: at one place, or wherever they are.

    With `multiples` sizes that `old` divides shrink by the same factor (channels = groups x rest);
    beside a single place these are only channels of inputs.
    """

    old: int
    new: int
    place: Place | None = None
    inputs_only: bool = False
    multiples: bool = False

    def size(self, node: Node, axis: int, size: int) -> int:
        """Return the new size of an axis."""
        shrinks = self.place is None or self.place == (node.name, axis)
        if self.inputs_only and node.type != "Parameter":
            shrinks = False
        if shrinks and size == self.old:
            return self.new
        follows = self.place is None or (node.type == "Parameter" and axis == CHANNELS)
        if self.multiples and follows and size % self.old == 0:
            return size // self.old * self.new
        return size


def smaller(search: Search) -> None:
    """Shrink sizes as long as the fault shows, the largest first."""
    done: set[tuple[int, Place | None]] = set()
    while True:
        found = next((s for s in _sizes(search.best) if (s, None) not in done), None)
        if found is None:
            break
        done.add((found, None))
        _shrink(search, found)
    for place, size in list(_places(search.best)):
        if not _least(search, size, partial(SizeChange, place=place)):
            _least(search, size, partial(SizeChange, place=place, multiples=True))


def _shrink(search: Search, size: int) -> None:
    """Shrink all axes of one size, together or, where that fails, those of the inputs."""
    ways: tuple[Callable[[int, int], SizeChange], ...] = (
        SizeChange,
        partial(SizeChange, inputs_only=True),
        partial(SizeChange, multiples=True),
    )
    for way in ways:
        if _least(search, size, way):
            return


def _least(search: Search, size: int, way: Callable[[int, int], SizeChange]) -> bool:
    """Take the least of 1, 2, 4, ... with which the fault shows; whether there is one."""
    new = 1
    while new < size:
        if search.fails(resized(search.best, way(size, new))):
            return True
        new *= 2
    return False


def _sizes(variant: Variant) -> list[int]:
    """Return the distinct sizes above 1 of inputs and constants, the largest first."""
    return sorted({size for _, size in _places(variant)}, reverse=True)


def _places(variant: Variant) -> Iterator[tuple[Place, int]]:
    for node in variant.graph.nodes():
        shape = _shape(node, variant)
        if len(shape) <= AXES:
            yield from (((node.name, axis), n) for axis, n in enumerate(shape) if n > 1)


def _shape(node: Node, variant: Variant) -> tuple[int, ...]:
    if isinstance(node.op, Parameter):
        return variant.feeds[node.name].shape
    if isinstance(node.op, Const) and node.op.data.available:
        return node.op.data.array().shape
    return ()


def resized(variant: Variant, resize: SizeChange) -> Variant | None:
    """Return a copy with smaller inputs and constants; None where they do not fit any more."""
    feeds = {}
    for node in variant.graph.parameters:
        old = variant.feeds[node.name]
        new = _cut(node, old, resize)
        if new is not old:
            feeds[node.name] = new

    def edit(node: Node) -> Op | None:
        if isinstance(node.op, Parameter) and node.name in feeds:
            array = feeds[node.name]
            return replace(node.op, shape=_refit(node.op.shape, array.shape))
        if isinstance(node.op, Const) and node.op.data.available:
            return _resized_constant(node, node.op, resize)
        return None

    return variant.edited(edit, feeds or None)


def _refit(shape: Shape | None, sizes: tuple[int, ...]) -> Shape | None:
    """Return the shape with other sizes where they are exact; what is open stays open."""
    if shape is None:
        return None
    return tuple(n if isinstance(d, int) else d for d, n in zip(shape, sizes, strict=True))


def _resized_constant(node: Node, op: Const, resize: SizeChange) -> Op | None:
    old = op.data.array()
    new = _cut(node, old, resize)
    if resize.place is None and not resize.inputs_only and _lists_sizes(new):
        values = [resize.size(node, -1, int(v)) for v in new.reshape(-1)]
        if values != [int(v) for v in new.reshape(-1)]:
            new = np.array(values, new.dtype).reshape(new.shape)
    if new is old:
        return None
    data = ArrayData.of(new, op.element_type)
    return replace(op, shape=new.shape, data=data)


def _lists_sizes(array: Array) -> bool:
    """Whether a constant may be a shape: a short list of positive integers among others."""
    return array.dtype.kind in "iu" and array.ndim <= 1 and 0 < array.size <= AXES


def _cut(node: Node, array: Array, resize: SizeChange) -> Array:
    if not array.ndim:
        return array
    sizes = [resize.size(node, axis, n) for axis, n in enumerate(array.shape)]
    if tuple(sizes) == array.shape:
        return array
    return np.ascontiguousarray(array[tuple(slice(n) for n in sizes)])
