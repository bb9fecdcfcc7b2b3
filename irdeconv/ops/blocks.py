"""Blocks of space as batches: BatchToSpace, SpaceToBatch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import UNKNOWN, want_rank
from irdeconv.ops.slicing import vectors
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Spec, bounds, non_negative
from irdeconv.traits import MOVES

Parts = tuple[tuple[Dim, ...], ...]


def _checked(data: Spec, names: tuple[str, str], block: Spec, begin: Spec, end: Spec) -> Parts:
    """Return block sizes, begins and ends, one value for each axis of the data; E302, E305."""
    lists = vectors(block_shape=block, **dict(zip(names, (begin, end), strict=True)))
    known = next((len(v) for v in lists if v is not None), None)
    rank = known if data.shape is None else len(data.shape)
    want_rank(data.shape, 2, None, 0, "data")
    if known is not None and rank != known:
        text = f"block_shape has {known} values for data of rank {rank}"
        raise OpError(text, code="E302", port=1)
    if rank is None:
        return ()
    found = tuple((UNKNOWN,) * rank if v is None else v for v in lists)
    for port, (name, values) in enumerate(zip(("block_shape", *names), found, strict=True), 1):
        _check_values(name, values, port)
    return tuple(tuple(map(non_negative, values)) for values in found)


def _check_values(name: str, values: tuple[Dim, ...], port: int) -> None:
    """Require blocks of at least 1, others of at least 0, and 1 and 0 on the batch axis; E305."""
    least = int(port == 1)
    for axis, v in enumerate(values):
        _, high = bounds(v)
        if high is not None and high < least:
            text = f"{name} is {v} on axis {axis}; it must be at least {least}"
            raise OpError(text, code="E305", port=port)
    if isinstance(values[0], int) and values[0] != least:
        text = f"{name} is {values[0]} on axis 0, the batch; it must be {least}"
        raise OpError(text, code="E305", port=port)


def _over(size: Dim, by: Dim, what: str) -> Dim:
    """Return size / by, both perhaps intervals."""
    if isinstance(by, int) and by > 0:
        return divided(size, by, what)
    low, high = bounds(size)
    return Interval.of(0 if high == 0 or low == 0 else min(low, 1), high)


@op("BatchToSpace", since=2)
class BatchToSpace(Op):
    """Spread batches over space and crop: [N * prod(b), *S] -> [N, *(S * b - begin - end)].

    Batch number ((i1 * b2 + i2) * ...) * N + n has the elements of n at the places that leave
    i1, i2, ... divided by b1, b2, ... block_shape b, crops_begin, crops_end: integers, one for each
    axis, 1 and 0 for the batch. Any type.  [movement/BatchToSpace-2]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES

    def infer(self, data: Spec, block_shape: Spec, crops_begin: Spec, crops_end: Spec) -> Spec:
        names = ("crops_begin", "crops_end")
        parts = _checked(data, names, block_shape, crops_begin, crops_end)
        if not parts:
            return Spec(data.dtype, None)
        block, begin, end = parts
        shape = (DYNAMIC,) * len(block) if data.shape is None else data.shape
        out = [_over(shape[0], math.prod(block), "the batch")]
        for axis in range(1, len(shape)):
            size = shape[axis] * block[axis] - begin[axis] - end[axis]
            high = bounds(size)[1]
            if high is not None and high < 0:
                text = f"crops of {begin[axis]} and {end[axis]} exceed axis {axis}"
                raise OpError(text, code="E302", port=2)
            out.append(non_negative(size))
        return Spec(data.dtype, tuple(out))

    def evaluate(
        self, data: Array, block_shape: Array, crops_begin: Array, crops_end: Array
    ) -> Array:
        block, begin, end = (v.tolist() for v in (block_shape, crops_begin, crops_end))
        spaces, rank = data.shape[1:], data.ndim
        batch = data.shape[0] // math.prod(block)
        split = data.reshape(*block[1:], batch, *spaces)
        order = [rank - 1]
        for axis in range(rank - 1):
            order += [rank + axis, axis]
        whole = split.transpose(order).reshape(
            batch, *(s * b for s, b in zip(spaces, block[1:], strict=True))
        )
        cuts = zip(begin, whole.shape, end, strict=True)
        return whole[tuple(slice(b, size - e) for b, size, e in cuts)]


@op("SpaceToBatch", since=2)
class SpaceToBatch(Op):
    """Pad with 0 and gather what leaves one remainder as a batch, the inverse of BatchToSpace.

    [N, *S] -> [N * prod(b), *((S + begin + end) / b)]; block_shape b, pads_begin, pads_end:
    integers, one for each axis, 1 and 0 for the batch. Any type.  [movement/SpaceToBatch-2]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES

    def infer(self, data: Spec, block_shape: Spec, pads_begin: Spec, pads_end: Spec) -> Spec:
        names = ("pads_begin", "pads_end")
        parts = _checked(data, names, block_shape, pads_begin, pads_end)
        if not parts:
            return Spec(data.dtype, None)
        block, begin, end = parts
        shape = (DYNAMIC,) * len(block) if data.shape is None else data.shape
        out = [shape[0] * math.prod(block)]
        for axis in range(1, len(shape)):
            padded = shape[axis] + begin[axis] + end[axis]
            out.append(_over(padded, block[axis], f"axis {axis} with its pads"))
        return Spec(data.dtype, tuple(out))

    def evaluate(
        self, data: Array, block_shape: Array, pads_begin: Array, pads_end: Array
    ) -> Array:
        block, begin, end = (v.tolist() for v in (block_shape, pads_begin, pads_end))
        padded = np.pad(data, list(zip(begin, end, strict=True)))
        split: list[int] = [padded.shape[0]]
        for size, b in zip(padded.shape[1:], block[1:], strict=True):
            split += [size // b, b]
        inner = range(2, len(split), 2)
        outer = range(1, len(split), 2)
        moved: Any = padded.reshape(split).transpose([*inner, 0, *outer])
        sizes = [split[i] for i in outer]
        return np.ascontiguousarray(moved).reshape(padded.shape[0] * math.prod(block), *sizes)
