"""Real results as integers, as OpenVINO's CPU rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.spec import Array

_FIRST_I32, _BEYOND_I32 = -(2.0**31), 2.0**31
_LAST_F32 = float(
    np.nextafter(np.float32(_BEYOND_I32), np.float32(0))
)  # the last f32 that fits 32 bits


def rounded(values: Array, dtype: np.dtype[Any], *, clips: bool = False) -> Array:
    """Return float32 or float64 values as integers of `dtype`: nearest, halves to even.

    They pass through 32 bits: 8-bit types then saturate, 16-bit ones keep the low bits. What 32
    bits cannot hold becomes the nearest float32 below where a function `clips`, else -2**31, as
    NaN does; of a function that clips NaN becomes 255 in u8.
    """
    whole = np.rint(values)
    if clips:
        whole = np.clip(whole, _FIRST_I32, _LAST_F32)
    lost = _LAST_F32 if clips and dtype == np.uint8 else _FIRST_I32
    fixed = np.where((whole >= _FIRST_I32) & (whole < _BEYOND_I32), whole, lost).astype(np.int64)
    return saturated(fixed, dtype)


def cut(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return real values cut towards zero as integers of `dtype`, 64-bit ones exactly.

    What 32 bits cannot hold (infinities, too) becomes the nearest that they can, NaN -2**31 (0 in 8
    bits); 8-bit types then saturate, others keep the low bits.
    """
    lost = 0.0 if dtype.itemsize == 1 else _FIRST_I32
    whole = np.where(np.isnan(values), lost, np.trunc(values))
    if dtype.itemsize < 8:
        whole = np.clip(whole, _FIRST_I32, _BEYOND_I32 - 1)
    fixed = np.where(np.isinf(whole), np.copysign(_BEYOND_I32, whole), whole)
    return saturated(fixed.astype(np.int64), dtype)


def saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return 64-bit integers in a narrower type: 8 bits saturate, others keep the low bits."""
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        values = np.clip(values, info.min, info.max)
    return values.astype(dtype)
