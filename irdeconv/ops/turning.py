"""Movement along an axis: ReverseSequence, Roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_of, elements, exact, outside, want_rank, want_type
from irdeconv.spec import Array, Interval, Spec, bounds, merge
from irdeconv.traits import MOVES


@op("ReverseSequence")
class ReverseSequence(Op):
    """Reverse the first seq_lengths[n] elements along `seq_axis`, for each n on `batch_axis`.

    data: any type; seq_lengths: a vector of numbers, one for each n; what lies behind them stays.
    [movement/ReverseSequence-1]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES
    batch_axis: int = attribute(0, documented=True)
    seq_axis: int = attribute(1, documented=True)

    def infer(self, data: Spec, seq_lengths: Spec) -> Spec:
        want_type(seq_lengths, "number", 1, "seq_lengths")
        want_rank(data.shape, 2, None, 0, "data")
        want_rank(seq_lengths.shape, 1, 1, 1, "seq_lengths")
        if data.shape is None:
            return Spec(data.dtype, None)
        rank, shape = len(data.shape), list(data.shape)
        batch = axis_of(self.batch_axis, rank, attribute="batch_axis")
        along = axis_of(self.seq_axis, rank, attribute="seq_axis")
        if seq_lengths.shape is not None:
            both = merge(shape[batch], seq_lengths.shape[0])
            if both is None:
                text = f"there are {seq_lengths.shape[0]} lengths for {shape[batch]} sequences"
                raise OpError(text, code="E302", port=1)
            shape[batch] = both
        known, top = seq_lengths.known, bounds(shape[along])[1]
        if known is not None and top != 0:
            _check_lengths(known, top)
        return Spec(data.dtype, tuple(shape))

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
        text = f"a length is {worst}; it must be from 0 to {top}"
        raise OpError(text, code="E305", port=1)


@op("Roll", since=7)
class Roll(Op):
    """Move elements by `shift` along `axes`, what leaves an axis comes in at its other end.

    shift, axes: integers, scalars or vectors; one shift serves all axes, and of an axis that is
    named twice the shifts add up. Any type.  [movement/Roll-7]
    """

    moves: ClassVar[bool] = True
    rounding = MOVES

    def infer(self, data: Spec, shift: Spec, axes: Spec) -> Spec:
        shifts, places = elements(shift, 1, "shift"), elements(axes, 2, "axes")
        if shifts is not None and places is not None and len(shifts) not in (1, len(places)):
            text = f"shift has {len(shifts)} values for {len(places)} axes"
            raise OpError(text, code="E302", port=1)
        if data.shape is not None:
            _axes(places, len(data.shape))
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, shift: Array, axes: Array) -> Array:
        places = axes.reshape(-1).tolist()
        shifts = np.broadcast_to(shift.reshape(-1), len(places)).tolist()
        return np.roll(data, shifts, [axis_of(a, data.ndim, port=2) for a in places])


def _axes(places: Sequence[int | Interval] | None, rank: int) -> None:
    for axis in exact(places) or ():
        axis_of(axis, rank, port=2)
