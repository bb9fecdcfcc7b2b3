"""Times of calls: two clocks, interleaved rounds, order statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from irdeconv import progress

Call = Callable[[], Any]
MOST = 100_000  # calls in one round, so that a clock that stands still ends as well
PARTS = 5  # of a measurement, whose medians show how the machine drifts
NORMAL_95 = 1.96  # standard deviations on either side that hold 95 %


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
    """Order statistics in seconds; percentiles are by nearest rank, so each was measured.

    `low` and `high` bound the median with 95 % confidence, and hold the medians of all fifths of
    the measurement, so that a machine that drifts is less sure.
    """

    minimum: float
    median: float
    p90: float
    p95: float
    p99: float
    maximum: float
    low: float
    high: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Quantiles:
        """Summarise one or more times, in the order in which they were measured."""
        ranked = sorted(seconds)
        low, high = median_interval(seconds)
        return Quantiles(
            minimum=ranked[0],
            median=percentile(ranked, 50),
            p90=percentile(ranked, 90),
            p95=percentile(ranked, 95),
            p99=percentile(ranked, 99),
            maximum=ranked[-1],
            low=low,
            high=high,
        )


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


def median_interval(seconds: Sequence[float]) -> tuple[float, float]:
    """Return between which times the median lies with 95 % confidence, drift included.

    The ranks are those between which a binomial number of n halves lies with 95 %.
    """
    ranked, n = sorted(seconds), len(seconds)
    spread = NORMAL_95 * math.sqrt(n)
    low, high = math.floor((n - spread) / 2), math.ceil((n + spread) / 2)
    ends = [ranked[max(low - 1, 0)], ranked[min(high, n - 1)]]
    if n >= 2 * PARTS:
        cuts = [n * part // PARTS for part in range(PARTS + 1)]
        parts = (sorted(seconds[a:b]) for a, b in pairwise(cuts))
        ends += [percentile(part, 50) for part in parts]
    return min(ends), max(ends)


@dataclass(frozen=True)
class Effort:
    """How much is measured: of each thing `time` seconds, or `iterations` runs if that is less.

    Both are shared out to `rounds`, in which all things take turns. `warm_up` runs of each come
    before the first one that counts; `requests` run in parallel at the end.
    """

    rounds: int = 5
    time: float = 2.5
    iterations: int | None = None
    warm_up: int = 1
    requests: int = 1

    @property
    def turns(self) -> list[int | None]:
        """The number of runs in every round at most, None where only the time counts."""
        if self.iterations is None:
            return [None] * self.rounds
        rounds = min(self.rounds, self.iterations)
        cuts = [self.iterations * i // rounds for i in range(rounds + 1)]
        return [b - a for a, b in pairwise(cuts)]


def timed(call: Call, clock: Clock) -> Sample:
    """Call once."""
    wall, cpu = clock.wall(), clock.cpu()
    call()
    return Sample(cpu=clock.cpu() - cpu, wall=clock.wall() - wall)


def interleaved(
    calls: Mapping[str, Call],
    effort: Effort,
    *,
    clock: Clock,
    warm_up: Mapping[str, Call] | None = None,
) -> dict[str, list[Sample]]:
    """Time each call in every round, for its part of the time and at least once.

    All calls meet the same disturbances that way. Before its turn each is warmed up: by itself, or
    by what `warm_up` has under its name.
    """
    before = {**calls, **(warm_up or {})}
    out: dict[str, list[Sample]] = {name: [] for name in calls}
    turns = effort.turns
    seconds = effort.time / len(turns)
    # What is measured reports nothing.
    with progress.stage("measuring", total=len(turns)) as step, progress.listening(None):
        for number, most in enumerate(turns):
            for name, call in calls.items():
                for _ in range(1 if number else effort.warm_up):
                    before[name]()
                end = clock.wall() + seconds
                for _ in range(most or MOST):
                    out[name].append(timed(call, clock))
                    if clock.wall() >= end:
                        break
            step()
    return out
