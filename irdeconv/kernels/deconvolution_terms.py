"""Deconvolution by one product of all taps, and by wide runs.

Terms: `[taps*M, C] @ [C, block]` reads the input once. The terms of a residue are summed on
contiguous planes, all residues at once, and every residue is written once. Best with few output
channels, and without overlap (K <= S), when the terms are the result.

Wide: if the stride divides the kernel, every residue has equally many taps, and one product
`[positions, taps*C] @ [taps*C, M*residues]` holds the outputs in runs as long as the last stride. A
transposed copy places them instead of a strided write per residue; a run of 8 bytes, or each 16
bytes of a longer one, moves as a single element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import deconvolution
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import Candidate, ConvProblem, Epilogue, best_of, trailing
from irdeconv.kernels.deconvolution import (
    Blocking,
    OutputBlock,
    Store,
    close_tile,
    flat_planes,
    lead_columns,
    open_tile,
    pad,
    split_output,
    store,
    stores_of,
    tile_bytes,
)
from irdeconv.kernels.deconvolution_col2im import TERMS, WIDE, Passes
from irdeconv.kernels.products import (
    CACHED,
    ProductCall,
    aliases,
    matrix,
    pitch,
    product_calls,
    product_cost,
    worth_copying,
)
from irdeconv.kernels.scratch import ALIGNMENT, Space, pieces, shares
from irdeconv.kernels.threads import Team


@dataclass(frozen=True)
class TermsLayout:
    """The parts of the work: blocks of positions, then `channels` output channels at a time."""

    problem: ConvProblem
    axes: tuple[deconvolution.DeconvAxis, ...]
    blocks: Blocking
    channels: int

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
        """Whether shifted planes are added flat; elements that leave their rows are set apart."""
        return self.halo and len(self.axes) == 2 and self.axes[1].halo <= block.parts[1].inputs

    def cells(self, block: OutputBlock) -> int:
        """The number of places behind the ends of a plane's rows; none if it is not edged."""
        if not self.edged(block):
            return 0
        return block.count * (block.parts[0].inputs + self.axes[0].halo) * self.axes[1].halo

    def beyond(self, block: OutputBlock) -> int:
        """Columns behind those of the product, for rows that only shifted planes reach."""
        if not self.edged(block):
            return 0
        return self.axes[0].halo * block.parts[1].inputs * block.count


