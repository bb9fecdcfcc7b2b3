"""Movements of constants: a large one is not copied before somebody reads the result."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.constant import ConstantData
from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError
from irdeconv.moved import NO_ELEMENT, MovedData
from irdeconv.op import Op
from irdeconv.ops.checks import axes_of, axis_of
from irdeconv.ops.movement import Transpose
from irdeconv.ops.padding import PadBase, PadMode, pad_indices
from irdeconv.ops.shape import Reshape, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Gather, Slice, taken
from irdeconv.spec import Array

SMALL_BYTES = 1 << 16  # up to this size a constant is moved by copying it


def moved_data(
    op: Op, data: ConstantData, dtype: ElementType, shape: tuple[int, ...], *rest: Array
) -> MovedData | None:
    """Return what an operation that moves elements, or pads by zeros, makes of a constant.

    None where it is small, has no whole bytes, or the operation is none of those that lowering
    emits, or wrong.
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
    if isinstance(op, Transpose):
        return data.transposed(np.arange(len(shape))[_numbers(rest[0])].tolist())
    if isinstance(op, Reshape | Squeeze1 | Unsqueeze):
        return data.reshaped(op.view(shape, *rest)(np.broadcast_to(np.empty(()), shape)).shape)
    index: dict[int, Array] = {}
    if isinstance(op, Gather) and rest[0].ndim == 1 and not op.batch_dims:
        axis = axis_of(int(rest[1].reshape(-1)[0]), len(shape), port=2)
        index[axis] = np.arange(shape[axis])[rest[0]]
    elif isinstance(op, Slice) and len(rest) == 4:
        axes = axes_of(_numbers(rest[3]), len(shape), 4)
        for axis, *bounds in zip(axes, *map(_numbers, rest[:3]), strict=True):
            index[axis] = np.arange(shape[axis])[taken(shape[axis], *bounds)]
    elif isinstance(op, PadBase) and len(rest) == 2:
        for axis, pads in enumerate(zip(*map(_numbers, rest), strict=True)):
            index[axis] = _padded(op.pad_mode, shape[axis], *pads)
    else:
        return None
    return _taken(data, index)


def _taken(data: MovedData, index: dict[int, Array]) -> MovedData | None:
    found: MovedData | None = data
    for axis, at in index.items():
        found = None if found is None else found.taken(axis, at)
    return found


def _padded(mode: PadMode, size: int, begin: int, end: int) -> Array:
    """Return which element stands at each place of a padded axis."""
    if mode != "constant":
        return pad_indices(mode, size, begin, end)
    at = np.arange(-begin, size + end)
    return np.where((at < 0) | (at >= size), NO_ELEMENT, at)


def _numbers(values: Array) -> list[int]:
    return [int(v) for v in values.reshape(-1)]
