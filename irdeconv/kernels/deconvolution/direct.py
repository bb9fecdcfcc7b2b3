"""Deconvolution by the micro-kernel (the extra `fast`): every residue from one padded input.

A residue is a convolution of stride 1, whose taps read the padded input at fixed distances; so
nothing is copied per tap. The sums of all residues of a block are written row by row in turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from irdeconv.kernels.compiled.panels import Panels, VectorPlaces, near_elements, vector_starts
from irdeconv.kernels.convolution.candidates import MOST_AXES
from irdeconv.kernels.convolution.depthwise import compiled
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import (
    OutputBlock,
    close_tile,
    images_first,
    pad,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.col2im import start_of, steps_of
from irdeconv.kernels.deconvolution.residue_cuts import (
    APART,
    GAPS,
    NEAR,
    RESIDUES,
    ResidueCut,
    ResidueProduct,
)
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, Epilogue, Estimate, shared
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.scratch import Space, contiguous
from irdeconv.kernels.shared.team import Team
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

LEAST_CHANNELS = 32  # of outputs that are worth reading the same input again


class RowTurns:
    """Where the residues of a block lie among its sums, and where their outputs are."""

    def __init__(self, cut: ResidueCut, block: OutputBlock) -> None:
        problem, box = cut.problem, cut.box(block)
        *outer, last = block.parts
        far = cut.channels * cut.pitch
        sizes = [p.outputs for p in block.parts] if problem.narrow else list(problem.sizes)
        starts, into = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for i, part in enumerate(outer):
            residues, grown = _sources(part, box.origins[i])
            step = residues * math.prod(cut.counts[i + 1 :]) * far
            step = step + grown * math.prod(box.sizes[i + 1 :])
            starts = (starts[:, None] + step).ravel()
            into = (into[:, None] * sizes[i] + np.arange(part.outputs)).ravel()
        into *= sizes[-1]
        residues, grown = _sources(last, box.origins[-1])
        stride = min(last.axis.stride, last.outputs)
        follows = len(into) == 1 or bool((np.diff(into) == last.outputs).all())
        self.rows = np.zeros(1, np.int64), into, starts
        width = last.outputs if follows else -last.outputs
        self.row = width, stride, (residues * far + grown)[:stride].astype(np.int64)
        self.image = math.prod(box.sizes)


def _sources(part: geo.OutputSpan, origins: Sequence[int]) -> tuple[Array, Array]:
    """Return of which residue each output of an axis is, and which of its sums."""
    residues, grown = np.zeros((2, part.outputs), np.int64)
    for r, origin in enumerate(origins):
        taken, where = part.reach(r)
        residues[where] = r
        grown[where] = np.arange(taken.start, taken.stop) - origin
    return residues, grown


@dataclass(frozen=True)
class _Alike:
    """What is known of blocks that are alike: vectors and terms of each family, and outputs."""

    places: list[VectorPlaces]
    offsets: list[Array]
    turns: RowTurns | None


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

    def __init__(self, cut: ResidueCut, w: Array) -> None:
        self.cut, self.problem = cut, cut.problem
        self.whole = all(b.covered for b, _ in cut.blocks.kinds)
        self._plans: dict[Any, _Alike] = {}
        self._starts = [_starts(cut, f) for f in cut.products]
        full = [b for b in cut.blocks if not b.empty]
        plans = [self._plan(b) for b in full]
        self._empty = [b for b in cut.blocks if b.empty]
        self._items: list[_ChannelWork] = []
        for g, group in enumerate(w):
            for some in pieces(w.shape[2], cut.channels):
                panels = [
                    Panels(_matrix(group, f, cut.axes, some), cut.tile(f)) for f in cut.products
                ]
                pairs = zip(full, plans, strict=True)
                self._items += [_ChannelWork(b, plan, g, some, panels) for b, plan in pairs]

    def _plan(self, block: OutputBlock) -> _Alike:
        """Find it, or take that of a block which is alike."""
        cut = self.cut
        origins = (p.first * p.axis.stride - p.axis.begin - p.lo for p in block.parts)
        key = block.count, tuple(p.kind for p in block.parts), *origins
        if key not in self._plans:
            channels = np.arange(self.problem.group_inputs) * cut.line + cut.lead
            offsets = [[channels - block.offset(q) for q in f.shifts] for f in cut.products]
            self._plans[key] = _Alike(
                places=[self._places(block, f) for f in cut.products],
                offsets=[np.concatenate(o) for o in offsets],
                turns=RowTurns(cut, block) if self.whole else None,
            )
        return self._plans[key]

    def _places(self, block: OutputBlock, family: ResidueProduct) -> VectorPlaces:
        """Return where the vectors of a family are read and written."""
        cut, tile, box = self.cut, self.cut.tile(family), self.cut.box(block)
        positions = box.positions(family.members[0], block.grid)
        if cut.mode == GAPS:  # they are neighbours
            starts = vector_starts(box.size, overlap=False)
            return VectorPlaces.of(starts + positions[0], starts, tile)
        return VectorPlaces.copied(positions, tile, overlap=False)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        team.each(self._items, lambda item, space: self._item(x, out, item, epilogue, space))
        for block in self._empty:
            tile = block.box(out)
            tile[...] = 0
            close_tile(tile, out, block, slice(0, self.problem.outputs), epilogue)

    def _item(
        self, x: Array, out: Array, item: _ChannelWork, epilogue: Epilogue | None, space: Space
    ) -> None:
        """Compute some channels of a block."""
        cut, problem, plan, block = self.cut, self.problem, item.plan, item.block
        count = item.channels.stop - item.channels.start
        source = self._source(x, block, item.group, space)
        sums = space.array((math.prod(cut.counts), cut.channels, cut.pitch), np.float32)
        flat = sums.reshape(-1)
        families = zip(item.panels, plan.offsets, plan.places, self._starts, strict=True)
        for panels, offsets, places, starts in families:
            wanted = starts[:, :count].ravel() if count < cut.channels else starts.reshape(-1)
            panels(source, offsets, places, flat, wanted, 0, space)
        first = item.group * problem.group_outputs + item.channels.start
        channels = slice(first, first + count)
        tile = block.box(out)[:, channels]
        if problem.narrow:
            tile = space.array(tile.shape, problem.compute)
        if plan.turns is None:
            self._put(sums, block, tile)
        else:
            target = tile if problem.narrow else out
            image, _, plane = steps_of(problem, block, 1, count)
            steps = 0, plan.turns.image, 0, cut.pitch, image, 0, plane
            start = start_of(problem, block, first)
            counts, more = (block.count, 1, count), (plan.turns.rows, plan.turns.row)
            copy_terms()(flat, target.reshape(-1)[start:], counts, steps, *more)
        close_tile(tile, out, block, channels, epilogue)

    def _source(self, x: Array, block: OutputBlock, group: int, space: Space) -> Array:
        """Return the padded inputs of a group, flat."""
        cut, c = self.cut, self.problem.group_inputs
        frames = space.array((c, cut.line), np.float32)
        frames[:, : cut.lead] = 0
        inputs = slice(group * c, (group + 1) * c)
        if any(p.last < p.axis.inputs for p in block.parts[1:]) or x.dtype != frames.dtype:
            host = frames[:, cut.lead : cut.lead + block.columns]
            part = block.inputs(x)[:, inputs]
            pad(part, block, host.reshape(c, block.count, *block.grid))
            return frames.reshape(-1)
        missing = (1,) * (MOST_AXES - len(block.grid))
        shape = (1, 1, 1, *missing, *block.grid)
        axes = (*((1, 0) for _ in missing), *((1, -p.first) for p in block.parts))
        size, first = math.prod(block.grid), block.images.start
        for n in range(block.count):
            image = contiguous(x[first + n, inputs], frames.dtype, space)
            image = image.reshape(c, *missing, *image.shape[1:])
            compiled().fill_all(image, frames, cut.lead + n * size, shape, axes)
        return frames.reshape(-1)

    def _put(self, sums: Array, block: OutputBlock, tile: Array) -> None:
        """Write every residue, where not every output is reached."""
        tile[...] = 0
        box = self.cut.box(block)
        planes = sums[:, : tile.shape[1], : box.size]
        planes = planes.reshape(*planes.shape[:2], box.images, *box.sizes)
        for plane, r in zip(planes, geo.residues(self.cut.axes), strict=True):
            taken, where = [], []
            for part, i, origins in zip(block.parts, r, box.origins, strict=True):
                some, places = part.reach(i)
                taken.append(slice(some.start - origins[i], some.stop - origins[i]))
                where.append(places)
            part_of = images_first(plane[(slice(None), slice(None), *taken)], block)
            trailing(tile, where)[...] = part_of


def _matrix(
    w: Array, family: ResidueProduct, axes: Sequence[geo.DeconvAxis], channels: slice
) -> Array:
    """Return the filter `[members * channels, shifts * C/g]` of a family."""
    rows = []
    for r in family.members:
        taps = [
            tuple(a + b * axis.step for a, b, axis in zip(r, q, axes, strict=True))
            for q in family.shifts
        ]
        rows.append(np.concatenate([trailing(w, k)[:, channels] for k in taps]).T)
    return np.concatenate(rows)


def _starts(cut: ResidueCut, family: ResidueProduct) -> Array:
    """Return where the sums of a family's rows begin, `[members, channels]`."""
    residues = np.array([np.ravel_multi_index(r, cut.counts) for r in family.members])
    rows = residues[:, None] * cut.channels + np.arange(cut.channels)
    return np.ascontiguousarray(rows * cut.pitch, np.int64)


