"""Ways to cut Winograd's deconvolution into tiles, blocks and chunks, and their costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

from irdeconv.kernels import deconvolution, jit, scratch
from irdeconv.kernels.candidate import SHARES, ConvProblem, Estimate
from irdeconv.kernels.deconvolution import (
    ROUGHLY,
    Blocking,
    OutputBlock,
    split_output,
    whole_output,
)
from irdeconv.kernels.deconvolution_col2im import halves
from irdeconv.kernels.jit import LANES, RUN, ZIPPED
from irdeconv.kernels.panels import FAR_BYTES, best_tile, computed
from irdeconv.kernels.products import CALL, lanes, pitch, product_cost, stack_cost
from irdeconv.kernels.scratch import ITEMS, pieces, shares

LEAST_CHUNK = 8  # channels of the output, for which threads read the evaluated inputs again
LEAST_READ = 1 << 16  # elements of inputs that are worth a call


@dataclass(frozen=True)
class Tiling:
    """Tiles per axis, blocks of positions, and output channels per chunk.

    `behind`: there are tiles for the zeros behind rows, into which tails are added. The inputs of a
    block are read in `readers` pieces, or more.
    """

    problem: ConvProblem
    axes: tuple[deconvolution.DeconvAxis, ...]
    tiles: tuple[int, ...]
    blocks: Blocking
    channels: int
    behind: bool = True
    readers: int = 1

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The number of points per axis."""
        return tuple(t + a.counts[0] - 1 for t, a in zip(self.tiles, self.axes, strict=True))

    @cached_property
    def residues(self) -> int:
        """The number of residues of the output."""
        return math.prod(len(a.counts) for a in self.axes)

    def grid(self, block: OutputBlock) -> tuple[int, ...]:
        """The number of tiles per axis."""
        sizes = block.grid if self.behind else [p.inputs for p in block.parts]
        return tuple(-(-s // t) for s, t in zip(sizes, self.tiles, strict=True))

    @cached_property
    def apart(self) -> bool:
        """Whether threads share the blocks, not the channels of one after the other."""
        return len(self.blocks) * self.problem.groups >= ITEMS

    @cached_property
    def cuts(self) -> list[slice]:
        """The input channels of a group, so many as are read at a time."""
        c, positions = self.problem.group_inputs, self.problem.shape[0] * self.problem.positions
        step = max(16, -(-c // 8), -(-LEAST_READ // positions))
        return pieces(c, min(step, -(-c // self.readers)))

    def finer(self, share: int) -> list[Tiling]:
        """Return it with so many times as many chunks of channels, if threads share these."""
        channels = max(LEAST_CHUNK, -(-self.channels // share))
        if self.apart or channels >= self.channels:
            return []
        return [replace(self, channels=channels, readers=share)]

    @cached_property
    def items(self) -> int:
        """The least number of pieces of work that threads share."""
        if self.apart:
            return len(self.blocks) * self.problem.groups
        return -(-self.problem.group_outputs // self.channels)

    def columns(self, block: OutputBlock) -> int:
        """The number of tiles of a block."""
        return block.count * math.prod(self.grid(block))

    def width(self, block: OutputBlock) -> int:
        """The number of columns of a block that are multiplied: whole vectors."""
        columns = self.columns(block)
        whole = lanes(columns) if self.behind else -(-columns // jit.lanes()) * jit.lanes()
        return min(whole, pitch(columns, self.problem.compute))

    def pitch(self, block: OutputBlock) -> int:
        """The distance of channels of a block's evaluated inputs."""
        return pitch(self.columns(block), self.problem.compute)


TILES = (2, 3, 4)
SOME_TILES = 5  # sizes of tiles that are looked at closely, after an estimate for the whole output
MAX_POINTS = 6  # per axis; beyond, the interpolation loses too many digits


@dataclass(frozen=True, kw_only=True)
class PassRates:
    """Nanoseconds of Winograd in NumPy, besides its products and calls."""

    product: float = 1.395  # each nanosecond that the products alone would take
    read: float = 0.167  # each element of a tile
    read_run: float = 9.24  # each run of them
    evaluated: float = 0.152  # each value of an input tile
    interpolated: float = 0  # each product of a point
    overlapped: float = 0  # each sum that is added to the next tile
    written: float = 0.268  # each output
    written_run: float = 7.28  # each run of them


@dataclass(frozen=True, kw_only=True)
class TileRates:
    """Nanoseconds of Winograd with compiled tiles, fitted to random layers."""

    sums: float = 0.135  # each vector of products that is added
    streamed: float = 0.004  # each byte of weights that are not in a near cache
    product: float = 150  # each product of a point
    read: float = 0.112  # each element of a tile
    read_run: float = 5  # each run of them
    evaluated: float = 0.17  # each value of an input tile
    entering: float = 12  # each set of runs of inputs that is multiplied by a matrix
    mixed: float = 0.22  # each vector of values times an element of a matrix
    leaving: float = 18.5  # each set of runs of sums that is multiplied by a matrix
    row_part: float = 74  # each part of a row of sums
    row: float = 34.5  # each row of the output
    vector: float = 1.6  # each vector of it
    zipped: float = 0.13  # each output that vectors write in turns
    strided: float = 0.28  # each other output
    term: float = 0.8  # each vector of terms
    piece: float = 15000  # each piece of work


PASSES, TILED = PassRates(), TileRates()


def ways(problem: ConvProblem, limit: float) -> list[Iterator[Tiling]]:
    """Return the ways to cut tiles of some sizes that may pay within `limit` ns."""
    axes = deconvolution.axes_of(problem)
    if any(a.shift > 1 and a.counts[0] > 1 for a in axes) or all(a.counts[0] == 1 for a in axes):
        return []
    choices = [
        [t for t in TILES if t >= a.counts[0] - 1 and t + a.counts[0] - 1 <= MAX_POINTS]
        if a.counts[0] > 1
        else [1]
        for a in axes
    ]
    whole = whole_output(problem)
    drafts = [_tiling(problem, axes, t, whole) for t in itertools.product(*choices)]
    some = sorted((estimate(draft).cost, draft.tiles) for draft in drafts)[:SOME_TILES]
    return [_tilings(problem, axes, tiles) for cost, tiles in some if cost < ROUGHLY * limit]


def for_threads(tiling: Tiling) -> Tiling:
    """Return a tiling of compiled tiles, cut finer if threads share it."""
    cost = partial(_nanoseconds, of_block=_tiles_of, rates=TILED)
    return scratch.cut_for_threads(tiling, Tiling.finer, attrgetter("items"), cost)


def _tiling(
    problem: ConvProblem,
    axes: tuple[deconvolution.DeconvAxis, ...],
    tiles: tuple[int, ...],
    blocks: Blocking,
) -> Tiling:
    """Return the tiling that computes all output channels at a time."""
    behind = not (jit.available() and problem.compute.kind == "f")
    return Tiling(problem, axes, tiles, blocks, problem.group_outputs, behind)


def _tilings(
    problem: ConvProblem, axes: tuple[deconvolution.DeconvAxis, ...], tiles: tuple[int, ...]
) -> Iterator[Tiling]:
    """Yield the ways to cut the output channels."""
    c, m = problem.group_inputs, problem.group_outputs
    ratio = math.prod((t + a.counts[0] - 1) / t for t, a in zip(tiles, axes, strict=True))
    room = int(scratch.SIZES.evaluated_bytes / problem.itemsize / ratio / c)
    blocks = split_output(problem, max(scratch.SIZES.tile_columns, room))
    draft = _tiling(problem, axes, tiles, blocks)
    most = blocks.most(draft.columns)
    row = math.prod(draft.points) * draft.residues * most * problem.itemsize
    least = -(-m // max(1, scratch.SIZES.tile_products_bytes // row))
    for channels in sorted({shares(m, max(share, least)) for share in SHARES}):
        yield replace(draft, channels=channels)


def estimate(tiling: Tiling) -> Estimate:
    """Return the time of the kernel."""
    if tiling.behind:
        return Estimate(PASSES, partial(_nanoseconds, tiling, _passes_of))
    return Estimate(TILED, partial(_nanoseconds, tiling, _tiles_of))


def _nanoseconds(
    tiling: Tiling, of_block: Callable[[Tiling, OutputBlock, Any], float], rates: Any
) -> float:
    """Estimate the nanoseconds; `of_block` estimates those of a block and group."""
    kinds = tiling.blocks.kinds
    return sum(times * of_block(tiling, b, rates) for b, times in kinds) * tiling.problem.groups


def _passes_of(tiling: Tiling, block: OutputBlock, rates: PassRates) -> float:
    """Estimate the nanoseconds of a block and group in NumPy."""
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows, chunks = tiling.residues * tiling.channels, -(-m // tiling.channels)
    columns, row = tiling.columns(block), max(1, tiling.grid(block)[-1])
    cost = inputs * c * columns * (rates.read + rates.read_run / row) + 2 * CALL * inputs * 8
    cost += product_cost(points, inputs, c * columns) + rates.evaluated * points * c * columns
    cost += chunks * rates.product * stack_cost(points, rows, c, columns)
    leaving = product_cost(points, points, rows * columns)
    cost += chunks * (leaving + rates.interpolated * points * rows * columns)
    cost += chunks * (points - inputs) * (rates.overlapped * rows * columns + CALL)
    writing = rows * columns * (rates.written + rates.written_run / row)
    writing += tiling.residues * 2 * CALL
    return cost + chunks * inputs * writing


def _tiles_of(tiling: Tiling, block: OutputBlock, rates: TileRates) -> float:
    """Estimate the nanoseconds of a block and group with compiled tiles."""
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows, chunks = tiling.residues * tiling.channels, -(-m // tiling.channels)
    columns, row = tiling.columns(block), max(1, tiling.grid(block)[-1])
    line, width = tiling.pitch(block), tiling.width(block)
    read, left = -(-c // max(1, RUN // line)) * -(-columns // RUN), -(-rows * width // RUN)
    mixed, entering = _mixing(tiling.tiles, tiling.points)
    added, leaving = _mixing(tiling.points, tiling.points)
    product = rates.mixed / jit.lanes()
    reading = inputs * (rates.read + rates.read_run / row) + rates.evaluated * points
    cost = c * columns * (reading + product * mixed) + rates.entering * entering * read
    cost += chunks * _multiplying(tiling, block, rates)
    cost += chunks * (
        product * added * columns * rows + (rates.leaving * leaving + rates.row_part) * left
    )
    cost += m * _writing(tiling, block, rates)
    return cost + rates.piece * (len(tiling.cuts) + chunks)


def _multiplying(tiling: Tiling, block: OutputBlock, rates: TileRates) -> float:
    """Estimate the nanoseconds of the products of a block and some channels."""
    points, rows = math.prod(tiling.points), tiling.residues * tiling.channels
    c, columns = tiling.problem.group_inputs, tiling.columns(block)
    if tiling.problem.compute != np.float32:
        return stack_cost(points, rows, c, columns)
    vectors = -(-columns // jit.lanes())
    cost = rates.sums * c * computed(rows, vectors, best_tile(rows, vectors)) + rates.product
    weights = 4 * rows * c
    if points * weights * -(-tiling.problem.group_outputs // tiling.channels) > FAR_BYTES:
        cost += rates.streamed * weights
    return points * cost


def _mixing(before: Sequence[int], after: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of products and of sets of runs for a column of tiles, axis by axis."""
    sizes, products, runs = list(before), 0, 0
    for axis, (a, b) in enumerate(zip(before, after, strict=True)):
        rest = math.prod(sizes) // a
        sizes[axis] = b
        if a * b > 1:
            products += rest * a * b
            runs += rest
    return products, runs


def _writing(tiling: Tiling, block: OutputBlock, rates: TileRates) -> float:
    """Estimate the nanoseconds of writing an output channel of a block."""
    *outer, last = block.parts
    stride, width = last.axis.stride * tiling.tiles[-1], last.outputs
    terms = [
        points * len(a.counts) * -(-size // (LANES if i == len(outer) else 1))
        for i, (points, a, size) in enumerate(
            zip(tiling.points, tiling.axes, tiling.grid(block), strict=True)
        )
    ]
    vectors = sum(-(-(width - f) // (stride * LANES)) for f in range(min(stride, width)))
    vectors, terms = vectors * halves(), [*terms, halves()]
    rows = math.prod(p.outputs for p in outer)
    strided = rates.zipped if stride in ZIPPED else rates.strided
    writing = rows * (rates.row + rates.vector * vectors + strided * width)
    return block.count * (writing + rates.term * math.prod(terms))
