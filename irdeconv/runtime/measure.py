"""Times by two clocks, in interleaved rounds; the machine's description, load and highest speed.

Times are of calls, of steps of a program and of parallel requests.
"""

from __future__ import annotations

import math
import os
import platform
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from irdeconv import __version__
from irdeconv.base import progress
from irdeconv.base.json_form import NamedLayer, Record
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.kernels.machine import blas_name, installed, one_blas_thread
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Threads, processors
from irdeconv.ops.basic import macs as macs_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import ZeroInsertion, scatter_macs
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.runtime.program import VIEW, Program, Step, Values

Call = Callable[[], Any]
MOST = 100_000  # calls in one round, so that a clock that stands still ends as well
PARTS = 5  # of a measurement, whose medians show how the machine drifts
NORMAL_95 = 1.96  # standard deviations on either side that hold 95 %


@dataclass(frozen=True)
class Clock:
    """Two clocks in seconds: wall time, and the processor time of this process."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time


@dataclass(frozen=True)
class Sample:
    """One call in seconds."""

    wall: float
    cpu: float


class Quantiles(Record):
    """Order statistics in seconds; percentiles are by nearest rank, so each was measured.

    `low` and `high` hold the medians of all fifths of the measurement, so that a machine that
    drifts is less sure.
    """

    minimum: float  # the shortest run
    median: float  # half of the runs took at most this long
    p90: float  # 90 % of the runs took at most this long
    p95: float  # 95 % of the runs
    p99: float  # 99 % of the runs
    maximum: float  # the longest run
    low: float  # lower end of the 95 % interval of the median
    high: float  # upper end of the 95 % interval of the median

    @staticmethod
    def of(seconds: Sequence[float]) -> Quantiles:
        """Summarise one or more times, in the order in which they were measured."""
        ranked = sorted(seconds)
        values = [percentile(ranked, q) for q in (0, 50, 90, 95, 99, 100)]
        values += median_interval(seconds)
        return Quantiles(*values)


@dataclass(frozen=True)
class Timing:
    """How often something ran and how long it took."""

    runs: int  # how many
    wall: Quantiles  # elapsed time
    cpu: Quantiles  # processor time of the process

    @staticmethod
    def of(samples: Sequence[Sample]) -> Timing:
        """Summarise one or more samples."""
        wall, cpu = [s.wall for s in samples], [s.cpu for s in samples]
        return Timing(len(samples), Quantiles.of(wall), Quantiles.of(cpu))


def percentile(ranked: Sequence[float], q: float) -> float:
    """Return the least of the sorted values that at least `q` percent do not exceed."""
    return ranked[max(0, math.ceil(q * len(ranked) / 100) - 1)]


def median_interval(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median with 95 % confidence, drift included.

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

    Both are shared out to `rounds`, in which all things take turns. `requests` come at the end.
    """

    rounds: int = 5  # rounds of measuring
    time: float = 2.5  # requested seconds
    iterations: int | None = None  # requested runs
    warm_up: int = 1  # runs before the first one that counts
    requests: int = 1  # runs in parallel

    @property
    def turns(self) -> list[int | None]:
        """The number of runs in every round at most, None if only the time counts."""
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
    by the call in `warm_up` that has its name.
    """
    before = {**calls, **(warm_up or {})}
    out: dict[str, list[Sample]] = {name: [] for name in calls}
    turns = effort.turns
    seconds = effort.time / len(turns)
    # The measured calls report no progress.
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


BINS = 12
BAR = 48


@dataclass(frozen=True)
class Histogram:
    """How many runs took how long.

    Each bin is wider than the one before by the same factor, since the slowest runs may take many
    times as long as the others; the last bin has its upper edge.
    """

    edges: tuple[float, ...]  # seconds, one more than counts
    counts: tuple[int, ...]  # runs between two edges

    @staticmethod
    def of(seconds: Sequence[float]) -> Histogram:
        """Count one or more times."""
        low, high = min(seconds), max(seconds)
        if low <= 0 or high <= low:
            return Histogram((low, high), (len(seconds),))
        inner = [low * (high / low) ** (i / BINS) for i in range(1, BINS)]
        counts = Counter(bisect_right(inner, value) for value in seconds)
        return Histogram((low, *inner, high), tuple(counts[i] for i in range(BINS)))

    def lines(self) -> list[str]:
        """Return a line of at most 80 characters for every bin."""
        cells = [f"{edge * 1e3:.3f}" for edge in self.edges]
        width, most = max(map(len, cells)), max(self.counts)
        digits = len(str(most))
        return [
            f"{cells[i]:>{width}} - {cells[i + 1]:>{width}} ms {number:>{digits}} "
            f"{'#' * round(BAR * number / most)}".rstrip()
            for i, number in enumerate(self.counts)
        ]


def per_second(amount: float, seconds: float) -> float:
    """Return how much a second, 0 for a time below the clock's resolution."""
    return amount / seconds if seconds > 0 else 0.0


