"""Deconvolution by compiled code that visits each row of the output once (the extra `fast`).

*placed*: as in `terms`, `[taps*M, C] @ [C, positions]` computes every term; the
compiled loop adds the terms that reach a row in registers and writes its residues interleaved.
NumPy needs a pass per tap for that, and a loop of its own for every row. *spread*: with few
channels per group the same loop multiplies the inputs by the taps itself.

How the kernels that write row by row are cut, and what they cost.

Deconvolution with one input channel per group and taps that never meet (K <= S): multiples.

There is nothing to sum: the outputs of a residue are the input plane times one weight per channel,
written straight to their places. A matrix product would be a narrow one per group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import deconvolution as geo
from irdeconv.kernels import deconvolution_terms as products
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import SHARES, Candidate, ConvProblem, Epilogue, Estimate, shared
from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import (
    ROUGHLY,
    Blocking,
    OutputBlock,
    close_tile,
    open_tile,
    split_output,
    tile_bytes,
    whole_output,
)
from irdeconv.kernels.deconvolution_col2im import (
    MULTIPLES,
    BlockTerms,
    Chunk,
    Passes,
    RowLayout,
    halves,
    start_of,
    steps_of,
)
from irdeconv.kernels.jit import available, load
from irdeconv.kernels.machine import rate, scaled
from irdeconv.kernels.products import aliases, pitch, worth_copying
from irdeconv.kernels.scratch import ALIGNMENT, Space, contiguous, pieces, shares
from irdeconv.kernels.threads import Team


@dataclass(frozen=True)
class _Item:
    """A chunk of a block: where its channels, inputs and sums are, and the loop's arguments."""

    block: OutputBlock
    channels: slice
    inputs: tuple[slice, ...]
    columns: int
    start: int
    sums: int
    filter: Any
    arguments: tuple[Any, ...]


class _RowKernel:
    """What both kernels share: the items of work, and the call of the compiled loop."""

    def __init__(self, layout: RowLayout, filters: Sequence[Any], loop: Any) -> None:
        self.problem, self.loop = layout.problem, loop
        self.items: list[_Item] = []
        c, m = self.problem.group_inputs, self.problem.group_outputs
        known: dict[Any, tuple[Any, ...]] = {}
        for block, terms in zip(layout.blocks, layout.terms, strict=True):
            for i, (chunk, w) in enumerate(zip(layout.chunks, filters, strict=True)):
                kind = id(terms), block.count, i
                if kind not in known:
                    known[kind] = self._arguments(terms, block, chunk, w)
                first = chunk.groups.start * m + chunk.channels.start
                inputs = slice(chunk.groups.start * c, chunk.groups.stop * c)
                item = _Item(
                    block=block,
                    channels=slice(first, first + (chunk.count - 1) * m + chunk.width),
                    inputs=(block.images, inputs, *(slice(p.first, p.last) for p in block.parts)),
                    columns=block.input_positions,
                    start=start_of(self.problem, block, first),
                    sums=terms.sums,
                    filter=w,
                    arguments=known[kind],
                )
                self.items.append(item)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """Return what the compiled loop is told besides the arrays."""
        raise NotImplementedError

    def _counts(self, block: OutputBlock, chunk: Chunk, *steps: int) -> tuple[Any, ...]:
        """Return numbers and distances of images, groups and outputs, `steps` in the source."""
        far = steps_of(self.problem, block, chunk.count, chunk.width)
        return (block.count, chunk.count, chunk.width), (LANES, *steps, *far)

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """Return what the compiled code reads, with `LANES` elements around it."""
        raise NotImplementedError

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        flat, narrow = out.reshape(-1), self.problem.narrow

        def work(item: _Item, space: Space) -> None:
            source = self.source(x, item, space)
            if epilogue is None and not narrow:
                self._write(source, flat[item.start :], item, space)
                return
            tile = item.block.box(out)[:, item.channels]
            y = flat
            if narrow:
                tile = space.array(tile.shape, source.dtype)
                y = tile.reshape(-1)
            self._write(source, y[item.start :], item, space)
            close_tile(tile, out, item.block, item.channels, epilogue)

        team.each(self.items, work)

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        sums = space.array((item.sums,), source.dtype)
        self.loop(source, out, sums, *item.arguments)


