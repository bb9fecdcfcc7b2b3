"""How the work of the compiled deconvolution kernels is cut, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock, split_output, tile_bytes
from irdeconv.kernels.deconvolution.col2im import Chunk, RowLayout
from irdeconv.kernels.deconvolution.placed import PlacedTerms, SpreadInputs
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, shared
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import aliases, pitch, product_cost

PARTS = (1, 4, 16, 64)  # into which blocks of several images are cut
FEW = 16  # input channels of a group up to which the compiled code may multiply them itself


@dataclass(frozen=True)
class Rates:
    """Nanoseconds, fitted to a few hundred random layers.

    Per nanosecond that the product alone would take, block, element that is gathered, row of the
    output, vector of it, element of it, element where the stride is above 2 as well, and vector of
    terms or products.
    """

    product: float
    block: float
    gathered: float
    row: float
    vector: float
    output: float
    strided: float
    term: float


PLACED = Rates(0.96, 9800, 0.35, 7.2, 1.5, 0.0, 0.2, 1.6)
SINGLE = Rates(0.96, 7600, 0.25, 11.0, 0.06, 0.11, 0.24, 0.2)  # where each output is one term
SPREAD = Rates(0, 7900, 0.1, 10.0, 4.0, 0.04, 0.05, 1.2)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the compiled kernels for floats, if numba is there."""
    if not available() or problem.compute.kind != "f":
        return []
    found = [shared(_placings(problem))]
    if problem.shape[1] <= FEW * problem.groups:
        found.append(shared(_spreads(problem)))
    return found


def _chunks(problem: ConvProblem, room: int, together: int) -> list[Chunk]:
    """Split the output channels: at most about `room` of them, of `together` groups, at a time."""
    m, groups = problem.group_outputs, problem.groups
    if room >= m:
        step = min(groups, room // m, max(1, together))
        step = shares(groups, -(-groups // step))
        return [Chunk(slice(g, min(g + step, groups)), slice(0, m)) for g in range(0, groups, step)]
    step = shares(m, -(-m // max(1, room)))
    return [
        Chunk(slice(g, g + 1), slice(i, min(i + step, m)))
        for g in range(groups)
        for i in range(0, m, step)
    ]


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
    cost, rates = 0.0, PLACED
    kinds = layout.blocks.kinds
    if not any(a.halo for a in geo.axes_of(problem)) and all(b.covered for b, _ in kinds):
        rates = SINGLE
    for block, times in kinds:
        width, of_channel = block.input_positions, _row_cost(rates, block, 1)
        for chunk in layout.chunks:
            product = product_cost(chunk.width * problem.taps, c, width)
            of_group = rates.product * product + chunk.width * of_channel
            if block.count > 1:
                of_group += rates.gathered * c * width
            cost += times * (chunk.count * of_group + rates.block)
    widest = max(layout.chunks, key=lambda k: k.count * k.width)
    line, channels = pitch(most, problem.compute), widest.width * widest.count
    elements = (widest.width * problem.taps + c) * widest.count * line + 4 * LANES
    scratch = problem.itemsize * (
        elements + _elements_of_filter(problem) + _sums(problem, layout.blocks)
    )
    scratch += tile_bytes(problem, layout.blocks, channels) + 4 * 64
    return Candidate("placed", cost, scratch, lambda w: PlacedTerms(layout, w), layout.items)


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
    c, cost = problem.group_inputs, 0.0
    for block, times in blocks.kinds:
        of_channel, gathered = (
            _row_cost(SPREAD, block, c),
            SPREAD.gathered * c * block.input_positions,
        )
        for k in chunks:
            cost += times * (k.count * (k.width * of_channel + gathered) + SPREAD.block)
    most = blocks.most(lambda b: b.input_positions)
    channels, groups = max(k.count * k.width for k in chunks), max(k.count for k in chunks)
    elements = groups * c * most + 4 * LANES + _elements_of_filter(problem)
    elements += _sums(problem, blocks)
    scratch = problem.itemsize * elements + tile_bytes(problem, blocks, channels) + 4 * 64
    return Candidate("spread", cost, scratch, lambda w: SpreadInputs(layout, w), layout.items)


def _elements_of_filter(problem: ConvProblem) -> int:
    return problem.shape[1] * problem.group_outputs * problem.taps


def _sums(problem: ConvProblem, blocks: Blocking) -> int:
    widest = blocks.most(lambda b: b.parts[-1].outputs)
    return widest + 2 * LANES * problem.strides[-1]


def _row_cost(rates: Rates, block: OutputBlock, inputs: int) -> float:
    """Estimate the nanoseconds that the compiled code takes for one output channel of a block."""
    rows = block.count * math.prod(p.outputs for p in block.parts[:-1])
    last = block.parts[-1]
    width, stride = last.outputs, last.axis.stride
    vectors = sum(-(-(width - f) // (stride * LANES)) for f in range(min(stride, width)))
    pairs = block.count * math.prod(p.axis.kernel * p.inputs for p in block.parts[:-1])
    terms = pairs * last.axis.kernel * inputs * -(-last.inputs // LANES)
    element = rates.output + (rates.strided if stride > 2 else 0)
    return rows * (rates.row + rates.vector * vectors + element * width) + rates.term * terms
