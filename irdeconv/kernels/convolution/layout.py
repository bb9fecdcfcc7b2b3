"""How the micro-kernel's convolutions are cut, and where their vectors are read and written."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from irdeconv.kernels.compiled.panels import RegisterTile, best_tile, near_elements, near_vectors
from irdeconv.kernels.compiled.places import ProductColumns, VectorPlaces, vector_starts
from irdeconv.kernels.convolution.conv3d import COLUMN, ROW, Conv3d
from irdeconv.kernels.shared import blocking, jit, products
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import SHARES
from irdeconv.spec import Array

ROWS, GAPS, NEAR = "rows", "gaps", "near"
LEAST_OUTPUTS = 64  # that are worth reading the same input again
HALOS = 4  # a block has so many times the rows that it shares with the next one, at least


class BlockSize(NamedTuple):
    """How many images, output depths and rows a block has."""

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
        """The number of each."""
        cuts = self.images, self.depths, self.rows
        return BlockSize(*(int(cut.stop - cut.start) for cut in cuts))


@dataclass(frozen=True)
class VectorLayout:
    """How a convolution is cut into blocks, and how a block's frame and vectors lie in memory.

    `mode`: ROWS, vectors run over each row; GAPS, over rows of the frame and what lies between
    them, also between images, so that short rows waste little. NEAR, vectors hold neighbours of the
    output, also of several images, and what a tile reads is copied first, which pays where there
    are many outputs. A block has `step` rows; the last one may have fewer, or where the input
    itself is read a few more. `outputs` of a group are computed at a time.
    """

    conv: Conv3d
    mode: str
    step: int
    outputs: int

    @staticmethod
    def all_of(conv: Conv3d) -> list[VectorLayout]:
        """Return the possible ones, with blocks as large as caches allow."""
        found = [VectorLayout(conv, mode, conv.plane, conv.outputs) for mode in (NEAR, GAPS, ROWS)]
        return [replace(k, step=k.room()) for k in found if k.possible]

    def shares(self) -> list[VectorLayout]:
        """Return it and some that are cut smaller, for threads."""
        conv, found = self.conv, [self]
        macs = conv.outputs * conv.channels * conv.taps * conv.plane
        for share in SHARES[1:]:
            if macs < share * blocking.SIZES.direct_macs:
                break
            height = self.sizes[ROW]
            pieces = -(-height // self.step)
            step = max(self.least, -(-height // (pieces * share)))
            if step < self.step:
                found.append(replace(self, step=step))
            outputs = -(-conv.outputs // share)
            if outputs >= LEAST_OUTPUTS:
                found.append(replace(self, outputs=outputs))
        return found

    @property
    def possible(self) -> bool:
        """Whether it differs from the others."""
        return self.mode != ROWS or not (self.bare or self.sizes[COLUMN] == 1)

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
        """Return how many rows of equal blocks stay in a cache."""
        conv, (_, height, width) = self.conv, self.sizes
        depth, row, column = conv.axes
        seen = 1 if self.bare else depth.span(1) * row.stride * column.span(width)
        halo = 0 if self.bare else max(0, row.span(1) - row.stride)
        rows = blocking.SIZES.direct_bytes // (4 * (conv.channels * seen + conv.outputs * width))
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
        most = max(1, (blocking.SIZES.direct_bytes // 4 - more) // each)
        return shares(depth, -(-depth // most))

    @cached_property
    def images(self) -> int:
        """The images of a block."""
        conv, (depth, height, _) = self.conv, self.sizes
        if self.mode == ROWS or self.bare or self.depths < depth or self.step < height:
            return 1
        each = 4 * (conv.channels * math.prod(self.shape) + conv.outputs * conv.plane)
        return shares(conv.images, -(-conv.images * each // blocking.SIZES.direct_bytes))

    @cached_property
    def blocks(self) -> list[DirectBlock]:
        """All blocks in order."""
        depth, height, _ = self.sizes
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
        phases = tuple(min(a.stride, s) for a, s in zip(axes, spans, strict=True))
        return (*phases, *(-(-s // p) for s, p in zip(spans, phases, strict=True)))

    def seen(self, block: DirectBlock) -> tuple[slice, slice]:
        """Return the depths and rows of the input that a block's frame shows."""
        axes, shape = self.conv.axes, self.shape
        starts = block.depths.start, block.rows.start
        spans = [p * s for p, s in zip(shape[:2], shape[3:5], strict=True)]
        found = []
        for axis, start, span in zip(axes, starts, spans, strict=False):
            first = start * axis.stride - axis.begin
            low = min(max(0, first), axis.size)
            found.append(slice(low, max(low, min(axis.size, first + span))))
        return found[0], found[1]

    @cached_property
    def line(self) -> int:
        """How far apart the channels of a frame are."""
        if self.bare:
            return self.conv.plane
        return products.pitch(self.images * math.prod(self.shape) + jit.lanes(), np.float32)

    def run(self, size: BlockSize) -> int:
        """Return how many positions of the frame vectors run over in a block."""
        if self.mode == NEAR or self.bare:
            return math.prod(size) * self.sizes[COLUMN]
        image, plane, row = math.prod(self.shape), math.prod(self.shape[4:]), self.shape[5]
        last = (size.images - 1) * image + (size.depths - 1) * plane + (size.rows - 1) * row
        return last + self.sizes[COLUMN]

    def places(self, size: BlockSize) -> list[VectorPlaces]:
        """Return where the vectors of a block are read and written."""
        conv, width, tile = self.conv, self.sizes[COLUMN], self.tile
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
        if self.mode == NEAR:
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
        """Where each channel's taps are read, counted from the place of the output."""
        channels = np.arange(self.conv.channels)[:, None] * self.line
        taps = np.zeros(1, np.int64) if self.bare else self._taps
        return np.ascontiguousarray((channels + taps).ravel(), np.int64)

    @property
    def _taps(self) -> Array:
        axes, shape = self.conv.axes, self.shape
        taps = np.indices([a.kernel for a in axes]).reshape(3, -1)
        reads = [k * a.dilation for k, a in zip(taps, axes, strict=True)]
        pairs = [divmod(r, p) for r, p in zip(reads, shape, strict=False)]
        place = (*(phase for _, phase in pairs), *(shift for shift, _ in pairs))
        return np.asarray(np.ravel_multi_index(place, shape))

    @cached_property
    def kinds(self) -> list[tuple[int, BlockSize]]:
        """How many blocks there are of each size."""
        counted = Counter(b.size for b in self.blocks)
        return [(times, size) for size, times in counted.items()]

    def vectors(self, size: BlockSize) -> int:
        """Return how many vectors a block has."""
        if self.mode == ROWS:
            return math.prod(size) * -(-self.sizes[COLUMN] // jit.lanes())
        return -(-self.run(size) // jit.lanes())

    @property
    def depth(self) -> int:
        """The products of a sum."""
        return self.conv.channels * self.conv.taps

    @cached_property
    def tile(self) -> RegisterTile:
        """The tile of the micro-kernel that computes least in vain."""
        _, size = max(self.kinds)
        return best_tile(self.outputs, self.vectors(size))

    @property
    def near(self) -> int:
        """The elements that are copied for a tile."""
        if self.mode != NEAR:
            return 0
        most = max(self.vectors(size) for _, size in self.kinds)
        wanted = max(self.tile.vectors, near_vectors(self.depth))
        return near_elements(self.depth, min(most, wanted))
