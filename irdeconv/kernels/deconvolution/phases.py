"""Deconvolution by exact phases: every residue of the output as a convolution of stride 1.

All residues read the same shifts of the input, so one buffer of shifted copies (each a flat run of
zero-padded planes) serves them; residues with equally many taps share one matrix product
`[residues*M, taps*C] @ [taps*C, block]`, and each residue is written once.
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
    lead_columns,
    open_tile,
    pad,
    put,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution.passes import PHASES, Passes
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import ITEMS, pieces, shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, Epilogue, shared
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import lanes, matrix, multiply, pitch, stack_cost
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

DEEP = 600  # rows of the copies
NEAR_STRIDE = 16  # outputs that are farther apart are written to a cache line each
Shift = tuple[int, ...]


@dataclass(frozen=True)
class _Family:
    """Residues with equally many taps: which, and where their shifts lie among the copies."""

    members: list[Shift]
    taps: list[Shift]
    start: int

    @cached_property
    def places(self) -> dict[Shift, int]:
        """Where each residue stands among the members."""
        return {r: i for i, r in enumerate(self.members)}


def _families(axes: tuple[geo.DeconvAxis, ...]) -> tuple[list[_Family], list[Shift]]:
    """Return the families and an order of the copies in which each finds its own side by side."""
    members: dict[Shift, list[Shift]] = {}
    for r in geo.residues(axes):
        members.setdefault(tuple(a.counts[i] for a, i in zip(axes, r, strict=True)), []).append(r)
    order: list[Shift] = []
    families = []
    for counts in sorted(members, key=math.prod, reverse=True):
        wanted = set(np.ndindex(*counts))
        size = len(wanted)
        start = next(
            (i for i in range(len(order) - size + 1) if set(order[i : i + size]) == wanted), None
        )
        if start is None:
            start = len(order)
            order += _in_order(wanted, axes)
        families.append(_Family(members[counts], order[start : start + size], start))
    return families, order


def _in_order(wanted: set[Shift], axes: tuple[geo.DeconvAxis, ...]) -> list[Shift]:
    """Order shifts so that those without the last one of an axis are adjacent (up to two axes)."""
    last = [a.counts[0] - 1 if a.counts[-1] < a.counts[0] else -1 for a in axes]

    def place(q: Shift) -> tuple[int, Shift]:
        outer = len(q) > 1 and q[0] == last[0]
        inner = q[-1] == last[-1]
        return (1 if not outer and not inner else 0 if not inner else 3 if outer else 2), q

    return sorted(wanted, key=place)


@dataclass(frozen=True)
class _PhasesLayout:
    """How the work is cut: blocks, some groups at a time, or some output channels of one."""

    problem: ConvProblem
    blocks: Blocking
    groups: int
    channels: int

    @property
    def chunks(self) -> list[tuple[slice, slice]]:
        """Groups and, of each of them, channels."""
        groups = pieces(self.problem.groups, self.groups)
        return list(itertools.product(groups, pieces(self.problem.group_outputs, self.channels)))


class _Phases:
    """The kernel: `filters[chunk][family]` is `[groups, residues * channels, taps * C/g]`."""

    def __init__(self, layout: _PhasesLayout, w: Array) -> None:
        self.problem, self.layout = layout.problem, layout
        self.axes = geo.axes_of(layout.problem)
        self.families, self.order = _families(self.axes)
        self.filters = [
            [self._filter(w[groups, :, channels], f) for f in self.families]
            for groups, channels in layout.chunks
        ]
        self.c, self.m = w.shape[1:3]

    def _filter(self, w: Array, family: _Family) -> Array:
        g, c, m = w.shape[:3]
        f = np.empty((g, len(family.members), m, len(family.taps), c), w.dtype)
        for (i, r), (j, q) in itertools.product(enumerate(family.members), enumerate(family.taps)):
            k = tuple(a + b * axis.step for a, b, axis in zip(r, q, self.axes, strict=True))
            f[:, i, :, j] = trailing(w, k).swapaxes(1, 2)
        return f.reshape(g, len(family.members) * m, -1)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        chunks = zip(self.layout.chunks, self.filters, strict=True)

        def work(item: tuple[OutputBlock, tuple[Any, list[Array]]], space: Space) -> None:
            block, ((groups, some), filters) = item
            first, last = groups.start * self.m, (groups.stop - 1) * self.m
            channels = slice(first + some.start, last + some.stop)
            tile = open_tile(out, block, channels, space)
            if not block.empty:
                copies = self._copies(x, block, groups, space)
                tiles = tile.reshape(tile.shape[0], len(copies), -1, *tile.shape[2:])
                for i in self._turns(block):
                    self._family(copies, self.families[i], filters[i], block, tiles, space)
            close_tile(tile, out, block, channels, epilogue)

        team.each(itertools.product(self.layout.blocks, chunks), work)

    def _turns(self, block: OutputBlock) -> list[int]:
        """Return the families by number, those first whose residues are written first."""
        turns = {r: i for i, r in enumerate(block.order)}
        last = [max(turns[r] for r in family.members) for family in self.families]
        return sorted(range(len(last)), key=last.__getitem__)

    def _copies(self, x: Array, block: OutputBlock, groups: slice, space: Space) -> Array:
        """Return `[groups, shifts, C/g, columns]`: the padded inputs, read some positions back."""
        g, c, filled = groups.stop - groups.start, self.c, block.columns
        width = _width(block)
        host = matrix(space, g * len(self.order) * c, width, self.problem.compute)
        copies = host.reshape(g, len(self.order), c, width)
        origin = self.order.index((0,) * len(self.axes))
        part = block.inputs(x[:, groups.start * c : groups.stop * c])
        part = part.reshape(part.shape[0], g, c, *part.shape[2:])
        base = copies[:, origin]
        base[..., filled:] = 0
        pad(part, block, base[..., :filled].reshape(g, c, block.count, *block.grid))
        for i, q in enumerate(self.order):
            if i != origin:
                offset = min(block.offset(q), width)
                copies[:, i, :, :offset] = 0
                copies[:, i, :, offset:] = base[..., : width - offset]
        return copies

    def _family(
        self,
        copies: Array,
        family: _Family,
        w: Array,
        block: OutputBlock,
        tiles: Array,
        space: Space,
    ) -> None:
        g, _, c, width = copies.shape
        skip = lead_columns(block)
        right = copies[:, family.start : family.start + len(family.taps), :, skip:]
        right = right.reshape(g, len(family.taps) * c, width - skip)
        # The columns before `skip` are only read by shifts; nothing is written from there.
        host = matrix(space, g * w.shape[1], width, copies.dtype).reshape(g, -1, width)
        multiply(w, right, host[:, :, skip:])
        planes = host[:, :, : block.columns]
        planes = planes.reshape(g, len(family.members), -1, block.count, *block.grid)
        planes = planes.transpose(1, 3, 0, 2, *range(4, planes.ndim))
        for r in block.order:
            if r in family.places:
                put(planes[family.places[r]], r, block, tiles)


def _width(block: OutputBlock) -> int:
    """Return the columns of the copies: what is multiplied is a whole number of vectors."""
    skip = lead_columns(block)
    return skip + lanes(block.columns - skip)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel of exact phases."""
    return [shared(_candidate(layout) for layout in _layouts(problem))]


