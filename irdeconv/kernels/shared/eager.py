"""What the convolution and the deconvolution of any arrays share: element types, empty arrays.

Kernels are prepared for a single call; a plan prepares them once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from irdeconv.kernels.shared.arithmetic import accumulator, store
from irdeconv.kernels.shared.candidate import Candidate
from irdeconv.kernels.shared.exact import in_order
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

MOST_AXES = 3  # spatial axes that the kernels know

Sums = Callable[[Array, Array, ConvProblem, Array], None]
"""Writes the sums of `(x, w, problem)` into a contiguous output; all of one type, nothing empty."""


class _Local(threading.local):
    """A team per thread: scratch memory that stays mapped from call to call."""

    def __init__(self) -> None:
        self.team = Team()


_LOCAL = _Local()


def once(candidates: Sequence[Candidate], x: Array, w: Array, out: Array) -> None:
    """Prepare the first kernel and run it."""
    _LOCAL.team.begin()
    candidates[0].prepare(w)(x, out, None, _LOCAL.team)


@np.errstate(all="ignore")
def evaluate(
    x: Array, w: Array, problem: ConvProblem, terms: int, sums: Sums, out: Array | None
) -> Array:
    """Return `[N, M, *O]` in the element type of `x`, zero where nothing can be summed.

    `terms` bounds how many products meet in an output. Integers are exact and wrap.
    """
    y = np.empty(problem.out_shape, x.dtype) if out is None else out
    if 0 in y.shape or 0 in w.shape or 0 in x.shape:
        y[...] = 0
        return y
    # Kernels sum narrow floats in f32 themselves, tile by tile.
    itself = x.dtype.kind not in "iub" and problem.rank <= MOST_AXES and not in_order()
    dtype = x.dtype if itself else accumulator(x, w, terms)
    total = y if dtype == y.dtype and y.flags.c_contiguous else np.empty(y.shape, dtype)
    typed = replace(problem, dtype=dtype.name)
    sums(x.astype(dtype, copy=False), w.astype(dtype, copy=False), typed, total)
    return store(total, y)
