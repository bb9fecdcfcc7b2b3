"""Binders of operations that move elements: views, copies, interpolation of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.kernels.moves import Border, Concat, copy_into, take, tiled
from irdeconv.kernels.shared.team import Team
from irdeconv.ops import (
    broadcasting,
    channels,
    convert,
    movement,
    padding,
    shape,
    slicing,
    splitting,
    strided,
)
from irdeconv.ops.checks import axis_of
from irdeconv.runtime.binder import Bound, binder, shape_of
from irdeconv.spec import Array, Spec, ints


@binder(shape.Reshape, shape.Squeeze1, shape.Squeeze, shape.Unsqueeze)
def _reshape(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
    target = shape_of(outputs[0])
    return Bound(view=lambda x, *_: x.reshape(target))


@binder(movement.Transpose)
def _transpose(
    op: movement.Transpose, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    order = ints(inputs[1])
    if order is None:
        return None
    axes = movement.permutation(order, len(shape_of(inputs[0])))
    return Bound(view=lambda x, *_: x.transpose(axes))


def _indexed(index: tuple[Any, ...]) -> Bound:
    full = (*index, ...)  # of a vector, too, one element is a view
    return Bound(view=lambda x, *_: x[full])


@binder(strided.StridedSlice)
def _strided_slice(
    op: strided.StridedSlice, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    values = [s.known for s in inputs[1:]]
    if any(v is None for v in values):
        return None
    return _indexed(op.index(shape_of(inputs[0]), *values))  # type: ignore[arg-type]


@binder(slicing.Slice)
def _slice(op: slicing.Slice, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    values = [s.known for s in inputs[1:]]
    if any(v is None for v in values):
        return None
    start, stop, step = values[:3]
    axes = values[3] if len(values) > 3 else None
    return _indexed(op.index(shape_of(inputs[0]), start, stop, step, axes))  # type: ignore[arg-type]


@binder(splitting.Split, splitting.VariadicSplit)
def _split(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    axis = ints(inputs[1])
    if axis is None:
        return None
    at = axis_of(axis[0], len(shape_of(inputs[0])))
    index = [s for (s,) in Concat.of([shape_of(o)[at] for o in outputs], 0).parts]
    ahead = (slice(None),) * at
    return Bound(view=lambda x, *_: tuple(x[(*ahead, s)] for s in index))


@binder(slicing.Gather1, slicing.Gather7, slicing.Gather)
def _gather(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Constant indices inside of the axis: a view where they are evenly spaced, else a copy."""
    data, indices, axis = inputs[0], inputs[1].known, ints(inputs[2])
    if indices is None or axis is None or getattr(op, "batch_dims", None):
        return None
    at = axis_of(axis[0], len(shape_of(data)))
    size = shape_of(data)[at]
    found = indices.astype(np.int64)
    if isinstance(op, slicing.Gather):
        found = np.where(found < 0, found + size, found)
    if found.min() < 0 or found.max() >= size:
        return None
    ahead = (slice(None),) * at
    if found.ndim == 0:
        return _indexed((*ahead, int(found)))
    flat = found.reshape(-1)
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    if found.ndim == 1 and step > 0 and (np.diff(flat) == step).all():
        return _indexed((*ahead, slice(int(flat[0]), int(flat[-1]) + 1, step)))
    return Bound(lambda x, *_, out, team: take(x, found, at, out))


@binder(movement.Concat)
def _concat(op: movement.Concat, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
    at = axis_of(op.axis, len(shape_of(outputs[0])))
    return Bound(Concat.of([shape_of(s)[at] for s in inputs], at))


@binder(padding.Pad1, padding.Pad12)
def _pad(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    begin, end = ints(inputs[1]), ints(inputs[2])
    if begin is None or end is None or op.pad_mode != "constant":
        return None
    if not any(begin) and not any(end):
        return Bound(view=lambda x, *_: x)
    border = Border.of(shape_of(inputs[0]), begin, end)
    if not border.filled:
        return _indexed(border.source)

    def call(x: Array, *rest: Array, out: Array, team: Team) -> None:
        border(x, out, rest[2].reshape(()) if len(rest) > 2 else 0)

    return Bound(call)


def _permuted(split: Sequence[int], order: Sequence[int], merge: Sequence[int]) -> Bound:
    """Reshape to `split`, permute, and copy into the result seen as `merge`."""
    seen, axes, result = tuple(split), tuple(order), tuple(merge)

    def call(x: Array, *_: Array, out: Array, team: Team) -> None:
        copy_into(x.reshape(seen).transpose(axes), out.reshape(result))

    return Bound(call)


@binder(channels.ShuffleChannels)
def _shuffle(
    op: channels.ShuffleChannels, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound:
    size = shape_of(inputs[0])
    at = axis_of(op.axis, len(size))
    outer, inner, c = math.prod(size[:at]), math.prod(size[at + 1 :]), size[at]
    split = outer, op.group, c // op.group, inner
    return _permuted(split, (0, 2, 1, 3), (outer, c // op.group, op.group, inner))


@binder(channels.DepthToSpace, channels.SpaceToDepth)
def _depth_and_space(
    op: channels.DepthToSpace | channels.SpaceToDepth,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Bound:
    split, order = op.rearrangement(shape_of(inputs[0]))
    return _permuted(split, order, [split[i] for i in order])


@binder(broadcasting.Tile)
def _tile(op: broadcasting.Tile, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    repeats = ints(inputs[1])
    if repeats is None:
        return None
    size = shape_of(inputs[0])
    rank = max(len(size), len(repeats))
    size = (1,) * (rank - len(size)) + size
    inside, result = tiled(size, (1,) * (rank - len(repeats)) + repeats)

    def call(x: Array, *_: Array, out: Array, team: Team) -> None:
        np.copyto(out.reshape(result), x.reshape(inside))

    return Bound(call)


@binder(broadcasting.Broadcast1, broadcasting.Broadcast)
def _broadcast(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    size, target = shape_of(inputs[0]), shape_of(outputs[0])
    if op.is_explicit and len(inputs) > 2:
        axes = ints(inputs[2])
        if axes is None:
            return None
        placed = [1] * len(target)
        for axis, d in zip(axes, size, strict=True):
            placed[axis] = d
        size = tuple(placed)

    def call(x: Array, *_: Array, out: Array, team: Team) -> None:
        np.copyto(out, x.reshape(size))

    return Bound(call)


@binder(convert.Convert, convert.ConvertLike)
def _convert(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Casts that NumPy does as the operation does: not real to integer, not to packed types."""
    source, target = inputs[0].dtype, outputs[0].dtype
    assert source is not None
    assert target is not None
    if source == target:
        return Bound(view=lambda x, *_: x)
    plain = target.is_real or (target.is_integral and not source.is_real and not target.is_packed)
    if not plain or "string" in (source.kind, target.kind):
        return None
    return Bound(lambda x, *_, out, team: np.copyto(out, x, casting="unsafe"))
