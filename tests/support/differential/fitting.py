"""Layers that give a value another element type and shape, so that any layer can read it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irdeconv.ir.dtypes import ElementType
from support.differential.making import Held, Making, layer


def fitted(m: Making, held: Held, dtype: ElementType, shape: Sequence[int]) -> Held | None:
    """Return the value as this type and shape, through as few layers as that takes."""
    out: Held | None = held
    if held.dtype is not dtype:
        out = _converted(m, held, dtype)
    if out is None or out.array.shape == tuple(shape):
        return out
    return _reshaped(m, out, tuple(shape))


def _converted(m: Making, held: Held, dtype: ElementType) -> Held | None:
    if not _holds(dtype, held):
        return None
    made = m.add(layer("Convert", 1, destination_type=dtype), [held])
    return made[0] if made else None


def _holds(dtype: ElementType, held: Held) -> bool:
    """Whether the type has room for the values; the conversion of others is a known difference."""
    if held.dtype.kind == "string" or dtype.kind not in ("float", "int", "uint", "bool"):
        return False
    if dtype.is_packed or not held.array.size or held.dtype.kind == "bool":
        return not dtype.is_packed
    if dtype.is_real or dtype.kind == "bool":
        return True
    low = -(2.0 ** (dtype.bits - 1)) if dtype.kind == "int" else 0.0
    wide = held.array.astype(np.float64)
    room = min(2.0 ** (dtype.bits - 1), 2.0**24)
    return bool(np.all(np.isfinite(wide)) and wide.min() >= max(low, -room) and wide.max() < room)


def _reshaped(m: Making, held: Held, shape: tuple[int, ...]) -> Held | None:
    size, wanted = held.array.size, math.prod(shape)
    out: list[Held] | None = [held]
    if size != wanted:
        if not size or not wanted:
            return None
        out = m.add(layer("Reshape", 1, special_zero=False), [held, m.constant([-1])])
        if out and size < wanted:
            out = m.add(layer("Tile", 1), [out[0], m.constant([-(-wanted // size)])])
        if out and out[0].array.size != wanted:
            ends = [m.constant([v]) for v in (0, wanted, 1, 0)]
            out = m.add(layer("Slice", 8), [out[0], *ends])
    if not out or out[0].array.shape == shape:
        return out[0] if out else None
    out = m.add(layer("Reshape", 1, special_zero=False), [out[0], m.constant(shape)])
    return out[0] if out else None
