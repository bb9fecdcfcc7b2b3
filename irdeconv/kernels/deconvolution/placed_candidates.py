"""How the work of the compiled deconvolution kernels is cut, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock, split_output, tile_bytes
from irdeconv.kernels.deconvolution.col2im import Chunk, RowLayout
from irdeconv.kernels.deconvolution.placed import PlacedTerms, SpreadInputs
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, Estimate, shared
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import aliases, pitch, product_cost

PARTS = (1, 4, 16, 64)  # into which blocks of several images are cut
FEW = 16  # input channels of a group up to which the compiled code may multiply them itself


@dataclass(frozen=True, kw_only=True)
class RowRates:
    """Nanoseconds of the kernels that write row by row, fitted to a few hundred random layers."""

    product: float  # each nanosecond that the product alone would take
    block: float
    gathered: float  # each element that is copied
    row: float  # each row of the output
    vector: float  # each vector of it
    output: float  # each element of it
    strided: float  # and more where the stride is above 2
    term: float  # each vector of terms or products


PLACED = RowRates(
    product=0.96, block=9800, gathered=0.35, row=7.2, vector=1.5, output=0, strided=0.2, term=1.6
)
SINGLE = replace(  # where each output is one term
    PLACED, block=7600, gathered=0.25, row=11, vector=0.06, output=0.11, strided=0.24, term=0.2
)
SPREAD = RowRates(
    product=0, block=7900, gathered=0.1, row=10, vector=4, output=0.04, strided=0.05, term=1.2
)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the compiled kernels for floats, if numba is there."""
    if not available() or problem.compute.kind != "f":
        return []
    kernels = [shared(_placings(problem))]
    if problem.shape[1] <= FEW * problem.groups:
        kernels.append(shared(_spreads(problem)))
    return kernels


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
    c = problem.group_inputs
    halo, kinds = any(a.halo for a in geo.axes_of(problem)), layout.blocks.kinds
    single = not halo and all(b.covered for b, _ in kinds)
    estimate = Estimate(SINGLE if single else PLACED, partial(_placed_cost, layout))
    widest = max(layout.chunks, key=lambda k: k.count * k.width)
    line, channels = pitch(most, problem.compute), widest.width * widest.count
    elements = (widest.width * problem.taps + c) * widest.count * line + 4 * LANES
    scratch = problem.itemsize * (
        elements + _elements_of_filter(problem) + _sums(problem, layout.blocks)
    )
    scratch += tile_bytes(problem, layout.blocks, channels) + 4 * 64
    return Candidate(
        name="placed",
        cost=estimate.cost,
        scratch=scratch,
        prepare=partial(PlacedTerms, layout),
        items=layout.items,
        estimate=estimate,
    )


def _placed_cost(layout: RowLayout, rates: RowRates) -> float:
    """Estimate the nanoseconds of `placed`."""
    cost, c, taps = 0.0, layout.problem.group_inputs, layout.problem.taps
    for block, times in layout.blocks.kinds:
        width, of_channel = block.input_positions, _row_cost(rates, block, 1)
        for chunk in layout.chunks:
            product = product_cost(chunk.width * taps, c, width)
            of_group = rates.product * product + chunk.width * of_channel
            if block.count > 1:
                of_group += rates.gathered * c * width
            cost += times * (chunk.count * of_group + rates.block)
    return cost


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
    problem, blocks, chunks = layout.problem, layout.blocks, layout.chunks
    c, estimate = problem.group_inputs, Estimate(SPREAD, partial(_spread_cost, layout))
    most = blocks.most(lambda b: b.input_positions)
    channels, groups = max(k.count * k.width for k in chunks), max(k.count for k in chunks)
    elements = groups * c * most + 4 * LANES + _elements_of_filter(problem)
    elements += _sums(problem, blocks)
    scratch = problem.itemsize * elements + tile_bytes(problem, blocks, channels) + 4 * 64
    return Candidate(
        name="spread",
        cost=estimate.cost,
        scratch=scratch,
        prepare=partial(SpreadInputs, layout),
        items=layout.items,
        estimate=estimate,
    )


def _spread_cost(layout: RowLayout, rates: RowRates) -> float:
    """Estimate the nanoseconds of `spread`."""
    cost, c = 0.0, layout.problem.group_inputs
    for block, times in layout.blocks.kinds:
        of_channel = _row_cost(rates, block, c)
        gathered = rates.gathered * c * block.input_positions
        for k in layout.chunks:
            cost += times * (k.count * (k.width * of_channel + gathered) + rates.block)
    return cost


def _elements_of_filter(problem: ConvProblem) -> int:
    return problem.shape[1] * problem.group_outputs * problem.taps


def _sums(problem: ConvProblem, blocks: Blocking) -> int:
    widest = blocks.most(lambda b: b.parts[-1].outputs)
    return widest + 2 * LANES * problem.strides[-1]


def _row_cost(rates: RowRates, block: OutputBlock, inputs: int) -> float:
    """Estimate the nanoseconds that the compiled code takes for one output channel of a block."""
    rows = block.count * math.prod(p.outputs for p in block.parts[:-1])
    last = block.parts[-1]
    width, stride = last.outputs, last.axis.stride
    vectors = sum(-(-(width - f) // (stride * LANES)) for f in range(min(stride, width)))
    pairs = block.count * math.prod(p.axis.kernel * p.inputs for p in block.parts[:-1])
    terms = pairs * last.axis.kernel * inputs * -(-last.inputs // LANES)
    element = rates.output + (rates.strided if stride > 2 else 0)
    return rows * (rates.row + rates.vector * vectors + element * width) + rates.term * terms
