"""Element types of the IR: names, port precisions, bit widths, NumPy containers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool", "string"]


@dataclass(frozen=True, repr=False)
class ElementType:
    """One element type.

    `name` is the IR spelling (`f32`), `precision` the one of ports (`FP32`), `bits` the size in a
    `.bin` file (0 for strings), `container` the NumPy type that holds one unpacked element. u1 to
    u6 live in uint8, i4 in int8, nf4 as its float32 values.
    """

    name: str
    precision: str
    bits: int
    container: np.dtype[Any]
    kind: Kind

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def is_real(self) -> bool:
        """Whether the values are floating-point."""
        return self.kind == "float"

    @property
    def is_integral(self) -> bool:
        """Whether the values are integers (boolean is not)."""
        return self.kind in ("int", "uint")

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte."""
        return 0 < self.bits < 8

    def nbytes(self, elements: int) -> int:
        """Return the bytes of `elements` values in a `.bin` file (not for strings)."""
        if self.name == "u3":
            return 3 * -(-elements // 8)
        if self.name == "u6":
            return 3 * -(-elements // 4)
        return -(-elements * self.bits // 8)


_ROWS: tuple[tuple[str, str, int, Any, Kind], ...] = (
    ("f64", "FP64", 64, np.float64, "float"),
    ("f32", "FP32", 32, np.float32, "float"),
    ("f16", "FP16", 16, np.float16, "float"),
    ("bf16", "BF16", 16, ml_dtypes.bfloat16, "float"),
    ("f8e4m3", "F8E4M3", 8, ml_dtypes.float8_e4m3fn, "float"),
    ("f8e5m2", "F8E5M2", 8, ml_dtypes.float8_e5m2, "float"),
    ("f8e8m0", "F8E8M0", 8, ml_dtypes.float8_e8m0fnu, "float"),
    ("f4e2m1", "F4E2M1", 4, ml_dtypes.float4_e2m1fn, "float"),
    ("nf4", "NF4", 4, np.float32, "float"),
    ("i64", "I64", 64, np.int64, "int"),
    ("i32", "I32", 32, np.int32, "int"),
    ("i16", "I16", 16, np.int16, "int"),
    ("i8", "I8", 8, np.int8, "int"),
    ("i4", "I4", 4, np.int8, "int"),
    ("u64", "U64", 64, np.uint64, "uint"),
    ("u32", "U32", 32, np.uint32, "uint"),
    ("u16", "U16", 16, np.uint16, "uint"),
    ("u8", "U8", 8, np.uint8, "uint"),
    ("u6", "U6", 6, np.uint8, "uint"),
    ("u4", "U4", 4, np.uint8, "uint"),
    ("u3", "U3", 3, np.uint8, "uint"),
    ("u2", "U2", 2, np.uint8, "uint"),
    ("u1", "BIN", 1, np.uint8, "uint"),
    ("boolean", "BOOL", 8, np.bool_, "bool"),
    ("string", "STRING", 0, np.object_, "string"),
)
ELEMENT_TYPES: dict[str, ElementType] = {
    name: ElementType(name, precision, bits, np.dtype(container), kind)
    for name, precision, bits, container, kind in _ROWS
}
BY_PRECISION: dict[str, ElementType] = {t.precision: t for t in ELEMENT_TYPES.values()}
# Spellings that OpenVINO also reads.
BY_PRECISION |= {"BOOLEAN": ELEMENT_TYPES["boolean"], "U1": ELEMENT_TYPES["u1"]}

f64, f32, f16, bf16 = (ELEMENT_TYPES[n] for n in ("f64", "f32", "f16", "bf16"))
i64, i32, i8, u8 = (ELEMENT_TYPES[n] for n in ("i64", "i32", "i8", "u8"))
boolean, string = ELEMENT_TYPES["boolean"], ELEMENT_TYPES["string"]


@lru_cache(maxsize=64)
def of_numpy(dtype: np.dtype[Any]) -> ElementType:
    """Return the element type whose container is `dtype`; the plain one of several.

    Raises TypeError for a NumPy type that no element type uses.
    """
    preferred = {"float32": "f32", "int8": "i8", "uint8": "u8", "object": "string"}
    if dtype.name in preferred:
        return ELEMENT_TYPES[preferred[dtype.name]]
    if dtype.kind in "UST":
        return string
    for t in ELEMENT_TYPES.values():
        if t.container == dtype:
            return t
    raise TypeError(f"no element type is stored as {dtype}")


def low_bits(values: np.ndarray[Any, Any], dtype: ElementType) -> np.ndarray[Any, Any]:
    """Return integers as a type of less than a byte stores them; values of other types unchanged.

    Its container has room for more: 7 + 1 is -8 in i4.
    """
    if not dtype.is_packed or not dtype.is_integral or values.dtype.kind not in "iu":
        return values
    low: np.ndarray[Any, Any] = values & np.array((1 << dtype.bits) - 1, values.dtype)
    if dtype.kind == "int":
        sign = 1 << (dtype.bits - 1)
        low = ((low ^ sign) - sign).astype(dtype.container)
    return low
