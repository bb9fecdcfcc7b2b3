"""Small windows on f32 planes in one pass, compiled. Import it only where jit.available().

The rows that a window covers are combined into one row, vector by vector, and the columns of that
row into a row of the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv.kernels.compiled.programs import larger, place_number
from irdeconv.kernels.compiled.vectors import FlatArray, Pair, VectorCode, instruction
from irdeconv.kernels.shared import jit
from irdeconv.spec import Array

WINDOW_TAPS = 8  # taps along an axis
UNROLLED = (2, 3)  # numbers of taps that have code of their own
LEAST_COLUMNS = 4  # of a result: a vector
POOL_STRIDES = (1, 2)  # along the last axis


def _row(skip: int, maximum: bool) -> Any:
    def row(
        code: VectorCode,
        x: FlatArray,
        at: Pair,
        count: ir.Value,
        start: FlatArray,
        out: FlatArray,
        to: ir.Value,
        length: ir.Value,
    ) -> None:
        """Write `length` elements: maxima or sums of what lies `count` times further in `x`.

        The first begin at `at`, the others at multiples of a distance behind it; every `skip`-th
        element counts, and `start [1]` takes part.
        """
        builder, others = code.builder, count.type(1)
        for taps in UNROLLED:
            same = builder.icmp_signed("==", count, count.type(taps))
            others = builder.select(same, count.type(0), others)
            with builder.if_then(same):
                _elements(code, x, at, taps, start, out, (to, length), skip, maximum)
        with builder.if_then(builder.icmp_signed("==", others, count.type(1))):
            _elements(code, x, at, count, start, out, (to, length), skip, maximum)

    return instruction(jit.lanes(), row)


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
    builder, (place, length), most = code.builder, to, None
    for lanes in dict.fromkeys((code.lanes, 8, 4, 1)):
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


def _combined(
    x: FlatArray, at: Pair, count: Any, start: ir.Value, skip: int, maximum: bool
) -> ir.Value:
    """Write code for one vector; return it."""
    builder, (first, step), total = x.code.builder, at, x.code.total()

    def add(tap: ir.Value) -> None:
        part = x.vector(builder.add(first, builder.mul(tap, step)), skip)
        both = [builder.load(total), part]
        builder.store(larger(builder, both) if maximum else builder.fadd(*both), total)

    builder.store(start, total)
    if isinstance(count, int):
        for tap in range(count):
            add(place_number(tap))
    else:
        with cgutils.for_range(builder, count) as loop:
            add(loop.index)
    return builder.load(total)


_max_row, _max_row_by_2, _sum_row, _sum_row_by_2 = (
    _row(1, True),
    _row(2, True),
    _row(1, False),
    _row(2, False),
)


def _divided(
    code: VectorCode,
    out: FlatArray,
    to: ir.Value,
    length: ir.Value,
    by: FlatArray,
    at: ir.Value,
) -> None:
    """Divide `length` neighbours by others."""
    builder = code.builder
    count = builder.mul(builder.sdiv(length, place_number(code.lanes)), place_number(code.lanes))
    scalar = VectorCode(code.context, builder, 1, code.element)
    for kind, begin, end in ((code, place_number(0), count), (scalar, count, length)):
        target, divisors, step = out.by(kind), by.by(kind), place_number(kind.lanes)
        with cgutils.for_range_slice(builder, begin, end, step) as (i, _):
            place = builder.add(to, i)
            quotient = builder.fdiv(target.vector(place), divisors.vector(builder.add(at, i)))
            target.store(quotient, place)


_divide = instruction(jit.lanes(), _divided)


@jit.compiled
def _combine(
    skip: int,
    maximum: bool,
    x: Any,
    at: Any,
    count: int,
    start: Any,
    out: Any,
    to: int,
    length: int,
) -> None:
    if maximum and skip == 1:
        _max_row(x, at, count, start, out, to, length)
    elif maximum:
        _max_row_by_2(x, at, count, start, out, to, length)
    elif skip == 1:
        _sum_row(x, at, count, start, out, to, length)
    else:
        _sum_row_by_2(x, at, count, start, out, to, length)


@jit.compiled
def pool_planes(x: Any, out: Any, lines: Any, start: Any, windows: Any, counts: Any) -> None:
    """Write maxima of windows on `x [P, H, W]`, or means where `counts [*O]` has elements.

    `windows` are (taps, stride, leading pad) of rows and columns; taps outside of the data count as
    `start [1]`, which takes part in every window. Each of `lines` has room for what windows reach
    of a row, and for a vector twice as long behind it.
    """
    (rows, down, top), (columns, across, left) = windows
    planes, height, width = x.shape
    data, result, maximum = x.reshape(-1), out.reshape(-1), counts.size == 0
    flat, pitch, divisors = lines.reshape(-1), lines.shape[1], counts.reshape(-1)
    first, last = max(0, -left), min(width, pitch - left)
    _, high, size = out.shape
    lines[:] = start[0]
    for p in range(planes):
        for begin in range(0, high, len(lines)):
            # What was just written is not read at once, since parts of it are read together.
            some = min(len(lines), high - begin)
            for j in range(some):
                above = (begin + j) * down - top
                y, stop = max(0, above), min(height, above + rows)
                at = (p * height + y) * width + first, width
                to, count = j * pitch + left + first, max(0, stop - y)
                _combine(1, maximum, data, at, count, start, flat, to, last - first)
            for j in range(some):
                oy, at = begin + j, (j * pitch, 1)
                target = (p * high + oy) * size
                _combine(across, maximum, flat, at, columns, start, result, target, size)
                if not maximum:
                    _divide(result, target, size, divisors, oy * size)


def call_of(axes: Any, count: Array | None, lowest: float) -> tuple[Any, int] | None:
    """Return the last arguments of `pool_planes` and the size of a line, for two axes of taps.

    `count [*O]` makes means. None for windows that no compiled code is made for.
    """
    last = axes[1]
    small = all(a.dilation == 1 and a.kernel <= WINDOW_TAPS for a in axes)
    if not small or last.stride not in POOL_STRIDES or last.out < LEAST_COLUMNS:
        return None
    reach = last.span(last.out)
    if last.begin > reach or last.begin <= -last.size:
        return None
    counts = np.zeros((0, 0), np.float32)
    if count is not None:
        counts = np.ascontiguousarray(np.broadcast_to(count, [a.out for a in axes]), np.float32)
    windows = tuple((a.kernel, a.stride, a.begin) for a in axes)
    return (np.array([lowest], np.float32), windows, counts), reach
