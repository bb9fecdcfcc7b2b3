"""The work of each convolution kernel, counted from the sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from irdeconv.kernels.convolution.canonical import COLUMN, ROW, Volume
from irdeconv.kernels.convolution.depthwise import SLACK, Strip, frame_shape, vectors
from irdeconv.kernels.convolution.direct import GROUP, LANES, Piece, frame_size, pitch
from irdeconv.kernels.convolution.im2col import Block, by_windows, row_taps, two_steps
from irdeconv.kernels.convolution.pointwise import Part
from irdeconv.kernels.convolution.work import WORK, Work
from irdeconv.kernels.shared.candidate import Candidate, Estimate, Kernel
from irdeconv.kernels.shared.products import aliases
from irdeconv.spec import Array

ALIASED = 0.7  # strided accesses per element of rows that compete for the same places in a cache
FAR_CACHE = 1 << 21  # elements; what is larger comes from main memory every time


def candidate(name: str, v: Volume, work: Work, prepare: Callable[[Array], Kernel]) -> Candidate:
    """Return a candidate that costs what its work takes."""
    bytes = int(work.scratch) * v.itemsize
    estimate = Estimate(WORK, partial(work.nanoseconds, v.itemsize))
    return Candidate(name, estimate.cost, bytes, prepare, estimate=estimate)


def framed(w: Work, v: Volume, frame: int, blocks: int) -> bool:
    """Count the copy into a zero-extended frame, where there is one; return whether there is."""
    needed = any(a.padded for a in v.axes) or not v.direct
    if needed:
        w.scratch += frame + math.prod(frame_shape(v)[3:])
        w.copy(blocks * frame, v.axes[COLUMN].size)
        w.added += 0.3 * blocks * frame  # zeros
        w.steps += 2
    return needed


def converted(w: Work, v: Volume, inputs: int, outputs: int) -> None:
    """Count the memory of a block that is converted, where sums have a wider type."""
    if not v.direct:
        w.scratch += inputs + outputs


def columns_work(v: Volume, blocks: Sequence[Block]) -> Work:
    """Count gathering every tap and one product per block and group."""
    w, first = Work(), blocks[0]
    row, column = v.axes[ROW], v.axes[COLUMN]
    depth = v.channels * v.taps
    w.blocks = len(blocks)
    size = first.rows * column.out * first.images
    converted(w, v, 0, first.count * v.outputs * size if first.images == 1 else 0)
    w.product(v.outputs, depth, size, len(blocks) * first.count)
    everything = len(blocks) * first.count * size * depth
    copied = framed(w, v, first.frame.elements, len(blocks))
    if copied and first.images == 1 and v.taps == 1 and row.stride == column.stride == 1:
        return w
    w.scratch += everything // len(blocks)
    if by_windows(v):
        w.copy(everything, row.kernel)
        w.steps += 1
    elif two_steps(v):
        rows = len(blocks) * first.count * v.channels * v.taps // row.kernel
        some = rows * row.span(first.rows) * column.out * first.images
        w.copy(some, column.out, column.stride > 1)
        w.scratch += some // len(blocks)
        flat = row.stride == 1
        w.copy(everything, (first.rows if flat else 1) * column.out)
        w.steps += 2
    else:
        long = column.out if column.kernel * column.stride > 1 or column.size > 1 else first.rows
        stride = column.stride if column.out > 1 else row.stride
        w.copy(everything, long, stride > 1)
        w.steps += 1
    if first.images > 1:
        w.scratch += v.groups * v.outputs * size
        w.copy(len(blocks) * size * v.groups * v.outputs, size // first.images)
        w.steps += first.images
    return w


def shifted_work(v: Volume, blocks: Sequence[Block], stacked: bool) -> Work:
    """Count gathering what is shared by the taps of the row axis, and the products' sums."""
    w, first = Work(), blocks[0]
    row, column = v.axes[ROW], v.axes[COLUMN]
    depth = v.channels * v.taps // row.kernel
    n = len(blocks)
    w.blocks = n
    size = first.rows * column.out
    converted(w, v, 0, first.count * v.outputs * size)
    framed(w, v, first.frame.elements, n)
    begun = 0
    for taps in row_taps(v):
        rows = first.rows + taps.step * (taps.count - 1)
        if column.kernel > 1 or column.stride > 1 or row.stride > 1:
            run = column.out if column.out > 1 else rows
            stride = column.stride if column.out > 1 else row.stride
            some = first.count * depth * rows * column.out
            w.scratch += some
            w.copy(n * some, run, stride > 1)
            w.steps += n
        if stacked:
            w.product(taps.count * v.outputs, depth, rows * column.out, n * first.count)
            w.scratch += first.count * taps.count * v.outputs * rows * column.out
            w.steps += n
        else:
            w.scratch += first.count * v.outputs * size
            w.product(v.outputs, depth, size, n * first.count * taps.count)
            w.steps += n * taps.count
        adds = taps.count - 1 + begun
        begun = 1
        w.added += n * first.count * adds * v.outputs * size
        w.looped += n * first.count * adds * v.outputs
        w.steps += n * adds
    return w


