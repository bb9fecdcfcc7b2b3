"""ScaledDotProductAttention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.op import Bound, Op, op
from irdeconv.ir.ports import Fit, want_rank
from irdeconv.ir.spec import (
    Array,
    Dim,
    Shape,
    Spec,
    broadcasts_into,
    format_shape,
    is_static,
    merge,
)
from irdeconv.kernels.attention import Attention
from irdeconv.kernels.recorded_calls import Repeated
from irdeconv.kernels.threads import Threads
from irdeconv.ops.checks import inferred_shape, is_computed, joint_shape

_NAMES = ("query", "key", "value", "attention_mask", "scale", "sink")


def _agree(wanted: Dim, found: Dim, what: str) -> None:
    """Require the mask to have a size that other inputs have as well, or 1."""
    if merge(wanted, found) is None and merge(found, 1) is None:
        text = f"attention_mask has {found} {what}, the inputs before it have {wanted}"
        raise OpError(text, code="E302", port=3)


def _joint_batch(batch: Shape | None, more: Shape | None, port: int) -> Shape | None:
    return joint_shape(batch, more, f"{_NAMES[port]} has batch axes {format_shape(more)}", port)


@op("ScaledDotProductAttention", since=13)
class ScaledDotProductAttention(Op):
    """softmax(query key^T scale + mask) value, matrices of at least one batch axis that broadcast.

    query (.., L, E), key (.., S, E), value (.., S, V) -> (.., L, V), one floating-point type. A
    mask (.., L or 1, S or 1) is added to the scores. A boolean mask is true for visible keys. A
    scalar is no mask. `scale`, one value, is 1 / sqrt(E) by default. Under `causal` query i sees
    keys 0 to i, and the mask is ignored. A sink (.., L or 1, 1) is one more score; its weight is
    multiplied by no value. A query that sees no key gives NaN.
    [sequence/ScaledDotProductAttention-13]
    """

    signature = (
        "query: real t [?, *Q, L, E]; key: t [?, *K, S, E]; value: t [?, *V, S, W]; "
        "attention_mask?: any; scale?: t; sink?: t -> t [*B, L, W]"
    )
    causal: bool

    def complete(self, at: Fit, *inputs: Spec | None) -> None:
        mask, scale, sink = (*inputs[3:], None, None, None)[:3]
        if mask is not None and mask.shape and not self.causal:
            want_rank(mask.shape, 2, None, 3, "attention_mask")
        if scale is not None and scale.size not in (None, 1):
            text = f"scale has {scale.size} values; it must have one"
            raise OpError(text, code="E302", port=4)
        batch: Shape | None = ()
        for port, spec in enumerate(inputs[:3]):
            shape = None if spec is None else spec.shape
            batch = _joint_batch(batch, None if shape is None else shape[:-2], port)
        if mask is not None and not self.causal:
            if mask.shape is None:
                return
            if mask.shape:
                batch = _joint_batch(batch, mask.shape[:-2], 3)
                _agree(at["L"], mask.shape[-2], "queries")
                _agree(at["S"], mask.shape[-1], "keys")
        if batch is not None and sink is not None and sink.shape is not None:
            scores = (*batch, at["L"], 1)  # of one key
            if not broadcasts_into(sink.shape, scores):
                text = f"sink {format_shape(sink.shape)} does not broadcast to "
                raise OpError(text + format_shape(scores), code="E302", port=5)
        at.groups["B"] = batch

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        mask = inputs[3].dtype if len(inputs) > 3 and inputs[3] is not None else None
        kind = "any" if mask is None or mask.kind == "bool" else "t"
        return self.signature.replace("attention_mask?: any", f"attention_mask?: {kind}")

    def evaluate(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        kind = np.float64 if dtype == np.float64 else np.float32
        out = np.empty(inferred_shape(self, *inputs), kind)
        arrays = tuple(x.astype(kind, copy=False) for x in inputs[:3])
        self._compute(arrays, inputs[3:], out, Threads())
        return out.astype(dtype, copy=False)

    def _compute(self, arrays: Any, more: Sequence[Array | None], out: Array, team: Any) -> None:
        mask, scale, sink = (*more, None, None, None)[:3]
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
        return Bound(_AttentionCall(self)) if is_computed(*inputs[:3]) else None

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[0].shape[-1] + inputs[1].shape[-2])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        query, key, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
        if not is_static(query) or not is_static(key) or not is_static(out):
            return None
        return math.prod(out[:-1]) * key[-2] * (query[-1] + out[-1])


@dataclass(frozen=True)
class _AttentionCall:
    op: ScaledDotProductAttention

    def __call__(self, *arrays: Array, out: Array, team: Any) -> None:
        self.op._compute(arrays[:3], arrays[3:], out, team)

    def fixed(self, *arrays: Array, out: Array) -> Repeated | None:
        if len(arrays) > 3:
            return None
        query, key, value = arrays
        return Attention(None, self.op.causal).fixed(query, key, value, out)
