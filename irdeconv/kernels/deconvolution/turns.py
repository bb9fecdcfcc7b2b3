"""Deconvolution whose kernel is its stride (the extra `fast`): a product, written in its place.

Every output is one term, so that the residues of a row are rows of one product
`[M * residues, C] @ [C, positions]`; the micro-kernel writes neighbours of the last axis in turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.kernels.compiled import TURNS
from irdeconv.kernels.compiled.panels import (
    FAR_BYTES,
    Panels,
    RegisterTile,
    VectorPlaces,
    best_tile,
    near_elements,
    padded,
    vector_starts,
)
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Estimate, deliver, shared
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.scratch import Space, contiguous
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

NEAR_ROWS = 48  # of the product, from which on copying what a tile reads costs less than it brings
PARTS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class TurnRates:
    """Nanoseconds of the kernel."""

    sums: float = 0.15  # each vector of products that is added
    near: float = 0.5  # each vector that is copied for a tile
    written: float = 0.12  # each output
    streamed: float = 0.01  # each byte of weights that are not in a near cache
    block: float = 5000.0


TURNING = TurnRates()


@dataclass(frozen=True)
class _Cutting:
    """Blocks of `step` slices of the first axis, or rows where there is no other."""

    problem: ConvProblem
    step: int

    @cached_property
    def height(self) -> int:
        """How many slices an image has."""
        return self.problem.shape[2] if self.problem.rank > 1 else 1

    @cached_property
    def lines(self) -> int:
        """How many rows a slice has."""
        return math.prod(self.problem.shape[3:-1])

    @cached_property
    def rows(self) -> int:
        """The rows of a group's product."""
        return self.problem.group_outputs * self.problem.taps

    @cached_property
    def vectors(self) -> int:
        """The vectors of a block."""
        return self.step * self.lines * -(-self.problem.shape[-1] // jit.lanes())

    @cached_property
    def near(self) -> bool:
        """Whether what a tile reads is copied."""
        return self.rows >= NEAR_ROWS

    @cached_property
    def tile(self) -> RegisterTile:
        """The tile of the micro-kernel that computes least in vain."""
        last = self.problem.strides[-1]
        depth = self.problem.group_inputs if self.near else 0
        return best_tile(self.rows, self.vectors, depth, multiple=last)

    def nanoseconds(self, rates: TurnRates) -> float:
        """Return the estimated time."""
        problem, depth = self.problem, self.problem.group_inputs
        spent = rates.block + rates.sums * padded(self.rows, self.vectors, self.tile) * depth
        if self.near:
            spent += rates.near * self.vectors * depth
        if 4 * self.rows * depth > FAR_BYTES:
            times = -(-self.vectors // self.tile.vectors)
            spent += rates.streamed * 4 * self.rows * depth * times
        blocks = problem.shape[0] * problem.groups * -(-self.height // self.step)
        return blocks * spent + rates.written * math.prod(problem.out_shape)


def applies(problem: ConvProblem) -> bool:
    """Whether the kernel is the stride and nothing is cut off."""
    plain = problem.kernel == problem.strides and not any(problem.begin)
    pairs = zip(problem.shape[2:], problem.strides, strict=True)
    whole = problem.sizes == tuple(i * s for i, s in pairs)
    dense = all(d == 1 or k == 1 for d, k in zip(problem.dilations, problem.kernel, strict=True))
    rows = problem.shape[-1] >= jit.lanes() and problem.strides[-1] in TURNS
    return plain and whole and dense and rows and problem.dtype == "float32"


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel where it applies and numba is there."""
    if not jit.available() or not applies(problem):
        return []
    whole = _Cutting(problem, 1)
    each = problem.group_inputs + whole.rows
    room = blocking.SIZES.direct_bytes // (4 * whole.lines * problem.shape[-1] * each)
    pieces = -(-whole.height // max(1, room))
    steps = {shares(whole.height, part * pieces) for part in PARTS}
    return [shared(_candidate(_Cutting(problem, step)) for step in sorted(steps, reverse=True))]


def _candidate(layout: _Cutting) -> Candidate:
    problem, tile = layout.problem, layout.tile
    estimate = Estimate(TURNING, layout.nanoseconds)
    rows = -(-layout.rows // tile.rows) * tile.rows
    elements = problem.groups * rows * problem.group_inputs
    elements += near_elements(problem.group_inputs, tile) if layout.near else 0
    return Candidate(
        name="turns",
        cost=estimate.cost,
        scratch=4 * elements + 512,
        prepare=lambda w: StrideKernel(layout, w),
        items=problem.shape[0] * problem.groups * -(-layout.height // layout.step),
        estimate=estimate,
    )


@dataclass(frozen=True)
class _Slices:
    """Some slices of an image, and a group of channels."""

    image: int
    group: int
    slices: slice


class StrideKernel:
    """The kernel; `w` is `[g, C/g, M/g, *K]`."""

    def __init__(self, layout: _Cutting, w: Array) -> None:
        self.layout, self.problem = layout, layout.problem
        groups, c = w.shape[:2]
        matrices = w.reshape(groups, c, layout.rows).swapaxes(1, 2)
        self.panels = [Panels(matrix, layout.tile) for matrix in matrices]
        problem = layout.problem
        plane = math.prod(problem.sizes)
        shape = (problem.group_outputs, *problem.kernel)
        m, *taps = np.indices(shape).reshape(len(shape), -1)
        place = np.zeros_like(m)
        for tap, size in zip(taps[:-1], problem.sizes[:-1], strict=True):
            place = place * size + tap
        self.starts = (m * plane + place * problem.sizes[-1]).astype(np.int64)
        self.offsets = np.arange(c) * problem.positions
        steps = {layout.step, layout.height % layout.step or layout.step}
        self.places = {count: self._places(count) for count in steps}
        self.items = [
            _Slices(n, g, some)
            for n in range(problem.shape[0])
            for g in range(groups)
            for some in pieces(layout.height, layout.step)
        ]

    def _places(self, slices: int) -> VectorPlaces:
        """Return where the vectors of some slices are read and written."""
        layout, problem = self.layout, self.problem
        *outer, width = problem.shape[2:]
        if outer:
            outer[0] = slices
        rows = np.zeros(1, np.int64)
        for size, stride, out in zip(outer, problem.strides, problem.sizes, strict=False):
            rows = (rows[:, None] * out + np.arange(size) * stride).ravel()
        starts = vector_starts(width)
        reads = (np.arange(len(rows)) * width)[:, None] + starts
        writes = (rows * problem.sizes[-1])[:, None] + starts * problem.strides[-1]
        find = VectorPlaces.gathered if layout.near else VectorPlaces.of
        return find(reads.ravel(), writes.ravel(), layout.tile)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        team.each(self.items, lambda item, space: self._item(x, out, item, epilogue, space))

    def _item(
        self, x: Array, out: Array, item: _Slices, epilogue: Epilogue | None, space: Space
    ) -> None:
        problem, n, first = self.problem, item.image, item.slices.start
        c, m = problem.group_inputs, problem.group_outputs
        inputs = slice(item.group * c, (item.group + 1) * c)
        source = contiguous(x[n, inputs], problem.compute, space).reshape(-1)
        whole = problem.rank == 1
        slab = 0 if whole else math.prod(problem.shape[3:])
        area = 0 if whole else problem.strides[0] * math.prod(problem.sizes[1:])
        plane = math.prod(problem.sizes)
        base = (n * problem.outputs + item.group * m) * plane + first * area
        places = self.places[item.slices.stop - first]
        self.panels[item.group](
            source[first * slab :],
            self.offsets,
            places,
            out.reshape(-1),
            self.starts,
            base,
            space,
            turns=problem.strides[-1],
        )
        channels = slice(item.group * m, (item.group + 1) * m)
        positions = slice(0, plane) if whole else slice(first * area, item.slices.stop * area)
        target = out.reshape(*out.shape[:2], plane)[n, channels, positions]
        deliver(target, target, epilogue, n, channels, positions)
