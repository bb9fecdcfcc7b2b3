"""Tensors of strings as bytes and back: StringTensorUnpack, StringTensorPack."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import i32, string, u8
from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import one_type, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, format_shape, merge_shapes
from irdeconv.traits import MOVES


@op("StringTensorUnpack", since=15)
class StringTensorUnpack(Op):
    """Take strings apart: string [*S] -> begins i32 [*S], ends i32 [*S], symbols u8 [bytes].

    String i is symbols[begins[i]:ends[i]], as UTF-8; they lie one behind the other.
    [type/StringTensorUnpack-15]
    """

    rounding = MOVES

    def infer(self, data: Spec) -> tuple[Spec, ...]:
        if data.dtype is not None and data.dtype.kind != "string":
            raise OpError(f"data is {data.dtype}; it must be string", code="E303", port=0)
        size: Dim = DYNAMIC if data.known is None else sum(map(len, _texts(data.known)))
        places = Spec(i32, data.shape)
        return places, places, Spec(u8, (size,))

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        texts = _texts(data)
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] >= 2**31:
            raise OpError(f"{ends[-1]} bytes of text do not fit i32", code="E306", port=0)
        begins, ends = (a.astype(np.int32).reshape(data.shape) for a in (ends[:-1], ends[1:]))
        return begins, ends, np.frombuffer(b"".join(texts), np.uint8)


@op("StringTensorPack", since=15)
class StringTensorPack(Op):
    """Put strings together: begins [*S], ends [*S], symbols u8 [bytes] -> string [*S].

    String i is symbols[begins[i]:ends[i]] read as UTF-8; begins, ends: i32 or i64, one type.
    [type/StringTensorPack-15]
    """

    rounding = MOVES

    def infer(self, begins: Spec, ends: Spec, symbols: Spec) -> Spec:
        names = ("begins", "ends")
        one_type(begins, ends, names=names)
        for port, (spec, name) in enumerate(zip((begins, ends), names, strict=True)):
            want_type(spec, "integer", port, name)
        want_rank(symbols.shape, 1, 1, 2, "symbols")
        if symbols.dtype not in (None, u8):
            raise OpError(f"symbols are {symbols.dtype}; they must be u8", code="E303", port=2)
        try:
            return Spec(string, merge_shapes(begins.shape, ends.shape))
        except ValueError as e:
            a, b = format_shape(begins.shape), format_shape(ends.shape)
            raise OpError(f"begins {a} and ends {b} differ: {e}", code="E302", port=1) from None

    def evaluate(self, begins: Array, ends: Array, symbols: Array) -> Array:
        text = symbols.tobytes()
        out = np.empty(begins.size, object)
        flat = zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
        for i, (begin, end) in enumerate(flat):
            if not 0 <= begin <= end <= len(text):
                where = f"string {i} lies from {begin} to {end} of {len(text)} bytes"
                raise OpError(where, code="E305", port=0 if begin < 0 else 1)
            out[i] = text[begin:end].decode(errors="replace")
        return out.reshape(begins.shape)


def _texts(data: Array) -> list[bytes]:
    return [s if isinstance(s, bytes) else str(s).encode() for s in data.reshape(-1)]
