"""Compiled copies, sums, col2im and pooling of f32; imported only if numba is installed.

Col2im writes each row of the output once. The rows that a small window covers are combined into one
row, vector by vector, and the columns of that row into a row of the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from irdeconv.ir.spec import Array
from irdeconv.kernels import compiled_vectors, jit
from irdeconv.kernels.compiled_chain import (
    adjacent,
    exponentiate,
    larger,
    place_number,
    smaller,
    turns,
)
from irdeconv.kernels.compiled_vectors import FlatArray, Pair, VectorCode, in_turns, instruction
from irdeconv.kernels.jit import ZIPPED, compiled

TOGETHER = 4  # vectors that are summed at once
NEAR_COLUMNS = 256  # columns whose elements in a source of other order stay in the level 1 cache


Combine = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def _folded(code: VectorCode, combine: Combine, totals: Sequence[ir.Value]) -> ir.Value:
    """Combine the elements of four vectors into one."""
    # Half with half until one element is left: the order is fixed, so the bits do not depend on
    # how LLVM would reduce a vector.
    builder, lanes = code.builder, code.lanes
    first, second, third, fourth = (builder.load(total) for total in totals)
    halves = combine(builder, [first, second]), combine(builder, [third, fourth])
    whole = combine(builder, [*halves])
    while lanes > 1:
        lanes //= 2
        ends = [[h + i for i in range(lanes)] for h in (0, lanes)]
        whole = combine(builder, [code.shuffled(whole, whole, end) for end in ends])
    return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))


def whole(builder: ir.IRBuilder, count: ir.Value, step: int) -> ir.Value:
    """Return the largest multiple of `step` that is at most `count`."""
    return builder.mul(builder.sdiv(count, place_number(step)), place_number(step))


def _reduced(combine: Combine, start: float) -> Any:
    """Make a function that combines neighbours: lanes of some vectors, then the lanes' results."""

    def reduced(
        code: VectorCode, x: FlatArray, at: ir.Value, count: ir.Value, out: FlatArray, to: ir.Value
    ) -> None:
        """Write the result of `count` neighbours from `at` on into `out[to]`."""
        # Four sums, because each addition waits for the one before it. Single vectors that are left
        # go to the first of them, single elements to the folded sum.
        builder = code.builder
        rest = cgutils.alloca_once_value(builder, ir.Constant(ir.FloatType(), start))
        begin = place_number(0)
        with builder.if_then(builder.icmp_signed(">=", count, place_number(code.lanes))):
            totals = [code.total() for _ in range(TOGETHER)]
            for total in totals:
                builder.store(code.splat(ir.Constant(ir.FloatType(), start)), total)
            for some in (TOGETHER, 1):
                step = some * code.lanes
                stop = whole(builder, count, step)
                with cgutils.for_range_slice(builder, begin, stop, place_number(step)) as (i, _):
                    for v, total in enumerate(totals[:some]):
                        place = builder.add(builder.add(at, i), place_number(v * code.lanes))
                        both = [builder.load(total), x.vector(place)]
                        builder.store(combine(builder, both), total)
                begin = stop
            builder.store(_folded(code, combine, totals), rest)
        begin = whole(builder, count, code.lanes)
        with cgutils.for_range_slice(builder, begin, count, place_number(1)) as (i, _):
            both = [builder.load(rest), x.element(builder.add(at, i))]
            builder.store(combine(builder, both), rest)
        builder.store(builder.load(rest), builder.gep(out.data, [to]))

    return instruction(jit.lanes(), reduced)


_sum = _reduced(lambda builder, v: builder.fadd(v[0], v[1]), 0.0)
_largest, _smallest = _reduced(larger, -math.inf), _reduced(smaller, math.inf)


@jit.compiled
def row_means(x: Any, out: Any, count: Any) -> None:
    """Write the sums of rows `x [R, n]`, divided by `count`, into `out [R]`."""
    rows, width = x.shape
    flat = x.reshape(-1)
    for r in range(rows):
        _sum(flat, r * width, width, out, r)
        out[r] /= count


