"""Convolution by matrix products: of columns, plain ones, of every D-th position, Winograd's.

The patches of a block of output rows are gathered as a matrix `[g, C/g * taps, positions]` and
multiplied by the filter. A kernel of size 1 needs no patches.

Taps that lie D apart only combine inputs and outputs that are equal modulo D. Each residue is a
convolution without dilation on a smaller map, which has faster kernels.

3x3 with stride 1: Winograd's minimal filtering takes fewer multiplications, more additions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import (
    ROUNDING,
    Candidate,
    ConvProblem,
    Epilogue,
    Fix,
    Kernel,
    Piece,
    deliver,
    finish,
)
from irdeconv.kernels.convolution import (
    COLUMN,
    ROW,
    TRANSFORMED,
    Blockwise,
    Conv3d,
    FixedBlockwise,
    Work,
    as_conv3d,
    flat_planes,
    overlapping,
)
from irdeconv.kernels.convolution_rows import (
    RowBlock,
    RowBlocks,
    gather_columns,
    partition,
    row_block,
)
from irdeconv.kernels.jit import MULTIPLIED
from irdeconv.kernels.machine import relative
from irdeconv.kernels.products import (
    ProductCall,
    aliases,
    call_cost,
    lanes,
    multiply,
    product_calls,
    product_cost,
)
from irdeconv.kernels.recorded_calls import (
    Calls,
    ProgramCode,
    in_turn,
    recorded_matmuls,
    recorded_program,
    remade,
)
from irdeconv.kernels.scratch import ITEMS, Space, contiguous, pieces, shares
from irdeconv.kernels.threads import Alone, Team

LONG_WINDOW = 16  # a copy of windows longer than this costs no more than its elements
SHORT_ROW = 64  # a copy of rows shorter than this costs more than its elements


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if a matrix product per position is not enough."""
    conv = as_conv3d(problem)
    if conv.plain:
        return []
    blocks = partition(conv, conv.channels * conv.taps * conv.itemsize)

    def prepare(w: Array) -> Kernel:
        # Rows innermost, as `gather` lays out the patches.
        matrix = conv.filter(w).swapaxes(-1, -2).reshape(conv.groups, conv.outputs, -1)
        return Im2col(conv, list(blocks), matrix)

    return [work_of(conv, blocks).candidate("columns", prepare)]


