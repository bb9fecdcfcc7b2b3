"""Rearranged channels and blocks, reversed and rolled axes, splits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, size_error, value_error, values_of
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.attributes import Ints, Positive
from irdeconv.ir.op import Bound, attribute, op
from irdeconv.ir.ports import Fit, axis_of, exact, fit
from irdeconv.ir.spec import (
    DYNAMIC,
    UNKNOWN,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    merge,
    non_negative,
)
from irdeconv.kernels.copies import ConcatKernel, CopyKernel
from irdeconv.ops.checks import MovingOp, View, ViewOp, inferred_shape, outside, shape_of

BlockMode = Literal["blocks_first", "depth_first"]


def divided(size: Dim, by: int, what: str, attribute: str | None = None) -> Dim:
    """Return size / by; E302 if an exact size is no multiple."""
    if isinstance(size, Interval):
        high = None if size.hi is None else size.hi // by
        low = -(-size.lo // by)
        if high is None or low <= high:
            return Interval.of(low, high)
    elif size % by == 0:
        return size // by
    text = f"{what} is {size}; it must be a multiple of {by}"
    raise OpError(text, code="E302", attribute=attribute)


class _Rearrangement(MovingOp):
    """Base of operations that split axes, permute the parts and join them to other axes."""

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """Return the axes that the data is split into, and their order in the result."""
        raise NotImplementedError

    def evaluate(self, data: Array) -> Array:
        split, order = self.rearrangement(data.shape)
        return data.reshape(split).transpose(order).reshape(inferred_shape(self, data))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        split, order = self.rearrangement(shape_of(inputs[0]))
        result = tuple(split[i] for i in order)
        return Bound(CopyKernel(lambda x: x.reshape(split).transpose(order), result))


@dataclass(frozen=True)
class _Blocks(_Rearrangement):
    """Base of the two directions."""

    signature = "data: any t [N, C, *S:1..] -> t [N, D, *O]"
    mode: BlockMode = attribute("blocks_first", documented=True)
    block_size: Positive = attribute(1, required=True)


@op("DepthToSpace")
class DepthToSpace(_Blocks):
    """Move channels into space: [N, C * b^n, *S] -> [N, C, *S * b], b = `block_size`.

    blocks_first: channels are [*b, C]; depth_first: [C, *b]. Any type, rank at least 3.
    [movement/DepthToSpace-1]
    """

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        space, b = shape[2:], self.block_size
        at["D"] = divided(shape[1], b ** len(space), "the channel axis", "block_size")
        at.groups["O"] = tuple(d * b for d in space)

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        n, c, *space = shape
        axes, b = len(space), self.block_size
        blocks = [b] * axes
        first = self.mode == "blocks_first"
        split = (n, *(blocks if first else []), c // b**axes, *([] if first else blocks), *space)
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

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        space, b = shape[2:], self.block_size
        at["D"] = shape[1] * b ** len(space)
        sizes = (divided(d, b, f"axis {i}", "block_size") for i, d in enumerate(space, 2))
        at.groups["O"] = tuple(sizes)

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        n, c, *space = shape
        axes, b = len(space), self.block_size
        inner = [3 + 2 * i for i in range(axes)]
        outer = [2 + 2 * i for i in range(axes)]
        order = [0, *inner, 1, *outer] if self.mode == "blocks_first" else [0, 1, *inner, *outer]
        return (n, c, *(v for d in space for v in (d // b, b))), order


@op("ShuffleChannels", without=(2,))
class ShuffleChannels(_Rearrangement):
    """Read the channels of `axis` as [group, C / group] and swap the two; any type.

    [movement/ShuffleChannels-1]
    """

    signature = "data: any t [*I] -> t [*I]"
    axis: int = 1
    group: Positive = 1

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        axis = axis_of(self.axis, len(shape), attribute="axis")
        divided(shape[axis], self.group, f"axis {axis}", "group")

    def rearrangement(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        at = axis_of(self.axis, len(shape))
        outer, inner = math.prod(shape[:at]), math.prod(shape[at + 1 :])
        return (outer, self.group, shape[at] // self.group, inner), [0, 2, 1, 3]


@op("Reverse", until=1)
class Reverse(MovingOp):
    """Reverse the order along axes: `index` lists them, `mask` has a boolean for each axis.

    data: any type.  [movement/Reverse-1]
    """

    signature = "data: any t [*I]; axes: any [A] -> t [*I]"
    mode: Literal["index", "mask"] = attribute("index", documented=True)

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        axes = "boolean [A]" if self.mode == "mask" else "integer [A] of data"
        return self.signature.replace("any [A]", axes)

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        count = at["A"] if self.mode == "mask" else len(shape)
        if isinstance(count, int) and count != len(shape):
            raise size_error(1, f"the mask has {values_of(count)} for data {format_shape(shape)}")

    def evaluate(self, data: Array, axes: Array) -> Array:
        if self.mode == "mask":
            return np.flip(data, tuple(int(a) for a in np.flatnonzero(axes)))
        return np.flip(data, tuple({axis_of(int(a), data.ndim, port=1) for a in axes}))


Parts = tuple[tuple[Dim, ...], ...]


def _checked(at: Fit, data: Spec, *names: str) -> Parts:
    """Return the lists of these inputs, one value for each axis of the data; E302, E305."""
    known = at["D"]
    rank = known if data.shape is None else len(data.shape)
    if isinstance(known, int) and rank != known:
        raise size_error(1, f"block_shape has {values_of(known)} for data of rank {rank}")
    if not isinstance(rank, int):
        return ()
    found = [at.values(name) or (UNKNOWN,) * rank for name in names]
    for port, (name, values) in enumerate(zip(names, found, strict=True), 1):
        _check_values(name, values, port)
    return tuple(tuple(map(non_negative, values)) for values in found)


def _check_values(name: str, values: tuple[Dim, ...], port: int) -> None:
    """Require blocks of at least 1, others of at least 0, and 1 and 0 on the batch axis; E305."""
    least = int(port == 1)
    for axis, v in enumerate(values):
        _, high = bounds(v)
        if high is not None and high < least:
            raise value_error(port, f"{name} is {v} on axis {axis}; it must be at least {least}")
    if isinstance(values[0], int) and values[0] != least:
        raise value_error(port, f"{name} is {values[0]} on axis 0, the batch; it must be {least}")


def _over(size: Dim, by: Dim, what: str) -> Dim:
    """Return size / by, both perhaps intervals."""
    if isinstance(by, int) and by > 0:
        return divided(size, by, what)
    low, high = bounds(size)
    return Interval.of(0 if high == 0 or low == 0 else min(low, 1), high)


@op("BatchToSpace", since=2)
class BatchToSpace(MovingOp):
    """Spread batches over space and crop: [N * prod(b), *S] -> [N, *(S * b - begin - end)].

    Batch number ((i1 * b2 + i2) * ...) * N + n has the elements of n at the places that leave
    i1, i2, ... divided by b1, b2, ... block_shape b, crops_begin, crops_end: integers, one for each
    axis, 1 and 0 for the batch. Any type.  [movement/BatchToSpace-2]
    """

    signature = (
        "data: any t [?, ?, *I]; block_shape: integer i [D]; crops_begin: i [D]; "
        "crops_end: i [D] -> t [*O]"
    )

    def complete(self, at: Fit, data: Spec, *lists: Spec) -> None:
        parts = _checked(at, data, *(p.name for p in at.declared.inputs[1:]))
        if parts:
            shape = (DYNAMIC,) * len(parts[0]) if data.shape is None else data.shape
            rows = zip(shape, *parts, strict=True)
            spaces = [self._space(axis, *row) for axis, row in enumerate(rows) if axis]
            at.groups["O"] = (self._batch(shape[0], math.prod(parts[0])), *spaces)

    def _batch(self, size: Dim, blocks: Dim) -> Dim:
        return _over(size, blocks, "the batch")

    def _space(self, axis: int, size: Dim, block: Dim, begin: Dim, end: Dim) -> Dim:
        out = size * block - begin - end
        high = bounds(out)[1]
        if high is not None and high < 0:
            raise size_error(2, f"crops of {begin} and {end} exceed axis {axis}")
        return non_negative(out)

    def evaluate(self, data: Array, *lists: Array) -> Array:
        block, begin, end = (v.tolist() for v in lists)
        spaces, rank = data.shape[1:], data.ndim
        batch = data.shape[0] // math.prod(block)
        split = data.reshape(*block[1:], batch, *spaces)
        order = [rank - 1]
        for axis in range(rank - 1):
            order += [rank + axis, axis]
        sizes = [s * b for s, b in zip(spaces, block[1:], strict=True)]
        whole = split.transpose(order).reshape(batch, *sizes)
        cuts = zip(begin, whole.shape, end, strict=True)
        return whole[tuple(slice(b, size - e) for b, size, e in cuts)]


@op("SpaceToBatch", since=2)
class SpaceToBatch(BatchToSpace):
    """Pad with 0 and gather elements of one remainder as a batch, the inverse of BatchToSpace.

    [N, *S] -> [N * prod(b), *((S + begin + end) / b)]; block_shape b, pads_begin, pads_end:
    integers, one for each axis, 1 and 0 for the batch. Any type.  [movement/SpaceToBatch-2]
    """

    signature = (
        "data: any t [?, ?, *I]; block_shape: integer [D]; pads_begin: integer [D]; "
        "pads_end: integer [D] -> t [*O]"
    )

    def _batch(self, size: Dim, blocks: Dim) -> Dim:
        return size * blocks

    def _space(self, axis: int, size: Dim, block: Dim, begin: Dim, end: Dim) -> Dim:
        return _over(size + begin + end, block, f"axis {axis} with its pads")

    def evaluate(self, data: Array, *lists: Array) -> Array:
        block, begin, end = (v.tolist() for v in lists)
        padded = np.pad(data, list(zip(begin, end, strict=True)))
        split: list[int] = [padded.shape[0]]
        for size, b in zip(padded.shape[1:], block[1:], strict=True):
            split += [size // b, b]
        inner = range(2, len(split), 2)
        outer = range(1, len(split), 2)
        moved: Any = padded.reshape(split).transpose([*inner, 0, *outer])
        sizes = [split[i] for i in outer]
        return np.ascontiguousarray(moved).reshape(padded.shape[0] * math.prod(block), *sizes)


@op("ReverseSequence")
class ReverseSequence(MovingOp):
    """Reverse the first seq_lengths[n] elements along `seq_axis`, for each n on `batch_axis`.

    data: any type; seq_lengths: a vector of numbers, one for each n. Elements behind them stay.
    [movement/ReverseSequence-1]
    """

    signature = "data: any t [?, ?, *I]; seq_lengths: number [N] -> t [*O]"
    batch_axis: int = attribute(0, documented=True)
    seq_axis: int = attribute(1, documented=True)

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        rank, sizes = len(shape), list(shape)
        batch = axis_of(self.batch_axis, rank, attribute="batch_axis")
        along = axis_of(self.seq_axis, rank, attribute="seq_axis")
        both = merge(shape[batch], at["N"])
        if both is None:
            raise size_error(1, f"there are {at['N']} lengths for {shape[batch]} sequences")
        sizes[batch] = both
        known, top = others[0].known, bounds(sizes[along])[1]
        if known is not None and top != 0:
            _check_lengths(known, top)
        at.groups["O"] = tuple(sizes)

    def evaluate(self, data: Array, seq_lengths: Array) -> Array:
        batch, along = self.batch_axis % data.ndim, self.seq_axis % data.ndim
        size = data.shape[along]
        if not data.size:
            return data
        _check_lengths(seq_lengths, size)
        at = np.arange(size)
        lengths = seq_lengths.astype(np.int64)[:, np.newaxis]
        places = np.where(at < lengths, lengths - 1 - at, at)  # (N, T)
        shape = [1] * data.ndim
        shape[batch], shape[along] = places.shape
        ordered = places if batch < along else places.T
        if batch == along:
            ordered, shape[along] = np.diagonal(places), size
        return np.take_along_axis(data, ordered.reshape(shape), along)


def _check_lengths(lengths: Array, top: int | None) -> None:
    """Require lengths, real ones without their fractions, within the sequence axis; E305."""
    worst = outside(lengths if lengths.dtype.kind in "iu" else np.trunc(lengths), top)
    if worst is not None:
        raise value_error(1, f"a length is {worst}; it must be from 0 to {top}")


@op("Roll", since=7)
class Roll(MovingOp):
    """Move elements by `shift` along `axes`; those that leave an end enter at the other one.

    shift, axes: integers, scalars or vectors. A scalar shift applies to all axes. The shifts of an
    axis that is named twice add up. Any type.  [movement/Roll-7]
    """

    signature = "data: any t [*I]; shift: i32|i64 [*S:1]; axes: i32|i64 [*A:1] of data -> t [*I]"

    def complete(self, at: Fit, *inputs: Spec) -> None:
        shift, axes = inputs[1].shape, inputs[2].shape
        if shift and not compatible(shift, axes):
            text = f"shift has {values_of(shift[0])} for {axes[0] if axes else 'scalar'} axes"
            raise size_error(1, text)

    def evaluate(self, data: Array, shift: Array, axes: Array) -> Array:
        places = axes.reshape(-1).tolist()
        shifts = np.broadcast_to(shift.reshape(-1), len(places)).tolist()
        return np.roll(data, shifts, [axis_of(a, data.ndim, port=2) for a in places])


def _with(spec: Spec, axis: int, size: Dim) -> Spec:
    assert spec.shape is not None
    return Spec(spec.dtype, (*spec.shape[:axis], size, *spec.shape[axis + 1 :]))


def _unknown(data: Spec) -> Spec:
    return Spec(data.dtype, None if data.shape is None else (DYNAMIC,) * len(data.shape))


@op("Split")
class Split(ViewOp):
    """Cut into `num_splits` equal parts along `axis` (a scalar input); any type.

    [movement/Split-1]
    """

    moves: ClassVar[bool] = False
    signature = "data: any t; axis: integer [] of data"
    num_splits: Positive

    def check(self) -> Iterator[Problem]:
        limit = current().ports
        if self.num_splits > limit:
            text = f"num_splits is {self.num_splits}, so many outputs; the limit is {limit}"
            yield Problem("E601", text, attribute="num_splits", hint=raise_hint("ports"))

    def infer(self, data: Spec, axis: Spec) -> tuple[Spec, ...]:
        axes = fit(self, data, axis).axes("axis")
        if axes is None or data.shape is None:
            return (_unknown(data),) * self.num_splits
        (at,) = axes
        size = divided(data.shape[at], self.num_splits, f"axis {at}", "num_splits")
        return (_with(data, at, size),) * self.num_splits

    def view(self, shape: Ints, axis: Array) -> View:
        at = axis_of(int(axis.reshape(-1)[0]), len(shape), port=1)
        size = divided(shape[at], self.num_splits, f"axis {at}", "num_splits")
        return _parts((size,) * self.num_splits, at)


@op("VariadicSplit")
class VariadicSplit(ViewOp):
    """Cut into parts of `split_lengths` along `axis`; one -1 takes the remainder; any type.

    [movement/VariadicSplit-1]
    """

    moves: ClassVar[bool] = False
    signature = "data: any t; axis: integer one of data; split_lengths: integer [?]"

    def infer(self, data: Spec, axis: Spec, split_lengths: Spec) -> tuple[Spec, ...]:
        found = fit(self, data, axis, split_lengths)
        axes, lengths = found.axes("axis"), found.values("split_lengths")
        if lengths is None:
            text = "split_lengths has an unknown number of values, "
            text += "so the number of outputs is unknown"
            raise value_error(2, text)
        if axes is None or data.shape is None:
            return (_unknown(data),) * len(lengths)
        (at,) = axes
        return tuple(_with(data, at, d) for d in _lengths(data.shape[at], lengths))

    def view(self, shape: Ints, axis: Array, split_lengths: Array) -> View:
        at = axis_of(int(axis.reshape(-1)[0]), len(shape), port=1)
        return _parts(_lengths(shape[at], tuple(int(v) for v in split_lengths)), at)


def _parts(sizes: Sequence[Dim], axis: int) -> View:
    """Return a function that makes the views of parts of exact sizes."""
    lengths = exact(sizes)
    assert lengths is not None
    places = ConcatKernel.of(lengths, axis).parts
    return lambda x: tuple(x[p] for p in places)


def _lengths(size: Dim, lengths: tuple[Dim, ...]) -> list[Dim]:
    """Return the parts' sizes with -1 filled in; E305 if they do not add up."""
    given = [v for v in lengths if v != -1]
    if len(lengths) - len(given) > 1 or any(not isinstance(v, Interval) and v < 0 for v in given):
        text = f"split_lengths is [{', '.join(map(str, lengths))}]; "
        text += "at most one value may be -1 and none below it"
        raise value_error(2, text)
    total: Dim = 0
    for v in given:
        total = total + v
    wild = len(given) < len(lengths)
    low, high = bounds(size - total)
    certain = not any(isinstance(v, Interval) for v in given)
    if certain and ((high is not None and high < 0) or (not wild and low > 0)):
        text = f"split_lengths {list(lengths)} do not fit an axis of {size}: {total} are named"
        raise value_error(2, text)
    left = Interval.of(max(low, 0), None if high is None else max(high, 0))
    # A value that may be -1 may result in any size.
    return [left if v == -1 else DYNAMIC if bounds(v)[0] < 0 else v for v in lengths]
