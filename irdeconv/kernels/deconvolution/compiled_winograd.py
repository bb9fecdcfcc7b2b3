"""Winograd deconvolution whose tiles compiled code reads and places (the extra `fast`).

The coefficients of a tile's product are terms of the output, as those of `placed` are: every row is
written once, and tails need neither a pass of their own nor further tiles.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.kernels.deconvolution.blocks import OutputBlock
from irdeconv.kernels.deconvolution.col2im import (
    AxisTerms,
    BlockTerms,
    block_terms,
    start_of,
    steps_of,
)
from irdeconv.kernels.deconvolution.placed import compiled
from irdeconv.kernels.deconvolution.winograd import MARGIN, Tiling, WinogradDeconvolution, width_of
from irdeconv.kernels.shared.products import pitch
from irdeconv.kernels.shared.scratch import Space
from irdeconv.spec import Array


class CompiledWinograd(WinogradDeconvolution):
    """The kernel; its tiling has no tiles behind rows."""

    def __init__(self, tiling: Tiling, w: Array) -> None:
        super().__init__(tiling, w)
        lead = [np.ones((1, 1), w.dtype)] * (3 - len(tiling.tiles))
        self.entering, self.leaving = (
            (*lead, *matrices) for matrices in (self.evaluations, self.interpolations)
        )
        counts = (1,) * len(lead)
        self.shapes = (*counts, *tiling.tiles), (*counts, *tiling.points)
        self.loops: dict[tuple[int, int], tuple[int, tuple[Any, ...]]] = {}
        known: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        axes = [
            [AxisTerms.of_tiles(p, t) for p, t in zip(b.parts, tiling.tiles, strict=True)]
            for b in tiling.blocks
        ]
        for block, terms in zip(tiling.blocks, block_terms(tiling.problem, axes), strict=True):
            for channels in {c.stop - c.start for c in self.chunks}:
                kind = id(terms), block.count, channels
                if kind not in known:  # many are alike
                    known[kind] = terms.sums, self._arguments(terms, block, channels)
                self.loops[id(block), channels] = known[kind]

    def enter(
        self, part: Array, values: Array, first: int, block: OutputBlock, space: Space
    ) -> None:
        """See the base class."""
        if part.dtype != values.dtype or not part.flags.aligned:
            converted = space.array(part.shape, values.dtype)
            converted[...] = part
            part = converted
        lead = (1,) * (5 - part.ndim)
        volume = part.reshape(*part.shape[:2], *lead, *part.shape[2:])
        columns = width_of(self.tiling.columns(block), self.tiling.problem)
        line = pitch(columns, values.dtype)
        host = space.array((math.prod(self.tiling.tiles) * line,), values.dtype)
        at = first * self.width(block), self.width(block), values.shape[1]
        sizes = columns, line, (*lead, *self.tiling.grid(block))
        tiles().entering(values.dtype)(
            volume, host, sizes, values.reshape(-1), at, self.shapes, self.entering
        )

    def leave(
        self,
        terms: Array,
        block: OutputBlock,
        channels: slice,
        tile: Array,
        out: Array,
        space: Space,
    ) -> None:
        """See the base class."""
        count = channels.stop - channels.start
        width = width_of(self.tiling.columns(block), self.tiling.problem)
        rows = self.tiling.residues * count
        sizes = rows, width, pitch(rows * width, terms.dtype)
        tiles().leave(terms, MARGIN, sizes, self.shapes[1], self.leaving)
        start = start_of(self.tiling.problem, block, channels.start)
        y = (tile if tile.dtype != out.dtype else out).reshape(-1)[start:]
        sums, arguments = self.loops[id(block), count]
        compiled().sum_terms(terms, y, space.array((sums,), terms.dtype), *arguments)

    def _arguments(self, terms: BlockTerms, block: OutputBlock, channels: int) -> tuple[Any, ...]:
        """Return what the compiled loop is told besides the arrays."""
        problem, columns = self.tiling.problem, self.tiling.columns(block)
        width = width_of(columns, problem)
        taps = self._taps(channels, width)
        return (
            (block.count, 1, channels),
            (MARGIN, columns // block.count, 0, width, *steps_of(problem, block, 1, channels)),
            terms.rows(taps),
            terms.row(taps),
            (),
        )

    def _taps(self, channels: int, width: int) -> Array:
        """Return where taps lie: each axis has (coefficient, residue), the terms all coefficients,
        then all residues.
        """
        points, residues = self.tiling.points, [len(a.counts) for a in self.tiling.axes]
        rank, count = len(points), math.prod(residues)
        plane = pitch(count * channels * width, self.tiling.problem.compute)
        at = np.arange(math.prod(points))[:, None] * plane + np.arange(count) * channels * width
        at = at.reshape(*points, *residues)
        return at.transpose([i for a in range(rank) for i in (a, rank + a)]).reshape(-1)


@cache
def tiles() -> Any:
    """Import what needs numba."""
    return import_module("irdeconv.kernels.compiled.winograd")
