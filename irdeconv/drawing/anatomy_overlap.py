"""How many taps reach each output: the overlap map of a kernel, and what it says.

Away from the borders the number depends on the position modulo the stride alone, and on several
axes it is the product. Taps k and k' reach the same residue where D*(k - k') is a multiple of S.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from irdeconv.plural import count

MAPPED_PHASES = 16  # of a larger stride so many are drawn
MAP_CELLS = 6  # a map repeats until it is so wide, to show its pattern
MAP_SLICES = 8  # of three and more axes
TRIED_STRIDES = 4096  # strides that are tried for an even one


@dataclass(frozen=True, kw_only=True)
class OverlapAxis:
    """One axis: which outputs share taps does not depend on its size."""

    kernel: int
    stride: int
    dilation: int
    begin: int

    @property
    def common(self) -> int:
        """The common factor of stride and dilation: so many phases are there per one with taps."""
        return math.gcd(self.stride, self.dilation)

    def taps(self, phase: int) -> range:
        """Return the taps that reach the outputs of a phase: S / gcd(S, D) apart."""
        place = phase + self.begin
        if place % self.common:
            return range(0)
        step = self.stride // self.common
        first = place // self.common * pow(self.dilation // self.common, -1, step) % step
        return range(first, self.kernel, step)

    @property
    def least(self) -> int:
        """The fewest taps of a phase."""
        return 0 if self.common > 1 else self.kernel // self.stride

    @property
    def most(self) -> int:
        """The most taps of a phase."""
        return -(-self.kernel // (self.stride // self.common))

    @property
    def even(self) -> bool:
        """Whether all phases have equally many taps."""
        return self.least == self.most

    @property
    def even_kernels(self) -> list[int]:
        """The multiples of the stride next to the kernel."""
        below = self.kernel // self.stride * self.stride
        return [k for k in (below, below + self.stride) if k]

    @property
    def even_strides(self) -> list[int]:
        """The strides above 1 next to this one with which the kernel would be even."""
        last = min(self.kernel, self.stride + TRIED_STRIDES)
        below = range(self.stride - 1, max(1, self.stride - TRIED_STRIDES), -1)
        found = (next(filter(self._suits, r), None) for r in (below, range(self.stride, last + 1)))
        return [s for s in found if s is not None]

    def _suits(self, stride: int) -> bool:
        return self.kernel % stride == 0 and math.gcd(stride, self.dilation) == 1

    def row(self) -> list[int]:
        """Return the taps of each output along the axis, as far as a map shows it."""
        drawn = min(self.stride, MAPPED_PHASES)
        counts = [len(self.taps(r)) for r in range(drawn)]
        return counts * (1 if drawn < self.stride else max(-(-MAP_CELLS // drawn), 1))


@dataclass(frozen=True)
class OverlapSlice:
    """A map of the last two axes (of a single one: one row) at phases of the axes before."""

    phases: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Overlap:
    """The map of all axes."""

    axes: tuple[OverlapAxis, ...]

    @property
    def least(self) -> int:
        """The fewest taps that reach an output away from the borders."""
        return math.prod(a.least for a in self.axes)

    @property
    def most(self) -> int:
        """The most taps that reach an output."""
        return math.prod(a.most for a in self.axes)

    @property
    def even(self) -> bool:
        """Whether equally many taps reach all outputs away from the borders."""
        return self.least == self.most

    @property
    def slices(self) -> Iterator[OverlapSlice]:
        """Yield the first slices of the map; a part of one where all of it is the same."""
        *lead, last = self.axes[-2:]
        if self.even:
            counts = ((self.most,) * MAP_CELLS,) * (MAP_CELLS if lead else 1)
            yield OverlapSlice((), counts)
            return
        rows = lead[0].row() if lead else [1]
        outer = self.axes[:-2]
        places = product(*(range(min(a.stride, MAPPED_PHASES)) for a in outer))
        for _, phases in zip(range(MAP_SLICES), places, strict=False):
            around = math.prod(len(a.taps(r)) for a, r in zip(outer, phases, strict=True))
            found = tuple(tuple(around * a * b for b in last.row()) for a in rows)
            yield OverlapSlice(phases, found)

    @property
    def left_out(self) -> str | None:
        """What of an uneven map is not drawn, in words."""
        slices = math.prod(a.stride for a in self.axes[:-2])
        parts = [f"{MAP_SLICES} of {slices} slices"] if slices > MAP_SLICES else []
        if any(a.stride > MAPPED_PHASES for a in self.axes):
            parts.append(f"at most {MAPPED_PHASES} phases of an axis")
        return f"drawn: {', '.join(parts)}" if parts and not self.even else None

    def sentences(self) -> list[str]:
        """Return the diagnosis: even or not, by what factor, and what would be even."""
        if self.even:
            taps = count(self.most, "tap")
            return [
                f"Even: {taps} {'reaches' if self.most == 1 else 'reach'} every output away from "
                "the borders, so the kernel alone makes no checkerboard pattern."
            ]
        return [self._uneven(), *self._remedies()]

    def _uneven(self) -> str:
        if self.least:
            factor = f"{self.most / self.least:.3g}".removesuffix(".0")
            return (
                f"Uneven: {self.least} to {count(self.most, 'tap')} reach an output away from the "
                f"borders, {factor} times as many at some places as at others. That is where "
                "checkerboard patterns come from."
            )
        return (
            f"Uneven: up to {count(self.most, 'tap')} reach an output, but some outputs are "
            "reached by none. Those are 0 whatever the input is."
        )

    def _remedies(self) -> Iterator[str]:
        by_axis: dict[OverlapAxis, list[int]] = {}
        for n, axis in enumerate(self.axes):
            if not axis.even:
                key = OverlapAxis(
                    kernel=axis.kernel, stride=axis.stride, dilation=axis.dilation, begin=0
                )
                by_axis.setdefault(key, []).append(n)
        for axis, numbers in by_axis.items():
            named = "Axis" if len(numbers) == 1 else "Axes"
            yield f"{named} {_listed(numbers, 'and')}: {_remedy(axis)}"


def _remedy(axis: OverlapAxis) -> str:
    kernels = _listed(axis.even_kernels, "or")
    strides = axis.even_strides
    other = ""
    if strides:
        other = f" So would stride {_listed(strides, 'or')}, with another output size."
    if axis.common > 1:
        return (
            f"stride {axis.stride} and dilation {axis.dilation} have the factor {axis.common} in "
            f"common, so at most 1 of {axis.common} phases has taps, whatever the kernel is. With "
            f"dilation 1 a kernel of {kernels} would be even.{other}"
        )
    of_stride = f"{'multiples' if len(axis.even_kernels) > 1 else 'a multiple'} of the stride"
    return f"a kernel of {kernels} would be even ({of_stride} {axis.stride}).{other}"


def _listed(numbers: Sequence[int], joint: str) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} {joint} {last}" if first else last
