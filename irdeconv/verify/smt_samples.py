"""Sizes and positions that are looked at to list which taps read the same element together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.proof.model import Array
from irdeconv.verify.smt_classes import AxisReadings, EqualityProblem
from irdeconv.verify.smt_terms import SizeTerm

CHOICES = 40  # of all sizes
NEAR = 9  # how far above the least size most of them are
FARTHEST = 80  # the largest of them
MOST_POSITIONS = 512  # of one axis at one choice


@dataclass
class Samples:
    """Choices of all sizes; `given` are added to them, with positions by the variable's name."""

    given: list[Mapping[str, int]] = field(default_factory=list)
    choices: list[Mapping[str, Any]] = field(default_factory=list)

    def prepare(self, problem: EqualityProblem) -> None:
        """Choose sizes at which the source layer is defined."""
        space, rng = problem.space, np.random.default_rng(0)
        self.choices = []
        wanted = CHOICES if space.variables else 1
        for attempt in range(20 * wanted):
            if len(self.choices) == wanted:
                break
            if attempt < len(self.given):
                values = {n: self.given[attempt].get(n, 1) for n in space.variables}
            else:
                top = FARTHEST if attempt % 8 == 7 else NEAR
                values = {n: _choice(v, rng, top) for n, v in space.variables.items()}
            full = space.complete(values)
            if all(c.value(full) for c in space.assumed):
                self.choices.append(full)

    def hits(self, axis: AxisReadings) -> list[tuple[bool, ...]]:
        """Return which taps read the same element together; also none at all."""
        found = {(False,) * len(axis.taps)}
        for sizes in self.choices:
            q = self._positions(axis, sizes)
            values = {**sizes, axis.variable: q}
            size = int(axis.inputs.value(sizes))
            if not q.size or not axis.taps:
                continue
            columns = []
            for tap in axis.taps:
                place = np.broadcast_to(tap.place.value(values), q.shape)
                here = (place >= 0) & (place < size)
                for c in tap.conditions:
                    here = here & c.value(values)
                columns.append(np.where(here, place, -1))
            places = np.stack(columns, -1)
            for one in places.T:
                read = one >= 0
                together = places[read] == one[read, None]
                found |= {tuple(h) for h in np.unique(together, axis=0).tolist()}
        return sorted(found)

    def active(self, axis: AxisReadings) -> list[tuple[bool, ...]]:
        """Return which numbers are added together."""
        found = set()
        for sizes in self.choices:
            q = self._positions(axis, sizes)
            values = {**sizes, axis.variable: q}
            columns = [np.ones(q.shape, bool) for _ in axis.constants]
            for column, conditions in zip(columns, axis.constants, strict=True):
                for c in conditions:
                    column &= c.value(values)
            if q.size:
                together = np.unique(np.stack(columns, -1), axis=0)
                found |= {tuple(h) for h in together.tolist()}
        return sorted(found)

    def _positions(self, axis: AxisReadings, sizes: Mapping[str, Any]) -> Array:
        """Return values of the axis' variable that give positions of the output."""
        size = int(axis.size.value(sizes))
        shift = int(axis.shift.value(sizes))
        first = -((axis.rest - shift) // axis.period)
        count = max(-((axis.rest - shift - size) // axis.period) - first, 0)
        if count <= MOST_POSITIONS:
            chosen: Array = np.arange(count)
        else:
            ends = np.arange(MOST_POSITIONS // 2)
            chosen = np.concatenate([ends, count - 1 - ends])
        more = [s[axis.variable] - first for s in self.given if axis.variable in s]
        extra = [v for v in more if 0 <= v < count]
        return first + np.unique(np.concatenate([chosen, np.array(extra, np.int64)]))


def _choice(size: SizeTerm, rng: np.random.Generator, top: int) -> int:
    low, high = size.bounds
    least = -2 if low is None else low
    most = least + top if high is None else min(high, least + top)
    if top == FARTHEST and high is not None and rng.random() < 0.5:
        return max(high - int(rng.integers(0, 3)), least)
    return int(rng.integers(least, most + 1))
