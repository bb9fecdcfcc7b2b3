"""Numbers that types of the plugin do not hold: tests on one sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from support.live_operations.conditions import (
    has,
    integers,
    is_open,
    op_of,
    types,
    values_of,
)
from support.live_operations.sample import Sample


def _wide(s: Sample) -> Any:
    """What a layer gives of the same numbers in f64, as far as these say so; else nothing."""
    kind = s.inputs[0].tensor.dtype
    inputs = [g.tensor.values.astype(np.float64) if g.tensor.dtype == kind else g.tensor.values
              for g in s.inputs]  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(op_of(s).evaluate(*inputs))
    except (TypeError, ValueError, OpError):
        return np.zeros(0)
    return found if found.dtype.kind == "f" else np.zeros(0)


def overflows(s: Sample) -> bool:
    """Whether a result leaves the type of the data."""
    limits = np.iinfo(values_of(s, 0).dtype)
    found = _wide(s)
    return bool(np.any((found < limits.min) | (found > limits.max)))


def overflows_8_bits(s: Sample) -> bool:
    return integers(s, 8) and overflows(s)


def overflows_as_a_sum(s: Sample) -> bool:
    """Whether a total of 8-bit integers leaves their range."""
    x = values_of(s, 0)
    if x.dtype not in (np.int8, np.uint8):
        return False
    axes = tuple(int(a) for a in values_of(s, 1).reshape(-1))
    totals, limits = np.sum(x, axes, dtype=np.int64), np.iinfo(x.dtype)
    return bool(np.any((totals < limits.min) | (totals > limits.max)))


def has_no_result(s: Sample) -> bool:
    """Whether a function of 8-bit integers in three or four axes is NaN somewhere."""
    if values_of(s, 0).ndim not in (3, 4) or not integers(s, 8) or len(s.inputs) > 1:
        return False
    return bool(np.any(np.isnan(_wide(s))))


def divides_unevenly(s: Sample) -> bool:
    """Whether quotients that the plugin computes in f32 are not whole, or none."""
    rounded = s.attributes.get("auto_broadcast") == "pdpd" or (integers(s, 8) and is_open(s))
    found = _wide(s)
    return rounded and integers(s, 8, 16, 32, 64) and bool(np.any(found != np.trunc(found)))


def saturates_as_open(s: Sample) -> bool:
    """Whether reals of an open shape lie beyond the 8-bit integers that they become."""
    name = s.attributes.get("destination_type") or s.inputs[-1].tensor.dtype.name
    data, target = s.inputs[0].tensor, ELEMENT_TYPES[name]
    if not (data.dtype.is_real and target.is_integral and target.bits == 8 and is_open(s)):
        return False
    whole, limits = np.trunc(data.values.astype(np.float64)), np.iinfo(target.container)
    return not bool(np.all((whole >= limits.min) & (whole <= limits.max)))


def is_beyond_f32(s: Sample) -> bool:
    """Whether a result of integers is so large that its last digits are those of an f32."""
    found = _wide(s)
    large = bool(np.any(np.abs(found) > 2**22))
    return integers(s, 16, 32, 64) and (large or (integers(s, 16) and overflows(s)))


def is_beyond_32_bits(s: Sample) -> bool:
    """Whether a wide integer that goes in or comes out needs more than the 32 bits of an i32.

    A NaN becomes the lowest i32 first.
    """
    wide = ("i64", "u64", "u32")
    if has(s, _no_i32, *wide):
        return True
    if s.attributes.get("destination_type") in wide:
        return has(s, lambda x: _no_i32(x) | np.isnan(x))
    return s.inputs[0].tensor.dtype.name in wide and bool(np.any(_no_i32(_wide(s))))


def _no_i32(values: np.ndarray) -> np.ndarray:
    return np.abs(values) >= 2**31


def leaves_f32(s: Sample) -> bool:
    """Whether a number of f64 that goes in or comes out is no finite f32."""
    if "f64" not in types(s):
        return False
    return has(s, _no_f32, "f64") or bool(np.any(_no_f32(_wide(s))))


def _no_f32(values: np.ndarray) -> np.ndarray:
    return ~(np.abs(values) <= float(np.finfo(np.float32).max))


def is_infinite(s: Sample) -> bool:
    """Whether a result is an infinity."""
    return bool(np.any(np.isinf(_wide(s))))


def clips_nan(s: Sample) -> bool:
    """Whether a cell that clips has a NaN for the result of a sum."""
    if not float(s.attributes.get("clip", 0)):
        return False
    with np.errstate(all="ignore"):
        found = op_of(s).evaluate(*(g.tensor.values for g in s.inputs))
    arrays = found if isinstance(found, tuple) else (found,)
    return any(bool(np.any(np.isnan(a.astype(np.float64)))) for a in arrays)


def multiplies_beyond_15_bits(s: Sample) -> bool:
    """Whether a product of u8 along the axes has more than 15 bits."""
    axes = tuple(int(a) for a in values_of(s, 1).reshape(-1))
    wide = values_of(s, 0).astype(np.float64)
    return types(s) >= {"u8"} and bool(np.any(np.prod(wide, axes) > 32767))
