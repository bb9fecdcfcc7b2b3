"""Places in sorted numbers: Bucketize, SearchSorted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import index_type, one_type, want_rank, want_type
from irdeconv.spec import Array, Shape, Spec, format_shape, merge
from irdeconv.traits import JUMPS

Side = Literal["left", "right"]


@op("Bucketize", since=3)
class Bucketize(Op):
    """Number the buckets in which elements lie: any shape, numbers -> the same shape, integers.

    buckets: a sorted vector of B bounds; bucket i lies between bounds i - 1 and i, and has the
    upper one `with_right_bound`, else the lower one. Types may differ.
    [condition/Bucketize-3]
    """

    rounding = JUMPS
    output_type: ElementType = attribute(i64, documented=True)
    with_right_bound: bool = True

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def infer(self, data: Spec, buckets: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_type(buckets, "number", 1, "buckets")
        want_rank(buckets.shape, 1, 1, 1, "buckets")
        return Spec(self.output_type, data.shape)

    def evaluate(self, data: Array, buckets: Array) -> Array:
        side: Side = "left" if self.with_right_bound else "right"
        return _search(buckets, data, side).astype(self.output_type.container)


@op("SearchSorted", since=15)
class SearchSorted(Op):
    """Where values would be inserted into sorted rows: [*L, N], [*L, V] -> [*L, V].

    Numbers of one type; a single row serves values of any shape. Of equal elements the place is in
    front of all, in `right_mode` behind all.  [sort/SearchSorted-15]
    """

    rounding = JUMPS
    right_mode: bool = False
    output_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def infer(self, sorted_sequence: Spec, values: Spec) -> Spec:
        names = ("sorted_sequence", "values")
        want_type(sorted_sequence, "number", 0, names[0])
        one_type(sorted_sequence, values, names=names)
        rows, shape = sorted_sequence.shape, values.shape
        want_rank(rows, 1, None, 0, names[0])
        if rows is not None and shape is not None and len(rows) > 1:
            shape = _lead(rows, shape)
        return Spec(self.output_type, shape)

    def evaluate(self, sorted_sequence: Array, values: Array) -> Array:
        side: Side = "right" if self.right_mode else "left"
        kind = self.output_type.container
        if sorted_sequence.ndim == 1:
            return _search(sorted_sequence, values, side).astype(kind)
        out = np.empty(values.shape, kind)
        for at in np.ndindex(values.shape[:-1]):
            out[at] = _search(sorted_sequence[at], values[at], side)
        return out


def _lead(rows: Shape, values: Shape) -> Shape:
    """Return the shape of the values, all but the last axis as the rows have it; E301, E302."""
    if len(rows) != len(values):
        text = f"values have rank {len(values)}, sorted_sequence {len(rows)}"
        raise OpError(text, code="E301", port=1)
    out = [merge(a, b) for a, b in zip(rows[:-1], values[:-1], strict=True)]
    lead = tuple(d for d in out if d is not None)
    if len(lead) != len(out):
        raise OpError(
            f"values {format_shape(values)} and sorted_sequence {format_shape(rows)} differ in "
            "front of the last axis",
            code="E302",
            port=1,
        )
    return (*lead, values[-1])


def _search(row: Array, values: Array, side: Side) -> Array:
    """Return places in a row; types are compared as real numbers where they differ."""
    if row.dtype != values.dtype or row.dtype.kind not in "iuf":  # not ml_dtypes'
        row, values = row.astype(np.float64), values.astype(np.float64)
    return np.asarray(np.searchsorted(row, values, side))
