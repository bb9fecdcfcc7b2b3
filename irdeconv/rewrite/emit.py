"""Operations that all lowering forms emit, and the interleaving of residues.

Interleaving is from channels or several tensors into space; zero-insertion is with it.

Emitted tensors have at most max(4, axes of the data) axes. Emitted operations have the lowest
version that can express them.

Output o of an axis with stride S has the residue r = o mod S. DepthToSpace does it for equal
strides, in several steps for a stride that is a product. Transposes do it one axis after the
other, from the innermost on: (N, Sw, Sh, M, H, W) is viewed as [N, Sw, Sh*M*H*W], transposed,
viewed as [N, Sh, M*H, W*Sw], transposed, and is (N, M, H*Sh, W*Sw). Grouped convolutions put the
residues behind the channels: (N, M, Sh, Sw, H, W) is [N*M*Sh, Sw, H*W], then [N*M, Sh, H, W*Sw].
Concat does it on an axis of size 1 behind the axis that grows.

Zero-insertion in standard operations: two axes are spread at a time, from the innermost on, so that
four axes (five in 3-D) suffice: [N, C, H, W] becomes [N*C*H, 1, W, 1], padded [N*C*H, Sh, W, Sw],
and that [N, C, H*Sh, W*Sw].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import mul
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import i64
from irdeconv.ir.geometry import IntVector, Vector, extent
from irdeconv.ir.op import Builder
from irdeconv.ir.spec import DYNAMIC, Array, Shape, bounds, is_static
from irdeconv.ops import core
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.core import materialize, permute, sizes
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.ops.image import Interpolate4
from irdeconv.ops.movement import Concat, Pad1, Pad12, Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Slice, StridedSlice

X = TypeVar("X")
FIRST_ELEMENT = np.iinfo(np.int64).min  # the stop of a backward slice that includes element 0


@dataclass(frozen=True)
class Skip:
    """A rule's answer that it does not apply, with the reason."""

    reason: str


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
    takes data of the ranks in `block_ranks`. With `folded` no operation on constants stays for want
    of work: a device would have to run it.
    """

    max_rank: int = 4
    own_pads: bool = False
    pads_in_pairs: bool = True
    block_ranks: Sequence[int] = range(3, 6)
    folded: bool = False


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


def filled(b: Builder[X], x: X, shape: Sequence[int], value: int) -> Array:
    """Return an array of equal numbers of a value's type; bytes beyond 1 MiB count as work."""
    dtype = container_of(b, x)
    work.take(max(0, math.prod(shape) * dtype.itemsize - 2**20), "a constant that it needs")
    return np.full(shape, value, dtype)


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
    zero = np.zeros((), container_of(b, x))
    return b.const(np.broadcast_to(zero, (*shape[:axis], count, *shape[axis + 1 :])))


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


ONE = IntVector((1,))
MOST_BLOCK_STEPS = 3  # of DepthToSpace, unless the blocks are primes
LARGEST_BLOCK = 64
Mode = Literal["blocks_first", "depth_first"]


@dataclass(frozen=True)
class StackLayout:
    """The order of residues and channels in the channel axis of a stack, and its interleaving.

    `name` is the operation that interleaves. `blocks` are the sizes of successive DepthToSpace
    steps, by axis. With `residues_first` the channels are (first step, ..., last step, M), else (M,
    last step, ..., first step); with `last_axis_first` the residue of the last axis varies slowest.
    """

    name: str
    residues_first: bool
    blocks: tuple[Ints, ...]
    last_axis_first: bool = False

    @cached_property
    def residues(self) -> list[Ints]:
        """Return the residues (one per axis) in the order of the channels."""
        by, axes = -1 if self.last_axis_first else 1, len(self.blocks[0])
        behind: Array = np.ones(axes, np.int64)
        steps = []  # each block's addend to the residue, the last block first
        for block in reversed(self.blocks):
            steps.append(np.indices(block[::by]).reshape(axes, -1).T[:, ::by] * behind)
            behind = np.array(block) * behind
        out = np.zeros((1, axes), np.int64)
        for step in reversed(steps) if self.residues_first else steps:
            out = (out[:, None] + step).reshape(-1, axes)
        return [tuple(row) for row in out.tolist()]

    def interleave(self, b: FormBuilder[X], y: X, strides: Ints, outputs: Vector) -> X:
        """(N, M * R, *I) in this order -> (N, M, *(R I)); `outputs` is M."""
        if self.name == "DepthToSpace":
            mode: Mode = "blocks_first" if self.residues_first else "depth_first"
            steps = (DepthToSpace(mode, block[0]) for block in self.blocks)
            return reduce(lambda x, op: b.add(op, x), steps, y)
        sizes = _OutputSizes.of(b, y, outputs, strides)
        if self.name == "Transpose":
            return (_by_batch if self.residues_first else _by_transposes)(b, y, sizes)
        count, parts = outputs.values[0], []  # type: ignore[attr-defined]
        axes = [0] * (len(strides) + 1)
        for r in range(math.prod(strides)):
            behind = (math.prod(strides) - 1 - r) * count
            parts.append(crop(b, y, [0, r * count, *axes[1:]], [0, behind, *axes[1:]]))
        return _by_concat(b, parts, sizes)


