"""Deconvolution by the micro-kernel (the extra `fast`): every residue from one padded input.

A residue is a convolution of stride 1, whose taps read the padded input at fixed distances; so
nothing is copied per tap. The residues of a row are computed together if they have equally many
taps, and written in turns; others are written to their places one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, residue_cuts, scratch
from irdeconv.kernels.candidate import (
    SHARES,
    Candidate,
    ConvProblem,
    Epilogue,
    Estimate,
    Fix,
    best_of,
    shared,
    trailing,
)
from irdeconv.kernels.convolution import MOST_AXES
from irdeconv.kernels.convolution_direct import compiled
from irdeconv.kernels.deconvolution import (
    OutputBlock,
    close_tile,
    pad,
    runs_of,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution_col2im import start_of
from irdeconv.kernels.panels import Panels, RowTurns, VectorPlaces
from irdeconv.kernels.recorded_calls import Recorded, Repeated, in_turn
from irdeconv.kernels.scratch import (
    ScratchPlace,
    ScratchPlan,
    Space,
    clear,
    contiguous,
    pieces,
    seen,
    shares,
)
from irdeconv.kernels.threads import Team

LEAST_CHANNELS = 32  # of outputs that are worth reading the same input again
RUN_OUTPUTS, RUN_MACS = 1 << 16, 1 << 22  # of work that is called together, at most


@dataclass(frozen=True)
class _Alike:
    """The tables of blocks that are alike: vectors and terms of each product."""

    places: list[list[VectorPlaces]]
    offsets: list[Array]


@dataclass(frozen=True)
class _ChannelWork:
    """Some channels of a group in a block; `channels` are the group's."""

    block: OutputBlock
    plan: _Alike
    group: int
    channels: slice
    panels: list[Panels]


