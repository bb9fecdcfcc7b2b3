"""Copies and sums of f32 in few instructions, compiled; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv.kernels.compiled.chain import adjacent
from irdeconv.kernels.compiled.programs import place_number
from irdeconv.kernels.compiled.vectors import FlatArray, VectorCode, instruction
from irdeconv.kernels.shared import jit

TOGETHER = 4  # vectors that are summed at once
NEAR_COLUMNS = 256  # columns whose elements in a source of other order stay in the level 1 cache


def _total(
    code: VectorCode,
    x: FlatArray,
    at: ir.Value,
    count: ir.Value,
    out: FlatArray,
    to: ir.Value,
) -> None:
    """Write the sum of neighbours from `at` on, lane by lane of some vectors and then these."""
    builder = code.builder
    totals = [code.total() for _ in range(TOGETHER)]
    begin = place_number(0)
    for some in (TOGETHER, 1):
        step = some * code.lanes
        stop = builder.mul(builder.sdiv(count, place_number(step)), place_number(step))
        with cgutils.for_range_slice(builder, begin, stop, place_number(step)) as (i, _):
            for v, total in enumerate(totals[:some]):
                place = builder.add(builder.add(at, i), place_number(v * code.lanes))
                builder.store(builder.fadd(builder.load(total), x.vector(place)), total)
        begin = stop
    parts = [builder.load(total) for total in totals]
    whole = builder.fadd(builder.fadd(parts[0], parts[1]), builder.fadd(parts[2], parts[3]))
    lanes = code.lanes
    while lanes > 1:
        lanes //= 2
        low, high = (code.shuffled(whole, whole, [h + i for i in range(lanes)]) for h in (0, lanes))
        whole = builder.fadd(low, high)
    rest = cgutils.alloca_once_value(
        builder, builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))
    )
    with cgutils.for_range_slice(builder, begin, count, place_number(1)) as (i, _):
        builder.store(builder.fadd(builder.load(rest), x.element(builder.add(at, i))), rest)
    builder.store(builder.load(rest), builder.gep(out.data, [to]))


_sum = instruction(jit.lanes(), _total)


@jit.compiled
def row_means(x: Any, out: Any, count: Any) -> None:
    """Write the sums of rows `x [R, n]`, divided by `count`, into `out [R]`."""
    rows, width = x.shape
    flat = x.reshape(-1)
    for r in range(rows):
        _sum(flat, r * width, width, out, r)
        out[r] /= count


@jit.compiled
def _copy_row(source: Any, target: Any) -> None:
    for i in range(len(target)):
        target[i] = source[i]


@jit.compiled
def copy(source: Any, target: Any) -> None:
    """Copy an array of three axes."""
    planes, rows, columns = target.shape
    if source.strides[2] == 4 and target.strides[2] == 4:
        for p in range(planes):
            for r in range(rows):
                _copy_row(adjacent(source[p, r]), adjacent(target[p, r]))
        return
    for p in range(planes):
        for at in range(0, columns, NEAR_COLUMNS):
            stop = min(columns, at + NEAR_COLUMNS)
            for r in range(rows):
                for i in range(at, stop):
                    target[p, r, i] = source[p, r, i]


@jit.compiled
def fill(target: Any, value: Any) -> None:
    """Fill an array of three axes, whose last one's elements are neighbours."""
    for p in range(target.shape[0]):
        for r in range(target.shape[1]):
            adjacent(target[p, r])[:] = value
