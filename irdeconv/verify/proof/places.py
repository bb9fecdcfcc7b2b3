"""Movements that read each axis on its own: which element stands at each position, -1 for a zero.

`PLACES` has pads, slices and inserted zeros. The rules of resizing are written down in exact
fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Attributes, Ints
from irdeconv.verify.proof.definition import Unproved

NOTHING = -1  # the position of a zero
LONGEST_WALKED = 1 << 26  # elements of an axis; tensors of networks are far below
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


def ints_of(vector: Array) -> Ints:
    """Return an integer vector as Python ints."""
    return tuple(int(v) for v in vector.reshape(-1))


def axes_of(vector: Array, rank: int) -> list[int]:
    """Return axes, of which negative ones count from the end."""
    return [a % rank for a in ints_of(vector)]


def gathered(x: Array, places: Sequence[Array]) -> Array:
    """Return an array read at the given places of every axis."""
    for a, at in enumerate(places):
        if np.array_equal(at, np.arange(x.shape[a])):
            continue
        kept = at >= 0
        x = x.take(at[kept], a)
        if not kept.all():
            out = np.zeros((*x.shape[:a], at.size, *x.shape[a + 1 :]), x.dtype)
            out[(slice(None),) * a + (kept,)] = x
            x = out
    return x


def window(size: int, begin: int, end: int) -> Array:
    """Return what a padded axis reads; negative pads crop."""
    if size + begin + end < 0:
        raise ValueError(f"size {size} with pads {begin} and {end}")
    at = _positions(-begin, size + end)
    return np.where((at >= 0) & (at < size), at, NOTHING)


def _positions(first: int, stop: int) -> Array:
    """Return the positions of an axis; Unproved where they would not fit into memory."""
    if stop - first > LONGEST_WALKED:
        raise Unproved(f"an axis of {stop - first:,} elements is too long to be walked")
    return np.arange(first, stop)


def _pad(op: Attributes, shape: Ints, begin: Array, end: Array, *fill: Array) -> list[Array]:
    if op.pad_mode != "constant" or any(f.any() for f in fill):
        raise Unproved(f"a Pad of mode {op.pad_mode} does not fill with zeros")
    return [window(*row) for row in zip(shape, ints_of(begin), ints_of(end), strict=True)]


def _slice(
    op: Attributes, shape: Ints, start: Array, stop: Array, step: Array, *axes: Array
) -> list[Array]:
    places = [np.arange(n) for n in shape]
    chosen = axes_of(axes[0], len(shape)) if axes else range(start.size)
    rows = zip(chosen, *map(ints_of, (start, stop, step)), strict=True)
    for a, first, last, s in rows:
        first = max(first, -places[a].size) if s < 0 else first
        places[a] = places[a][slice(first, last, s)]
    return places


def _strided_slice(
    op: Attributes, shape: Ints, begin: Array, end: Array, *step: Array
) -> list[Array]:
    if any(map(any, (op.new_axis_mask, op.shrink_axis_mask, op.ellipsis_mask))):
        raise Unproved("a StridedSlice that adds or removes axes is not followed")
    places = [np.arange(n) for n in shape]
    steps = step[0] if step else np.ones_like(begin)
    rows = zip(*map(ints_of, (begin, end, steps)), strict=True)
    for a, (b, e, s) in enumerate(rows):
        first = None if a < len(op.begin_mask) and op.begin_mask[a] else b
        last = None if a < len(op.end_mask) and op.end_mask[a] else e
        places[a] = places[a][slice(first, last, s)]
    return places


def _zero_insertion(op: Attributes, shape: Ints) -> list[Array]:
    places = [np.arange(n) for n in shape[:2]]
    for n, s in zip(shape[2:], op.strides, strict=True):
        at = _positions(0, s * n if op.trailing or not n else s * (n - 1) + 1)
        places.append(np.where(at % s == 0, at // s, NOTHING))
    return places


# Each takes the attributes, the shape of the first input, and the other inputs.
PLACES: dict[str, Callable[..., list[Array]]] = {
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "ZeroInsertion": _zero_insertion,
}


def resized(
    op: Attributes, shape: Ints, inputs: int, vector: Callable[[int], Array]
) -> list[Array]:
    """Return what each axis of an Interpolate reads; `vector` gives the inputs that are used."""
    first, rank = op.versions[0], len(shape)
    scales = first != "opset1" and op.shape_calculation_mode == "scales"
    port = 2 if first == "opset4" and scales else 1
    axes_port = 3 if first == "opset4" else 2
    if first == "opset1":
        axes = sorted(op.axes)
    else:
        axes = axes_of(vector(axes_port), rank) if inputs > axes_port else list(range(rank))
    places = [np.arange(n) for n in shape]
    for a, target in zip(axes, vector(port).reshape(-1), strict=True):
        places[a] = _resize_places(op, places[a].size, float(target), scales)
    return places


def _resize_places(op: Attributes, size: int, target: float, scales: bool) -> Array:
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
