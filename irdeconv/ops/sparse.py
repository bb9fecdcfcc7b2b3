"""Sums and means of rows of a table (the EmbeddingBag family), SparseFillEmptyRows, SegmentMax.

Axis letters: E rows of the table, *W axes of a row, L looked up rows, B bags. Element types below
32 bits are summed in f32 and rounded once.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, size_error, value_error
from irdeconv.ir.op import MOVES, SUM, Op, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import DYNAMIC, Array, Interval, Spec, bounds, compatible, non_negative
from irdeconv.ops.checks import outside, want_shapes, widened

Reduction = Literal["sum", "mean"]


class _Embedding(Op):
    """Base of the family: checks, and the sums of `reduction`."""

    rounding = SUM
    reduction: ClassVar[str] = "sum"

    def complete(self, at: Fit, *inputs: Spec) -> None:
        port = len(at.declared.inputs) - 1
        if len(inputs) > port:
            if self.reduction == "mean":
                text = 'per_sample_weights are for reduction="sum" only'
                raise OpError(text, code="E300", port=port)
            if not compatible(inputs[1].shape, inputs[port].shape):
                text = f"per_sample_weights are {inputs[port]}, the indices {inputs[1]}"
                raise size_error(port, f"{text}; shapes must be equal")

    def bags(
        self,
        table: Array,
        indices: Array,
        bag: Array,
        count: int,
        weights: Array | None,
        default_index: Array | None = None,
    ) -> Array:
        """Return `count` reduced bags; lookup i belongs to bag[i], an empty one a row."""
        wide = widened(table)
        found = wide[_checked(indices, len(table))]
        if weights is not None:
            found = found * weights.astype(wide.dtype).reshape(-1, *(1,) * (table.ndim - 1))
        out = np.zeros((count, *table.shape[1:]), wide.dtype)
        with np.errstate(all="ignore"):
            np.add.at(out, bag, found)
            sizes = np.bincount(bag, minlength=count)
            if self.reduction == "mean":
                counts = np.maximum(sizes, 1).reshape(-1, *(1,) * (out.ndim - 1))
                out = (out / counts).astype(out.dtype)
        if default_index is not None and (row := default_index.reshape(-1)[0]) >= 0:
            out[sizes == 0] = wide[_checked(np.asarray(row), len(table))]
        return out.astype(table.dtype, copy=False)


def _checked(indices: Array, rows: int) -> Array:
    """Require indices of rows that the table has; E305."""
    worst = outside(indices, rows - 1)
    if worst is not None:
        raise value_error(1, f"an index is {worst}; the table has rows 0 to {rows - 1}")
    return indices.astype(np.int64)


@op("EmbeddingBagOffsetsSum", since=3)
class EmbeddingBagOffsetsSum(_Embedding):
    """Sum rows of a table for each bag: [E, *W], indices [L], offsets [B] -> [B, *W].

    Bag b has the indices from offsets[b] to offsets[b + 1]; an empty one is the row
    `default_index`, 0 without it or if that is -1. per_sample_weights [L] multiply the rows.
    [sparse/EmbeddingBagOffsetsSum-3]
    """

    signature = (
        "emb_table: number t [E, *W]; indices: i32|i64 i [L]; offsets: i [B]; "
        "default_index?: i []; per_sample_weights?: t -> t [B, *W]"
    )

    def evaluate(self, emb_table: Array, indices: Array, offsets: Array, *more: Array) -> Array:
        default_index, per_sample_weights = (*more, None, None)[:2]
        sizes = np.append(offsets[1:], len(indices)).astype(np.int64) - offsets.astype(np.int64)
        if len(offsets) and (offsets.min() < 0 or sizes.min() < 0):
            text = f"offsets {offsets.tolist()} must grow from 0 to {len(indices)} at most"
            raise value_error(2, text)
        first = int(offsets[0]) if len(offsets) else len(indices)
        bag = np.repeat(np.arange(len(offsets)), sizes)
        weights = None if per_sample_weights is None else per_sample_weights[first:]
        return self.bags(emb_table, indices[first:], bag, len(offsets), weights, default_index)


@op("EmbeddingBagOffsets", since=15)
class EmbeddingBagOffsets(EmbeddingBagOffsetsSum):
    """EmbeddingBagOffsetsSum with the sum or the mean of each bag.

    [sparse/EmbeddingBagOffsets-15]
    """

    reduction: Reduction = "sum"  # type: ignore[misc]


@op("EmbeddingBagPackedSum", since=3)
class EmbeddingBagPackedSum(_Embedding):
    """Sum rows of a table for each bag: [E, *W], indices [B, L] -> [B, *W].

    per_sample_weights [B, L] multiply the rows.  [sparse/EmbeddingBagPackedSum-3]
    """

    signature = (
        "emb_table: number t [E, *W]; indices: i32|i64 [B, L]; per_sample_weights?: t -> t [B, *W]"
    )

    def evaluate(
        self, emb_table: Array, indices: Array, per_sample_weights: Array | None = None
    ) -> Array:
        count, each = indices.shape
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        bag = np.repeat(np.arange(count), each)
        return self.bags(emb_table, indices.reshape(-1), bag, count, weights)


@op("EmbeddingBagPacked", since=15)
class EmbeddingBagPacked(EmbeddingBagPackedSum):
    """EmbeddingBagPackedSum with the sum or the mean of each bag.

    [sparse/EmbeddingBagPacked-15]
    """

    reduction: Reduction = "sum"  # type: ignore[misc]


@op("EmbeddingSegmentsSum", since=3)
class EmbeddingSegmentsSum(_Embedding):
    """Sum rows of a table for each segment: [E, *W], indices [L], segment_ids [L] -> [S, *W].

    segment_ids, in ascending order, assign each row to one of the `num_segments` S (a scalar). An
    empty segment is the row `default_index`, 0 without it or if that is -1. per_sample_weights [L]
    multiply the rows.  [sparse/EmbeddingSegmentsSum-3]
    """

    signature = (
        "emb_table: number t [E, *W]; indices: i32|i64 i [L]; segment_ids: i [L]; "
        "num_segments: i [] = S; default_index?: i []; per_sample_weights?: t "
        "-> t [S, *W]"
    )

    def evaluate(self, emb_table: Array, indices: Array, segment_ids: Array, *more: Array) -> Array:
        num_segments, default_index, per_sample_weights = (*more, None, None)[:3]
        assert num_segments is not None
        count = int(num_segments.reshape(-1)[0])
        bag = segment_ids.astype(np.int64)
        check_growing(bag, 2)
        if bag.size and bag[-1] >= count:
            raise value_error(2, f"a segment id is {bag[-1]}; there are {count} segments")
        return self.bags(emb_table, indices, bag, count, per_sample_weights, default_index)


def check_growing(ids: Array, port: int) -> None:
    """Require segment ids that never fall and are not negative; E305."""
    if ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
        text = f"segment_ids {ids.tolist()[:20]} must not fall, and begin at 0 or above"
        raise value_error(port, text)


@op("SparseFillEmptyRows", since=16)
class SparseFillEmptyRows(Op):
    """Give every empty row of a sparse matrix one element in its first column.

    values [T], dense_shape [2], indices [T, 2] (row, column), default_value (a scalar) -> indices
    [M, 2] ordered by rows, values [M], whether each row was empty [rows].
    [sparse/SparseFillEmptyRows-16]
    """

    rounding = MOVES
    signature = (
        "values: any t [T]; dense_shape: i32|i64 u [2]; indices: u [T, 2]; default_value: t [] "
        "-> u [M, 2]; t [M]; boolean [R]"
    )

    def complete(self, at: Fit, values: Spec, *others: Spec) -> None:
        dense_shape, indices, _ = (s.known for s in others)
        sizes = at.values("dense_shape")
        rows = DYNAMIC if sizes is None else non_negative(sizes[0])
        at["R"] = rows
        # Each row has one element at least.
        (low, high), (least, most) = bounds(at.count("values")), bounds(rows)
        top = None if high is None or most is None else high + most
        at["M"] = Interval.of(max(low, least), top)
        if indices is not None and isinstance(rows, int):
            columns = () if dense_shape is None else (int(dense_shape[1]),)
            filled = _rows_of(indices, rows, *columns)
            at["M"] = len(filled) + rows - len(np.unique(filled))

    def evaluate(
        self, values: Array, dense_shape: Array, indices: Array, default_value: Array
    ) -> tuple[Array, ...]:
        rows = int(dense_shape[0])
        filled = _rows_of(indices, rows, int(dense_shape[1]))
        empty = np.bincount(filled, minlength=rows) == 0
        added = np.flatnonzero(empty)
        order = np.argsort(np.concatenate([filled, added]), kind="stable")
        new = np.stack([added, np.zeros_like(added)], 1).astype(indices.dtype)
        default = np.full(len(added), default_value.reshape(()), values.dtype)
        every, numbers = np.concatenate([indices, new]), np.concatenate([values, default])
        return every[order], numbers[order], empty


def _rows_of(indices: Array, *sizes: int) -> Array:
    """Return the row of each element; E305 if there is no such row or column."""
    for axis, (what, size) in enumerate(zip(("row", "column"), sizes, strict=False)):
        worst = outside(indices[:, axis].astype(np.int64), size - 1)
        if worst is not None:
            raise value_error(2, f"an element is in {what} {worst} of {size}")
    rows: Array = indices[:, 0].astype(np.int64)
    return rows


@op("SegmentMax", since=16)
class SegmentMax(Op):
    """Largest elements of each segment of rows: [N, *W], segment_ids [N] -> [S, *W].

    segment_ids grow; S is `num_segments` (a scalar; rows of later segments are left out) or the
    last id and one more. A segment without rows gets 0 or the lowest number, for all floating-point
    types that of f32.
    [sparse/SegmentMax-16]
    """

    rounding = MOVES
    signature = (
        "data: number t [N, *W]; segment_ids: i32|i64 [N]; num_segments?: i32|i64 [] = S "
        "-> t [S, *W]"
    )
    fill_mode: Literal["zero", "lowest"] = "zero"

    def complete(self, at: Fit, data: Spec, segment_ids: Spec, *count: Spec) -> None:
        ids = segment_ids.known
        if ids is not None:
            check_growing(ids, 1)
        if not count and ids is not None:
            at["S"] = int(ids[-1]) + 1 if ids.size else 0

    def evaluate(self, data: Array, segment_ids: Array, num_segments: Array | None = None) -> Array:
        want_shapes(self, data, segment_ids)
        ids = segment_ids.astype(np.int64)
        check_growing(ids, 1)
        last = int(ids[-1]) + 1 if ids.size else 0
        count = last if num_segments is None else int(num_segments.reshape(-1)[0])
        fill = _lowest(data.dtype) if self.fill_mode == "lowest" else 0
        out = np.full((count, *data.shape[1:]), fill, data.dtype)
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        kept = starts[ids[starts] < count]
        if kept.size:
            out[ids[kept]] = np.maximum.reduceat(data, starts, axis=0)[: kept.size]
        return out


def _lowest(dtype: np.dtype[Any]) -> Any:
    """Return an integer type's lowest number, else that of f32, which is -inf in narrower types."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    with np.errstate(over="ignore"):
        return np.asarray(np.finfo(np.float32).min).astype(dtype)
