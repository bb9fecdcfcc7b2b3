"""The geometry that the deconvolution kernels share, axis by axis: residues of the output.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + begin]

Taps k = r + q*step, with step = S / gcd(S, D), fall onto the same outputs modulo S; they form the
*residue* r and differ by q shifts of D / gcd(S, D) positions. The *grown* plane of a residue,
P_r[u] = sum over q of w[r + q*step] x[u - q*shift], lands at the outputs u*S + r*D - begin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array


@dataclass(frozen=True)
class DeconvAxis:
    """One spatial axis of a deconvolution."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    size: int

    @cached_property
    def step(self) -> int:
        """How far apart the taps of one residue are."""
        return self.stride // math.gcd(self.stride, self.dilation)

    @cached_property
    def shift(self) -> int:
        """How many positions apart neighbouring taps of one residue land."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many taps each residue has; the first has most."""
        return tuple(-(-(self.kernel - r) // self.step) for r in range(min(self.kernel, self.step)))

    @cached_property
    def halo(self) -> int:
        """How far the terms of one input position spread in a grown plane."""
        return (self.counts[0] - 1) * self.shift

    def outputs(self, r: int, lo: int, hi: int) -> tuple[int, int]:
        """Return which grown positions of residue r land in the outputs lo..hi."""
        offset = r * self.dilation - self.begin
        first = max(0, -((offset - lo) // self.stride))
        last = min(
            self.inputs + (self.counts[r] - 1) * self.shift, (hi - 1 - offset) // self.stride + 1
        )
        return first, max(first, last)

    def part(self, lo: int, hi: int) -> OutputSpan:
        """Return what the outputs lo..hi need."""
        spans = [self.outputs(r, lo, hi) for r in range(len(self.counts))]
        some = [s for s in spans if s[0] < s[1]]
        start, stop = min((s[0] for s in some), default=0), max((s[1] for s in some), default=0)
        covered = sum(b - a for a, b in spans) == hi - lo
        first = min(max(0, start - self.halo), self.inputs)
        return OutputSpan(
            axis=self,
            lo=lo,
            hi=hi,
            start=start,
            stop=stop,
            first=first,
            last=max(first, min(self.inputs, stop)),
            covered=covered,
        )

    def kinds(self, height: int) -> list[tuple[OutputSpan, int]]:
        """Return one part of each kind where each is `height` outputs high, and how many there are.

        Between parts that meet an end of the inputs, all are alike.
        """
        steps = range(0, self.size, height)
        low = (self.kernel - 1 + self.step) * self.dilation - self.begin + self.stride
        high = min(self.size, self.inputs * self.stride - self.begin)
        inner = range(max(0, -(-low // height)), min(len(steps), high // height))
        outer = *steps[: inner.start], *steps[max(inner.start, inner.stop) :]
        pairs = [(lo, 1) for lo in outer]
        if inner:
            pairs.append((steps[inner[0]], len(inner)))
        counted: dict[Any, tuple[OutputSpan, int]] = {}
        for lo, times in pairs:
            part = self.part(lo, min(lo + height, self.size))
            counted[part.kind] = part, counted.get(part.kind, (part, 0))[1] + times
        return list(counted.values())


@dataclass(frozen=True)
class OutputSpan:
    """The outputs lo..hi of an axis: they need grown positions start..stop, inputs first..last."""

    axis: DeconvAxis
    lo: int
    hi: int
    start: int
    stop: int
    first: int
    last: int
    covered: bool

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.hi - self.lo

    @cached_property
    def inputs(self) -> int:
        """The number of input positions."""
        return self.last - self.first

    @property
    def kind(self) -> tuple[int, ...]:
        """Its sizes: parts that agree in them cost the same."""
        start, stop = self.start - self.first, self.stop - self.first
        return self.outputs, self.inputs, start, stop, self.covered

    @cached_property
    def extent(self) -> int:
        """The inputs and the zeros behind them, into which shifted reads run."""
        return self.inputs + self.axis.halo

    def reach(self, r: int) -> tuple[slice, slice]:
        """Return which positions of residue r are wanted, counted from `first`, and where."""
        a, b = self.axis.outputs(r, self.lo, self.hi)
        at = a * self.axis.stride + r * self.axis.dilation - self.axis.begin - self.lo
        stop = at + (b - a - 1) * self.axis.stride + 1 if b > a else at
        return slice(a - self.first, b - self.first), slice(at, stop, self.axis.stride)


@lru_cache(maxsize=64)  # every candidate asks
def axes_of(problem: ConvProblem) -> tuple[DeconvAxis, ...]:
    """Return the spatial axes."""
    lists = problem.kernel, problem.strides, problem.dilations, problem.begin, problem.sizes
    return tuple(map(DeconvAxis, problem.shape[2:], *lists))


def residues(axes: Sequence[DeconvAxis]) -> Iterator[tuple[int, ...]]:
    """Enumerate the residues of all axes."""
    return itertools.product(*(range(len(a.counts)) for a in axes))


def group_filters(w: Array, group: int, q: Sequence[int], axes: Sequence[DeconvAxis]) -> Array:
    """Return the taps of all residues at q shifts: `[C/g, M/g, *residues that have such a tap]`."""
    cuts = [slice(i * a.step, (i + 1) * a.step) for i, a in zip(q, axes, strict=True)]
    return trailing(w[group], cuts)


def shifts(axes: Sequence[DeconvAxis]) -> list[tuple[int, ...]]:
    """Enumerate the shifts q of all axes."""
    return list(np.ndindex(*(a.counts[0] for a in axes)))