class ParallelReport(Record, keys="... throughput", kw_only=True):
    """Parallel requests, each with its plan."""

    requests: int  # runs in parallel
    runs: int  # of all requests together
    seconds: float  # from the first begin to the last end
    latency: Quantiles  # of a run

    @property
    def throughput(self) -> float:
        """Runs a second, of all requests together."""
        return per_second(self.runs, self.seconds)


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
    """Run all calls at once, repeatedly; return a report and wall times; raises their errors."""
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
        own = (e for e in errors if not isinstance(e, threading.BrokenBarrierError))
        raise next(own, errors[0])
    rows = sorted((b, e) for r in requests for b, e in zip(r.begun, r.ended, strict=True))
    seconds = max(e for _, e in rows) - rows[0][0]
    latencies = [e - b for b, e in rows]
    report = ParallelReport(
        requests=len(calls), runs=len(rows), seconds=seconds, latency=Quantiles.of(latencies)
    )
    return report, latencies


_STEP_KEYS = "index kernel why scratch macs bytes layers timing"


class StepReport(Record, keys=_STEP_KEYS, kw_only=True):
    """One step of a plan.

    `nodes` are the (type, name) of its `layers`, `ids` their ids in the graph that is executed.
    `macs` and `bytes` are None if sizes are unknown before running.
    """

    index: int  # in the plan
    nodes: tuple[tuple[str, str], ...]
    ids: tuple[int, ...] = ()
    kernel: Annotated[str, str | None]  # that computes it
    why: Annotated[str, str | None]  # the reason for this kernel
    scratch: int  # bytes of scratch memory
    macs: int | None  # multiply-accumulates, without those that multiply an inserted zero
    bytes: int | None  # of inputs, outputs and constants, each once
    timing: Timing  # of the step

    @property
    def layer(self) -> str:
        """The name of the layer whose output it computes."""
        return self.nodes[-1][1]

    @property
    def layers(self) -> list[NamedLayer]:
        """The layers that it covers, producers first."""
        return [{"type": type, "name": name} for type, name in self.nodes]

    @property
    def types(self) -> str:
        """The types of all layers that it covers."""
        return ", ".join(type for type, _ in self.nodes)


def products(graph: Graph, step: Step) -> int | None:
    """Return the multiply-accumulates of the layers that a step covers."""
    inserted = next((n for n in step.nodes if isinstance(n.op, ZeroInsertion)), None)
    total = 0
    for node in step.nodes:
        inputs = graph.input_specs(node.id)
        if inserted is not None and isinstance(node.op, ConvolutionBase):
            # N * prod(I) * elements of the filter, as for the deconvolution that was lowered.
            count = scatter_macs(graph.input_specs(inserted.id)[0], inputs[1])
        else:
            count = macs_of(node.op, inputs, node.specs or ())
        if count is None:
            return None
        total += count
    return total


def traffic(graph: Graph, step: Step) -> int | None:
    """Return the bytes that enter and leave a step; inner values and views do not count."""
    if step.kernel == VIEW:
        return 0
    covered = {n.id for n in step.nodes}
    read = dict.fromkeys(v for n in step.nodes for v in graph.inputs_of(n.id))
    moved = [v for v in read if v.node not in covered]
    moved += [Value(step.node.id, port) for port in range(max(step.node.outputs, 1))]
    sizes = [graph.spec(v).nbytes for v in moved]
    known = [s for s in sizes if s is not None]
    return sum(known) if len(known) == len(sizes) else None


@dataclass
class StepTimer:
    """Runs a plan with a clock around each step; `samples` has one list per step."""

    plan: Plan
    inputs: Feeds
    clock: Clock
    samples: list[list[Sample]] = field(default_factory=list)

    def __call__(self) -> dict[str, Any]:
        """Run once and keep the times."""
        now: list[Sample] = []

        def around(step: Step, values: Values) -> None:
            now.append(timed(lambda: step.call(values), self.clock))

        out = self.plan.observe(self.inputs, around)
        if not self.samples:
            self.samples = [[] for _ in now]
        for kept, sample in zip(self.samples, now, strict=True):
            kept.append(sample)
        return out


