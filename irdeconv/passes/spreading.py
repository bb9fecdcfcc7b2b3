"""Spellings of zero-insertion in standard operations.

Two axes are spread at a time, from the innermost on, so that four axes (five in 3-D) suffice:
[N, C, H, W] becomes [N*C*H, 1, W, 1], padded [N*C*H, Sh, W, Sw], and that [N, C, H*Sh, W*Sw].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import mul

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.geometry import IntVector, Vector
from irdeconv.op import Builder
from irdeconv.ops import core
from irdeconv.ops.elementwise import Multiply
from irdeconv.ops.interpolate import Interpolate4
from irdeconv.ops.movement import Concat
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.shape import Reshape, ShapeOf, Unsqueeze
from irdeconv.ops.vectors import sizes
from irdeconv.passes.emit import FormBuilder, Option, X, crop, pad_spatial, reshaped, zeros_beside
from irdeconv.passes.rewrite import Skip
from irdeconv.spec import is_static

ONE = IntVector((1,))


def insert_zeros(b: FormBuilder[X], x: X, strides: Sequence[int]) -> X:
    """(N, C, *I) -> (N, C, *(S*I)): S-1 zeros behind every element."""
    if all(s == 1 for s in strides):
        return x
    insertion = core.ZeroInsertion(tuple(strides), trailing=True)
    options = [Option("zero-insertion", partial(b.add, insertion, x))]
    if is_static(b.spec(x).shape):
        options += [
            Option("zeros by Concat", partial(_spread, b, x, strides, _concatenated)),
            Option("zeros by Interpolate", partial(_masked, b, x, strides)),
        ]
    return b.choose(options)


def spell_zero_insertion(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """ZeroInsertion -> Reshape, Pad, Reshape, and a crop unless zeros follow the last element."""
    if b.spec(x).rank is None:
        return Skip("the rank of the data is unknown")
    y = _spread(b, x, op.strides, _padded)
    surplus = IntVector(tuple(1 - s for s in op.strides))
    return y if op.trailing else pad_spatial(b, y, surplus * 0, surplus)


def spell_zero_insertion_as_before(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """Spell a trailing ZeroInsertion as version 1 files do: an axis behind each spatial one."""
    shape, axes = b.spec(x).shape, len(op.strides)
    behind = np.arange(3, 3 + 2 * axes, 2)
    apart = b.add(Unsqueeze(), x, b.const(behind.astype(np.int64)))
    end = np.zeros(2 + 2 * axes, np.int64)
    end[behind] = [s - 1 for s in op.strides]
    padded = b.add(Pad12("constant"), apart, b.const(np.zeros_like(end)), b.const(end))
    factors = np.array((1, 1, *op.strides), np.int64)
    if is_static(shape):
        target = b.const(np.array(shape, np.int64) * factors)
    else:
        target = b.add(Multiply(), b.add(ShapeOf(i64), x), b.const(factors))
    return b.add(Reshape(special_zero=False), padded, target)


def _spread(b: Builder[X], x: X, strides: Sequence[int], grow: Callable[..., X]) -> X:
    """Spread the axes, two at a time; `grow` appends zeros to axes of size 1."""
    size: list[Vector] = [sizes(b, x, a, 1) for a in range(len(strides) + 2)]
    for step in _steps(strides):
        cuts = (0, *(a + 1 for a in step))
        target = [v for i in range(len(step)) for v in (_times(size[cuts[i] : cuts[i + 1]]), ONE)]
        target += [_times(size[cuts[-1] :])] if cuts[-1] < len(size) else []
        amounts = {2 * i + 1: strides[a - 2] - 1 for i, a in enumerate(step)}
        x = grow(b, reshaped(b, x, *target), len(target), amounts)
        for a in step:
            size[a] = size[a] * strides[a - 2]
    return reshaped(b, x, *size)


def _times(factors: Sequence[Vector]) -> Vector:
    return reduce(mul, factors)


def _steps(strides: Sequence[int]) -> Iterator[list[int]]:
    """Yield one or two axes at a time, the innermost first."""
    axes = [a for a, s in enumerate(strides, 2) if s > 1]
    while axes:
        yield axes[-2:]
        del axes[-2:]


def _padded(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    if len(amounts) == 1 and b.style.pads_in_pairs:
        return _padded_in_pairs(b, x, rank, amounts)
    begin = np.zeros(rank, np.int64)
    end = np.array([amounts.get(a, 0) for a in range(rank)], np.int64)
    return b.add(Pad1("constant"), x, b.const(begin), b.const(end))


def _padded_in_pairs(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    """Pad one axis of size 1, and another one beside it that is cropped again."""
    ((axis, count),) = amounts.items()
    shape = [sizes(b, x, a, 1) for a in range(rank)]
    x = reshaped(b, x, *shape[:axis], ONE, *shape[axis:])
    x = _padded(b, x, rank + 1, {axis: 1, axis + 1: count})
    return crop(b, x, [0] * (rank + 1), [int(a == axis) for a in range(rank + 1)])


def _concatenated(b: Builder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    for axis, count in sorted(amounts.items(), reverse=True):
        x = b.add(Concat(axis), x, zeros_beside(b, x, axis, count))
    return x


def _masked(b: Builder[X], x: X, strides: Sequence[int]) -> X:
    """Repeat every element, and multiply the copies by 0."""
    spec = b.spec(x)
    assert is_static(spec.shape)
    factors = np.array([1.0, 1.0, *strides], np.float32)
    size = [n * s for n, s in zip(spec.shape, (1, 1, *strides), strict=True)]
    op = Interpolate4("nearest", "scales", "asymmetric", "floor")
    y = b.add(op, x, b.const(np.array(size, np.int64)), b.const(factors))
    dtype = spec.dtype.container if spec.dtype else np.dtype(np.float32)
    mask = np.ones((1, 1, *size[2:]), dtype)
    for axis, (n, s) in enumerate(zip(size[2:], strides, strict=True), 2):
        kept = np.arange(n) % s == 0
        mask *= kept.astype(dtype).reshape(-1, *(1,) * (len(size) - axis - 1))
    return b.add(Multiply(), y, b.const(mask))
