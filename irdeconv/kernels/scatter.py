"""Deconvolution by products of every input position with every tap, added where they belong.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin]

One matrix product `[M/g * taps, C/g] @ [C/g, positions]` computes all terms of a block; the filter
is used as it lies in memory, and every tap's plane is added to the output in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from irdeconv.kernels.resampling import trailing
from irdeconv.spec import Array

SCATTER_BYTES = 1 << 22  # the terms of one block


def blocks(sizes: Sequence[int], limit: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split a box into (start, sizes) of at most `limit` positions adjacent when flat."""
    size = list(sizes)
    for a in range(len(size)):
        rest = math.prod(size[a + 1 :])
        size[a] = min(size[a], max(1, limit // rest))
    for start in itertools.product(*(range(0, o, b) for o, b in zip(sizes, size, strict=True))):
        ends = zip(start, size, sizes, strict=True)
        yield start, tuple(min(b, o - s) for s, b, o in ends)


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