@cache
def copy_terms() -> Any:
    """Import what needs numba."""
    from irdeconv.kernels.compiled.col2im import copy_terms as found

    return found


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel for floats that are summed in f32, if numba is there."""
    if not jit.available() or problem.compute != np.float32 or problem.rank > MOST_AXES:
        return []
    cuts = [_cut(problem, mode, 1) for mode in (GAPS, NEAR, APART)]
    best = min(cuts, key=lambda cut: cut.nanoseconds(RESIDUES))
    return [shared(_candidate(_cut(problem, best.mode, share)) for share in SHARES)]


def _cut(problem: ConvProblem, mode: str, share: int) -> ResidueCut:
    """Cut the work into blocks that stay in a cache, or into a part of these."""
    sizes, m = blocking.SIZES, problem.group_outputs
    residues = math.prod(len(a.counts) for a in geo.axes_of(problem))
    limit = sizes.residues_bytes // (4 * max(problem.group_inputs, min(m, 32) * residues))
    blocks = split_output(problem, max(sizes.residues_columns, limit) // share, overhead=2)
    positions = blocks.most(lambda b: b.columns)
    room = max(1, sizes.residues_bytes // (4 * residues * positions))
    parts = max(-(-m // room), min(-(-m // LEAST_CHANNELS), share // len(blocks)))
    return ResidueCut(problem, mode, blocks, shares(m, parts))


def _candidate(cut: ResidueCut) -> Candidate:
    problem = cut.problem
    estimate = Estimate(RESIDUES, cut.nanoseconds)
    elements = problem.group_inputs * cut.line + math.prod(cut.counts) * cut.channels * cut.pitch
    elements += 2 * problem.shape[1] * problem.group_outputs * problem.taps
    if cut.mode != GAPS:
        elements += sum(near_elements(cut.depth(f), cut.tile(f)) for f in cut.products)
    chunks = -(-problem.group_outputs // cut.channels)
    return Candidate(
        name="direct",
        cost=estimate.cost,
        scratch=4 * elements + tile_bytes(problem, cut.blocks, problem.group_outputs) + 1024,
        prepare=lambda w: DirectDeconvolution(cut, w),
        items=len(cut.blocks) * problem.groups * chunks,
        estimate=estimate,
    )