def stack_layouts(strides: Ints, groups: int, blocks: bool) -> list[StackLayout]:
    """Return the layouts of a stack, the default first; `blocks`: DepthToSpace takes the rank.

    In a grouped stack the residues of an output channel stay beside it.
    """
    steps = list(_block_steps(strides)) if blocks else []
    layouts = [StackLayout("DepthToSpace", True, s) for s in steps if groups == 1]
    layouts += [StackLayout("DepthToSpace", False, s) for s in steps]
    if groups == 1:
        layouts.append(StackLayout("Transpose", True, (strides,), True))
        layouts.append(StackLayout("Concat", True, (strides,)))
    layouts.append(StackLayout("Transpose", False, (strides,)))
    return layouts


def interleave_parts(
    b: FormBuilder[X], parts: Sequence[X], strides: Ints, outputs: Vector, blocks: bool
) -> X:
    """Interleave one tensor (N, M, *I) per residue, in the order of the residues."""
    number = {r: i for i, r in enumerate(itertools.product(*map(range, strides)))}

    def stacked(layout: StackLayout) -> X:
        y = b.add(Concat(1), *(parts[number[r]] for r in layout.residues))
        return layout.interleave(b, y, strides, outputs)

    def by_concat() -> X:
        return _by_concat(b, parts, _OutputSizes.of(b, parts[0], outputs, strides))

    layouts = [w for w in stack_layouts(strides, 1, blocks) if w.residues_first]
    layouts = [w for w in layouts if w.name != "Concat"]
    options = [Option(w.name, partial(stacked, w), needs(w.name)) for w in layouts]
    return b.choose([*options, Option("Concat", by_concat, needs("Concat"))])


def _block_steps(strides: Ints) -> Iterator[tuple[Ints, ...]]:
    """Yield the sequences of DepthToSpace blocks that make equal strides, the shortest first."""
    if len(set(strides)) == 1 and 1 < strides[0] <= LARGEST_BLOCK:
        for count in range(1, strides[0].bit_length()):
            ways = list(_factorings(strides[0], count))
            longest = not list(_factorings(strides[0], count + 1))
            for factors in ways if count <= MOST_BLOCK_STEPS or longest else ():
                yield tuple((f,) * len(strides) for f in factors)


