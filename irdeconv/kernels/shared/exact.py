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
from irdeconv.kernels.shared.windows import WindowAxis
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

Slices = tuple[slice, ...]
Tap = tuple[tuple[int, ...], Slices, Slices]
"""A tap, per axis the outputs that it belongs to, and the inputs that it reads for them."""

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
    axes = problem.axes(problem.shape[2:], problem.sizes)
    _accumulate(x, w.swapaxes(1, 2), out, _taps(axes))


def deconvolve_in_order(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    """Write the deconvolution of `x [N,C,*I]` with `w [g,C/g,M/g,*K]` into `out`, all of one type.

    It is a convolution with inputs and outputs exchanged. Along an axis a higher tap reads a lower
    input position, so the taps descend.
    """
    axes = problem.axes(problem.sizes, problem.shape[2:])
    taps = [(k, inputs, outputs) for k, outputs, inputs in _taps(axes)]
    _accumulate(x, w, out, taps[::-1])


def _taps(axes: Sequence[WindowAxis]) -> list[Tap]:
    taps = []
    for k in np.ndindex(*(a.kernel for a in axes)):
        reaches = [a.reach(t) for a, t in zip(axes, k, strict=True)]
        taps.append((k, tuple(o for o, _ in reaches), tuple(i for _, i in reaches)))
    return taps


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
        for k, outputs, inputs in taps:
            terms = trailing(data[:, :, c, None], inputs)
            factor = trailing(w[:, c], k).reshape(1, g, m, *ones)
            view = trailing(total, outputs)
            view += terms * factor