@jit.compiled
def row_extremes(x: Any, out: Any, smallest: int) -> None:
    """Write the largest, or the smallest, elements of rows `x [R, n]` into `out [R]`."""
    rows, width = x.shape
    flat = x.reshape(-1)
    for r in range(rows):
        if smallest:
            _smallest(flat, r * width, width, out, r)
        else:
            _largest(flat, r * width, width, out, r)


@jit.compiled
def softmax_rows(x: Any, out: Any, totals: Any) -> None:
    """Write exp(x) / sum(exp(x)) of each row of `x [R, n]`; `totals [R]` is scratch memory."""
    rows, width = x.shape
    flat, result = x.reshape(-1), out.reshape(-1)
    for r in range(rows):
        _largest(flat, r * width, width, totals, r)
        row, top = result[r * width : (r + 1) * width], totals[r]
        _copy_row(flat[r * width : (r + 1) * width], row)
        for i in range(width):
            row[i] -= top
    exponentiate(result)
    for r in range(rows):
        row = result[r * width : (r + 1) * width]
        _sum(result, r * width, width, totals, r)
        total = totals[r]
        for i in range(width):
            row[i] /= total


@jit.compiled
def standardize_rows(x: Any, out: Any, squares: Any, sums: Any, numbers: Any, way: int) -> None:
    """Subtract the mean of each row of `x [R, n]`; way 1, 2: divide by its standard deviation.

    `numbers` are n and a small one, which is added to the variance (1) or to its root (2).
    `squares [n]` and `sums [1]` are scratch memory.
    """
    rows, width = x.shape
    flat, result, count, small = x.reshape(-1), out.reshape(-1), numbers[0], numbers[1]
    for r in range(rows):
        _sum(flat, r * width, width, sums, 0)
        mean = sums[0] / count
        row = result[r * width : (r + 1) * width]
        _copy_row(flat[r * width : (r + 1) * width], row)
        for i in range(width):
            row[i] -= mean
        if way == 0:
            continue
        for i in range(width):
            squares[i] = row[i] * row[i]
        _sum(squares, 0, width, sums, 0)
        spread = sums[0] / count
        root = np.sqrt(spread + small) if way == 1 else np.sqrt(spread) + small
        for i in range(width):
            row[i] /= root


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
    # Eight vectors in turns hold the matrix column by column: each eight elements become a row.
    builder, lanes = code.builder, range(code.lanes)
    rows = [x.vector(builder.add(at, builder.mul(step, place_number(i)))) for i in lanes]
    whole = in_turns(code, rows)
    for i in lanes:
        part = code.shuffled(whole, whole, [i * code.lanes + lane for lane in lanes])
        out.store(part, builder.add(to, builder.mul(far, place_number(i))))


_turn = instruction(8, _turned)


