"""The ways to cut Winograd deconvolutions, and their costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.kernels import deconvolution, jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import SHARES, Candidate, ConvProblem, Estimate, shared
from irdeconv.kernels.compiled import LANES, RUN, ZIPPED
from irdeconv.kernels.deconvolution import (
    ROUGHLY,
    Blocking,
    OutputBlock,
    split_output,
    tile_bytes,
    whole_output,
)
from irdeconv.kernels.deconvolution_col2im import halves
from irdeconv.kernels.deconvolution_winograd import (
    MARGIN,
    CompiledWinograd,
    Tiling,
    WinogradDeconvolution,
)
from irdeconv.kernels.machine import rate, scaled
from irdeconv.kernels.panels import FAR_BYTES, best_tile, computed
from irdeconv.kernels.products import call_cost, pitch, product_cost, stack_cost
from irdeconv.kernels.scratch import ALIGNMENT, shares

TILES = (2, 3, 4)
SOME_TILES = 5  # sizes of tiles that are looked at closely, after an estimate for the whole output
MAX_POINTS = 6  # per axis; beyond, the interpolation loses too many digits


@dataclass(frozen=True, kw_only=True)
class PassRates:
    """Nanoseconds of Winograd in NumPy, besides its products and calls."""

    product: float = 1.395  # each nanosecond that the products alone would take
    read: float = rate("strided", 0.167)  # each element of a tile
    read_run: float = rate("call", 9.24)  # each run of them
    evaluated: float = rate("added", 0.152)  # each value of an input tile
    interpolated: float = rate("added", 0)  # each product of a point
    overlapped: float = rate("added", 0)  # each sum that is added to the next tile
    written: float = rate("strided", 0.268)  # each output
    written_run: float = rate("call", 7.28)  # each run of them


@dataclass(frozen=True, kw_only=True)
class TileRates:
    """Nanoseconds of Winograd with compiled tiles, fitted to random layers."""

    sums: float = rate("sums", 0.135)  # each vector of products that is added
    streamed: float = rate("far", 0.004)  # each byte of weights that are not in a near cache
    product: float = rate("compiled", 150)  # each product of a point
    read: float = rate("strided", 0.112)  # each element of a tile
    read_run: float = rate("call", 5)  # each run of them
    evaluated: float = rate("added", 0.17)  # each value of an input tile
    entering: float = rate("call", 12)  # each set of runs of inputs that is multiplied by a matrix
    mixed: float = rate("sums", 0.22)  # each vector of values times an element of a matrix
    leaving: float = rate("call", 18.5)  # each set of runs of sums that is multiplied by a matrix
    row_part: float = rate("call", 74)  # each part of a row of sums
    row: float = rate("call", 34.5)  # each row of the output
    vector: float = rate("added", 1.6)  # each vector of it
    zipped: float = rate("copy", 0.13)  # each output that vectors write in turns
    strided: float = rate("strided", 0.28)  # each other output
    term: float = rate("added", 0.8)  # each vector of terms
    piece: float = rate("compiled", 15000)  # each piece of work


PASSES, TILED = PassRates(), TileRates()


def candidates(problem: ConvProblem, limit: float = math.inf) -> list[Candidate]:
    """Return kernels of tile sizes that may pay within `limit` ns; none without overlap."""
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
    some = sorted((_estimate(draft).cost, draft.tiles) for draft in drafts)[:SOME_TILES]
    tilings = [_tilings(problem, axes, tiles) for cost, tiles in some if cost < ROUGHLY * limit]
    kernels = [shared(map(_candidate, ways)) for ways in tilings]
    return sorted(kernels, key=lambda c: c.cost)[:3]


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
    room = int(blocking.SIZES.evaluated_bytes / problem.itemsize / ratio / c)
    blocks = split_output(problem, max(blocking.SIZES.tile_columns, room))
    draft = _tiling(problem, axes, tiles, blocks)
    most = blocks.most(draft.columns)
    row = math.prod(draft.points) * draft.residues * most * problem.itemsize
    least = -(-m // max(1, blocking.SIZES.tile_products_bytes // row))
    for channels in sorted({shares(m, max(share, least)) for share in SHARES}):
        yield replace(draft, channels=channels)


def _estimate(tiling: Tiling) -> Estimate:
    if tiling.behind:
        return Estimate(scaled(PASSES), partial(_nanoseconds, tiling, _passes_of))
    return Estimate(scaled(TILED), partial(_nanoseconds, tiling, _tiles_of))


def _candidate(tiling: Tiling) -> Candidate:
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows = tiling.residues * tiling.channels
    piece = max(cut.stop - cut.start for cut in tiling.cuts)
    kind = problem.compute
    line = pitch(tiling.blocks.most(tiling.columns), kind)
    elements = points * (pitch(c * line, kind) + pitch(rows * line, kind)) + 2 * MARGIN
    estimate = _estimate(tiling)
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
    cost = inputs * c * columns * (rates.read + rates.read_run / row) + 2 * call_cost() * inputs * 8
    cost += product_cost(points, inputs, c * columns) + rates.evaluated * points * c * columns
    cost += chunks * rates.product * stack_cost(points, rows, c, columns)
    leaving = product_cost(points, points, rows * columns)
    cost += chunks * (leaving + rates.interpolated * points * rows * columns)
    cost += chunks * (points - inputs) * (rates.overlapped * rows * columns + call_cost())
    writing = rows * columns * (rates.written + rates.written_run / row)
    writing += tiling.residues * 2 * call_cost()
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
