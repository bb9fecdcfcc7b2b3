"""Deconvolution by one matrix product of all taps, whose terms are added where they belong.

`[taps*M, C] @ [C, block]` reads the input once and computes every term; terms of one residue are
summed on contiguous planes, all residues at once, and every residue is written once. Best with
few output channels, and where no two taps meet (K <= S), when the terms are the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    Blocking,
    OutputBlock,
    close_tile,
    flat_planes,
    open_tile,
    pad,
    put,
    put_edged,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import PADDED, TERMS, Passes
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, best_of
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import (
    CACHED,
    aliases,
    lanes,
    matrix,
    multiply,
    pitch,
    product_cost,
    worth_copying,
)
from irdeconv.kernels.shared.scratch import ALIGNMENT, Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

SAVED = 0.8  # of the usual blocks' cost
SLOWED = 1.2  # times as long a product takes where rows of inputs alias


@dataclass(frozen=True)
class TermsLayout:
    """How the work is cut: blocks of positions, then `channels` output channels at a time."""

    problem: ConvProblem
    axes: tuple[geo.DeconvAxis, ...]
    blocks: Blocking
    channels: int
    padded: bool

    @cached_property
    def copied(self) -> bool:
        """Whether an input whose rows alias is worth a copy."""
        stride = self.problem.positions * self.problem.itemsize
        return worth_copying(self.channels * self.problem.taps, stride)

    @cached_property
    def halo(self) -> bool:
        """Whether terms of different inputs meet."""
        return any(a.halo for a in self.axes)

    def edged(self, block: OutputBlock) -> bool:
        """Whether shifted planes are added flat, and what leaves their rows apart."""
        return self.halo and len(self.axes) == 2 and self.axes[1].halo <= block.parts[1].inputs

    def flat(self, block: OutputBlock) -> bool:
        """Whether inputs without zeros around them are summed like that."""
        return not self.padded and self.edged(block)

    def cells(self, block: OutputBlock) -> int:
        """How many places lie behind the ends of a plane's rows; none if it is not edged."""
        if not self.flat(block):
            return 0
        return block.count * (block.parts[0].inputs + self.axes[0].halo) * self.axes[1].halo

    def beyond(self, block: OutputBlock) -> int:
        """Columns behind those of the product, for rows that only shifted planes reach."""
        if not self.flat(block):
            return 0
        return self.axes[0].halo * block.parts[1].inputs * block.count

    def width(self, block: OutputBlock) -> int:
        """The columns of the product."""
        if self.padded:
            return lanes(block.columns)
        return block.input_positions


