"""Lowering forms of core.Deconvolution, as rewrite rules."""

from __future__ import annotations

from operator import lt
from typing import Any

import numpy as np

from irdeconv import geometry
from irdeconv.geometry import IntVector, Vector
from irdeconv.op import Builder
from irdeconv.ops import core
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.slicing import Slice
from irdeconv.ops.vectors import materialize, sizes, vector
from irdeconv.passes.rewrite import Rule, rewrite
from irdeconv.spec import is_static


@rewrite(core.Deconvolution)
def zero_insertion(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution -> ZeroInsertion, Pad, Convolution (filter flipped and regrouped)."""
    axes = len(op.strides)
    window = geometry.Window(vector(b, pads_begin), vector(b, pads_end))
    kernel = sizes(b, w, 3, axes)
    begin, end = geometry.zero_insertion_pads(window, kernel, IntVector(op.dilations))
    size = sizes(b, x, 2, axes)
    if isinstance(size, IntVector) and 0 in size.values:
        # Zero-insertion cannot be shorter than nothing, the scatter of S(I-1)+1 places is.
        lacking = (IntVector(op.strides) - 1) * IntVector(tuple(int(i == 0) for i in size.values))
        end = end - lacking
    if any(s != 1 for s in op.strides):
        x = b.add(core.ZeroInsertion(op.strides), x)
    x = pad_spatial(b, x, begin, end)
    return convolve(b, x, flip(b, w, axes), op.dilations)


def pad_spatial(b: Builder[Any], x: Any, begin: Vector, end: Vector) -> Any:
    """Pad (negative: crop) the spatial axes with zeros; nothing where all pads are 0."""
    if all(isinstance(v, IntVector) and not any(v.values) for v in (begin, end)):
        return x
    return b.add(Pad12("constant"), x, _with_leading_zeros(b, begin), _with_leading_zeros(b, end))


def _with_leading_zeros(b: Builder[Any], v: Vector) -> Any:
    if isinstance(v, IntVector):
        return b.const(np.array((0, 0, *v.values), np.int64))
    zeros = b.const(np.zeros(2, np.int64))
    return b.add(Concat(0), zeros, materialize(b, v))


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
    axes = len(dilations)
    order = np.array((0, 2, 1, *range(3, 3 + axes)), np.int64)
    w = b.add(Transpose(), flipped, b.const(order))
    shape, size = b.spec(w).shape, b.spec(x).shape
    ones, zeros = (1,) * axes, (0,) * axes
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, (shape or ())[3:], strict=False))
    # What the source layer asked for is legal here: an output of size 0, a fourth spatial axis.
    empty = is_static(size) and is_static(reach) and any(map(lt, size[2:], reach))
    beyond = empty or axes > 3
    if shape is None or shape[0] != 1:
        return b.add(GroupConvolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)
    w = b.add(Squeeze1(), w, b.const(np.array([0], np.int64)))
    return b.add(Convolution(ones, zeros, zeros, dilations, "explicit", beyond), x, w)


FORMS: dict[str, Rule] = {"zero-insertion": zero_insertion}