class PlacedTerms(_RowKernel):
    """Terms by a product; a chunk's filter is `[groups, taps * channels, C/g]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        load()
        from irdeconv.kernels.compiled_sums import copy_terms, sum_terms

        rows = w.reshape(*w.shape[:3], -1).transpose(0, 3, 2, 1)  # [g, taps, M/g, C/g]
        most, filters = layout.blocks.most(lambda b: b.input_positions), []
        for c in layout.chunks:
            part = np.ascontiguousarray(rows[c.groups, :, c.channels])
            matrices = part.reshape(len(part), -1, part.shape[-1])
            filters.append(products.TermProducts(matrices, most))
        self.single = all(terms.single for terms in layout.terms)
        super().__init__(layout, filters, copy_terms if self.single else sum_terms)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """See the base class; rows of terms are a pitch apart."""
        width, count = block.input_positions, self.problem.taps
        line = pitch(width, self.problem.compute)
        tap = chunk.width * line
        taps = np.arange(count) * tap
        counts = self._counts(block, chunk, width // block.count, count * tap, line)
        rows = terms.rows(taps)
        if self.single:
            return *counts, rows, terms.single_row(taps)
        return *counts, rows, terms.row(taps), ()

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        if self.single:
            self.loop(source, out, *item.arguments)
        else:
            super()._write(source, out, item, space)

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        x = self._gather(x, item, space)
        product, line = item.filter, pitch(item.columns, item.filter.dtype)
        flat = space.array((product.stack * product.rows * line + 2 * LANES,), product.dtype)
        if item.columns:
            product(x, flat, LANES, line, space)
        return flat

    def _gather(self, x: Array, item: _Item, space: Space) -> Array:
        """Return the inputs `[groups, C/g, columns]`; no row lies before the first one."""
        c, product, part = self.problem.group_inputs, item.filter, x[item.inputs]
        width, count, dtype = item.columns, product.stack, product.dtype
        lies = len(part) == 1 and part.strides[-1] == x.itemsize and x.dtype == dtype
        if lies and width >= product.least_columns:
            try:
                flat: Array = part[0].reshape(count, c, -1, copy=False)
            except ValueError:
                pass
            else:
                if flat.strides[1] >= 0 and not worth_copying(product.rows, flat.strides[1]):
                    return flat
        host = space.array((count * c, pitch(width, dtype)), dtype)[:, :width]
        host.reshape(count * c, len(part), *part.shape[2:])[...] = part.swapaxes(0, 1)
        return host.reshape(count, c, width)


class SpreadInputs(_RowKernel):
    """Products by the compiled code; a chunk's filter is `[groups, channels, C/g, taps]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        load()
        from irdeconv.kernels.compiled_sums import sum_terms

        rows = w.reshape(*w.shape[:3], -1).swapaxes(1, 2)
        filters = [
            np.ascontiguousarray(rows[c.groups, c.channels]).reshape(-1) for c in layout.chunks
        ]
        super().__init__(layout, filters, sum_terms)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """See the base class; the source is a copy of the inputs, the same for all taps."""
        c, taps = self.problem.group_inputs, np.zeros(self.problem.taps, np.int64)
        size = block.input_positions // block.count
        counts = self._counts(block, chunk, chunk.count * c * size, c * size, 0)
        factors = w, terms.entries[0], terms.pair_taps, (c, size, len(taps))
        return *counts, terms.rows(taps), terms.row(taps), factors

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        part = x[item.inputs]
        flat: Array = space.array((part.size + 2 * LANES,), item.filter.dtype)
        flat[LANES:-LANES].reshape(part.shape)[...] = part
        return flat


PARTS = (1, 4, 16, 64)  # into which blocks of several images are cut
FEW = 16  # input channels of a group up to which the compiled code may multiply them itself


