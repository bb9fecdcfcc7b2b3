"""The kernels that could compute a convolution, with their estimated costs."""

from __future__ import annotations

from irdeconv.kernels import (
    convolution_depthwise,
    convolution_direct,
    convolution_im2col,
    convolution_rows,
    convolution_winograd,
)
from irdeconv.kernels.candidate import ZERO, Candidate, ConvProblem

# Each lists its kernels for a problem, perhaps none.
KERNELS = (
    convolution_im2col.pointwise_candidates,
    convolution_im2col.candidates,
    convolution_winograd.candidates,
    convolution_depthwise.candidates,
)
MOST_AXES = 3  # spatial axes that they know


def convolution_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution, the cheapest first; at least one.

    1 to 3 spatial axes, any pads. Element types are floats, or integers of 32 and 64 bits, which
    wrap. The filter given to `prepare` is `[g, M/g, C/g, *K]`. An output without anything to sum is
    zero.
    """
    if problem.empty:
        return [ZERO]
    compiled = convolution_direct.candidates(problem)
    # If `direct` is listed it is as fast as `interleaved`, or faster.
    listing = KERNELS if compiled else (*KERNELS, convolution_rows.candidates)
    candidates = compiled + [c for kernels in listing for c in kernels(problem)]
    candidates += convolution_im2col.decimated_candidates(problem, convolution_candidates)
    return sorted(candidates, key=lambda c: c.cost)
