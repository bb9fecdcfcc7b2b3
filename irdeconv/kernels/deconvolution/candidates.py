"""Which kernels could compute a deconvolution."""

from __future__ import annotations

from irdeconv.kernels.deconvolution import (
    multiples,
    phases,
    placed,
    single,
    terms,
    wide,
    winograd_candidates,
)
from irdeconv.kernels.shared.candidate import Candidate
from irdeconv.kernels.shared.problem import ConvProblem

# Modules whose `candidates(problem)` lists what they have for it, maybe nothing.
DIRECT = (terms, phases, wide, multiples, placed, single)
KERNELS = (*DIRECT, winograd_candidates)


def deconvolution_candidates(problem: ConvProblem, *, direct: bool) -> list[Candidate]:
    """Return the kernels for a deconvolution with something to sum, in no order; at least one.

    `direct`: only those that transform nothing.
    """
    kernels = DIRECT if direct else KERNELS
    return [c for kernel in kernels for c in kernel.candidates(problem)]
