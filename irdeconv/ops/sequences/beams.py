"""GatherTree: whole sequences out of a beam search."""

from __future__ import annotations

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import axis_sizes, one_type, want_shapes, want_type
from irdeconv.spec import Array, Spec
from irdeconv.traits import JUMPS

NAMES = ("step_ids", "parent_idx", "max_seq_len", "end_token")


@op("GatherTree", since=1)
class GatherTree(Op):
    """Follow parents from the last step: step_ids, parent_idx (T, N, B) -> sequences (T, N, B).

    Beam b of batch n ends at the step `max_seq_len` (N,) of it, or T; its token at a step is that
    of the beam to which parent_idx leads from the step behind. From the first end_token (a scalar)
    on, and behind the end, all are end_token. Numbers of one type.  [movement/GatherTree-1]
    """

    rounding = JUMPS

    def infer(self, step_ids: Spec, parent_idx: Spec, max_seq_len: Spec, end_token: Spec) -> Spec:
        given = (step_ids, parent_idx, max_seq_len, end_token)
        want_type(step_ids, "number", 0, "step_ids")
        dtype = one_type(*given, names=NAMES)
        at = axis_sizes(given, NAMES, ("TNB", "TNB", "N", ""))
        return Spec(dtype, (at["T"], at["N"], at["B"]))

    def evaluate(
        self, step_ids: Array, parent_idx: Array, max_seq_len: Array, end_token: Array
    ) -> Array:
        want_shapes(self, step_ids, parent_idx, max_seq_len, end_token)
        steps, batch, beams = step_ids.shape
        lengths = np.minimum(max_seq_len.astype(np.int64), steps)[:, None]
        out = np.full_like(step_ids, end_token)
        rows = np.arange(batch)[:, None]
        beam = np.broadcast_to(np.arange(beams), (batch, beams))
        for t in range(steps - 1, -1, -1):
            active = t < lengths
            bad = active & ((beam < 0) | (beam >= beams))
            if bad.any():
                text = f"a parent at step {t + 1} is {beam[bad][0]}; there are {beams} beams"
                raise OpError(text, code="E305", port=1)
            at = np.where(active, beam, 0)
            out[t] = np.where(active, step_ids[t, rows, at], end_token)
            beam = np.where(active, parent_idx[t, rows, at].astype(np.int64), beam)
        ended = np.logical_or.accumulate(out == end_token, 0)
        return np.where(ended, end_token, out).astype(step_ids.dtype)
