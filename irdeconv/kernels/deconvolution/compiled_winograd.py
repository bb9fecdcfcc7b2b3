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
from irdeconv.kernels.deconvolution.col2im import AxisTerms, BlockTerms, room_of, start_of, steps_of
from irdeconv.kernels.deconvolution.placed import compiled
from irdeconv.kernels.deconvolution.winograd import MARGIN, Tiling, WinogradDeconvolution, width_of
from irdeconv.kernels.shared.products import pitch
from irdeconv.kernels.shared.team import Space
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
        self.told: dict[tuple[int, int], tuple[int, tuple[Any, ...]]] = {}
        told: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        for block in tiling.blocks:  # many are alike
            lines = tuple(
                AxisTerms.of_tiles(p, t) for p, t in zip(block.parts, tiling.tiles, strict=True)
            )
            for channels in {c.stop - c.start for c in self.chunks}:
                kind = lines, block.count, channels
                if kind not in told:
                    told[kind] = self._tell(*kind, block)
                self.told[id(block), channels] = told[kind]

    def enter(
        self, part: Array, values: Array, first: int, block: OutputBlock, space: Space
    ) -> None:
        """See the base class."""
        if part.dtype != values.dtype or not part.flags.aligned:
            wide = space.array(part.shape, values.dtype)
            wide[...] = part
            part = wide
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
        size, told = self.told[id(block), count]
        compiled().place(terms, y, space.array((size,), terms.dtype), *told)

    def _tell(
        self, lines: tuple[AxisTerms, ...], images: int, channels: int, block: OutputBlock
    ) -> tuple[int, tuple[Any, ...]]:
        """Return the size of the sums of a row, and what the compiled code is told."""
        problem, stride = self.tiling.problem, lines[-1].stride
        sizes = [line.outputs for line in lines] if problem.narrow else problem.sizes
        places = BlockTerms.of(lines, sizes)
        columns = self.tiling.columns(block)
        width = width_of(columns, problem)
        pairs, entries = places.far(self._taps(channels, width))
        room = room_of(abs(places.width), stride)
        steps = columns // images, 0, width, *steps_of(problem, block, 1, channels)
        told = (
            (images, 1, channels),
            (MARGIN, *steps),
            (places.first, places.to, pairs),
            (places.width, stride, places.first_entry, places.vectors(stride, room), entries),
        )
        return stride * room, told

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