def _layouts(problem: ConvProblem, padded: bool) -> Iterator[TermsLayout]:
    """Yield the ways to cut the work: larger blocks compute fewer terms twice."""
    m, c = problem.group_outputs, problem.group_inputs
    room = max(1, blocking.SIZES.terms_bytes // problem.itemsize)
    usual = max(min(blocking.SIZES.terms_columns, CACHED // 2 // c), room // (m * problem.taps))
    most = room // problem.taps
    if problem.narrow or padded or split_output(problem, most).images > 1:  # the inputs are copied
        most = min(most, max(blocking.SIZES.terms_columns, room // c))
    limits = {max(1, min(n, most)) for n in (usual, 4 * usual, 16 * usual, 64 * usual)}
    known: set[int] = set()
    for limit in sorted(limits):
        blocks = split_output(problem, limit)
        if len(blocks) not in known:
            known.add(len(blocks))
            channels = _channels(problem, blocks, room)
            yield TermsLayout(problem, geo.axes_of(problem), blocks, channels, padded)


def _channels(problem: ConvProblem, blocks: Blocking, room: int) -> int:
    """Return how many output channels are computed at a time, in memory for `room` terms."""
    m, most = problem.group_outputs, blocks.most(lambda b: b.columns)
    channels = max(1, min(m, room // (problem.taps * most)))
    macs = m * problem.taps * problem.group_inputs * most
    if len(blocks) * problem.groups == 1 and macs > blocking.SIZES.terms_macs:
        channels = min(channels, -(-m // 2))
    return shares(m, -(-m // channels))


class _Terms:
    """The kernel: `filters[group][chunk]` is `[taps * channels, C/g]`, by shift and residue."""

    def __init__(self, layout: TermsLayout, w: Array) -> None:
        self.layout = layout
        m, step = layout.problem.group_outputs, layout.channels
        self.chunks = pieces(m, step)
        self.shifts = geo.shifts(layout.axes)
        kinds = [
            [min(a.step, a.kernel - i * a.step) for i, a in zip(q, layout.axes, strict=True)]
            for q in self.shifts
        ]
        self.kinds = [(some, math.prod(some)) for some in kinds]
        self.filters = [[self._filter(w, g, c) for c in self.chunks] for g in range(w.shape[0])]
        chunks, groups = list(range(len(self.chunks))), range(len(w))
        at_once = len(layout.blocks) * len(groups) > 3  # then the input is gathered once
        together = [chunks] if at_once else [[i] for i in chunks]
        self.items = list(itertools.product(layout.blocks, groups, together))

    def _filter(self, w: Array, group: int, chunk: slice) -> Array:
        slabs = []
        for q in self.shifts:
            taps = geo.group_filters(w, group, q, self.layout.axes)[:, chunk]
            slabs.append(np.moveaxis(taps, (1, 0), (-2, -1)).reshape(-1, taps.shape[0]))
        return np.ascontiguousarray(np.concatenate(slabs))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""

        def work(item: tuple[OutputBlock, int, list[int]], space: Space) -> None:
            block, group, chunks = item
            source = None if block.empty else self._gather(x, block, group, space)
            used = space.used
            for i in chunks:
                space.release(used)
                self._chunk(source, block, group, i, out, space, epilogue)

        team.each(self.items, work)

    def _gather(self, x: Array, block: OutputBlock, group: int, space: Space) -> Array:
        """Return the inputs `[C/g, columns]`."""
        c = self.layout.problem.group_inputs
        part = block.inputs(x[:, group * c : (group + 1) * c])
        dtype = self.layout.problem.compute
        if self.layout.padded:
            host = matrix(space, c, self.layout.width(block), dtype)
            host[:, block.columns :] = 0
            planes = host[:, : block.columns].reshape(c, block.count, *block.grid)
            pad(part, block, planes)
            return host
        if block.count == 1 and part.strides[-1] == x.itemsize and x.dtype == dtype:
            flat = flat_planes(part[0])
            if flat is not None and not self.layout.copied:
                return flat
        host = matrix(space, c, self.layout.width(block), dtype)
        # Images last: where maps are small, rows of all images are still long.
        host.reshape(c, *part.shape[2:], len(part))[...] = part.transpose(*range(1, part.ndim), 0)
        return host

    def _chunk(
        self,
        source: Array | None,
        block: OutputBlock,
        group: int,
        index: int,
        out: Array,
        space: Space,
        epilogue: Epilogue | None,
    ) -> None:
        chunk, base = self.chunks[index], group * self.layout.problem.group_outputs
        channels = slice(base + chunk.start, base + chunk.stop)
        tile = open_tile(out, block, channels, space)
        if source is not None:
            w, width = self.filters[group][index], source.shape[1]
            line = pitch(width + self.layout.beyond(block), source.dtype)
            terms = space.array((w.shape[0], line), source.dtype)
            multiply(w, source, terms[:, :width])
            if self.layout.flat(block):
                terms[:, width:] = 0
            else:
                terms = terms[:, :width]
            self._place(terms, block, tile, space)
        close_tile(tile, out, block, channels, epilogue)

    def _place(self, terms: Array, block: OutputBlock, tile: Array, space: Space) -> None:
        """Add the shifts and write the residues into `tile [images, channels, *]`."""
        count = tile.shape[1]
        kinds = [len(a.counts) for a in self.layout.axes]
        edge = None
        if self.layout.padded:
            sums = self._sum_flat(terms, block, count)
        elif self.layout.flat(block):
            sums, edge = self._sum_edged(terms, block, count, space)
        elif self.layout.halo:
            sums = self._sum_rows(terms, block, count, space)
        else:
            sums = terms.reshape(-1, *(p.inputs for p in block.parts), block.count)
        host = sums.reshape(*kinds, count, *sums.shape[1:])
        rank = len(kinds)
        if self.layout.padded:  # [*kinds, channels, images, *grid]
            host = host.swapaxes(rank, rank + 1)
        else:  # [*kinds, channels, *grid, images]
            host = host.transpose(*range(rank), 2 * rank + 1, *range(rank, 2 * rank + 1))
        for r in block.order:
            if edge is None:
                put(host[r], r, block, tile)
            else:
                put_edged(host[r], edge[r], r, block, tile)

    def _slabs(self, terms: Array, *sizes: int) -> list[Array]:
        """Split terms by shift: `[*residues that have it, *sizes]`, of channels and columns."""
        slabs, at, count = [], 0, math.prod(sizes) // terms.shape[1]
        for kinds, members in self.kinds:
            end = at + members * count
            slabs.append(terms[at:end].reshape(*kinds, *sizes))
            at = end
        return slabs

    def _sum_flat(self, terms: Array, block: OutputBlock, count: int) -> Array:
        slabs = self._slabs(terms, count, terms.shape[1])
        total = slabs[0]
        for q, slab in zip(self.shifts[1:], slabs[1:], strict=True):
            offset = min(block.offset(q), terms.shape[1])
            index: Any = (*(slice(k) for k in slab.shape[:-2]), slice(None), slice(offset, None))
            into = total[index]
            into += slab[..., : terms.shape[1] - offset]
        return total[..., : block.columns].reshape(-1, block.count, *block.grid)

    def _sum_edged(
        self, terms: Array, block: OutputBlock, count: int, space: Space
    ) -> tuple[Array, Array]:
        """Add whole planes of two axes: the sums and what lies behind the end of their rows.

        Shifted along its rows, a plane's last columns would run into the next row; they are moved
        to the edge `[*residues, channels, images, rows, halo]`, and what is left can be added flat.
        """
        (rows, columns), n = (p.inputs for p in block.parts), block.count
        line, (halo_rows, halo_columns) = columns * n, (a.halo for a in self.layout.axes)
        slabs = self._slabs(terms, count * terms.shape[1])  # shifted, they only run into zeros
        flat = dict(zip(self.shifts, slabs, strict=True))
        total, cut = flat[0, 0], (rows + halo_rows) * line
        kinds = total.shape[:-1]
        edge = space.array((*kinds, count, rows + halo_rows, halo_columns, n), terms.dtype)
        edge[...] = 0
        vertical, horizontal = self.layout.axes
        for j in range(horizontal.counts[0]):
            plane = flat[0, j]
            for i in range(1, vertical.counts[0]):
                slab, down = flat[i, j], i * vertical.shift * line
                part = plane[: len(slab), :, down:]
                part += slab[..., :-down]
            if j:
                right, some = j * horizontal.shift, plane.shape[1]
                cells = plane.reshape(*plane.shape[:-1], count, -1)[..., :cut]
                cells = cells.reshape(*cells.shape[:-1], rows + halo_rows, columns, n, copy=False)
                last = cells[..., columns - right :, :]
                into = edge[:, :some, ..., :right, :]
                into += last
                last[...] = 0
                part = total[:, :some, right * n :]
                part += plane[..., : -right * n]
        sums = total.reshape(*kinds, count, -1)[..., :cut]
        sums = sums.reshape(-1, rows + halo_rows, columns, n)
        return sums, edge.transpose(0, 1, 5, 2, 3, 4)

    def _sum_rows(self, terms: Array, block: OutputBlock, count: int, space: Space) -> Array:
        axes = self.layout.axes
        grid = tuple(p.extent for p in block.parts)
        inputs = tuple(p.inputs for p in block.parts)
        kinds = [len(a.counts) for a in axes]
        total = space.array((*kinds, count, *grid, block.count), terms.dtype)
        for i in range(len(axes)):
            where: Any = (..., slice(inputs[i], None), *(slice(None) for _ in axes[i:]))
            total[where] = 0
        for q, slab in zip(self.shifts, self._slabs(terms, count, terms.shape[1]), strict=True):
            starts = [i * a.shift for i, a in zip(q, axes, strict=True)]
            index: Any = (
                *(slice(k) for k in slab.shape[:-2]),
                slice(None),
                *(slice(s, s + n) for s, n in zip(starts, inputs, strict=True)),
            )
            source = slab.reshape(*slab.shape[:-1], *inputs, block.count)
            if any(q):
                total[index] += source
            else:
                total[index] = source
        return total.reshape(-1, *grid, block.count)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels that multiply by all taps at once."""
    halo = any(a.halo for a in geo.axes_of(problem))
    return [_best(problem, padded) for padded in ([False, True] if halo else [False])]


def _best(problem: ConvProblem, padded: bool) -> Candidate:
    """Return the cheapest cut; larger blocks than usual, in farther memory, have to save much."""
    usual, *larger = (_candidate(each) for each in _layouts(problem, padded))
    best = min(larger, key=lambda c: c.cost, default=usual)
    return best_of(best if best.cost < SAVED * usual.cost else usual, (usual, *larger))


def _reading(layout: TermsLayout, width: int) -> tuple[float, float]:
    """Count the copies of inputs that are not padded, and estimate what their aliasing costs."""
    if layout.padded:
        return 0.0, 1.0
    if layout.blocks.images > 1:
        return 3.5 * layout.problem.group_inputs * width, 1.0
    if layout.copied:  # whole rows
        return 0.4 * layout.problem.group_inputs * width, 1.0
    return 0.0, SLOWED if aliases(layout.problem.positions * layout.problem.itemsize) else 1.0


def _candidate(layout: TermsLayout) -> Candidate:
    problem = layout.problem
    c, m, taps = problem.group_inputs, problem.group_outputs, problem.taps
    kinds = math.prod(len(a.counts) for a in layout.axes)
    work = Passes()
    for block, times in layout.blocks.kinds:
        work.add(_passes(layout, block, kinds), problem.groups * times)
        work.fill(block, problem.outputs, times)
    line = pitch(layout.blocks.most(lambda b: layout.width(b) + layout.beyond(b)), problem.compute)
    elements = line * (layout.channels * taps * 2 + c) + problem.groups * c * m * taps
    elements += layout.channels * kinds * layout.blocks.most(layout.cells)
    scratch = problem.itemsize * elements + 4 * ALIGNMENT
    scratch += tile_bytes(problem, layout.blocks, layout.channels)
    name = "terms-padded" if layout.padded else "terms"
    rates = PADDED if layout.padded else TERMS
    return work.candidate(name, rates, scratch, partial(_Terms, layout))


def _passes(layout: TermsLayout, block: OutputBlock, kinds: int) -> Passes:
    """Count what a block of a group takes."""
    c, m = layout.problem.group_inputs, layout.problem.group_outputs
    taps, chunks = layout.problem.taps, -(-m // layout.channels)
    width, row = layout.width(block), max(1, block.grid[-1])
    copied, slower = _reading(layout, width)
    done = Passes(copied=copied, items=chunks, calls=chunks * kinds, written=m * kinds * width)
    done.product = chunks * slower * product_cost(layout.channels * taps, c, width)
    done.rows = m * kinds * width / row
    if layout.padded:
        done.copied += c * width
        done.rows += c * block.columns / row
    if layout.halo:
        terms = math.prod(a.counts[0] for a in layout.axes)
        done.added += m * taps * width
        done.calls += chunks * 2 * terms
        if not (layout.padded or layout.edged(block)):
            done.rows += m * taps * width / (row * block.count)
        if layout.edged(block):
            done.calls += chunks * (15 + 2 * terms)
            done.rows += 0.3 * m * kinds * layout.cells(block)
    return done