@dataclass(frozen=True, kw_only=True)
class RowRates(products.TermRates):
    """Nanoseconds of the kernels that write row by row, fitted to a few hundred random layers."""

    block: float = rate("compiled")
    gathered: float = rate("copy")  # each element that is copied
    row: float = rate("call")  # each row of the output
    vector: float = rate("added")  # each vector of it
    output: float = rate("copy")  # each element of it
    strided: float = rate("strided", 0.0)  # and more where the stride is above 2
    term: float = rate("added")  # each vector of terms or products


PLACED = RowRates(
    product=0.542,
    sums=0.129,
    near=0.766,
    stored=0.148,
    streamed=0.00148,
    block=15600,
    gathered=0.118,
    row=32.7,
    vector=0.971,
    output=0.0262,
    term=1.01,
)
SINGLE = RowRates(
    product=0.202,
    sums=0.132,
    near=1.1,
    stored=0.128,
    streamed=0.00189,
    block=16100,
    gathered=0.143,
    row=35.4,
    vector=0.422,
    output=0.0124,
    strided=0.0013,
    term=0.281,
)
SPREAD = RowRates(
    product=0,
    block=8990,
    gathered=0.492,
    row=36.7,
    vector=1.08,
    output=0.0295,
    strided=0.0078,
    term=1.14,
)


def candidates(problem: ConvProblem, limit: float = math.inf) -> list[Candidate]:
    """Return the compiled kernels for floats, if numba is there.

    Those are left out that clearly take more than `limit` nanoseconds.
    """
    if not available() or problem.compute.kind != "f":
        return []
    ways: list[tuple[bool, Iterator[Candidate]]] = [(False, _placings(problem))]
    if problem.shape[1] <= FEW * problem.groups:
        ways.append((True, _spreads(problem)))
    chunks = _chunks(problem, problem.outputs, problem.groups)
    whole = RowLayout(problem, whole_output(problem), chunks)
    return [
        shared(cuts)
        for spreads, cuts in ways
        if limit == math.inf or _estimate(whole, spreads).cost < ROUGHLY * limit
    ]


