"""Deconvolution by products of every input position with every tap, added where they belong.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin]

One matrix product `[M/g * taps, C/g] @ [C/g, positions]` computes all terms; the filter is used as
it lies in memory. What differs is how the terms are added:

- `single`: inputs of one position, whose terms are the result;
- `merged`: taps that differ by multiples of S meet in the same residue of the output, so all
  residues are summed at once on contiguous planes and each is written once;
- `interleaved`: one input channel per group, wide strides: outer products straight into the rows of
  the result, without a matrix product (there is nothing to sum);
- `scatter`: every tap's plane is added to the output in place, block by block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from irdeconv.kernels.resampling import trailing, window
from irdeconv.spec import Array

SCATTER_BYTES = 1 << 22  # the terms of one block
MERGED_ROWS = 64  # a product with fewer rows wastes the time it takes to pack its other operand


def blocks(sizes: Sequence[int], limit: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split a box into (start, sizes) of at most `limit` positions adjacent when flat."""
    size = list(sizes)
    for a in range(len(size)):
        rest = math.prod(size[a + 1 :])
        size[a] = min(size[a], max(1, limit // rest))
    for start in itertools.product(*(range(0, o, b) for o, b in zip(sizes, size, strict=True))):
        ends = zip(start, size, sizes, strict=True)
        yield start, tuple(min(b, o - s) for s, b, o in ends)


def single(x: Array, w: Array, dilations: Sequence[int], begin: Sequence[int], out: Array) -> None:
    """Deconvolve inputs whose spatial axes have size 1: the filter, scaled and dilated."""
    g, c, m, *kernel = w.shape
    n = x.shape[0]
    terms = np.matmul(x.reshape(n, g, c).swapaxes(0, 1), w.reshape(g, c, -1))
    y = terms.reshape(g, n, m, *kernel).swapaxes(0, 1).reshape(n, g * m, *kernel)
    if any(d != 1 for d in dilations):
        spread = np.zeros(
            (*y.shape[:2], *(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))),
            y.dtype,
        )
        trailing(spread, (slice(None, None, d) for d in dilations))[...] = y
        y = spread
    out[...] = window(y, begin, out.shape[2:])


def fits_merged(x: Array, w: Array) -> bool:
    """Whether enough rows of terms fit a block for `merged` to pay."""
    positions, taps = math.prod(x.shape[2:]), math.prod(w.shape[3:])
    rows = min(MERGED_ROWS, w.shape[2] * taps)
    return bool(max(rows, taps) * positions * x.itemsize <= SCATTER_BYTES)


def merged(x: Array, w: Array, strides: Sequence[int], begin: Sequence[int], out: Array) -> None:
    """Deconvolve with dilation 1, a block of output channels at a time.

    Tap k = q*S + r belongs to residue r, shifted by q positions: with Q = ceil(K/S) shifts per axis
    the sums `[channels, *residues, images, *(I+Q-1)]` need prod(Q) contiguous additions.
    """
    g, c, m, *kernel = w.shape
    n, sizes = x.shape[0], x.shape[2:]
    taps, positions = math.prod(kernel), math.prod(sizes)
    fit = max(1, SCATTER_BYTES // (taps * positions * x.itemsize))
    images = max(1, min(n, fit * taps // max(MERGED_ROWS, taps)))
    channels = max(1, min(m, fit // images))
    planes = x.reshape(n, g, c, positions)
    y = out.reshape(n, g, m, *out.shape[2:])
    filters = w.reshape(g, c, m * taps)
    # Fresh arrays of this size cost more in page faults than the arithmetic on them.
    space = np.empty(channels * taps * images * positions, x.dtype)
    sums: list[Array] = []
    for group, n0 in itertools.product(range(g), range(0, n, images)):
        part = planes[n0 : n0 + images, group]
        b = part.shape[0]
        right = part[0] if b == 1 else part.swapaxes(0, 1).reshape(c, -1)
        for m0 in range(0, m, channels):
            left = filters[group, :, m0 * taps : (m0 + channels) * taps]
            terms = space[: left.shape[1] * right.shape[1]].reshape(left.shape[1], -1)
            np.matmul(left.T, right, out=terms)
            total = _sum_shifts(terms.reshape(-1, *kernel, b, *sizes), kernel, strides, sums)
            target = y[n0 : n0 + b, group, m0 : m0 + channels].swapaxes(0, 1)
            _write_residues(total, strides, begin, target)


def _sum_shifts(
    terms: Array, kernel: Sequence[int], strides: Sequence[int], space: list[Array]
) -> Array:
    """Add terms `[channels, *K, images, *I]` to sums `[channels, *residues, images, *(I+Q-1)]`.

    `space` keeps the sums' memory from call to call.
    """
    rank = len(kernel)
    sizes = terms.shape[rank + 2 :]
    shifts = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    if all(q == 1 for q in shifts):
        return terms
    residues = [min(k, s) for k, s in zip(kernel, strides, strict=True)]
    grown = [i + q - 1 for i, q in zip(sizes, shifts, strict=True)]
    shape = (terms.shape[0], *residues, terms.shape[rank + 1], *grown)
    if not space or space[0].shape != shape:
        space[:] = [np.empty(shape, terms.dtype)]
    sums = space[0]
    sums[...] = 0
    for q in np.ndindex(*shifts):
        axes = list(zip(q, kernel, strides, sizes, strict=True))
        taken = tuple(slice(a * s, min(a * s + s, k)) for a, k, s, _ in axes)
        source = terms[(slice(None), *taken)]
        into = tuple(slice(t.stop - t.start) for t in taken)
        where = tuple(slice(a, a + i) for a, _, _, i in axes)
        view = sums[(slice(None), *into, slice(None), *where)]
        view += source
    return sums


def _write_residues(sums: Array, strides: Sequence[int], begin: Sequence[int], out: Array) -> None:
    """Write every residue's plane to its places in `out [channels, images, *O]`."""
    rank = len(strides)
    residues, grown = sums.shape[1 : rank + 1], sums.shape[rank + 2 :]
    covered = all(
        r == s and b >= 0 and b + o <= s * p
        for r, s, b, o, p in zip(residues, strides, begin, out.shape[2:], grown, strict=True)
    )
    if not covered:
        out[...] = 0
    for r in np.ndindex(*residues):
        pairs = [
            reach(0, p, a - b, s, o)
            for p, a, b, s, o in zip(grown, r, begin, strides, out.shape[2:], strict=True)
        ]
        plane = sums[(slice(None), *r)]
        trailing(out, (q[1] for q in pairs))[...] = trailing(plane, (q[0] for q in pairs))


def interleaved(
    x: Array, w: Array, strides: Sequence[int], begin: Sequence[int], out: Array
) -> None:
    """Deconvolve one input channel per group with dilation 1 and a wide stride along the last axis.

    Position p*S + r of the scatter lies at [p, r] of an array `[M/g, *(I+Q-1, S)]`.
    """
    g, _, m, *kernel = w.shape
    rank, sizes = len(kernel), x.shape[2:]
    shifts = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    grown = [i + q - 1 for i, q in zip(sizes, shifts, strict=True)]
    full = np.empty((m, *itertools.chain(*zip(grown, strides, strict=True))), x.dtype)
    flat = full.reshape(m, *(p * s for p, s in zip(grown, strides, strict=True)))
    lying = tuple(range(1, 2 * rank, 2))  # axes of the data among [m, p, r, p, r, ...]
    standing = tuple(range(2, 2 * rank + 1, 2))
    for image, group in itertools.product(range(x.shape[0]), range(g)):
        full[...] = 0
        data = np.expand_dims(x[image, group], (0, *standing))
        for q in np.ndindex(*shifts):
            taps = [
                slice(a * s, min(a * s + s, k)) for a, s, k in zip(q, strides, kernel, strict=True)
            ]
            factor = np.expand_dims(trailing(w[group, 0], taps), lying)
            where: list[slice] = []
            for a, i, t in zip(q, sizes, taps, strict=True):
                where += [slice(a, a + i), slice(t.stop - t.start)]
            view = trailing(full, where)
            view += data * factor
        out[image, group * m : (group + 1) * m] = window(flat, begin, out.shape[2:])


def reach(start: int, count: int, shift: int, stride: int, size: int) -> tuple[slice, slice]:
    """Return which of the inputs start.. land at s*stride + shift in 0..size, and where."""
    lo = max(start, -(shift // stride))
    hi = min(start + count, (size - 1 - shift) // stride + 1)
    if lo >= hi:
        return slice(0, 0), slice(0, 0)
    first = lo * stride + shift
    return slice(lo - start, hi - start), slice(first, first + (hi - lo - 1) * stride + 1, stride)


def scatter(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    out: Array,
) -> None:
    """Deconvolve block by block of positions, adding every tap's plane to the output in place."""
    g, c, m, *kernel = w.shape
    n, sizes = x.shape[0], x.shape[2:]
    taps = math.prod(kernel)
    left = w.reshape(g, c, m * taps).swapaxes(1, 2)
    planes = x.reshape(n, g, c, -1)
    disjoint = _disjoint(kernel, strides, dilations)
    out[...] = 0
    width = max(1, SCATTER_BYTES // (g * m * taps * x.itemsize))
    images = min(n, max(1, width // math.prod(sizes)))
    target = out.reshape(n, g, m, *out.shape[2:])
    for n0 in range(0, n, images):
        b = min(images, n - n0)
        y = np.moveaxis(target[n0 : n0 + b], 0, 2)
        for start, block in blocks(sizes, width):
            at = int(np.ravel_multi_index(start, sizes))
            part = planes[n0 : n0 + b, :, :, at : at + math.prod(block)]
            right = part[0] if b == 1 else part.transpose(1, 2, 0, 3).reshape(g, c, -1)
            terms = np.matmul(left, right).reshape(g, m, taps, b, *block)
            axes = list(zip(start, block, strides, out.shape[2:], strict=True))
            for t, k in enumerate(np.ndindex(*kernel)):
                shifts = [a * d - p for a, d, p in zip(k, dilations, begin, strict=True)]
                pairs = [
                    reach(s, z, shift, stride, size)
                    for shift, (s, z, stride, size) in zip(shifts, axes, strict=True)
                ]
                source = trailing(terms[:, :, t], (p[0] for p in pairs))
                into = trailing(y, (p[1] for p in pairs))
                if disjoint:
                    into[...] = source
                else:
                    into += source


def _disjoint(kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Whether no two taps ever meet in one output position."""
    rows = zip(kernel, strides, dilations, strict=True)
    return all(len({k * d % s for k in range(z)}) == z for z, s, d in rows)
