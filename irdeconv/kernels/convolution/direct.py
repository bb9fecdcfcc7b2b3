"""Convolution by the micro-kernel (the extra `fast`), without any columns.

A zero-extended frame of what a block of rows sees is split modulo the strides, so that each tap
reads the vectors of a row at a fixed distance; pointwise, the input itself is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.kernels.compiled.panels import FAR_BYTES, Panels, computed, missed
from irdeconv.kernels.compiled.places import VectorPlaces
from irdeconv.kernels.compiled.recorded import Recorded, Repeated, in_turn
from irdeconv.kernels.convolution.conv3d import COLUMN, Conv3d, as_conv3d
from irdeconv.kernels.convolution.depthwise import compiled
from irdeconv.kernels.convolution.layout import DirectBlock, VectorLayout
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import (
    Candidate,
    Epilogue,
    Estimate,
    Fix,
    Piece,
    best_of,
    deliver,
    shared,
)
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.rates import rate, scaled
from irdeconv.kernels.shared.scratch import ScratchPlace, ScratchPlan, Space, contiguous
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True, kw_only=True)
class DirectRates:
    """Nanoseconds of the kernel."""

    sums: float = rate("sums", 0.122)  # each vector of products that is added
    missed: float = rate("copy", 0.3)  # each vector that competing channels drive out of a cache
    near: float = rate("copy", 0.618)  # each vector that is copied for a tile
    framed: float = rate("copy", 0.00475)  # each element of a frame
    apart: float = rate("strided", 0.238)  # each that is not read beside the one before it
    row: float = rate("call", 1.64)  # each row of a frame
    plane: float = rate("call", 15.2)  # each plane of these
    stored: float = rate("copy", 0.757)  # each vector that is written
    parted: float = rate("call", 0.287)  # each row of a vector's piece
    taken: float = rate("copy", 0.25)  # each element that is converted
    streamed: float = rate("far", 0.00104)  # each byte of weights that are not in a near cache
    block: float = rate("compiled", 987)


DIRECT = DirectRates()


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for floats that are summed in f32, if numba is there."""
    conv = _long_columns(as_conv3d(problem))
    if conv.compute != np.float32 or not jit.available():
        return []
    rates = scaled(DIRECT)
    layouts = list(VectorLayout.all_of(conv))
    best = min(layouts, key=lambda layout: nanoseconds(layout, rates))
    way = shared(_candidate(layout) for layout in best.shares())
    others = (_candidate(layout) for layout in layouts if layout is not best)
    return [best_of(way, (*way.cuts, *others))]


def _long_columns(conv: Conv3d) -> Conv3d:
    """Make a single axis the columns, whose neighbours vectors hold."""
    depth, row, column = conv.axes
    single = column.size == column.out == column.kernel == 1 and column.begin == 0
    return replace(conv, axes=(depth, column, row)) if single else conv