def work_of(conv: Conv3d, blocks: RowBlocks) -> Work:
    """Count gathering every tap and one product per block and group."""
    work, first = Work(conv), blocks[0]
    row, column = conv.axes[ROW], conv.axes[COLUMN]
    depth = conv.channels * conv.taps
    work.blocks = len(blocks)
    size = first.rows * column.out * first.images
    work.convert(0, first.count * conv.outputs * size if first.images == 1 else 0)
    work.multiply(conv.outputs, depth, size, len(blocks) * first.count)
    everything = len(blocks) * first.count * size * depth
    copied = work.frame(first.frame.elements, len(blocks))
    if copied and first.images == 1 and conv.taps == 1 and row.stride == column.stride == 1:
        return work
    work.scratch += everything // len(blocks)
    if by_windows(conv):
        work.copy(everything, row.kernel)
        work.steps += 1
    elif two_steps(conv):
        rows = len(blocks) * first.count * conv.channels * conv.taps // row.kernel
        some = rows * row.span(first.rows) * column.out * first.images
        work.copy(some, column.out, column.stride > 1)
        work.scratch += some // len(blocks)
        flat = row.stride == 1
        work.copy(everything, (first.rows if flat else 1) * column.out)
        work.steps += 2
    else:
        long = column.out if column.kernel * column.stride > 1 or column.size > 1 else first.rows
        stride = column.stride if column.out > 1 else row.stride
        work.copy(everything, long, stride > 1)
        work.steps += 1
    if first.images > 1:
        work.scratch += conv.groups * conv.outputs * size
        work.copy(len(blocks) * size * conv.groups * conv.outputs, size // first.images)
        work.steps += first.images
    return work


@dataclass(frozen=True)
class Im2col(FixedBlockwise[RowBlock]):
    """Gather every tap, multiply once; `matrix` is `[g, M/g, C/g * taps]`, rows innermost."""

    matrix: Array

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """See `FixedKernel`."""
        return super().fixed(x, out, finish) if self.blocks[0].images == 1 else None

    def _fixed(self, x: Array, out: Array, b: RowBlock, finish: Fix) -> Piece:
        target = out[b.image, b.channels, b.positions]
        work = remade(lambda space: self._calls(x, target, b, space))
        return in_turn([work], finish(target, b.image, b.channels, b.positions))

    def _calls(self, x: Array, total: Array, b: RowBlock, space: Space) -> Calls:
        """Return the calls that compute a block into `total`."""
        conv = self.conv
        f, calls = b.frame.calls(x, space)
        cols, more = gather(f, b, conv, space)
        right = cols.reshape(b.count, conv.channels * conv.taps, -1)
        target = total.reshape(b.count, conv.outputs, right.shape[2])
        products = product_calls(self.matrix[b.groups], right, target)
        return [*calls, *more, *(partial(fn, *arrays) for fn, *arrays in products)]

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv, target = self.conv, out[b.image, b.channels, b.positions]
        size, direct = target.shape[1], self.conv.direct and b.images == 1
        shape = b.count * conv.outputs, b.images * size
        total = target if direct else space.array(shape, conv.compute)
        for call in self._calls(x, total, b, space):
            call()
        tiles = total.reshape(-1, b.images, size)
        for i in range(b.images):
            target = out[b.image + i, b.channels, b.positions]
            deliver(tiles[:, i], target, epilogue, b.image + i, b.channels, b.positions)


def gather(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> tuple[Array, Calls]:
    """Return the patches `[channels, depth, column, row, images, rows, columns]` of a frame."""
    depth, row, column = conv.axes
    plain = conv.taps == row.stride == column.stride == 1
    if plain and b.images == 1 and f.flags.c_contiguous:
        return f, []
    if by_windows(conv):
        return windows_of(f, b, conv, space)
    cols = space.array(
        (f.shape[1], depth.kernel, column.kernel, row.kernel, b.images, b.rows, column.out),
        conv.compute,
    )
    if two_steps(conv):
        rows, calls = gather_columns(f, row.span(b.rows), conv, space)
        n, c, d, k, r, e = rows.strides
        steps = (c, d, k, r * row.dilation, n, r * row.stride, e)
        calls.append(partial(np.copyto, cols, overlapping(rows, cols.shape, steps)))
    else:
        n, c, d, r, e = f.strides
        steps = (c, d, e * column.dilation, r * row.dilation, n, r * row.stride, e * column.stride)
        calls = [partial(np.copyto, cols, overlapping(f, cols.shape, steps))]
    return cols, calls


def by_windows(conv: Conv3d) -> bool:
    """Whether to gather window by window: a long kernel and a stride along a single axis."""
    _, row, column = conv.axes
    single = column.out == column.kernel == 1 and row.dilation == conv.groups == 1
    return single and row.stride > 1 and row.kernel >= LONG_WINDOW


def windows_of(f: Array, b: RowBlock, conv: Conv3d, space: Space) -> tuple[Array, Calls]:
    """Return the patches of a single axis `[1, channels * taps, images * rows]`, transposed."""
    row = conv.axes[ROW]
    n, c, d, r, _ = f.strides
    shape = (b.images, b.rows, f.shape[1], f.shape[2], row.kernel)
    seen = overlapping(f, shape, (n, r * row.stride, c, d, r))
    if shape[0] == shape[2] == shape[3] == 1 and row.kernel <= row.stride and r == conv.itemsize:
        return seen.reshape(1, b.rows, row.kernel).swapaxes(1, 2), []
    cols = space.array(shape, conv.compute)
    patches = cols.reshape(1, b.images * b.rows, -1).swapaxes(1, 2)
    return patches, [partial(np.copyto, cols, seen)]


def two_steps(conv: Conv3d) -> bool:
    """Whether to gather along the columns first: copies of short or strided rows are slow."""
    _, row, column = conv.axes
    shared = row.kernel > row.stride and column.kernel > 1
    return shared and (column.out < SHORT_ROW or column.stride > 1)


SHARED_PRODUCT_NS = 20_000.0  # nanoseconds of a product in a piece of its own, at least
ALIASED = 0.7  # strided accesses per element of rows that compete for the same places in a cache


def pointwise_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if a matrix product per position is enough."""
    conv = as_conv3d(problem)
    if not conv.plain:
        return []
    blocks = blocks_of(conv)

    def prepare(w: Array) -> Kernel:
        matrix = conv.filter(w).reshape(conv.groups, conv.outputs, conv.channels)
        return Pointwise(conv, blocks, matrix)

    return [pointwise_work_of(conv, blocks).candidate("pointwise", prepare)]


def pointwise_work_of(conv: Conv3d, blocks: Sequence[PositionBlock]) -> Work:
    """Count the products."""
    work, first = Work(conv), blocks[0]
    groups, at = first.groups, first.positions
    work.blocks = len(blocks)
    size, together = at.stop - at.start, groups.stop - groups.start
    count = len(blocks) * together
    work.convert(together * conv.channels * size, together * conv.outputs * size)
    work.multiply(conv.outputs, conv.channels, size, count)
    if conv.channels > 1 and aliases(conv.plane * conv.itemsize):
        work.strided += ALIASED * (conv.channels + conv.outputs) * size * count
    return work


@dataclass(frozen=True)
class PositionBlock:
    """Positions of some groups of an image."""

    image: int
    groups: slice
    positions: slice


def blocks_of(conv: Conv3d) -> list[PositionBlock]:
    """Split the output so that a block's input and output have about `pointwise_bytes`."""
    each = (conv.channels + conv.outputs) * conv.itemsize
    sizes = blocking.SIZES
    width = max(sizes.least_columns, sizes.pointwise_bytes // each)
    width = -(-conv.plane // -(-conv.plane // width))
    groups = max(1, sizes.pointwise_bytes // (each * width))
    if groups >= conv.groups:
        # Always, not for threads only: where a product is cut could change its sums.
        work = conv.groups * product_cost(conv.outputs, conv.channels, conv.plane)
        wanted = min(ITEMS, int(work / SHARED_PRODUCT_NS)) // conv.images
        width = min(width, lanes(shares(conv.plane, wanted)))
    return [
        PositionBlock(n, g, p)
        for n in range(conv.images)
        for g in pieces(conv.groups, groups)
        for p in pieces(conv.plane, width)
    ]


@dataclass(frozen=True)
class Pointwise(FixedBlockwise[PositionBlock]):
    """Multiplies blocks of positions, still cached afterwards; `matrix` is `[g, M/g, C/g]`."""

    matrix: Array

    def _data(self, x: Array, space: Space) -> Array:
        """Return `[N, g, C/g, positions]`."""
        conv = self.conv
        return flat_planes(x, space).reshape(conv.images, conv.groups, conv.channels, conv.plane)

    def _fixed(self, x: Array, out: Array, b: PositionBlock, finish: Fix) -> Piece:
        conv = self.conv
        channels = slice(b.groups.start * conv.outputs, b.groups.stop * conv.outputs)
        target = out[b.image, channels, b.positions]
        right, left = x[b.image, b.groups, :, b.positions], self.matrix[b.groups]
        total = target.reshape(right.shape[0], conv.outputs, right.shape[2])
        done = finish(target, b.image, channels, b.positions)

        if conv.channels == conv.outputs == 1 and jit.available() and jit.works():
            code = ProgramCode([(MULTIPLIED, (0, 1), 2)], (), 0)
            product = recorded_program(code, [right[:, 0], self.matrix[b.groups, :, 0]], target)
            if product is not None:
                return in_turn([product], done)
        if len(left) == 1:
            left, right, total = left[0], right[0], target

        return in_turn([_products(product_calls(left, right, total))], done)

    def _block(
        self, x: Array, out: Array, b: PositionBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv = self.conv
        channels = slice(b.groups.start * conv.outputs, b.groups.stop * conv.outputs)
        target = out[b.image, channels, b.positions]
        right = x[b.image, b.groups, :, b.positions]
        if not conv.direct:
            right = contiguous(right, conv.compute, space)
        shape = (right.shape[0], conv.outputs, right.shape[2])
        total = target.reshape(shape) if conv.direct else space.array(shape, conv.compute)
        multiply(self.matrix[b.groups], right, out=total)
        tile = target if conv.direct else total.reshape(target.shape)
        deliver(tile, target, epilogue, b.image, channels, b.positions)


def _products(calls: list[ProductCall]) -> Piece:

    def work(_: Space) -> None:
        for fn, a, b, result in calls:
            fn(a, b, result)

    return recorded_matmuls(calls) or work


@dataclass(frozen=True)
class ResidueConv:
    """One residue: its inputs, its outputs, and its convolution without dilation."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    problem: ConvProblem


def _residues(problem: ConvProblem, factors: tuple[int, ...]) -> list[ResidueConv]:
    """Split into residues modulo `factors`, which divide dilations of axes of stride 1."""
    residues = []
    for e in itertools.product(*(range(f) for f in factors)):
        # y[e + f*t] = sum over k of x[e - begin + f*(t + k*D/f)] * w[k]
        begins = [i - b for i, b in zip(e, problem.begin, strict=True)]
        first = [p % f for p, f in zip(begins, factors, strict=True)]
        shape = (
            -(-(i - r) // f) for i, r, f in zip(problem.shape[2:], first, factors, strict=True)
        )
        sizes = (-(-(o - i) // f) for o, i, f in zip(problem.sizes, e, factors, strict=True))
        dense = replace(
            problem,
            shape=(*problem.shape[:2], *(max(0, i) for i in shape)),
            sizes=tuple(max(0, o) for o in sizes),
            dilations=tuple(d // f for d, f in zip(problem.dilations, factors, strict=True)),
            begin=tuple(-(p // f) for p, f in zip(begins, factors, strict=True)),
        )
        inputs = (..., *(slice(r, None, f) for r, f in zip(first, factors, strict=True)))
        outputs = (..., *(slice(i, None, f) for i, f in zip(e, factors, strict=True)))
        residues.append(ResidueConv(inputs, outputs, dense))
    return residues


class Decimated:
    """The kernel: one for each residue."""

    def __init__(self, residues: list[ResidueConv], kernels: list[Kernel]) -> None:
        self.pairs = list(zip(residues, kernels, strict=True))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        early = None if epilogue is None or epilogue.positional else epilogue

        def compute(pair: tuple[ResidueConv, Kernel], team: Team) -> None:
            residue, kernel = pair
            sums = team.space.array(residue.problem.out_shape, out.dtype)
            kernel(x[residue.inputs], sums, early, team)
            _copy(sums, out[residue.outputs], team)

        if len(self.pairs) >= ITEMS:  # else threads share the work of one after the other
            team.each(self.pairs, lambda pair, space: compute(pair, Alone(space)))
        else:
            used = team.space.used
            for pair in self.pairs:
                team.space.release(used)
                compute(pair, team)
        if early is None:
            finish(out, epilogue, team)


def _copy(source: Array, into: Array, team: Team) -> None:
    def work(item: tuple[int, slice], _: Space) -> None:
        into[item] = source[item]

    least = blocking.SIZES.decimated_elements // max(1, source[0, 0].size)
    step = max(1, -(-source.shape[1] // 8), least)
    team.each(list(itertools.product(range(len(source)), pieces(source.shape[1], step))), work)


def decimated_candidates(
    problem: ConvProblem, list_kernels: Callable[[ConvProblem], list[Candidate]]
) -> list[Candidate]:
    """Return the kernel if it applies; `list_kernels` lists those for the residues."""
    rows = list(zip(problem.strides, problem.dilations, problem.kernel, strict=True))
    factors = tuple(d if s == 1 and k > 1 else 1 for s, d, k in rows)
    if all(f == 1 for f in factors) or np.dtype(problem.dtype).itemsize < 4:
        return []
    residues = _residues(problem, factors)
    best = [list_kernels(r.problem)[0] for r in residues]
    elements = sum(r.problem.positions for r in residues) * problem.shape[1]
    written = math.prod(problem.out_shape)
    cost = sum(c.cost + 12 * call_cost() for c in best)
    cost += 0.5 * relative().copy * elements + 0.8 * relative().strided * written
    different = {r.problem: c for r, c in zip(residues, best, strict=True)}
    scratch = sum(c.scratch for c in different.values())
    # Its results, and its inputs if the kernel needs them to be neighbours.
    scratch += problem.itemsize * max(
        math.prod(w.out_shape) + math.prod(w.shape) for w in different
    )

    def prepare(w: Array) -> Kernel:
        kernels = {key: c.prepare(w) for key, c in different.items()}
        return Decimated(residues, [kernels[r.problem] for r in residues])

    transforms, spreads = (any(getattr(c, f) for c in best) for f in ("transforms", "spreads"))
    items = len(residues) if len(residues) >= ITEMS else min(c.items for c in best)
    return [
        Candidate(
            name=f"decimated {best[0].name}",
            cost=cost,
            scratch=scratch,
            prepare=prepare,
            items=items,
            transforms=transforms,
            spreads=spreads,
        )
    ]


# Winograd's minimal filtering: F(m, 3) computes m neighbouring outputs from m + 2 inputs with m + 2
# products instead of 3m; in two dimensions tiles of m x m outputs take (m+2)^2 products per channel
# instead of 9m^2. Products of all channels are matrix products, one per position inside the tile; a
# depth axis adds to their inner dimension. The transforms are additions of whole planes: inputs are
# split by row and column modulo m first, so that neighbouring tiles are neighbours in memory and a
# tile's inputs are shifted runs.
PASSES_OF_MEMORY = 1.3  # times compiled tiles, which take the data in fewer passes
FAR_CACHE = 1 << 21  # elements; larger data comes from main memory every time

Planes = Sequence[Array] | Array
Transform = Callable[[Planes, Planes, Array, Array], None]

# The filter's transform G; those of the data are written out below.
FILTERS = {
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    4: np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
}


def _enter2(a: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 4 inputs for F(2, 3)."""
    np.subtract(a[0], a[2], out=out[0])
    np.add(a[1], a[2], out=out[1])
    np.subtract(a[2], a[1], out=out[2])
    np.subtract(a[1], a[3], out=out[3])


def _leave2(y: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 4 sums of F(2, 3) into 2 outputs."""
    np.add(y[0], y[1], out=out[0])
    np.add(out[0], y[2], out=out[0])
    np.subtract(y[1], y[2], out=out[1])
    np.subtract(out[1], y[3], out=out[1])


def _enter4(a: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 6 inputs for F(4, 3); common differences are computed once."""
    np.subtract(a[4], a[2], out=t)
    np.subtract(a[3], a[1], out=u)
    np.add(u, u, out=u)
    np.add(t, u, out=out[3])
    np.subtract(t, u, out=out[4])
    np.subtract(a[0], a[2], out=out[0])
    np.multiply(out[0], 4, out=out[0])
    np.add(out[0], t, out=out[0])
    np.subtract(a[5], a[3], out=out[5])
    np.subtract(out[5], u, out=out[5])
    np.subtract(out[5], u, out=out[5])
    np.multiply(a[2], 4, out=t)
    np.subtract(a[4], t, out=t)
    np.multiply(a[1], 4, out=u)
    np.subtract(a[3], u, out=u)
    np.add(t, u, out=out[1])
    np.subtract(t, u, out=out[2])


def _leave4(y: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 6 sums of F(4, 3) into 4 outputs."""
    np.add(y[1], y[2], out=t)
    np.add(y[3], y[4], out=u)
    np.add(y[0], t, out=out[0])
    np.add(out[0], u, out=out[0])
    np.multiply(u, 4, out=u)
    np.add(t, u, out=out[2])
    np.subtract(y[1], y[2], out=t)
    np.subtract(y[3], y[4], out=u)
    np.add(u, u, out=u)
    np.add(t, u, out=out[1])
    np.multiply(u, 4, out=u)
    np.add(t, u, out=out[3])
    np.add(out[3], y[5], out=out[3])


TRANSFORMS: dict[int, tuple[Transform, Transform]] = {2: (_enter2, _leave2), 4: (_enter4, _leave4)}


def winograd_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels of two tile sizes, if they apply."""
    conv = as_conv3d(problem)
    return [_winograd(conv, m) for m in (2, 4)] if applies(conv) else []


def _winograd(conv: Conv3d, m: int) -> Candidate:
    blocks = winograd_blocks_of(conv, m)

    def prepare(w: Array) -> Kernel:
        g = FILTERS[m]
        w = conv.filter(w)[0].astype(np.float64)  # [M, C, depth, 3, 3]
        u = np.einsum("ik,jl,mcdkl->ijmdc", g, g, w, optimize=True)
        u = u.reshape(len(g) ** 2, conv.outputs, -1)  # [(m+2)^2, M, depth*C]
        return WinogradConvolution(conv, blocks, m, np.ascontiguousarray(u, conv.compute))

    work = winograd_work_of(conv, m, blocks)
    candidate = work.candidate(f"winograd{m}", prepare, TRANSFORMED)
    cost = candidate.cost * (ROUNDING if m == 4 else 1)  # F(4, 3) costs accuracy
    if jit.available():
        cost *= PASSES_OF_MEMORY
    return replace(candidate, cost=cost, transforms=True)


def winograd_work_of(conv: Conv3d, m: int, blocks: Sequence[RowBlock]) -> Work:
    """Count the transforms and the products of one position inside the tile each."""
    work, n, first = Work(conv), len(blocks), blocks[0]
    work.blocks = n
    pitch = -(-conv.sizes[COLUMN] // m) + 1
    tiles = -(-first.rows // m)
    channels = conv.channels * conv.axes[0].kernel
    work.multiply(conv.outputs, channels, tiles * pitch, n * (m + 2) ** 2)
    work.frame(first.frame.elements, n)
    work.convert(0, conv.outputs * first.rows * conv.sizes[COLUMN])
    plane = n * channels * (tiles + 1) * pitch
    work.copy(plane * m * m, pitch, True)
    enter, leave = (4, 4) if m == 2 else (17, 13)
    work.added += plane * enter * (m + m + 2)
    out = n * conv.outputs * tiles * pitch
    work.added += out * leave * (m + 2 + m)
    work.copy(out * m * m, pitch, True)
    area = (m + 2) ** 2
    filters = area * conv.outputs * channels
    work.scratch += filters
    work.cold += n * filters if filters > FAR_CACHE else 0
    work.scratch += (plane // n) * (m * m + m * (m + 2) + area + 2 * (m + 2))
    work.scratch += (out // n) * (area + m * (m + 2) + m * m + 2 * (m + 2))
    work.steps += n * (2 * m * m + 2 * enter + 2 * leave)
    return work


def applies(conv: Conv3d) -> bool:
    """Whether the convolution has 3x3 rows and columns without stride or dilation."""
    plane = all(a.kernel == 3 and a.stride == a.dilation == 1 for a in conv.axes[ROW:])
    floats = conv.compute.kind == "f"
    return floats and plane and conv.axes[0].stride == conv.axes[0].dilation == conv.groups == 1


def winograd_blocks_of(conv: Conv3d, m: int) -> list[RowBlock]:
    """Split each output depth into rows of tiles."""
    height, width = conv.sizes[ROW:]
    tiles = -(-height // m)
    channels = conv.channels * conv.axes[0].kernel + conv.outputs
    each = (m + 2) ** 2 * channels * (-(-width // m) + 1) * conv.itemsize
    rows = max(1, min(tiles, scratch.SIZES.winograd_bytes // each))
    rows = -(-tiles // -(-tiles // rows)) * m
    return [
        row_block(conv, n, slice(0, 1), d, h, rows, m)
        for n in pieces(conv.images, 1)
        for d in range(conv.sizes[0])
        for h in range(0, height, rows)
    ]


@dataclass(frozen=True)
class WinogradConvolution(Blockwise[RowBlock]):
    """F(m x m, 3 x 3), `m` being 2 or 4; `matrices` come from `transformed`."""

    m: int
    matrices: Array

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv, m = self.conv, self.m
        columns = conv.sizes[COLUMN]
        right, tiles, pitch = self._enter(b.frame.of(x, space)[0], space)
        sums = space.array(((m + 2) ** 2, conv.outputs, tiles * pitch), conv.compute)
        multiply(self.matrices, right[..., : tiles * pitch], out=sums)
        planes = self._leave(sums, space).reshape(m, m, conv.outputs, tiles, pitch)
        target = out[b.image, :, b.positions]
        total = target if conv.direct else space.array(target.shape, conv.compute)
        rows = total.reshape(conv.outputs, b.rows, columns)
        for r in range(min(m, b.rows)):
            for c in range(min(m, columns)):
                place = rows[:, r::m, c::m]
                place[...] = planes[c, r, :, : place.shape[1], : place.shape[2]]
        deliver(total, target, epilogue, b.image, b.channels, b.positions)

    def _enter(self, f: Array, space: Space) -> tuple[Array, int, int]:
        """Return a frame's transform `[(m+2)^2, depth*C, (tiles+1)*pitch]`, tiles and pitch."""
        m, dtype = self.m, self.conv.compute
        f = f.swapaxes(0, 1)
        rows, pitch = f.shape[2] // m, f.shape[3] // m
        channels = f.shape[0] * f.shape[1]
        size = channels * rows * pitch
        split = space.array((m, m, size + pitch + 1), dtype)
        for c in range(m):
            for r in range(m):
                part = split[c, r, :size].reshape(*f.shape[:2], rows, pitch)
                part[...] = f[:, :, r::m, c::m]
        split[..., size:] = 0
        turn = TRANSFORMS[m][0]
        run = size + pitch
        t, u = (space.array((m + 2, run), dtype) for _ in range(2))
        columns = space.array((m, m + 2, run), dtype)
        turn(
            [split[a % m, :, a // m : a // m + run] for a in range(m + 2)],
            [columns[:, j] for j in range(m + 2)],
            t[:m],
            u[:m],
        )
        done = space.array((m + 2, m + 2, size), dtype)
        shifts = [(a % m, a // m * pitch) for a in range(m + 2)]
        turn([columns[r, :, s : s + size] for r, s in shifts], done, t[:, :size], u[:, :size])
        return done.reshape((m + 2) ** 2, channels, rows * pitch), rows - 1, pitch

    def _leave(self, sums: Array, space: Space) -> Array:
        """Return the outputs `[column, row, M*tiles]` of the sums `[(m+2)^2, M, tiles]`."""
        m = self.m
        sums = sums.reshape(m + 2, m + 2, -1)
        size = sums.shape[2]
        turn = TRANSFORMS[m][1]
        t, u = (space.array((m + 2, size), sums.dtype) for _ in range(2))
        rows = space.array((m, m + 2, size), sums.dtype)
        turn(sums, rows, t, u)
        planes = space.array((m, m, size), sums.dtype)
        turn([rows[:, j] for j in range(m + 2)], planes, t[:m], u[:m])
        return planes
