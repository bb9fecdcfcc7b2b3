"""Convolution by the micro-kernel (the extra `fast`), without columns.

A zero-extended frame of the input of a block of rows is split modulo the strides, so that each tap
reads the vectors of a row at a fixed distance. A pointwise layer reads the input itself.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, products, scratch
from irdeconv.kernels.candidate import (
    SHARES,
    Candidate,
    ConvProblem,
    Epilogue,
    Estimate,
    Fix,
    Piece,
    best_of,
    deliver,
    shared,
)
from irdeconv.kernels.convolution import COLUMN, ROW, Conv3d, as_conv3d, tap_offsets
from irdeconv.kernels.panels import (
    FAR_BYTES,
    IntegerPanels,
    Panels,
    ProductColumns,
    RegisterTile,
    VectorPlaces,
    best_tile,
    computed,
    integer_elements,
    missed,
    near_elements,
    near_vectors,
    packed_offsets,
    row_steps,
    vector_starts,
)
from irdeconv.kernels.recorded_calls import Recorded, Repeated, in_turn
from irdeconv.kernels.scratch import ScratchPlace, ScratchPlan, Space, contiguous, pieces, shares
from irdeconv.kernels.threads import Team

ROWS, GAPS, NEAR, EXACT = "rows", "gaps", "near", "integers"
FINISHED_ROW = 20.0  # nanoseconds by which a plane in parts delays an epilogue
LEAST_OUTPUTS = 64  # that are worth reading the same input again
HALOS = 4  # a block has so many times the rows that it shares with the next one, at least


class BlockSize(NamedTuple):
    """The numbers of a block's images, output depths and rows."""

    images: int
    depths: int
    rows: int


@dataclass(frozen=True)
class DirectBlock:
    """Some rows of an output depth, or all rows of some, of some images."""

    images: slice
    depths: slice
    rows: slice

    @property
    def size(self) -> BlockSize:
        """The numbers of images, depths and rows."""
        cuts = self.images, self.depths, self.rows
        return BlockSize(*(int(cut.stop - cut.start) for cut in cuts))


