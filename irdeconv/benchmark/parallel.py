"""Several requests at once: what a machine gets done, and how long each request takes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from irdeconv.benchmark.measure import MOST, Call, Clock, Effort, Quantiles
from irdeconv.kernels.shared.blas import one_blas_thread


@dataclass(frozen=True, kw_only=True)
class ParallelReport:
    """`requests` threads, each with a plan of its own, that began together.

    `seconds` passed from the first beginning to the last end; `latency` is the wall time of a run.
    """

    requests: int
    runs: int
    seconds: float
    latency: Quantiles

    @property
    def throughput(self) -> float:
        """Runs a second, of all requests together."""
        return self.runs / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self) | {"throughput": self.throughput}


@dataclass
class _Request:
    """One thread's runs: beginnings and ends by the wall clock."""

    call: Call
    effort: Effort
    clock: Clock
    quota: int
    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    error: BaseException | None = None

    def work(self, start: threading.Barrier) -> None:
        """Run until time or quota are used up, at least once."""
        try:
            for _ in range(self.effort.warm_up):
                self.call()
            start.wait()
            end = self.clock.wall() + self.effort.time
            for _ in range(self.quota):
                self.begun.append(self.clock.wall())
                self.call()
                self.ended.append(self.clock.wall())
                if self.ended[-1] >= end:
                    break
        except BaseException as e:  # raised again in the caller's thread
            self.error = e
            start.abort()


def in_parallel(
    calls: Sequence[Call], effort: Effort, clock: Clock
) -> tuple[ParallelReport, list[float]]:
    """Run all calls at once, again and again; returns a report and the wall times in seconds.

    What one of them raises is raised here.
    """
    quota = MOST if effort.iterations is None else max(1, effort.iterations // len(calls))
    requests = [_Request(call, effort, clock, quota) for call in calls]
    start = threading.Barrier(len(calls))
    with one_blas_thread():  # not set anew by each run
        threads = [threading.Thread(target=r.work, args=(start,)) for r in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    errors = [r.error for r in requests if r.error is not None]
    if errors:
        raise next(
            (e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0]
        )
    rows = sorted((b, e) for r in requests for b, e in zip(r.begun, r.ended, strict=True))
    seconds = max(e for _, e in rows) - rows[0][0]
    latencies = [e - b for b, e in rows]
    report = ParallelReport(
        requests=len(calls), runs=len(rows), seconds=seconds, latency=Quantiles.of(latencies)
    )
    return report, latencies
