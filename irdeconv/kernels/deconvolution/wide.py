"""Deconvolution with wide strides: whole runs of neighbouring outputs at a time.

Where the stride divides the kernel, every residue has equally many taps, and one product
`[positions, taps*C] @ [taps*C, M*residues]` of a block holds the outputs in runs as long as the
last stride. They are placed by one transposed copy instead of a strided write per residue.
"""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    Blocking,
    OutputBlock,
    close_tile,
    open_tile,
    pad,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import WIDE, Passes
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.candidate import Candidate, Epilogue
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import product_cost
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

SHORTEST_RUN = 4  # shorter runs are better written residue by residue


class _Wide:
    """The kernel: `filters[group]` is `[taps * C/g, M/g * residues]`."""

    def __init__(self, problem: ConvProblem, blocks: Blocking, w: Array) -> None:
        self.problem, self.blocks = problem, blocks
        self.axes = geo.axes_of(problem)
        self.c, self.m = w.shape[1:3]
        self.shifts = geo.shifts(self.axes)
        slabs = [
            [geo.group_filters(w, g, q, self.axes).reshape(self.c, -1) for q in self.shifts]
            for g in range(problem.groups)
        ]
        self.filters = [np.ascontiguousarray(np.concatenate(s)) for s in slabs]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""

        def work(item: tuple[OutputBlock, int], space: Space) -> None:
            block, group = item
            channels = slice(group * self.m, (group + 1) * self.m)
            tile = open_tile(out, block, channels, space)
            if not block.empty:
                part = block.inputs(x[:, group * self.c : (group + 1) * self.c])
                self._place(self._product(part, group, block, space), block, tile, space)
            close_tile(tile, out, block, channels, epilogue)

        team.each(itertools.product(self.blocks, range(self.problem.groups)), work)

    def _product(self, part: Array, group: int, block: OutputBlock, space: Space) -> Array:
        """Return all residues `[images, *grid, M/g, *S]` of inputs `[images, C/g, *]`."""
        width = block.columns
        copies = space.array((len(self.shifts), self.c, width), self.problem.compute)
        pad(part, block, copies[0].reshape(self.c, block.count, *block.grid))
        for i, q in enumerate(self.shifts):
            if i:
                offset = min(block.offset(q), width)
                copies[i, :, :offset] = 0
                copies[i, :, offset:] = copies[0, :, : width - offset]
        w = self.filters[group]
        host = space.array((width, w.shape[1]), copies.dtype)
        np.matmul(copies.reshape(-1, width).T, w, out=host)
        return host.reshape(block.count, *block.grid, self.m, *(a.stride for a in self.axes))

    def _place(self, runs: Array, block: OutputBlock, tile: Array, space: Space) -> None:
        """Write runs to their places in `tile [images, M/g, *]`."""
        rank, n = len(self.axes), block.count
        wanted = [slice(p.start - p.first, p.stop - p.first) for p in block.parts]
        runs = runs[(slice(None), *wanted)]
        sizes = runs.shape[1 : rank + 1]
        pairs = [v for i in range(rank) for v in (1 + i, rank + 2 + i)]
        full = space.array(
            (n, self.m, *(s * a.stride for s, a in zip(sizes, self.axes, strict=True))), runs.dtype
        )
        split = [v for s, a in zip(sizes, self.axes, strict=True) for v in (s, a.stride)]
        full.reshape(n, self.m, *split)[...] = runs.transpose(0, rank + 1, *pairs)
        origins = [p.start * p.axis.stride - p.axis.begin - p.lo for p in block.parts]
        into, taken = [], []
        for at, part, size in zip(origins, block.parts, full.shape[2:], strict=True):
            lo, hi = max(0, at), min(part.outputs, at + size)
            into.append(slice(lo, hi))
            taken.append(slice(lo - at, hi - at))
        trailing(tile, into)[...] = trailing(full, taken)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for wide strides where it applies."""
    axes = geo.axes_of(problem)
    if any(a.kernel % a.stride or a.dilation != 1 for a in axes) or axes[-1].stride < SHORTEST_RUN:
        return []
    g, c, m = problem.groups, problem.group_inputs, problem.group_outputs
    residues = math.prod(problem.strides)
    shifts = problem.taps // residues
    room = blocking.SIZES.wide_bytes // problem.itemsize
    blocks = split_output(problem, max(1, room // (m * residues)))
    work, most = Passes(), blocks.most(lambda b: b.columns)
    for block, times in blocks.kinds:
        width, row = block.columns, max(1, block.grid[-1])
        copied, written = shifts * c * width, m * residues * width
        rows = copied / row + written / axes[-1].stride
        done = Passes(copied=copied, written=written, rows=rows, items=1, calls=shifts)
        done.product = product_cost(m * residues, shifts * c, width)
        work.add(done, g * times)
        work.fill(block, problem.outputs, times)
    scratch = problem.itemsize * (most * (shifts * c + 2 * m * residues) + g * c * m * problem.taps)
    scratch += tile_bytes(problem, blocks, m)
    return [work.candidate("wide", WIDE, scratch + 4096, partial(_Wide, problem, blocks))]
