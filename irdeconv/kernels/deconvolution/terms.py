"""Deconvolution by one matrix product of all taps, whose terms are added where they belong.

`[taps*M, C] @ [C, block]` reads the input once and computes every term; terms of one residue are
summed on contiguous planes, all residues at once, and every residue is written once. Best with
few output channels, and where no two taps meet (K <= S), when the terms are the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    OutputBlock,
    Store,
    close_tile,
    flat_planes,
    open_tile,
    pad,
    store,
    stores_of,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import PADDED, TERMS, Passes
from irdeconv.kernels.deconvolution.terms_layout import TermsLayout, layouts_of
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, best_of
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import (
    ProductCall,
    aliases,
    matrix,
    pitch,
    product_calls,
    product_cost,
)
from irdeconv.kernels.shared.scratch import ALIGNMENT, Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

SAVED = 0.8  # of the usual blocks' cost
MOST_PREPARED = 64  # pieces of work that are prepared, each in some kilobytes
Calls = list[Callable[[], object]]
ADDED_ROW = 5  # rows that are copied take as long as one that is added to what is there
SLOWED = 1.2  # times as long a product takes where rows of inputs alias


@dataclass(frozen=True, eq=False)
class _ChunkOfTerms:
    """Some output channels of a group, in a block."""

    block: OutputBlock
    group: int
    index: int


@dataclass
class _PreparedTerms:
    """What is done to a chunk's terms, which lie in scratch memory.

    `terms [taps * channels, columns]` take the product, `calls` add them up, `stores` are the sums.
    `products` are the calls of the product of inputs that were copied.
    """

    terms: Array
    calls: Calls
    stores: list[Store]
    products: list[ProductCall] | None = None


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
        at_once = len(layout.blocks) * len(w) > 3  # then the input is gathered once
        self.items: list[list[_ChunkOfTerms]] = []
        for block, group in itertools.product(layout.blocks, range(len(w))):
            some = [_ChunkOfTerms(block, group, i) for i in range(len(self.chunks))]
            self.items += [some] if at_once else [[one] for one in some]
        self._prepares = len(self.items) * len(self.chunks) <= MOST_PREPARED

    def _filter(self, w: Array, group: int, chunk: slice) -> Array:
        slabs = []
        for q in self.shifts:
            taps = geo.group_filters(w, group, q, self.layout.axes)[:, chunk]
            slabs.append(np.moveaxis(taps, (1, 0), (-2, -1)).reshape(-1, taps.shape[0]))
        return np.ascontiguousarray(np.concatenate(slabs))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""

        def work(chunks: list[_ChunkOfTerms], space: Space) -> None:
            first, start = chunks[0], space.used
            source = None
            if not first.block.empty:
                source = self._gather(x, first.block, first.group, space)
            used = space.used
            for chunk in chunks:
                space.release(used)
                self._chunk(source, used > start, chunk, out, space, epilogue)

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
        copied: bool,
        chunk: _ChunkOfTerms,
        out: Array,
        space: Space,
        epilogue: Epilogue | None,
    ) -> None:
        """Compute a chunk of inputs `source [C/g, columns]`, which may lie in scratch memory."""
        some, base = self.chunks[chunk.index], chunk.group * self.layout.problem.group_outputs
        channels, block = slice(base + some.start, base + some.stop), chunk.block
        tile = open_tile(out, block, channels, space)
        if source is not None:
            w = self.filters[chunk.group][chunk.index]
            make = partial(self._prepared, w.shape[0], source, block, tile.shape[1], space)
            made = space.again(chunk, make) if self._prepares else make()
            products = made.products if copied else None
            if products is None:
                products = product_calls(w, source, made.terms[:, : source.shape[1]])
                made.products = products if copied else None
            for fn, left, right, result in products:
                fn(left, right, out=result)
            for call in made.calls:
                call()
            store(made.stores, block, tile)
        close_tile(tile, out, block, channels, epilogue)

    def _prepared(
        self, rows: int, source: Array, block: OutputBlock, count: int, space: Space
    ) -> _PreparedTerms:
        """Return what adds the shifts of `count` channels, and the residues to be stored."""
        layout, width, calls = self.layout, source.shape[1], Calls()
        terms = space.array((rows, pitch(width + layout.beyond(block), source.dtype)), source.dtype)
        kinds = [len(a.counts) for a in layout.axes]
        edge = None
        if layout.padded:
            sums = self._sum_flat(terms[:, :width], block, count, calls)
        elif layout.flat(block):
            calls.append(partial(terms[:, width:].fill, 0))
            sums, edge = self._sum_edged(terms, block, count, space, calls)
        elif layout.halo:
            sums = self._sum_rows(terms[:, :width], block, count, space, calls)
        else:
            sizes = (p.inputs for p in block.parts)
            sums = terms[:, :width].reshape(-1, *sizes, block.count, copy=False)
        host = sums.reshape(*kinds, count, *sums.shape[1:], copy=False)
        rank = len(kinds)
        if layout.padded:  # [*kinds, channels, images, *grid]
            host = host.swapaxes(rank, rank + 1)
        else:  # [*kinds, channels, *grid, images]
            host = host.transpose(*range(rank), 2 * rank + 1, *range(rank, 2 * rank + 1))
        return _PreparedTerms(terms, calls, stores_of(host, edge, block))

    def _slabs(self, terms: Array, *sizes: int) -> list[Array]:
        """Split terms by shift: `[*residues that have it, *sizes]`, of channels and columns."""
        slabs, at, count = [], 0, math.prod(sizes) // terms.shape[1]
        for kinds, members in self.kinds:
            end = at + members * count
            slabs.append(terms[at:end].reshape(*kinds, *sizes, copy=False))
            at = end
        return slabs

    def _sum_flat(self, terms: Array, block: OutputBlock, count: int, calls: Calls) -> Array:
        slabs = self._slabs(terms, count, terms.shape[1])
        total = slabs[0]
        for q, slab in zip(self.shifts[1:], slabs[1:], strict=True):
            offset = min(block.offset(q), terms.shape[1])
            index: Any = (*(slice(k) for k in slab.shape[:-2]), slice(None), slice(offset, None))
            calls.append(_adding(total[index], slab[..., : terms.shape[1] - offset]))
        return total[..., : block.columns].reshape(-1, block.count, *block.grid, copy=False)

    def _sum_edged(
        self, terms: Array, block: OutputBlock, count: int, space: Space, calls: Calls
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
        calls.append(partial(edge.fill, 0))
        vertical, horizontal = self.layout.axes
        for j in range(horizontal.counts[0]):
            plane = flat[0, j]
            for i in range(1, vertical.counts[0]):
                slab, down = flat[i, j], i * vertical.shift * line
                calls.append(_adding(plane[: len(slab), :, down:], slab[..., :-down]))
            if j:
                right, some = j * horizontal.shift, plane.shape[1]
                cells = plane.reshape(*plane.shape[:-1], count, -1)[..., :cut]
                cells = cells.reshape(*cells.shape[:-1], rows + halo_rows, columns, n, copy=False)
                last = cells[..., columns - right :, :]
                calls.append(_adding(edge[:, :some, ..., :right, :], last))
                calls.append(partial(last.fill, 0))
                calls.append(_adding(total[:, :some, right * n :], plane[..., : -right * n]))
        sums = total.reshape(*kinds, count, -1)[..., :cut]
        sums = sums.reshape(-1, rows + halo_rows, columns, n, copy=False)
        return sums, edge.transpose(0, 1, 5, 2, 3, 4)

    def _sum_rows(
        self, terms: Array, block: OutputBlock, count: int, space: Space, calls: Calls
    ) -> Array:
        axes = self.layout.axes
        grid = tuple(p.extent for p in block.parts)
        inputs = tuple(p.inputs for p in block.parts)
        kinds = [len(a.counts) for a in axes]
        total = space.array((*kinds, count, *grid, block.count), terms.dtype)
        for i in range(len(axes)):
            where: Any = (..., slice(inputs[i], None), *(slice(None) for _ in axes[i:]))
            calls.append(partial(total[where].fill, 0))
        for q, slab in zip(self.shifts, self._slabs(terms, count, terms.shape[1]), strict=True):
            starts = [i * a.shift for i, a in zip(q, axes, strict=True)]
            index: Any = (
                *(slice(k) for k in slab.shape[:-2]),
                slice(None),
                *(slice(s, s + n) for s, n in zip(starts, inputs, strict=True)),
            )
            source = slab.reshape(*slab.shape[:-1], *inputs, block.count, copy=False)
            into = total[index]
            calls.append(_adding(into, source) if any(q) else partial(np.copyto, into, source))
        return total.reshape(-1, *grid, block.count)


def _adding(into: Array, more: Array) -> Callable[[], object]:
    return partial(np.add, into, more, into)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel that multiplies by all taps at once."""
    return [_best(problem, padded=False)]


def padded_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return it with inputs that are padded first, where neighbours' terms overlap."""
    halo = any(a.halo for a in geo.axes_of(problem))
    return [_best(problem, padded=True)] if halo else []


def _best(problem: ConvProblem, padded: bool) -> Candidate:
    """Return the cheapest cut; larger blocks than usual, in farther memory, have to save much."""
    usual, *larger = (_candidate(each) for each in layouts_of(problem, padded))
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
            done.rows += ADDED_ROW * m * taps * width / (row * block.count)
        if layout.edged(block):
            done.calls += chunks * (15 + 2 * terms)
            done.rows += 0.3 * m * kinds * layout.cells(block)
    return done
