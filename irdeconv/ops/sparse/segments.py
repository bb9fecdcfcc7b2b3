"""SegmentMax."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import want_rank, want_shapes, want_type
from irdeconv.ops.sparse.embedding import check_growing, segment_count
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, merge
from irdeconv.traits import MOVES


@op("SegmentMax", since=16)
class SegmentMax(Op):
    """Largest elements of each segment of rows: [N, *W], segment_ids [N] -> [S, *W].

    segment_ids grow; S is `num_segments` (a scalar; rows of later segments are left out) or the
    last id and one more. A segment without rows gets 0 or the lowest number, for all floating-point
    types that of f32.
    [sparse/SegmentMax-16]
    """

    rounding = MOVES
    fill_mode: Literal["zero", "lowest"] = "zero"

    def infer(self, data: Spec, segment_ids: Spec, num_segments: Spec | None = None) -> Spec:
        want_type(data, "number", 0, "data")
        want_rank(data.shape, 1, None, 0, "data")
        want_type(segment_ids, "integer", 1, "segment_ids")
        want_rank(segment_ids.shape, 1, 1, 1, "segment_ids")
        rows, given = data.shape or (DYNAMIC,), segment_ids.shape or (DYNAMIC,)
        if merge(rows[0], given[0]) is None:
            text = f"there are {given[0]} segment_ids for {rows[0]} rows"
            raise OpError(text, code="E302", port=1)
        count: Dim = DYNAMIC
        ids = segment_ids.known
        if num_segments is not None:
            count = segment_count(num_segments, 2)
        elif ids is not None:
            count = int(ids[-1]) + 1 if ids.size else 0
        return Spec(data.dtype, None if data.shape is None else (count, *data.shape[1:]))

    def evaluate(self, data: Array, segment_ids: Array, num_segments: Array | None = None) -> Array:
        want_shapes(self, data, segment_ids)
        ids = segment_ids.astype(np.int64)
        check_growing(ids, 1)
        last = int(ids[-1]) + 1 if ids.size else 0
        count = last if num_segments is None else int(num_segments.reshape(-1)[0])
        low = _lowest(data.dtype)
        out = np.full(
            (count, *data.shape[1:]), low if self.fill_mode == "lowest" else 0, data.dtype
        )
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
