"""Dilated convolution of stride 1 as dense ones of every D-th position.

Taps that lie D apart only bring together inputs and outputs that are equal modulo D. Each residue
is a convolution without dilation on a smaller map, for which there are faster kernels; it is
computed into scratch memory and written to its places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import ITEMS, pieces
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Kernel, finish
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import call_cost
from irdeconv.kernels.shared.rates import relative
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Alone, Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class ResidueConv:
    """One residue: where its inputs and outputs lie, and its convolution without dilation."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    problem: ConvProblem


def _residues(problem: ConvProblem, factors: tuple[int, ...]) -> list[ResidueConv]:
    """Split into residues modulo `factors`, which divide dilations of axes of stride 1."""
    residues = []
    for e in itertools.product(*(range(f) for f in factors)):
        # y[e + f*t] = sum over k of x[e - begin + f*(t + k*D/f)] * w[k]
        places = [i - b for i, b in zip(e, problem.begin, strict=True)]
        first = [p % f for p, f in zip(places, factors, strict=True)]
        shape = (
            -(-(i - r) // f) for i, r, f in zip(problem.shape[2:], first, factors, strict=True)
        )
        sizes = (-(-(o - i) // f) for o, i, f in zip(problem.sizes, e, factors, strict=True))
        dense = replace(
            problem,
            shape=(*problem.shape[:2], *(max(0, i) for i in shape)),
            sizes=tuple(max(0, o) for o in sizes),
            dilations=tuple(d // f for d, f in zip(problem.dilations, factors, strict=True)),
            begin=tuple(-(p // f) for p, f in zip(places, factors, strict=True)),
        )
        inputs = (..., *(slice(r, None, f) for r, f in zip(first, factors, strict=True)))
        outputs = (..., *(slice(i, None, f) for i, f in zip(e, factors, strict=True)))
        residues.append(ResidueConv(inputs, outputs, dense))
    return residues


class Decimated:
    """The kernel: one for each residue."""

    def __init__(self, residues: list[ResidueConv], kernels: list[Kernel]) -> None:
        self.pairs = list(zip(residues, kernels, strict=True))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        early = None if epilogue is None or epilogue.positional else epilogue

        def compute(pair: tuple[ResidueConv, Kernel], team: Team) -> None:
            residue, kernel = pair
            sums = team.space.array(residue.problem.out_shape, out.dtype)
            kernel(x[residue.inputs], sums, early, team)
            _copy(sums, out[residue.outputs], team)

        if len(self.pairs) >= ITEMS:  # else threads share the work of one after the other
            team.each(self.pairs, lambda pair, space: compute(pair, Alone(space)))
        else:
            used = team.space.used
            for pair in self.pairs:
                team.space.release(used)
                compute(pair, team)
        if early is None:
            finish(out, epilogue, team)


def _copy(source: Array, into: Array, team: Team) -> None:
    def work(item: tuple[int, slice], _: Space) -> None:
        into[item] = source[item]

    least = blocking.SIZES.decimated_elements // max(1, source[0, 0].size)
    step = max(1, -(-source.shape[1] // 8), least)
    team.each(list(itertools.product(range(len(source)), pieces(source.shape[1], step))), work)


def candidates(
    problem: ConvProblem, list_kernels: Callable[[ConvProblem], list[Candidate]]
) -> list[Candidate]:
    """Return the kernel where it applies; `list_kernels` lists those for the residues."""
    rows = list(zip(problem.strides, problem.dilations, problem.kernel, strict=True))
    factors = tuple(d if s == 1 and k > 1 else 1 for s, d, k in rows)
    if all(f == 1 for f in factors) or np.dtype(problem.dtype).itemsize < 4:
        return []
    residues = _residues(problem, factors)
    best = [list_kernels(r.problem)[0] for r in residues]
    elements = sum(r.problem.positions for r in residues) * problem.shape[1]
    written = math.prod(problem.out_shape)
    cost = sum(c.cost + 12 * call_cost() for c in best)
    cost += 0.5 * relative().copy * elements + 0.8 * relative().strided * written
    different = {r.problem: c for r, c in zip(residues, best, strict=True)}
    scratch = sum(c.scratch for c in different.values())
    # Its results, and its inputs where the kernel wants them to be neighbours.
    scratch += problem.itemsize * max(
        math.prod(w.out_shape) + math.prod(w.shape) for w in different
    )

    def prepare(w: Array) -> Kernel:
        kernels = {key: c.prepare(w) for key, c in different.items()}
        return Decimated(residues, [kernels[r.problem] for r in residues])

    transforms, spreads = (any(getattr(c, f) for c in best) for f in ("transforms", "spreads"))
    items = len(residues) if len(residues) >= ITEMS else min(c.items for c in best)
    return [
        Candidate(
            name=f"decimated {best[0].name}",
            cost=cost,
            scratch=scratch,
            prepare=prepare,
            items=items,
            transforms=transforms,
            spreads=spreads,
        )
    ]
