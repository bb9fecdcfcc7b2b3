"""Col2im, each row of the output written once; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.compiled import ZIPPED, vectors
from irdeconv.kernels.shared.jit import compiled

reach8, copy8, copy1 = vectors.reach8, vectors.copy8, vectors.copy1
zip2, zip3, zip4 = vectors.zip2, vectors.zip3, vectors.zip4
zip6, zip8 = vectors.zip6, vectors.zip8


@compiled
def sum_terms(
    source: Any, out: Any, sums: Any, counts: Any, steps: Any, rows: Any, row: Any, factors: Any
) -> None:
    """Write the outputs of a block, each as the sum of the terms in `source` that reach it.

    `counts` are (images, groups, outputs of a group), `steps` distances of images, groups and
    outputs in `source` (with the first place there) and in `out`. `rows` are, for each output row,
    where its pairs begin and its place in `out`, and for each pair how far away its terms lie.
    `row` is (width, stride), then for each eight outputs of a residue where their entries begin and
    where in `sums` they belong, and the entries. Where `width` is negative, rows do not follow each
    other, and nothing may be written behind one. `factors` are () where `source` holds the terms;
    where it holds inputs, they are what these are multiplied by. See `reach8` in `vectors`.
    """
    images, groups, outputs = counts
    pair_first, pair_to, shifts = rows
    width, stride, first_entry, places, entries = row
    begins = np.arange(stride) * (len(sums) // stride)
    for n in range(images):
        for g in range(groups):
            for c in range(outputs):
                first, to = plane_of(steps, n, g, c)
                end = to + pair_to[-1] + width if width > 0 else 0
                plane = g * outputs + c
                for r in range(len(pair_to)):
                    pairs = pair_first[r], pair_first[r + 1]
                    for v in range(len(places)):
                        span, at = (first_entry[v], first_entry[v + 1]), places[v]
                        reach8(
                            source, first, entries, span, shifts, pairs, sums, at, factors, plane
                        )
                    interleave(sums, 0, begins, out, to + pair_to[r], abs(width), stride, end)


@compiled
def copy_terms(source: Any, out: Any, counts: Any, steps: Any, rows: Any, row: Any) -> None:
    """Do the same where each output is one term.

    `row` is (width, stride), then where each residue begins in an input's row.
    """
    images, groups, outputs = counts
    _, pair_to, shifts = rows
    width, stride, starts = row
    for n in range(images):
        for g in range(groups):
            for c in range(outputs):
                first, to = plane_of(steps, n, g, c)
                end = to + pair_to[-1] + width if width > 0 else 0
                for r in range(len(pair_to)):
                    at, into = first + shifts[r], to + pair_to[r]
                    interleave(source, at, starts, out, into, abs(width), stride, end)


@compiled
def plane_of(steps: Any, n: int, g: int, c: int) -> Any:
    """Return where an output's plane begins in the source, and in the output."""
    first = steps[0] + n * steps[1] + g * steps[2] + c * steps[3]
    return first, n * steps[4] + g * steps[5] + c * steps[6]


@compiled
def interleave(
    source: Any, at: int, begins: Any, out: Any, to: int, width: int, stride: int, end: int
) -> None:
    """Write residues, which begin at `at + begins`, into a row; behind it, what lies before `end`
    may be overwritten.
    """
    if stride == 1:
        a, k = at + begins[0], 0
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
        while stride * k < width and (stride * k + many <= width or to + stride * k + many <= end):
            zipped(source, at + k, begins, out, to + stride * k, stride)
            k += 8
    for f in range(min(stride, width)):
        a = at + begins[f]
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