def _layouts(problem: ConvProblem) -> Iterator[_PhasesLayout]:
    """Yield ways to cut the work: blocks of the usual size, or of a part of it, and channels."""
    _, order = _families(geo.axes_of(problem))
    g, m, size = problem.groups, problem.group_outputs, problem.itemsize
    rows = problem.group_inputs * len(order)
    room = blocking.SIZES.phases_bytes // size // rows
    if rows > DEEP:  # products that deep are packed, which pays from more columns on
        room *= 4
    if problem.narrow:  # a tile of sums is needed besides the residues
        sums = blocking.SIZES.phases_sums_bytes // size
        room = min(room, sums // (m * math.prod(problem.strides)))
    known: set[int] = set()
    for share in SHARES:
        limit = max(room // share, blocking.SIZES.phases_columns)
        blocks = split_output(problem, limit, overhead=2)
        if len(blocks) in known:
            continue
        known.add(len(blocks))
        together = blocking.SIZES.phases_bytes // size // rows // blocks.most(_width)
        together = shares(g, -(-g // max(1, min(g, together))))
        batches = len(blocks) * -(-g // together)
        yield _PhasesLayout(problem, blocks, together, m)
        if batches < ITEMS and together == 1 and m > 1:  # the inputs are copied for each half
            yield _PhasesLayout(problem, blocks, 1, shares(m, 2))


def _candidate(layout: _PhasesLayout) -> Candidate:
    problem, together = layout.problem, layout.groups
    families, order = _families(geo.axes_of(problem))
    g, c, m = problem.groups, problem.group_inputs, layout.channels
    most, chunks = layout.blocks.most(_width), len(layout.chunks)
    apart = max(1.0, problem.strides[-1] / NEAR_STRIDE)
    work = Passes()
    for block, times in layout.blocks.kinds:
        width, row, skip = _width(block), max(1, block.grid[-1]), lead_columns(block)
        copied = chunks * together * c * width
        done = Passes(copied=copied * len(order), rows=copied / row, items=chunks)
        done.calls += chunks * len(order)
        for f in families:
            rows = len(f.members) * m
            done.product += chunks * stack_cost(together, rows, len(f.taps) * c, width - skip)
            done.written += chunks * together * rows * width * apart
            done.rows += chunks * together * rows * width / row
            done.calls += chunks * len(f.members)
        work.add(done, times)
        work.fill(block, problem.outputs, times)
    scratch = problem.itemsize * (
        pitch(most, problem.compute)
        * together
        * (c * len(order) + sum(len(f.members) for f in families) * m)
        + g * c * problem.group_outputs * problem.taps
    )
    scratch += tile_bytes(problem, layout.blocks, together * m)
    return work.candidate("phases", PHASES, scratch, partial(_Phases, layout))
