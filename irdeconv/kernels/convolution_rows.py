"""Convolution by rows: gathered, shifted and interleaved.

Interleaved rows hold all channels and columns' taps of one row. The input of a row of the output is
then one matrix with evenly spaced rows, also for the taps of the row axis: the row axis is neither
gathered nor added, and the products are small ones, which the BLAS computes in place.

A depthwise layer has one output per group, too few rows for a product. Several neighbouring rows of
the output are computed by one product: the filter's rows are moved down in a matrix that is zero
elsewhere, a band. Infinities and NaN of the input then reach all rows of the band.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import candidate, jit, scratch
from irdeconv.kernels.convolution import (
    COLUMN,
    ROW,
    Blockwise,
    Conv3d,
    Frame,
    as_conv3d,
    frame_of,
    overlapping,
)
from irdeconv.kernels.machine import product_rate, scaled
from irdeconv.kernels.products import NEAR_LEFT, columns_computed, product_calls, tile
from irdeconv.kernels.recorded_calls import Calls, in_turn, remade
from irdeconv.kernels.scratch import ITEMS, Space, contiguous, pieces, shares
from irdeconv.kernels.threads import Team


@dataclass(frozen=True)
class RowBlock:
    """`rows` rows of an output depth, for some images and groups.

    `channels` and `positions` are its place in the output `[N, M, positions]`, `frame` is the
    input that its windows see.
    """

    image: int
    images: int
    groups: slice
    count: int
    rows: int
    channels: slice
    positions: slice
    frame: Frame


def partition(conv: Conv3d, share: int) -> RowBlocks:
    """Split the output into blocks of `im2col_bytes`, of `least_columns` if possible.

    `share` are the bytes per position of one group. Blocks of whole planes take more groups and
    images.
    """
    sizes = scratch.SIZES
    limit, least = sizes.im2col_bytes, sizes.least_columns
    depth, height, width = conv.sizes
    positions = max(limit // share, least)
    rows = max(1, min(height, positions // width))
    # Equal blocks: a narrow last one would be an inefficient product.
    some = max(-(-height // rows), min(ITEMS, height, height * width // sizes.shared_columns))
    rows = shares(height, some)
    groups = max(1, min(conv.groups, limit // (share * rows * width)))
    groups = shares(conv.groups, -(-conv.groups // groups))
    images = 1
    if rows == height and depth == 1 and groups == conv.groups:
        room = max(1, min(conv.images, positions // (rows * width)))
        some = max(-(-conv.images // room), min(ITEMS, conv.images * rows * width // least))
        images = shares(conv.images, some)
    return RowBlocks(conv, images, groups, rows)


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of so many images, groups and rows, made lazily: there may be thousands."""

    conv: Conv3d
    images: int
    groups: int
    rows: int

    @cached_property
    def _counts(self) -> tuple[int, int, int, int]:
        depth, height, _ = self.conv.sizes
        steps = (self.conv.images, self.images), (self.conv.groups, self.groups)
        images, groups, rows = (-(-size // step) for size, step in (*steps, (height, self.rows)))
        return images, groups, depth, rows

    def __len__(self) -> int:
        return math.prod(self._counts)

    def __iter__(self) -> Iterator[RowBlock]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> RowBlock:
        conv, (_, groups, depths, blocks) = self.conv, self._counts
        rest, h = divmod(place, blocks)
        rest, d = divmod(rest, depths)
        n, g = divmod(rest, groups)
        images = slice(n * self.images, min((n + 1) * self.images, conv.images))
        members = slice(g * self.groups, min((g + 1) * self.groups, conv.groups))
        depth, row, column = conv.axes
        first = h * self.rows
        rows, start = min(self.rows, row.out - first), (d * row.out + first) * column.out
        box = (
            (d * depth.stride - depth.begin, depth.kernel, depth.dilation),
            (first * row.stride - row.begin, row.span(rows), 1),
            (-column.begin, column.span(column.out), 1),
        )
        inputs = slice(members.start * conv.channels, members.stop * conv.channels)
        return RowBlock(
            image=images.start,
            images=images.stop - images.start,
            groups=members,
            count=members.stop - members.start,
            rows=rows,
            channels=slice(members.start * conv.outputs, members.stop * conv.outputs),
            positions=slice(start, start + rows * column.out),
            frame=frame_of(conv, images, inputs, box),
        )


def gather_columns(f: Array, count: int, conv: Conv3d, space: Space) -> tuple[Array, Calls]:
    """Gather along the columns: the first rows of a frame as `[n, c, d, column, row, *]`."""
    column = conv.axes[2]
    n, c, d, r, e = f.strides
    rows = space.array((*f.shape[:3], column.kernel, count, column.out), conv.compute)
    seen = overlapping(f, rows.shape, (n, c, d, e * column.dilation, r, e * column.stride))
    return rows, [partial(np.copyto, rows, seen)]


Index = tuple[Any, ...]
BANDS = range(1, 9)  # rows of the output in a band
MOST_COPIES = 16  # of a row, beyond which other kernels gather as fast
READ_STRIDED = 3  # times that elements are read which are no neighbours


def candidates(problem: candidate.ConvProblem) -> list[candidate.Candidate]:
    """Return the kernel, if rows have several columns and neighbouring ones are summed."""
    conv = as_conv3d(problem)
    depth, row, column = conv.axes
    if column.out == 1 or conv.taps == 1 or depth.kernel * column.kernel > MOST_COPIES:
        return []
    found = []
    if row.kernel > 1 and row.dilation == 1:
        found.append(_candidate(conv, 0))
    depthwise = conv.channels == 1 and conv.groups > 1 and conv.compute.kind == "f"
    if depthwise and not jit.available():  # compiled code multiplies no zeros
        bands = [_candidate(conv, band) for band in BANDS if band <= row.out]
        found.append(min(bands, key=lambda c: c.cost))
    return found


def _candidate(conv: Conv3d, band: int) -> candidate.Candidate:
    blocks = blocks_of(conv)

    def prepare(w: Array) -> candidate.Kernel:
        # Taps of the row, the depth and the column axis, then channels, as they lie in memory.
        matrix = conv.filter(w).transpose(0, 1, 4, 3, 5, 2)
        return Interleaved(conv, blocks, np.ascontiguousarray(matrix), band)

    estimate = estimate_of(conv, blocks, band)
    return candidate.Candidate(
        "banded" if band else "interleaved",
        estimate.cost,
        scratch_of(conv, blocks) * conv.itemsize,
        prepare,
        items=len(blocks),
        spreads=band > 1,
        estimate=estimate,
    )


def scratch_of(conv: Conv3d, blocks: Sequence[InterleavedBlock]) -> int:
    """Return the number of elements of scratch memory."""
    first, column = blocks[0], conv.axes[COLUMN]
    groups, rows = (s.stop - s.start for s in (first.groups, first.rows))
    elements: int = groups * first.seen * row_elements(conv)
    if not conv.direct:
        elements += groups * conv.outputs * rows * column.out
    if column.kernel > READ_STRIDED:  # a copy of the input
        channels = conv.groups * conv.channels
        elements += conv.images * channels * math.prod(a.size for a in conv.axes)
    return elements


@dataclass(frozen=True, kw_only=True)
class InterleavedRates:
    """Nanoseconds of f32 for one of each.

    Elements that are copied, from neighbours or not, and runs of them; multiply-accumulates,
    products, and elements of their results; calls of NumPy, and blocks.
    """

    copied: float = 0.173
    strided: float = 0.226
    runs: float = 3.7
    macs: float = product_rate(0.0159)
    products: float = 20
    results: float = 0.00791
    far_left: float = 0.3  # each element of a filter beyond `NEAR_LEFT`, for a row
    calls: float = 150
    blocks: float = 992


INTERLEAVED = InterleavedRates()
BANDED = InterleavedRates(copied=0.0614, macs=0.0266, runs=2.3)


def estimate_of(conv: Conv3d, blocks: Sequence[InterleavedBlock], band: int) -> candidate.Estimate:
    """Count the copies of rows and a product for each row or band of the output."""
    row, column = conv.axes[ROW], conv.axes[COLUMN]
    first, n, size = blocks[0], len(blocks), conv.itemsize / 4
    groups, rows = (s.stop - s.start for s in (first.groups, first.rows))
    elements = n * groups * first.seen * row_elements(conv)
    m, k, count = conv.outputs, conv.channels * conv.taps, n * groups * rows
    far = max(0, m * k - NEAR_LEFT) * count  # each row of the output reads the whole filter anew
    if band:
        m, k, far = band, k // row.kernel * row.span(band), 0
        count = n * groups * conv.outputs * -(-rows // band)
    tiles = tile(m, k, column.out)
    count *= m * column.out // math.prod(tiles) if all(tiles) else 1
    macs = n * groups * rows * conv.outputs * k * columns_computed(column.out)
    calls = n * (len(list(first.copies(conv))) + 1)

    def nanoseconds(rates: InterleavedRates) -> float:
        copied = rates.strided if column.stride > 1 else rates.copied
        each = elements * copied + macs * rates.macs + macs // k * rates.results
        each += far * rates.far_left
        fixed = elements // column.out * rates.runs + count * rates.products
        return float(size * each + fixed + calls * rates.calls + n * rates.blocks)

    return candidate.Estimate(scaled(BANDED if band else INTERLEAVED), nanoseconds)


def row_elements(conv: Conv3d) -> int:
    """Return the number of a group's elements that lie together for one row of the input."""
    depth, _, column = conv.axes
    return depth.kernel * column.kernel * conv.channels * column.out


@dataclass(frozen=True)
class InterleavedBlock:
    """Neighbouring rows of an output depth of some groups; they see `seen` rows of the input."""

    image: int
    groups: slice
    depth: int
    rows: slice
    seen: int

    def copies(self, conv: Conv3d) -> Iterator[tuple[Index, Index | None]]:
        """Yield a part of the interleaved rows `[g, row, depth, column, C/g, *]`, and its source.

        The source is `[g, C/g, depth, row, column]`; None is zero.
        """
        depth, row, column = conv.axes
        start = self.rows.start * row.stride - row.begin
        whole, (rows, given) = slice(None), candidate.reads(row.size, 1, start, self.seen)
        for part in outside(rows, self.seen):
            yield (whole, part), None
        for d, c in np.ndindex(depth.kernel, column.kernel):
            at = self.depth * depth.stride + d * depth.dilation - depth.begin
            columns, taken = column.reach(c)
            if rows == candidate.NONE or columns == candidate.NONE or not 0 <= at < depth.size:
                yield (whole, rows, d, c), None
                continue
            for part in outside(columns, column.out):
                yield (whole, rows, d, c, whole, part), None
            yield (whole, rows, d, c, whole, columns), (self.groups, whole, at, given, taken)


def outside(inside: slice, size: int) -> list[slice]:
    """Return the parts of `size` places that a slice of them leaves out."""
    ends = slice(0, inside.start), slice(inside.stop, size)
    return [e for e in ends if e.start < e.stop]


def blocks_of(conv: Conv3d) -> list[InterleavedBlock]:
    """Split the output so that the interleaved rows of a block have `interleaved_bytes`."""
    depths, height, width = conv.sizes
    row, limit = conv.axes[ROW], scratch.SIZES.interleaved_bytes
    each = row_elements(conv) * conv.itemsize * row.stride
    rows = max(1, min(height, limit // each))
    groups = max(1, min(conv.groups, limit // (each * rows)))
    least = ITEMS if groups == conv.groups else 1
    least = min(least, height, height * width // scratch.SIZES.shared_columns)
    rows = shares(height, max(-(-height // rows), least))
    return [
        InterleavedBlock(n, g, d, some, row.span(some.stop - some.start))
        for n in range(conv.images)
        for g in pieces(conv.groups, groups)
        for d in range(depths)
        for some in pieces(height, rows)
    ]


@dataclass(frozen=True)
class Interleaved(Blockwise[InterleavedBlock]):
    """Interleave rows, then multiply; `matrix` is `[g, M/g, row, depth, column, C/g]`.

    `band` rows are computed by one product of an output each; 0: all outputs by one of a row.
    """

    matrix: Array
    band: int
    _banded: dict[int, Array] = field(default_factory=dict, repr=False)

    def _data(self, x: Array, space: Space) -> Array:
        """Return the view `[N, g, C/g, depth, row, column]`."""
        conv, data = self.conv, self.conv.data(x)
        if not self._lies(x):
            data = contiguous(data, data.dtype, space)
        return data.reshape(conv.images, conv.groups, conv.channels, *data.shape[2:])

    def _lies(self, x: Array) -> bool:
        """Whether reading the input once per tap takes no longer than copying it first."""
        return x.strides[-1] == x.itemsize or self.conv.axes[COLUMN].kernel <= READ_STRIDED

    def fixed(self, x: Array, out: Array, finish: candidate.Fix) -> Callable[[Team], None] | None:
        """See `FixedKernel`; an input that must be copied has a place for its copy."""
        if self._lies(x):
            return super().fixed(x, out, finish)
        dense = np.empty(x.shape, x.dtype)
        work = super().fixed(dense, out, finish)
        if work is None:
            return None

        def run(team: Team) -> None:
            np.copyto(dense, x)
            work(team)

        return run

    def _fixed(
        self, x: Array, out: Array, b: InterleavedBlock, finish: candidate.Fix
    ) -> candidate.Piece:
        channels, positions = self._place(b)
        target = out[b.image, channels, positions]
        work = remade(lambda space: self._calls(x, target, b, space))
        return in_turn([work], finish(target, b.image, channels, positions))

    def _block(
        self,
        x: Array,
        out: Array,
        b: InterleavedBlock,
        epilogue: candidate.Epilogue | None,
        space: Space,
    ) -> None:
        channels, positions = self._place(b)
        target = out[b.image, channels, positions]
        direct, kind = self.conv.direct, self.conv.compute
        total = target if direct else space.array(target.shape, kind)
        for call in self._calls(x, total, b, space):
            call()
        candidate.deliver(total, target, epilogue, b.image, channels, positions)

    def _place(self, b: InterleavedBlock) -> tuple[slice, slice]:
        """Return the channels and positions of a block."""
        outputs, (_, height, width) = self.conv.outputs, self.conv.sizes
        start = b.depth * height * width
        channels = slice(b.groups.start * outputs, b.groups.stop * outputs)
        return channels, slice(start + b.rows.start * width, start + b.rows.stop * width)

    def _calls(self, x: Array, total: Array, b: InterleavedBlock, space: Space) -> Calls:
        """Return the calls that compute a block into `total [M, positions]`."""
        conv, image = self.conv, x[b.image]
        depth, _, column = conv.axes
        groups = b.groups.stop - b.groups.start
        shape = groups, b.seen, depth.kernel, column.kernel, conv.channels, column.out
        rows = space.array(shape, conv.compute)
        calls: Calls = []
        for place, given in b.copies(conv):
            part = rows[place]
            fill = partial(part.fill, 0)
            calls.append(
                fill if given is None else partial(np.copyto, part, image[given].swapaxes(1, 2))
            )
        planes = total.reshape(groups, conv.outputs, -1, column.out)
        multiply = self._bands if self.band else self._lines
        return calls + multiply(rows, b.groups, planes)

    def _lines(self, rows: Array, some: slice, planes: Array) -> Calls:
        """Return the products for planes `[g, M/g, rows, columns]`, row by row."""
        matrix = self.matrix[some]
        left = matrix.reshape(*matrix.shape[:2], -1)[:, None]
        return _products(left, self._windows(rows, 1, planes), planes.swapaxes(1, 2))

    def _bands(self, rows: Array, some: slice, planes: Array) -> Calls:
        """Return the products for planes `[g, M/g, rows, columns]`, band by band."""
        groups, outputs, height, width = planes.shape
        whole = height - height % self.band
        calls: Calls = []
        for start, stop, band in ((0, whole, self.band), (whole, height, height - whole)):
            if start < stop:
                left = self._matrices(band)[some, :, None]
                right = self._windows(rows, band, planes, start)[:, None, : (stop - start) // band]
                target = planes[:, :, start:stop].reshape(groups, outputs, -1, band, width)
                calls += _products(left, right, target)
        return calls

    def _matrices(self, band: int) -> Array:
        if band not in self._banded:
            self._banded[band] = banded(self.matrix, band, self.conv)
        return self._banded[band]

    def _windows(self, rows: Array, band: int, planes: Array, first: int = 0) -> Array:
        """Return the input of the output's bands from row `first` on: `[g, bands, K, columns]`."""
        row = self.conv.axes[ROW]
        per_row = rows.shape[2] * rows.shape[3] * rows.shape[4]
        count, seen = (planes.shape[2] - first) // band, row.span(band)
        group, step, *_, line, element = rows.strides
        strides = group, step * row.stride * band, line, element
        shape = rows.shape[0], count, seen * per_row, rows.shape[5]
        return overlapping(rows[:, first * row.stride :], shape, strides)


def banded(matrix: Array, band: int, conv: Conv3d) -> Array:
    """Return a filter `[g, M/g, row, ...]` as `[g, M/g, band, K]`, moved down in each row."""
    row = conv.axes[ROW]
    full = np.zeros((*matrix.shape[:2], band, row.span(band), *matrix.shape[3:]), matrix.dtype)
    for r in range(band):
        first = r * row.stride
        reach = slice(first, first + (row.kernel - 1) * row.dilation + 1, row.dilation)
        full[:, :, r, reach] = matrix
    return full.reshape(*full.shape[:3], -1)


def _products(left: Array, right: Array, out: Array) -> Calls:
    """Return the calls that multiply stacks of matrices, which broadcast."""
    stack = out.shape[:-2]
    left = np.broadcast_to(left, (*stack, *left.shape[-2:]))
    right = np.broadcast_to(right, (*stack, *right.shape[-2:]))
    return [partial(fn, a, b, y) for fn, a, b, y in product_calls(left, right, out)]
