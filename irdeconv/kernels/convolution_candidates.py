"""Which kernels could compute a convolution, and what each is expected to cost."""

from __future__ import annotations

from irdeconv.kernels import (
    convolution_depthwise as depthwise,
)
from irdeconv.kernels import (
    convolution_direct,
    convolution_im2col,
)
from irdeconv.kernels import (
    convolution_im2col as im2col,
)
from irdeconv.kernels import (
    convolution_im2col as pointwise,
)
from irdeconv.kernels import (
    convolution_rows as interleaved,
)
from irdeconv.kernels import (
    convolution_winograd as winograd,
)
from irdeconv.kernels.candidate import ZERO, Candidate, ConvProblem

# Modules whose `candidates(problem)` lists what they have for it, maybe nothing.
KERNELS = (pointwise, im2col, winograd, depthwise)
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
    # Where `direct` is listed it is as fast as `interleaved`, or faster.
    kernels = KERNELS if compiled else (*KERNELS, interleaved)
    candidates = compiled + [c for kernel in kernels for c in kernel.candidates(problem)]
    candidates += convolution_im2col.decimated_candidates(problem, convolution_candidates)
    return sorted(candidates, key=lambda c: c.cost)
