"""Sub-pixel forms of core.Deconvolution: convolutions on the data's grid, outputs interleaved.

Along an axis the outputs of residue r (positions r, r + S, ...) are reached by the taps t with
(r + pads_begin - t D) mod S = 0, which lie S / gcd(S, D) apart. So each residue is a convolution of
stride 1 with a part of the filter; no inserted zero is multiplied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from irdeconv.geometry import IntVector, Vector
from irdeconv.limits import current
from irdeconv.op import Builder
from irdeconv.ops import core
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.movement import Concat
from irdeconv.ops.slicing import Gather
from irdeconv.ops.vectors import sizes, vector
from irdeconv.passes.emit import (
    DOWN_TO_0,
    FormBuilder,
    X,
    convolve,
    emit_convolution,
    joined,
    pad_spatial,
    reshaped,
    sliced,
    transposed,
)
from irdeconv.passes.rewrite import Skip
from irdeconv.spec import DYNAMIC, Shape, Spec, bounds, ints, is_static

PLACE_BYTES = 256  # of a tap's place in a stacked filter, while it is made
NODES_OF_RESIDUE = 3  # what it reads, its taps, its convolution


@dataclass(frozen=True)
class Residue:
    """One residue along one axis: its taps in descending order, where they start to read.

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
    """The residues of one axis, and what O is beyond S(I-1).

    Every residue has I + `more` outputs; of the interleaved ones the last `surplus` are too many.
    """

    stride: int
    dilation: int
    kernel: int
    begin: int
    more: int
    surplus: int

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


