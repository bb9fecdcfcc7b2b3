"""Transforms of Winograd's tiles, axis by axis; imported only if numba is installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

from irdeconv.kernels import compiled_vectors as vectors
from irdeconv.kernels.jit import RUN, compiled, compiled_for

copy1, copy8 = vectors.copy1, vectors.copy8
copy8_by_2, copy8_by_3, copy8_by_4 = vectors.copy8_by_2, vectors.copy8_by_3, vectors.copy8_by_4
mix1, mix2, mix3 = vectors.mix1, vectors.mix2, vectors.mix3
mix4, mix5, mix6 = vectors.mix4, vectors.mix5, vectors.mix6


@compiled
def mix(
    source: Any, at: Any, count: int, matrix: Any, rows: int, out: Any, to: Any, many: int
) -> None:
    """Multiply `count` runs of `many` elements, in whole vectors, by a matrix of `rows` rows.

    `at` and `to` are the start of the first run and the distance of runs.
    """
    if count == 6:
        mix6(source, at, matrix, rows, out, to, many)
    elif count == 5:
        mix5(source, at, matrix, rows, out, to, many)
    elif count == 4:
        mix4(source, at, matrix, rows, out, to, many)
    elif count == 3:
        mix3(source, at, matrix, rows, out, to, many)
    elif count == 2:
        mix2(source, at, matrix, rows, out, to, many)
    else:
        mix1(source, at, matrix, rows, out, to, many)


@compiled
def transform(
    source: Any, at: Any, shapes: Any, matrices: Any, near: Any, out: Any, to: Any, many: int
) -> None:
    """Apply a matrix per axis to runs of `many` elements, in whole vectors, at most RUN.

    `at` and `to` are the start of the first run and the distance of runs, `shapes` the numbers of
    runs per axis before and behind. All are read before any is written; `near` are two arrays with
    room for the results between the axes.
    """
    (a, b, c), (p, q, r) = shapes
    # Axis by axis takes fewer products than one matrix for whole tiles. The numbers between two
    # axes have RUN columns a run, so that they stay in a near cache however many tiles there are.
    (first, step), (place, far), (one, other) = at, to, near
    if a == p == b == q == 1:
        mix(source, at, c, matrices[2], r, out, to, many)
        return
    if a == p == 1:
        for j in range(c):
            run, into = (first + j * step, c * step), (j * RUN, c * RUN)
            mix(source, run, b, matrices[1], q, other, into, many)
    else:
        for i in range(b * c):
            run, into = (first + i * step, b * c * step), (i * RUN, b * c * RUN)
            mix(source, run, a, matrices[0], p, one, into, many)
        for i in range(p):
            for j in range(c):
                run, into = ((i * b * c + j) * RUN, c * RUN), ((i * q * c + j) * RUN, c * RUN)
                mix(one, run, b, matrices[1], q, other, into, many)
    for i in range(p * q):
        run, into = (i * c * RUN, RUN), (place + i * r * far, far)
        mix(other, run, c, matrices[2], r, out, into, many)


@compiled
def room(shapes: Any) -> int:
    """Return the largest number of elements between two axes."""
    size = RUN
    for axis in range(3):
        size *= max(shapes[0][axis], shapes[1][axis])
    return size


@compiled
def every(x: Any, at: int, step: int, host: Any, to: int) -> None:
    """Copy eight elements, `step` apart; all between them are read, and those behind the last."""
    if step == 4:
        copy8_by_4(x, at, host, to)
    elif step == 3:
        copy8_by_3(x, at, host, to)
    elif step == 2:
        copy8_by_2(x, at, host, to)
    else:
        copy8(x, at, host, to)


@compiled
def gather(x: Any, n: int, c: int, host: Any, far: int, at: int, tiles: Any, grid: Any) -> None:
    """Write an image's channel of `x [images, channels, depth, height, width]` into `host`.

    There elements of a tile are `far` apart, each for all tiles, which begin at the column `at`;
    zeros outside of `x`.
    """
    depth, height, width = x.shape[2:]
    deep, high, wide = tiles
    size = x.itemsize
    line = x.strides[3] // size
    plane = (n * x.strides[0] + c * x.strides[1]) // size
    # Vectors read rows whose elements are neighbours. `behind` counts the elements from a row's
    # first one to the end of its plane, since rows follow each other. All else goes one by one.
    near = x.strides[4] == size and line >= 0
    for i in range(deep):
        for j in range(high):
            for row in range(grid[0] * grid[1]):
                a, b = row // grid[1] * deep + i, row % grid[1] * high + j
                start, behind = plane + a * (x.strides[2] // size) + b * line, 0
                if near and b < height:
                    behind = (height - 1 - b) * line + width
                for k in range(wide):
                    to = ((i * high + j) * wide + k) * far + at + row * grid[2]
                    inside, z = 0, 0
                    if a < depth and b < height:
                        # Of tiles that begin in a row, the last ones may end behind it.
                        inside = min(grid[2], (width - k + wide - 1) // wide)
                    while z + 8 <= inside and k + (z + 8) * wide <= behind:
                        every(x, start + k + z * wide, wide, host, to + z)
                        z += 8
                    while z < inside:
                        if near:
                            copy1(x, start + k + z * wide, host, to + z)
                        else:
                            host[to + z] = x[n, c, a, b, k + z * wide]
                        z += 1
                    while z < grid[2]:
                        host[to + z] = 0
                        z += 1


@cache
def entering(dtype: Any) -> Any:
    """Return `enter`, compiled once for an element type and any layout of `x`."""
    # "A": any strides. Otherwise each layout of an input would be compiled anew.
    kind, number = from_dtype(dtype), types.intp
    flat, three = types.Array(kind, 1, "C"), types.UniTuple(number, 3)
    matrix = types.Array(kind, 2, "C")
    signature = types.void(
        types.Array(kind, 5, "A", readonly=True),
        flat,
        types.Tuple((number, number, number, three)),
        flat,
        three,
        types.UniTuple(three, 2),
        types.UniTuple(matrix, 3),
    )
    return compiled_for(signature)(enter)


def enter(x: Any, host: Any, sizes: Any, values: Any, at: Any, shapes: Any, matrices: Any) -> None:
    """Evaluate the tiles of `x [images, channels, depth, height, width]`.

    `sizes` are (columns, channels that are transformed together, distance of elements in the
    scratch memory `host`, tiles per axis of an image), `at` is the start of the values of the first
    channel, and the distances of channels and points. Columns behind the tiles are zeros.
    """
    size = room(shapes)
    one, other = np.empty(size, x.dtype), np.empty(size, x.dtype)
    (columns, together, far, grid), (first, line, plane) = sizes, at
    each = grid[0] * grid[1] * grid[2]
    # The columns between channels and behind the last tile are transformed as well. Gathering
    # leaves them as they are, so they are cleared once.
    host[:] = 0
    for c in range(0, x.shape[1], together):
        some = min(together, x.shape[1] - c)
        for i in range(some):
            for n in range(len(x)):
                gather(x, n, c + i, host, far, i * line + n * each, shapes[0], grid)
        # Channels of few tiles are transformed as one run, which is longer: see RUN.
        count = (some - 1) * line + columns
        for v in range(0, count, RUN):
            to, many = (first + c * line + v, plane), min(RUN, count - v)
            transform(host, (v, far), shapes, matrices, (one, other), values, to, many)


@compiled
def leave(terms: Any, start: int, sizes: Any, points: Any, matrices: Any) -> None:
    """Interpolate `terms` in place: from `start` on [points, rows, columns].

    `sizes` are (rows, columns, distance of points).
    """
    # In place: `mix` reads all runs before it writes one, and if there are several axes only
    # the last of them writes into `terms`.
    shapes = points, points
    size = room(shapes)
    one, other = np.empty(size, terms.dtype), np.empty(size, terms.dtype)
    rows, width, plane = sizes
    for v in range(0, rows * width, RUN):
        at, many = (start + v, plane), min(RUN, rows * width - v)
        transform(terms, at, shapes, matrices, (one, other), terms, at, many)
