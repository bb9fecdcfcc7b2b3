"""Times of calls: two clocks, interleaved rounds, order statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv import progress

Call = Callable[[], Any]
MOST = 1000  # calls in one round, so that a clock that stands still ends as well


@dataclass(frozen=True)
class Clock:
    """Two clocks in seconds: the time that passes, and the processor time of this process.

    On a machine that others use as well only the second one says what the work costs.
    """

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time


@dataclass(frozen=True)
class Sample:
    """One call in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Quantiles:
    """Order statistics in seconds; percentiles are by nearest rank, so each was measured."""

    minimum: float
    median: float
    p90: float
    p99: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Quantiles:
        """Summarise one or more times."""
        ranked = sorted(seconds)
        return Quantiles(ranked[0], *(percentile(ranked, q) for q in (50, 90, 99)))


@dataclass(frozen=True)
class Timing:
    """How often something ran and how long it took."""

    runs: int
    wall: Quantiles
    cpu: Quantiles

    @staticmethod
    def of(samples: Sequence[Sample]) -> Timing:
        """Summarise one or more samples."""
        wall, cpu = [s.wall for s in samples], [s.cpu for s in samples]
        return Timing(len(samples), Quantiles.of(wall), Quantiles.of(cpu))


def percentile(ranked: Sequence[float], q: float) -> float:
    """Return the least of the sorted values that at least `q` percent do not exceed."""
    return ranked[max(0, math.ceil(q * len(ranked) / 100) - 1)]


def timed(call: Call, clock: Clock) -> Sample:
    """Call once."""
    wall, cpu = clock.wall(), clock.cpu()
    call()
    return Sample(cpu=clock.cpu() - cpu, wall=clock.wall() - wall)


def interleaved(
    calls: Mapping[str, Call],
    *,
    rounds: int,
    seconds: float,
    clock: Clock,
    warm_up: Mapping[str, Call] | None = None,
) -> dict[str, list[Sample]]:
    """Time each call in every round, for about `seconds` of wall time and at least once.

    All calls meet the same disturbances that way. Before its turn each is warmed up: by itself, or
    by what `warm_up` has under its name.
    """
    before = {**calls, **(warm_up or {})}
    out: dict[str, list[Sample]] = {name: [] for name in calls}
    # What is measured reports nothing.
    with progress.stage("measuring", total=rounds) as step, progress.listening(None):
        for _ in range(rounds):
            for name, call in calls.items():
                before[name]()
                end = clock.wall() + seconds
                for _ in range(MOST):
                    out[name].append(timed(call, clock))
                    if clock.wall() >= end:
                        break
            step()
    return out
