"""Deconvolution's sums, each output row visited once; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.kernels.compiled import ZIPPED, vectors
from irdeconv.kernels.shared.jit import compiled

reach8, spread8, copy8 = vectors.reach8, vectors.spread8, vectors.copy8
copy1, zip2, zip3 = vectors.copy1, vectors.zip2, vectors.zip3
zip4, zip6, zip8 = vectors.zip4, vectors.zip6, vectors.zip8


@compiled
def place(source: Any, out: Any, sums: Any, counts: Any, steps: Any, rows: Any, row: Any) -> None:
    """Write the outputs of a block, each as the sum of the terms in `source` that reach it.

    `counts` are (images, groups, outputs of a group), `steps` distances of images, groups and
    outputs in `source` (with the first place there) and in `out`. `rows` are, for each output row,
    where its pairs begin and its place in `out`, and for each pair how far away its terms lie.
    `row` is (width, stride), then for each eight outputs of a residue where their entries begin and
    where in `sums` they belong, and the entries; see `vectors.reach8`. Where `width` is negative,
    rows do not follow each other, and nothing may be written behind one.
    """
    images, groups, outputs = counts
    pair_first, pair_to, shifts = rows
    wide, stride, first_entry, places, entries = row
    begins = np.arange(stride) * (len(sums) // stride)
    for n in range(images):
        for g in range(groups):
            for c in range(outputs):
                first = steps[0] + n * steps[1] + g * steps[2] + c * steps[3]
                to = n * steps[4] + g * steps[5] + c * steps[6]
                end = to + pair_to[-1] + wide if wide > 0 else 0
                for r in range(len(pair_to)):
                    pairs = pair_first[r], pair_first[r + 1]
                    for v in range(len(places)):
                        some = first_entry[v], first_entry[v + 1]
                        reach8(source, first, entries, some, shifts, pairs, sums, places[v])
                    interleave(sums, 0, begins, out, to + pair_to[r], abs(wide), stride, end)


@compiled
def place_single(
    source: Any, out: Any, counts: Any, steps: Any, rows: Any, wide: int, stride: int, starts: Any
) -> None:
    """Do the same where each output is one term: residues begin at `starts` in an input's row."""
    images, groups, outputs = counts
    _, pair_to, shifts = rows
    width = abs(wide)
    for n in range(images):
        for g in range(groups):
            for c in range(outputs):
                first = steps[0] + n * steps[1] + g * steps[2] + c * steps[3]
                to = n * steps[4] + g * steps[5] + c * steps[6]
                end = to + pair_to[-1] + wide if wide > 0 else 0
                for r in range(len(pair_to)):
                    interleave(
                        source, first + shifts[r], starts, out, to + pair_to[r], width, stride, end
                    )


@compiled
def spread(
    source: Any,
    out: Any,
    sums: Any,
    counts: Any,
    steps: Any,
    rows: Any,
    row: Any,
    w: Any,
    taps: Any,
    inputs: Any,
) -> None:
    """Do the same with sums of `source` times the filter `w`.

    `taps` are those of entries and of pairs, `inputs` are (number of input channels of a group,
    their distance in `source`, and in `w`).
    """
    images, groups, outputs = counts
    pair_first, pair_to, shifts = rows
    wide, stride, first_entry, places, entries = row
    begins = np.arange(stride) * (len(sums) // stride)
    count, far, filter_far = inputs
    for n in range(images):
        for g in range(groups):
            for c in range(outputs):
                first = steps[0] + n * steps[1] + g * steps[2] + c * steps[3]
                to = n * steps[4] + g * steps[5] + c * steps[6]
                end = to + pair_to[-1] + wide if wide > 0 else 0
                channels = count, far, (g * outputs + c) * count * filter_far, filter_far
                for r in range(len(pair_to)):
                    pairs = pair_first[r], pair_first[r + 1]
                    for v in range(len(places)):
                        some, at = (first_entry[v], first_entry[v + 1]), places[v]
                        spread8(
                            source, first, entries, some, shifts, pairs, sums, at, taps, w, channels
                        )
                    interleave(sums, 0, begins, out, to + pair_to[r], abs(wide), stride, end)


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
