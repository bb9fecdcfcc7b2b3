"""Deconvolution (transposed convolution) without a multiplication by an inserted zero.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin],  0 outside of full

This is the function that takes any sizes and element types; the kernels are those of `deconvolve`,
prepared for one call.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.deconvolve import direct_candidates
from irdeconv.kernels.exact import deconvolve_in_order, in_order
from irdeconv.kernels.prepared import Windows
from irdeconv.kernels.residues import axes_of
from irdeconv.kernels.team import Team
from irdeconv.spec import Array


class _Local(threading.local):
    """A team per thread: scratch memory that stays mapped from call to call."""

    def __init__(self) -> None:
        self.team = Team()


_LOCAL = _Local()


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
    windows = Windows(
        x.shape,
        shape[1],
        w.shape[0],
        w.shape[3:],
        _ints(strides),
        _ints(dilations),
        _ints(pads_begin),
        _ints(output_size),
    )
    terms = w.shape[1] * int(np.prod([a.counts[0] for a in axes_of(windows)]))
    dtype = accumulator(x, w, terms)
    ready = dtype == y.dtype and y.flags.c_contiguous
    total = y if ready and not in_order() else np.empty(shape, dtype)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    if in_order():
        deconvolve_in_order(x, w, strides, dilations, pads_begin, total)
    else:
        _deconvolve(x, w, windows, total)
    return store(total, y)


def _ints(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _deconvolve(x: Array, w: Array, windows: Windows, out: Array) -> None:
    """Write the deconvolution into a contiguous `out`; all of one type, nothing empty."""
    typed = replace(windows, dtype=out.dtype.name)
    _LOCAL.team.begin()
    direct_candidates(typed)[0].prepare(w)(x, out, None, _LOCAL.team)
