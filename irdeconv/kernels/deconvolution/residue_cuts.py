"""How the micro-kernel's deconvolutions are cut, and what each block's sums are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.kernels.compiled import ZIPPED
from irdeconv.kernels.compiled.panels import FAR_BYTES, RegisterTile, best_tile, padded
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import pitch
from irdeconv.spec import Array


@dataclass(frozen=True, kw_only=True)
class ResidueRates:
    """Nanoseconds of the kernel."""

    sums: float = 0.15  # each vector of products that is added
    near: float = 0.5  # each vector that is copied for a tile
    framed: float = 0.2  # each element of the padded input
    line: float = 12.0  # each row of it
    row: float = 16.0  # each row of the output
    written: float = 0.3  # each element of it, written by vectors in turns
    strided: float = 1.3  # each element of it, written alone
    streamed: float = 0.01  # each byte of weights that are not in a near cache
    call: float = 2000.0
    block: float = 9000.0


RESIDUES = ResidueRates()
Shift = tuple[int, ...]


@dataclass(frozen=True)
class ResidueProduct:
    """Residues with equally many taps, and these taps' shifts."""

    members: list[Shift]
    shifts: list[Shift]


def products_of(axes: Sequence[geo.DeconvAxis]) -> list[ResidueProduct]:
    """Put residues with equally many taps together."""
    members: dict[Shift, list[Shift]] = {}
    for r in geo.residues(axes):
        members.setdefault(tuple(a.counts[i] for a, i in zip(axes, r, strict=True)), []).append(r)
    return [
        ResidueProduct(residues, list(np.ndindex(*counts))) for counts, residues in members.items()
    ]


GAPS, NEAR, APART = "gaps", "near", "apart"


@dataclass(frozen=True)
class ResidueCut:
    """How the work is cut: blocks of the output, and `channels` of a group at a time.

    `mode`: GAPS, vectors run over the padded inputs as they lie; NEAR, over those that some residue
    needs, which are copied for each tile; APART, each residue is a product of its own, over what it
    needs.
    """

    problem: ConvProblem
    mode: str
    blocks: Blocking
    channels: int

    @cached_property
    def axes(self) -> tuple[geo.DeconvAxis, ...]:
        """The spatial axes."""
        return geo.axes_of(self.problem)

    @cached_property
    def products(self) -> list[ResidueProduct]:
        """The residues that a product computes together, and the shifts of their taps."""
        together = products_of(self.axes)
        if self.mode != APART:
            return together
        return [ResidueProduct([r], f.shifts) for f in together for r in f.members]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of residues of each axis."""
        return tuple(len(a.counts) for a in self.axes)

    def box(self, block: OutputBlock) -> ResidueSums:
        """Return what a block's sums are."""
        return ResidueSums.of(block, self.mode)

    def vectors(self, block: OutputBlock) -> int:
        """How many vectors the sums of a residue have."""
        return -(-self.box(block).size // jit.lanes())

    @cached_property
    def most(self) -> int:
        """The most vectors of a block."""
        return self.blocks.most(self.vectors)

    def depth(self, family: ResidueProduct) -> int:
        """The products of each sum."""
        return self.problem.group_inputs * len(family.shifts)

    def tile(self, family: ResidueProduct) -> RegisterTile:
        """The tile of the micro-kernel for a family."""
        rows, depth = self.channels * len(family.members), self.depth(family)
        return best_tile(rows, self.most, depth if self.mode != GAPS else 0)

    @cached_property
    def lead(self) -> int:
        """The zeros in front of the padded inputs, which their first ones' taps read."""
        return self.blocks.most(lambda b: b.offset([a.counts[0] - 1 for a in self.axes]))

    @cached_property
    def line(self) -> int:
        """How far apart the channels of the padded inputs are."""
        # Residues with fewer outputs than others read up to a row behind.
        columns = self.blocks.most(lambda b: b.columns + math.prod(b.grid[1:]))
        return pitch(self.lead + columns + jit.lanes(), np.float32)

    @cached_property
    def pitch(self) -> int:
        """How far apart the sums of residues are."""
        return pitch(self.most * jit.lanes(), np.float32)

    def nanoseconds(self, rates: ResidueRates) -> float:
        """Return the estimated time."""
        problem, total = self.problem, 0.0
        c = problem.group_inputs
        for block, times in self.blocks.kinds:
            box = self.box(block)
            vectors = self.vectors(block)
            spent = rates.block + rates.framed * c * block.columns
            spent += rates.line * c * block.columns / max(1, block.grid[-1])
            for f in self.products:
                rows, depth, tile = self.channels * len(f.members), self.depth(f), self.tile(f)
                spent += rates.call + rates.sums * padded(rows, vectors, tile) * depth
                if self.mode != GAPS:
                    spent += rates.near * depth * (vectors + box.size / box.sizes[-1])
                if 4 * rows * depth > FAR_BYTES:
                    times_read = -(-vectors // tile.vectors)
                    spent += rates.streamed * times_read * 4 * rows * depth
            outputs = self.channels * block.output_positions
            in_turns = self.axes[-1].stride in (1, *ZIPPED)
            spent += (rates.written if in_turns else rates.strided) * outputs
            spent += rates.row * outputs / block.parts[-1].outputs
            total += times * spent
        return total * problem.groups * -(-problem.group_outputs // self.channels)


@dataclass(frozen=True)
class ResidueSums:
    """The sums of a block's residues: `[images, *sizes]` grown positions of each.

    `origins` are the first ones along each axis for each residue of it, counted in the padded
    inputs.
    """

    images: int
    sizes: tuple[int, ...]
    origins: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many sums a residue has."""
        return self.images * math.prod(self.sizes)

    @staticmethod
    def of(block: OutputBlock, mode: str) -> ResidueSums:
        """Find it."""
        sizes, origins = [], []
        for i, part in enumerate(block.parts):
            residues = len(part.axis.counts)
            spans = [part.reach(r)[0] for r in range(residues)]
            start, stop = part.start - part.first, part.stop - part.first
            if mode == APART:
                size = max(max(s.stop - s.start for s in spans), 1)
                first = [s.start if s.stop > s.start else 0 for s in spans]
            elif mode == NEAR or (i == 0 and block.count == 1):
                size, first = max(1, stop - start), [start] * residues
            else:
                size, first = block.grid[i], [0] * residues
            sizes.append(size)
            origins.append(tuple(first))
        return ResidueSums(block.count, tuple(sizes), tuple(origins))

    def positions(self, residue: Shift, grid: Sequence[int]) -> Array:
        """Return where in the padded inputs a residue's grown positions lie."""
        at = np.arange(self.images)
        for size, first, r, extent in zip(self.sizes, self.origins, residue, grid, strict=True):
            at = (at * extent)[..., None] + first[r] + np.arange(size)
        return at.ravel()
