"""Copies and sums of f32 in few instructions, compiled; imported only where numba is installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv.kernels.compiled.chain import add_and_exponentiate, adjacent
from irdeconv.kernels.compiled.programs import larger, place_number
from irdeconv.kernels.compiled.vectors import FlatArray, VectorCode, in_turns, instruction
from irdeconv.kernels.shared import jit

TOGETHER = 4  # vectors that are summed at once
NEAR_COLUMNS = 256  # columns whose elements in a source of other order stay in the level 1 cache


Combine = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def _folded(code: VectorCode, combine: Combine, totals: Sequence[ir.Value]) -> ir.Value:
    """Combine the elements of four vectors into one."""
    builder, lanes = code.builder, code.lanes
    first, second, third, fourth = (builder.load(total) for total in totals)
    halves = combine(builder, [first, second]), combine(builder, [third, fourth])
    whole = combine(builder, [*halves])
    while lanes > 1:
        lanes //= 2
        ends = [[h + i for i in range(lanes)] for h in (0, lanes)]
        whole = combine(builder, [code.shuffled(whole, whole, end) for end in ends])
    return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))


def _reduced(combine: Combine, start: float) -> Any:
    """Make what combines neighbours, lane by lane of some vectors and then these."""

    def reduced(
        code: VectorCode,
        x: FlatArray,
        at: ir.Value,
        count: ir.Value,
        out: FlatArray,
        to: ir.Value,
    ) -> None:
        """Write the result of `count` neighbours from `at` on into `out[to]`."""
        builder = code.builder
        totals = [code.total() for _ in range(TOGETHER)]
        for total in totals:
            builder.store(code.splat(ir.Constant(ir.FloatType(), start)), total)
        begin = place_number(0)
        for some in (TOGETHER, 1):
            step = some * code.lanes
            stop = builder.mul(builder.sdiv(count, place_number(step)), place_number(step))
            with cgutils.for_range_slice(builder, begin, stop, place_number(step)) as (i, _):
                for v, total in enumerate(totals[:some]):
                    place = builder.add(builder.add(at, i), place_number(v * code.lanes))
                    builder.store(combine(builder, [builder.load(total), x.vector(place)]), total)
            begin = stop
        rest = cgutils.alloca_once_value(builder, _folded(code, combine, totals))
        with cgutils.for_range_slice(builder, begin, count, place_number(1)) as (i, _):
            both = [builder.load(rest), x.element(builder.add(at, i))]
            builder.store(combine(builder, both), rest)
        builder.store(builder.load(rest), builder.gep(out.data, [to]))

    return instruction(jit.lanes(), reduced)


_sum = _reduced(lambda builder, v: builder.fadd(v[0], v[1]), 0.0)
_largest = _reduced(larger, -math.inf)


@jit.compiled
def row_means(x: Any, out: Any, count: Any) -> None:
    """Write the sums of rows `x [R, n]`, divided by `count`, into `out [R]`."""
    rows, width = x.shape
    flat = x.reshape(-1)
    for r in range(rows):
        _sum(flat, r * width, width, out, r)
        out[r] /= count


@jit.compiled
def softmax_rows(x: Any, out: Any, totals: Any) -> None:
    """Write exp(x) / sum(exp(x)) of each row of `x [R, n]`; `totals [R]` is scratch memory."""
    rows, width = x.shape
    flat, result = x.reshape(-1), out.reshape(-1)
    for r in range(rows):
        _largest(flat, r * width, width, totals, r)
        row, top = result[r * width : (r + 1) * width], totals[r]
        _copy_row(flat[r * width : (r + 1) * width], row)
        add_and_exponentiate(row, -top)
        _sum(result, r * width, width, totals, r)
        total = totals[r]
        for i in range(width):
            row[i] /= total


@jit.compiled
def _copy_row(source: Any, target: Any) -> None:
    for i in range(len(target)):
        target[i] = source[i]


def _turned(
    code: VectorCode,
    x: FlatArray,
    at: ir.Value,
    step: ir.Value,
    out: FlatArray,
    to: ir.Value,
    far: ir.Value,
) -> None:
    """Transpose eight by eight elements: rows `step` apart become columns, `far` apart."""
    builder, lanes = code.builder, range(code.lanes)
    rows = [x.vector(builder.add(at, builder.mul(step, place_number(i)))) for i in lanes]
    whole = in_turns(code, rows)
    for i in lanes:
        part = code.shuffled(whole, whole, [i * code.lanes + lane for lane in lanes])
        out.store(part, builder.add(to, builder.mul(far, place_number(i))))


_turn = instruction(8, _turned)


def _split(count: int) -> Any:
    def split(
        code: VectorCode,
        x: FlatArray,
        at: ir.Value,
        out: FlatArray,
        to: ir.Value,
        far: ir.Value,
    ) -> None:
        """Write every `count`-th of neighbours into rows that are `far` apart."""
        whole = x.by(VectorCode(code.context, code.builder, 8 * count, code.element)).vector(at)
        for i in range(count):
            part = code.shuffled(whole, whole, [lane * count + i for lane in range(8)])
            out.store(part, code.builder.add(to, code.builder.mul(far, place_number(i))))

    return instruction(8, split)


_split3, _split4 = _split(3), _split(4)


@jit.compiled
def _transpose(source: Any, target: Any) -> None:
    """Copy a matrix whose columns are neighbours in the source, whose rows in the target."""
    rows, columns = target.shape
    step, far = source.strides[1] // 4, target.strides[0] // 4
    whole, high = columns - columns % 8, rows - rows % 8
    if (rows == 3 or rows == 4) and step == rows:
        high = rows
        for i in range(0, whole, 8):
            if rows == 3:
                _split3(source, i * step, target, i, far)
            else:
                _split4(source, i * step, target, i, far)
    else:
        for i in range(0, whole, 8):
            for r in range(0, high, 8):
                _turn(source, i * step + r, step, target, r * far + i, far)
    for r in range(high, rows):
        for i in range(whole):
            target[r, i] = source[r, i]
    for i in range(whole, columns):
        for r in range(rows):
            target[r, i] = source[r, i]


@jit.compiled
def copy(source: Any, target: Any) -> None:
    """Copy an array of three axes."""
    planes, rows, columns = target.shape
    if source.strides[2] == 4 and target.strides[2] == 4:
        for p in range(planes):
            for r in range(rows):
                _copy_row(adjacent(source[p, r]), adjacent(target[p, r]))
        return
    if source.strides[1] == 4 and target.strides[2] == 4:
        for p in range(planes):
            _transpose(source[p], target[p])
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


@jit.compiled
def _weighted_row(x: Any, weight: Any, out: Any, first: bool) -> None:
    if first:
        for i in range(len(out)):
            out[i] = x[i] * weight
    else:
        for i in range(len(out)):
            out[i] += x[i] * weight


@jit.compiled
def _gathered_row(x: Any, index: Any, weight: Any, out: Any) -> None:
    """Write a row of sums; a loop over one tap is compiled to vectors that gather."""
    width = len(out)
    for t in range(len(index)):
        for o in range(width):
            part = x[index[t, o]] * weight[t, o]
            part = part if weight[t, o] != 0 else np.float32(0)
            out[o] = part if t == 0 else out[o] + part


@jit.compiled
def weigh(x: Any, index: Any, weight: Any, out: Any) -> None:
    """Write sums over t of `x [outer, I, inner]` at `index [t, O]` times `weight [t, O]`.

    What has a weight of 0 takes no part, so that an infinity there does not matter.
    """
    for p in range(len(out)):
        if out.shape[2] == 1:
            _gathered_row(x[p].reshape(-1), index, weight, out[p].reshape(-1))
            continue
        for o in range(out.shape[1]):
            first = True
            for t in range(len(index)):
                if weight[t, o] != 0:
                    _weighted_row(x[p, index[t, o]], weight[t, o], out[p, o], first)
                    first = False
            if first:
                out[p, o, :] = np.float32(0)
