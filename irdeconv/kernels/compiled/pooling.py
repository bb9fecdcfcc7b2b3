"""Common poolings of f32 planes in one pass, compiled. Import it only where jit.available().

Windows of 2 at stride 2 without pads, of 3 at stride 1 or 2 with any: constant strides become
vector loads. Compiled loops over any number of taps were slower than shifts of flat memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.shared.jit import compiled
from irdeconv.spec import Array

Place = tuple[int, int, int]  # stride, leading pad of the rows, of the columns


@compiled
def _larger(a: Any, b: Any) -> Any:
    """Return the larger one; NaN wins."""
    return a if (a > b) | (a != a) else b


@compiled
def max_of_2(x: Array, out: Array, lowest: Array) -> None:
    """Write maxima of the 2x2 blocks of `x [P, H, W]`; the least result is `lowest [1]`."""
    low = lowest[0]
    for p in range(x.shape[0]):
        for oy in range(out.shape[1]):
            upper, lower, result = x[p, 2 * oy], x[p, 2 * oy + 1], out[p, oy]
            for i in range(len(result)):
                a = _larger(upper[2 * i], upper[2 * i + 1])
                b = _larger(lower[2 * i], lower[2 * i + 1])
                result[i] = _larger(_larger(a, b), low)


@compiled
def mean_of_2(x: Array, out: Array) -> None:
    """Write means of the 2x2 blocks of `x [P, H, W]`."""
    for p in range(x.shape[0]):
        for oy in range(out.shape[1]):
            upper, lower, result = x[p, 2 * oy], x[p, 2 * oy + 1], out[p, oy]
            for i in range(len(result)):
                a = upper[2 * i] + lower[2 * i]
                result[i] = (a + (upper[2 * i + 1] + lower[2 * i + 1])) * np.float32(0.25)


@compiled
def _row(x: Array, p: int, y: int, blank: Array) -> Array:
    row: Array = x[p, y] if 0 <= y < x.shape[1] else blank
    return row


@compiled
def max_of_3(x: Array, out: Array, row: Array, blank: Array, place: Place) -> None:
    """Write maxima of 3x3 windows on `x [P, H, W]`.

    `blank [W]` holds the least result; `row` has room for the part of a row that windows reach.
    """
    stride, top, left = place
    last = min(len(row), left + x.shape[2])
    low = blank[0]
    row[:] = low
    inside = row[left:last]
    for p in range(x.shape[0]):
        for oy in range(out.shape[1]):
            y, result = oy * stride - top, out[p, oy]
            a, b, c = _row(x, p, y, blank), _row(x, p, y + 1, blank), _row(x, p, y + 2, blank)
            for i in range(len(inside)):
                inside[i] = _larger(_larger(a[i], b[i]), _larger(c[i], low))
            if stride == 1:
                for i in range(len(result)):
                    result[i] = _larger(_larger(row[i], row[i + 1]), row[i + 2])
            else:
                for i in range(len(result)):
                    result[i] = _larger(_larger(row[2 * i], row[2 * i + 1]), row[2 * i + 2])


@compiled
def mean_of_3(x: Array, out: Array, row: Array, blank: Array, place: Place, count: Array) -> None:
    """Write means of 3x3 windows on `x [P, H, W]`: sums divided by `count [*O]`.

    `blank [W]` holds zeros; `row` as for `max_of_3`.
    """
    stride, top, left = place
    last = min(len(row), left + x.shape[2])
    row[:] = blank[0]
    inside = row[left:last]
    for p in range(x.shape[0]):
        for oy in range(out.shape[1]):
            y, result, divisor = oy * stride - top, out[p, oy], count[oy]
            a, b, c = _row(x, p, y, blank), _row(x, p, y + 1, blank), _row(x, p, y + 2, blank)
            for i in range(len(inside)):
                inside[i] = a[i] + b[i] + c[i]
            if stride == 1:
                for i in range(len(result)):
                    result[i] = (row[i] + row[i + 1] + row[i + 2]) / divisor[i]
            else:
                for i in range(len(result)):
                    result[i] = (row[2 * i] + row[2 * i + 1] + row[2 * i + 2]) / divisor[i]


def compile_planes(axes: Any, count: Array | None, lowest: float, reach: int) -> Any:
    """Return (planes, out, space) -> None for two axes of taps; None where none is faster.

    `count [*O]` makes means; `reach` is how far windows reach along the last axis.
    """
    first, last = axes
    windows = [(a.kernel, a.stride, a.dilation) for a in axes]
    least = np.array([lowest], np.float32)
    inside = all(a.begin == 0 and 2 * a.out <= a.size for a in axes)
    if windows == [(2, 2, 1)] * 2 and inside:
        if count is not None:
            return lambda x, out, space: mean_of_2(x, out)
        return lambda x, out, space: max_of_2(x, out, least)
    if windows not in ([(3, 1, 1)] * 2, [(3, 2, 1)] * 2):
        return None
    if first.begin < 0 or last.begin < 0 or last.begin > reach:
        return None
    place = first.stride, first.begin, last.begin
    blank = np.full(max(last.size, 1), 0 if count is not None else lowest, np.float32)

    def row(space: Any) -> Array:
        memory: Array = space.array((reach,), np.float32)
        return memory

    if count is not None:
        full = np.ascontiguousarray(np.broadcast_to(count, [a.out for a in axes]), np.float32)
        return lambda x, out, space: mean_of_3(x, out, row(space), blank, place, full)
    return lambda x, out, space: max_of_3(x, out, row(space), blank, place)
