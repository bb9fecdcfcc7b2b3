"""Products of two tensors; scaled dot-product attention.

Attention takes blocks of queries, so that never all scores exist at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.compiled import MULTIPLIED
from irdeconv.kernels.recorded_calls import (
    ProgramCode,
    Recorded,
    Repeated,
    in_turn,
    recorded_copy,
    recorded_program,
)
from irdeconv.kernels.scratch import ScratchPlan, Space, pieces
from irdeconv.kernels.threads import Team

SMALL_PRODUCTS = 1 << 17  # multiply-adds of a matrix, up to which calls of NumPy cost more

TINY_PRODUCT = 1 << 13  # multiply-adds, up to which a call of NumPy takes longer


@dataclass(frozen=True)
class MatrixProduct:
    """a b, matrices in the last two axes; `turned` ones are transposed. `known` is a constant b."""

    turned: tuple[bool, bool]
    known: Array | None = None

    def _seen(self, a: Array, b: Array) -> tuple[Array, Array]:
        left, right = self.turned
        return a.swapaxes(-1, -2) if left else a, b.swapaxes(-1, -2) if right else b

    def __call__(self, a: Array, b: Array, out: Array, team: Team) -> None:
        """Write the products into `out`."""
        a, b = self._seen(a, b)
        np.matmul(a, b, out=out)

    def fixed(self, a: Array, b: Array, out: Array) -> Repeated | None:
        """See `FixedCall`; None unless it is one tiny product."""
        a, b = self._seen(a, b if self.known is None else self.known)
        if any(x.dtype != np.float32 for x in (a, b, out)) or out.size * len(b) > TINY_PRODUCT:
            return None
        if b.ndim != 2 or a.ndim < 2 or math.prod(a.shape[:-2]) != 1 or not out.size:
            return None
        if not jit.available() or not jit.works():
            return None
        rows, matrix, parts = a.reshape(a.shape[-2:]), b, []
        if self.known is not None:
            matrix = np.array(b, order="C")
        elif not b.flags.c_contiguous:
            matrix = np.empty(b.shape, np.float32)
            parts = [recorded_copy(b, matrix)]
        parts.append(Recorded.of("row_products", rows, matrix, out.reshape(len(rows), -1)))
        return Repeated((in_turn(parts),))


@dataclass(frozen=True)
class Attention:
    """softmax(q k^T scale + bias) v, over matrices; `sink` competes for the weights.

    query [*B, L, E], key [*B, S, E], value [*B, S, V] and bias [*B, L, S] broadcast over the batch
    axes B, sink is [*B, L or 1, 1]; all are of one type, f32 or f64. Under `causal` query i sees
    the keys up to i. A query that sees no key gives NaN.
    """

    scale: float | None = None
    causal: bool = False

    def fixed(self, query: Array, key: Array, value: Array, out: Array) -> Repeated | None:
        """Return the call without a bias on these arrays; None unless matrices are small."""
        batch, (rows, count), width = out.shape[:-2], (out.shape[-2], key.shape[-2]), key.shape[-1]
        floats = all(x.dtype == np.float32 for x in (query, key, value, out))
        if self.causal or not floats or rows * count * (width + out.shape[-1]) > SMALL_PRODUCTS:
            return None
        if not out.size or not count or not jit.available() or not jit.works():
            return None
        scale = np.array(self._factor(width), np.float32)
        code = ProgramCode([(MULTIPLIED, (0, 2), 1)], [scale], 0)
        calls, (q, k, v) = [], (_spread(x, batch) for x in (query, key, value))
        for at in np.ndindex(*batch):
            plan, turned = ScratchPlan(), np.empty((width, count), np.float32)
            weights, totals = plan.array((rows, count), np.float32), plan.array((rows,), np.float32)
            last, parts = v[at], [recorded_copy(k[at].T, turned)]
            parts.append(recorded_program(code, [turned], turned))
            if not last.flags.c_contiguous:
                last = np.empty(last.shape, np.float32)
                parts.append(recorded_copy(v[at], last))
            parts += [
                Recorded.of("row_products", q[at], turned, weights),
                Recorded.of("softmax_rows", weights, weights, totals),
                Recorded.of("row_products", weights, last, out[at]),
            ]
            calls.append(in_turn(parts))
        return Repeated(tuple(calls))

    def _factor(self, width: int) -> float:
        return 1 / math.sqrt(max(width, 1)) if self.scale is None else self.scale

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
        factor = self._factor(query.shape[-1])
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
