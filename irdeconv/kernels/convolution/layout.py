"""How the micro-kernel's convolutions are cut, and where their vectors are read and written."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from irdeconv.kernels.compiled.panels import (
    RegisterTile,
    VectorPlaces,
    best_tile,
    near_elements,
    vector_starts,
)
from irdeconv.kernels.convolution.conv3d import COLUMN, ROW, Conv3d
from irdeconv.kernels.shared import blocking, jit, products
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import SHARES
from irdeconv.spec import Array

FLAT, ROWS, GAPS, NEAR = "flat", "rows", "gaps", "near"
LEAST_OUTPUTS = 64  # that are worth reading the same input again
HALOS = 4  # a block has so many times the rows that it shares with the next one, at least


@dataclass(frozen=True)
class DirectBlock:
    """Some rows of an output depth, of some images."""

    images: slice
    depth: int
    rows: slice

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.rows.stop - self.rows.start)


@dataclass(frozen=True)
class VectorLayout:
    """How a convolution is cut into blocks, and how a block's frame and vectors lie in memory.

    `mode`: FLAT, vectors run over rows that follow each other without gaps; ROWS, over each row;
    GAPS, over rows of the frame and what lies between them, also between images, so that short rows
    waste little, and the outputs are taken out of the sums. NEAR, vectors hold neighbours of the
    output, also of several images, and what a tile reads is copied first, which pays where there
    are many outputs. A block has `step` rows; the last one may have fewer, or where FLAT or NEAR a
    few more. `outputs` of a group are computed at a time.
    """

    conv: Conv3d
    mode: str
    step: int
    outputs: int

    @staticmethod
    def all_of(conv: Conv3d) -> list[VectorLayout]:
        """Return the possible ones, with blocks as large as caches allow."""
        found = [
            VectorLayout(conv, mode, conv.plane, conv.outputs) for mode in (NEAR, FLAT, ROWS, GAPS)
        ]
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
        """Whether the output has vectors of this kind."""
        *_, height, width = self.sizes
        if self.mode == FLAT:
            return height * width >= jit.lanes() and (self.bare or self._rows_touch)
        return self.mode != ROWS or width >= jit.lanes()

    @property
    def _rows_touch(self) -> bool:
        """Whether rows of a frame follow each other as those of the output do."""
        column = self.conv.axes[COLUMN]
        return column.span(column.out) == column.out and column.stride == 1

    @cached_property
    def bare(self) -> bool:
        """Whether the input itself is read; then a plane is seen as rows of one position."""
        enough = self.conv.plane >= jit.lanes()
        return self.mode in (FLAT, NEAR) and self.conv.plain and self.conv.direct and enough

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The depths, rows and columns of the output."""
        return (1, self.conv.plane, 1) if self.bare else self.conv.sizes

    @cached_property
    def least(self) -> int:
        """The fewest rows of a block."""
        few = -(-jit.lanes() // self.sizes[COLUMN])
        return min(few, self.sizes[ROW]) if self.mode in (FLAT, NEAR) else 1

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
    def images(self) -> int:
        """The images of a block."""
        conv, (depth, height, _) = self.conv, self.sizes
        if self.mode not in (GAPS, NEAR) or self.bare or depth > 1 or self.step < height:
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
            for d in range(depth)
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
        """The shape `[*phases, depth, row, column]` of a plane's frame."""
        axes = self.conv.axes
        rows = self.sizes[ROW] if self.bare else self.most
        spans = axes[0].span(1), axes[ROW].span(rows), axes[COLUMN].span(axes[COLUMN].out)
        phases = tuple(min(a.stride, s) for a, s in zip(axes, spans, strict=True))
        return (*phases, *(-(-s // p) for s, p in zip(spans, phases, strict=True)))

    def seen(self, block: DirectBlock) -> tuple[slice, slice]:
        """Return the depths and rows of the input that a block's frame shows."""
        axes, shape = self.conv.axes, self.shape
        starts = block.depth, block.rows.start
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

    def run(self, images: int, rows: int) -> int:
        """Return how many positions of the frame vectors run over in a block."""
        if self.mode in (FLAT, NEAR):
            return images * rows * self.sizes[COLUMN]
        between = math.prod(self.shape)
        return (images - 1) * between + (rows - 1) * self.shape[5] + self.sizes[COLUMN]

    @cached_property
    def pitch(self) -> int:
        """How far apart the sums of outputs are, where they are not written to the output."""
        return products.pitch(self.run(self.images, self.most) + jit.lanes(), np.float32)

    @cached_property
    def straight(self) -> bool:
        """Whether sums are written to the output as they are."""
        _, height, width = self.sizes
        whole = self.mode in (FLAT, ROWS) or (self.images == 1 and height * width >= jit.lanes())
        return whole and self.mode != GAPS and self.conv.direct

    def places(self, images: int, rows: int) -> VectorPlaces:
        """Return where the vectors of a block are read and written."""
        lanes, width, tile = jit.lanes(), self.sizes[COLUMN], self.tile
        between = 1 if self.bare else self.shape[5]
        lines = np.arange(rows)[:, None]
        if self.mode == NEAR:
            far = np.arange(images)[:, None, None] * math.prod(self.shape)
            positions = far + (lines * between + np.arange(width))
            return VectorPlaces.copied(positions.ravel(), tile, overlap=self.straight)
        if self.mode == ROWS:
            columns = vector_starts(width)
            reads, writes = lines * between + columns, lines * width + columns
            return VectorPlaces.of(reads.ravel(), writes.ravel(), tile)
        run = self.run(images, rows)
        starts = vector_starts(run) if self.mode == FLAT else np.arange(0, run, lanes)
        return VectorPlaces.of(starts, starts, tile)

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
    def kinds(self) -> list[tuple[int, int, int]]:
        """The blocks that differ: how many there are, their images and rows."""
        counted = Counter((b.images.stop - b.images.start, b.count) for b in self.blocks)
        return [(times, *kind) for kind, times in counted.items()]

    def vectors(self, images: int, rows: int) -> int:
        """Return how many vectors a block has."""
        if self.mode == ROWS:
            return rows * -(-self.sizes[COLUMN] // jit.lanes())
        return -(-self.run(images, rows) // jit.lanes())

    @property
    def depth(self) -> int:
        """The products of a sum."""
        return self.conv.channels * self.conv.taps

    @cached_property
    def tile(self) -> RegisterTile:
        """The tile of the micro-kernel that computes least in vain."""
        depth = self.depth if self.mode == NEAR else 0
        _, images, rows = max(self.kinds)
        return best_tile(self.outputs, self.vectors(images, rows), depth)

    @property
    def near(self) -> int:
        """The elements that are copied for a tile."""
        return near_elements(self.depth, self.tile) if self.mode == NEAR else 0
