"""Operations that all lowering forms emit: reshapes, transposes, pads, crops, convolutions.

Emitted tensors have at most max(4, axes of the data) axes. Emitted operations have the lowest
version that can express them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.geometry import IntVector, Vector, extent
from irdeconv.ir.op import Builder
from irdeconv.ir.spec import DYNAMIC, Shape, bounds, is_static
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.dialect_base import materialize, permute
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat, Pad1, Pad12
from irdeconv.ops.shape import Reshape, Squeeze1
from irdeconv.ops.slicing import Slice, StridedSlice

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
    return permute(b, flipped, (0, 2, 1, *range(3, 3 + axes)))


def add_bias(b: Builder[X], y: X, bias: X | None) -> X:
    """Add a bias [1, M, 1, ...] to (N, M, *O)."""
    return y if bias is None else b.add(Add(), y, bias)


def zeros_beside(b: Builder[X], x: X, axis: int, count: int) -> X:
    """Return zeros that can be concatenated to a value of known shape along an axis."""
    shape = exact_shape(b, x)
    return b.const(np.zeros((*shape[:axis], count, *shape[axis + 1 :]), container_of(b, x)))


Ints = tuple[int, ...]
AXIS_0 = np.array([0], np.int64)


@dataclass(frozen=True)
class ConvolutionLayer(Generic[X]):
    """A convolution of data x (N, C, *I) with a filter w (g, M/g, C/g, *K) and a bias.

    The pads `begin` and `end` have one number per spatial axis; negative ones crop. The bias
    [1, M, 1, ...] is added directly behind. With `pads_apart` pads should be a Pad in front. With
    `spare_outputs` the last axis has two more than wanted. `stage` is that of the last rule that
    made it.
    """

    x: X
    w: X
    strides: Ints
    dilations: Ints
    begin: Vector
    end: Vector
    bias: X | None = None
    pads_apart: bool = False
    spare_outputs: bool = False
    stage: int = 0
    forward: ClassVar[bool] = True  # the filter has the outputs in front of the inputs

    def known_pads(self) -> tuple[Ints, Ints]:
        """Return the pads; they must be known."""
        assert isinstance(self.begin, IntVector)
        assert isinstance(self.end, IntVector)
        return self.begin.values, self.end.values

    @property
    def has_known_pads(self) -> bool:
        """Whether the pads are known."""
        return isinstance(self.begin, IntVector) and isinstance(self.end, IntVector)

    def padded(
        self, begin: Sequence[int], end: Sequence[int], **changes: Any
    ) -> ConvolutionLayer[X]:
        """Return the layer with other pads and other changes."""
        pads: dict[str, Any] = {"begin": IntVector(tuple(begin)), "end": IntVector(tuple(end))}
        return replace(self, **pads, **changes)

    def emit(self, b: FormBuilder[X]) -> X:
        """Emit it, or the result of a rule if the target cannot run it."""
        return b.attempt(self, partial(plain_convolution, b, self))


def plain_convolution(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    """Emit a convolution with its own pads, or behind a Pad, or behind a Concat with zeros."""
    if _may_have_one_output(b, layer):
        # Two more than wanted: those may be none, and a single output meets the fault as well.
        axes = len(layer.strides)
        more = IntVector((*(0,) * (axes - 1), 2 * layer.strides[-1]))
        y = plain_convolution(b, replace(layer, end=layer.end + more, spare_outputs=True))
        return crop(b, y, (0,) * (axes + 2), (*(0,) * (axes + 1), 2))
    own = Option("own pads", partial(_with_own_pads, b, layer))
    if not layer.has_known_pads:
        return _behind_pads(b, layer, pad_spatial)
    needed = any(p > 0 for p in sum(layer.known_pads(), ()))
    apart = Option("Pad", partial(_behind_pads, b, layer, pad_spatial), needs("Pad"))
    joins = Option("Concat", partial(_behind_pads, b, layer, pad_by_concat), needs("Concat"))
    others = [joins] if needed and is_static(b.spec(layer.x).shape) else []
    crops = any(p < 0 for p in sum(layer.known_pads(), ()))
    first = layer.pads_apart and not b.style.own_pads and not crops
    options = [apart, own] if first else [own, apart]
    return b.choose([*options, *others] if needed else [apart])


def _with_own_pads(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    begin, end = layer.known_pads()
    shape = b.spec(layer.x).shape or (DYNAMIC,) * (len(begin) + 2)
    rows = zip(shape[2:], begin, end, strict=True)
    apart = [min(p, q) < 0 < max(p, q) and bounds(n)[0] <= -min(p, q) for n, p, q in rows]
    # A crop may reach into the pad of the other end only if that one is written in front. OpenVINO
    # leaves outputs unwritten if nothing but pads is left.
    outside = [
        IntVector(tuple(p if a else min(p, 0) for a, p in zip(apart, v, strict=True)))
        for v in (begin, end)
    ]
    x = pad_spatial(b, layer.x, outside[0], outside[1])
    own = [
        tuple(0 if a else max(p, 0) for a, p in zip(apart, v, strict=True)) for v in (begin, end)
    ]
    return add_bias(b, emit_convolution(b, x, layer, own[0], own[1]), layer.bias)


def _behind_pads(b: FormBuilder[X], layer: ConvolutionLayer[X], pad: Callable[..., X]) -> X:
    x, zero = pad(b, layer.x, layer.begin, layer.end), (0,) * len(layer.strides)
    return add_bias(b, emit_convolution(b, x, layer, zero, zero), layer.bias)


def pad_by_concat(b: FormBuilder[X], x: X, begin: IntVector, end: IntVector) -> X:
    """Pad the spatial axes by Concats with zeros; negative amounts crop, after the padding."""
    for axis, pads in enumerate(zip(begin.values, end.values, strict=True), 2):
        front, back = ([zeros_beside(b, x, axis, p)] if p > 0 else [] for p in pads)
        if front or back:
            x = b.add(Concat(axis), *front, x, *back)
    amounts = ([0, 0, *(max(-p, 0) for p in v.values)] for v in (begin, end))
    return crop(b, x, *amounts)


def emit_convolution(
    b: FormBuilder[X], x: X, layer: ConvolutionLayer[X], begin: Ints, end: Ints
) -> X:
    """Add the convolution of x with the layer's filter: a plain one for one group."""
    w, shape, size = layer.w, b.spec(layer.w).shape, b.spec(x).shape
    axes, strides = len(layer.strides), layer.strides
    if (rest := _beyond_one_output(layer, shape, size, begin[-1] + end[-1])) is not None:
        # Of one channel, oneDNN (OpenVINO 2026.4.1) reads other elements with a stride there.
        cut = max(rest - end[-1], 0)
        x, strides = crop(b, x, (0,) * (axes + 2), (*(0,) * (axes + 1), cut)), (*strides[:-1], 1)
        end = (*end[:-1], end[-1] - rest + cut)
    # An output of size 0 and a fourth spatial axis are legal in the source layer.
    beyond = axes > 3 or _may_be_empty(size, shape, layer.dilations, (begin, end))
    grouped = shape is None or shape[0] != 1
    w = w if grouped else b.add(Squeeze1(), w, b.const(AXIS_0))
    operation = GroupConvolution if grouped else Convolution
    return b.add(operation(strides, begin, end, layer.dilations, "explicit", beyond), x, w)