class DirectDeconvolution:
    """The kernel."""

    def __init__(self, cut: residue_cuts.ResidueCut, w: Array) -> None:
        cost = partial(residue_cuts.ResidueCut.nanoseconds, rates=residue_cuts.RESIDUES)
        finer, items = residue_cuts.ResidueCut.finer, attrgetter("items")
        cut = scratch.cut_for_threads(cut, finer, items, cost)
        self.cut, self.problem = cut, cut.problem
        self._plans: dict[Any, _Alike] = {}
        full = [b for b in cut.blocks if not b.empty]
        plans = [self._plan(b) for b in full]
        self._empty = [b for b in cut.blocks if b.empty]
        self._items: list[_ChannelWork] = []
        self.packed: list[Array] = []
        self._tables: dict[int, Recorded] = {}  # of runs, for inputs and outputs that are given
        self._calls = 0
        for g, group in enumerate(w):
            for some in pieces(w.shape[2], cut.channels):
                panels = [_panels(group, p, cut, some) for p in cut.products]
                self.packed += [p.packed for p in panels]
                pairs = zip(full, plans, strict=True)
                self._items += [_ChannelWork(b, plan, g, some, panels) for b, plan in pairs]

    def _plan(self, block: OutputBlock) -> _Alike:
        """Return the tables, or those of a block that is alike."""
        cut = self.cut
        # Blocks of equal sizes differ if their first output is of another residue: then other
        # places of a row are cut off. Thousands of blocks have a few plans.
        origins = (p.first * p.axis.stride - p.axis.begin - p.lo for p in block.parts)
        key = block.count, tuple(p.kind for p in block.parts), *origins
        if key not in self._plans:
            lead = 0 if cut.bare else cut.lead
            channels = np.arange(self.problem.group_inputs) * cut.line + lead
            shared = [len(p.shifts) - p.extra for p in cut.products]
            grid = cut.grid(block)
            taps = [np.array([block.offset(q, grid) for q in p.shifts]) for p in cut.products]
            # A tap of q shifts reads before the place of its output, hence the minus; `lead` zeros
            # lie in front of the first row of each channel. First the shared taps of all channels,
            # then the others: the order in which `_panels` packs the filter.
            self._plans[key] = _Alike(
                places=[cut.places(block, p) for p in cut.products],
                offsets=[
                    np.concatenate(
                        [(channels[:, None] - part).ravel() for part in np.split(some, [p])]
                    )
                    for some, p in zip(taps, shared, strict=True)
                ],
            )
        return self._plans[key]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        self._calls += 1
        if self._calls > 1 and self._prepares(x):  # preparing takes longer than one call saves
            work = partial(self._prepared, x, out, epilogue)
            team.each(enumerate(self._runs), lambda run, space: work(*run, space))
        else:
            team.each(self._items, lambda item, space: self._item(x, out, item, epilogue, space))
        for block in self._empty:
            tile = block.box(out)
            clear(tile)
            close_tile(tile, out, block, slice(0, self.problem.outputs), epilogue)

    def _item(
        self, x: Array, out: Array, item: _ChannelWork, epilogue: Epilogue | None, space: Space
    ) -> None:
        """Compute some channels of a block."""
        cut, problem, block, channels = self.cut, self.problem, item.block, self._channels(item)
        count = channels.stop - channels.start
        tile = block.box(out)[:, channels]
        if problem.narrow:  # sums are f32; `close_tile` rounds them
            tile = space.array((block.count, cut.channels, *tile.shape[2:]), problem.compute)
        flat = (tile if problem.narrow else out).reshape(-1)
        if problem.narrow:
            tile = tile[:, :count]
        # Places that no tap reaches get no vector, so they are cleared before any is written.
        if not block.covered:
            clear(tile)
        source = self._source(x, block, item.group, space)
        used = space.used
        for panels, offsets, places, starts, base in self._products(item):
            for part in places:
                panels(source, offsets, part, flat, starts, base, space)
                space.release(used)
        close_tile(tile, out, block, channels, epilogue)

    def _channels(self, item: _ChannelWork) -> slice:
        """Return the channels of the output that a piece of work computes."""
        first = item.group * self.problem.group_outputs
        return slice(first + item.channels.start, first + item.channels.stop)

    def _products(
        self, item: _ChannelWork
    ) -> Iterator[tuple[Panels, Array, list[VectorPlaces], Array, int]]:
        """Yield the products of a piece of work: the arguments of `Panels`, except for memory."""
        cut, block, channels = self.cut, item.block, self._channels(item)
        base, plane = start_of(self.problem, block, channels.start), math.prod(cut.sizes(block))
        planes = np.arange(channels.stop - channels.start) * plane
        rows = zip(cut.products, item.panels, item.plan.offsets, item.plan.places, strict=True)
        for product, panels, offsets, places in rows:
            # Members of a row begin at the same place: their elements are written in turns.
            yield panels, offsets, places, np.repeat(planes, len(product.members)), base

    def fixed(self, x: Array, out: Array, finish: Fix) -> Repeated | None:
        """See `FixedKernel`."""
        # Clearing is no compiled call, so blocks that are not covered are not written down.
        if self._empty or not self._prepares(x) or not all(i.block.covered for i in self._items):
            return None
        pieces = []
        for item in self._items:
            channels = self._channels(item)
            runs = runs_of(item.block.box(out)[:, channels], out.shape[2:], item.block)
            ends = (finish(part, i, channels, span) for part, i, span in runs)
            pieces.append(in_turn([self._recorded(x, out, item)], *ends))
        return Repeated(tuple(pieces))

    def _prepares(self, x: Array) -> bool:
        """Whether compiled calls on such inputs are recorded."""
        return self.movable and x.flags.c_contiguous and x.dtype == np.float32

    @cached_property
    def movable(self) -> bool:
        """See `MovableKernel`."""
        calls = sum(item.block.count + sum(map(len, item.plan.places)) for item in self._items)
        cropped = any(self._cropped(item.block) for item in self._items)
        return not self.problem.narrow and not cropped and calls <= residue_cuts.MOST_CALLS

    @cached_property
    def _runs(self) -> list[list[_ChannelWork]]:
        """The pieces of work, small ones together: calls from Python take microseconds."""
        runs, left = list[list[_ChannelWork]](), 0.0
        each = self.problem.group_inputs * self.problem.taps
        for item in self._items:
            channels = len(range(*item.channels.indices(self.problem.group_outputs)))
            outputs, inputs = item.block.output_positions, item.block.columns
            part = channels * (outputs / RUN_OUTPUTS + inputs * each / RUN_MACS)
            if part > left:
                runs.append([])
                left = 1.0
            runs[-1].append(item)
            left -= part
        return runs

    def _prepared(
        self,
        x: Array,
        out: Array,
        epilogue: Epilogue | None,
        number: int,
        run: list[_ChannelWork],
        space: Space,
    ) -> None:
        """Do the work of `_item`, by calls that were recorded for inputs and outputs anywhere."""
        # All are cleared first: the table makes the calls of the whole run at once.
        for item in run:
            if not item.block.covered:
                clear(item.block.box(out)[:, self._channels(item)])
        table = self._tables.get(number)
        if table is None:
            places = ScratchPlace.given(0, x), ScratchPlace.given(1, out)
            # Two calls of the kernel at once may both do this; the later table stays.
            table = Recorded.joined(self._recorded(*places, item) for item in run)
            self._tables[number] = table
        table.run_on(x, out, space)
        for item in run if epilogue is not None else ():
            channels = self._channels(item)
            close_tile(item.block.box(out)[:, channels], out, item.block, channels, epilogue)

    def _recorded(
        self, x: Array | ScratchPlace, out: Array | ScratchPlace, item: _ChannelWork
    ) -> Recorded:
        """Record the work of `_item`, except for the epilogue."""
        memory, flat = ScratchPlan(), seen(out, np.ravel)
        source, calls = self._recorded_source(x, item.block, item.group, memory)
        used = memory.used
        for panels, offsets, places, starts, base in self._products(item):
            for part in places:
                more = part, flat, starts, base, memory
                calls.append(panels.recorded(source, offsets, *more))
                memory.used = used
        return Recorded.joined(calls)

    def _source(self, x: Array, block: OutputBlock, group: int, space: Space) -> Array:
        """Return the padded inputs of a group, flat."""
        cut, c = self.cut, self.problem.group_inputs
        inputs = slice(group * c, (group + 1) * c)
        if cut.bare:  # no tap that counts lies outside, so no zeros are needed around
            image = contiguous(x[block.images.start, inputs], self.problem.compute, space)
            return image.reshape(-1)[block.parts[0].first * math.prod(x.shape[3:]) :]
        frames = space.array((c, cut.line), np.float32)
        # The compiled loop also copies inputs behind those that a block sees. If zeros have to
        # be there instead, NumPy pads.
        frames[:, : cut.lead] = 0
        if self._cropped(block) or x.dtype != frames.dtype:
            host = frames[:, cut.lead : cut.lead + block.columns]
            part = block.inputs(x)[:, inputs]
            pad(part, block, host.reshape(c, block.count, *block.grid))
            return frames.reshape(-1)
        for n, *place in self._planes(block):
            image = contiguous(_image(n, inputs, x), frames.dtype, space)
            compiled().fill_all(image, frames, *place)
        return frames.reshape(-1)

    def _cropped(self, block: OutputBlock) -> bool:
        """Whether a block cuts off ends of inputs, whose places must be zeros for later rows."""
        inner = block.parts if block.count > 1 else block.parts[1:]
        return any(p.last < p.axis.inputs for p in inner)

    def _planes(self, block: OutputBlock) -> Iterator[tuple[Any, ...]]:
        """Yield each image of a block, and the arguments of `fill_all` besides the frames."""
        missing = MOST_AXES - len(block.grid)
        shape = (1, 1, 1, *(1,) * missing, *block.grid)
        axes = (*((1, 0),) * missing, *((1, -p.first) for p in block.parts))
        for n in range(block.count):
            yield block.images.start + n, self.cut.lead + n * math.prod(block.grid), shape, axes

    def _recorded_source(
        self, x: Array | ScratchPlace, block: OutputBlock, group: int, memory: ScratchPlan
    ) -> tuple[Array | ScratchPlace, list[Recorded]]:
        """Return the padded inputs of a group, flat, and the calls that write them."""
        cut, c = self.cut, self.problem.group_inputs
        inputs = slice(group * c, (group + 1) * c)
        if cut.bare:
            first = block.parts[0].first * math.prod(x.shape[3:])
            return seen(x, lambda a: a[block.images.start, inputs].reshape(-1)[first:]), []
        frames = memory.array((c, cut.line), np.float32)
        zeros = frames.seen(lambda whole: whole[None, :, : cut.lead])
        calls = [Recorded.of("fill", zeros, 0.0)] if cut.lead else []
        for n, *place in self._planes(block):
            image = seen(x, partial(_image, n, inputs))
            calls.append(Recorded.of("fill_all", image, frames, *place))
        return frames.seen(np.ravel), calls


