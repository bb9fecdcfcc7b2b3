"""Rearrangements: DepthToSpace, SpaceToDepth, ShuffleChannels, Reverse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.kernels.copies import copy_into
from irdeconv.op import Op, attribute, op
from irdeconv.ops.binding import shape_of
from irdeconv.ops.checks import axis_of, elements, exact, want_rank, want_type
from irdeconv.spec import Array, Dim, Interval, Spec, format_shape
from irdeconv.traits import MOVES, Bound

BlockMode = Literal["blocks_first", "depth_first"]


def divided(size: Dim, by: int, what: str, attribute: str) -> Dim:
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


@dataclass(frozen=True)
class _Blocks(Op):
    """Base of the two directions."""

    moves: ClassVar[bool] = True
    rounding = MOVES

    mode: BlockMode = attribute("blocks_first", documented=True)
    block_size: int = 1

    def check(self) -> Iterator[Problem]:
        if self.block_size < 1:
            yield Problem(
                "E210",
                f"block_size is {self.block_size}; it must be positive",
                attribute="block_size",
            )

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """Return into which axes the data is split, and their order in the result."""
        raise NotImplementedError

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        split, order = self.rearrangement(shape_of(inputs[0]))
        return _permuted(split, order, [split[i] for i in order])


def _permuted(split: Sequence[int], order: Sequence[int], merge: Sequence[int]) -> Bound:
    """Reshape to `split`, permute, and copy into the result seen as `merge`."""
    seen, axes, result = tuple(split), tuple(order), tuple(merge)

    def call(x: Array, *_: Array, out: Array, team: Any) -> None:
        copy_into(x.reshape(seen).transpose(axes), out.reshape(result))

    return Bound(call)


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

    def evaluate(self, data: Array) -> Array:
        n, c, *space = data.shape
        b = self.block_size
        split, order = self.rearrangement(data.shape)
        x = data.reshape(split).transpose(order)
        return x.reshape(n, c // b ** len(space), *(d * b for d in space))

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

    def evaluate(self, data: Array) -> Array:
        n, c, *space = data.shape
        b = self.block_size
        split, order = self.rearrangement(data.shape)
        x = data.reshape(split).transpose(order)
        return x.reshape(n, c * b ** len(space), *(d // b for d in space))

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        n, c, *space = shape
        axes, b = len(space), self.block_size
        split = (n, c, *(v for d in space for v in (d // b, b)))
        inner = [3 + 2 * i for i in range(axes)]
        outer = [2 + 2 * i for i in range(axes)]
        order = [0, *inner, 1, *outer] if self.mode == "blocks_first" else [0, 1, *inner, *outer]
        return split, order


@op("ShuffleChannels")
class ShuffleChannels(Op):
    """Read the channels of `axis` as [group, C / group] and swap the two; any type.

    [movement/ShuffleChannels-1]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES
    axis: int = 1
    group: int = 1

    def check(self) -> Iterator[Problem]:
        if self.group < 1:
            yield Problem("E210", f"group is {self.group}; it must be positive", attribute="group")

    def infer(self, data: Spec) -> Spec:
        if data.shape is not None:
            axis = axis_of(self.axis, len(data.shape), attribute="axis")
            divided(data.shape[axis], self.group, f"axis {axis}", "group")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        before, after = data.shape[:axis], data.shape[axis + 1 :]
        c = data.shape[axis]
        x = data.reshape(math.prod(before), self.group, c // self.group, math.prod(after))
        return x.swapaxes(1, 2).reshape(data.shape)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        size = shape_of(inputs[0])
        at = axis_of(self.axis, len(size))
        outer, inner, c = math.prod(size[:at]), math.prod(size[at + 1 :]), size[at]
        split = outer, self.group, c // self.group, inner
        return _permuted(split, (0, 2, 1, 3), (outer, c // self.group, self.group, inner))


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