@dataclass(frozen=True)
class VectorLayout:
    """The blocks of a convolution, and the places of a block's frame and vectors in memory.

    `mode`: ROWS, vectors run over each row; GAPS, over rows of the frame and the gaps between
    them, also between images, so that short rows waste little. NEAR, vectors hold neighbours of the
    output, also of several images, and the inputs of a tile are copied first, which pays if there
    are many outputs; EXACT, the same as integers. A block has `step` rows; the last one may have
    fewer, or a few more if the input itself is read. `outputs` of a group are computed at a time.
    """

    conv: Conv3d
    mode: str
    step: int
    outputs: int

    @staticmethod
    def all_of(conv: Conv3d) -> list[VectorLayout]:
        """Return the possible ones, with blocks as large as caches allow."""
        modes = NEAR, GAPS, ROWS, EXACT
        found = [VectorLayout(conv, mode, conv.plane, conv.outputs) for mode in modes]
        return [replace(k, step=k.room()) for k in found if k.possible]

    def shares(self) -> list[VectorLayout]:
        """Return it and some that are cut smaller, for threads."""
        conv = self.conv
        macs = conv.outputs * conv.channels * conv.taps * conv.plane
        some = (share for share in SHARES[1:] if macs >= share * scratch.SIZES.direct_macs)
        least = min(LEAST_OUTPUTS, conv.outputs)  # with fewer the inputs are read too often
        finer = (layout for share in some for layout in self.finer(share))
        return [self, *(layout for layout in finer if layout.outputs >= least)]

    def finer(self, share: int) -> list[VectorLayout]:
        """Return those that are cut into so many times as many pieces, by rows or by outputs."""
        height = self.sizes[ROW]
        step = max(self.least, -(-height // (-(-height // self.step) * share)))
        rows = self.tile.rows
        outputs = -(-self.outputs // (share * rows)) * rows
        layouts = [replace(self, step=step)] if step < self.step else []
        return layouts + ([replace(self, outputs=outputs)] if outputs < self.outputs else [])

    @property
    def items(self) -> int:
        """The number of pieces of work."""
        return len(self.blocks) * self.conv.groups * -(-self.conv.outputs // self.outputs)

    @property
    def possible(self) -> bool:
        """Whether it differs from the others."""
        if self.mode == EXACT:
            return self.conv.levels is not None and jit.packed_integers() > 0
        return self.mode != ROWS or not (self.bare or self.sizes[COLUMN] == 1)

    @property
    def copies(self) -> bool:
        """Whether the inputs of a tile are copied first."""
        return self.mode in (NEAR, EXACT)

    @cached_property
    def bare(self) -> bool:
        """Whether the input itself is read; then a plane is seen as rows of one position."""
        enough = self.conv.plane >= jit.lanes()
        return self.conv.plain and self.conv.direct and enough

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The depths, rows and columns of the output."""
        return (1, self.conv.plane, 1) if self.bare else self.conv.sizes

    @cached_property
    def least(self) -> int:
        """The fewest rows of a block."""
        return jit.lanes() if self.bare else 1

    def room(self) -> int:
        """Return the number of rows of equal blocks that stay in a cache."""
        conv, (_, height, width) = self.conv, self.sizes
        depth, row, column = conv.axes
        # A single tap reads one of each stride's rows and columns.
        lines = 1 if row.kernel == 1 else row.stride
        across = width if column.kernel == 1 else column.span(width)
        seen = 1 if self.bare else depth.span(1) * lines * across
        halo = 0 if self.bare else max(0, row.span(1) - row.stride)
        rows = scratch.SIZES.direct_bytes // (4 * (conv.channels * seen + conv.outputs * width))
        # A block of few rows would mostly read the rows of the one before it again.
        rows = max(self.least, HALOS * halo // row.stride, min(rows, height), 1)
        if self.bare:  # whole vectors
            return -(-shares(height, -(-height // rows)) // self.least) * self.least
        return shares(height, -(-height // rows))

    @cached_property
    def depths(self) -> int:
        """The output depths of a block."""
        conv, (depth, height, width) = self.conv, self.sizes
        if depth == 1 or self.step < height:
            return 1
        axis = conv.axes[0]
        plane = conv.channels * math.prod(self._shape(1)) // axis.span(1)
        each = plane * axis.stride + conv.outputs * height * width
        more = plane * (axis.span(1) - axis.stride)
        most = max(1, (scratch.SIZES.direct_bytes // 4 - more) // each)
        return shares(depth, -(-depth // most))

    @cached_property
    def images(self) -> int:
        """The images of a block."""
        conv, (depth, height, _) = self.conv, self.sizes
        if self.mode == ROWS or self.bare or self.depths < depth or self.step < height:
            return 1
        each = 4 * (conv.channels * math.prod(self.shape) + conv.outputs * conv.plane)
        return shares(conv.images, -(-conv.images * each // scratch.SIZES.direct_bytes))

    @cached_property
    def blocks(self) -> list[DirectBlock]:
        """All blocks in order."""
        depth, height, _ = self.sizes
        # The last block has at least a whole vector: vectors overlap only within a block.
        cuts = [*range(0, max(1, height - self.least + 1), self.step), height]
        return [
            DirectBlock(n, d, slice(at, stop))
            for n in pieces(self.conv.images, self.images)
            for d in pieces(depth, self.depths)
            for at, stop in pairwise(cuts)
        ]

    @cached_property
    def most(self) -> int:
        """The most rows of a block."""
        height, least = self.sizes[ROW], self.least
        cuts = range(0, max(1, height - least + 1), self.step)
        return max(min(self.step, height), height - cuts[-1])

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape `[*phases, depth, row, column]` of a channel's frame."""
        return self._shape(self.depths)

    def _shape(self, depths: int) -> tuple[int, ...]:
        axes = self.conv.axes
        rows = self.sizes[ROW] if self.bare else self.most
        spans = axes[0].span(depths), axes[ROW].span(rows), axes[COLUMN].span(axes[COLUMN].out)
        # The single tap of an axis reads the first phase alone.
        phases = (1 if a.kernel == 1 else a.stride for a in axes)
        return (*phases, *(-(-s // a.stride) for s, a in zip(spans, axes, strict=True)))

    def seen(self, block: DirectBlock) -> tuple[slice, slice]:
        """Return the depths and rows of the input that a block's frame shows."""
        axes, shape = self.conv.axes, self.shape
        starts = block.depths.start, block.rows.start
        spans = [a.stride * n for a, n in zip(axes, shape[3:5], strict=False)]
        found = []
        for axis, start, span in zip(axes, starts, spans, strict=False):
            first = start * axis.stride - axis.begin
            low = min(max(0, first), axis.size)
            found.append(slice(low, max(low, min(axis.size, first + span))))
        return found[0], found[1]

    @cached_property
    def line(self) -> int:
        """The distance of the channels of a frame."""
        if self.bare:
            return self.conv.plane
        # A vector more, since the last one of the last channel reads behind its row. The pitch
        # keeps channels out of the same sets of the cache.
        return products.pitch(self.images * math.prod(self.shape) + jit.lanes(), np.float32)

    def run(self, size: BlockSize) -> int:
        """Return the number of positions of the frame that vectors run over in a block."""
        if self.copies or self.bare:
            return math.prod(size) * self.sizes[COLUMN]
        image, plane, row = math.prod(self.shape), math.prod(self.shape[4:]), self.shape[5]
        last = (size.images - 1) * image + (size.depths - 1) * plane + (size.rows - 1) * row
        return last + self.sizes[COLUMN]

    def places(self, size: BlockSize) -> list[VectorPlaces]:
        """Return the places at which the vectors of a block are read and written."""
        conv, width, tile = self.conv, self.sizes[COLUMN], self.tile
        # Reads count from the frame's first element, writes from the block's first output.
        row, plane = (1, 0) if self.bare else (self.shape[5], math.prod(self.shape[4:]))
        at, depths, lines = np.ogrid[: size.images, : size.depths, : size.rows, :1][:3]
        starts = at * math.prod(self.shape) + depths * plane + lines * row
        reads = starts + np.arange(width)
        image = conv.groups * conv.outputs * conv.plane
        rows = size.depths * size.rows
        if not conv.direct:  # memory of its own
            image = self.outputs * rows * width
        writes = at * image + (depths * size.rows + lines) * width + np.arange(width)
        columns = ProductColumns(reads.ravel(), writes.ravel())
        if self.copies:
            most = near_vectors(self.depth)
            return VectorPlaces.copied(columns, tile.vectors, overlap=self.bare, most=most)
        if self.mode == ROWS:
            starts = np.arange(0, size.images * rows * width, width)[:, None]
            columns_of_rows = (starts + vector_starts(width, False)).ravel()
            return [VectorPlaces.lying(columns, columns_of_rows)]
        whole = columns.with_gaps()
        return [VectorPlaces.lying(whole, vector_starts(len(whole.reads), self.bare))]

    @cached_property
    def offsets(self) -> Array:
        """The places of each channel's taps, counted from the place of the output."""
        channels = np.arange(self.conv.channels)[:, None] * self.line
        taps = np.zeros(1, np.int64) if self.bare else tap_offsets(self.conv, self.shape)
        every = (channels + taps).ravel()
        if self.mode == EXACT:
            every = packed_offsets(every)
        return np.ascontiguousarray(every, np.int64)

    @cached_property
    def kinds(self) -> list[tuple[int, BlockSize]]:
        """The number of blocks of each size."""
        counted = Counter(b.size for b in self.blocks)
        return [(times, size) for size, times in counted.items()]

    def vectors(self, size: BlockSize) -> int:
        """Return the number of a block's vectors."""
        if self.mode == ROWS:
            return math.prod(size) * -(-self.sizes[COLUMN] // jit.lanes())
        return -(-self.run(size) // jit.lanes())

    @property
    def depth(self) -> int:
        """The products of a sum, those of packed integers together."""
        products = self.conv.channels * self.conv.taps
        return -(-products // jit.packed_integers()) if self.mode == EXACT else products

    @cached_property
    def tile(self) -> RegisterTile:
        """The tile of the micro-kernel that computes the fewest unused elements."""
        _, size = max(self.kinds)
        return best_tile(self.outputs, self.vectors(size))

    @property
    def near(self) -> int:
        """The elements that are copied for a tile."""
        if not self.copies:
            return 0
        most = max(self.vectors(size) for _, size in self.kinds)
        wanted = max(self.tile.vectors, near_vectors(self.depth))
        elements = integer_elements if self.mode == EXACT else near_elements
        return elements(self.depth, min(most, wanted))


@dataclass(frozen=True, kw_only=True)
class DirectRates:
    """Nanoseconds of the kernel."""

    sums: float = 0.122  # each vector of products that is added
    missed: float = 0.3  # each vector that competing channels drive out of a cache
    near: float = 0.618  # each vector that is copied for a tile
    framed: float = 0.00475  # each element of a frame
    apart: float = 0.238  # each that is not read beside the one before it
    row: float = 1.64  # each row of a frame
    plane: float = 15.2  # each plane of these
    stored: float = 0.757  # each vector that is written
    parted: float = 0.287  # each row of a vector's piece
    taken: float = 0.25  # each element that is converted
    streamed: float = 0.00104  # each byte of weights that are not in a near cache
    block: float = 987


DIRECT = DirectRates()


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for floats that are summed in f32, if numba is installed."""
    # Floats that are narrower are converted first; f64 would need other vectors and panels.
    conv = _long_columns(as_conv3d(problem))
    if conv.compute != np.float32 or not jit.available():
        return []
    rates = DIRECT
    # Only the best layout is cut in all ways. The others are kept for `--tune`.
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
    estimate = Estimate(DIRECT, lambda rates: nanoseconds(layout, rates))
    conv, tile = layout.conv, layout.tile
    weights = -(-conv.outputs // tile.rows) * tile.rows * conv.channels * conv.taps
    elements = conv.groups * weights + layout.near
    if not layout.bare:
        elements += conv.channels * layout.line
    if not conv.direct:
        rows = math.prod(a.stride for a in conv.axes[:COLUMN]) * math.prod(layout.shape[3:5])
        # The converted part of the input that a block sees, then its sums.
        elements += conv.channels * conv.axes[COLUMN].size * rows
        elements += (
            layout.images * layout.outputs * layout.depths * layout.most * layout.sizes[COLUMN]
        )
    return Candidate(
        name="integers" if layout.mode == EXACT else "direct",
        cost=estimate.cost,
        scratch=4 * elements + 512,
        prepare=lambda w: DirectConvolution(layout, w),
        items=layout.items,
        estimate=estimate,
    )


def nanoseconds(layout: VectorLayout, rates: DirectRates) -> float:
    """Return the estimated time."""
    conv, depth = layout.conv, layout.depth
    spent = 0.0
    for count, size in layout.kinds:
        images = size.images
        cost = rates.block
        vectors = layout.vectors(size)
        cost += rates.sums * computed(layout.outputs, vectors, layout.tile) * depth
        if layout.near:
            runs = 1 if layout.bare else math.prod(size)
            cost += rates.near * (vectors + runs) * depth
        elif layout.bare:
            stride = 4 * math.prod(a.size for a in conv.axes)
            cost += rates.missed * missed(layout.outputs, depth, vectors, layout.tile, stride)
        if 4 * layout.outputs * depth > FAR_BYTES:
            times = -(-vectors // layout.tile.vectors)
            cost += rates.streamed * times * 4 * layout.outputs * depth
        if not layout.bare:
            frames, (*_, height, width) = conv.channels * images, layout.shape
            step = rates.framed if conv.axes[COLUMN].stride == 1 else rates.apart
            planes = rates.plane + height * (rates.row + width * step)
            cost += frames * math.prod(layout.shape[:4]) * planes
        cost += rates.stored * layout.outputs * vectors
        if not layout.bare and layout.sizes[COLUMN] % jit.lanes():
            cost += rates.parted * layout.outputs * math.prod(size)
        if not conv.direct:
            inputs = math.prod(a.size for a in conv.axes)
            cost += rates.taken * conv.channels * images * inputs
        spent += count * cost
    return spent * conv.groups * -(-conv.outputs // layout.outputs)


def _finished_nanoseconds(layout: VectorLayout) -> float:
    """Return the estimated time; an epilogue takes longer on parts of planes than on whole ones."""
    rows = layout.conv.outputs if layout.step < layout.sizes[ROW] else 0
    return nanoseconds(layout, DIRECT) + FINISHED_ROW * rows


@dataclass(frozen=True)
class _Share:
    """Some channels of a block: their weights, and the places of vectors to read and write."""

    block: DirectBlock
    group: int
    channels: slice
    panels: Panels
    places: list[VectorPlaces]


class DirectConvolution:
    """The kernel."""

    def __init__(self, layout: VectorLayout, w: Array) -> None:
        # Each sum is computed alike, however the work is cut.
        layout = scratch.cut_for_threads(
            layout, VectorLayout.finer, attrgetter("items"), _finished_nanoseconds
        )
        self.layout, self.conv = layout, layout.conv
        conv = layout.conv
        rows = conv.filter(w).reshape(conv.groups * conv.outputs, -1)
        # The steps are those of all rows: a part of them might seem to have others, or none.
        steps = row_steps(rows) if layout.mode == EXACT else None
        self._items: list[_Share] = []
        self.packed: list[Array] = []
        places = {size: layout.places(size) for _, size in layout.kinds}
        for group in range(conv.groups):
            for some in pieces(conv.outputs, layout.outputs):
                first = group * conv.outputs
                channels = slice(first + some.start, first + some.stop)
                # All blocks share the packed weights: they are as large as the filter.
                panels = self._panels(rows[channels], steps if steps is None else steps[channels])
                self.packed.append(panels.packed)
                self._items += [
                    _Share(b, group, channels, panels, places[b.size]) for b in layout.blocks
                ]

    def _panels(self, rows: Array, steps: Array | None) -> Panels:
        tile, levels = self.layout.tile, self.conv.levels
        if self.layout.mode != EXACT:
            return Panels(rows, tile)
        assert steps is not None
        assert levels is not None
        return IntegerPanels(rows, steps, tile, levels)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        conv = self.conv
        data, y = conv.data(x), out.reshape(*out.shape[:2], conv.plane)

        team.each(self._items, lambda item, space: self._block(data, y, item, epilogue, space))

    def fixed(self, x: Array, out: Array, finish: Fix) -> Repeated | None:
        """See `FixedKernel`."""
        # Only memory of f32 that is used as it is can be written down: a table holds addresses.
        conv = self.conv
        if not (conv.direct and x.flags.c_contiguous and x.dtype == np.float32):
            return None
        data, y = conv.data(x), out.reshape(*out.shape[:2], conv.plane)
        return Repeated(tuple(self._recorded(data, y, item, finish) for item in self._items))

    def _recorded(self, x: Array, out: Array, item: _Share, finish: Fix) -> Piece:
        """Record the calls of `_block`, for memory at fixed addresses."""
        conv, layout, block, channels = self.conv, self.layout, item.block, item.channels
        # In order: the frame, the products that read it, the end of each image. Threads take
        # whole pieces, so nothing here waits for another thread.
        images, plan, positions = block.images, ScratchPlan(), self._positions(block)
        source, calls = self._recorded_source(x, block, item.group, plan)
        base = (images.start * out.shape[1] + channels.start) * conv.plane + positions.start
        starts = np.arange(channels.stop - channels.start) * conv.plane
        more = out.reshape(-1), starts, base, plan
        work: list[Piece] = [*calls]
        work += [item.panels.recorded(source, layout.offsets, p, *more) for p in item.places]
        count = range(images.start, images.stop)
        ends = (finish(out[i, channels, positions], i, channels, positions) for i in count)
        return in_turn(work, *ends)

    def _positions(self, block: DirectBlock) -> slice:
        """Return the outputs of a plane that a block has."""
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
        # Sums go straight to the output if it is f32, rows a plane apart. Copies of a tile are
        # not needed any more for the next places, so they take the same memory.
        used = space.used
        for places in item.places:
            space.release(used)
            item.panels(source, layout.offsets, places, flat, starts, base, space)
        for i, tile in enumerate(sums, images.start):
            target = tile if conv.direct else out[i, channels, positions]
            deliver(tile, target, epilogue, i, channels, positions)

    def _source(self, x: Array, block: DirectBlock, group: int, space: Space) -> Array:
        """Return the micro-kernel's data of `x [N, C, depth, row, column]`, flat."""
        conv, layout, n = self.conv, self.layout, block.images.start
        inputs = slice(group * conv.channels, (group + 1) * conv.channels)
        if layout.bare:
            # The planes of channels are the rows, a plane apart. A block only moves the start; its
            # last vector overlaps the one before, so nothing behind the input is read.
            image = contiguous(x[n, inputs], conv.compute, space)
            return image.reshape(-1)[block.rows.start :]
        frames = space.array((conv.channels, layout.line), conv.compute)
        begins = self._begins(block)
        part = x[block.images, inputs]
        if not conv.direct:  # no more is converted than is seen
            seen = layout.seen(block)
            part = part[:, :, seen[0], seen[1]]
            begins = [b + s.start for b, s in zip(begins, seen, strict=False)] + begins[2:]
        axes = tuple((a.stride, b) for a, b in zip(conv.axes, begins, strict=True))
        size, used = math.prod(layout.shape), space.used
        # Images of a channel lie one behind the other in its line, so that one vector may hold the
        # end of one and the beginning of the next.
        for i, image in enumerate(part):
            space.release(used)
            image = contiguous(image, conv.compute, space)
            compiled().fill_all(image, frames, i * size, layout.shape, axes)
        return frames.reshape(-1)

    def _begins(self, block: DirectBlock) -> list[int]:
        """Return the start of the input in a block's frame, for each axis."""
        depth, row, column = self.conv.axes
        return [
            depth.begin - block.depths.start * depth.stride,
            row.begin - block.rows.start * row.stride,
            column.begin,
        ]

    def _recorded_source(
        self, x: Array, block: DirectBlock, group: int, plan: ScratchPlan
    ) -> tuple[Array | ScratchPlace, list[Recorded]]:
        """Return the micro-kernel's data, flat, and the calls that write it."""
        conv, layout, images = self.conv, self.layout, block.images
        inputs = slice(group * conv.channels, (group + 1) * conv.channels)
        if layout.bare:
            return x[images.start, inputs].reshape(-1)[block.rows.start :], []
        frames = plan.array((conv.channels, layout.line), np.float32)
        begins = self._begins(block)
        axes = tuple((a.stride, b) for a, b in zip(conv.axes, begins, strict=True))
        size = math.prod(layout.shape)
        calls = [
            Recorded.of("fill_all", image, frames, i * size, layout.shape, axes)
            for i, image in enumerate(x[images, inputs])
        ]
        return frames.seen(np.ravel), calls


@cache
def compiled() -> Any:
    """Import the module that needs numba."""
    return import_module("irdeconv.kernels.compiled_convolution")
