"""Sums of products in one defined order, so that equal layers give equal bits.

Every output starts at +0 and takes its terms one by one: first by input channel, then by input
position (the first axis is the outermost), both ascending. For a convolution that is the ascending
order of its taps, for a deconvolution the descending one. Each term is rounded, then added; floats
narrower than f32 are summed in f32 and rounded once at the end.

With finite data a term of an inserted or padded zero is +0 or -0, and a sum that started at +0 is
never -0, so such a term changes nothing. Hence the definition, zero-insertion, phases, stacked and
gemm agree to the bit. Integers always do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

Tap = tuple[tuple[int, ...], list[tuple[slice, slice]]]
"""A tap and, per axis, the inputs it reads and the outputs they belong to."""

_IN_ORDER: ContextVar[bool] = ContextVar("irdeconv_in_order", default=False)


def in_order() -> bool:
    """Whether convolutions and deconvolutions have to keep the defined order."""
    return _IN_ORDER.get()


@contextmanager
def accumulate_in_order(wanted: bool = True) -> Iterator[None]:
    """Let all convolutions and deconvolutions inside keep the defined order."""
    token = _IN_ORDER.set(wanted)
    try:
        yield
    finally:
        _IN_ORDER.reset(token)


def convolve_in_order(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    """Write the convolution of `x [N,C,*I]` with `w [g,M/g,C/g,*K]` into `out`, all of one type.

    A tap outside the data contributes no term, as a zero would.
    """
    taps = [
        (k, [_reads(i, s, t, o) for i, s, t, o in _rows(problem, k)])
        for k in np.ndindex(*problem.kernel)
    ]
    _accumulate(x, w.swapaxes(1, 2), out, taps)


def deconvolve_in_order(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    """Write the deconvolution of `x [N,C,*I]` with `w [g,C/g,M/g,*K]` into `out`, all of one type.

    Along an axis a higher tap reads a lower input position, so the taps descend.
    """
    taps = [
        (k, [_reads(o, s, t, i)[::-1] for i, s, t, o in _rows(problem, k)])
        for k in np.ndindex(*problem.kernel)
    ]
    _accumulate(x, w, out, taps[::-1])


def _rows(problem: ConvProblem, tap: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Yield per axis (input size, stride, shift of the tap, output size)."""
    places = zip(tap, problem.dilations, problem.begin, strict=True)
    shifts = (k * d - p for k, d, p in places)
    return zip(problem.shape[2:], problem.strides, shifts, problem.sizes, strict=True)


def _reads(size: int, stride: int, shift: int, outputs: int) -> tuple[slice, slice]:
    """Return (inputs, outputs) of a tap: output o reads o*stride + shift where 0 <= that < size.

    A deconvolution is the same with inputs and outputs exchanged.
    """
    lo = max(0, -(shift // stride))
    hi = min(outputs, (size - 1 - shift) // stride + 1)
    if lo >= hi:
        return slice(0, 0), slice(0, 0)
    first = lo * stride + shift
    return slice(first, first + (hi - lo - 1) * stride + 1, stride), slice(lo, hi)


def _accumulate(x: Array, w: Array, out: Array, taps: Sequence[Tap]) -> None:
    """Add every tap's products of a filter `[g,C/g,M/g,*K]` to contiguous `out`, by channel.

    Channels are the outer order, so `taps` is walked once for each of them.
    """
    g, channels, m = w.shape[:3]
    out[...] = 0
    data = x.reshape(x.shape[0], g, channels, *x.shape[2:])
    total = out.reshape(out.shape[0], g, m, *out.shape[2:])
    ones = (1,) * (x.ndim - 2)
    for c in range(channels):
        for k, pairs in taps:
            terms = trailing(data[:, :, c, None], (p[0] for p in pairs))
            factor = trailing(w[:, c], k).reshape(1, g, m, *ones)
            view = trailing(total, (p[1] for p in pairs))
            view += terms * factor
