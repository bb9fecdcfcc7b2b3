"""ScaledDotProductAttention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.op import Bound, Op, op
from irdeconv.ir.ports import want_rank, want_type
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Shape,
    Spec,
    broadcast,
    format_shape,
    is_static,
    merge,
)
from irdeconv.kernels.attention import Attention
from irdeconv.kernels.threads import Threads
from irdeconv.ops.checks import is_computed, one_type

_NAMES = ("query", "key", "value", "attention_mask", "scale", "sink")


def _agree(wanted: Dim, found: Dim, what: str, port: int, *, one: bool = False) -> None:
    """Require a size that other inputs have as well; with `one` 1 stands for any."""
    if merge(wanted, found) is None and not (one and merge(found, 1) is not None):
        text = f"{_NAMES[port]} has {found} {what}, the inputs before it have {wanted}"
        raise OpError(text, code="E302", port=port)


@op("ScaledDotProductAttention", since=13)
class ScaledDotProductAttention(Op):
    """softmax(query key^T scale + mask) value, matrices of at least one batch axis that broadcast.

    query (.., L, E), key (.., S, E), value (.., S, V) -> (.., L, V), one floating-point type. A
    mask (.., L or 1, S or 1) is added to the scores; a boolean one says which keys may be seen, a
    scalar stands for none. `scale`, one value, is 1 / sqrt(E) by default. Under `causal` query i
    sees keys 0 to i, whatever the mask says. A sink (.., L or 1, 1) is one more score, whose weight
    goes to no value. A query that sees no key gives NaN.
    [sequence/ScaledDotProductAttention-13]
    """

    causal: bool

    def infer(
        self,
        query: Spec,
        key: Spec,
        value: Spec,
        attention_mask: Spec | None = None,
        scale: Spec | None = None,
        sink: Spec | None = None,
    ) -> Spec:
        given = (query, key, value)
        dtype = one_type(*given, names=_NAMES)
        for port, spec in enumerate(given):
            want_type(spec, "real", port, _NAMES[port])
            want_rank(spec.shape, 3, None, port, _NAMES[port])
        self._check_more(dtype, {3: attention_mask, 4: scale, 5: sink})
        batch, length, keys, width = self._sizes(given)
        if attention_mask is not None and not self.causal:
            mask = attention_mask.shape
            if mask is None:
                return Spec(dtype, None)
            if mask:
                batch = self._batch(batch, mask[:-2], 3)
                _agree(length, mask[-2], "queries", 3, one=True)
                _agree(keys, mask[-1], "keys", 3, one=True)
        if batch is not None and sink is not None:
            self._check_sink((*batch, length, 1), sink.shape)
        return Spec(dtype, None if batch is None else (*batch, length, width))

    def _check_sink(self, scores: Shape, sink: Shape | None) -> None:
        """Require that a sink broadcasts to the scores of one key."""
        rows = () if sink is None else tuple(zip(reversed(scores), reversed(sink), strict=False))
        fits = all(merge(have, d) is not None or merge(d, 1) is not None for have, d in rows)
        if sink is not None and (len(sink) > len(scores) or not fits):
            text = f"sink {format_shape(sink)} does not broadcast to {format_shape(scores)}"
            raise OpError(text, code="E302", port=5)

    def _check_more(self, dtype: Any, more: dict[int, Spec | None]) -> None:
        for port, spec in more.items():
            if spec is None or (port == 3 and spec.dtype is not None and spec.dtype.kind == "bool"):
                continue
            names = (_NAMES[0], _NAMES[port])
            one_type(Spec(dtype, None), spec, names=names, ports=(0, port))
        mask, scale = more[3], more[4]
        if mask is not None and mask.shape and not self.causal:
            want_rank(mask.shape, 2, None, 3, "attention_mask")
        if scale is not None and scale.size not in (None, 1):
            text = f"scale has {scale.size} values; it must have one"
            raise OpError(text, code="E302", port=4)

    def _sizes(self, given: tuple[Spec, ...]) -> tuple[Shape | None, Dim, Dim, Dim]:
        """Return the batch axes, L, S and V."""
        batch: Shape | None = ()
        for port, spec in enumerate(given):
            batch = self._batch(batch, None if spec.shape is None else spec.shape[:-2], port)
        q, k, v = (s.shape or (DYNAMIC, DYNAMIC) for s in given)
        _agree(q[-1], k[-1], "columns", 1)
        _agree(k[-2], v[-2], "keys", 2)
        return batch, q[-2], k[-2], v[-1]

    def _batch(self, batch: Shape | None, more: Shape | None, port: int) -> Shape | None:
        try:
            return broadcast(batch, more)
        except ValueError as e:
            text = f"{_NAMES[port]} has batch axes {format_shape(more)}: {e}"
            raise OpError(text, code="E302", port=port) from None

    def evaluate(
        self,
        query: Array,
        key: Array,
        value: Array,
        attention_mask: Array | None = None,
        scale: Array | None = None,
        sink: Array | None = None,
    ) -> Array:
        kind = np.float64 if query.dtype == np.float64 else np.float32
        given = (query, key, value, attention_mask, scale, sink)
        specs: Any = [None if x is None else Spec.of(x, keep=False) for x in given]
        shape = self.infer(*specs).shape
        out = np.empty(tuple(map(int, shape or ())), kind)  # type: ignore[arg-type]
        arrays = tuple(x.astype(kind, copy=False) for x in (query, key, value))
        self._compute(arrays, given[3:], out, Threads())
        return out.astype(query.dtype, copy=False)

    def _compute(self, arrays: Any, more: Sequence[Array | None], out: Array, team: Any) -> None:
        mask, scale, sink = more
        bias = None
        if mask is not None and mask.ndim and not self.causal:
            bias = mask.astype(out.dtype, copy=False)
            if mask.dtype == bool:
                bias = np.where(mask, out.dtype.type(0), out.dtype.type(-np.inf))
        factor = None if scale is None else float(scale.item())
        if out.size:
            sinks = None if sink is None else sink.astype(out.dtype, copy=False)
            with np.errstate(all="ignore"):
                Attention(factor, self.causal).run(arrays, bias, sinks, out, team)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs[:3]):
            return None

        def call(*arrays: Array, out: Array, team: Any) -> None:
            more = [*arrays[3:], None, None, None][:3]
            self._compute(arrays[:3], more, out, team)

        return Bound(call)

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[0].shape[-1] + inputs[1].shape[-2])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        query, key, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
        if not is_static(query) or not is_static(key) or not is_static(out):
            return None
        return math.prod(out[:-1]) * key[-2] * (query[-1] + out[-1])
