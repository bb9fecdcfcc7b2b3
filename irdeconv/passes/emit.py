"""What all lowering forms emit: pads, and convolutions of stride 1 without padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.geometry import IntVector, Vector
from irdeconv.geometry_conv import extent
from irdeconv.op import Builder
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Reshape, Squeeze1
from irdeconv.ops.slicing import Slice
from irdeconv.ops.vectors import materialize
from irdeconv.spec import Shape, bounds

X = TypeVar("X")
DOWN_TO_0 = np.iinfo(np.int64).min  # the stop of a slice backwards that takes element 0 as well


class FormBuilder(Builder[X], Protocol[X]):
    """What lowering forms build with."""

    def repeat(self, key: object, build: Callable[[], X]) -> X:
        """Return `build()`, of which equal keys emit the same but for the numbers of constants."""


def pad_spatial(b: Builder[X], x: X, begin: Vector, end: Vector, first: int = 2) -> X:
    """Pad (negative: crop) the axes from `first` on with zeros; nothing where all pads are 0."""
    if all(isinstance(v, IntVector) and not any(v.values) for v in (begin, end)):
        return x
    pads = (joined(b, IntVector((0,) * first), v) for v in (begin, end))
    return b.add(Pad12("constant"), x, *pads)


def joined(b: Builder[X], *parts: Vector) -> X:
    """Return vectors behind one another as one i64 value."""
    known = [p.values for p in parts if isinstance(p, IntVector)]
    if len(known) == len(parts):
        try:
            return b.const(np.array([v for values in known for v in values], np.int64))
        except OverflowError:
            message = "a size of the lowered layer does not fit 64 bits"
            raise OpError(message, code="E602") from None
    return b.add(Concat(0), *(materialize(b, p) for p in parts))


def transposed(b: Builder[X], x: X, order: Sequence[int]) -> X:
    """Permute the axes."""
    return b.add(Transpose(), x, b.const(np.array(order, np.int64)))


def reshaped(b: Builder[X], x: X, *target: Vector) -> X:
    """Bring into the shape of vectors behind one another."""
    return b.add(Reshape(special_zero=False), x, joined(b, *target))


def sliced(b: Builder[X], x: X, *bounds: Sequence[int]) -> X:
    """Slice by start, stop, step, axes."""
    return b.add(Slice(), x, *(b.const(np.array(v, np.int64)) for v in bounds))


def flip(b: Builder[X], w: X, axes: int) -> X:
    """Reverse the spatial axes of a grouped filter (g, C/g, M/g, *K)."""
    shape = b.spec(w).shape
    reverse = [a for a in range(3, 3 + axes) if shape is None or shape[a] != 1]
    if not reverse:
        return w
    n = len(reverse)
    return sliced(b, w, [-1] * n, [DOWN_TO_0] * n, [-1] * n, reverse)


def convolve(b: Builder[X], x: X, flipped: X, dilations: tuple[int, ...]) -> X:
    """Convolve with a flipped filter (g, C/g, M/g, *K), its channel axes swapped."""
    order = (0, 2, 1, *range(3, 3 + len(dilations)))
    return emit_convolution(b, x, transposed(b, flipped, order), dilations)


def emit_convolution(b: Builder[X], x: X, w: X, dilations: tuple[int, ...]) -> X:
    """Add the convolution with a filter (g, M/g, C/g, *K): a plain one for one group."""
    axes = len(dilations)
    shape, size = b.spec(w).shape, b.spec(x).shape
    ones, zeros = (1,) * axes, (0,) * axes
    # What the source layer asked for is legal here: an output of size 0, a fourth spatial axis.
    beyond = axes > 3 or _may_be_empty(size, shape, dilations)
    if shape is None or shape[0] != 1:
        return b.add(GroupConvolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)
    w = b.add(Squeeze1(), w, b.const(np.array([0], np.int64)))
    return b.add(Convolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)


def _may_be_empty(size: Shape | None, filter: Shape | None, dilations: tuple[int, ...]) -> bool:
    """Whether no window of a filter (g, M/g, C/g, *K) may fit into data (N, C, *I)."""
    if size is None or filter is None:
        return True
    for i, k, d in zip(size[2:], filter[3:], dilations, strict=True):
        most = bounds(k)[1]
        if most is None or bounds(i)[0] < extent(most, d):
            return True
    return False
