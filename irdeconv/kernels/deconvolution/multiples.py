"""Deconvolution with one input channel per group and taps that never meet (K <= S): multiples.

There is nothing to sum: the outputs of a residue are the input plane times one weight per channel,
written straight to their places. A matrix product would be a narrow one per group.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    Blocking,
    OutputBlock,
    close_tile,
    open_tile,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import MULTIPLES, Passes
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import Candidate, Epilogue
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.scratch import Space, contiguous
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


class _Multiples:
    """The kernel: `filters [C, M/g, *K]`, `step` input channels at a time."""

    def __init__(self, problem: ConvProblem, blocks: Blocking, step: int, w: Array) -> None:
        self.blocks, self.filters = blocks, w[:, 0]
        self.residues = list(geo.residues(geo.axes_of(problem)))
        channels = problem.shape[1]
        self.pieces = pieces(channels, step)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        m = self.filters.shape[1]

        def work(item: tuple[OutputBlock, slice], space: Space) -> None:
            block, some = item
            channels = slice(some.start * m, some.stop * m)
            tile = open_tile(out, block, channels, space)
            if not block.empty:
                part = block.inputs(x[:, some])
                if part.dtype != tile.dtype:
                    part = contiguous(part, tile.dtype, space)
                self._multiply(part, self.filters[some], block, tile)
            close_tile(tile, out, block, channels, epilogue)

        team.each(itertools.product(self.blocks, self.pieces), work)

    def _multiply(self, part: Array, w: Array, block: OutputBlock, tile: Array) -> None:
        tiles = tile.reshape(tile.shape[0], *w.shape[:2], *tile.shape[2:], copy=False)
        for r in self.residues:
            taken, where = block.reaches[r]
            index: Any = (..., *r)
            weights = w[index].reshape(*w.shape[:2], *(1 for _ in r))
            np.multiply(part[:, :, None][taken], weights, out=tiles[where])


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel where it applies."""
    axes = geo.axes_of(problem)
    if problem.shape[1] != problem.groups or any(a.halo for a in axes):
        return []
    m, size = problem.group_outputs, problem.itemsize
    room = max(1, blocking.SIZES.multiples_bytes // size // m // problem.taps)
    blocks = split_output(problem, room)
    most = blocks.most(lambda b: b.columns)
    step = max(1, min(problem.groups, room // most))
    chunks = -(-problem.groups // step)
    work = Passes()
    for block, times in blocks.kinds:
        row, terms = max(1, block.grid[-1]), problem.outputs * problem.taps * block.columns
        done = Passes(items=chunks, calls=chunks * problem.taps, written=terms, rows=terms / row)
        work.add(done, times)
        work.fill(block, problem.outputs, times)
    scratch = size * problem.outputs * problem.taps + tile_bytes(problem, blocks, step * m)
    if problem.narrow:
        scratch += size * step * most
    prepare = partial(_Multiples, problem, blocks, step)
    return [work.candidate("multiples", MULTIPLES, scratch, prepare)]
