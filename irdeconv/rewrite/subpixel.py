"""Sub-pixel forms of core.Deconvolution: convolutions on the data's grid, outputs interleaved.

Along an axis the outputs of residue r (positions r, r + S, ...) are reached by the taps t with
(r + pads_begin - t D) mod S = 0, which are S / gcd(S, D) apart. So each residue is a convolution of
stride 1 with a part of the filter; no inserted zero is multiplied.

A site is one deconvolution in numbers, for the analysis of costs and of non-finite constants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from irdeconv.base.limits import current
from irdeconv.ir.geometry import IntVector, Vector
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Builder
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Shape, Spec, bounds, ints, is_static
from irdeconv.ops import core
from irdeconv.ops.core import permute, sizes, vector
from irdeconv.ops.movement import Broadcast, Tile
from irdeconv.ops.slicing import Gather
from irdeconv.rewrite.compressed_filters import stored
from irdeconv.rewrite.emit import (
    FIRST_ELEMENT,
    ConvolutionLayer,
    DeconvolutionInputs,
    FormBuilder,
    Ints,
    Option,
    Skip,
    StackLayout,
    X,
    add_bias,
    channels_swapped,
    container_of,
    exact_shape,
    interleave_parts,
    joined,
    needs,
    pad_spatial,
    reshaped,
    sliced,
    stack_layouts,
)

PLACE_BYTES = 256  # of a tap's place in a stacked filter, while it is made
NODES_OF_RESIDUE = 3  # its input, its taps, its convolution
MANY_ELEMENTS = 1 << 20  # elements of an axis of unknown size


@dataclass(frozen=True)
class Residue:
    """One residue along one axis: its taps in descending order, the first input that they read.

    `first` is the input index that the first (highest) tap reads for the residue's output 0.
    `dilation` is the distance of the taps on the input's grid.
    """

    taps: tuple[int, ...]
    first: int
    dilation: int

    @property
    def extent(self) -> int:
        """The inputs that one output spans."""
        return (len(self.taps) - 1) * self.dilation + 1 if self.taps else 0


@dataclass(frozen=True)
class AxisResidues:
    """The residues of one axis, and the size of the interleaved outputs.

    Every residue has I + `more` outputs. Of the interleaved ones the first `front` and the last
    `surplus` are cropped.
    """

    stride: int
    dilation: int
    kernel: int
    begin: int
    more: int
    surplus: int
    front: int = 0

    @cached_property
    def residues(self) -> tuple[Residue, ...]:
        """The residues in their order; there are as many as the stride."""
        stride, dilation, begin = self.stride, self.dilation, self.begin
        step, apart = stride // math.gcd(stride, dilation), dilation // math.gcd(stride, dilation)
        lowest = {(t * dilation - begin) % stride: t for t in range(min(self.kernel, step))}
        residues = []
        for r in range(stride):
            taps = tuple(range(lowest[r], self.kernel, step))[::-1] if r in lowest else ()
            first = (r + begin - taps[0] * dilation) // stride if taps else 0
            residues.append(Residue(taps, first, apart))
        return tuple(residues)


def analyse(
    stride: int, dilation: int, kernel: int, begin: int, end: int, front: int = 0
) -> AxisResidues:
    """Return the residues of an axis, computed on demand.

    The outputs begin `front` positions earlier than those of the layer, and are cropped there.
    """
    begin -= front
    beyond = dilation * (kernel - 1) + 1 - begin - end  # front + O = S(I-1) + beyond
    outputs = -(-beyond // stride)
    surplus = outputs * stride - beyond
    return AxisResidues(stride, dilation, kernel, begin, outputs - 1, surplus, front)


def skip_open_axes(op: core.Deconvolution, filter: Spec, *pads: Spec) -> Skip | None:
    """Return why the axes cannot be analysed, or have too many residues, if so."""
    residues, limit = math.prod(op.strides), current().lowered_nodes
    if residues * NODES_OF_RESIDUE > limit:
        nodes = f"{residues * NODES_OF_RESIDUE:,} nodes for {residues:,} residues"
        return Skip(f"it would emit {nodes}; the limit is {limit:,} (--limit lowered_nodes=N)")
    if any(ints(p) is None for p in pads):
        return Skip("the pads are known only at run time")
    if filter.shape is None or not is_static(filter.shape[3:]):
        return Skip("the kernel's size is known only at run time")
    taps = max((n for n in filter.shape[3:] if isinstance(n, int)), default=0)
    most = current().folded_bytes
    if PLACE_BYTES * taps > most:
        size = f"{taps:,} taps of an axis, {PLACE_BYTES * taps:,} bytes"
        return Skip(f"it would list {size}; the limit is {most:,} (--limit folded_bytes=N)")
    return None


def least_nodes(op: core.Deconvolution, filter: Spec) -> int:
    """Return a lower bound on the nodes of phases: taps and a sum for each residue with taps."""
    if filter.shape is None or not is_static(filter.shape):
        return 0
    rows = zip(op.strides, op.dilations, filter.shape[3:], strict=True)
    reached = math.prod(min(k, s // math.gcd(s, d)) for s, d, k in rows)
    return 2 * reached if reached > 1 else 0


def axes_of(
    op: core.Deconvolution, b: Builder[X], of: DeconvolutionInputs[X]
) -> list[AxisResidues]:
    """Return the analysis of every axis; pads and kernel must be known."""
    pads = vector(b, of.pads_begin), vector(b, of.pads_end)
    vectors = (sizes(b, of.w, 3, len(op.strides)), *pads)
    known = [v.values for v in vectors if isinstance(v, IntVector)]
    return [analyse(*row) for row in zip(op.strides, op.dilations, *known, strict=True)]


def phases(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X:
    """core.Deconvolution -> one convolution per residue that has taps, interleaved."""
    axes = axes_of(op, b, of)
    parts = []
    nothing: X | None = None  # of all residues without taps, as it is as large as the data
    for residues in itertools.product(*(a.residues for a in axes)):
        if all(r.taps for r in residues):
            alike = tuple((len(r.taps), r.first) for r in residues)
            parts.append(b.repeat(alike, partial(_phase, b, of, axes, residues)))
        else:
            nothing = nothing or add_bias(b, _nothing(b, of.x, of.w, axes), of.bias)
            parts.append(nothing)
    y = parts[0]
    if len(parts) > 1:
        outputs = sizes(b, of.w, 0, 1) * sizes(b, of.w, 2, 1)
        y = interleave_parts(b, parts, op.strides, outputs, len(axes) + 2 in b.style.block_ranks)
    return _cropped(b, y, axes)


def _phase(
    b: FormBuilder[X],
    of: DeconvolutionInputs[X],
    axes: list[AxisResidues],
    residues: Sequence[Residue],
) -> X:
    """Convolve the window that a residue reads with its taps: (N, M, *(I + more))."""
    begin = IntVector(tuple(-r.first for r in residues))
    more = IntVector(tuple(a.more + r.extent - 1 for a, r in zip(axes, residues, strict=True)))
    taps = channels_swapped(b, take(b, of.w, residues), len(axes))
    dilations = tuple(r.dilation for r in residues)
    ones = (1,) * len(axes)
    return ConvolutionLayer(of.x, taps, ones, dilations, begin, more - begin, of.bias).emit(b)


def take(b: Builder[X], w: X, residues: Sequence[Residue]) -> X:
    """Return the taps of a residue, in descending order, of a filter (g, C/g, M/g, *K)."""
    start = [r.taps[0] for r in residues]
    stop = [r.taps[-1] - 1 if r.taps[-1] else FIRST_ELEMENT for r in residues]
    step = [r.taps[1] - r.taps[0] if len(r.taps) > 1 else -1 for r in residues]
    return sliced(b, w, start, stop, step, range(3, 3 + len(residues)))


def _nothing(b: Builder[X], x: X, w: X, axes: list[AxisResidues]) -> X:
    """Return zeros (N, M, *(I + more)) for residues that no tap reaches."""
    zero = b.const(np.zeros((), container_of(b, x)))
    spatial = sizes(b, x, 2, len(axes)) + IntVector(tuple(a.more for a in axes))
    outputs = sizes(b, w, 0, 1) * sizes(b, w, 2, 1)
    return b.add(Broadcast("numpy"), zero, joined(b, sizes(b, x, 0, 1), outputs, spatial))


def _cropped(b: FormBuilder[X], y: X, axes: list[AxisResidues]) -> X:
    """Crop interleaved outputs to those of the layer."""
    front, surplus = (tuple(v) for v in ((-a.front for a in axes), (-a.surplus for a in axes)))
    return pad_spatial(b, y, IntVector(front), IntVector(surplus))


@dataclass(frozen=True)
class Widened:
    """A stacked filter along one axis: which tap each residue has at each input it spans.

    An output's window starts at input `low`; `taps[residue][input]` is a tap, or K for a zero.
    """

    low: int
    taps: tuple[tuple[int, ...], ...]
    kernel: int

    @property
    def span(self) -> int:
        """The inputs that the filter spans."""
        return len(self.taps[0])

    @property
    def index(self) -> tuple[int, ...]:
        """The taps of all residues behind one another."""
        return sum(self.taps, ())

    @property
    def lacks(self) -> bool:
        """Whether there is a place without a tap."""
        return self.kernel in self.index


def widen(axis: AxisResidues, kernel: int) -> Widened:
    """Return the layout of an axis's taps in a stacked filter."""
    every = [r for r in axis.residues if r.taps]
    low = min(r.first for r in every)
    span = max(r.first + r.extent for r in every) - low
    rows = []
    for r in axis.residues:
        places = {r.first - low + j * r.dilation: t for j, t in enumerate(r.taps)}
        rows.append(tuple(places.get(e, kernel) for e in range(span)))
    return Widened(low, tuple(rows), kernel)


