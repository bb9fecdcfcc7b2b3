"""How the kernels that write row by row are cut, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution import term_products as products
from irdeconv.kernels.deconvolution.blocks import (
    ROUGHLY,
    OutputBlock,
    split_output,
    tile_bytes,
    whole_output,
)
from irdeconv.kernels.deconvolution.col2im import Chunk, RowLayout, halves
from irdeconv.kernels.deconvolution.placed import PlacedTerms, SpreadInputs
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces, shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, Estimate, shared
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import aliases, pitch, worth_copying
from irdeconv.kernels.shared.rates import rate, scaled
from irdeconv.kernels.shared.scratch import ALIGNMENT

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