def _image(n: int, channels: slice, x: Array) -> Array:
    """View some channels of an image of `x [N, C, *I]` as `[channels, *, *, *]`."""
    return x[(n, channels, *(None,) * (MOST_AXES + 2 - x.ndim))]


def _panels(
    w: Array, product: residue_cuts.ResidueProduct, cut: residue_cuts.ResidueCut, channels: slice
) -> Panels:
    """Pack the filter of a product, `[channels * members, taps * C/g]`: first the shared taps."""
    c, shared = w.shape[0], len(product.shifts) - product.extra
    count = len(range(*channels.indices(w.shape[1])))
    matrix = np.zeros((count, len(product.members), c * len(product.shifts)), np.float32)
    parts = matrix[..., : c * shared], matrix[..., c * shared :]
    for i, r in enumerate(product.members):
        residue = *product.outer, r
        for k, q in enumerate(product.shifts):
            tap = tuple(a + b * axis.step for a, b, axis in zip(residue, q, cut.axes, strict=True))
            # A member that has no such tap keeps zeros there. `RowTurns.longer` leaves them out of
            # its sums, so that no infinity meets a zero.
            if tap[-1] < cut.axes[-1].kernel:
                taps, at = (parts[0], k) if k < shared else (parts[1], k - shared)
                each = shared if k < shared else product.extra
                taps[:, i, at::each] = trailing(w, tap)[:, channels].T
    turns = RowTurns(len(product.members), cut.steps, product.longer, c * product.extra)
    return Panels(matrix.reshape(-1, matrix.shape[2]), cut.tile(product), turns)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for floats that are summed in f32, if numba is installed."""
    if not jit.available() or problem.compute != np.float32 or problem.rank > MOST_AXES:
        return []
    cuts = [
        _cut(problem, mode, 1)
        for mode in (residue_cuts.GAPS, residue_cuts.ROWS, residue_cuts.NEAR, residue_cuts.APART)
    ]
    rates = residue_cuts.RESIDUES
    best = min(cuts, key=lambda cut: cut.nanoseconds(rates))
    way = shared(_candidate(_cut(problem, best.mode, share)) for share in SHARES)
    others = (_candidate(cut) for cut in cuts if cut is not best)
    return [best_of(way, (*way.cuts, *others))]


def _cut(problem: ConvProblem, mode: str, share: int) -> residue_cuts.ResidueCut:
    """Cut the work into blocks that stay in a cache, or into a part of these."""
    sizes, m = scratch.SIZES, problem.group_outputs
    each = max(problem.group_inputs, m * math.prod(problem.strides))
    limit = sizes.residues_bytes // (4 * each)
    # The inputs of a block, or its sums if these are more, fill a level 2 cache.
    blocks = split_output(problem, max(sizes.residues_columns, limit) // share, overhead=2)
    parts = min(-(-m // LEAST_CHANNELS), share // len(blocks))
    cut = residue_cuts.ResidueCut(problem, mode, blocks, shares(m, parts))
    single = replace(cut, blocks=replace(blocks, images=1))
    return single if single.bare else cut


def _candidate(cut: residue_cuts.ResidueCut) -> Candidate:
    problem = cut.problem
    estimate = Estimate(residue_cuts.RESIDUES, cut.nanoseconds)
    chunks = -(-problem.group_outputs // cut.channels)
    weights = sum((cut.rows(p) + cut.tile(p).rows) * cut.depth(p) for p in cut.products)
    elements = cut.near + problem.groups * chunks * weights
    elements += (
        problem.shape[1] * problem.positions if cut.bare else problem.group_inputs * cut.line
    )
    return Candidate(
        name="direct",
        cost=estimate.cost,
        scratch=4 * elements + tile_bytes(problem, cut.blocks, problem.group_outputs) + 1024,
        prepare=lambda w: DirectDeconvolution(cut, w),
        items=cut.items,
        estimate=estimate,
    )
