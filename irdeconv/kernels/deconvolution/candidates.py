"""Which kernels could compute a deconvolution, cheapest first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from irdeconv.kernels.convolution.candidates import convolution_candidates
from irdeconv.kernels.deconvolution.multiples import multiples_candidates
from irdeconv.kernels.deconvolution.phases import phases_candidates
from irdeconv.kernels.deconvolution.placed_candidates import placed_candidates
from irdeconv.kernels.deconvolution.separable import separable
from irdeconv.kernels.deconvolution.single import single_candidates
from irdeconv.kernels.deconvolution.terms import terms_candidates
from irdeconv.kernels.deconvolution.wide import wide_candidates
from irdeconv.kernels.deconvolution.winograd_candidates import winograd_candidates
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Kernel, finish
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem, reversed_filter
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

CONVERT = 0.7  # ns per element read or written
CLEARLY = 0.8  # of the cheapest convolution kernel's cost
SAVING = 0.9  # where both transform tiles
UNSEEN = 6000  # ns of small layers that the cost formulas of convolutions leave out


def deconvolution_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a deconvolution of floats, sorted by estimated cost; at least one."""
    return _candidates(problem, direct=False)


def direct_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return those kernels that multiply every input with every tap as the definition does.

    Each sum has the definition's products and no others but zeros; only their order differs.
    """
    return _candidates(problem, direct=True)


def _candidates(problem: ConvProblem, direct: bool) -> list[Candidate]:
    if problem.empty:
        return [Candidate("zeros", 0.0, 0, _no_terms)]
    found = [
        *terms_candidates(problem),
        *phases_candidates(problem),
        *wide_candidates(problem),
        *multiples_candidates(problem),
        *(placed_candidates(problem) if problem.compute.kind == "f" else ()),
        *single_candidates(problem),
    ]
    if all(s == 1 for s in problem.strides):
        found += as_convolution(problem, direct)
    if not direct:
        found = [separable(problem, c) for c in [*found, *winograd_candidates(problem)]]
    if problem.narrow:
        found = [_converting(problem, c) for c in found]
    return sorted(found, key=lambda c: c.cost)


def _converting(problem: ConvProblem, candidate: Candidate) -> Candidate:
    """Add what converting costs, block by block, where floats narrower than f32 are summed in it.

    A kernel gets its filter in the type of sums; it converts what it reads and rounds sums once.
    """
    elements = math.prod(problem.shape) + math.prod(problem.out_shape)

    def prepare(w: Array) -> Kernel:
        return candidate.prepare(w.astype(problem.compute))

    return replace(candidate, cost=candidate.cost + CONVERT * elements, prepare=prepare)


def as_convolution(problem: ConvProblem, direct: bool) -> list[Candidate]:
    """Return the kernels for a deconvolution of stride 1, which is a convolution."""

    def wrap(c: Candidate) -> Candidate:
        def prepare(w: Array) -> Kernel:
            return c.prepare(np.ascontiguousarray(reversed_filter(w)))

        return replace(c, name=f"convolution {c.name}", prepare=prepare, cost=c.cost + UNSEEN)

    found = convolution_candidates(problem.reversed)
    return [wrap(c) for c in found if not (direct and "winograd" in c.name)]


def convolution_kernels(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution of floats or integers, the cheapest first.

    At stride 1 it is a deconvolution with the taps reversed, which reads each input once; those
    kernels are listed where they take clearly less. See `convolve.convolution_candidates`.
    """
    found = convolution_candidates(problem)
    floats = problem.compute.kind == "f" and not problem.narrow
    if not floats or found[0].name == "zero" or any(s != 1 for s in problem.strides):
        return found

    def wrap(c: Candidate) -> Candidate:
        def prepare(w: Array) -> Kernel:
            return c.prepare(np.ascontiguousarray(reversed_filter(w), problem.compute))

        return replace(c, prepare=prepare)

    back = problem.reversed
    limit = CLEARLY * found[0].cost
    others = [c for c in (*placed_candidates(back), *single_candidates(back)) if c.cost < limit]
    if available():  # else those for convolutions are better
        others += [c for c in winograd_candidates(back) if c.cost < SAVING * found[0].cost]
    clearly = [wrap(c) for c in others]
    return sorted([*found, *clearly], key=lambda c: c.cost)


def _no_terms(_: Array) -> Kernel:
    return _zeros


def _zeros(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Fill an output that no input reaches. A Kernel."""
    out[...] = 0
    if out.size:
        finish(out, epilogue, team)
