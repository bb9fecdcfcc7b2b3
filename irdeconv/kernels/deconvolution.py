"""Deconvolution (transposed convolution) without a multiplication by an inserted zero.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin],  0 outside of full

Letters as in `convolution`; C is the input's channels, M the output's. Two families of kernels:
those of `scatter` multiply each input position by all taps and add the terms where they belong;
*phases* computes each residue of the output modulo the stride as a convolution of stride 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.convolution import convolve
from irdeconv.kernels.exact import deconvolve_in_order, in_order
from irdeconv.kernels.resampling import trailing, window
from irdeconv.kernels.scatter import fits_merged, interleaved, merged, scatter, single
from irdeconv.spec import Array

WIDE_STRIDE = 16  # from here on a row of one tap per residue is worth an addition along it


@np.errstate(all="ignore")
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
    total = y if dtype == y.dtype and not in_order() else np.empty(shape, dtype)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    compute = deconvolve_in_order if in_order() else deconvolve
    compute(x, w, strides, dilations, pads_begin, total)
    return store(total, y)


def deconvolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Choose a kernel and write the deconvolution into `out`; all of one type, nothing empty."""
    if all(i == 1 for i in x.shape[2:]):
        single(x, w, dilations, pads_begin, out)
    elif w.shape[1] == 1 and strides[-1] >= WIDE_STRIDE and all(d == 1 for d in dilations):
        interleaved(x, w, strides, pads_begin, out)
    elif _prefers_phases(x, w, strides, dilations):
        _phases(x, w, strides, dilations, pads_begin, out)
    elif all(d == 1 for d in dilations) and fits_merged(x, w):
        merged(x, w, strides, pads_begin, out)
    else:
        scatter(x, w, strides, dilations, pads_begin, out)


def _prefers_phases(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Compare what the kernels do besides the same multiplications, in nanoseconds."""
    _, c, m, *kernel = w.shape
    if all(k <= s for k, s in zip(kernel, strides, strict=True)):
        return False
    if c == 1:
        return True
    taps, residues = math.prod(kernel), math.prod(strides)
    flat = all(d == 1 for d in dilations) and fits_merged(x, w)
    positions = x.shape[0] * math.prod(x.shape[2:])
    adds = 0.40 * m * taps + 0.24 * m * residues if flat else 0.60 * m * taps
    gather = 0.25 * c * taps + 0.39 * m * residues
    # The phases' filters are copied in another order, with large strides.
    return bool(positions * gather + 2.5 * c * m * taps < positions * adds)


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
