"""Depthwise convolution in one pass (the extra `fast`).

NumPy passes over memory once per tap; here a row of the output takes all taps of the row axis from
the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import convolution, jit, scratch
from irdeconv.kernels.candidate import Candidate, ConvProblem, Epilogue, Fix, Kernel, Piece, deliver
from irdeconv.kernels.convolution_direct import compiled
from irdeconv.kernels.recorded_calls import Recorded, in_turn
from irdeconv.kernels.scratch import ScratchPlan, Space, contiguous, pieces

WIDTHS = (16, 8, 4, 1)  # elements of vectors
FRAMED = 1 << 11  # elements of planes that are in frames at once
CUT_TAPS = 32  # of a plane that threads share, at least: each of them copies all of its input


def depthwise_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for one input channel per group of floats, if numba is installed."""
    conv = convolution.as_conv3d(problem, along=convolution.COLUMN)
    if conv.channels != 1 or conv.compute.kind != "f" or not jit.available():
        return []
    blocks = blocks_of(conv)

    def prepare(w: Array) -> Kernel:
        jit.load()
        weights = conv.filter(w).reshape(conv.groups * conv.outputs, conv.taps)
        offsets = convolution.tap_offsets(conv, convolution.phase_shape(conv))
        return Depthwise(conv, blocks_of(conv, candidate.cost), weights, offsets)

    candidate = depthwise_work(conv, blocks).candidate("depthwise", prepare, convolution.DEPTHWISE)
    return [candidate]


