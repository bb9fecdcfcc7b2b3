"""How Winograd deconvolutions are cut, and what they cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from irdeconv.kernels.compiled import LANES, RUN, ZIPPED
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import OutputBlock, split_output, tile_bytes
from irdeconv.kernels.deconvolution.compiled_winograd import CompiledWinograd
from irdeconv.kernels.deconvolution.winograd import MARGIN, Tiling, WinogradDeconvolution
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import shares
from irdeconv.kernels.shared.candidate import SHARES, Candidate, shared
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import CALL, pitch, product_cost, stack_cost
from irdeconv.kernels.shared.team import ALIGNMENT

TILES = (2, 3, 4)
STEP = 8000.0  # ns of one piece of work besides what it computes
MAX_POINTS = 6  # per axis; beyond, the interpolation loses too many digits


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return kernels of the tile sizes that could pay; none where every tap lands alone."""
    axes = geo.axes_of(problem)
    if any(a.shift > 1 and a.counts[0] > 1 for a in axes) or all(a.counts[0] == 1 for a in axes):
        return []
    choices = [
        [t for t in TILES if t >= a.counts[0] - 1 and t + a.counts[0] - 1 <= MAX_POINTS]
        if a.counts[0] > 1
        else [1]
        for a in axes
    ]
    found = [
        shared(_candidate(way) for way in _tilings(problem, axes, t))
        for t in itertools.product(*choices)
    ]
    return sorted(found, key=lambda c: c.cost)[:3]


def _tilings(
    problem: ConvProblem, axes: tuple[geo.DeconvAxis, ...], tiles: tuple[int, ...]
) -> Iterator[Tiling]:
    """Yield the ways to cut the output channels."""
    c, m = problem.group_inputs, problem.group_outputs
    ratio = math.prod((t + a.counts[0] - 1) / t for t, a in zip(tiles, axes, strict=True))
    room = int(blocking.SIZES.evaluated_bytes / problem.itemsize / ratio / c)
    blocks = split_output(problem, max(blocking.SIZES.tile_columns, room))
    behind = not (available() and problem.compute.kind == "f")
    draft = Tiling(problem, axes, tiles, blocks, m, behind)
    most = blocks.most(draft.columns)
    row = math.prod(draft.points) * draft.residues * most * problem.itemsize
    least = -(-m // max(1, blocking.SIZES.tile_products_bytes // row))
    for channels in sorted({shares(m, max(share, least)) for share in SHARES}):
        yield replace(draft, channels=channels)


def _candidate(tiling: Tiling) -> Candidate:
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows = tiling.residues * tiling.channels
    estimate = _with_passes if tiling.behind else _compiled
    cost = sum(times * estimate(tiling, block) for block, times in tiling.blocks.kinds)
    piece = max(cut.stop - cut.start for cut in tiling.cuts)
    kind = problem.compute
    wide = pitch(tiling.blocks.most(tiling.columns), kind)
    elements = points * (pitch(c * wide, kind) + pitch(rows * wide, kind)) + 2 * MARGIN
    if tiling.behind:
        kernel: type[WinogradDeconvolution] = WinogradDeconvolution
        elements += wide * (2 * points * rows + inputs * piece)
    else:
        kernel = CompiledWinograd
        widest = tiling.blocks.most(lambda b: b.parts[-1].outputs)
        elements += widest + 2 * LANES * (problem.strides[-1] * tiling.tiles[-1] + 1)
        elements += inputs * wide + 3 * RUN * math.prod(map(max, tiling.tiles, tiling.points))
        elements += piece * tiling.blocks.most(
            lambda b: b.input_positions
        )  # inputs that must be copied
    elements += problem.groups * points * tiling.residues * m * c
    scratch = problem.itemsize * elements + 8 * ALIGNMENT
    scratch += tile_bytes(problem, tiling.blocks, tiling.channels)
    name = "winograd-" + "x".join(map(str, tiling.tiles))
    cost *= problem.groups
    return Candidate(
        name, cost, scratch, lambda w: kernel(tiling, w), tiling.items, transforms=True
    )


def _with_passes(tiling: Tiling, block: OutputBlock) -> float:
    """Estimate the nanoseconds of a block and group in NumPy."""
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows, chunks = tiling.residues * tiling.channels, -(-m // tiling.channels)
    columns, row = tiling.columns(block), max(1, tiling.grid(block)[-1])
    own = inputs * c * columns * (0.5 + 15.0 / row) + 2 * CALL * inputs * 8
    own += product_cost(points, inputs, c * columns) + 0.4 * points * c * columns
    own += chunks * stack_cost(points, rows, c, columns)
    own += chunks * (product_cost(points, points, rows * columns) + 0.45 * points * rows * columns)
    own += chunks * (points - inputs) * (0.25 * rows * columns + CALL)
    writing = rows * columns * (0.40 + 22.0 / row) + tiling.residues * 2 * CALL
    return own + chunks * inputs * writing


def _compiled(tiling: Tiling, block: OutputBlock) -> float:
    """Estimate the nanoseconds of a block and group with compiled tiles.

    Fitted to some three thousand random layers, step by step.
    """
    problem = tiling.problem
    c, m = problem.group_inputs, problem.group_outputs
    points, inputs = math.prod(tiling.points), math.prod(tiling.tiles)
    rows, chunks = tiling.residues * tiling.channels, -(-m // tiling.channels)
    columns, row = tiling.columns(block), max(1, tiling.grid(block)[-1])
    parts = -(-columns // RUN)
    _, entering = _mixing(tiling.tiles, tiling.points)
    added, leaving = _mixing(tiling.points, tiling.points)
    own = c * columns * (inputs * (0.6 + 10.4 / row) + 0.056 * points) + 17.0 * c * entering * parts
    own += chunks * 0.95 * stack_cost(points, rows, c, columns)
    own += chunks * rows * (0.0253 * added * columns + (4.9 * leaving + 39.0) * parts)
    return own + m * _placing(tiling, block) + STEP * (len(tiling.cuts) + chunks)


def _mixing(before: Sequence[int], after: Sequence[int]) -> tuple[int, int]:
    """Return how many products a column of tiles takes, axis by axis, and how many sets of runs."""
    sizes, products, runs = list(before), 0, 0
    for axis, (a, b) in enumerate(zip(before, after, strict=True)):
        rest = math.prod(sizes) // a
        sizes[axis] = b
        if a * b > 1:
            products += rest * a * b
            runs += rest
    return products, runs


def _placing(tiling: Tiling, block: OutputBlock) -> float:
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
    rows = math.prod(p.outputs for p in outer)
    strided = 0.13 if stride in ZIPPED else 0.4
    own = rows * (10.7 + 3.35 * vectors + strided * width) + 0.69 * math.prod(terms)
    return block.count * own
