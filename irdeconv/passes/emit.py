"""What all lowering forms emit: pads, and convolutions of stride 1 without padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.geometry import IntVector, Vector
from irdeconv.op import Builder
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.slicing import Slice
from irdeconv.ops.vectors import materialize
from irdeconv.spec import is_static


def pad_spatial(b: Builder[Any], x: Any, begin: Vector, end: Vector) -> Any:
    """Pad (negative: crop) the spatial axes of (N, C, *I) with zeros."""
    return pad_axes(b, x, begin, end, 2)


def pad_axes(b: Builder[Any], x: Any, begin: Vector, end: Vector, first: int) -> Any:
    """Pad (negative: crop) the axes from `first` on with zeros; nothing where all pads are 0."""
    if all(isinstance(v, IntVector) and not any(v.values) for v in (begin, end)):
        return x
    pads = (joined(b, IntVector((0,) * first), v) for v in (begin, end))
    return b.add(Pad12("constant"), x, *pads)


def joined(b: Builder[Any], *parts: Vector) -> Any:
    """Return vectors behind one another as one i64 value."""
    if all(isinstance(p, IntVector) for p in parts):
        return b.const(np.array([v for p in parts for v in p.values], np.int64))  # type: ignore[attr-defined]
    return b.add(Concat(0), *(materialize(b, p) for p in parts))


def flip(b: Builder[Any], w: Any, axes: int) -> Any:
    """Reverse the spatial axes of a grouped filter (g, C/g, M/g, *K)."""
    shape = b.spec(w).shape
    reverse = [a for a in range(3, 3 + axes) if shape is None or shape[a] != 1]
    if not reverse:
        return w
    start, step = np.full(len(reverse), -1), np.full(len(reverse), -1)
    stop = np.full(len(reverse), np.iinfo(np.int64).min)
    return b.add(
        Slice(), w, *(b.const(v.astype(np.int64)) for v in (start, stop, step, np.array(reverse)))
    )


def convolve(b: Builder[Any], x: Any, flipped: Any, dilations: tuple[int, ...]) -> Any:
    """Convolve with a flipped filter (g, C/g, M/g, *K), its channel axes swapped."""
    order = np.array((0, 2, 1, *range(3, 3 + len(dilations))), np.int64)
    return emit_convolution(b, x, b.add(Transpose(), flipped, b.const(order)), dilations)


def emit_convolution(b: Builder[Any], x: Any, w: Any, dilations: tuple[int, ...]) -> Any:
    """Add the convolution with a filter (g, M/g, C/g, *K): a plain one for one group."""
    axes = len(dilations)
    shape, size = b.spec(w).shape, b.spec(x).shape
    ones, zeros = (1,) * axes, (0,) * axes
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, (shape or ())[3:], strict=False))
    # What the source layer asked for is legal here: an output of size 0, a fourth spatial axis.
    known = zip((size or ())[2:], reach if is_static(reach) else (), strict=False)
    empty = any(isinstance(n, int) and n < r for n, r in known)
    beyond = empty or axes > 3
    if shape is None or shape[0] != 1:
        return b.add(GroupConvolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)
    w = b.add(Squeeze1(), w, b.const(np.array([0], np.int64)))
    return b.add(Convolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)
