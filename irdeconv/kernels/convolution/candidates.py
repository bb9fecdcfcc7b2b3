"""Which kernels can compute a convolution, and what each is expected to cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irdeconv.kernels.convolution import costs as cost
from irdeconv.kernels.convolution import depthwise as fast
from irdeconv.kernels.convolution import direct
from irdeconv.kernels.convolution.canonical import Volume, volume
from irdeconv.kernels.convolution.decimated import decimated_candidates
from irdeconv.kernels.convolution.im2col import (
    Columns,
    Shifted,
    column_blocks,
    row_taps,
    shifted_blocks,
)
from irdeconv.kernels.convolution.pointwise import Pointwise, pointwise_blocks
from irdeconv.kernels.convolution.winograd import Winograd, applies, transformed, winograd_blocks
from irdeconv.kernels.shared.candidate import ZERO, Candidate, Kernel
from irdeconv.kernels.shared.margins import ROUNDING
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.spec import Array


def convolution_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution, the cheapest first; at least one.

    1 to 3 spatial axes, any pads. Element types are floats, or integers of 32 and 64 bits, which
    wrap. The filter given to `prepare` is `[g, M/g, C/g, *K]`. An output
    without anything to sum is zero.
    """
    if problem.empty:
        return [ZERO]
    v = volume(problem)
    found = [_pointwise(v)] if v.plain else [_columns(v)]
    if v.axes[1].kernel > 1:
        found += [_shifted(v, False), _shifted(v, True)]
    if applies(v):
        found += [_winograd(v, 2), _winograd(v, 4)]
    if v.channels == 1 and v.compute.kind == "f" and fast.available():
        found.append(_depthwise(v))
    if direct.applies(v) and fast.available():
        found.append(_direct(v))
    found += decimated_candidates(problem, convolution_candidates)
    return sorted(found, key=lambda c: c.cost)


def _pointwise(v: Volume) -> Candidate:
    blocks = pointwise_blocks(v)

    def prepare(w: Array) -> Kernel:
        return Pointwise(v, blocks, v.filter(w).reshape(v.groups, v.outputs, v.channels))

    return cost.candidate("pointwise", v, cost.pointwise_work(v, blocks), prepare)


def _columns(v: Volume) -> Candidate:
    blocks = column_blocks(v)

    def prepare(w: Array) -> Kernel:
        # Rows innermost, as `gather` lays out the patches.
        matrix = v.filter(w).swapaxes(-1, -2).reshape(v.groups, v.outputs, -1)
        return Columns(v, blocks, matrix)

    return cost.candidate("columns", v, cost.columns_work(v, blocks), prepare)


def _shifted(v: Volume, stacked: bool) -> Candidate:
    blocks = shifted_blocks(v, stacked)

    def prepare(w: Array) -> Kernel:
        rows = np.moveaxis(v.filter(w), 4, 0)
        parts = [rows[t.cut].reshape(t.count, v.groups, v.outputs, -1) for t in row_taps(v)]
        return Shifted(v, blocks, [np.ascontiguousarray(p) for p in parts], stacked)

    name = "stacked" if stacked else "shifted"
    return cost.candidate(name, v, cost.shifted_work(v, blocks, stacked), prepare)


def _depthwise(v: Volume) -> Candidate:
    blocks = fast.strips(v)

    def prepare(w: Array) -> Kernel:
        return fast.Depthwise(v, blocks, fast.weights(v, w), fast.offsets(v))

    return cost.candidate("depthwise", v, cost.depthwise_work(v, blocks), prepare)


def _direct(v: Volume) -> Candidate:
    pieces = direct.split(v)

    def prepare(w: Array) -> Kernel:
        return direct.Direct(v, pieces, direct.arranged(v, w), direct.all_offsets(v))

    return cost.candidate("direct", v, cost.direct_work(v, pieces), prepare)


def _winograd(v: Volume, m: int) -> Candidate:
    blocks = winograd_blocks(v, m)
    work = cost.winograd_work(v, m, blocks)

    def prepare(w: Array) -> Kernel:
        return Winograd(v, blocks, m, transformed(v, m, w))

    found = cost.candidate(f"winograd{m}", v, work, prepare)
    # F(4, 3) costs accuracy.
    return replace(found, cost=found.cost * (ROUNDING if m == 4 else 1), transforms=True)
