"""Values of every element type, one by one, for what the proof's language computes with them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from irdeconv.proof.model import Layer, TypedArray
from support.live_language import NATIVE, LiveCase

REAL = "0 1 -1 0.5 -2.5 3 7.25 100 -128.5 255 300 40000 65504 0.125"
WHOLE = (0, 1, 2, 3, 7, 100, 127, 128, 200, 255, 300, 32767, 65535, 70000, 2**24 - 1, 2**24)
WHOLE += (2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
TYPES = "f32 f16 bf16 f64 i64 i32 i16 i8 u64 u32 u16 u8 boolean".split()
PAIRS = "Add Subtract Multiply Divide FloorMod Maximum Minimum Equal NotEqual Less LessEqual "
PAIRS += "Greater GreaterEqual"
UNARY = ("Negative-1", "Abs-1", "ReLU-1", "Clamp-1 min=-2 max=100")


def held(type: str) -> np.ndarray[Any, Any]:
    """Return values that a type has."""
    if type in ("u4", "i4"):
        return np.arange(16, dtype=np.uint8) if type == "u4" else np.arange(-8, 8, dtype=np.int8)
    if type == "boolean":
        return np.array([False, True])
    if type[0] in "fb":
        values = np.array(REAL.split()).astype(NATIVE.get(type, np.float32))
        bf16 = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # if f32
        return bf16 if type == "bf16" else values
    info = np.iinfo(NATIVE[type])
    signed = {v for n in WHOLE for v in (n, -n, -n - 1) if info.min <= v <= info.max}
    return np.array(sorted(signed), NATIVE[type])


def combined(layer: Layer, *types: str) -> Iterator[LiveCase]:
    """Yield a case of one element each for every combination of values."""
    for places in product(*(range(held(t).size) for t in types)):
        given = [TypedArray(held(t)[i : i + 1], t) for i, t in zip(places, types, strict=True)]
        yield LiveCase(layer, given)
