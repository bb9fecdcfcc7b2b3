"""Which kernels could compute a convolution or a deconvolution: at stride 1 each is the other."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from irdeconv.kernels.convolution.candidates import MOST_AXES, convolution_candidates
from irdeconv.kernels.deconvolution import direct as residues
from irdeconv.kernels.deconvolution import multiples, phases, single, terms, wide
from irdeconv.kernels.deconvolution import placed_candidates as placed
from irdeconv.kernels.deconvolution import winograd_candidates as winograd
from irdeconv.kernels.deconvolution.separable import separable
from irdeconv.kernels.shared.candidate import ZERO, Candidate, Kernel
from irdeconv.kernels.shared.divided import divided
from irdeconv.kernels.shared.jit import available
from irdeconv.kernels.shared.problem import ConvProblem, reversed_filter
from irdeconv.kernels.shared.rates import relative
from irdeconv.spec import Array

# They list what they have for a deconvolution, maybe nothing; these transform nothing.
DIRECT = tuple(kernel.candidates for kernel in (terms, phases, multiples, placed, single))
# Kernels of NumPy that `residues` replace where these are listed: they are as fast or faster. Only
# outputs that are so far apart are moved faster by `wide`.
REPLACED = (terms.padded_candidates, wide.candidates)
FAR_APART = 16
# Kernels of convolutions and of deconvolutions were measured apart: the part of the cost of the
# one that the other may take at most, and the same where both transform tiles.
OTHER_WAY = 0.8
OTHER_WAY_TILES = 0.9
CONVERT = 0.7  # ns per element read or written
UNSEEN = 6000  # ns of small layers that the cost formulas of convolutions leave out


def for_convolution(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution of floats or integers, the cheapest first.

    Those of deconvolutions are listed where they take clearly less.
    """
    found = _of_convolution(problem)
    return sorted(divided(problem, found, _of_convolution, 1), key=lambda c: c.cost)


def _of_convolution(problem: ConvProblem) -> list[Candidate]:
    candidates = convolution_candidates(problem)
    if not problem.empty and problem.compute.kind == "f" and not problem.narrow:
        least = candidates[0].cost
        candidates += [
            c
            for c in as_deconvolution(problem, least)
            if c.cost < (OTHER_WAY_TILES if c.transforms else OTHER_WAY) * least
        ]
    return candidates


def as_deconvolution(problem: ConvProblem, limit: float = math.inf) -> list[Candidate]:
    """Return kernels that compute a convolution of stride 1 as the deconvolution that it is.

    They read each input once. Those are left out that clearly take more than `limit` nanoseconds.
    """
    if any(s != 1 for s in problem.strides):
        return []

    back = problem.reversed
    found = placed.candidates(back, limit) + single.candidates(back)
    if available():  # else those for convolutions are better
        found += winograd.candidates(back, limit)
    return [_turned(c, back) for c in found]


def _turned(candidate: Candidate, back: ConvProblem) -> Candidate:
    """Give a candidate for the problem `back`, which is reversed, the filter that it expects."""

    def turn(cut: Candidate) -> Candidate:
        def prepare(w: Array) -> Kernel:
            return cut.prepare(np.ascontiguousarray(reversed_filter(w), back.compute))

        return replace(cut, prepare=prepare)

    return candidate.changed(turn)


def for_deconvolution(problem: ConvProblem, *, direct: bool = False) -> list[Candidate]:
    """Return the kernels for a deconvolution of floats, the cheapest first; at least one.

    `direct`: only those that multiply every input with every tap as the definition does. Each sum
    has the definition's products and no others but zeros; only their order differs.
    """
    list_kernels = partial(_of_deconvolution, direct=direct)
    found = divided(problem, list_kernels(problem), list_kernels, 2)
    return sorted(found, key=lambda c: c.cost)


def _of_deconvolution(problem: ConvProblem, direct: bool) -> list[Candidate]:
    if problem.empty:
        return [ZERO]
    candidates = residues.candidates(problem)
    listing = DIRECT if candidates else (*DIRECT, *REPLACED)
    if candidates and problem.strides[-1] >= FAR_APART:
        listing = (*DIRECT, wide.candidates)
    if not direct:
        listing = (*listing, winograd.candidates)
    candidates += [c for kernels in listing for c in kernels(problem)]
    candidates += as_convolution(problem)
    if direct:
        candidates = [c for c in candidates if not (c.transforms or c.spreads)]
    else:
        candidates = [c.changed(partial(separable, problem)) for c in candidates]
    if problem.compute.kind == "f":
        alone = terms.candidates(problem)[0]
        candidates = [c.changed(partial(_with_finite_filters, alone)) for c in candidates]
    if problem.narrow:
        candidates = [c.changed(partial(_converting, problem)) for c in candidates]
    return candidates


def _with_finite_filters(alone: Candidate, candidate: Candidate) -> Candidate:
    """Leave filters with infinities or NaN to a kernel that multiplies what the definition does.

    The others multiply zeros around the inputs as well, which is NaN then.
    """

    def prepare(w: Array) -> Kernel:
        return (candidate if np.isfinite(w).all() else alone).prepare(w)

    return replace(candidate, prepare=prepare)


def as_convolution(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a deconvolution of stride 1, which is a convolution."""
    if problem.rank > MOST_AXES or any(s != 1 for s in problem.strides):
        return []

    back, unseen = problem.reversed, UNSEEN * relative().call

    def named(c: Candidate) -> Candidate:
        return replace(c, name=f"convolution {c.name}", cost=c.cost + unseen)

    return [_turned(c, back).changed(named) for c in convolution_candidates(back)]


def _converting(problem: ConvProblem, candidate: Candidate) -> Candidate:
    """Add what converting costs, block by block, where floats narrower than f32 are summed in it.

    A kernel gets its filter in the type of sums; it converts what it reads and rounds sums once.
    """
    elements = math.prod(problem.shape) + math.prod(problem.out_shape)

    def prepare(w: Array) -> Kernel:
        return candidate.prepare(w.astype(problem.compute))

    return replace(
        candidate, cost=candidate.cost + CONVERT * relative().copy * elements, prepare=prepare
    )
