"""Interpolate by whole factors: which axes it enlarges, and which element each output takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.proof.call import Call
from irdeconv.proof.model import TypedArray

MOST_RESIZED = 1 << 19  # elements of an axis; OpenVINO computes places in f32


def enlarged(c: Call, rank: int, given: Sequence[TypedArray]) -> tuple[bool, list[tuple[int, Any]]]:
    """Return whether the axes are given scales, and the axes with their scales or sizes."""
    old, ported = c.opset < 4, 4 <= c.opset < 11
    odd = (old and c.word("align_corners")) or any(c.ints("pads_begin") + c.ints("pads_end"))
    c.need(c.word("mode", "nearest") and not odd, "pads or aligned corners")
    scales = not old and c.word("shape_calculation_mode", "sizes", "scales") == "scales"
    target, rest = given[1 if ported and scales else 0], given[2 if ported else 1 :]
    chosen = sorted(c.ints("axes")) if old else c.vector(rest[0]) if rest else range(rank)
    values = target.array.tolist() if scales else c.vector(target)
    fits = (target.type == "f32") == scales and min(chosen) >= 0 and len(rest) <= (not old)
    c.need(fits, "its inputs")
    return scales, list(zip(axes_of(tuple(chosen), rank), values, strict=True))


def ahead(c: Call, f: int) -> int:
    """Return h: output o takes element floor((2*o + h) / (2*f)), or the nearest that exists."""
    if c.opset < 4:
        return 0
    where = dict.fromkeys(("half_pixel", "pytorch_half_pixel"), 1 - f)
    where |= {"asymmetric": 0, "tf_half_pixel_for_nn": 1}
    up = {"floor": 0, "simple": 0, "ceil": 2 * f - 1, "round_prefer_ceil": f}
    up["round_prefer_floor"] = f - 1
    return up[c.word("nearest_mode", *up)] + where[c.word("coordinate_transformation_mode", *where)]