def _split(count: int) -> Any:
    def split(
        code: VectorCode, x: FlatArray, at: ir.Value, out: FlatArray, to: ir.Value, far: ir.Value
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
    # Reads by columns and writes by rows cannot both be vectors, unless a block of eight by eight
    # is turned in registers. Three or four rows that lie in turns are a picture's colours: eight
    # pixels are one read. The rest goes one by one.
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

    Elements with a weight of 0 take no part, so that an infinity there does not matter.
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


reach8, copy8, copy1 = compiled_vectors.reach8, compiled_vectors.copy8, compiled_vectors.copy1
zip2, zip3, zip4 = compiled_vectors.zip2, compiled_vectors.zip3, compiled_vectors.zip4
zip6, zip8 = compiled_vectors.zip6, compiled_vectors.zip8


@compiled
def sum_terms(
    source: Any, out: Any, sums: Any, counts: Any, steps: Any, rows: Any, row: Any
) -> None:
    """Write the outputs of a block, each as the sum of the terms in `source` that reach it.

    `counts` are (images, outputs), `steps` the first place in `source`, then the distances of
    images and outputs there and in `out`. `rows` are, for each output row, the start of its pairs
    and its place in `out`, and for each pair the distance of its terms. `row`
    is (width, stride), then for each eight outputs of a residue the start of their entries and
    their place in `sums`, and the entries. If `width` is negative, rows do not follow each
    other, and nothing may be written behind one. See `reach8` in `vectors`.
    """
    images, outputs = counts
    first_place, far_images, far_outputs, to_images, to_outputs = steps
    # The tables hold for all images and channels; only the start of a plane differs. Nothing is
    # checked against the arrays: tests run this between protected pages.
    pair_first, pair_to, shifts = rows
    width, stride, first_entry, places, entries = row
    begins = np.arange(stride) * (len(sums) // stride)
    for n in range(images):
        for c in range(outputs):
            first = first_place + n * far_images + c * far_outputs
            to = n * to_images + c * to_outputs
            # Rows of a plane are written in order, so a vector may write behind one: the next row
            # replaces it. Behind the last row, and if rows are apart, it would stay.
            end = to + pair_to[-1] + width if width > 0 else 0
            for r in range(len(pair_to)):
                pairs = pair_first[r], pair_first[r + 1]
                for v in range(len(places)):
                    span, at = (first_entry[v], first_entry[v + 1]), places[v]
                    reach8(source, first, entries, span, shifts, pairs, sums, at)
                interleave(sums, begins, out, to + pair_to[r], abs(width), stride, end)


@compiled
def interleave(
    source: Any, begins: Any, out: Any, to: int, width: int, stride: int, end: int
) -> None:
    """Write residues, which begin at `begins`, into a row, and anything behind it up to `end`."""
    if stride == 1:
        a, k = begins[0], 0
        while k < width and (k + 8 <= width or to + k + 8 <= end):
            copy8(source, a + k, out, to + k)
            k += 8
        while k < width:
            copy1(source, a + k, out, to + k)
            k += 1
        return
    k = 0
    if stride in ZIPPED:
        many = 8 * stride
        # A whole vector for each residue and all of them stored at once: one line of the output is
        # then written once, not once for each residue.
        while stride * k < width and (stride * k + many <= width or to + stride * k + many <= end):
            zipped(source, k, begins, out, to + stride * k, stride)
            k += 8
    for f in range(min(stride, width)):
        a = begins[f]
        for j in range(k, (width - f + stride - 1) // stride):
            copy1(source, a + j, out, to + f + j * stride)


@compiled
def zipped(source: Any, at: int, begins: Any, out: Any, to: int, stride: int) -> None:
    """Write eight elements of each residue in turns."""
    if stride == 2:
        zip2(source, at, begins, out, to)
    elif stride == 3:
        zip3(source, at, begins, out, to)
    elif stride == 4:
        zip4(source, at, begins, out, to)
    elif stride == 6:
        zip6(source, at, begins, out, to)
    else:
        zip8(source, at, begins, out, to)


WINDOW_TAPS = 8  # taps along an axis
UNROLLED = (2, 3)  # numbers of taps that have code of their own
LEAST_COLUMNS = 4  # of a result: a vector; four of them for strides above 2
POOL_STRIDES = (1, 2, 3, 4)  # along the last axis


def _row(
    code: VectorCode,
    x: FlatArray,
    way: Pair,
    at: Pair,
    count: ir.Value,
    start: FlatArray,
    out: FlatArray,
    to: ir.Value,
    length: ir.Value,
) -> None:
    """Write `length` elements: maxima or sums of the elements `count` times further in `x`.

    `way` is (the distance of the elements that count, whether to take maxima). The first begin at
    `at`, the others at multiples of a distance behind it; `start [1]` takes part.
    """
    # For two and three taps, the usual windows, there is code without a loop over taps. It is
    # chosen when it runs.
    builder, places = code.builder, (start, out, (to, length))
    for step, maximum in itertools.product(POOL_STRIDES, (0, 1)):
        with ExitStack() as chosen:
            right = builder.icmp_signed("==", way[0], place_number(step))
            right = builder.and_(right, builder.icmp_signed("==", way[1], place_number(maximum)))
            chosen.enter_context(builder.if_then(right))
            for taps in UNROLLED if step < 3 else ():
                same = builder.icmp_signed("==", count, count.type(taps))
                then, otherwise = chosen.enter_context(builder.if_else(same))
                with then:
                    _elements(code, x, at, taps, *places, step, maximum > 0)
                chosen.enter_context(otherwise)
            _elements(code, x, at, count, *places, step, maximum > 0)


def _elements(
    code: VectorCode,
    x: FlatArray,
    at: Pair,
    count: Any,
    start: FlatArray,
    out: FlatArray,
    to: Pair,
    skip: int,
    maximum: bool,
) -> None:
    """Write code for so many taps, a number or a value: long vectors first, then shorter ones."""
    # The longest vectors that fit into the row. The last one is moved back to end with it, so it
    # repeats some elements; that is why shorter rows need shorter vectors, down to one element. Of
    # windows far apart only longer rows are computed here.
    builder, (place, length), most = code.builder, to, None
    for lanes in dict.fromkeys((code.lanes, 8, 4, 1) if skip < 3 else (8,)):
        suits = builder.icmp_signed(">=", length, place_number(lanes))
        if most is not None:
            suits = builder.and_(suits, builder.icmp_signed("<", length, most))
        most = place_number(lanes)
        with builder.if_then(suits):
            kind, last = VectorCode(code.context, builder, lanes, code.element), most
            source, target = x.by(kind), out.by(kind)
            end = builder.sub(length, last)
            with cgutils.for_range_slice(builder, place_number(0), length, last) as (i, _):
                i = builder.select(builder.icmp_signed("<", i, end), i, end)
                first = builder.add(at[0], builder.mul(i, place_number(skip)))
                total = kind.splat(start.element(place_number(0)))
                total = _combined(source, (first, at[1]), count, total, skip, maximum)
                target.store(total, builder.add(place, i))


def _higher(builder: ir.IRBuilder, total: ir.Value, part: ir.Value) -> ir.Value:
    """Write the larger one of two vectors' elements; NaN in the second one never wins."""
    return builder.select(builder.fcmp_ordered(">", part, total), part, total)


def _combined(
    x: FlatArray, at: Pair, count: Any, start: ir.Value, skip: int, maximum: bool
) -> ir.Value:
    """Write code for one vector; return it."""
    builder, (first, step), total = x.code.builder, at, x.code.total()

    def add(tap: ir.Value) -> None:
        part = x.vector(builder.add(first, builder.mul(tap, step)), skip)
        both = [builder.load(total), part]
        found = _higher(builder, *both) if maximum else builder.fadd(*both)
        builder.store(found, total)

    builder.store(start, total)
    if isinstance(count, int):
        for tap in range(count):
            add(place_number(tap))
    else:
        with cgutils.for_range(builder, count) as loop:
            add(loop.index)
    return builder.load(total)


_combine = instruction(jit.lanes(), _row)


def _divided(
    code: VectorCode, out: FlatArray, to: ir.Value, length: ir.Value, by: FlatArray, at: ir.Value
) -> None:
    """Divide `length` neighbours by others."""
    builder = code.builder
    for kind, i in turns(code, length):
        target, place = out.by(kind), builder.add(to, i)
        divisors = by.by(kind).vector(builder.add(at, i))
        target.store(builder.fdiv(target.vector(place), divisors), place)


_divide = instruction(jit.lanes(), _divided)


@jit.compiled
def pool_planes(x: Any, out: Any, lines: Any, start: Any, windows: Any, counts: Any) -> None:
    """Write maxima of windows on `x [P, H, W]`, or means if `counts [*O]` has elements.

    `windows` are (taps, stride, leading pad) of rows and columns; taps outside of the data count as
    `start [1]`, which takes part in every window. Each of `lines` has room for the elements of
    a row that windows reach, and for the `stride - 1` that strided vectors read behind them.
    """
    (rows, down, top), (columns, across, left) = windows
    planes, height, width = x.shape
    data, result, maximum = x.reshape(-1), out.reshape(-1), counts.size == 0
    flat, pitch, divisors = lines.reshape(-1), lines.shape[1], counts.reshape(-1)
    first, last = max(0, -left), min(width, pitch - left)
    _, high, size = out.shape
    # The ends of lines are the taps outside of the data. They are written once: rows only write
    # the middle of a line.
    lines[:] = start[0]
    for p in range(planes):
        for begin in range(0, high, len(lines)):
            # Elements just written are not read at once, since parts of them are read together.
            some = min(len(lines), high - begin)
            for j in range(some):
                above = (begin + j) * down - top
                y, stop = max(0, above), min(height, above + rows)
                at = (p * height + y) * width + first, width
                to, count = j * pitch + left + first, max(0, stop - y)
                _combine(data, (1, maximum), at, count, start, flat, to, last - first)
            for j in range(some):
                oy, at = begin + j, (j * pitch, 1)
                target = (p * high + oy) * size
                _combine(flat, (across, maximum), at, columns, start, result, target, size)
                if not maximum:
                    _divide(result, target, size, divisors, oy * size)


def call_of(axes: Any, count: Array | None, lowest: float) -> tuple[Any, int] | None:
    """Return the last arguments of `pool_planes` and the size of a line, for two axes of taps.

    `count [*O]` makes means. None for windows that have no compiled code.
    """
    last = axes[1]
    small = all(a.dilation == 1 and a.kernel <= WINDOW_TAPS for a in axes)
    least = LEAST_COLUMNS if last.stride < 3 else 4 * LEAST_COLUMNS
    if not small or last.stride not in POOL_STRIDES or last.out < least:
        return None
    reach = last.span(last.out)
    if last.begin > reach or last.begin <= -last.size:
        return None
    counts = np.zeros((0, 0), np.float32)
    if count is not None:  # a copy, since the loop is compiled for arrays that may be written
        counts = np.array(np.broadcast_to(count, [a.out for a in axes]), np.float32, order="C")
    windows = tuple((a.kernel, a.stride, a.begin) for a in axes)
    return (np.array([lowest], np.float32), windows, counts), reach


# Rows whose products share the loads of the right operand, and the vectors of columns at once.
ROW_BLOCKS: dict[int, tuple[int, ...]] = {8: (1,), 4: (1,), 1: (jit.ROW_VECTORS, 4, 1)}
LANES = tuple(n for n in (16, 8, 4, 1) if n <= jit.lanes())


def _row_blocks(
    code: VectorCode, x: FlatArray, near: Any, w: FlatArray, out: FlatArray, at: Pair, sizes: Any
) -> None:
    """Write [rows, depth] times [depth, columns] at places `at` of `w`, `out`.

    `near` are the place and the steps of rows and columns in `x`. Of `sizes`, (rows, depth,
    columns, pitch), the last one is the distance of rows in `w`.
    """
    # Each block stays in registers while the depth goes by. The last one, of rows or columns, is
    # moved back to end with the product, so it repeats some elements, to the bit: each is one sum.
    builder, (place, down, right), (rows, depth, columns, pitch) = code.builder, near, sizes
    with ExitStack() as otherwise:
        for count in ROW_BLOCKS:
            enough = builder.icmp_signed(">=", rows, place_number(count))
            many, few = otherwise.enter_context(builder.if_else(enough))
            with many:
                for kind, across, n, j in _blocks(code, rows, count, columns):
                    start = builder.add(place, builder.mul(n, down))
                    to = builder.add(at[1], builder.add(builder.mul(n, columns), j))
                    places = start, builder.add(at[0], j), to
                    data = zip((x, w, out), places, strict=True)
                    parts = [builder.gep(array.data, [k]) for array, k in data]
                    block = _block_function(kind, count, across, (x, w, out))
                    builder.call(block, [*parts, down, right, depth, pitch, columns])
            otherwise.enter_context(few)


def _blocks(code: VectorCode, rows: ir.Value, count: int, columns: ir.Value) -> Any:
    """Write loops over blocks; yields code of the vectors that fit, how many, first row, column."""
    builder, zero, begin = code.builder, place_number(0), place_number(0)
    shapes = [(LANES[0], across) for across in ROW_BLOCKS[count]] + [(n, 1) for n in LANES[1:]]
    for lanes, across in shapes:
        most = place_number(lanes * across)
        # What is left behind the last whole block is for narrower ones, down to a vector.
        rest = builder.sub(columns, begin)
        stop = columns if across == 1 else builder.add(begin, whole(builder, rest, lanes * across))
        left = builder.icmp_signed("<", begin, columns)
        suits = builder.and_(left, builder.icmp_signed(">=", columns, most))
        stop = builder.select(suits, stop, begin)
        kind = VectorCode(code.context, builder, lanes, code.element)
        ends = builder.sub(rows, place_number(count)), builder.sub(columns, most)
        with cgutils.for_range_slice(builder, zero, rows, place_number(count)) as (n, _):
            n = builder.select(builder.icmp_signed("<", n, ends[0]), n, ends[0])
            with cgutils.for_range_slice(builder, begin, stop, most) as (j, _):
                j = builder.select(builder.icmp_signed("<", j, ends[1]), j, ends[1])
                yield kind, across, n, j
        begin = stop


def _block_function(
    code: VectorCode, count: int, across: int, arrays: Sequence[FlatArray]
) -> ir.Function:
    """Return the function that multiplies `count` rows by the columns of `across` vectors."""
    # On its own, since the loops around it would take the registers that its addresses need.
    module, name = code.builder.module, f"irdeconv_rows_{count}_{across}_{code.lanes}"
    if name in module.globals:
        return module.globals[name]
    kinds = [a.data.type for a in arrays] + [ir.IntType(64)] * 5
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    own = VectorCode(code.context, builder, code.lanes, code.element)
    x, w, out = (a.by(own) for a in arrays)
    x.data, w.data, out.data, down, right, depth, pitch, far = function.args
    shifts = [place_number(v * code.lanes) for v in range(across)]
    totals = [[own.total() for _ in shifts] for _ in range(count)]
    with cgutils.for_range(builder, depth) as loop:
        row, at = builder.mul(loop.index, pitch), builder.mul(loop.index, right)
        vectors = [w.vector(builder.add(row, shift)) for shift in shifts]
        for r, sums in enumerate(totals):
            element = own.splat(x.element(builder.add(at, builder.mul(down, place_number(r)))))
            for total, vector in zip(sums, vectors, strict=True):
                own.add_product_to(total, element, vector)
    for r, sums in enumerate(totals):
        for total, shift in zip(sums, shifts, strict=True):
            to = builder.add(builder.mul(far, place_number(r)), shift)
            out.store(builder.load(total), to)
    builder.ret_void()
    return function


multiply_rows = instruction(jit.lanes(), _row_blocks)


@compiled
def row_products(x: Any, w: Any, out: Any) -> None:
    """Write products x (B, N, C) times w (B or 1, C, M or more) into out (B, N, M)."""
    batch, rows, depth = x.shape
    columns, pitch = out.shape[2], w.shape[2]
    far = depth * pitch * (len(w) > 1)
    steps = x.strides[1] // 4, x.strides[2] // 4
    for b in range(batch):
        near, at = (b * x.strides[0] // 4, *steps), (b * far, b * rows * columns)
        multiply_rows(x, near, w, out, at, (rows, depth, columns, pitch))
