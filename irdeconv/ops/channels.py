"""Rearrangements: DepthToSpace, SpaceToDepth, ShuffleChannels, Reverse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.kernels.copies import CopyKernel
from irdeconv.op import Op, as_tuple, attribute, op
from irdeconv.ops.binding import shape_of
from irdeconv.ops.checks import axis_of, elements, exact, positive_number, want_rank, want_type
from irdeconv.spec import Array, Dim, Interval, Spec, format_shape
from irdeconv.traits import MOVES, Bound

BlockMode = Literal["blocks_first", "depth_first"]


def divided(size: Dim, by: int, what: str, attribute: str | None = None) -> Dim:
    """Return size / by; E302 where an exact size is no multiple."""
    if isinstance(size, Interval):
        high = None if size.hi is None else size.hi // by
        low = -(-size.lo // by)
        return Interval.of(min(low, high) if high is not None else low, high)
    if size % by:
        raise OpError(
            f"{what} is {size}; it must be a multiple of {by}", code="E302", attribute=attribute
        )
    return size // by


class _Rearrangement(Op):
    """Base of what splits axes, permutes the parts and joins them to other axes."""

    moves: ClassVar[bool] = True
    rounding = MOVES

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """Return into which axes the data is split, and their order in the result."""
        raise NotImplementedError

    def evaluate(self, data: Array) -> Array:
        split, order = self.rearrangement(data.shape)
        target = shape_of(as_tuple(self.infer(Spec.of(data, keep=False)))[0])
        return data.reshape(split).transpose(order).reshape(target)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        split, order = self.rearrangement(shape_of(inputs[0]))
        result = tuple(split[i] for i in order)
        return Bound(CopyKernel(lambda x: x.reshape(split).transpose(order), result))


@dataclass(frozen=True)
class _Blocks(_Rearrangement):
    """Base of the two directions."""

    mode: BlockMode = attribute("blocks_first", documented=True)
    block_size: int = 1

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "block_size")


@op("DepthToSpace")
class DepthToSpace(_Blocks):
    """Move channels into space: [N, C * b^n, *S] -> [N, C, *S * b], b = `block_size`.

    blocks_first: channels are [*b, C]; depth_first: [C, *b]. Any type, rank at least 3.
    [movement/DepthToSpace-1]
    """

    def infer(self, data: Spec) -> Spec:
        want_rank(data.shape, 3, None, 0, "data")
        if data.shape is None:
            return Spec(data.dtype, None)
        n, c, *space = data.shape
        channels = divided(c, self.block_size ** len(space), "the channel axis", "block_size")
        return Spec(data.dtype, (n, channels, *(d * self.block_size for d in space)))

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        n, c, *space = shape
        axes, b = len(space), self.block_size
        blocks = [b] * axes
        depth = c // b**axes
        first = self.mode == "blocks_first"
        split = (n, *(blocks if first else []), depth, *([] if first else blocks), *space)
        at, channel = (1, 1 + axes) if first else (2, 1)
        order = [0, channel]
        for i in range(axes):
            order += [2 + axes + i, at + i]
        return split, order


@op("SpaceToDepth")
class SpaceToDepth(_Blocks):
    """Move blocks of space into channels: [N, C, *S * b] -> [N, C * b^n, *S], b = `block_size`.

    blocks_first: channels become [*b, C]; depth_first: [C, *b]. Any type, rank at least 3.
    [movement/SpaceToDepth-1]
    """

    def infer(self, data: Spec) -> Spec:
        want_rank(data.shape, 3, None, 0, "data")
        if data.shape is None:
            return Spec(data.dtype, None)
        n, c, *space = data.shape
        b = self.block_size
        sizes = [divided(d, b, f"axis {i}", "block_size") for i, d in enumerate(space, 2)]
        return Spec(data.dtype, (n, c * b ** len(space), *sizes))

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        n, c, *space = shape
        axes, b = len(space), self.block_size
        split = (n, c, *(v for d in space for v in (d // b, b)))
        inner = [3 + 2 * i for i in range(axes)]
        outer = [2 + 2 * i for i in range(axes)]
        order = [0, *inner, 1, *outer] if self.mode == "blocks_first" else [0, 1, *inner, *outer]
        return split, order


@op("ShuffleChannels", without=(2,))
class ShuffleChannels(_Rearrangement):
    """Read the channels of `axis` as [group, C / group] and swap the two; any type.

    [movement/ShuffleChannels-1]
    """

    axis: int = 1
    group: int = 1

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "group")

    def infer(self, data: Spec) -> Spec:
        if data.shape is not None:
            axis = axis_of(self.axis, len(data.shape), attribute="axis")
            divided(data.shape[axis], self.group, f"axis {axis}", "group")
        return Spec(data.dtype, data.shape)

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        at = axis_of(self.axis, len(shape))
        outer, inner = math.prod(shape[:at]), math.prod(shape[at + 1 :])
        return (outer, self.group, shape[at] // self.group, inner), [0, 2, 1, 3]


@op("Reverse", until=1)
class Reverse(Op):
    """Reverse the order along axes: `index` lists them, `mask` has a boolean for each axis.

    data: any type.  [movement/Reverse-1]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES
    mode: Literal["index", "mask"] = attribute("index", documented=True)

    def infer(self, data: Spec, axes: Spec) -> Spec:
        want_rank(axes.shape, 1, 1, 1, "axes")
        if self.mode == "mask":
            want_type(axes, "boolean", 1, "axes")
            self._check_mask(data, axes)
            return Spec(data.dtype, data.shape)
        chosen = exact(elements(axes, 1, "axes"))
        if chosen is not None and data.shape is not None:
            for a in chosen:
                axis_of(a, len(data.shape), port=1)
        return Spec(data.dtype, data.shape)

    def _check_mask(self, data: Spec, axes: Spec) -> None:
        if data.shape is None or axes.shape is None or isinstance(axes.shape[0], Interval):
            return
        if axes.shape[0] != len(data.shape):
            raise OpError(
                f"the mask has {axes.shape[0]} values for data {format_shape(data.shape)}",
                code="E302",
                port=1,
            )

    def evaluate(self, data: Array, axes: Array) -> Array:
        if self.mode == "mask":
            return np.flip(data, tuple(int(a) for a in np.flatnonzero(axes)))
        return np.flip(data, tuple({axis_of(int(a), data.ndim, port=1) for a in axes}))
