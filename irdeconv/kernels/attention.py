"""Scaled dot-product attention in blocks of queries, so that never all scores exist at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import scratch
from irdeconv.kernels.scratch import Space, pieces
from irdeconv.kernels.threads import Team


@dataclass(frozen=True)
class Attention:
    """softmax(q k^T scale + bias) v, over matrices; `sink` competes for the weights.

    query [*B, L, E], key [*B, S, E], value [*B, S, V] and bias [*B, L, S] broadcast over the batch
    axes B, sink is [*B, L or 1, 1]; all are of one type, f32 or f64. Under `causal` query i sees
    the keys up to i. A query that sees no key gives NaN.
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
        factor = 1 / math.sqrt(max(query.shape[-1], 1)) if self.scale is None else self.scale
        rows = max(1, scratch.SIZES.attention_elements // max(1, count))
        views = [_spread(x, batch) for x in (query, key, value)]
        more = [None if x is None else _spread(x, batch) for x in (bias, sink)]

        def work(item: tuple[tuple[int, ...], slice], space: Space) -> None:
            at, part = item
            seen = min(count, part.stop) if self.causal else count
            q, k, v = (x[at] for x in views)
            bias_here, sink_here = (None if x is None else _rows(x[at], part) for x in more)
            weights = space.array((part.stop - part.start, seen), out.dtype)
            np.matmul(q[part] * out.dtype.type(factor), k[:seen].T, out=weights)
            if bias_here is not None:
                np.add(weights, bias_here, out=weights)
            if self.causal:  # only the last columns are hidden from some rows
                later = np.arange(part.start, seen) > np.arange(part.start, part.stop)[:, None]
                np.putmask(weights[:, part.start :], later, -np.inf)
            total = _exponentials(weights, sink_here)
            result = out[at][part]
            np.matmul(weights, v[:seen], out=result)
            np.divide(result, total, out=result)

        blocks = [(at, p) for at in np.ndindex(*batch) for p in pieces(length, rows)]
        team.each(blocks, work)


def _spread(x: Array, batch: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, (*batch, *x.shape[-2:]))


def _rows(x: Array, part: slice) -> Array:
    return x[part] if len(x) > 1 else x


def _exponentials(x: Array, sink: Any) -> Array:
    """Replace scores by exp(score - largest); return their sums [rows, 1], a sink's included."""
    top = x.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink)
    np.subtract(x, top, out=x)
    np.exp(x, out=x)
    total: Array = x.sum(-1, keepdims=True)
    return total if sink is None else total + np.exp(sink - top)
