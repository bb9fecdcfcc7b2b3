"""Deconvolution with fewer multiplications: short polynomial products (Winograd, Toom-Cook).

The residues of the output are products of the input with short filters, and they share the input,
so a tile of it is evaluated once for all residues: `[points, t^d] @ [t^d, C * tiles]`, one matrix
product `[residues*M, C] @ [C, tiles]` per point, interpolation as another product, and the tails of
neighbouring tiles are added. The bound of the rounding error, relative to that of a direct sum,
grows per axis by `toom.growth(tile, taps) / taps` and the overlap of two tiles: at 2 taps by 6, 7
and 21 for tiles of 2, 3 and 4. Inf and NaN spread over their tile.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import deconvolution
from irdeconv.kernels import winograd_tilings as tilings
from irdeconv.kernels.candidate import (
    Candidate,
    ConvProblem,
    Epilogue,
    Fix,
    Piece,
    shared,
    trailing,
)
from irdeconv.kernels.deconvolution import OutputBlock, close_tile, open_tile, runs_of, tile_bytes
from irdeconv.kernels.deconvolution_col2im import (
    AxisTerms,
    BlockTerms,
    block_terms,
    start_of,
    steps_of,
)
from irdeconv.kernels.jit import LANES, RUN, load
from irdeconv.kernels.panels import StackedPanels
from irdeconv.kernels.products import kron, matrices, multiply, pitch
from irdeconv.kernels.recorded_calls import Recorded, Repeated, SharedCalls, in_turn
from irdeconv.kernels.scratch import (
    ALIGNMENT,
    COMMON,
    ScratchPlace,
    ScratchPlan,
    Space,
    pieces,
    seen,
)
from irdeconv.kernels.threads import Team

MARGIN = 8  # elements around products, which vectors may read


class WinogradDeconvolution:
    """The kernel: `filters[group][chunk]` is `[points, residues * channels, C/g]`."""

    def __init__(self, tiling: tilings.Tiling, w: Array) -> None:
        self.tiling = tiling
        self.c = tiling.problem.group_inputs
        self.m = tiling.problem.group_outputs
        triples = [matrices(t, a.counts[0]) for t, a in zip(tiling.tiles, tiling.axes, strict=True)]
        self.evaluations = [e.astype(w.dtype) for e, _, _ in triples]
        self.interpolations = [i.astype(w.dtype) for _, _, i in triples]
        taps = [f for _, f, _ in triples]
        self.chunks = pieces(self.m, tiling.channels)
        self.filters = [
            [self._filter(w[g][:, c], taps) for c in self.chunks] for g in range(len(w))
        ]

    @cached_property
    def evaluate(self) -> Array:
        """The matrix that evaluates whole tiles."""
        return kron(self.evaluations, self.tiling.problem.compute)

    @cached_property
    def interpolate(self) -> Array:
        """The matrix that interpolates the products of whole tiles."""
        return kron(self.interpolations, self.tiling.problem.compute)

    def _filter(self, w: Array, taps: list[Array]) -> Array:
        c, m = w.shape[:2]
        axes = self.tiling.axes
        counts = [a.counts[0] for a in axes]
        rows = np.zeros((self.tiling.residues, m, c, *counts), np.float64)
        for i, r in enumerate(deconvolution.residues(axes)):
            own_taps = trailing(w, (slice(k, None, a.step) for k, a in zip(r, axes, strict=True)))
            trailing(rows[i], (slice(n) for n in own_taps.shape[2:]))[...] = own_taps.swapaxes(0, 1)
        matrix = kron(taps, np.float64)
        flat = rows.reshape(-1, math.prod(counts))
        values: Array = np.matmul(matrix, flat.T).astype(w.dtype)
        return values.reshape(len(matrix), -1, c)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        items = list(itertools.product(self.tiling.blocks, range(self.tiling.problem.groups)))
        chunks, cuts = range(len(self.chunks)), self.tiling.cuts

        def whole(item: tuple[OutputBlock, int], space: Space) -> None:
            values = self._values(item[0], space)
            used = space.used
            for cut in cuts:
                space.release(used)
                self._read(x, values, *item, cut, space)
            for i in chunks:
                space.release(used)
                self._chunk(values, out, epilogue, *item, i, space)

        if self.tiling.apart:
            team.each(items, whole)
            return
        start = team.space.used
        for block, g in items:
            team.space.release(start)
            values = self._values(block, team.space)
            team.each(cuts, partial(self._read, x, values, block, g))
            team.each(chunks, partial(self._chunk, values, out, epilogue, block, g))

    def _values(self, block: OutputBlock, space: Space) -> Array:
        """Return memory for a block's inputs, evaluated: `[points, room for C/g * tiles]`."""
        plane = pitch(self.c * self.tiling.pitch(block), self.tiling.problem.compute)
        return space.array((math.prod(self.tiling.points), plane), self.tiling.problem.compute)

    def split(self, values: Array, block: OutputBlock) -> Array:
        """View evaluated inputs as `[points, C/g, tiles]`."""
        width = self.tiling.pitch(block)
        return values[:, : self.c * width].reshape(len(values), self.c, width)

    def _read(
        self, x: Array, values: Array, block: OutputBlock, group: int, cut: slice, space: Space
    ) -> None:
        if not block.empty:
            inputs = slice(group * self.c + cut.start, group * self.c + cut.stop)
            self.enter(block.inputs(x[:, inputs]), values, cut.start, block, space)

    def _chunk(
        self,
        values: Array,
        out: Array,
        epilogue: Epilogue | None,
        block: OutputBlock,
        group: int,
        index: int,
        space: Space,
    ) -> None:
        chunk = self.chunks[index]
        channels = slice(group * self.m + chunk.start, group * self.m + chunk.stop)
        tile = open_tile(out, block, channels, space)
        if not block.empty:
            terms = self._products(group, index, values, block, space)
            self.leave(terms, block, channels, tile, out, space)
        close_tile(tile, out, block, channels, epilogue)

    def _products(
        self, group: int, index: int, values: Array, block: OutputBlock, space: Space
    ) -> Array:
        """Return `[points, residues * channels, tiles]`, flat, between `MARGIN` elements more."""
        chunk, width = self.chunks[index], self.tiling.width(block)
        rows = self.tiling.residues * (chunk.stop - chunk.start)
        plane = pitch(rows * width, values.dtype)
        flat = space.array((len(values) * plane + 2 * MARGIN,), values.dtype)
        self.multiply(group, index, values, block, flat, plane)
        return flat

    def multiply(
        self, group: int, index: int, values: Array, block: OutputBlock, out: Array, plane: int
    ) -> None:
        """Write the products of evaluated inputs into `out`, a `plane` for each point."""
        filters, width = self.filters[group][index], self.tiling.width(block)
        shape = *filters.shape[:2], width
        planes = out[MARGIN:-MARGIN].reshape(len(filters), plane)[:, : math.prod(shape[1:])]
        multiply(filters, self.split(values, block)[:, :, :width], planes.reshape(shape))

    def enter(
        self, part: Array, values: Array, first: int, block: OutputBlock, space: Space
    ) -> None:
        """Evaluate inputs [images, channels, *]; the first one is channel `first` of `values`."""
        values = self.split(values, block)[:, first : first + part.shape[1]]
        grid, tiles = self.tiling.grid(block), self.tiling.tiles
        channels, width = values.shape[1:]
        host = space.array((math.prod(tiles), channels, width), values.dtype)
        count = math.prod(grid) * block.count
        source = part.swapaxes(0, 1)
        for i, at in enumerate(np.ndindex(*tiles)):
            dest = host[i, :, :count].reshape(channels, block.count, *grid)
            seen = trailing(source, (slice(a, None, t) for a, t in zip(at, tiles, strict=True)))
            for axis, n in enumerate(seen.shape[2:]):
                dest[(slice(None),) * (2 + axis) + (slice(n, None),)] = 0
            trailing(dest, (slice(n) for n in seen.shape[2:]))[...] = seen
            host[i, :, count:] = 0
        flat = values.reshape(len(values), -1, copy=False)
        multiply(self.evaluate, host.reshape(len(host), -1), flat)

    def leave(
        self,
        terms: Array,
        block: OutputBlock,
        channels: slice,
        tile: Array,
        out: Array,
        space: Space,
    ) -> None:
        """Write the outputs of products into `tile [images, channels, *]`, a part of `out`."""
        rows = self.tiling.residues * (channels.stop - channels.start)
        width, grid = self.tiling.width(block), self.tiling.grid(block)
        columns = block.count * math.prod(grid)
        products = terms[MARGIN:-MARGIN].reshape(len(self.interpolate), -1)[:, : rows * width]
        sums = space.array((len(products), rows, width), terms.dtype)
        multiply(self.interpolate, products, sums.reshape(len(sums), -1))
        self._overlap(sums[:, :, :columns], block)
        host = sums[:, :, :columns].reshape(
            *self.tiling.points, self.tiling.residues, -1, block.count, *grid
        )
        self._place(host, block, tile)

    def _overlap(self, sums: Array, block: OutputBlock) -> None:
        """Add each tile's tail to the next tile along each axis."""
        grid, tiles, points = self.tiling.grid(block), self.tiling.tiles, self.tiling.points
        host = sums.reshape(*points, *sums.shape[1:], copy=False)
        for e in np.ndindex(*points):
            over = [int(i >= t) for i, t in zip(e, tiles, strict=True)]
            if any(over):
                offset = 0
                for o, size in zip(over, grid, strict=True):
                    offset = offset * size + o
                offset = min(offset, sums.shape[2])
                into = host[tuple(i - o * t for i, o, t in zip(e, over, tiles, strict=True))]
                into[:, offset:] += host[e][:, : sums.shape[2] - offset]

    def _place(self, host: Array, block: OutputBlock, tile: Array) -> None:
        axes, tiles = self.tiling.axes, self.tiling.tiles
        for i, r in enumerate(deconvolution.residues(axes)):
            pairs = [p.reach(k) for p, k in zip(block.parts, r, strict=True)]
            for at in np.ndindex(*tiles):
                cut = [_every(s, d, a, t) for (s, d), a, t in zip(pairs, at, tiles, strict=True)]
                source = trailing(host[(*at, i)], (s for s, _ in cut))
                trailing(tile, (d for _, d in cut))[...] = source.swapaxes(0, 1)


