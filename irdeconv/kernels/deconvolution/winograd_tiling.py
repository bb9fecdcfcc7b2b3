"""How Winograd deconvolutions are cut: tiles, blocks of positions and channels at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.blocking import ITEMS, pieces
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import lanes, pitch

LEAST_READ = 1 << 16  # elements of inputs that are worth a call


@dataclass(frozen=True)
class Tiling:
    """Tiles per axis, blocks of positions, and output channels per chunk.

    `behind` tells whether there are tiles for the zeros behind rows, into which tails are added.
    """

    problem: ConvProblem
    axes: tuple[geo.DeconvAxis, ...]
    tiles: tuple[int, ...]
    blocks: Blocking
    channels: int
    behind: bool = True

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The number of points per axis."""
        return tuple(t + a.counts[0] - 1 for t, a in zip(self.tiles, self.axes, strict=True))

    @cached_property
    def residues(self) -> int:
        """The number of residues of the output."""
        return math.prod(len(a.counts) for a in self.axes)

    def grid(self, block: OutputBlock) -> tuple[int, ...]:
        """The number of tiles per axis."""
        sizes = block.grid if self.behind else [p.inputs for p in block.parts]
        return tuple(-(-s // t) for s, t in zip(sizes, self.tiles, strict=True))

    @cached_property
    def apart(self) -> bool:
        """Whether threads share the blocks, not the channels of one after the other."""
        return len(self.blocks) * self.problem.groups >= ITEMS

    @cached_property
    def cuts(self) -> list[slice]:
        """The input channels of a group, so many as are read at a time."""
        c, positions = self.problem.group_inputs, self.problem.shape[0] * self.problem.positions
        return pieces(c, max(16, -(-c // 8), -(-LEAST_READ // positions)))

    @cached_property
    def items(self) -> int:
        """How many pieces of work threads share at least."""
        if self.apart:
            return len(self.blocks) * self.problem.groups
        return -(-self.problem.group_outputs // self.channels)

    def columns(self, block: OutputBlock) -> int:
        """The number of tiles of a block."""
        return block.count * math.prod(self.grid(block))

    def width(self, block: OutputBlock) -> int:
        """How many columns of a block are multiplied: whole vectors."""
        columns = self.columns(block)
        whole = lanes(columns) if self.behind else -(-columns // jit.lanes()) * jit.lanes()
        return min(whole, pitch(columns, self.problem.compute))

    def pitch(self, block: OutputBlock) -> int:
        """The distance of channels of a block's evaluated inputs."""
        return pitch(self.columns(block), self.problem.compute)