def _chunks(problem: ConvProblem, room: int, together: int) -> list[Chunk]:
    """Split the output channels: at most about `room` of them, of `together` groups, at a time."""
    m, groups = problem.group_outputs, problem.groups
    if room >= m:
        step = min(groups, room // m, max(1, together))
        step = shares(groups, -(-groups // step))
        return [Chunk(some, slice(0, m)) for some in pieces(groups, step)]
    step = shares(m, -(-m // max(1, room)))
    return [Chunk(slice(g, g + 1), channels) for g in range(groups) for channels in pieces(m, step)]


def _placings(problem: ConvProblem) -> Iterator[Candidate]:
    """Yield the ways to cut the work of `placed`."""
    room, rows = blocking.SIZES.terms_bytes // problem.itemsize, problem.taps
    outputs = problem.shape[0] * problem.outputs * math.prod(problem.sizes)
    copied = problem.positions * problem.group_inputs
    if problem.narrow or (aliases(problem.positions * problem.itemsize) and copied > outputs // 4):
        rows = max(rows, problem.group_inputs)  # of the input, which is copied
    seen: set[tuple[int, int]] = set()
    for limit in blocking.SIZES.placed_columns:
        blocks = split_output(problem, limit)
        most, c = blocks.most(lambda b: b.input_positions), problem.group_inputs
        gathers = problem.narrow or blocks.images > 1
        wanted = max(rows, c if gathers else 0) * most
        if (len(blocks), most) in seen or (seen and wanted > room):
            continue
        seen.add((len(blocks), most))
        channels = room // (problem.taps * most)
        together = room // (c * most) if gathers else problem.groups
        known: set[int] = set()
        for share in SHARES:
            chunks = _chunks(problem, min(channels, -(-problem.outputs // share)), together)
            if len(chunks) not in known:
                known.add(len(chunks))
                yield _placed(RowLayout(problem, blocks, chunks), most)


def _placed(layout: RowLayout, most: int) -> Candidate:
    problem = layout.problem
    widest = max(layout.chunks, key=lambda k: k.count * k.width)
    line = pitch(most, problem.compute)
    elements = (widest.width * problem.taps + problem.group_inputs) * widest.count * line
    rows, channels = widest.width * problem.taps, widest.width * widest.count
    elements += products.copied_elements(rows, problem.group_inputs, most)
    return _candidate("placed", PlacedTerms, layout, elements, channels)


def _spreads(problem: ConvProblem) -> Iterator[Candidate]:
    """Yield the ways to cut the work of `spread`: many images or many channels at a time."""
    inputs = blocking.SIZES.spread_elements * problem.positions // math.prod(problem.sizes)
    for share in PARTS:
        blocks = split_output(problem, max(1, inputs // share))
        outputs = blocks.most(lambda b: b.output_positions)
        chunks = _chunks(problem, max(1, blocking.SIZES.spread_elements // outputs), problem.groups)
        yield _spread(RowLayout(problem, blocks, chunks))
        if blocks.images == 1:
            return


def _spread(layout: RowLayout) -> Candidate:
    most, chunks = layout.blocks.most(lambda b: b.input_positions), layout.chunks
    elements = max(k.count for k in chunks) * layout.problem.group_inputs * most
    channels = max(k.count * k.width for k in chunks)
    return _candidate("spread", SpreadInputs, layout, elements, channels)


def _candidate(
    name: str,
    kernel: type[PlacedTerms | SpreadInputs],
    layout: RowLayout,
    elements: int,
    channels: int,
) -> Candidate:
    """Return a kernel that has so many elements of a source, and channels of a tile, at a time."""
    problem, blocks = layout.problem, layout.blocks
    estimate = _estimate(layout, kernel is SpreadInputs)
    elements += 4 * LANES + problem.shape[1] * problem.group_outputs * problem.taps
    elements += blocks.most(lambda b: b.parts[-1].outputs) + 2 * LANES * problem.strides[-1]
    return Candidate(
        name=name,
        cost=estimate.cost,
        scratch=problem.itemsize * elements + tile_bytes(problem, blocks, channels) + 4 * ALIGNMENT,
        prepare=partial(kernel, layout),
        items=layout.items,
        estimate=estimate,
    )


def _estimate(layout: RowLayout, spreads: bool) -> Estimate:
    """Return what `spread` or `placed` takes."""
    halo = any(a.halo for a in geo.axes_of(layout.problem))
    placed = PLACED if halo or not all(b.covered for b, _ in layout.blocks.kinds) else SINGLE
    rates = scaled(SPREAD if spreads else placed)
    return Estimate(rates, partial(_nanoseconds, layout, spreads))


def _nanoseconds(layout: RowLayout, spread: bool, rates: RowRates) -> float:
    """Estimate the nanoseconds of `spread` or `placed`."""
    cost, c, taps = 0.0, layout.problem.group_inputs, layout.problem.taps
    stride = layout.problem.positions * layout.problem.itemsize
    for block, times in layout.blocks.kinds:
        width = block.input_positions
        of_channel = _row_cost(rates, block, c if spread else 1)
        for chunk in layout.chunks:
            gathers = spread or block.count > 1 or worth_copying(chunk.width * taps, stride)
            of_group = chunk.width * of_channel + (rates.gathered * c * width if gathers else 0.0)
            if not spread:
                sizes = chunk.width * taps, c, width
                cost += times * products.terms_cost(rates, layout.problem, chunk.count, *sizes)
            cost += times * (chunk.count * of_group + rates.block)
    return cost


def _row_cost(rates: RowRates, block: OutputBlock, inputs: int) -> float:
    """Estimate the nanoseconds that the compiled code takes for one output channel of a block."""
    rows = block.count * math.prod(p.outputs for p in block.parts[:-1])
    last = block.parts[-1]
    width, stride = last.outputs, last.axis.stride
    vectors = sum(-(-(width - f) // (stride * LANES)) for f in range(min(stride, width)))
    pairs = block.count * math.prod(p.axis.kernel * p.inputs for p in block.parts[:-1])
    terms = pairs * last.axis.kernel * inputs * -(-last.inputs // LANES)
    element = rates.output + (rates.strided if stride > 2 else 0)
    added = halves() * (rates.vector * rows * vectors + rates.term * terms)
    return rows * (rates.row + element * width) + added


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


def multiples_candidates(problem: ConvProblem) -> list[Candidate]:
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