def _every(source: slice, dest: slice, at: int, tile: int) -> tuple[slice, slice]:
    """Restrict positions `source` -> `dest` to those that are `at` modulo the tile."""
    first = -(-(source.start - at) // tile)
    last = -(-(source.stop - at) // tile)
    if last <= first:
        return slice(0, 0), slice(0, 0)
    start = dest.start + (first * tile + at - source.start) * dest.step
    step = dest.step * tile
    return slice(first, last), slice(start, start + (last - first - 1) * step + 1, step)


class CompiledWinograd(WinogradDeconvolution):
    """The kernel whose tiles compiled code reads and places (the extra `fast`).

    The coefficients of a tile's product are terms of the output, added directly to their places:
    every row is written once, and tails need neither a pass of their own nor tiles behind rows.
    """

    def __init__(self, tiling: tilings.Tiling, w: Array) -> None:
        load()
        if w.dtype == np.float32:  # a BLAS might add up other numbers of rows otherwise
            tiling = tilings.for_threads(tiling)
        from irdeconv.kernels.compiled_sums import sum_terms
        from irdeconv.kernels.compiled_winograd import entering, leave

        super().__init__(tiling, w)
        self.panels: list[list[StackedPanels]] | None = None
        if w.dtype == np.float32:
            most = tiling.blocks.most(tiling.width)
            self.panels = [[StackedPanels(f, most) for f in group] for group in self.filters]
            self.filters = []  # the panels hold the weights
        self.entering, self.leaving, self.sum_terms = entering, leave, sum_terms
        # The compiled transforms have three axes. One of size 1 is multiplied by 1 or left out.
        lead = [np.ones((1, 1), w.dtype)] * (3 - len(tiling.tiles))
        self.into, self.back = (*lead, *self.evaluations), (*lead, *self.interpolations)
        counts = (1,) * len(lead)
        self.shapes = (*counts, *tiling.tiles), (*counts, *tiling.points)
        self.loops: dict[tuple[int, int], tuple[int, tuple[Any, ...]]] = {}
        loops: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        axes = [
            [AxisTerms.of_tiles(p, t) for p, t in zip(b.parts, tiling.tiles, strict=True)]
            for b in tiling.blocks
        ]
        for block, terms in zip(tiling.blocks, block_terms(tiling.problem, axes), strict=True):
            for channels in {c.stop - c.start for c in self.chunks}:
                # `block_terms` returns the same object for blocks that are alike.
                kind = id(terms), block.count, channels
                if kind not in loops:  # many are alike
                    loops[kind] = terms.sums, self._arguments(terms, block, channels)
                self.loops[id(block), channels] = loops[kind]

    def enter(
        self, part: Array, values: Array, first: int, block: OutputBlock, space: Space
    ) -> None:
        """See the base class."""
        if part.dtype != values.dtype or not part.flags.aligned:
            converted = space.array(part.shape, values.dtype)
            converted[...] = part
            part = converted
        enter = self.entering(values.dtype)
        enter(*self._entered(part, values, first, block, space))

    def _entered(
        self,
        part: Array,
        values: Array | ScratchPlace,
        first: int,
        block: OutputBlock,
        space: Space | ScratchPlan,
    ) -> tuple[Any, ...]:
        """Return the arguments of the compiled `enter`."""
        lead = (1,) * (5 - part.ndim)
        volume = part.reshape(*part.shape[:2], *lead, *part.shape[2:])
        # A few tiles of one channel are too short a run for the transforms: channels are joined.
        columns, far = self.tiling.width(block), self.tiling.pitch(block)
        together = max(1, min(RUN // far, part.shape[1]))
        line = pitch(together * far, values.dtype)
        host = space.array((math.prod(self.tiling.tiles) * line,), values.dtype)
        at = first * far, far, values.shape[1]
        sizes = columns, together, line, (*lead, *self.tiling.grid(block))
        return volume, host, sizes, seen(values, np.ravel), at, self.shapes, self.into

    def multiply(
        self, group: int, index: int, values: Array, block: OutputBlock, out: Array, plane: int
    ) -> None:
        """See the base class."""
        if self.panels is None:
            super().multiply(group, index, values, block, out, plane)
            return
        line, width = self.tiling.pitch(block), self.tiling.width(block)
        self.panels[group][index](values, line, width, out, MARGIN, plane)

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
        width = self.tiling.width(block)
        rows = self.tiling.residues * count
        sizes = rows, width, pitch(rows * width, terms.dtype)
        self.leaving(terms, MARGIN, sizes, self.shapes[1], self.back)
        # The tables count from the block's first output, in the output or in a tile of its own.
        start = start_of(self.tiling.problem, block, channels.start)
        y = (tile if tile.dtype != out.dtype else out).reshape(-1)[start:]
        sums, arguments = self.loops[id(block), count]
        self.sum_terms(terms, y, space.array((sums,), terms.dtype), *arguments)

    def fixed(self, x: Array, out: Array, finish: Fix) -> SharedCalls | None:
        """See `FixedKernel`."""
        # Only f32 is written down, and clearing is no compiled call.
        whole = all(block.covered and not block.empty for block in self.tiling.blocks)
        if self.panels is None or not whole or not x.flags.c_contiguous:
            return None
        if not x.dtype == out.dtype == np.float32:
            return None
        phases: list[list[Piece]] = []
        made: dict[Any, Recorded] = {}
        apart, count = self.tiling.apart, range(len(self.chunks))
        for block, g in itertools.product(self.tiling.blocks, range(self.tiling.problem.groups)):
            ends = [self._ends(out, block, self._channels(g, i), finish) for i in count]
            own = ScratchPlan()
            if apart:  # an end's memory is counted from 0, too, and later chunks need the values
                sizes = (getattr(end, "scratch", 0) for some in ends for end in some)
                own.array((max(sizes, default=0),), np.uint8)
            values = (own if apart else ScratchPlan(COMMON)).array(
                self._values(block, Space()).shape, np.float32
            )
            used = own.used
            reads, chunks = list[Piece](), list[Piece]()
            for cut in self.tiling.cuts:
                own.used = used
                part = block.inputs(x[:, slice(g * self.c + cut.start, g * self.c + cut.stop)])
                arguments = self._entered(part, values, cut.start, block, own)
                reads.append(Recorded.of("enter", *arguments))
            for i in count:
                own.used = used
                work = self._recorded_chunk(values, out, block, g, i, own, made)
                chunks.append(in_turn([work, *ends[i]]))
            phases += [[in_turn([*reads, *chunks])]] if apart else [reads, chunks]
        if apart:  # blocks do not wait for each other
            phases = [[piece for (piece,) in phases]]
        found = [Repeated(tuple(phase)).phases for phase in phases]
        return SharedCalls(tuple(itertools.chain.from_iterable(found))) if all(found) else None

    def _channels(self, group: int, index: int) -> slice:
        """Return the channels of the output of a chunk."""
        chunk = self.chunks[index]
        return slice(group * self.m + chunk.start, group * self.m + chunk.stop)

    def _ends(self, out: Array, block: OutputBlock, channels: slice, finish: Fix) -> list[Piece]:
        """Return the work that finishes some channels of a block."""
        runs = runs_of(block.box(out)[:, channels], out.shape[2:], block)
        pieces = (finish(part, i, channels, span) for part, i, span in runs)
        return [piece for piece in pieces if piece is not None]

    def _recorded_chunk(
        self,
        values: ScratchPlace,
        out: Array,
        block: OutputBlock,
        group: int,
        index: int,
        own: ScratchPlan,
        made: dict[Any, Recorded],
    ) -> Recorded:
        """Record `_chunk` without its end; `made` keeps what is the same for other blocks."""
        channels, width = self._channels(group, index), self.tiling.width(block)
        count, line = channels.stop - channels.start, self.tiling.pitch(block)
        rows = self.tiling.residues * count
        plane = pitch(rows * width, np.float32)
        terms = own.array((values.shape[0] * plane + 2 * MARGIN,), np.float32)
        kind = group, index, width, line, values, terms
        if kind not in made:
            assert self.panels is not None
            sizes = rows, width, plane
            made[kind] = Recorded.joined(
                [
                    self.panels[group][index].recorded(values, terms, line, width, MARGIN, plane),
                    Recorded.of("leave", terms, MARGIN, sizes, self.shapes[1], self.back),
                ]
            )
        y = out.reshape(-1)[start_of(self.tiling.problem, block, channels.start) :]
        sums, arguments = self.loops[id(block), count]
        sums_place = own.array((sums,), np.float32)
        return Recorded.joined(
            [made[kind], Recorded.of("sum_terms", terms, y, sums_place, *arguments)]
        )

    def _arguments(self, terms: BlockTerms, block: OutputBlock, channels: int) -> tuple[Any, ...]:
        """Return the arguments of the compiled loop besides the arrays."""
        problem, columns = self.tiling.problem, self.tiling.columns(block)
        width = self.tiling.width(block)
        taps = self._taps(channels, width)
        return (
            (block.count, channels),
            (MARGIN, columns // block.count, width, *steps_of(problem, block, channels)),
            terms.rows(taps),
            terms.row(taps),
        )

    def _taps(self, channels: int, width: int) -> Array:
        """Return taps' places: each axis has (coefficient, residue), the terms all coefficients,
        then all residues.
        """
        points, residues = self.tiling.points, [len(a.counts) for a in self.tiling.axes]
        rank, count = len(points), math.prod(residues)
        # The distance of points is that of `_products`, the pitch of all rows of a chunk.
        plane = pitch(count * channels * width, self.tiling.problem.compute)
        at = np.arange(math.prod(points))[:, None] * plane + np.arange(count) * channels * width
        at = at.reshape(*points, *residues)
        return at.transpose([i for a in range(rank) for i in (a, rank + a)]).reshape(-1)


def candidates(problem: ConvProblem, limit: float = math.inf) -> list[Candidate]:
    """Return kernels of tile sizes that may pay within `limit` ns; none without overlap."""
    kernels = [shared(map(_candidate, ways)) for ways in tilings.ways(problem, limit)]
    return sorted(kernels, key=lambda c: c.cost)[:3]


def _candidate(tiling: tilings.Tiling) -> Candidate:
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows = tiling.residues * tiling.channels
    piece = max(cut.stop - cut.start for cut in tiling.cuts)
    kind = problem.compute
    line = pitch(tiling.blocks.most(tiling.columns), kind)
    elements = points * (pitch(c * line, kind) + pitch(rows * line, kind)) + 2 * MARGIN
    estimate = tilings.estimate(tiling)
    if tiling.behind:
        kernel: type[WinogradDeconvolution] = WinogradDeconvolution
        elements += line * (2 * points * rows + inputs * piece)
    else:
        kernel = CompiledWinograd
        widest = tiling.blocks.most(lambda b: b.parts[-1].outputs)
        elements += widest + 2 * LANES * (problem.strides[-1] * tiling.tiles[-1] + 1)
        elements += inputs * pitch(max(line, RUN), kind) + 3 * RUN * math.prod(
            map(max, tiling.tiles, tiling.points)
        )
        # Inputs that must be copied:
        elements += piece * tiling.blocks.most(lambda b: b.input_positions)
    elements += problem.groups * points * tiling.residues * m * c
    scratch = problem.itemsize * elements + 8 * ALIGNMENT
    scratch += tile_bytes(problem, tiling.blocks, tiling.channels)
    return Candidate(
        name="winograd-" + "x".join(map(str, tiling.tiles)),
        cost=estimate.cost,
        scratch=scratch,
        prepare=partial(kernel, tiling),
        items=tiling.items,
        transforms=True,
        estimate=estimate,
    )
