"""ONNX's Cast and CastLike."""

from __future__ import annotations

from irdeconv.dtypes import ELEMENT_TYPES, f32
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_quantization import limits, narrowed
from irdeconv.importers.onnx_tensors import element_type, onnx_module
from irdeconv.ops import elementwise as el
from irdeconv.ops.activation import Clamp

PLAIN = tuple(
    ELEMENT_TYPES[n]
    for n in "f64 f32 f16 bf16 i64 i32 i16 i8 i4 u64 u32 u16 u8 u4 u2 boolean".split()
)
E2M1, E8M0 = ELEMENT_TYPES["f4e2m1"], ELEMENT_TYPES["f8e8m0"]


@rule("Cast", "1 6 9 13 19 21 23 24 25 28")
@rule("CastLike", "15 19 21 23 24 25")
def cast(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Convert to the type `to`, or for CastLike that of the second input.

    Real numbers become 8-bit ones within their range (saturate=1), or infinite or NaN beyond it.
    """
    x, saturate = n[0], bool(n.integer("saturate", 1))
    mode = n.meaning("round_mode", "up", {m: m for m in ("up", "down", "nearest")})
    target = element_type(_number(n)) if n.type == "Cast" else b.dtype(n[1])
    source = b.dtype(x)
    if "string" in (source.kind, target.kind) and source != target:
        raise Refusal(f"a conversion from {source} to {target} is not covered")
    if source == target or target in PLAIN:
        return b.convert(x, target)
    wide = x if source.is_real and source.bits >= 16 else b.convert(x, f32)
    if target == E8M0:
        if not saturate:
            raise Refusal("saturate=0 for powers of two is not covered")
        return _power_of_two(b, wide, mode)
    if target == E2M1 or saturate:
        return narrowed(b, wide, target)
    return b.convert(wide, target)


def _number(n: OnnxNode) -> int:
    """Return the data type's number; version 1 has its name."""
    if n.version > 1:
        return n.integer("to")
    return int(onnx_module().TensorProto.DataType.Value(n.text("to", "FLOAT")))


def _power_of_two(b: ImportBuilder, x: Value, mode: str) -> Value:
    """Return the power of two above, below or next to x, the least one for what is not positive."""
    x = b.add(Clamp(*limits(E8M0)), b.convert(x, f32))
    near = b.convert(b.convert(x, E8M0), f32)
    if mode != "nearest":
        beside = el.Less() if mode == "up" else el.Greater()
        moved = b.add(el.Multiply(), near, b.like(2 if mode == "up" else 0.5, near))
        near = b.add(el.Select(), b.add(beside, near, x), moved, near)
    return narrowed(b, near, E8M0)
