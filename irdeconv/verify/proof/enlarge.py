"""Nearest interpolation, repetition and joining with zeros, as positions that each axis reads.

The rule of each coordinate transformation is written down in exact fractions; a position is the
index of the element that is copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Attributes
from irdeconv.verify.proof.definition import Unproved

HALF = Fraction(1, 2)

_TRANSFORMATIONS: dict[str, Callable[[int, int], Fraction]] = {
    "half_pixel": lambda o, factor: (o + HALF) / factor - HALF,
    "pytorch_half_pixel": lambda o, factor: (o + HALF) / factor - HALF,
    "asymmetric": lambda o, factor: Fraction(o, factor),
    "tf_half_pixel_for_nn": lambda o, factor: (o + HALF) / factor,
}
_ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda p: ceil(p - HALF),
    "round_prefer_ceil": lambda p: floor(p + HALF),
    "floor": floor,
    "ceil": ceil,
    "simple": int,  # towards zero, where it enlarges
}


def resize_inputs(op: Attributes, count: int) -> tuple[int, int | None, bool]:
    """Return the ports of sizes or scales and of axes (None: an attribute), whether scales."""
    first = op.versions[0]
    if first == "opset1":
        return 1, None, False
    scales = op.shape_calculation_mode == "scales"
    if first == "opset4":
        return (2 if scales else 1), (3 if count > 3 else None), scales
    return 1, (2 if count > 2 else None), scales


def resize_axes(op: Attributes, rank: int) -> list[int]:
    """Return the axes of an Interpolate that gets none as an input."""
    return sorted(op.axes) if op.versions[0] == "opset1" else list(range(rank))


def resize_places(op: Attributes, size: int, target: float, scales: bool) -> Array:
    """Return which element stands at each position of a resized axis.

    `target` is the size or the scale. Unproved where it is no nearest enlargement by whole factors.
    """
    if op.mode != "nearest" or any(op.pads_begin) or any(op.pads_end):
        raise Unproved("an Interpolate that pads or mixes elements is not followed")
    factor = Fraction(target) if scales else Fraction(int(target), max(size, 1))
    if factor.denominator != 1 or factor < 1:
        raise Unproved(f"an Interpolate by the factor {factor} is not followed")
    whole = int(factor)
    if op.versions[0] == "opset1":
        rule, rounding = ("align_corners" if op.align_corners else "asymmetric"), "simple"
    else:
        rule, rounding = op.coordinate_transformation_mode, op.nearest_mode
    if whole == 1:
        return np.arange(size)
    if rule not in _TRANSFORMATIONS:
        raise Unproved(f"an Interpolate of {rule} is not followed")
    where, to = _TRANSFORMATIONS[rule], _ROUNDINGS[rounding]
    at = [to(where(o, whole)) for o in range(size * whole)]
    return np.clip(np.array(at, np.int64), 0, max(size - 1, 0))


def same_pads(op: Attributes, axis: int, span: int) -> tuple[int, int]:
    """Return the pads of a convolution on an axis; `span` is D(K-1). Unproved for strides."""
    if op.auto_pad == "explicit":
        begin, end = (v[axis] if v else 0 for v in (op.pads_begin, op.pads_end))
        return begin, end
    if op.auto_pad == "valid":
        return 0, 0
    if any(s != 1 for s in op.strides):
        raise Unproved(f"a convolution of strides {op.strides} and {op.auto_pad} is not followed")
    less, more = span // 2, span - span // 2
    return (less, more) if op.auto_pad == "same_upper" else (more, less)


def repeat_places(sizes: Sequence[int], target: Sequence[int]) -> list[Array]:
    """Return what each axis of a Broadcast to `target` reads; Unproved for another rank."""
    if len(sizes) != len(target):
        raise Unproved("a Broadcast to another rank is not followed")
    out = []
    for n, t in zip(sizes, target, strict=True):
        if n != 1 and t not in (1, n):
            raise Unproved(f"a Broadcast of {list(sizes)} to {list(target)}")
        out.append(np.zeros(t, np.int64) if n == 1 else np.arange(n))
    return out
