"""Deconvolution (transposed convolution) without a multiplication by an inserted zero.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin],  0 outside of full

Letters as in `convolution`; C is the input's channels, M the output's. Two kernels: *scatter*
multiplies each input position by all taps and adds every tap's plane into the output; *phases*
computes each residue of the output modulo the stride as a convolution of stride 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.convolution import blocks, convolve
from irdeconv.kernels.resampling import trailing, window
from irdeconv.spec import Array

SCATTER_BYTES = 1 << 22  # the products of one block
NARROW = 16  # a last axis up to this is too short for adds along it


def deconvolution(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    output_size: Sequence[int],
    out: Array | None = None,
) -> Array:
    """Deconvolve `x [N,C,*I]` with `w [g,C/g,M/g,*K]`: `[N,M,*output_size]`.

    1 to 3 spatial axes; any pads_begin, output_size >= 0. The element type is that of `x`: floats
    narrower than f32 are summed in f32 and rounded once, integers are exact and wrap. `out` may be
    any array of the result's shape and type.  [semantics, the canonical form]
    """
    shape = (x.shape[0], w.shape[0] * w.shape[2], *output_size)
    y = np.empty(shape, x.dtype) if out is None else out
    if 0 in y.shape or 0 in w.shape or 0 in x.shape:
        y[...] = 0
        return y
    overlaps = [
        min(k, -(-(d * (k - 1) + 1) // s))
        for k, d, s in zip(w.shape[3:], dilations, strides, strict=True)
    ]
    dtype = accumulator(x, w, w.shape[1] * math.prod(overlaps))
    total = y if dtype == y.dtype else np.empty(shape, dtype)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    if _prefers_phases(x, w, strides, dilations):
        _phases(x, w, strides, dilations, pads_begin, total)
    else:
        _scatter(x, w, strides, dilations, pads_begin, total)
    return store(total, y)


def _prefers_phases(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Compare what the kernels do besides the same multiplications (nanoseconds per element)."""
    _, c, m, *kernel = w.shape
    if all(k <= s for k, s in zip(kernel, strides, strict=True)):
        return False
    taps = math.prod(kernel)
    outputs = math.prod(strides)
    gather, scatter = 0.25 * c * taps + 0.24 * m * outputs, 0.39 * m * taps
    return bool(gather < scatter)


def _scatter(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Multiply blocks of positions by all taps at once, then add each tap's plane in place."""
    g, c, m, *kernel = w.shape
    n, sizes = x.shape[0], x.shape[2:]
    taps = list(np.ndindex(*kernel))
    matrix = np.ascontiguousarray(w.reshape(g, c, m, -1).transpose(0, 3, 2, 1)).reshape(g, -1, c)
    planes = x.reshape(n, g, c, -1)
    disjoint = all(
        len({k * d % s for k in range(z)}) == z
        for z, d, s in zip(kernel, dilations, strides, strict=True)
    )
    out[...] = 0
    positions = math.prod(sizes)
    width = max(1, SCATTER_BYTES // (g * len(taps) * m * x.itemsize))
    images = min(n, max(1, width // positions))
    target = out.reshape(n, g, m, *out.shape[2:])
    for n0 in range(0, n, images):
        b = min(images, n - n0)
        for start, block in blocks(sizes, width):
            at = int(np.ravel_multi_index(start, sizes))
            part = planes[n0 : n0 + b, :, :, at : at + math.prod(block)]
            right = part[0] if b == 1 else part.transpose(1, 2, 0, 3).reshape(g, c, -1)
            z = np.matmul(matrix, right).reshape(g, len(taps), m, b, *block)
            for t, k in enumerate(taps):
                pairs = [
                    _reach(*row)
                    for row in zip(
                        start, block, k, strides, dilations, pads_begin, out.shape[2:], strict=True
                    )
                ]
                source = z[(slice(None), t, slice(None), slice(None), *(p[0] for p in pairs))]
                y = target[(slice(n0, n0 + b), slice(None), slice(None), *(p[1] for p in pairs))]
                y = y.transpose(1, 2, 0, *range(3, y.ndim))
                if disjoint:
                    y[...] = source
                else:
                    y += source


def _reach(
    start: int, count: int, k: int, stride: int, dilation: int, begin: int, size: int
) -> tuple[slice, slice]:
    """Return which of the inputs start.. of one tap land inside the output, and where."""
    shift = k * dilation - begin
    lo = max(start, -(shift // stride))
    hi = max(lo, min(start + count, (size - 1 - shift) // stride + 1))
    if lo == hi:
        return slice(0, 0), slice(0, 0)
    first = lo * stride + shift
    return slice(lo - start, hi - start), slice(first, first + (hi - lo - 1) * stride + 1, stride)


def _phases(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Compute every residue of the output as a convolution of stride 1 over a shared window."""
    plans = [
        [_Phase(*row, r) for r in range(min(row[1], row[4]))]
        for row in zip(w.shape[3:], strides, dilations, pads_begin, out.shape[2:], strict=True)
    ]
    begin = [min((p.begin for p in axis if p.taps), default=0) for axis in plans]
    end = [max((p.end for p in axis if p.taps), default=0) for axis in plans]
    seen = window(x, begin, [e - b for b, e in zip(begin, end, strict=True)])
    for phases in itertools.product(*plans):
        y = trailing(out, (p.outputs for p in phases))
        if not all(p.taps for p in phases):
            y[...] = 0
            continue
        # Correlation reads the taps backwards: the last one meets the earliest input.
        sub = np.ascontiguousarray(trailing(w, (p.taps for p in phases)).swapaxes(1, 2))
        cuts = (slice(p.begin - b, p.end - b) for p, b in zip(phases, begin, strict=True))
        part = trailing(seen, cuts)
        ones = [1] * len(phases)
        convolve(part, sub, ones, [p.dilation for p in phases], [0] * len(phases), y)


class _Phase:
    """One residue along one axis: its taps (last first), input window, dilation and outputs."""

    def __init__(
        self, kernel: int, stride: int, dilation: int, begin: int, size: int, r: int
    ) -> None:
        step = stride // math.gcd(stride, dilation)
        taps = [k for k in range(min(kernel, step)) if (r + begin - k * dilation) % stride == 0]
        every = list(range(taps[0], kernel, step)) if taps else []
        self.taps = slice(every[-1], None, -step) if every else None
        self.outputs = slice(r, None, stride)
        self.dilation = dilation // math.gcd(stride, dilation)
        count = -(-(size - r) // stride)
        if every:
            self.begin = (r + begin - every[-1] * dilation) // stride
            self.end = (r + begin - every[0] * dilation) // stride + count
