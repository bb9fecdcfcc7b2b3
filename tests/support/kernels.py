"""Every kernel that could compute a layer, also those that compiled ones replace."""

from __future__ import annotations

from collections.abc import Callable

from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.jit import wanted

List = Callable[[ConvProblem], list[Candidate]]


def every_kernel(listed: List, problem: ConvProblem) -> list[Candidate]:
    """Return what is listed with numba, and what is listed without it alone."""
    found = listed(problem)
    names = {c.name for c in found}
    with wanted(compiled=False):
        return found + [c for c in listed(problem) if c.name not in names]