def skip_stacked(op: core.Deconvolution, filter: Spec, *pads: Spec) -> Skip | None:
    """Return why the filter cannot be stacked, if so."""
    if not is_static(filter.shape):
        return Skip("the filter's shape is known only at run time")
    skip, limit = skip_open_axes(op, filter, *pads), current().folded_bytes
    if skip is not None:
        return skip
    for s, d, k in zip(op.strides, op.dilations, filter.shape[3:], strict=True):
        places = s * (d * (k - 1) // s + 2)  # residues by elements that each of them spans
        if PLACE_BYTES * places > limit:
            size = f"a filter with {places:,} places on an axis, {PLACE_BYTES * places:,} bytes"
            return Skip(f"it would emit {size}; the limit is {limit:,} (--limit folded_bytes=N)")
    return None


def stacked(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X:
    """core.Deconvolution -> one convolution with a block of channels per residue, interleaved."""
    space = (b.spec(of.x).shape or (DYNAMIC,) * (len(op.strides) + 2))[2:]
    plain = axes_of(op, b, of)
    found = [narrowest(a, n) for a, n in zip(plain, space, strict=True)]
    return b.choose(
        [
            Option(layout.name, partial(_stacked, b, of, axes, layout), needs(layout.name))
            for axes in ([found] if found == plain else [found, plain])
            for layout in _layouts(op, b, of)
        ]
    )


def _layouts(
    op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]
) -> list[StackLayout]:
    """Return the layouts of a stack, the default first; one of them if nothing is stacked."""
    groups, blocks = exact_shape(b, of.w)[0], len(op.strides) + 2 in b.style.block_ranks
    layouts = stack_layouts(op.strides, groups, blocks)
    return layouts if math.prod(op.strides) > 1 else layouts[-1:]


def _stacked(
    b: FormBuilder[X], of: DeconvolutionInputs[X], axes: list[AxisResidues], layout: StackLayout
) -> X:
    shape, n = exact_shape(b, of.w), len(axes)
    widened = [widen(a, k) for a, k in zip(axes, shape[3:], strict=True)]
    begin = IntVector(tuple(-v.low for v in widened))
    more = IntVector(tuple(a.more + v.span - 1 for a, v in zip(axes, widened, strict=True)))
    stack = channels_swapped(b, _stack(b, of.w, widened, layout), n)
    bias = None if of.bias is None else _repeated(b, of.bias, layout, n)
    ones = (1,) * n
    y = ConvolutionLayer(of.x, stack, ones, ones, begin, more - begin, bias).emit(b)
    return _interleaved(b, y, of.w, axes, layout)


def _interleaved(b: FormBuilder[X], y: X, w: X, axes: list[AxisResidues], layout: StackLayout) -> X:
    strides = tuple(a.stride for a in axes)
    if math.prod(strides) > 1:
        y = layout.interleave(b, y, strides, sizes(b, w, 0, 1) * sizes(b, w, 2, 1))
    return _cropped(b, y, axes)


def narrowest(axis: AxisResidues, size: Dim) -> AxisResidues:
    """Return the residues with as many outputs in front as save the most products.

    Outputs that begin with the scatter need the fewest taps; some are cropped for it. An unknown
    size counts as many elements.
    """
    beyond = (axis.more + 1) * axis.stride - axis.surplus  # O - S(I-1) without outputs in front
    end = axis.dilation * (axis.kernel - 1) + 1 - axis.begin - beyond
    size = size if isinstance(size, int) else MANY_ELEMENTS
    fronts = dict.fromkeys((0, axis.begin % axis.stride))
    found = [analyse(axis.stride, axis.dilation, axis.kernel, axis.begin, end, f) for f in fronts]
    return min(found, key=lambda a: max(size + a.more, 0) * widen(a, a.kernel).span)


def _stack(b: Builder[X], w: X, widened: list[Widened], layout: StackLayout) -> X:
    """(g, C/g, M/g, *K) -> (g, C/g, R * M/g, *E): each residue's taps at the inputs they meet.

    The layout orders residues and channels.
    """
    shape, n = exact_shape(b, w), len(widened)
    more = IntVector(tuple(int(v.lacks) for v in widened))
    w = pad_spatial(b, w, more * 0, more, 3)  # a zero behind the taps, for the places without one
    for a, v in enumerate(widened, 3):
        if v.index != tuple(range(v.kernel)):  # not the taps in their order
            index = b.const(np.array(v.index, np.int64))
            w = b.add(Gather(), w, index, b.const(np.array(a, np.int64)))
    residues = [len(v.taps) for v in widened]
    if math.prod(residues) == 1:
        return w
    pairs = [k for v in widened for k in (len(v.taps), v.span)]
    w = reshaped(b, w, IntVector((shape[0] * shape[1], shape[2], *pairs)))
    blocks, spans = range(2, 2 + 2 * n, 2), range(3, 3 + 2 * n, 2)
    first = layout.residues_first
    w = permute(b, w, (0, *blocks, 1, *spans) if first else (0, 1, *blocks, *spans))
    span = [v.span for v in widened]
    places = np.ravel_multi_index(tuple(np.transpose(layout.residues)), residues).tolist()
    count = math.prod(residues)
    if places != [*range(count)]:
        parts = (count, shape[2]) if first else (shape[2], count)
        w = reshaped(b, w, IntVector((shape[0] * shape[1], *parts, *span)))
        at = b.const(np.array(1 if first else 2, np.int64))
        w = b.add(Gather(), w, b.const(np.array(places, np.int64)), at)
    return reshaped(b, w, IntVector((shape[0], shape[1], count * shape[2], *span)))


def _repeated(b: Builder[X], bias: X, layout: StackLayout, axes: int) -> X:
    """[1, M, 1, ...] -> [1, M * R, 1, ...]: the bias of each channel of a stack."""
    count, ones = len(layout.residues), (1,) * axes
    if layout.residues_first:
        return b.add(Tile(), bias, b.const(np.array((1, count, *ones), np.int64)))
    outputs = sizes(b, bias, 1, 1)
    column = reshaped(b, bias, outputs, IntVector((1,)))
    rows = b.add(Tile(), column, b.const(np.array((1, count), np.int64)))
    return reshaped(b, rows, IntVector((1,)), outputs * count, IntVector(ones))


def skip_gemm(op: core.Deconvolution, filter: Spec, *pads: Spec) -> Skip | None:
    """Return why the kernel is not the stride, if so."""
    if not is_static(filter.shape):
        return Skip("the filter's shape is known only at run time")
    kernel = filter.shape[3:]
    if kernel != op.strides:
        return Skip(f"the kernel {list(kernel)} is not the stride {list(op.strides)}")
    if any(d > 1 and k > 1 for d, k in zip(op.dilations, kernel, strict=True)):
        return Skip(f"the taps are dilated by {list(op.dilations)}")
    return None


def gemm(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X | Skip:
    """core.Deconvolution with K == S -> a 1x1 convolution, interleaved and cropped."""
    layouts = _layouts(op, b, of)
    zero = IntVector((0,) * len(op.strides))
    ends = zero - vector(b, of.pads_begin), zero - vector(b, of.pads_end)
    if of.bias is not None and not all(isinstance(v, IntVector) for v in ends):
        return Skip("zeros may join the output, which has a bias; the pads are known at run time")
    rows = ((w.name, partial(_gemm, b, of, ends, w)) for w in layouts)
    return b.choose([Option(name, way, needs(name)) for name, way in rows])


def _gemm(
    b: FormBuilder[X], of: DeconvolutionInputs[X], ends: tuple[Vector, Vector], layout: StackLayout
) -> X:
    strides, (begin, end) = exact_shape(b, of.w)[3:], ends
    n = len(strides)
    axes = [AxisResidues(s, 1, s, 0, 0, 0) for s in strides]
    stack = _stack(b, of.w, [widen(a, a.stride) for a in axes], layout)
    zero = IntVector((0,) * n)
    front, back = _room(b.spec(of.x).shape, strides, begin, end, of.bias is not None)
    if (front, back) != (zero, zero):
        begin, end = begin - front * IntVector(strides), end - back * IntVector(strides)
    bias = None if of.bias is None else _repeated(b, of.bias, layout, n)
    stack, ones = channels_swapped(b, stack, n), (1,) * n
    y = ConvolutionLayer(of.x, stack, ones, ones, front, back, bias).emit(b)
    y = _interleaved(b, y, of.w, axes, layout)
    return pad_spatial(b, y, begin, end) if (begin, end) != (zero, zero) else y


def _room(
    shape: Shape | None, strides: tuple[int, ...], begin: Vector, end: Vector, biased: bool
) -> tuple[IntVector, IntVector]:
    """Return the numbers of zeros in front of and behind the data for the output's pads.

    With a bias no zeros may join the output, so all of them join the data. Otherwise: if one end of
    the output is cropped and zeros join the other, short or empty data may have less than is
    cropped. Zeros at that other end of the data become zeros of the output; a NaN in a tap spreads
    to these.
    """
    room = np.zeros((2, len(strides)), np.int64)
    if isinstance(begin, IntVector) and isinstance(end, IntVector):
        least = [bounds(n)[0] for n in (shape or (DYNAMIC,) * (len(strides) + 2))[2:]]
        rows = zip(strides, least, begin.values, end.values, strict=True)
        for a, (s, n, p, q) in enumerate(rows):
            if biased:
                room[:, a] = [-(-max(e, 0) // s) for e in (p, q)]
            elif min(p, q) < 0 < max(p, q):
                room[int(p < 0), a] = max(-(min(p, q) // s) - n, 0)
    front, back = (IntVector(tuple(row)) for row in room.tolist())
    return front, back


STAND_IN = 32  # for a size that is known only at run time


@dataclass(frozen=True)
class DeconvolutionSite:
    """A deconvolution of data [batch, groups * c, *size] with a filter [groups, c, m, *kernel].

    `begin` and `end` are the pads of either sign. If `assumed`, stand-in sizes replace unknown
    ones. `itemsize` is in bytes.
    """

    batch: int
    groups: int
    c: int
    m: int
    size: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints
    itemsize: int
    constant_filter: bool
    assumed: bool = False

    @property
    def outputs(self) -> int:
        """M, the output's channels."""
        return self.groups * self.m

    @property
    def data_shape(self) -> Ints:
        """The shape of the data."""
        return (self.batch, self.groups * self.c, *self.size)

    @property
    def filter_shape(self) -> Ints:
        """The shape of the filter."""
        return (self.groups, self.c, self.m, *self.kernel)

    @cached_property
    def axes(self) -> list[AxisResidues]:
        """The residues of every axis."""
        rows = zip(self.strides, self.dilations, self.kernel, self.begin, self.end, strict=True)
        return [analyse(*row) for row in rows]

    @cached_property
    def output(self) -> Ints:
        """O on every axis, at least 0."""
        rows = zip(self.size, self.axes, strict=True)
        return tuple(max((i + a.more) * a.stride - a.surplus, 0) for i, a in rows)

    def useful_macs(self) -> int:
        """Return the products of an input element and a tap that reach an output."""
        pairs = math.prod(map(self._pairs, range(self.rank)))
        return self.batch * self.groups * self.c * self.m * pairs

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.size)

    def _pairs(self, axis: int) -> int:
        """Return the number of (input, tap) of an axis with s*S + k*D - begin in 0..O."""
        begin = self.begin[axis]
        below = [self._below(axis, top) for top in (begin, begin + self.output[axis])]
        return below[1] - below[0]

    def _below(self, axis: int, top: int) -> int:
        """Return the number of (input s, tap k) with s*S + k*D less than `top`."""
        size, kernel = self.size[axis], self.kernel[axis]
        stride, dilation = self.strides[axis], self.dilations[axis]
        whole = (top - 1 - (size - 1) * stride) // dilation + 1  # the taps for which every s counts
        whole = min(max(whole, 0), kernel)
        some = min(max(-(-top // dilation), whole), kernel)  # none counts from this tap on
        rest = floor_sum(some - whole, stride, dilation, top - (some - 1) * dilation + stride - 1)
        return whole * size + rest

    def classes(self, axis: int) -> tuple[Array, Array]:
        """Return representative outputs of an axis, and how many outputs each represents.

        At the borders taps are outside the data. Between them outputs S apart meet the same taps.
        """
        front, periods = self._periods(axis)
        stride, top = self.strides[axis], self.output[axis]
        if not periods:
            return np.arange(top), np.ones(top, np.int64)
        behind = np.arange(front + periods * stride, top)
        places = np.concatenate((np.arange(front + stride), behind))
        counts = np.ones(len(places), np.int64)
        counts[front : front + stride] = periods
        return places, counts

    def class_number(self, axis: int) -> int:
        """Return the number of outputs from `classes`, without making them."""
        periods = self._periods(axis)[1]
        return self.output[axis] - max(periods - 1, 0) * self.strides[axis]

    def _periods(self, axis: int) -> tuple[int, int]:
        """Return the outputs of the border in front, and the periods of S before the next."""
        stride, top = self.strides[axis], self.output[axis]
        front = max((self.kernel[axis] - 1) * self.dilations[axis] - self.begin[axis], 0)
        back = min((self.size[axis] - 1) * stride - self.begin[axis] + 1, top)
        return front, max(back - front, 0) // stride


def floor_sum(count: int, divisor: int, factor: int, first: int) -> int:
    """Return the sum of (factor * i + first) // divisor for i below count; none is negative."""
    total = 0
    while count > 0:
        total += factor // divisor * (count * (count - 1) // 2) + first // divisor * count
        factor, first = factor % divisor, first % divisor
        last = factor * count + first
        if last < divisor:
            break
        count, first, divisor, factor = last // divisor, last % divisor, factor, divisor
    return total


def site_of(graph: Graph, node: Node) -> DeconvolutionSite | None:
    """Return a core.Deconvolution's numbers; None if filter shape or pads are unknown."""
    op = node.op
    assert isinstance(op, core.Deconvolution)
    data, filter, *pads = graph.input_specs(node.id)
    begin, end = map(ints, pads)
    if not is_static(filter.shape) or begin is None or end is None:
        return None
    groups, c, m, *kernel = filter.shape
    dtype, shape = data.dtype, data.shape or (1, groups * c, *(DYNAMIC for _ in op.strides))
    rows = zip(op.strides, op.dilations, kernel, begin, end, strict=True)
    least = [1 - analyse(*row).more for row in rows]  # of the inputs, for an output to be left
    return DeconvolutionSite(
        batch=_stand_in(shape[0], 1),
        groups=groups,
        c=c,
        m=m,
        size=tuple(_stand_in(d, max(STAND_IN, n)) for d, n in zip(shape[2:], least, strict=True)),
        kernel=tuple(kernel),
        strides=op.strides,
        dilations=op.dilations,
        begin=begin,
        end=end,
        itemsize=dtype.container.itemsize if dtype else 4,
        constant_filter=stored(graph, graph.inputs_of(node.id)[1]) is not None,
        assumed=not is_static(data.shape),
    )


def _stand_in(dim: Dim, size: int) -> int:
    low, high = bounds(dim)
    return low if low == high else max(low, size if high is None else min(size, high))


# The spread of a bad tap: for some outputs of an axis [O, K], float32, 1 for spoilt ones.
AxisReach = Callable[[DeconvolutionSite, int, Array], Array]


def every_output(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """Every tap reaches every output."""
    return np.ones((len(outputs), site.kernel[axis]), np.float32)


def outputs_of_residue(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches all outputs of its residue."""
    return _taps(site, axis, outputs)[0].astype(np.float32)


def tap_by_definition(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches o with o + pads_begin = s*S + k*D, s in 0..I."""
    meets, source = _taps(site, axis, outputs)
    return (meets & (source >= 0) & (source < site.size[axis])).astype(np.float32)


def _taps(site: DeconvolutionSite, axis: int, outputs: Array) -> tuple[Array, Array]:
    """Return [O, K]: whether a tap belongs to an output's residue, and the input that it meets."""
    at = outputs[:, None] + site.begin[axis] - np.arange(site.kernel[axis]) * site.dilations[axis]
    return at % site.strides[axis] == 0, at // site.strides[axis]