def report_steps(program: Program, layers: Graph, samples: list[list[Sample]]) -> list[StepReport]:
    """Return one report per step, in the order of execution, with its ids among `layers`."""
    graph = program.graph
    return [
        StepReport(
            index=index,
            nodes=tuple((n.type, n.name) for n in step.nodes),
            ids=tuple(i for n in step.nodes for i in _layers(layers, n)),
            kernel=step.kernel,
            why=step.why,
            scratch=step.scratch,
            macs=products(graph, step),
            bytes=traffic(graph, step),
            timing=Timing.of(measured),
        )
        for index, (step, measured) in enumerate(zip(program.steps, samples, strict=True))
    ]


def _layers(graph: Graph, node: Node) -> tuple[int, ...]:
    """Return the layers that a step's node covers: itself, or those that it was made of."""
    if node.id in graph and graph.node(node.id).name == node.name:
        return (node.id,)
    return tuple(n.id for name in node.origins or (node.name,) for n in graph.find(name))


SIDE = 512  # of the square matrices: 3 MiB of operands, like the blocks of the kernels
CEILING_RUNS = 12
COPIED = 1 << 26  # bytes, more than a cache holds


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions of a measurement besides the program."""

    cpu: str  # processor
    cores: int  # that this process may use
    load: float | None  # load average of the last minute; null if the system has none
    system: str  # operating system
    python: str  # version
    numpy: str  # version
    blas: str  # library and kernel
    numba: str | None  # version; null if it is missing or switched off
    irdeconv: str  # version
    date: str  # when it was measured, in UTC

    @staticmethod
    def now() -> Conditions:
        """Return the conditions of this process at this moment."""
        return Conditions(
            cpu=cpu_name(),
            cores=processors(),
            load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
            system=platform.system(),
            python=platform.python_version(),
            numpy=np.__version__,
            blas=blas_name(),
            numba=None if os.environ.get("IRDECONV_FAST") == "0" else installed("numba"),
            irdeconv=__version__,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The machine's highest speeds: float32 matrix products and copying."""

    gemm: Annotated[float, float | None]  # GFLOP/s of a matrix product, one thread
    # GFLOP/s of all cores together, each multiplying its own matrices
    gemm_all: Annotated[float, float | None]
    copy: Annotated[float, float | None]  # GB/s of a copy, bytes read and bytes written
    cores: int  # of `gemm_all`

    def peak(self, threads: int) -> float:
        """Return the products of that many threads in GF/s: above one, the cores' part of all."""
        return self.gemm if threads == 1 else self.gemm_all * min(1.0, threads / self.cores)


def cpu_name() -> str:
    """Return the processor's name as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    said = os.environ.get("PROCESSOR_IDENTIFIER", "")  # of Windows
    return next(iter(names), "") or said or platform.machine() or "unknown"


def gflops(macs: int, seconds: float) -> float:
    """Return 10^9 operations a second; a multiply-accumulate is two operations."""
    return rate(2 * macs, seconds)


def rate(amount: int, seconds: float) -> float:
    """Return 10^9 units a second, 0 for a time below the clock's resolution."""
    return per_second(amount, seconds) / 1e9


def measure_ceilings(clock: Clock, cores: int | None = None) -> Ceilings:
    """Measure the machine: about a quarter of a second, on a busy one many times that."""
    count = processors() if cores is None else cores
    with one_blas_thread(), progress.stage("measuring the machine"):
        one = _gemm_seconds(clock, 1)
        every = one if count == 1 else _gemm_seconds(clock, count)
        copy = _copy_seconds(clock)
    macs = SIDE**3
    return Ceilings(
        gemm=gflops(macs, one),
        gemm_all=gflops(count * macs, every),
        copy=rate(2 * COPIED, copy),
        cores=count,
    )


def _gemm_seconds(clock: Clock, threads: int) -> float:
    """Return the least time of a product in each thread: of one processor time, else wall time."""
    matrices = [_matrices(i) for i in range(threads)]
    team = Threads(threads)

    def multiply(item: int, space: Space) -> None:
        a, b, out = matrices[item]
        with np.errstate(all="ignore"):
            np.matmul(a, b, out=out)

    def once() -> None:
        team.each(range(threads), multiply)

    once()
    # On a busy machine, all threads rarely get their cores at once.
    runs = CEILING_RUNS if threads == 1 else 4 * CEILING_RUNS
    samples = [timed(once, clock) for _ in range(runs)]
    return min(s.cpu if threads == 1 else s.wall for s in samples)


def _matrices(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    shape = (SIDE, SIDE)
    a, b = (rng.standard_normal(shape, np.float32) for _ in range(2))
    return a, b, np.empty(shape, np.float32)


def _copy_seconds(clock: Clock) -> float:
    source = np.ones(COPIED // 4, np.float32)
    target = np.empty_like(source)

    def once() -> None:
        np.copyto(target, source)

    once()  # the first touch of fresh memory is slow
    return min(timed(once, clock).cpu for _ in range(CEILING_RUNS // 2))
