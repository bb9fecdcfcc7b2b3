"""Deconvolution whose outputs are placed in runs as long as the last stride.

Where the stride divides the kernel, every residue has equally many taps, and one product
`[positions, taps*C] @ [taps*C, M*residues]` of a block holds the outputs in such runs. They are
placed by a transposed copy instead of a strided write per residue; a run of 8 bytes, or each 16
bytes of a longer one, is moved as a single element.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    Blocking,
    OutputBlock,
    close_tile,
    flat_planes,
    lead_columns,
    open_tile,
    pad,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import WIDE, Passes
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.candidate import Candidate, Epilogue
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import matrix, pitch, product_cost
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

SHORTEST_RUN = 4  # shorter runs are better written residue by residue
MOVED = {8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}  # what is moved as one, by its bytes


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
                self._place(self._product(part, group, block, space), block, tile)
            close_tile(tile, out, block, channels, epilogue)

        team.each(itertools.product(self.blocks, range(self.problem.groups)), work)

    def _product(self, part: Array, group: int, block: OutputBlock, space: Space) -> Array:
        """Return all residues `[images, *grid, M/g, *S]` of inputs `[images, C/g, *]`."""
        source, w, skip = self._source(part, block, space), self.filters[group], lead_columns(block)
        host = matrix(space, source.shape[1], w.shape[1], source.dtype)
        np.matmul(source[:, skip:].T, w, out=host[skip:])
        sizes = block.count, *block.grid, self.m, *(a.stride for a in self.axes)
        return host.reshape(sizes, copy=False)

    def _source(self, part: Array, block: OutputBlock, space: Space) -> Array:
        """Return `[shifts * C/g, columns]`: the padded inputs, read some positions back."""
        if len(self.shifts) == 1 and block.count == 1 and part.dtype == self.problem.compute:
            flat = flat_planes(part[0])
            if flat is not None:
                return flat
        width = block.columns
        copies = space.array((len(self.shifts), self.c, width), self.problem.compute)
        pad(part, block, copies[0].reshape(self.c, block.count, *block.grid))
        for i, q in enumerate(self.shifts):
            if i:
                offset = min(block.offset(q), width)
                copies[i, :, :offset] = 0
                copies[i, :, offset:] = copies[0, :, : width - offset]
        return copies.reshape(-1, width)

    def _place(self, runs: Array, block: OutputBlock, tile: Array) -> None:
        """Write runs `[images, *grid, M/g, *S]` to their places in `tile [images, M/g, *]`."""
        rank, (*outer, last) = len(self.axes), block.parts
        if all(_is_whole(p) for p in outer):  # a single copy
            rows = [p.reach(0)[0] for p in outer]
            pairs = [v for i in range(rank - 1) for v in (1 + i, rank + 2 + i)]
            source = runs[(slice(None), *rows)].transpose(0, rank + 1, *pairs, rank, 2 * rank + 1)
            sizes = [v for p in outer for v in (p.outputs // p.axis.stride, p.axis.stride)]
            into = tile.reshape(*tile.shape[:2], *sizes, tile.shape[-1], copy=False)
            _place_lines(source, into, last)
            return
        source = runs.transpose(0, *range(rank + 1, 2 * rank + 1), *range(1, rank + 1), -1)
        for r in geo.residues(self.axes[:-1]):
            reaches = [p.reach(i) for p, i in zip(outer, r, strict=True)]
            taken: Any = (slice(None), slice(None), *r, *(rows for rows, _ in reaches))
            lines = trailing(tile, (*(where for _, where in reaches), slice(None)))
            _place_lines(source[taken], lines, last)


def _is_whole(part: geo.OutputSpan) -> bool:
    """Whether the part consists of all outputs of some grown positions."""
    a = part.axis
    return part.start * a.stride - a.begin == part.lo and part.stop * a.stride - a.begin == part.hi


def _place_lines(runs: Array, lines: Array, part: geo.OutputSpan) -> None:
    """Write runs `[..., grown positions, S]` into `lines [..., outputs]`; some may be cut off."""
    a, count = part.axis, part.outputs
    origin = part.first * a.stride - a.begin - part.lo  # where the first grown position lands
    start, stop = part.start - part.first, part.stop - part.first
    low, high = max(start, -(origin // a.stride)), min(stop, (count - origin) // a.stride)
    for at in {*range(start, min(low, stop)), *range(max(high, start), stop)}:
        first = origin + at * a.stride
        cut = slice(max(0, -first), min(a.stride, count - first))
        lines[..., first + cut.start : first + cut.stop] = runs[..., at, cut]
    if low >= high:
        return
    source, first = runs[..., low:high, :], origin + low * a.stride
    into = lines[..., first : first + (high - low) * a.stride]
    moved = _moved(a.stride, runs.itemsize)
    if moved is not None:
        source, into = source.view(moved), into.view(moved)
    into.reshape(source.shape, copy=False)[...] = source


def _moved(stride: int, itemsize: int) -> np.dtype[Any] | None:
    """Return the type by which runs are moved, where that is wider than their elements."""
    wide = [size for size in MOVED if size > itemsize and stride * itemsize % size == 0]
    return MOVED[max(wide)] if wide else None


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
    each = _moved(axes[-1].stride, problem.itemsize)
    for block, times in blocks.kinds:
        width, row = block.columns, max(1, block.grid[-1])
        copied, outputs = shifts * c * width, m * residues * width
        moved = outputs * problem.itemsize / each.itemsize if each else outputs
        runs = outputs / axes[-1].stride
        rows = moved / row if moved == runs else runs  # NumPy's innermost loop goes along a run
        done = Passes(copied=copied + outputs, written=moved, rows=rows + copied / row)
        done.items, done.calls = 1, shifts
        done.product = product_cost(m * residues, shifts * c, width)
        work.add(done, g * times)
        work.fill(block, problem.outputs, times)
    line = shifts * c + pitch(m * residues, problem.compute)
    scratch = problem.itemsize * (most * line + g * c * m * problem.taps)
    scratch += tile_bytes(problem, blocks, m)
    return [work.candidate("wide", WIDE, scratch + 4096, partial(_Wide, problem, blocks))]
