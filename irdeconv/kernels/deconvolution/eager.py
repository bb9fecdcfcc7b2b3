"""Deconvolution (transposed convolution) without a multiplication by an inserted zero.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + pads_begin],  0 outside of full

This is the function that takes any sizes and element types; the kernels are those of `deconvolve`,
prepared for one call.
"""

from __future__ import annotations

import math

from irdeconv.kernels.deconvolution.candidates import direct_candidates
from irdeconv.kernels.deconvolution.residues import axes_of
from irdeconv.kernels.shared.eager import evaluate, once
from irdeconv.kernels.shared.exact import deconvolve_in_order, in_order
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.spec import Array


def deconvolution(x: Array, w: Array, problem: ConvProblem, out: Array | None = None) -> Array:
    """Deconvolve `x [N,C,*I]` with `w [g,C/g,M/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes; any pads and output sizes. The element type is that of `x`: floats
    narrower than f32 are summed in f32 and rounded once, integers are exact and wrap. `out` may be
    any array of the result's shape and type.  [semantics, the canonical form]
    """
    taps = math.prod(a.counts[0] if a.counts else 0 for a in axes_of(problem))
    return evaluate(x, w, problem, w.shape[1] * taps, _sums, out)


def _sums(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    if in_order():
        deconvolve_in_order(x, w, problem, out)
    else:
        once(direct_candidates(problem), x, w, out)
