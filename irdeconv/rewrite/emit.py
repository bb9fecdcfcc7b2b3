"""Operations that all lowering forms emit: reshapes, transposes, pads, crops, convolutions.

Emitted tensors have at most max(4, axes of the data) axes. Emitted operations have the lowest
version that can express them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.geometry import IntVector, Vector
from irdeconv.ir.op import Builder
from irdeconv.ir.spec import is_static
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.shape import Reshape
from irdeconv.ops.slicing import Slice, StridedSlice
from irdeconv.ops.vectors import materialize

X = TypeVar("X")
FIRST_ELEMENT = np.iinfo(np.int64).min  # the stop of a backward slice that includes element 0


@dataclass(frozen=True)
class DeconvolutionInputs(Generic[X]):
    """The inputs of a core.Deconvolution, and the bias behind it.

    Data (N, C, *I), filter (g, C/g, M/g, *K), pads (one number per spatial axis, i64) and bias
    [1, M, 1, ...].
    """

    x: X
    w: X
    pads_begin: X
    pads_end: X
    bias: X | None = None


@dataclass(frozen=True)
class Option(Generic[X]):
    """One of several ways to emit the same values.

    If `fits` is false for a planner, its target cannot run the layers that `build` emits. A `spare`
    option is then built only if nothing else can be.
    """

    name: str
    build: Callable[[], X]
    fits: Callable[[Any], bool] = bool
    spare: bool = False


def needs(*operations: str) -> Callable[[Any], bool]:
    """Return a function that says whether the target of a planner has some operations."""
    return lambda b: all(map(b.target.has, operations))


@dataclass(frozen=True)
class Style:
    """Requirements of a file format or target for emitted layers.

    `max_rank` is the most axes of tensors if the data has fewer. With `own_pads` the convolution
    behind a zero-insertion pads by itself. With `pads_in_pairs` zeros are inserted by a Pad of two
    axes: OpenVINO's int8 pipeline pads a single axis of size 1 with a wrong value. DepthToSpace
    takes data of the ranks in `block_ranks`.
    """

    max_rank: int = 4
    own_pads: bool = False
    pads_in_pairs: bool = True
    block_ranks: Sequence[int] = range(3, 6)


@dataclass(frozen=True)
class RuleCall:
    """A rule that rewrites one layer into a legal graph, and its parameters."""

    rule: Callable[..., Any]
    params: tuple[Any, ...] = ()


Decision = int | RuleCall  # the number of an option, or the rule that was applied


class FormBuilder(Builder[X], Protocol[X]):
    """The builder of lowering forms."""

    style: Style

    def repeat(self, key: object, build: Callable[[], X]) -> X:
        """Return `build()`; equal keys emit the same operations apart from constants."""

    def choose(self, options: Sequence[Option[X]]) -> X:
        """Build one of several ways; the first is the default."""

    def attempt(self, layer: Any, plain: Callable[[], X]) -> X:
        """Build a layer as it is, or by a rule if it violates a condition of the target."""


def pad_spatial(b: Builder[X], x: X, begin: Vector, end: Vector, first: int = 2) -> X:
    """Pad the axes from `first` on with zeros; negative amounts crop, after the padding."""
    if not (isinstance(begin, IntVector) and isinstance(end, IntVector)):
        pads = (joined(b, IntVector((0,) * first), v) for v in (begin, end))
        return b.add(Pad12("constant"), x, *pads)
    lists = [((0,) * first + v.values) for v in (begin, end)]
    if any(p > 0 for p in (*begin.values, *end.values)):
        amounts = (joined(b, IntVector(tuple(max(p, 0) for p in v))) for v in lists)
        x = b.add(Pad1("constant"), x, *amounts)
    return crop(b, x, *([max(-p, 0) for p in v] for v in lists))


def crop(b: Builder[X], x: X, begin: Sequence[int], end: Sequence[int]) -> X:
    """Remove elements at the begin and end of every axis."""
    if not any(begin) and not any(end):
        return x
    masks = [tuple(int(p == 0) for p in v) for v in (begin, end)]
    rows = (begin, [-p for p in end], [1] * len(begin))
    op = StridedSlice(begin_mask=masks[0], end_mask=masks[1])
    return b.add(op, x, *(joined(b, IntVector(tuple(row))) for row in rows))


def exact_shape(b: Builder[X], x: X) -> tuple[int, ...]:
    """Return a shape that is known."""
    shape = b.spec(x).shape
    assert is_static(shape)
    return shape


def container_of(b: Builder[X], x: X) -> np.dtype[Any]:
    """Return the NumPy type of a value's elements; f32 if the element type is unknown."""
    dtype = b.spec(x).dtype
    return np.dtype(np.float32) if dtype is None else dtype.container


def joined(b: Builder[X], *parts: Vector) -> X:
    """Concatenate vectors into one i64 value."""
    known = [p.values for p in parts if isinstance(p, IntVector)]
    if len(known) == len(parts):
        try:
            return b.const(np.array([v for values in known for v in values], np.int64))
        except OverflowError:
            raise OpError("a size of the lowered layer does not fit 64 bits", code="E602") from None
    return b.add(Concat(0), *(materialize(b, p) for p in parts))


def transposed(b: Builder[X], x: X, order: Sequence[int]) -> X:
    """Permute the axes."""
    if list(order) == sorted(order):
        return x
    return b.add(Transpose(), x, b.const(np.array(order, np.int64)))


def reshaped(b: Builder[X], x: X, *target: Vector) -> X:
    """Reshape to the concatenated vectors; a single unknown size beside positive ones is -1."""
    rows = [v for p in target for v in (p.values if isinstance(p, IntVector) else (None,))]
    lengths = [1 if isinstance(p, IntVector) else _length(b, p) for p in target]
    if rows.count(None) == 1 and max(lengths) == 1 and 0 not in rows:
        target = (IntVector(tuple(-1 if v is None else v for v in rows)),)
    return b.add(Reshape(special_zero=False), x, joined(b, *target))


def _length(b: Builder[X], v: Any) -> int:
    shape = b.spec(v.x).shape
    return shape[0] if shape and isinstance(shape[0], int) else 2


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
    return sliced(b, w, [-1] * n, [FIRST_ELEMENT] * n, [-1] * n, reverse)


def channels_swapped(b: Builder[X], flipped: X, axes: int) -> X:
    """(g, C/g, M/g, *K) -> (g, M/g, C/g, *K)"""
    return transposed(b, flipped, (0, 2, 1, *range(3, 3 + axes)))


def add_bias(b: Builder[X], y: X, bias: X | None) -> X:
    """Add a bias [1, M, 1, ...] to (N, M, *O)."""
    return y if bias is None else b.add(Add(), y, bias)


def zeros_beside(b: Builder[X], x: X, axis: int, count: int) -> X:
    """Return zeros that can be concatenated to a value of known shape along an axis."""
    shape = exact_shape(b, x)
    return b.const(np.zeros((*shape[:axis], count, *shape[axis + 1 :]), container_of(b, x)))
