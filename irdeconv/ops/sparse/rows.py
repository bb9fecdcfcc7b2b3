"""SparseFillEmptyRows."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import boolean
from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import elements, one_type, outside, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Spec, bounds, merge, non_negative
from irdeconv.traits import MOVES


@op("SparseFillEmptyRows", since=16)
class SparseFillEmptyRows(Op):
    """Give every empty row of a sparse matrix one element in its first column.

    values [T], dense_shape [2], indices [T, 2] (row, column), default_value (a scalar) -> indices
    [M, 2] ordered by rows, values [M], whether each row was empty [rows].
    [sparse/SparseFillEmptyRows-16]
    """

    rounding = MOVES

    def infer(
        self, values: Spec, dense_shape: Spec, indices: Spec, default_value: Spec
    ) -> tuple[Spec, ...]:
        names = ("values", "default_value")
        dtype = one_type(values, default_value, names=names, ports=(0, 3))
        index = one_type(dense_shape, indices, names=("dense_shape", "indices"), ports=(1, 2))
        want_rank(values.shape, 1, 1, 0, "values")
        want_rank(indices.shape, 2, 2, 2, "indices")
        want_type(indices, "integer", 2, "indices")
        want_rank(default_value.shape, 0, 0, 3, "default_value")
        self._check_shapes(values, indices)
        sizes = elements(dense_shape, 1, "dense_shape")
        if sizes is not None and len(sizes) != 2:
            text = f"dense_shape has {len(sizes)} values; it must have 2"
            raise OpError(text, code="E302", port=1)
        rows: Dim = DYNAMIC if sizes is None else non_negative(sizes[0])
        count = self._count(values, rows, dense_shape, indices)
        return Spec(index, (count, 2)), Spec(dtype, (count,)), Spec(boolean, (rows,))

    def _check_shapes(self, values: Spec, indices: Spec) -> None:
        if indices.shape is None:
            return
        if merge(indices.shape[1], 2) is None:
            text = f"indices have {indices.shape[1]} columns; they must have 2"
            raise OpError(text, code="E302", port=2)
        if values.shape is not None and merge(values.shape[0], indices.shape[0]) is None:
            text = f"there are {indices.shape[0]} indices for {values.shape[0]} values"
            raise OpError(text, code="E302", port=2)

    def _count(self, values: Spec, rows: Dim, dense_shape: Spec, indices: Spec) -> Dim:
        """Return how many elements there are in the end: each row has one at least."""
        if indices.known is not None and isinstance(rows, int):
            filled = _rows_of(indices.known, rows)
            self._check_columns(indices.known, dense_shape)
            return len(filled) + rows - len(np.unique(filled))
        given = DYNAMIC if values.shape is None else values.shape[0]
        (low, high), (least, most) = bounds(given), bounds(rows)
        return Interval.of(max(low, least), None if high is None or most is None else high + most)

    def _check_columns(self, indices: Array, dense_shape: Spec) -> None:
        if dense_shape.known is not None:
            _require_columns(indices, int(dense_shape.known[1]))

    def evaluate(
        self, values: Array, dense_shape: Array, indices: Array, default_value: Array
    ) -> tuple[Array, ...]:
        rows = int(dense_shape[0])
        filled = _rows_of(indices, rows)
        _require_columns(indices, int(dense_shape[1]))
        empty = np.bincount(filled, minlength=rows) == 0
        added = np.flatnonzero(empty)
        order = np.argsort(np.concatenate([filled, added]), kind="stable")
        new = np.stack([added, np.zeros_like(added)], 1).astype(indices.dtype)
        default = np.full(len(added), default_value.reshape(()), values.dtype)
        return (
            np.concatenate([indices, new])[order],
            np.concatenate([values, default])[order],
            empty,
        )


def _rows_of(indices: Array, rows: int) -> Array:
    """Return the row of each element; E305 where there is no such row."""
    out: Array = indices[:, 0].astype(np.int64)
    worst = outside(out, rows - 1)
    if worst is not None:
        raise OpError(f"an element is in row {worst} of {rows}", code="E305", port=2)
    return out


def _require_columns(indices: Array, columns: int) -> None:
    """Raise OpError E305 where an element is in a column that is not there."""
    worst = outside(indices[:, 1].astype(np.int64), columns - 1)
    if worst is not None:
        raise OpError(f"an element is in column {worst} of {columns}", code="E305", port=2)
