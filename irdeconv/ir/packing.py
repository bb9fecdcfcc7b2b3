"""Bytes of a `.bin` file to arrays and back, every element type.  [semantics: IR file format]

Layouts of the types below a byte, element 0 first:

    u1        most significant bit first
    u2        least significant pair first
    u4 i4 nf4 f4e2m1   low nibble first
    u3        8 elements in 3 bytes: two bytes of low pairs, high pair first, then one byte of the
              third bits, most significant first
    u6        4 elements in 3 bytes: two bytes of low nibbles, high nibble first, then one byte of
              the upper pairs, most significant first
    string    i32 count, count + 1 i32 offsets, the UTF-8 bytes
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.spec import Array

Bytes = NDArray[Any]  # of uint8; NumPy's stubs widen the results of shifts

NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
)  # fmt: skip


def decode(raw: bytes | memoryview, dtype: ElementType, shape: Sequence[int]) -> Array:
    """Return the values in the type's container, read-only; a view if a byte is one element.

    Raises ValueError if the bytes do not fit the shape or a string tensor is malformed.
    """
    shape = tuple(map(int, shape))
    count = math.prod(shape)
    if dtype.kind == "string":
        return _read_only(_strings(raw, count), shape)
    need = dtype.nbytes(count)
    # Writers store a zero-element constant as one byte.
    if len(raw) != need and not (count == 0 and len(raw) == 1):
        raise ValueError(f"{count} elements of {dtype} take {need} bytes, there are {len(raw)}")
    if dtype.is_packed:
        return _read_only(_unpack(np.frombuffer(raw, np.uint8), dtype, count), shape)
    array = np.frombuffer(raw, dtype.container, count)
    if dtype.kind == "bool" and array.view(np.uint8).max(initial=0) > 1:
        array = array.view(np.uint8) != 0
    return _read_only(array, shape)


def encode(array: Array, dtype: ElementType) -> bytes:
    """Return the bytes of an array as a `.bin` file holds them; `decode` gives it back.

    Raises ValueError if a value does not fit a type of less than a byte.
    """
    if dtype.kind == "string":
        return _encode_strings(np.asarray(array, object))
    values = np.ascontiguousarray(array, dtype.container)
    return _pack(values.reshape(-1), dtype) if dtype.is_packed else values.tobytes()


def _read_only(array: Array, shape: tuple[int, ...]) -> Array:
    view = array.reshape(shape)
    view.flags.writeable = False
    return view


def _unpack(raw: Bytes, dtype: ElementType, count: int) -> Array:
    codes: Bytes = _UNPACK[dtype.name](raw)[:count]
    if dtype.name == "i4":
        signed: Array = (codes ^ 8).astype(np.int8) - np.int8(8)
        return signed
    out: Array = NF4[codes] if dtype.name == "nf4" else codes.view(dtype.container)
    return out


def _pack(values: Array, dtype: ElementType) -> bytes:
    codes = _codes(values, dtype)
    group = {"u3": 8, "u6": 4}.get(dtype.name, 8 // dtype.bits)
    padded: Bytes = np.zeros(-(-len(codes) // group) * group, np.uint8)
    padded[: len(codes)] = codes
    packed: Array = _PACK[dtype.name](padded)
    return packed.tobytes()


def _codes(values: Array, dtype: ElementType) -> Bytes:
    if dtype.name == "nf4":
        nearest: Bytes = np.searchsorted((NF4[1:] + NF4[:-1]) / 2, values).astype(np.uint8)
        return nearest
    if dtype.name == "f4e2m1":
        bits: Bytes = values.view(np.uint8) & 0xF
        return bits
    low, high = (-8, 7) if dtype.name == "i4" else (0, 2**dtype.bits - 1)
    if values.size and (values.min() < low or values.max() > high):
        worst = values.min() if values.min() < low else values.max()
        raise ValueError(f"{worst} does not fit {dtype} ({low}..{high})")
    codes: Bytes = values.view(np.uint8) & (2**dtype.bits - 1)
    return codes


def _columns(*columns: Bytes) -> Bytes:
    return np.stack(columns, axis=1).reshape(-1)


def _bits(low: int) -> Array:
    """Return the place of each element's bits, the highest first, in a group of three bytes.

    Two bytes have `low` bits of each element, the third one has half as many above them.
    """
    places = np.arange(16).reshape(-1, low), np.arange(16, 24).reshape(-1, low // 2)
    return np.hstack(places[::-1])


def _unpack_split(raw: Bytes, low: int) -> Bytes:
    bits: Bytes = np.unpackbits(raw).reshape(-1, 24)[:, _bits(low)]
    codes: Bytes = np.packbits(bits, axis=-1).reshape(-1) >> (8 - bits.shape[-1])
    return codes


def _pack_split(v: Bytes, low: int) -> Bytes:
    bits = np.unpackbits(v[:, None], axis=1)[:, -_bits(low).shape[-1] :].reshape(-1, 24)
    return np.packbits(bits[:, np.argsort(_bits(low).reshape(-1))])


_NIBBLES = ("u4", "i4", "nf4", "f4e2m1")
_UNPACK: dict[str, Any] = dict.fromkeys(_NIBBLES, lambda raw: _columns(raw & 0xF, raw >> 4)) | {
    "u1": np.unpackbits,
    "u2": lambda raw: _columns(raw & 3, raw >> 2 & 3, raw >> 4 & 3, raw >> 6),
    "u3": lambda raw: _unpack_split(raw, 2),
    "u6": lambda raw: _unpack_split(raw, 4),
}
_PACK: dict[str, Any] = dict.fromkeys(_NIBBLES, lambda v: v[0::2] | v[1::2] << 4) | {
    "u1": np.packbits,
    "u2": lambda v: v[0::4] | v[1::4] << 2 | v[2::4] << 4 | v[3::4] << 6,
    "u3": lambda v: _pack_split(v, 2),
    "u6": lambda v: _pack_split(v, 4),
}


def _strings(raw: bytes | memoryview, count: int) -> Array:
    out: Array = np.empty(count, object)
    if count == 0 and len(raw) < 4:
        return out
    offsets, text = _string_table(raw, count)
    for i in range(count):
        part = bytes(text[offsets[i] : offsets[i + 1]])
        try:
            out[i] = part.decode()
        except UnicodeDecodeError as e:
            raise ValueError(
                f"string {i} is not UTF-8: byte 0x{part[e.start]:02x} at {e.start}"
            ) from None
    return out


def _string_table(raw: bytes | memoryview, count: int) -> tuple[list[int], memoryview]:
    if len(raw) < 4:
        raise ValueError(f"a string tensor starts with a 4-byte count, there are {len(raw)} bytes")
    stored = int.from_bytes(raw[:4], "little", signed=True)
    if stored < 0:
        raise ValueError(f"the string count is negative: {stored}")
    header = 4 * (stored + 2)
    if header > len(raw):
        takes = f"the header of {stored} strings takes {header} bytes"
        raise ValueError(f"{takes}, there are {len(raw)}")
    if stored != count:
        raise ValueError(f"the tensor holds {stored} strings, its shape wants {count}")
    offsets = np.frombuffer(raw, "<i4", stored + 1, 4).astype(np.int64)
    if offsets[0] < 0:
        raise ValueError(f"string offset 0 is negative: {offsets[0]}")
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"string {i} ends at {offsets[i + 1]}, before it begins at {offsets[i]}")
    if offsets[-1] > len(raw) - header:
        size = len(raw) - header
        raise ValueError(f"the strings end at {offsets[-1]}, there are {size} bytes of text")
    return offsets.tolist(), memoryview(raw)[header:]


def _encode_strings(array: Array) -> bytes:
    texts = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1)]
    ends = np.cumsum([0, *(len(t) for t in texts)])
    if ends[-1] >= 2**31:
        raise ValueError(f"{ends[-1]} bytes of text do not fit 32-bit offsets")
    return np.array([len(texts), *ends], "<i4").tobytes() + b"".join(texts)