def _candidate(layout: VectorLayout) -> Candidate:
    estimate = Estimate(scaled(DIRECT), lambda rates: nanoseconds(layout, rates))
    conv, tile = layout.conv, layout.tile
    weights = -(-conv.outputs // tile.rows) * tile.rows * conv.channels * conv.taps
    elements = conv.groups * weights + layout.near
    if not layout.bare:
        elements += conv.channels * layout.line
    if not conv.direct:
        rows = layout.shape[1] * layout.shape[4] * layout.shape[0] * layout.shape[3]
        elements += conv.channels * conv.axes[COLUMN].size * rows
        elements += (
            layout.images * layout.outputs * layout.depths * layout.most * layout.sizes[COLUMN]
        )
    return Candidate(
        name="direct",
        cost=estimate.cost,
        scratch=4 * elements + 512,
        prepare=lambda w: DirectConvolution(layout, w),
        items=len(layout.blocks) * conv.groups * -(-conv.outputs // layout.outputs),
        estimate=estimate,
    )


def nanoseconds(layout: VectorLayout, rates: DirectRates) -> float:
    """Return the estimated time."""
    conv, depth = layout.conv, layout.depth
    spent = 0.0
    for count, size in layout.kinds:
        images = size.images
        part = rates.block
        vectors = layout.vectors(size)
        part += rates.sums * computed(layout.outputs, vectors, layout.tile) * depth
        if layout.near:
            runs = 1 if layout.bare else math.prod(size)
            part += rates.near * (vectors + runs) * depth
        elif layout.bare:
            stride = 4 * math.prod(a.size for a in conv.axes)
            part += rates.missed * missed(layout.outputs, depth, vectors, layout.tile, stride)
        if 4 * layout.outputs * depth > FAR_BYTES:
            times = -(-vectors // layout.tile.vectors)
            part += rates.streamed * times * 4 * layout.outputs * depth
        if not layout.bare:
            frames, (*_, height, width) = conv.channels * images, layout.shape
            step = rates.framed if layout.shape[2] == 1 else rates.apart
            planes = rates.plane + height * (rates.row + width * step)
            part += frames * math.prod(layout.shape[:4]) * planes
        part += rates.stored * layout.outputs * vectors
        if not layout.bare and layout.sizes[COLUMN] % jit.lanes():
            part += rates.parted * layout.outputs * math.prod(size)
        if not conv.direct:
            inputs = math.prod(a.size for a in conv.axes)
            part += rates.taken * conv.channels * images * inputs
        spent += count * part
    return spent * conv.groups * -(-conv.outputs // layout.outputs)


@dataclass(frozen=True)
class _Share:
    """Some channels of a block: their weights, and where vectors are read and written."""

    block: DirectBlock
    group: int
    channels: slice
    panels: Panels
    places: list[VectorPlaces]


class DirectConvolution:
    """The kernel."""

    def __init__(self, layout: VectorLayout, w: Array) -> None:
        self.layout, self.conv = layout, layout.conv
        conv = layout.conv
        rows = conv.filter(w).reshape(conv.groups, conv.outputs, -1)
        self._items: list[_Share] = []
        places = {size: layout.places(size) for _, size in layout.kinds}
        for group, matrix in enumerate(rows):
            for some in pieces(conv.outputs, layout.outputs):
                panels = Panels(matrix[some], layout.tile)
                first = group * conv.outputs
                channels = slice(first + some.start, first + some.stop)
                self._items += [
                    _Share(b, group, channels, panels, places[b.size]) for b in layout.blocks
                ]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        conv = self.conv
        data, y = conv.data(x), out.reshape(*out.shape[:2], conv.plane)

        team.each(self._items, lambda item, space: self._block(data, y, item, epilogue, space))

    def fixed(self, x: Array, out: Array, finish: Fix) -> Repeated | None:
        """See `FixedKernel`."""
        conv = self.conv
        if not (conv.direct and x.flags.c_contiguous and x.dtype == np.float32):
            return None
        data, y = conv.data(x), out.reshape(*out.shape[:2], conv.plane)
        return Repeated(tuple(self._recorded(data, y, item, finish) for item in self._items))

    def _recorded(self, x: Array, out: Array, item: _Share, finish: Fix) -> Piece:
        """Write down what `_block` does, for memory that stays where it is."""
        conv, layout, block, channels = self.conv, self.layout, item.block, item.channels
        images, plan, positions = block.images, ScratchPlan(), self._positions(block)
        source, calls = self._recorded_source(x, block, item.group, plan)
        base = (images.start * out.shape[1] + channels.start) * conv.plane + positions.start
        starts = np.arange(channels.stop - channels.start) * conv.plane
        more = out.reshape(-1), starts, base, plan
        work: list[Piece | None] = [*calls]
        work += [item.panels.recorded(source, layout.offsets, p, *more) for p in item.places]
        for i in range(images.start, images.stop):
            work.append(finish(out[i, channels, positions], i, channels, positions))
        return in_turn(work)

    def _positions(self, block: DirectBlock) -> slice:
        """Return which outputs of a plane a block has."""
        *_, height, width = self.layout.sizes
        first = (block.depths.start * height + block.rows.start) * width
        return slice(first, first + block.size.depths * block.size.rows * width)

    def _block(
        self, x: Array, out: Array, item: _Share, epilogue: Epilogue | None, space: Space
    ) -> None:
        """Compute some channels of a block of `out [N, M, positions]`."""
        conv, layout, block, channels = self.conv, self.layout, item.block, item.channels
        images, positions = block.images, self._positions(block)
        source = self._source(x, block, item.group, space)
        count, plane, base = channels.stop - channels.start, conv.plane, 0
        sums = out[images, channels, positions]
        if conv.direct:
            base = (images.start * out.shape[1] + channels.start) * conv.plane + positions.start
        else:
            plane = positions.stop - positions.start
            memory = space.array((sums.shape[0], layout.outputs, plane), conv.compute)
            sums = memory[:, :count]
        flat = (out if conv.direct else memory).reshape(-1)
        starts = np.arange(count) * plane
        used = space.used
        for places in item.places:
            space.release(used)
            item.panels(source, layout.offsets, places, flat, starts, base, space)
        for i, tile in enumerate(sums, images.start):
            target = tile if conv.direct else out[i, channels, positions]
            deliver(tile, target, epilogue, i, channels, positions)

    def _source(self, x: Array, block: DirectBlock, group: int, space: Space) -> Array:
        """Return what the micro-kernel reads of `x [N, C, depth, row, column]`, flat."""
        conv, layout, n = self.conv, self.layout, block.images.start
        inputs = slice(group * conv.channels, (group + 1) * conv.channels)
        if layout.bare:
            image = contiguous(x[n, inputs], conv.compute, space)
            return image.reshape(-1)[block.rows.start :]
        frames = space.array((conv.channels, layout.line), conv.compute)
        begins = self._begins(block)
        part = x[block.images, inputs]
        if not conv.direct:  # no more is converted than is seen
            seen = layout.seen(block)
            part = part[:, :, seen[0], seen[1]]
            begins = [b + s.start for b, s in zip(begins, seen, strict=False)] + begins[2:]
        axes = tuple(zip(layout.shape, begins, strict=False))
        size, used = math.prod(layout.shape), space.used
        for i, image in enumerate(part):
            space.release(used)
            image = contiguous(image, conv.compute, space)
            compiled().fill_all(image, frames, i * size, layout.shape, axes)
        return frames.reshape(-1)

    def _begins(self, block: DirectBlock) -> list[int]:
        """Return where the input begins in a block's frame."""
        depth, row, column = self.conv.axes
        return [
            depth.begin - block.depths.start * depth.stride,
            row.begin - block.rows.start * row.stride,
            column.begin,
        ]

    def _recorded_source(
        self, x: Array, block: DirectBlock, group: int, plan: ScratchPlan
    ) -> tuple[Array | ScratchPlace, list[Recorded]]:
        """Return what the micro-kernel reads, flat, and the calls that write it."""
        conv, layout, images = self.conv, self.layout, block.images
        inputs = slice(group * conv.channels, (group + 1) * conv.channels)
        if layout.bare:
            return x[images.start, inputs].reshape(-1)[block.rows.start :], []
        frames = plan.array((conv.channels, layout.line), np.float32)
        axes = tuple(zip(layout.shape, self._begins(block), strict=False))
        size = math.prod(layout.shape)
        calls = [
            Recorded.of("fill_all", image, frames, i * size, layout.shape, axes)
            for i, image in enumerate(x[images, inputs])
        ]
        return frames.seen(np.ravel), calls
