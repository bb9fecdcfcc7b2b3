"""Convolution of arrays of any type.

    y[n, m, o] = sum over c, k of x[n, c, o*S + k*D - pads_begin] * w[m, c, k],  0 outside of x

Letters: N batch, C input channels, M output channels, g groups, I, O spatial sizes, K kernel sizes.
The kernels are those of `convolve`; a plan prepares them once, here they are prepared per call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.convolve import convolution_candidates
from irdeconv.kernels.exact import convolve_in_order, in_order
from irdeconv.kernels.prepared import Windows
from irdeconv.kernels.team import Team
from irdeconv.spec import Array

MOST_AXES = 3  # spatial axes that the kernels know


def output_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> tuple[int, ...]:
    """Return the output size per axis, floor((I + pads - DK) / S) + 1, at least 0."""
    rows = zip(sizes, kernel, strides, dilations, pads, strict=True)
    return tuple(max((i + p - d * (k - 1) - 1) // s + 1, 0) for i, k, s, d, p in rows)


@np.errstate(all="ignore")
def convolution(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    groups: int = 1,
    out: Array | None = None,
) -> Array:
    """Convolve `x [N,C,*I]` with `w [M,C/g,*K]` or `[g,M/g,C/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes are fast, more are possible. Pads may be negative (crop), windows may lie
    wholly in the padding. The element type is that of `x`: floats narrower than f32 are summed in
    f32 and rounded once, integers are exact and wrap. `out` may be any array of the result's shape
    and type.
    """
    rank = x.ndim - 2
    w = w if w.ndim == rank + 3 else w.reshape(groups, -1, *w.shape[1:])
    pads = [b + e for b, e in zip(pads_begin, pads_end, strict=True)]
    sizes = output_sizes(x.shape[2:], w.shape[3:], strides, dilations, pads)
    shape = (x.shape[0], w.shape[0] * w.shape[1], *sizes)
    y = np.empty(shape, x.dtype) if out is None else out
    if 0 in y.shape or 0 in w.shape or 0 in x.shape:
        y[...] = 0
        return y
    dtype = accumulator(x, w, math.prod(w.shape[2:]))
    total = y if dtype == y.dtype and not in_order() else np.empty(shape, dtype)
    (convolve_in_order if in_order() else convolve)(
        x.astype(dtype, copy=False),
        w.astype(dtype, copy=False),
        strides,
        dilations,
        pads_begin,
        total,
    )
    return store(total, y)


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Choose a kernel and write the convolution into `out`; all of one type, nothing empty."""
    if x.ndim > MOST_AXES + 2:
        _plane_by_plane(x, w, strides, dilations, pads_begin, out)
        return
    windows = Windows(
        x.shape,
        out.shape[1],
        w.shape[0],
        tuple(w.shape[3:]),
        tuple(strides),
        tuple(dilations),
        tuple(pads_begin),
        tuple(out.shape[2:]),
        x.dtype.name,
    )
    # Winograd's transform of the filter only pays where the filter is used more than once.
    found = convolution_candidates(windows)
    kernel = next(c for c in found if "winograd" not in c.name).prepare(w)
    y = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    kernel(x, y, None, Team())
    if y is not out:
        out[...] = y


def _plane_by_plane(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Convolve as sums of convolutions without the first spatial axis."""
    rest = (strides[1:], dilations[1:], pads_begin[1:])
    out[...] = 0
    part = np.empty((*out.shape[:2], *out.shape[3:]), out.dtype)
    for o in range(out.shape[2]):
        for k in range(w.shape[3]):
            at = o * strides[0] + k * dilations[0] - pads_begin[0]
            if 0 <= at < x.shape[2]:
                convolve(x[:, :, at], w[:, :, :, k], *rest, part)
                out[:, :, o] += part