def depthwise_work(conv: convolution.Conv3d, blocks: Sequence[ImageChannels]) -> convolution.Work:
    """Count the compiled loops by elements of vectors, and the copies into frames by rows."""
    work = convolution.Work(conv)
    work.blocks = len(blocks)
    planes = conv.images * conv.groups * conv.outputs
    shape = convolution.phase_shape(conv)
    work.scratch += math.prod(frames(conv))
    channels = max(b.channels.stop - b.channels.start for b in blocks)
    inputs = min(conv.groups, -(-channels // conv.outputs) + 1)
    work.convert(inputs * math.prod(a.size for a in conv.axes), channels * conv.plane)
    work.groups += planes
    work.looped += 0.3 * conv.images * conv.groups * math.prod(shape[:5])
    work.copy(conv.images * conv.groups * math.prod(shape), shape[5])
    work.far += planes * conv.plane
    (lanes, *_), (reads, _) = vectors(conv)
    work.compiled += 1.6 * planes * conv.taps * lanes * len(reads)
    return work


@dataclass(frozen=True)
class ImageChannels:
    """Neighbouring output channels of an image; `vectors` of their planes, at `positions`."""

    image: int
    channels: slice
    vectors: slice
    positions: slice


def blocks_of(conv: convolution.Conv3d, nanoseconds: float = 0) -> list[ImageChannels]:
    """Split the output by channels, also for threads if the time that it takes is known."""
    channels = conv.groups * conv.outputs
    step = max(1, min(channels, scratch.SIZES.depthwise_bytes // (conv.plane * conv.itemsize)))
    step = scratch.shared_step(channels, step, nanoseconds, conv.outputs, conv.images)
    every = [(n, some) for n in range(conv.images) for some in pieces(channels, step)]
    parts = parts_of(conv, nanoseconds, len(every))
    return [ImageChannels(*some, *part) for some in every for part in parts]


def parts_of(
    conv: convolution.Conv3d, nanoseconds: float, copies: int
) -> list[tuple[slice, slice]]:
    """Split a plane by vectors if there are fewer planes than threads; no two write an element."""
    (lanes, _, *way), (_, places) = vectors(conv)
    column, size = conv.sizes[2], len(places)
    whole = 4 if way == [1, 1] else -(-column // lanes)
    step = scratch.shared_step(size, size, nanoseconds, whole, copies)
    ends = np.maximum.accumulate(places + (way[1] - 1) * column + min(lanes, column))
    starts = [k for k in range(step, size, step) if ends[k - 1] <= places[k]]
    if conv.taps < CUT_TAPS:
        starts = []
    cuts, at = [0, *starts, size], [0, *places[starts].tolist(), conv.plane]
    return list(zip(map(slice, cuts, cuts[1:]), map(slice, at, at[1:]), strict=True))


@dataclass(frozen=True)
class Depthwise(convolution.Blockwise[ImageChannels]):
    """One input channel per group; `weights` are `[M, taps]`, `offsets` see `tap_offsets`."""

    weights: Array
    offsets: Array
    packed = property(lambda self: [self.weights])

    def _fixed(self, x: Array, out: Array, b: ImageChannels, finish: Fix) -> Piece:
        target = out[b.image, b.channels]
        done = finish(target[:, b.positions], b.image, b.channels, b.positions)
        first = b.channels.start
        if self.conv.compute != np.float32:
            return in_turn([self._sums(x[b.image], target, first, self.weights, b)], done)
        frame = ScratchPlan().array(frames(self.conv), np.float32)
        more = self._more(target, first, b)
        given = x[b.image], self.weights, self.offsets, frame, self._shape, *more
        return in_turn([Recorded.of("depthwise", *given)], done)

    def _block(
        self, x: Array, out: Array, b: ImageChannels, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv, target = self.conv, out[b.image, b.channels]
        total = target if conv.direct else space.array(target.shape, conv.compute)
        first, stop = b.channels.start // conv.outputs, -(-b.channels.stop // conv.outputs)
        part = contiguous(x[b.image, first:stop], conv.compute, space)
        left = first * conv.outputs
        self._sums(part, total, b.channels.start - left, self.weights[left:], b)(space)
        tile, target = (y[:, b.positions] for y in (total, target))
        deliver(target if conv.direct else tile, target, epilogue, b.image, b.channels, b.positions)

    def _sums(
        self, x: Array, total: Array, first: int, weights: Array, b: ImageChannels
    ) -> Callable[[Space], None]:
        """Return the call that computes the channels from `first` on of those of `weights`."""
        taps, shape, size, kind = self.offsets, self._shape, frames(self.conv), self.conv.compute
        more, depthwise = self._more(total, first, b), compiled().depthwise
        x, weights = readable(x), readable(weights)

        def work(space: Space) -> None:
            depthwise(x, weights, taps, space.array(size, kind), shape, *more)

        return work

    def _more(self, total: Array, first: int, b: ImageChannels) -> tuple[Any, ...]:
        """Return the arguments of the compiled loop behind the frame's shape."""
        conv, (kind, both) = self.conv, self._vectors
        places = tuple(p[b.vectors] for p in both)
        axes = tuple((s, a.begin) for s, a in zip(self._shape, conv.axes, strict=False))
        return total.reshape(-1, *conv.sizes), first, conv.outputs, axes, places, kind

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return convolution.phase_shape(self.conv)

    @cached_property
    def _vectors(self) -> tuple[tuple[int, ...], tuple[Array, Array]]:
        return vectors(self.conv)


def frames(conv: convolution.Conv3d) -> tuple[int, int]:
    """Return how many planes are in frames at once, and the elements of each."""
    size = math.prod(convolution.phase_shape(conv)) + convolution.SLACK
    return max(1, min(conv.groups, FRAMED // size)), size


def vectors(conv: convolution.Conv3d) -> tuple[tuple[int, ...], tuple[Array, Array]]:
    """Return the kind and places of the vectors, which may overlap, of a plane; see `plane`."""
    (depth, row, column), axes = conv.sizes, conv.axes
    *_, phases, _, high, wide = convolution.phase_shape(conv)
    lanes = next(n for n in WIDTHS if n <= column and n <= max(8, jit.lanes()))
    if jit.lanes() == 16:  # it has masks: a short row is one vector
        lanes = next((n for n in WIDTHS[2::-1] if n >= column), 16)
    skip, step = axes[2].stride // phases, axes[1].stride * axes[1].dilation
    rows, way = np.arange(row)[:, None], (1, 1)
    if step == skip == axes[0].kernel == 1 and lanes > 4:
        # A row that is read takes as long as two products, mostly, as it is not aligned.
        ways = [(k, n) for k, n in jit.SHARED if k == axes[1].kernel and n <= row]
        way = min(ways, key=lambda w: -(-row // w[1]) * (sum(w) + math.prod(w) / 2), default=way)
        first = np.minimum(np.arange(0, row, way[1]), row - way[1])
        rows = first[:, None] + np.arange(way[1])
    d, i = np.arange(depth), np.minimum(np.arange(0, column, lanes), max(0, column - lanes))
    d, o, i = d[:, None, None, None], rows[:, None], i[:, None]
    reads = ((d * axes[0].stride * high + o * axes[1].stride) * wide + i * skip).reshape(-1)
    writes = ((d * row + o) * column + i).reshape(-1)
    more = -reads.size % 4 if way == (1, 1) else 0
    both = np.pad(reads, (0, more), "edge"), np.pad(writes, (0, more), "edge")
    return (lanes, skip, *way), both


def readable(x: Array) -> Array:
    """Return a view that may only be read: loops are compiled for one kind of arrays, not two."""
    view = x.view()
    view.flags.writeable = False
    return view
