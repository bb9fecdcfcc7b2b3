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
from typing import Any

import numpy as np

from irdeconv.geometry import IntVector, Vector
from irdeconv.op import Builder
from irdeconv.ops import core
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.shape import Reshape
from irdeconv.ops.slicing import Slice
from irdeconv.ops.vectors import sizes, vector
from irdeconv.passes.emit import convolve, emit_convolution, joined, pad_axes, pad_spatial
from irdeconv.passes.rewrite import Skip, rewrite
from irdeconv.spec import is_static


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
class Axis:
    """One axis: its residues, and what O is beyond S(I-1).

    Every residue has I + `more` outputs; of the interleaved ones the last `surplus` are too many.
    """

    stride: int
    residues: tuple[Residue, ...]
    more: int
    surplus: int


def analyse(stride: int, dilation: int, kernel: int, begin: int, end: int) -> Axis:
    """Return the residues of an axis."""
    step, apart = stride // math.gcd(stride, dilation), dilation // math.gcd(stride, dilation)
    residues = []
    for r in range(stride):
        low = next(
            (t for t in range(min(kernel, step)) if (r + begin - t * dilation) % stride == 0), None
        )
        taps = () if low is None else tuple(range(low, kernel, step))[::-1]
        first = (r + begin - taps[0] * dilation) // stride if taps else 0
        residues.append(Residue(taps, first, apart))
    beyond = dilation * (kernel - 1) + 1 - begin - end  # O = S(I-1) + beyond
    outputs = -(-beyond // stride)
    return Axis(stride, tuple(residues), outputs - 1, outputs * stride - beyond)


def axes_of(
    op: core.Deconvolution, b: Builder[Any], w: Any, pads_begin: Any, pads_end: Any
) -> list[Axis] | Skip:
    """Return the analysis of every axis, or why there is none."""
    begin, end = vector(b, pads_begin), vector(b, pads_end)
    kernel = sizes(b, w, 3, len(op.strides))
    if not isinstance(begin, IntVector) or not isinstance(end, IntVector):
        return Skip("the pads are known only at run time")
    if not isinstance(kernel, IntVector):
        return Skip("the kernel's size is known only at run time")
    rows = zip(op.strides, op.dilations, kernel.values, begin.values, end.values, strict=True)
    return [analyse(*row) for row in rows]


@rewrite(core.Deconvolution)
def phases(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution -> one convolution per residue that has taps, interleaved."""
    axes = axes_of(op, b, w, pads_begin, pads_end)
    if isinstance(axes, Skip):
        return axes
    parts = []
    for combination in itertools.product(*(a.residues for a in axes)):
        if all(r.taps for r in combination):
            parts.append(_phase(b, x, w, axes, combination))
        else:
            parts.append(_nothing(b, x, w, axes))
    y = parts[0] if len(parts) == 1 else b.add(Concat(1), *parts)
    return interleave(b, y, w, 1, axes)


def _phase(b: Builder[Any], x: Any, w: Any, axes: list[Axis], residues: Sequence[Residue]) -> Any:
    """Convolve the window that a residue reads with its taps: (N, M, *(I + more))."""
    begin = IntVector(tuple(-r.first for r in residues))
    # I + begin + end = I + more + extent - 1
    end = IntVector(
        tuple(a.more + r.extent - 1 + r.first for a, r in zip(axes, residues, strict=True))
    )
    window = pad_spatial(b, x, begin, end)
    dilations = tuple(r.dilation for r in residues)
    return convolve(b, window, take(b, w, residues), dilations)


def take(b: Builder[Any], w: Any, residues: Sequence[Residue]) -> Any:
    """Return the taps of a residue, in descending order, of a filter (g, C/g, M/g, *K)."""
    start = np.array([r.taps[0] for r in residues])
    step = np.array([(r.taps[1] - r.taps[0]) if len(r.taps) > 1 else -1 for r in residues])
    stop = np.array([r.taps[-1] - 1 for r in residues])
    stop[stop < 0] = np.iinfo(np.int64).min
    where = np.arange(3, 3 + len(residues))
    return b.add(Slice(), w, *(b.const(v.astype(np.int64)) for v in (start, stop, step, where)))


def _nothing(b: Builder[Any], x: Any, w: Any, axes: list[Axis]) -> Any:
    """Return zeros (N, M, *(I + more)) for a residue that no tap reaches."""
    dtype = b.spec(x).dtype
    zero = b.const(np.zeros((), dtype.container if dtype else np.float32))
    spatial: Vector = sizes(b, x, 2, len(axes)) + IntVector(tuple(a.more for a in axes))
    outputs = sizes(b, w, 0, 1) * sizes(b, w, 2, 1)
    return b.add(Broadcast("numpy"), zero, joined(b, sizes(b, x, 0, 1), outputs, spatial))


def interleave(b: Builder[Any], y: Any, w: Any, groups: int, axes: list[Axis]) -> Any:
    """(N, groups * R * M', *(I + more)) -> (N, M, *O): residues R behind one another in space.

    With `groups` > 1 the residues stand inside each group's channels, M' being M / groups.
    """
    strides = tuple(a.stride for a in axes)
    if math.prod(strides) > 1:
        y = depth_to_space(b, y, w, groups, strides)
    surplus = IntVector(tuple(-a.surplus for a in axes))
    return pad_spatial(b, y, surplus * 0, surplus)


def depth_to_space(b: Builder[Any], y: Any, w: Any, groups: int, strides: tuple[int, ...]) -> Any:
    """Move the residues from the channels into space; DepthToSpace where it can express it."""
    if groups == 1 and len(set(strides)) == 1:
        return b.add(DepthToSpace("blocks_first", strides[0]), y)
    outputs = sizes(b, w, 0, 1) * sizes(b, w, 2, 1)
    inner = sizes(b, w, 2, 1) if groups > 1 else outputs
    return _transposed(b, y, (groups, *strides), inner, outputs)


def spell_depth_to_space(op: DepthToSpace, b: Builder[Any], y: Any) -> Any:
    """DepthToSpace of blocks first -> Reshape, Transpose, Reshape; its channels must be known."""
    shape = b.spec(y).shape
    if shape is None or not isinstance(shape[1], int) or op.mode != "blocks_first":
        return Skip("the number of channels is known only at run time")
    strides = (op.block_size,) * (len(shape) - 2)
    outputs = IntVector((shape[1] // math.prod(strides),))
    return _transposed(b, y, (1, *strides), outputs, outputs)


def _transposed(
    b: Builder[Any], y: Any, blocks: tuple[int, ...], inner: Vector, outputs: Vector
) -> Any:
    """(N, groups * R * inner, *I), blocks (groups, *R) -> (N, outputs, *(R I)) by a Transpose."""
    strides = blocks[1:]
    axes = len(strides)
    batch, spatial = sizes(b, y, 0, 1), sizes(b, y, 2, axes)
    wide = joined(b, batch, IntVector(blocks), inner, spatial)
    y = b.add(Reshape(special_zero=False), y, wide)
    pairs = ((3 + axes + a, 2 + a) for a in range(axes))
    order = (0, 1, 2 + axes, *itertools.chain.from_iterable(pairs))
    y = b.add(Transpose(), y, b.const(np.array(order, np.int64)))
    grown: Vector = spatial * IntVector(strides)
    return b.add(Reshape(special_zero=False), y, joined(b, batch, outputs, grown))


@rewrite(core.Deconvolution)
def stacked(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution -> one convolution with a block of channels per residue, interleaved."""
    axes = axes_of(op, b, w, pads_begin, pads_end)
    if isinstance(axes, Skip):
        return axes
    shape = b.spec(w).shape
    if not is_static(shape):
        return Skip("the filter's shape is known only at run time")
    every = [[r for r in a.residues if r.taps] for a in axes]
    low = [min(r.first for r in rs) for rs in every]
    high = [max(r.first + r.extent for r in rs) for rs in every]
    parts = [
        _widened(b, w, shape, combination, low, high)
        for combination in itertools.product(*(a.residues for a in axes))
    ]
    wide = parts[0] if len(parts) == 1 else b.add(Concat(2), *parts)
    reach = [h - lo for lo, h in zip(low, high, strict=True)]
    end = IntVector(tuple(a.more + n - 1 + lo for a, n, lo in zip(axes, reach, low, strict=True)))
    data = pad_spatial(b, x, IntVector(tuple(-lo for lo in low)), end)
    y = convolve(b, data, wide, (1,) * len(axes))
    return interleave(b, y, w, shape[0], axes)


def _widened(
    b: Builder[Any],
    w: Any,
    shape: tuple[int, ...],
    residues: Sequence[Residue],
    low: Sequence[int],
    high: Sequence[int],
) -> Any:
    """Return a residue's taps in a window low..high of the input's grid."""
    if not all(r.taps for r in residues):
        dtype = b.spec(w).dtype
        wide = [h - lo for lo, h in zip(low, high, strict=True)]
        return b.const(np.zeros((*shape[:3], *wide), dtype.container if dtype else np.float32))
    part = take(b, w, residues)
    if any(r.dilation > 1 and len(r.taps) > 1 for r in residues):
        counts = [len(r.taps) for r in residues]
        flat = (shape[0] * shape[1], shape[2], *counts)
        part = b.add(Reshape(special_zero=False), part, b.const(np.array(flat, np.int64)))
        part = b.add(core.ZeroInsertion(tuple(r.dilation for r in residues)), part)
        back = (*shape[:3], *(r.extent for r in residues))
        part = b.add(Reshape(special_zero=False), part, b.const(np.array(back, np.int64)))
    rows = list(zip(residues, low, high, strict=True))
    begin = IntVector(tuple(r.first - lo for r, lo, _ in rows))
    end = IntVector(tuple(h - r.first - r.extent for r, _, h in rows))
    return pad_axes(b, part, begin, end, 3)


@rewrite(core.Deconvolution)
def gemm(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution with K == S -> a 1x1 convolution, interleaved and cropped."""
    axes = len(op.strides)
    kernel, shape = sizes(b, w, 3, axes), b.spec(w).shape
    if not isinstance(kernel, IntVector) or not is_static(shape):
        return Skip("the filter's shape is known only at run time")
    if kernel.values != op.strides:
        return Skip(f"the kernel {list(kernel.values)} is not the stride {list(op.strides)}")
    if any(d > 1 and k > 1 for d, k in zip(op.dilations, kernel.values, strict=True)):
        return Skip(f"the taps are dilated by {list(op.dilations)}")
    order = np.array((0, *range(3, 3 + axes), 2, 1), np.int64)
    flat = b.add(Transpose(), w, b.const(order))
    target = (shape[0], math.prod(op.strides) * shape[2], shape[1], *(1,) * axes)
    flat = b.add(Reshape(special_zero=False), flat, b.const(np.array(target, np.int64)))
    y = emit_convolution(b, x, flat, (1,) * axes)
    if math.prod(op.strides) > 1:
        y = depth_to_space(b, y, w, shape[0], op.strides)
    zero = IntVector((0,) * axes)
    return pad_spatial(b, y, zero - vector(b, pads_begin), zero - vector(b, pads_end))