def pointwise_work(v: Volume, blocks: Sequence[Part]) -> Work:
    """Count the products."""
    w, first = Work(), blocks[0]
    groups, at = first.groups, first.positions
    w.blocks = len(blocks)
    size, together = at.stop - at.start, groups.stop - groups.start
    count = len(blocks) * together
    converted(w, v, together * v.channels * size, together * v.outputs * size)
    if v.channels == 1:
        w.added = v.outputs * size * count
    else:
        w.product(v.outputs, v.channels, size, count)
        if aliases(v.plane * v.itemsize):
            w.strided += ALIASED * (v.channels + v.outputs) * size * count
    return w


def winograd_work(v: Volume, m: int, blocks: Sequence[Block]) -> Work:
    """Count the transforms and the products of one position inside the tile each."""
    w, n, first = Work(), len(blocks), blocks[0]
    w.blocks = n
    pitch = -(-v.sizes[COLUMN] // m) + 1
    tiles = -(-first.rows // m)
    channels = v.channels * v.axes[0].kernel
    w.product(v.outputs, channels, tiles * pitch, n * (m + 2) ** 2)
    framed(w, v, first.frame.elements, n)
    converted(w, v, 0, v.outputs * first.rows * v.sizes[COLUMN])
    plane = n * channels * (tiles + 1) * pitch
    w.copy(plane * m * m, pitch, True)
    enter, leave = (4, 4) if m == 2 else (17, 13)
    w.added += plane * enter * (m + m + 2)
    out = n * v.outputs * tiles * pitch
    w.added += out * leave * (m + 2 + m)
    w.copy(out * m * m, pitch, True)
    area = (m + 2) ** 2
    filters = area * v.outputs * channels
    w.scratch += filters
    w.cold += n * filters if filters > FAR_CACHE else 0
    w.scratch += (plane // n) * (m * m + m * (m + 2) + area + 2 * (m + 2))
    w.scratch += (out // n) * (area + m * (m + 2) + m * m + 2 * (m + 2))
    w.steps += n * (2 * m * m + 2 * enter + 2 * leave)
    return w


def depthwise_work(v: Volume, blocks: Sequence[Strip]) -> Work:
    """Count the compiled loops by elements of vectors, and the copies into frames by rows."""
    w = Work()
    w.blocks = len(blocks)
    planes = v.images * v.groups * v.outputs
    shape = frame_shape(v)
    frame = math.prod(shape)
    w.scratch += frame + SLACK
    channels = max(b.channels.stop - b.channels.start for b in blocks)
    inputs = min(v.groups, -(-channels // v.outputs) + 1)
    converted(w, v, inputs * math.prod(a.size for a in v.axes), channels * v.plane)
    w.groups += planes
    w.looped += 0.3 * v.images * v.groups * math.prod(shape[:5])
    w.copy(v.images * v.groups * frame, shape[5])
    lanes, (reads, _) = vectors(v)
    w.compiled += 1.6 * planes * v.taps * abs(lanes) * len(reads)
    return w


def direct_work(v: Volume, pieces: Sequence[Piece]) -> Work:
    """Count products of whole vectors by four outputs, and the copies into frames."""
    w = Work()
    w.blocks = v.images * len(pieces)
    vectors = sum(len(p.places[0]) for p in pieces)
    groups = -(-v.outputs // GROUP)
    w.multiplied = 1.05 * v.images * vectors * LANES * groups * GROUP * v.channels * v.taps
    w.looped = 0.6 * v.images * vectors * groups
    if v.plain:
        w.scratch += v.channels * pitch(v)
        w.copy(v.images * v.channels * v.plane, v.plane // len(pieces))
    else:
        w.scratch += v.channels * frame_size(v)
        w.copy(2 * v.images * v.channels * frame_size(v), v.axes[COLUMN].size)
    return w