def _beyond_one_output(
    layer: ConvolutionLayer[X], filter: Shape | None, size: Shape | None, pads: int
) -> int | None:
    """Return the number of elements that a stride leaves behind the last axis's only output.

    None: that is not known, there are more outputs, no stride, or several input channels.
    """
    if filter is None or size is None or (filter[0], filter[2]) != (1, 1):
        return None
    if not isinstance(size[-1], int) or not isinstance(filter[-1], int):
        return None
    rest = size[-1] + pads - extent(filter[-1], layer.dilations[-1])
    return rest if 0 <= rest < layer.strides[-1] != 1 else None


def _may_have_one_output(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> bool:
    """Whether a convolution of one channel may have a single output on its last axis at some size.

    oneDNN may compute that wrongly, see `emit_convolution`, which handles axes of known size.
    """
    size, filter = b.spec(layer.x).shape, b.spec(layer.w).shape
    strided = len(layer.strides) > 1 and layer.strides[-1] > 1
    if layer.spare_outputs or not strided or filter is None or (filter[0], filter[2]) != (1, 1):
        return False
    return size is None or not (isinstance(size[-1], int) and isinstance(filter[-1], int))


def _may_be_empty(
    size: Shape | None, filter: Shape | None, dilations: Ints, pads: tuple[Ints, Ints]
) -> bool:
    """Whether a filter (g, M/g, C/g, *K) may not fit into padded data (N, C, *I)."""
    if size is None or filter is None:
        return True
    for i, k, d, p, q in zip(size[2:], filter[3:], dilations, *pads, strict=True):
        most = bounds(k)[1]
        if most is None or bounds(i)[0] + p + q < extent(most, d):
            return True
    return False