def analyse(stride: int, dilation: int, kernel: int, begin: int, end: int) -> AxisResidues:
    """Return the residues of an axis, which are made when they are asked for."""
    beyond = dilation * (kernel - 1) + 1 - begin - end  # O = S(I-1) + beyond
    outputs = -(-beyond // stride)
    return AxisResidues(stride, dilation, kernel, begin, outputs - 1, outputs * stride - beyond)


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
    """Return how many nodes the phases are at least: of each residue with taps, these and a sum."""
    if filter.shape is None or not is_static(filter.shape):
        return 0
    rows = zip(op.strides, op.dilations, filter.shape[3:], strict=True)
    reached = math.prod(min(k, s // math.gcd(s, d)) for s, d, k in rows)
    return 2 * reached if reached > 1 else 0


def axes_of(
    op: core.Deconvolution, b: Builder[X], w: X, pads_begin: X, pads_end: X
) -> list[AxisResidues]:
    """Return the analysis of every axis; pads and kernel must be known."""
    vectors = (sizes(b, w, 3, len(op.strides)), vector(b, pads_begin), vector(b, pads_end))
    known = [v.values for v in vectors if isinstance(v, IntVector)]
    return [analyse(*row) for row in zip(op.strides, op.dilations, *known, strict=True)]


def phases(op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X) -> X:
    """core.Deconvolution -> one convolution per residue that has taps, interleaved."""
    axes = axes_of(op, b, w, pads_begin, pads_end)
    parts = []
    for residues in itertools.product(*(a.residues for a in axes)):
        alike = tuple((len(r.taps), r.first) for r in residues)
        parts.append(b.repeat(alike, partial(_phase, b, x, w, axes, residues)))
    y = parts[0] if len(parts) == 1 else b.add(Concat(1), *parts)
    return interleave(b, y, w, 1, axes)


def _phase(b: Builder[X], x: X, w: X, axes: list[AxisResidues], residues: Sequence[Residue]) -> X:
    """Convolve the window that a residue reads with its taps: (N, M, *(I + more))."""
    if not all(r.taps for r in residues):
        return _nothing(b, x, w, axes)
    begin = IntVector(tuple(-r.first for r in residues))
    more = IntVector(tuple(a.more + r.extent - 1 for a, r in zip(axes, residues, strict=True)))
    window = pad_spatial(b, x, begin, more - begin)
    return convolve(b, window, take(b, w, residues), tuple(r.dilation for r in residues))


def take(b: Builder[X], w: X, residues: Sequence[Residue]) -> X:
    """Return the taps of a residue, in descending order, of a filter (g, C/g, M/g, *K)."""
    start = [r.taps[0] for r in residues]
    stop = [r.taps[-1] - 1 if r.taps[-1] else DOWN_TO_0 for r in residues]
    step = [r.taps[1] - r.taps[0] if len(r.taps) > 1 else -1 for r in residues]
    return sliced(b, w, start, stop, step, range(3, 3 + len(residues)))


def _nothing(b: Builder[X], x: X, w: X, axes: list[AxisResidues]) -> X:
    """Return zeros (N, M, *(I + more)) for a residue that no tap reaches."""
    dtype = b.spec(x).dtype
    zero = b.const(np.zeros((), dtype.container if dtype else np.float32))
    spatial = sizes(b, x, 2, len(axes)) + IntVector(tuple(a.more for a in axes))
    outputs = sizes(b, w, 0, 1) * sizes(b, w, 2, 1)
    return b.add(Broadcast("numpy"), zero, joined(b, sizes(b, x, 0, 1), outputs, spatial))


def interleave(b: Builder[X], y: X, w: X, groups: int, axes: list[AxisResidues]) -> X:
    """(N, groups * R * M', *(I + more)) -> (N, M, *O): residues R behind one another in space.

    With `groups` > 1 the residues stand inside each group's channels, M' being M / groups.
    """
    y = depth_to_space(b, y, w, groups, tuple(a.stride for a in axes))
    surplus = IntVector(tuple(-a.surplus for a in axes))
    return pad_spatial(b, y, surplus * 0, surplus)


def depth_to_space(b: Builder[X], y: X, w: X, groups: int, strides: tuple[int, ...]) -> X:
    """Move the residues from the channels into space; DepthToSpace where it can express it."""
    if math.prod(strides) == 1:
        return y
    if groups == 1 and len(set(strides)) == 1:
        return b.add(DepthToSpace("blocks_first", strides[0]), y)
    outputs = sizes(b, w, 0, 1) * sizes(b, w, 2, 1)
    inner = sizes(b, w, 2, 1) if groups > 1 else outputs
    return _interleaved(b, y, (groups, *strides), inner, outputs)


def spell_depth_to_space(op: DepthToSpace, b: Builder[X], y: X) -> X | Skip:
    """DepthToSpace of blocks first -> Reshape, Transpose, Reshape; its channels must be known."""
    shape = b.spec(y).shape
    if shape is None or not isinstance(shape[1], int) or op.mode != "blocks_first":
        return Skip("the number of channels is known only at run time")
    strides = (op.block_size,) * (len(shape) - 2)
    outputs = IntVector((shape[1] // math.prod(strides),))
    return _interleaved(b, y, (1, *strides), outputs, outputs)


def _interleaved(b: Builder[X], y: X, blocks: tuple[int, ...], inner: Vector, outputs: Vector) -> X:
    """(N, groups * R * inner, *I), blocks (groups, *R) -> (N, outputs, *(R I)) by a Transpose."""
    strides = blocks[1:]
    axes = len(strides)
    batch, spatial = sizes(b, y, 0, 1), sizes(b, y, 2, axes)
    y = reshaped(b, y, batch, IntVector(blocks), inner, spatial)
    pairs = ((3 + axes + a, 2 + a) for a in range(axes))
    order = (0, 1, 2 + axes, *itertools.chain.from_iterable(pairs))
    grown = spatial * IntVector(strides)
    return reshaped(b, transposed(b, y, order), batch, outputs, grown)


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

    @property
    def is_filter(self) -> bool:
        """Whether these are the taps in their order."""
        return self.index == tuple(range(self.kernel))


def widen(axis: AxisResidues, kernel: int) -> Widened:
    """Return how the taps of an axis stand in a stacked filter."""
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
    return skip_open_axes(op, filter, *pads) or _skip_wide(op, filter.shape[3:])


def _skip_wide(op: core.Deconvolution, kernel: tuple[int, ...]) -> Skip | None:
    """Return that the taps stand too far apart for one filter, if so."""
    limit = current().folded_bytes
    for s, d, k in zip(op.strides, op.dilations, kernel, strict=True):
        places = s * (d * (k - 1) // s + 2)  # residues by elements that each of them spans
        if PLACE_BYTES * places > limit:
            size = f"a filter with {places:,} places on an axis, {PLACE_BYTES * places:,} bytes"
            return Skip(f"it would emit {size}; the limit is {limit:,} (--limit folded_bytes=N)")
    return None


def stacked(op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X) -> X:
    """core.Deconvolution -> one convolution with a block of channels per residue, interleaved."""
    axes, shape = axes_of(op, b, w, pads_begin, pads_end), b.spec(w).shape
    assert is_static(shape)
    widened = [widen(a, k) for a, k in zip(axes, shape[3:], strict=True)]
    begin = IntVector(tuple(-v.low for v in widened))
    more = IntVector(tuple(a.more + v.span - 1 for a, v in zip(axes, widened, strict=True)))
    y = convolve(
        b, pad_spatial(b, x, begin, more - begin), _stack(b, w, shape, widened), (1,) * len(axes)
    )
    return interleave(b, y, w, shape[0], axes)


def _stack(b: Builder[X], w: X, shape: tuple[int, ...], widened: list[Widened]) -> X:
    """(g, C/g, M/g, *K) -> (g, C/g, R * M/g, *E): the taps of each residue where it reads them."""
    more = IntVector(tuple(int(v.lacks) for v in widened))
    w = pad_spatial(b, w, more * 0, more, 3)  # a zero behind the taps, for the places without one
    for a, v in enumerate(widened, 3):
        if not v.is_filter:
            index = b.const(np.array(v.index, np.int64))
            w = b.add(Gather(), w, index, b.const(np.array(a, np.int64)))
    residues = [len(v.taps) for v in widened]
    if math.prod(residues) == 1:
        return w
    pairs = [n for v in widened for n in (len(v.taps), v.span)]
    split = (shape[0] * shape[1], shape[2], *pairs)
    w = reshaped(b, w, IntVector(split))
    axes = range(len(widened))
    order = (0, *(2 + 2 * a for a in axes), 1, *(3 + 2 * a for a in axes))
    target = (shape[0], shape[1], math.prod(residues) * shape[2], *(v.span for v in widened))
    return reshaped(b, transposed(b, w, order), IntVector(target))


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


def gemm(op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X) -> X:
    """core.Deconvolution with K == S -> a 1x1 convolution, interleaved and cropped."""
    axes = len(op.strides)
    shape = b.spec(w).shape
    assert is_static(shape)
    flat = transposed(b, w, (0, *range(3, 3 + axes), 2, 1))
    target = (shape[0], math.prod(op.strides) * shape[2], shape[1], *(1,) * axes)
    zero, strides = IntVector((0,) * axes), IntVector(op.strides)
    begin, end = zero - vector(b, pads_begin), zero - vector(b, pads_end)
    front, back = _room(b.spec(x).shape, op.strides, begin, end)
    if front != zero or back != zero:
        x = pad_spatial(b, x, front, back)
        begin, end = begin - front * strides, end - back * strides
    y = emit_convolution(b, x, reshaped(b, flat, IntVector(target)), (1,) * axes)
    y = depth_to_space(b, y, w, shape[0], op.strides)
    return pad_spatial(b, y, begin, end)


def _room(
    shape: Shape | None, strides: tuple[int, ...], begin: Vector, end: Vector
) -> tuple[IntVector, IntVector]:
    """Return how many zeros the data needs in front and behind for the output's pads.

    Where one end of the output is cut off and zeros join at the other, short or empty data may have
    less than is cut off. Zeros at that other end of the data stand for some of those of the output;
    a bad tap spoils these, too.
    """
    room = np.zeros((2, len(strides)), np.int64)
    if isinstance(begin, IntVector) and isinstance(end, IntVector):
        least = [bounds(n)[0] for n in (shape or (DYNAMIC,) * (len(strides) + 2))[2:]]
        rows = zip(strides, least, begin.values, end.values, strict=True)
        for a, (s, n, p, q) in enumerate(rows):
            if min(p, q) < 0 < max(p, q):
                room[int(p < 0), a] = max(-(min(p, q) // s) - n, 0)
    front, back = (IntVector(tuple(row)) for row in room.tolist())
    return front, back
