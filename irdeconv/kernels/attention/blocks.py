"""Scaled dot-product attention in blocks of queries, so that never all scores exist at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class Attention:
    """softmax(q k^T scale + bias) v, over matrices; `sink` competes for the weights.

    query [*B, L, E], key [*B, S, E], value [*B, S, V] and bias [*B, L, S] broadcast over the batch
    axes B, sink is [*B, L or 1, 1]; all are of one type, f32 or f64. Under `causal` query i sees
    the keys up to i. A row without any key gives zeros where there are no keys, NaN where all are
    masked.
    """

    scale: float | None = None
    causal: bool = False

    def run(
        self,
        inputs: tuple[Array, Array, Array],
        bias: Array | None,
        sink: Array | None,
        out: Array,
        team: Team,
    ) -> None:
        """Write into `out [*B, L, V]`, which is contiguous."""
        query, key, value = inputs
        batch, length = out.shape[:-2], out.shape[-2]
        count = key.shape[-2]
        factor = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        rows = max(1, blocking.SIZES.attention_elements // max(1, count))
        views = [_spread(x, batch) for x in (query, key, value)]
        more = [None if x is None else _spread(x, batch) for x in (bias, sink)]

        def work(item: tuple[tuple[int, ...], slice], space: Space) -> None:
            at, part = item
            q, k, v = (x[at] for x in views)
            bias_here, sink_here = (None if x is None else x[at] for x in more)
            weights = space.array((part.stop - part.start, count), out.dtype)
            np.matmul(q[part] * out.dtype.type(factor), k.T, out=weights)
            if bias_here is not None:
                weights += bias_here[part] if len(bias_here) > 1 else bias_here
            if self.causal:
                hidden = np.arange(count) > np.arange(part.start, part.stop)[:, None]
                weights[hidden] = -np.inf
            if sink_here is not None:
                sink_here = sink_here[part] if len(sink_here) > 1 else sink_here
            _softmax(weights, sink_here)
            np.matmul(weights, v, out=out[at][part])

        blocks = [(at, p) for at in np.ndindex(*batch) for p in pieces(length, rows)]
        team.each(blocks, work)


def _spread(x: Array, batch: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, (*batch, *x.shape[-2:]))


def _softmax(x: Array, sink: Any) -> None:
    """Replace rows by their softmax; a sink is one more score, whose weight is dropped."""
    top = x.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink)
    np.subtract(x, top, out=x)
    np.exp(x, out=x)
    total = x.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - top)
    np.divide(x, total, out=x)