def _factorings(n: int, count: int) -> Iterator[Ints]:
    """Yield the ways to write n as an ordered product of `count` factors above 1."""
    if count == 1:
        yield from [(n,)] * (n > 1)
        return
    for f in range(2, n // 2 + 1):
        if n % f == 0:
            yield from ((f, *rest) for rest in _factorings(n // f, count - 1))


@dataclass
class _OutputSizes:
    """The sizes of an output on its way: N, M, and per axis the stride and the present size."""

    batch: Vector
    outputs: Vector
    strides: Ints
    size: list[Vector]

    @staticmethod
    def of(b: FormBuilder[X], y: X, outputs: Vector, strides: Ints) -> _OutputSizes:
        axes = [sizes(b, y, 2 + a, 1) for a in range(len(strides))]
        return _OutputSizes(sizes(b, y, 0, 1), outputs, strides, axes)

    def product(self, first: int, stop: int) -> list[Vector]:
        """Return the product of the sizes of some axes; nothing if there are none."""
        return [reduce(mul, self.size[first:stop])] if stop > first else []

    def grow(self, axis: int) -> None:
        self.size[axis] = self.size[axis] * self.strides[axis]


def _by_batch(b: FormBuilder[X], y: X, s: _OutputSizes) -> X:
    """(N, R_last, ..., R_first, M, *I) -> (N, M, *(R I)), one axis at a time, N in front."""
    left = [a for a, stride in enumerate(s.strides) if stride > 1]
    while left:
        axis = left.pop()
        rest = math.prod(s.strides[a] for a in left)
        inner = s.product(0, axis + 1)[0] * s.outputs * rest
        behind = s.product(axis + 1, len(s.size))
        y = reshaped(b, y, s.batch, IntVector((s.strides[axis],)), inner, *behind)
        y = permute(b, y, (0, 2, 1, *range(3, 3 + len(behind))))
        s.grow(axis)
    return reshaped(b, y, s.batch, s.outputs, *s.size)


def _by_transposes(b: FormBuilder[X], y: X, s: _OutputSizes) -> X:
    """(N, M * R, *I), residues behind channels -> (N, M, *(R I)), one or two axes at a time."""
    ways = dict.fromkeys((max(b.style.max_rank, len(s.size) + 2), 4))
    ways = ways if sum(n > 1 for n in s.strides) > 1 else dict.fromkeys([4])
    return b.choose([Option(f"{n} axes", partial(_transposed, b, y, s, n)) for n in ways])


def _transposed(b: FormBuilder[X], y: X, s: _OutputSizes, most: int) -> X:
    s = replace(s, size=list(s.size))
    left = [a for a, stride in enumerate(s.strides) if stride > 1]
    while left:
        two = len(left) > 1 and left[-1] == len(s.size) - 1 and most >= 5
        step, left = left[-1 - two :], left[: -1 - two]
        n, (first, *_, last) = len(step), (step[0], step[-1])
        lead = s.batch * s.outputs * math.prod(s.strides[a] for a in left)
        blocks = [IntVector((s.strides[a],)) for a in step]
        inner = [*s.product(0, first + 1), *s.product(first + 1, last + 1)]
        rest = s.product(last + 1, len(s.size))
        y = reshaped(b, y, lead, *blocks, *inner, *rest)
        pairs = itertools.chain.from_iterable((1 + n + i, 1 + i) for i in range(n))
        y = permute(b, y, (0, *pairs, *range(1 + 2 * n, 1 + 2 * n + len(rest))))
        for a in step:
            s.grow(a)
    return reshaped(b, y, s.batch, s.outputs, *s.size)


def _by_concat(b: FormBuilder[X], parts: Sequence[X], s: _OutputSizes) -> X:
    """One tensor (N, M, *I) per residue, in the order of the residues -> (N, M, *(R I))."""
    parts = list(parts)
    for a in reversed(range(len(s.size))):
        stride = s.strides[a]
        if stride == 1:
            continue
        behind = s.product(a + 1, len(s.size))
        target = [s.batch, s.outputs * s.product(0, a + 1)[0], ONE, *behind]
        parts = [reshaped(b, p, *target) for p in parts]
        runs = range(0, len(parts), stride)
        parts = [b.add(Concat(2), *parts[i : i + stride]) for i in runs]
        s.grow(a)
    return reshaped(b, parts[0], s.batch, s.outputs, *s.size)


def insert_zeros(b: FormBuilder[X], x: X, strides: Sequence[int]) -> X:
    """(N, C, *I) -> (N, C, *(S*I)): S-1 zeros behind every element."""
    if all(s == 1 for s in strides):
        return x
    insertion = core.ZeroInsertion(tuple(strides), trailing=True)
    pads, joins, masks = needs("Reshape", "Pad"), needs("Reshape", "Concat"), needs("Interpolate")
    options = [Option("zero-insertion", partial(b.add, insertion, x), pads)]
    if is_static(b.spec(x).shape):
        options += [
            Option("zeros by Concat", partial(_spread, b, x, strides, _concatenated), joins),
            Option("zeros by Interpolate", partial(_masked, b, x, strides), masks),
        ]
    return b.choose(options)


def spell_zero_insertion(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """ZeroInsertion -> Reshape, Pad, Reshape, and a crop unless zeros follow the last element."""
    if b.spec(x).rank is None:
        return Skip("the rank of the data is unknown")
    y = _spread(b, x, op.strides, _padded)
    surplus = IntVector(tuple(1 - s for s in op.strides))
    return y if op.trailing else pad_spatial(b, y, surplus * 0, surplus)


def spell_zero_insertion_as_before(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """Spell a trailing ZeroInsertion as version 1 files do: an axis behind each spatial one."""
    shape, axes = b.spec(x).shape, len(op.strides)
    behind = np.arange(3, 3 + 2 * axes, 2)
    apart = b.add(Unsqueeze(), x, b.const(behind.astype(np.int64)))
    end = np.zeros(2 + 2 * axes, np.int64)
    end[behind] = [s - 1 for s in op.strides]
    padded = b.add(Pad12("constant"), apart, b.const(np.zeros_like(end)), b.const(end))
    factors = np.array((1, 1, *op.strides), np.int64)
    if is_static(shape):
        target = b.const(np.array(shape, np.int64) * factors)
    else:
        target = b.add(Multiply(), b.add(ShapeOf(i64), x), b.const(factors))
    return b.add(Reshape(special_zero=False), padded, target)


def _spread(b: Builder[X], x: X, strides: Sequence[int], grow: Callable[..., X]) -> X:
    """Spread the axes, two at a time; `grow` appends zeros to axes of size 1."""
    size: list[Vector] = [sizes(b, x, a, 1) for a in range(len(strides) + 2)]
    left = [a for a, s in enumerate(strides, 2) if s > 1]
    while left:  # the innermost first
        left, step = left[:-2], left[-2:]
        cuts = (0, *(a + 1 for a in step))
        runs = (size[p:q] for p, q in itertools.pairwise(cuts))
        target = [v for run in runs for v in (reduce(mul, run), ONE)]
        target += [reduce(mul, size[cuts[-1] :])] if cuts[-1] < len(size) else []
        amounts = {2 * i + 1: strides[a - 2] - 1 for i, a in enumerate(step)}
        x = grow(b, reshaped(b, x, *target), len(target), amounts)
        for a in step:
            size[a] = size[a] * strides[a - 2]
    return reshaped(b, x, *size)


def _padded(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    if len(amounts) == 1 and b.style.pads_in_pairs:
        return _padded_in_pairs(b, x, rank, amounts)
    end = np.array([amounts.get(a, 0) for a in range(rank)], np.int64)
    return b.add(Pad1("constant"), x, b.const(np.zeros(rank, np.int64)), b.const(end))


def _padded_in_pairs(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    """Pad one axis of size 1, and another one beside it that is cropped again."""
    ((axis, count),) = amounts.items()
    shape = [sizes(b, x, a, 1) for a in range(rank)]
    x = reshaped(b, x, *shape[:axis], ONE, *shape[axis:])
    x = _padded(b, x, rank + 1, {axis: 1, axis + 1: count})
    return crop(b, x, [0] * (rank + 1), [int(a == axis) for a in range(rank + 1)])


def _concatenated(b: Builder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    for axis, count in sorted(amounts.items(), reverse=True):
        x = b.add(Concat(axis), x, zeros_beside(b, x, axis, count))
    return x


def _masked(b: Builder[X], x: X, strides: Sequence[int]) -> X:
    """Repeat every element, and multiply the copies by 0."""
    factors = np.array([1.0, 1.0, *strides], np.float32)
    size = [n * s for n, s in zip(exact_shape(b, x), (1, 1, *strides), strict=True)]
    op = Interpolate4("nearest", "scales", "asymmetric", "floor")
    y = b.add(op, x, b.const(np.array(size, np.int64)), b.const(factors))
    mask = filled(b, x, (1, 1, *size[2:]), 1)
    for axis, (n, s) in enumerate(zip(size[2:], strides, strict=True), 2):
        kept = np.arange(n) % s == 0
        mask *= kept.astype(mask.dtype).reshape(-1, *(1,) * (len(size) - axis - 1))
    return b.add(Multiply(), y, b.const(mask))
