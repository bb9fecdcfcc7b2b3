"""Convolution of arrays of any type.

    y[n, m, o] = sum over c, k of x[n, c, o*S + k*D - pads_begin] * w[m, c, k],  0 outside of x

Letters: N batch, C input channels, M output channels, g groups, I, O spatial sizes, K kernel sizes.
The kernels are those of `convolve`; a plan prepares them once, here they are prepared per call.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from irdeconv.kernels.convolution.candidates import convolution_candidates
from irdeconv.kernels.shared.eager import MOST_AXES, evaluate, once
from irdeconv.kernels.shared.exact import convolve_in_order, in_order
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.spec import Array


def convolution(x: Array, w: Array, problem: ConvProblem, out: Array | None = None) -> Array:
    """Convolve `x [N,C,*I]` with `w [M,C/g,*K]` or `[g,M/g,C/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes are fast, more are possible. Pads may be negative (crop), windows may lie
    wholly in the padding. The element type is that of `x`: floats narrower than f32 are summed in
    f32 and rounded once, integers are exact and wrap. `out` may be any array of the result's shape
    and type.
    """
    w = w if w.ndim == problem.rank + 3 else w.reshape(problem.groups, -1, *w.shape[1:])
    return evaluate(x, w, problem, math.prod(w.shape[2:]), _sums, out)


def _sums(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    if in_order():
        convolve_in_order(x, w, problem, out)
    elif problem.rank > MOST_AXES:
        _plane_by_plane(x, w, problem, out)
    else:
        # Winograd's transform of the filter only pays where the filter is used more than once.
        found = convolution_candidates(problem)
        once([c for c in found if "winograd" not in c.name], x, w, out)


def _plane_by_plane(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    """Convolve as sums of convolutions without the first spatial axis."""
    lists = ("kernel", "strides", "dilations", "begin", "sizes")
    inner = {name: getattr(problem, name)[1:] for name in lists}
    rest = replace(problem, shape=(*x.shape[:2], *x.shape[3:]), **inner)
    out[...] = 0
    part = np.empty(rest.out_shape, out.dtype)
    for o in range(out.shape[2]):
        for k in range(w.shape[3]):
            at = o * problem.strides[0] + k * problem.dilations[0] - problem.begin[0]
            if 0 <= at < x.shape[2]:
                _sums(x[:, :, at], w[:, :, :, k], rest, part)
                out[:, :, o] += part
