"""Convolution whose taps of the row axis read one matrix of columns at distances of whole rows.

The row axis is left out of the gathering, so less is copied than by im2col, but the products must
be added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.kernels.convolution.blockwise import Blockwise
from irdeconv.kernels.convolution.conv3d import COLUMN, ROW, Conv3d, as_conv3d
from irdeconv.kernels.convolution.row_blocks import RowBlock, RowBlocks, gather_columns, partition
from irdeconv.kernels.convolution.work import Work
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Kernel, deliver
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import multiply
from irdeconv.kernels.shared.scratch import Space
from irdeconv.spec import Array


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels, where there are several taps of the row axis."""
    conv = as_conv3d(problem)
    if conv.axes[ROW].kernel == 1:
        return []
    return [_candidate(conv, stacked=False), _candidate(conv, stacked=True)]


def _candidate(conv: Conv3d, stacked: bool) -> Candidate:
    row = conv.axes[ROW]
    gathered = conv.channels * conv.taps // row.kernel * min(row.stride, row.kernel)
    terms = conv.outputs * (row.kernel if stacked else 1)
    blocks = partition(conv, (gathered + terms) * conv.itemsize, False)

    def prepare(w: Array) -> Kernel:
        rows = np.moveaxis(conv.filter(w), 4, 0)
        taps = row_taps(conv)
        parts = [rows[t.cut].reshape(t.count, conv.groups, conv.outputs, -1) for t in taps]
        return RowShifts(conv, list(blocks), [np.ascontiguousarray(p) for p in parts], stacked)

    return work_of(conv, blocks, stacked).candidate("stacked" if stacked else "shifted", prepare)


def work_of(conv: Conv3d, blocks: RowBlocks, stacked: bool) -> Work:
    """Count gathering what is shared by the taps of the row axis, and the products' sums."""
    work, first = Work(conv), blocks[0]
    row, column = conv.axes[ROW], conv.axes[COLUMN]
    depth = conv.channels * conv.taps // row.kernel
    n = len(blocks)
    work.blocks = n
    size = first.rows * column.out
    work.convert(0, first.count * conv.outputs * size)
    work.frame(first.frame.elements, n)
    begun = 0
    for taps in row_taps(conv):
        rows = first.rows + taps.step * (taps.count - 1)
        if column.kernel > 1 or column.stride > 1 or row.stride > 1:
            run = column.out if column.out > 1 else rows
            stride = column.stride if column.out > 1 else row.stride
            some = first.count * depth * rows * column.out
            work.scratch += some
            work.copy(n * some, run, stride > 1)
            work.steps += n
        if stacked:
            work.multiply(taps.count * conv.outputs, depth, rows * column.out, n * first.count)
            work.scratch += first.count * taps.count * conv.outputs * rows * column.out
            work.steps += n
        else:
            work.scratch += first.count * conv.outputs * size
            work.multiply(conv.outputs, depth, size, n * first.count * taps.count)
            work.steps += n * taps.count
        adds = taps.count - 1 + begun
        begun = 1
        work.added += n * first.count * adds * conv.outputs * size
        work.looped += n * first.count * adds * conv.outputs
        work.steps += n * adds
    return work


@dataclass(frozen=True)
class RowTaps:
    """Taps of the row axis, `cut`, that read the rows `first + j*stride`, each `step` rows on."""

    cut: slice
    count: int
    first: int
    step: int


def row_taps(conv: Conv3d) -> list[RowTaps]:
    """Split the row axis's taps by what they read modulo its stride."""
    row = conv.axes[ROW]
    apart = row.stride // math.gcd(row.stride, row.dilation)
    return [
        RowTaps(
            cut=slice(k, None, apart),
            count=len(range(k, row.kernel, apart)),
            first=k * row.dilation,
            step=apart * row.dilation // row.stride,
        )
        for k in range(min(apart, row.kernel))
    ]


@dataclass(frozen=True)
class RowShifts(Blockwise[RowBlock]):
    """Gather all taps but those of the row axis, whose products are added.

    `matrices` are `[taps, g, M/g, C/g * other taps]`, one for each of `row_taps`. `stacked`: one
    product for all taps that share rows, instead of one per tap; it is larger, but computes the
    taps for rows that they do not need.
    """

    matrices: Sequence[Array]
    stacked: bool

    @cached_property
    def _taps(self) -> list[RowTaps]:
        return row_taps(self.conv)

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv = self.conv
        target = out[b.image, b.channels, b.positions]
        size = target.shape[1]
        shape = (b.count, conv.outputs, size)
        total = target.reshape(shape) if conv.direct else space.array(shape, conv.compute)
        f = b.frame.of(x, space)
        begun = False
        add = self._stack if self.stacked else self._each
        for taps, matrix in zip(self._taps, self.matrices, strict=True):
            count = b.rows + taps.step * (taps.count - 1)
            rows = gather_columns(f, taps.first, conv.axes[ROW].stride, count, conv, space)
            right = rows.reshape(b.count, -1, count * conv.axes[COLUMN].out)
            left = matrix[:, b.groups]
            add(left, right, taps.step * conv.axes[COLUMN].out, total, begun, space)
            begun = True
        flat = total.reshape(-1, size)
        deliver(target if conv.direct else flat, target, epilogue, b.image, b.channels, b.positions)

    def _each(
        self, left: Array, right: Array, step: int, total: Array, begun: bool, space: Space
    ) -> None:
        """Add one product per tap."""
        size = total.shape[-1]
        term = space.array(total.shape, total.dtype)
        for t, matrix in enumerate(left):
            part = right[:, :, t * step : t * step + size]
            if t or begun:
                multiply(matrix, part, out=term)
                np.add(total, term, out=total)
            else:
                multiply(matrix, part, out=total)

    def _stack(
        self, left: Array, right: Array, step: int, total: Array, begun: bool, space: Space
    ) -> None:
        """Multiply all taps at once, then add what each contributes."""
        taps, groups, outputs, _ = left.shape
        size = total.shape[-1]
        terms = space.array((groups, taps, outputs, right.shape[-1]), total.dtype)
        stack = left.swapaxes(0, 1).reshape(groups, taps * outputs, -1)
        multiply(stack, right, out=terms.reshape(groups, taps * outputs, -1))
        parts = [terms[:, t, :, t * step : t * step + size] for t in range(taps)]
        if begun:
            parts.insert(0, total)
        elif taps == 1:
            total[...] = parts[0]
            return
        np.add(parts[0], parts[1], out=total)
        for part in parts[2:]:
            np.add(total, part, out=total)
