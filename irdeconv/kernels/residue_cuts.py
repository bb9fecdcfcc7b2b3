"""The ways to cut the micro-kernel's deconvolutions, and the sums of each block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from irdeconv.kernels import deconvolution, jit
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.deconvolution import Blocking, OutputBlock
from irdeconv.kernels.jit import TURNS
from irdeconv.kernels.panels import (
    FAR_BYTES,
    ProductColumns,
    RegisterTile,
    VectorPlaces,
    best_tile,
    computed,
    missed,
    near_elements,
    near_vectors,
    vector_starts,
)
from irdeconv.kernels.products import pitch
from irdeconv.kernels.scratch import shares


@dataclass(frozen=True, kw_only=True)
class ResidueRates:
    """Nanoseconds of the kernel."""

    sums: float = 0.124  # each vector of products that is added
    missed: float = 0.146  # each vector that competing channels drive out of a cache
    near: float = 0.43  # each piece that is copied for a tile
    framed: float = 0.011  # each element of the padded input
    line: float = 1.75  # each row of it
    stored: float = 1.2  # each vector that is written whole
    parted: float = 1.85  # each row of a vector's piece
    filled: float = 0.06  # each zero of outputs that no tap reaches
    streamed: float = 0.003  # each byte of weights that are not in a near cache
    read: float = 0.0097  # each element that a product reads of a block's inputs
    call: float = 118
    block: float = 986
    alone: float = 3640  # each of these that is called from Python


RESIDUES = ResidueRates()
CHANNEL_STEP = 4  # of which the channels of a piece of work are a multiple
COMPETING = 512  # bytes: channels a multiple apart have an eighth of a level 1 cache, or less
NEAR_INPUTS = 1 << 22  # bytes that a far cache keeps from run to run, beside others' data
MOST_CALLS = 1024  # of a layer that are written down: each takes some 50 us
Shift = tuple[int, ...]


@dataclass(frozen=True)
class ResidueProduct:
    """A residue: `shifts` of its taps, the last `extra` only of the first `longer` members."""

    outer: Shift
    members: tuple[int, ...]
    shifts: list[Shift]
    longer: int
    extra: int


GAPS, ROWS, NEAR, APART = "gaps", "rows", "near", "apart"


@dataclass(frozen=True)
class ResidueCut:
    """A cut of the work: blocks of the output, and `channels` of a group at a time.

    `mode`: GAPS, vectors run over the padded inputs in place; ROWS, over each row of them; NEAR,
    over those that some residue needs, which are copied first; APART, the same for each residue,
    which is a product of its own, over the inputs that it needs alone.
    """

    problem: ConvProblem
    mode: str
    blocks: Blocking
    channels: int

    @cached_property
    def axes(self) -> tuple[deconvolution.DeconvAxis, ...]:
        """The spatial axes."""
        return deconvolution.axes_of(self.problem)

    @cached_property
    def products(self) -> list[ResidueProduct]:
        """The products of a block; residues are computed together if they make whole rows."""
        *outer, last = self.axes
        whole = self.mode != APART and last.dilation == 1 and last.stride in TURNS
        whole = whole and len(last.counts) == last.stride
        every = tuple(range(len(last.counts)))
        products = []
        for residue in deconvolution.residues(outer):
            counts = [range(a.counts[r]) for a, r in zip(outer, residue, strict=True)]
            for members in [every] if whole else [(r,) for r in every]:
                # Residues have falling numbers of taps, which differ by one at most.
                least, most = last.counts[members[-1]], last.counts[members[0]]
                longer = sum(last.counts[r] == most for r in members)
                shifts = [
                    shift
                    for columns in (range(least), range(least, most))
                    for shift in itertools.product(*counts, columns)
                ]
                extra = math.prod(map(len, counts)) * (most - least)
                products.append(ResidueProduct(residue, members, shifts, longer, extra))
        return products

    @cached_property
    def steps(self) -> int:
        """The distance in the output of the sums of a residue."""
        return self.axes[-1].stride

    @cached_property
    def bare(self) -> bool:
        """Whether the inputs themselves are read: no used tap lies outside of them.

        Nor do vectors: the last one of a product overlaps the one before it. Copies are made
        piece by piece, so their columns must be neighbours. If taps read them several
        times, channels that compete for the same places in a cache had better be copied, and inputs
        that come from main memory: copying reads them in order.
        """
        if self.problem.narrow or self.blocks.images > 1:
            return False
        bytes_of_channel = 4 * self.problem.positions
        far = math.prod(self.problem.shape[:2]) * bytes_of_channel > NEAR_INPUTS
        if any(a.halo for a in self.axes) and (far or bytes_of_channel % COMPETING == 0):
            return False
        return all(map(self._inside, (block for block, _ in self.blocks.kinds)))

    def _inside(self, block: OutputBlock) -> bool:
        """Whether a block's products read nothing but inputs, whole rows of these."""
        if any(p.first or p.inputs < p.axis.inputs for p in block.parts[1:]):
            return False
        grid, (*outer, last) = tuple(p.inputs for p in block.parts), block.parts
        for product in self.products:
            # The range of computed positions of the grid, counted from the block's first.
            reaches = [p.reach(r)[0] for p, r in zip(outer, product.outer, strict=True)]
            ends = [last.reach(r)[0] for r in product.members]
            reaches.append(slice(min(e.start for e in ends), max(e.stop for e in ends)))
            deep = zip(block.parts, reaches, product.shifts[-1], strict=True)
            if any(u.start + p.first < q * p.axis.shift or u.stop > p.inputs for p, u, q in deep):
                return False
            sizes = [max(0, u.stop - u.start) for u in reaches]
            # From the first position that is computed to the last one, in the flat input.
            run = 1
            for size, many in zip(sizes, grid, strict=True):
                run = (run - 1) * many + size
            if run < jit.lanes() or (self.copies and run != math.prod(sizes)):
                return False
        return True

    def finer(self, share: int) -> list[ResidueCut]:
        """Return those that are cut into so many times as many pieces, by channels or by blocks."""
        found, channels = [], -(-self.channels // (share * CHANNEL_STEP)) * CHANNEL_STEP
        if channels < self.channels:
            found.append(replace(self, channels=channels))
        # Parts of other axes, or of one axis of several images, would be cropped: see `_cropped` of
        # the kernel.
        blocks, axis = self.blocks, self.axes[0]
        parts = -(-axis.size // blocks.heights[0])
        step = shares(-(-axis.size // axis.stride), share * parts) * axis.stride
        if blocks.images > 1:
            blocks = replace(blocks, images=shares(blocks.images, share))
        elif step < blocks.heights[0]:
            blocks = replace(blocks, heights=(step, *blocks.heights[1:]))
        if blocks is not self.blocks:
            found.append(replace(self, blocks=blocks))
        return found

    @property
    def items(self) -> int:
        """The number of pieces of work."""
        chunks = -(-self.problem.group_outputs // self.channels)
        return len(self.blocks) * self.problem.groups * chunks

    def grid(self, block: OutputBlock) -> tuple[int, ...]:
        """The sizes of the data to read: of the padded inputs, or of the inputs themselves."""
        return tuple(p.inputs for p in block.parts) if self.bare else block.grid

    def depth(self, product: ResidueProduct) -> int:
        """The products of each sum."""
        return self.problem.group_inputs * len(product.shifts)

    def rows(self, product: ResidueProduct) -> int:
        """The rows of a product."""
        return self.channels * len(product.members)

    def mean_depth(self, product: ResidueProduct) -> float:
        """The products of each sum, on average."""
        less = product.extra * (1 - product.longer / len(product.members))
        return self.problem.group_inputs * (len(product.shifts) - less)

    def columns(self, block: OutputBlock, product: ResidueProduct) -> ProductColumns:
        """Return a product's columns: reads are in the padded inputs, writes from the block's first
        output on.
        """
        *outer, last = block.parts
        sizes = self.sizes(block)
        images = np.arange(block.count)
        reads, writes = images, images * self.image(block)
        for part, r, grid, size in zip(
            outer, product.outer, self.grid(block), _strides(sizes), strict=False
        ):
            taken, where = part.reach(r)
            reads = (reads[:, None] * grid + np.arange(taken.start, taken.stop)).ravel()
            writes = (
                writes[:, None] + np.arange(where.start, where.stop, where.step) * size
            ).ravel()
        reaches = [last.reach(r) for r in product.members]
        start = min(taken.start for taken, _ in reaches)
        stop = max(taken.stop for taken, _ in reaches)
        taken, where = reaches[0]
        # The first column is that of the first residue, `start` may be another's: then the place
        # is in front of the block, and `lows` leaves out those elements.
        first = where.start - (taken.start - start) * self.steps
        at = np.arange(stop - start)
        lows = np.clip(-first - at * self.steps, 0, self.steps)
        highs = np.clip(last.outputs - first - at * self.steps, 0, self.steps)
        # Only one element of each `steps` is written then; all columns are the residue's own.
        if len(product.members) < self.steps:
            lows, highs = np.zeros_like(lows), np.full_like(highs, self.steps)
        reads = reads[:, None] * self.grid(block)[-1] + start + at
        rows = (len(writes), 1)
        return ProductColumns(
            reads.ravel(),
            (writes[:, None] + first + at * self.steps).ravel(),
            self.steps,
            np.tile(lows, rows).ravel(),
            np.tile(highs, rows).ravel(),
        )

    def sizes(self, block: OutputBlock) -> tuple[int, ...]:
        """The sizes of the output, or of the memory in which a block is summed."""
        if self.problem.narrow:
            return tuple(p.outputs for p in block.parts)
        return self.problem.sizes

    def image(self, block: OutputBlock) -> int:
        """The distance of the images there."""
        planes = self.channels if self.problem.narrow else self.problem.outputs
        return planes * math.prod(self.sizes(block))

    def width(self, block: OutputBlock, product: ResidueProduct) -> int:
        """The number of columns of a row."""
        reaches = [block.parts[-1].reach(r)[0] for r in product.members]
        size: int = max(s.stop for s in reaches) - min(s.start for s in reaches)
        return max(0, size)

    def lines(self, block: OutputBlock, product: ResidueProduct) -> tuple[int, int]:
        """The number of rows of columns, and of those that the run over them has with gaps."""
        lines = run = block.count
        grid = self.grid(block)
        for i, (part, r) in enumerate(zip(block.parts, product.outer, strict=False)):
            taken, _ = part.reach(r)
            size = max(0, taken.stop - taken.start)
            run = (run - 1) * grid[i] + size if run and size else 0
            lines *= size
        return lines, run

    def vectors(self, block: OutputBlock, product: ResidueProduct) -> int:
        """The number of a product's vectors."""
        (lines, run), width = self.lines(block, product), self.width(block, product)
        if not lines or not width:
            return 0
        if self.mode == ROWS and not self.bare:
            return lines * -(-width // jit.lanes())
        if not self.copies:
            run = (run - 1) * self.grid(block)[-1] + width
            return -(-run // jit.lanes())
        return -(-lines * width // jit.lanes())

    @property
    def copies(self) -> bool:
        """Whether the data is copied before it is read."""
        return self.mode in (NEAR, APART)

    def places(self, block: OutputBlock, product: ResidueProduct) -> list[VectorPlaces]:
        """Return the places at which the vectors of a product are read and written."""
        columns = self.columns(block, product)
        if self.copies:
            tile, most = self.tile(product), near_vectors(self.depth(product))
            return VectorPlaces.copied(columns, tile.vectors, overlap=self.bare, most=most)
        width, count = self.width(block, product), len(columns.reads)
        if self.mode == ROWS and not self.bare:
            starts = np.arange(0, count, max(1, width))[:, None] + vector_starts(width, False)
            return [VectorPlaces.lying(columns, starts.ravel())]
        whole = columns.with_gaps()
        return [VectorPlaces.lying(whole, vector_starts(len(whole.reads), self.bare))]

    @cached_property
    def _tiles(self) -> dict[tuple[Shift, tuple[int, ...]], RegisterTile]:
        return {(p.outer, p.members): self._best(p) for p in self.products}

    def tile(self, product: ResidueProduct) -> RegisterTile:
        """The tile of the micro-kernel for a product."""
        return self._tiles[product.outer, product.members]

    def _best(self, product: ResidueProduct) -> RegisterTile:
        most = self.blocks.most(lambda b: self.vectors(b, product))
        return best_tile(self.rows(product), most, len(product.members))

    @cached_property
    def lead(self) -> int:
        """The zeros in front of the padded inputs, which their first ones' taps read."""
        return self.blocks.most(lambda b: b.offset([a.counts[0] - 1 for a in self.axes]))

    @cached_property
    def line(self) -> int:
        """The distance of the channels of the padded inputs."""
        if self.bare:
            return self.problem.positions
        # Residues with fewer outputs than others read up to a row behind.
        columns = self.blocks.most(lambda b: b.columns + math.prod(b.grid[1:]))
        return pitch(self.lead + columns + jit.lanes(), np.float32)

    @property
    def near(self) -> int:
        """The elements that are copied for a tile, at most."""
        return 0 if not self.copies else max(self._near(p) for p in self.products)

    def _near(self, product: ResidueProduct) -> int:
        depth, most = self.depth(product), self.blocks.most(lambda b: self.vectors(b, product))
        wanted = max(self.tile(product).vectors, near_vectors(depth))
        return near_elements(depth, min(most, wanted))

    def nanoseconds(self, rates: ResidueRates) -> float:
        """Return the estimated time."""
        parts = self.problem.groups * -(-self.problem.group_outputs // self.channels)
        total = sum(times * self._block(block, rates) for block, times in self.blocks.kinds)
        products = len(self.products)
        calls = sum(times * (block.count + products) for block, times in self.blocks.kinds)
        if parts * calls > MOST_CALLS:
            total += rates.alone * calls
        return total * parts

    def _block(self, block: OutputBlock, rates: ResidueRates) -> float:
        """Return the estimated time of a block and some channels."""
        c, spent = self.problem.group_inputs, rates.block
        if not block.covered:
            spent += rates.filled * self.channels * block.output_positions
        if not self.bare:
            spent += rates.framed * c * block.columns
            spent += rates.line * c * block.columns / max(1, block.grid[-1])
        whole = sum(4 * self.rows(p) * self.depth(p) for p in self.products)
        for p in self.products:
            rows, depth, tile = self.rows(p), self.depth(p), self.tile(p)
            vectors, width = self.vectors(block, p), self.width(block, p)
            lines, _ = self.lines(block, p)
            spent += rates.call + rates.read * c * block.columns
            spent += rates.sums * computed(rows, vectors, tile) * self.mean_depth(p)
            # A row ends in the middle of a vector.
            parts = lines if width % jit.lanes() or len(p.members) > 1 else 0
            if self.copies:
                spent += rates.near * depth * (vectors + parts)
            else:
                spent += rates.missed * missed(rows, depth, vectors, tile, 4 * self.line)
            stores = len(p.members) if len(p.members) == self.steps else self.steps
            spent += rates.stored * self.channels * vectors * stores
            spent += rates.parted * self.channels * parts
            if whole > FAR_BYTES:
                read = -(-vectors // near_vectors(depth)) if self.copies else 1
                spent += rates.streamed * read * 4 * rows * depth
        return spent


def _strides(sizes: Sequence[int]) -> list[int]:
    """Return the distances of neighbours on each axis."""
    return list(itertools.accumulate(reversed(sizes[1:]), lambda a, b: a * b, initial=1))[::-1]