def layouts_of(problem: ConvProblem) -> Iterator[TermsLayout]:
    """Yield the ways to cut the work: larger blocks compute fewer terms twice."""
    m, c = problem.group_outputs, problem.group_inputs
    room = max(1, blocking.SIZES.terms_bytes // problem.itemsize)
    usual = max(min(blocking.SIZES.terms_columns, CACHED // 2 // c), room // (m * problem.taps))
    most = room // problem.taps
    if problem.narrow or split_output(problem, most).images > 1:  # the inputs are copied
        most = min(most, max(blocking.SIZES.terms_columns, room // c))
    limits = {max(1, min(n, most)) for n in (usual, 4 * usual, 16 * usual, 64 * usual)}
    known: set[int] = set()
    for limit in sorted(limits):
        blocks = split_output(problem, limit)
        if len(blocks) not in known:
            known.add(len(blocks))
            channels = _channels(problem, blocks, room)
            yield TermsLayout(problem, deconvolution.axes_of(problem), blocks, channels)


def _channels(problem: ConvProblem, blocks: Blocking, room: int) -> int:
    """Return the number of output channels computed at a time, in memory for `room` terms."""
    m, most = problem.group_outputs, blocks.most(lambda b: b.columns)
    channels = max(1, min(m, room // (problem.taps * most)))
    macs = m * problem.taps * problem.group_inputs * most
    if len(blocks) * problem.groups == 1 and macs > blocking.SIZES.terms_macs:
        channels = min(channels, -(-m // 2))
    return shares(m, -(-m // channels))


SAVED = 0.8  # of the usual blocks' cost
MOST_PREPARED = 64  # pieces of work that are prepared, each in some kilobytes
Calls = list[Callable[[], object]]
ADDED_ROW = 5  # rows that are copied take as long as one that is added to others
SLOWED = 1.2  # times as long a product takes if rows of inputs alias


@dataclass(frozen=True, eq=False)
class _ChunkOfTerms:
    """Some output channels of a group, in a block."""

    block: OutputBlock
    group: int
    index: int


@dataclass
class _PreparedTerms:
    """The work on a chunk's terms, which lie in scratch memory.

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
        self.shifts = deconvolution.shifts(layout.axes)
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
            taps = deconvolution.group_filters(w, group, q, self.layout.axes)[:, chunk]
            slabs.append(np.moveaxis(taps, (1, 0), (-2, -1)).reshape(-1, taps.shape[0]))
        return np.ascontiguousarray(np.concatenate(slabs))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:

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
        if block.count == 1 and part.strides[-1] == x.itemsize and x.dtype == dtype:
            flat = flat_planes(part[0])
            if flat is not None and not self.layout.copied:
                return flat
        host = matrix(space, c, block.input_positions, dtype)
        # Images last: if maps are small, rows of all images are still long.
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
                fn(left, right, result)
            for call in made.calls:
                call()
            store(made.stores, block, tile)
        close_tile(tile, out, block, channels, epilogue)

    def _prepared(
        self, rows: int, source: Array, block: OutputBlock, count: int, space: Space
    ) -> _PreparedTerms:
        """Return the calls that add the shifts of `count` channels, and the residues to store."""
        layout, width, calls = self.layout, source.shape[1], Calls()
        terms = space.array((rows, pitch(width + layout.beyond(block), source.dtype)), source.dtype)
        kinds = [len(a.counts) for a in layout.axes]
        edge = None
        if layout.edged(block):
            calls.append(partial(terms[:, width:].fill, 0))
            sums, edge = self._sum_edged(terms, block, count, space, calls)
        elif layout.halo:
            sums = self._sum_rows(terms[:, :width], block, count, space, calls)
        else:
            sizes = (p.inputs for p in block.parts)
            sums = terms[:, :width].reshape(-1, *sizes, block.count, copy=False)
        host = sums.reshape(*kinds, count, *sums.shape[1:], copy=False)
        rank = len(kinds)  # [*kinds, channels, *grid, images]
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

    def _sum_edged(
        self, terms: Array, block: OutputBlock, count: int, space: Space, calls: Calls
    ) -> tuple[Array, Array]:
        """Add whole planes of two axes: the sums and the elements behind the end of their rows.

        Shifted along its rows, a plane's last columns would run into the next row; they are moved
        to the edge `[*residues, channels, images, rows, halo]`, and the others can be added flat.
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
    """Return the kernel in its cheapest cut; larger blocks than usual must save much."""
    usual, *larger = map(_candidate, layouts_of(problem))
    best = min(larger, key=lambda c: c.cost, default=usual)
    return [best_of(best if best.cost < SAVED * usual.cost else usual, (usual, *larger))]


def _reading(layout: TermsLayout, width: int) -> tuple[float, float]:
    """Count the copies of inputs, and estimate the costs of their aliasing."""
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
    most = layout.blocks.most(lambda b: b.input_positions + layout.beyond(b))
    line = pitch(most, problem.compute)
    elements = line * (layout.channels * taps * 2 + c) + problem.groups * c * m * taps
    elements += layout.channels * kinds * layout.blocks.most(layout.cells)
    scratch = problem.itemsize * elements + 4 * ALIGNMENT
    scratch += tile_bytes(problem, layout.blocks, layout.channels)
    return work.candidate("terms", TERMS, scratch, partial(_Terms, layout))


def _passes(layout: TermsLayout, block: OutputBlock, kinds: int) -> Passes:
    """Count the work of a block of a group."""
    c, m = layout.problem.group_inputs, layout.problem.group_outputs
    taps, chunks = layout.problem.taps, -(-m // layout.channels)
    width, row = block.input_positions, max(1, block.grid[-1])
    copied, slower = _reading(layout, width)
    done = Passes(copied=copied, items=chunks, calls=chunks * kinds, written=m * kinds * width)
    done.product = chunks * slower * product_cost(layout.channels * taps, c, width)
    done.rows = m * kinds * width / row
    if layout.halo:
        terms = math.prod(a.counts[0] for a in layout.axes)
        done.added += m * taps * width
        done.calls += chunks * 2 * terms
        if layout.edged(block):
            done.calls += chunks * (15 + 2 * terms)
            done.rows += 0.3 * m * kinds * layout.cells(block)
        else:
            done.rows += ADDED_ROW * m * taps * width / (row * block.count)
    return done


SHORTEST_RUN = 4  # shorter runs are better written residue by residue
MOVED = {8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}  # the type of a move, by its bytes


class _Wide:
    """The kernel: `filters[group]` is `[taps * C/g, M/g * residues]`."""

    def __init__(self, problem: ConvProblem, blocks: Blocking, w: Array) -> None:
        self.problem, self.blocks = problem, blocks
        self.axes = deconvolution.axes_of(problem)
        self.c, self.m = w.shape[1:3]
        self.shifts = deconvolution.shifts(self.axes)
        slabs = [
            [
                deconvolution.group_filters(w, g, q, self.axes).reshape(self.c, -1)
                for q in self.shifts
            ]
            for g in range(problem.groups)
        ]
        self.filters = [np.ascontiguousarray(np.concatenate(s)) for s in slabs]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:

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
        for r in deconvolution.residues(self.axes[:-1]):
            reaches = [p.reach(i) for p, i in zip(outer, r, strict=True)]
            taken: Any = (slice(None), slice(None), *r, *(rows for rows, _ in reaches))
            lines = trailing(tile, (*(where for _, where in reaches), slice(None)))
            _place_lines(source[taken], lines, last)


def _is_whole(part: deconvolution.OutputSpan) -> bool:
    """Whether the part consists of all outputs of some grown positions."""
    a = part.axis
    return part.start * a.stride - a.begin == part.lo and part.stop * a.stride - a.begin == part.hi


def _place_lines(runs: Array, lines: Array, part: deconvolution.OutputSpan) -> None:
    """Write runs `[..., grown positions, S]` into `lines [..., outputs]`; some may be cut off."""
    a, count = part.axis, part.outputs
    origin = part.first * a.stride - a.begin - part.lo  # landing of the first grown position
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
    """Return the type by which runs are moved, if that is wider than their elements."""
    wide = [size for size in MOVED if size > itemsize and stride * itemsize % size == 0]
    return MOVED[max(wide)] if wide else None


def wide_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for wide strides if it applies."""
    axes = deconvolution.axes_of(problem)
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
