"""Attention of com.microsoft, which ONNX Runtime's optimizer of transformers writes; no past."""

from __future__ import annotations

from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Value
from irdeconv.ops import elementwise, reduction
from irdeconv.ops.channels import VariadicSplit
from irdeconv.ops.generation import Range
from irdeconv.ops.matrix import MatMul, ScaledDotProductAttention
from irdeconv.ops.movement import Reshape
from irdeconv.ops.slicing import Slice


@rule("EmbedLayerNormalization", "1", "com.microsoft")
def embed_normalization(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Normalize the sum of the embeddings of words, positions and segments, then * gamma + beta."""
    n.accept("mask_index_type")
    ids = n[0]
    if n.input(8) is None:  # the first positions
        length = b.unsqueeze(b.size_of(ids, 1), 0)
        positions = b.add(Slice(), n[3], b.ints(0), length, b.ints(1), b.ints(0))
    else:
        positions = b.take(n[3], n[8], 0)
    total = b.plus(b.take(n[2], ids, 0), positions)
    if n.input(1) is not None:
        total = b.plus(total, b.take(n[4], n[1], 0))
    op = reduction.MVN(normalize_variance=True, eps=n.number("epsilon", 1e-12))
    y = b.mul(b.add(op, b.convert(total, f32), b.ints(-1)), b.convert(n[5], f32))
    y = b.convert(b.plus(y, b.convert(n[6], f32)), b.dtype(total))
    if not n.wants(1):
        return (y, y, total)
    mask = b.mul(ids, b.like(0, ids)) if n.input(7) is None else n[7]
    return (y, b.add(reduction.ReduceSum(keep_dims=False), mask, b.ints(1)), total)


@rule("Attention", "1", "com.microsoft")
def attention(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Attention of the parts of one product of the input (B, S, I)."""
    n.only("do_rotary", 0)
    total = b.add(MatMul(), b.convert(n[0], f32), b.convert(n[1], f32))
    total = total if n.input(2) is None else b.plus(total, b.convert(n[2], f32))
    size = b.size(n[1], -1, ": the weights")
    sizes = b.ints(*(n.ints("qkv_hidden_sizes") or [size // 3] * 3))
    parts = b.outputs(VariadicSplit(), total, b.scalar(-1), sizes)
    return _attended(n, b, parts, n.input(3), n.input(4), n.input(5))


@rule("MultiHeadAttention", "1", "com.microsoft")
def multi_head_attention(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Attention of query, key and value (B, S, H), after a bias of all."""
    if n.input(1) is None or n.input(2) is None or b.rank(n[1]) != 3:
        raise Refusal("packed or transposed keys and values are not covered")
    parts = tuple(b.convert(n[at], f32) for at in range(3))
    if n.input(3) is not None:
        sizes = b.ints(*(b.size(x, -1) for x in parts))
        biases = b.outputs(VariadicSplit(), b.convert(n[3], f32), b.scalar(0), sizes)
        parts = tuple(b.plus(x, y) for x, y in zip(parts, biases, strict=True))
    return _attended(n, b, parts, n.input(4), n.input(6), n.input(5))


def _attended(
    n: OnnxNode,
    b: ImportBuilder,
    parts: tuple[Value, ...],
    seen: Value | None,
    past: Value | None,
    bias: Value | None,
) -> Outputs:
    """softmax(Q K^T scale + mask) V for each head; `seen` is positive for visible keys."""
    if past is not None or n.wants(1):
        raise Refusal("past and present keys are not covered")
    heads = b.ints(0, 0, n.integer("num_heads"), -1)
    split = (b.add(Reshape(special_zero=True), x, heads) for x in parts)
    q, k, v = (b.permute(x, (0, 2, 1, 3)) for x in split)
    mask, causal = b.scalar(0, f32), n.flag("unidirectional", False)
    hidden = n.number("mask_filter_value", -10000.0)
    if seen is not None and b.shape(seen)[1:] != (1,):  # (B, 1) is no mask
        if causal or b.rank(seen) > 3:
            raise Refusal("a causal mask beside another one, and one of 4 axes, are not covered")
        least = b.like(0, seen)
        if b.rank(seen) == 1:  # numbers of keys
            ends = (b.scalar(0), b.size_of(k, 2), b.scalar(1))
            # Of another size it would be first and last keys: that is refused here.
            seen = b.add(Reshape(special_zero=False), seen, b.unsqueeze(b.size_of(k, 0), 0))
            least, seen = b.add(Range(b.dtype(seen)), *ends), b.unsqueeze(seen, 1)
        visible = b.add(elementwise.Greater(), seen, least)
        mask = b.select(visible, mask, b.scalar(hidden, f32))
        mask = b.unsqueeze(mask, *((1, 2) if b.rank(seen) == 2 else (1,)))
    if bias is not None:
        mask = b.plus(b.convert(bias, f32), mask)
    factor = n.number("scale", 0.0) or b.size(q, -1, ": a head") ** -0.5
    y = b.add(ScaledDotProductAttention(causal), q, k, v, mask, b.scalar(factor, f32))
    y = b.add(Reshape(special_zero=True), b.permute(y, (0, 2, 1, 3)), b.ints(0, 0, -1))
    return b.convert(y, b.dtype(n[0]))
