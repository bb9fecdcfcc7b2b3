"""Measure a plan: the network as a whole, each of its steps, other runtimes beside it.

The report is text or JSON, and is compared with a saved one by ratios of medians with intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypedDict

from irdeconv.base import progress
from irdeconv.base.errors import count, misused
from irdeconv.base.json_form import Real, Record
from irdeconv.base.markup import html_text, line
from irdeconv.base.opening import read_json
from irdeconv.base.tables import WIDTH, scaled, table, wrap
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.kernels.threads import processors
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.measure import (
    SIDE,
    Call,
    Ceilings,
    Clock,
    Conditions,
    Effort,
    Histogram,
    ParallelReport,
    Quantiles,
    Sample,
    StepReport,
    StepTimer,
    Timing,
    gflops,
    in_parallel,
    interleaved,
    measure_ceilings,
    per_second,
    rate,
    report_steps,
)
from irdeconv.runtime.peers import Peer, difference, require_peer
from irdeconv.runtime.plan import Plan
from irdeconv.runtime.program import Program

SUFFIX = ".json"
# Times are comparable only if these are equal.
MACHINE = ("cpu", "cores", "system", "python", "numpy", "blas", "numba")


@dataclass(frozen=True)
class Interval95:
    """A median in seconds, and the bounds between which it lies with 95 % confidence."""

    median: float
    low: float
    high: float


class Ratio(Record, keys="... verdict"):
    """How many times as long as before something takes.

    The bounds are those of a ratio of independent medians: squares of the logarithms add up.
    """

    before: float  # the saved time in seconds
    now: float  # the new time in seconds
    ratio: float  # now divided by before
    low: float  # lower end of its 95 % interval
    high: float  # upper end of its 95 % interval

    @staticmethod
    def of(before: Interval95, now: Interval95) -> Ratio | None:
        """Compare two medians; None if one is below the clock's resolution."""
        if min(before.low, now.low) <= 0:
            return None
        ratio = now.median / before.median
        down = math.hypot(math.log(now.median / now.low), math.log(before.high / before.median))
        up = math.hypot(math.log(now.high / now.median), math.log(before.median / before.low))
        return Ratio(
            before.median, now.median, ratio, ratio * math.exp(-down), ratio * math.exp(up)
        )

    @property
    def verdict(self) -> str:
        """The result: "slower", "faster", or "same" if the interval contains 1."""
        return "slower" if self.low > 1 else "faster" if self.high < 1 else "same"


class StepRatio(Record, keys="layer *ratio"):
    """One step before and now."""

    layer: str  # its last layer
    ratio: Ratio


class BaselineReport(Record, keys="name date network steps=changes unlike", kw_only=True):
    """A saved report beside the present one."""

    name: str  # of the file
    date: Annotated[str, str | None]  # when it was saved
    network: Ratio | None  # of the whole model; null if the clock is too coarse
    steps: tuple[tuple[str, Ratio], ...]
    unlike: tuple[str, ...]  # differences of the machine and of the model's execution

    def slower_by(self, percent: float) -> bool:
        """Whether the network surely takes that much longer: the whole interval is above it."""
        return self.network is not None and self.network.low > 1 + percent / 100

    @property
    def changes(self) -> list[StepRatio]:
        """The steps that both reports have."""
        return [StepRatio(name, ratio) for name, ratio in self.steps]


@dataclass(frozen=True)
class SavedReport:
    """The JSON of an earlier report, checked for the entries that a comparison needs."""

    name: str
    content: Mapping[str, Any]

    @staticmethod
    def read(path: Path) -> SavedReport:
        """Read a file; FileAccessError if it is unreadable, UsageError if it is no report."""
        try:
            content = read_json(path)
        except ValueError as e:
            raise misused(f"{path}: not JSON: {e}", _HINT) from None
        saved = SavedReport(str(path), content if isinstance(content, dict) else {})
        schema = BenchReport.json_schema
        if saved.content.get("schema") != schema:
            raise misused(f'{path}: no report of bench: "schema" is not "{schema}"', _HINT)
        try:
            _ = saved.network("cpu"), dict(saved.steps("cpu")), saved.date, saved.conditions
            _ = saved.network("wall"), dict(saved.steps("wall"))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as e:
            raise misused(f"{path}: no report of bench: {type(e).__name__}: {e}", _HINT) from None
        return saved

    @property
    def conditions(self) -> dict[str, str]:
        """The machine, and how the model was executed, as texts."""
        machine = {k: str(self.content["conditions"][k]) for k in MACHINE}
        how = {k: str(self.content[k]) for k in ("threads", "form", "fused")}
        return machine | how

    @property
    def date(self) -> str:
        """When it was measured."""
        return str(self.content["conditions"]["date"])

    def network(self, clock: str) -> Interval95:
        """Return the median of whole runs by one of the clocks."""
        return _interval(self.content["network"][clock])

    def steps(self, clock: str) -> Iterator[tuple[str, Interval95]]:
        """Yield the medians of the steps by the name of their last layer."""
        for step in self.content["steps"]:
            yield str(step["layers"][-1]["name"]), _interval(step["timing"][clock])


_HINT = "irdeconv bench --save FILE.json writes one"


def _interval(found: Mapping[str, Any]) -> Interval95:
    values = [float(found[k]) for k in ("median", "low", "high")]
    if not all(0 <= v < math.inf for v in values) or not values[1] <= values[0] <= values[2]:
        raise ValueError(f"median, low and high are {values}")
    return Interval95(*values)


def sorted_out(names: Sequence[str | PathLike[str]]) -> tuple[list[str], list[SavedReport]]:
    """Return which names are those of peers, and the saved reports that the others name."""
    texts = [str(name) for name in names]
    peers = [text for text in texts if not text.endswith(SUFFIX)]
    return peers, [SavedReport.read(Path(text)) for text in texts if text.endswith(SUFFIX)]


def against(saved: SavedReport, report: Mapping[str, Any]) -> BaselineReport:
    """Compare the JSON of a report with a saved one: by processor time if both have one thread."""
    now = SavedReport("now", report)
    threads = {saved.conditions["threads"], now.conditions["threads"]}
    clock = "cpu" if threads == {"1"} else "wall"
    before, steps = dict(saved.steps(clock)), []
    for name, median in now.steps(clock):
        ratio = Ratio.of(before[name], median) if name in before else None
        if ratio is not None:
            steps.append((name, ratio))
    pairs = ((k, saved.conditions[k], v) for k, v in now.conditions.items())
    return BaselineReport(
        name=saved.name,
        date=saved.date,
        network=Ratio.of(saved.network(clock), now.network(clock)),
        steps=tuple(steps),
        unlike=tuple(f"{k}: {old} then, {new} now" for k, old, new in pairs if old != new),
    )


TOP = 20
TIMES = ("runs", "minimum ms", "median", "p90", "p95", "p99", "max")


@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """The memory of a run in bytes."""

    tensors: int  # the block of all tensors, which lives as long as the plan
    most_alive: int  # the most of the block that is in use at once
    evaluated: int  # the most that operations without a place in the block allocate in a run
    scratch: int  # the largest estimate of a step
    scratch_used: int  # all scratch memory
    outputs: int  # the arrays that the caller gets


@dataclass(frozen=True, kw_only=True)
class PeerReport:
    """Another runtime on the same inputs, one thread."""

    name: str  # of the runtime
    version: Annotated[str, str | None]  # of the runtime
    timing: Timing | None = None  # of the model; null if it cannot run the model
    ratio: float | None = None  # our shortest processor time over its; below 1, irdeconv is faster
    # largest difference of the outputs, relative to its largest output value
    difference: Annotated[float | None, Real] = None
    problem: str | None = None  # why it cannot run the model


class StepFigures(TypedDict):
    """A step's share and rates; null if sizes are unknown."""

    share: float  # of the time of all steps
    gflops: float | None  # GFLOP/s
    of_peak: float | None  # share of the machine's GFLOP/s
    gbytes: float | None  # GB/s
    of_copy: float | None  # share of the machine's GB/s


class MeasuredStep(Record, keys="*step *figures"):
    """One step of the plan, with its share and rates."""

    step: StepReport
    figures: StepFigures


_BENCH_KEYS = """file? seed? name form fused threads *effort clock conditions ceilings network
throughput parallel histogram steps=measured memory peers baselines"""


class BenchReport(Record, document="bench/1", keys=_BENCH_KEYS, kw_only=True, repr=False):
    """The measurements; `str()` is a table.

    Shares and rates come from the shortest time: processor time with one thread, wall time with
    more. `source` is the model, `executed` the graph that its plan runs.
    """

    name: str  # of the model
    form: str | None  # into which deconvolutions were lowered
    fused: bool  # whether layers share steps
    threads: int  # of one run
    effort: Effort
    conditions: Conditions  # the machine
    ceilings: Ceilings  # the machine's best rates
    network: Timing  # of the whole model
    histogram: Histogram  # of the runs' wall times; with several requests, of those in `parallel`
    throughput: float  # runs per second
    steps: tuple[StepReport, ...]
    memory: MemoryReport  # of a run
    parallel: ParallelReport | None = None  # several requests at once
    peers: tuple[PeerReport, ...] = ()  # other runtimes, measured in the same rounds
    baselines: tuple[BaselineReport, ...] = ()  # comparisons with saved reports
    file: str | None = None  # the model, as the command names it
    seed: int | None = None  # of random inputs
    source: Graph | None = field(default=None, compare=False)
    executed: Graph | None = field(default=None, compare=False)

    @property
    def clock(self) -> str:
        """The clock that shares and rates come from: cpu or wall."""
        return "cpu" if self.threads == 1 else "wall"

    def time(self, timing: Timing) -> float:
        """Return the shortest time by that clock in seconds."""
        return (timing.cpu if self.clock == "cpu" else timing.wall).minimum

    @property
    def total(self) -> float:
        """The sum of all steps' times in seconds."""
        return sum(self.time(s.timing) for s in self.steps)

    @property
    def slowest(self) -> list[StepReport]:
        """The steps, the slowest first."""
        return sorted(self.steps, key=lambda s: (-self.time(s.timing), s.index))

    @property
    def measured(self) -> list[MeasuredStep]:
        """The steps of the plan, the slowest first."""
        return [MeasuredStep(s, self.figures(s)) for s in self.slowest]

    def figures(self, step: StepReport) -> StepFigures:
        """Return a step's share of all steps, GF/s and GB/s, and these relative to the machine's.

        None if sizes are unknown. GF/s is also None if a step multiplies nothing, GB/s if it
        moves nothing.
        """
        seconds = self.time(step.timing)
        speed = gflops(step.macs, seconds) if step.macs else None
        moved = rate(step.bytes, seconds) if step.bytes else None
        peak, copy = self.ceilings.peak(self.threads), self.ceilings.copy
        return {
            "share": seconds / self.total if self.total else 0.0,
            "gflops": speed,
            "of_peak": speed / peak if speed is not None and peak else None,
            "gbytes": moved,
            "of_copy": moved / copy if moved is not None and copy else None,
        }

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        least = f"{self.time(self.network) * 1e3:.3f} ms at least"
        form = f"form {self.form or 'none'}"
        steps = count(len(self.steps), "step")
        return line(self, self.name, least, steps, form, count(self.threads, "thread"))

    def _repr_html_(self) -> str:
        return html_text(self.to_text())

    def beside(self, saved: Sequence[SavedReport]) -> BenchReport:
        """Return the report with comparisons with saved ones."""
        document = self.to_dict()
        return replace(self, baselines=tuple(against(one, document) for one in saved))

    def to_text(self, *, top: int = TOP, histogram: bool = False, width: int = WIDTH) -> str:
        """Return conditions, the network, the `top` slowest steps, memory and peers as tables.

        With `histogram` also how often a run took how long; comparisons come last. Lines have at
        most `width` columns.
        """
        parts = [wrap(self._conditions(), width), self._network(width)]
        if histogram:
            parts.append("\n".join(self.histogram.lines()))
        parts += [self._steps(top, width), wrap(self._memory(), width)]
        if self.peers:
            parts.append(self._peers(width))
        parts += [self._against(b, top, width) for b in self.baselines]
        return "\n\n".join(parts)

    def _conditions(self) -> str:
        c, limits = self.conditions, self.ceilings
        load = "" if c.load is None else f", load {c.load:g}"
        every = f", {limits.gemm_all:.1f} on {limits.cores}" if limits.cores > 1 else ""
        executed = "fused" if self.fused else "node by node"
        effort = self.effort
        most = "" if effort.iterations is None else f", at most {count(effort.iterations, 'run')}"
        rounds = f"{effort.time:g} s in {count(effort.rounds, 'round')}{most}"
        return (
            f"{c.cpu}, {count(c.cores, 'core')}{load}; {c.date}\n"
            f"irdeconv {c.irdeconv}, Python {c.python} on {c.system}, NumPy {c.numpy}, "
            f"BLAS {c.blas}, numba {c.numba or 'none'}\n"
            f"SGEMM {SIDE} cubed {limits.gemm:.1f} GF/s on one thread{every}; "
            f"copying {limits.copy:.1f} GB/s\n"
            f"{self.name}: form {self.form or 'none'}, {executed}, "
            f"{count(self.threads, 'thread')}, {rounds}"
        )

    def _network(self, width: int) -> str:
        network = self.network
        clocks = (("processor time", network.cpu), ("wall time", network.wall))
        rows = [(clock, str(network.runs), *_milliseconds(times)) for clock, times in clocks]
        shown = table(("network", *TIMES), rows, TIMES, width=width)
        if self.parallel is None:
            return f"{shown}\nthroughput: {self.throughput:.1f} runs/s, one after the other"
        p = self.parallel
        row = (f"{p.requests} requests", str(p.runs), *_milliseconds(p.latency))
        together = f"throughput: {p.throughput:.1f} runs/s in {p.requests} requests at once"
        requests = table(("wall time", *TIMES), [row], TIMES, width=width)
        return f"{shown}\n\n{requests}\n{together}"

    def _steps(self, top: int, width: int) -> str:
        right = ("ms", "share", "GF/s", "of peak", "GB/s", "of copy", "scratch")
        head = ("step", "layer", "types", *right, "kernel", "why")
        rows = []
        for step in self.slowest[:top]:
            f = self.figures(step)
            cells = (
                f"{self.time(step.timing) * 1e3:.3f}",
                _percent(f["share"]),
                _digits(f["gflops"]),
                _percent(f["of_peak"]),
                _digits(f["gbytes"]),
                _percent(f["of_copy"]),
                scaled(step.scratch, "B") if step.scratch else "",
            )
            rows.append((str(step.index), step.layer, step.types, *cells, step.kernel, step.why))
        what = "processor" if self.clock == "cpu" else "wall"
        shown = f"{len(rows)} slowest of {count(len(self.steps), 'step')}"
        title = f"{shown}, shortest {what} time, {self.total * 1e3:.3f} ms in all"
        return f"{wrap(title, width)}\n{table(head, rows, ('step', *right), width=width)}"

    def _memory(self) -> str:
        m = self.memory
        return (
            f"memory: tensors {scaled(m.tensors, 'B')} (in use at once "
            f"{scaled(m.most_alive, 'B')}), allocated while running "
            f"{scaled(m.evaluated, 'B')}, scratch {scaled(m.scratch_used, 'B')} (estimate of the "
            f"largest step {scaled(m.scratch, 'B')}), outputs {scaled(m.outputs, 'B')}"
        )

    def _against(self, saved: BaselineReport, top: int, width: int) -> str:
        head = ("median", "before ms", "now", "ratio", "95 %", "")
        rows = [] if saved.network is None else [_ratio("network", saved.network)]
        changed = [(name, r) for name, r in saved.steps if r.verdict != "same"]
        changed.sort(key=lambda pair: -abs(pair[1].now - pair[1].before))
        rows += [_ratio(name, r) for name, r in changed[:top]]
        title = f"against {saved.name} of {saved.date}"
        shown = table(head, rows, head[1:4], width=width)
        notes = []
        if len(changed) < len(saved.steps):
            notes.append(f"{count(len(saved.steps) - len(changed), 'step')} the same")
        notes += [f"not the same: {text}" for text in saved.unlike]
        return "\n".join([wrap(title, width), shown, *(wrap(note, width) for note in notes)])

    def _peers(self, width: int) -> str:
        head = (*TIMES, "irdeconv / peer", "difference")
        rows, problems = [], []
        for p in self.peers:
            if p.timing is None or p.difference is None:
                problems.append(f"{p.name} {p.version} cannot run it: {p.problem}")
                continue
            ratio = "" if p.ratio is None else f"{p.ratio:.2f}"
            gap = f"{p.difference:.1e}" if math.isfinite(p.difference) else "not comparable"
            times = _milliseconds(p.timing.cpu)
            rows.append((f"{p.name} {p.version}", str(p.timing.runs), *times, ratio, gap))
        text = [table(("peer, one thread", *head), rows, head, width=width)] if rows else []
        return "\n".join([*text, *(wrap(problem, width) for problem in problems)])


def _ratio(name: str, r: Ratio) -> tuple[str, ...]:
    times = (f"{v * 1e3:.3f}" for v in (r.before, r.now))
    return (name, *times, f"{r.ratio:.2f}", f"{r.low:.2f} to {r.high:.2f}", r.verdict)


def _milliseconds(times: Quantiles) -> tuple[str, ...]:
    values = (times.minimum, times.median, times.p90, times.p95, times.p99, times.maximum)
    return tuple(f"{v * 1e3:.3f}" for v in values)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


OWN, STEPS = "irdeconv", "steps"
MOST_SECONDS, MOST_REQUESTS = 86_400, 256


def bench(
    plans: Sequence[Plan],
    inputs: Feeds,
    effort: Effort,
    *,
    form: str | None,
    peers: Sequence[Peer] = (),
    clock: Clock | None = None,
    ceilings: Ceilings | None = None,
) -> BenchReport:
    """Time a plan in interleaved rounds, beside the peers that can run the model.

    Each round runs the network, the network with a clock around each step, and every peer. In the
    end all `plans` of that network run at once. `ceilings` are measured unless they are given.
    Raises UsageError for a bad number, and as `Plan.run` does.
    """
    require_measurable(effort, peers=(), threads=1)
    clock, plan = clock or Clock(), plans[0]
    outputs = plan.run(inputs)  # failures come with names of layers here
    conditions, ceilings = Conditions.now(), ceilings or measure_ceilings(clock)
    calls = _calls(plan, inputs, timer := StepTimer(plan, inputs, clock), peers)
    samples = interleaved(calls, effort, clock=clock, warm_up={STEPS: calls[OWN]})
    network, program = Timing.of(samples[OWN]), plan.program(inputs)
    parallel, latencies = _parallel(plans, inputs, effort, clock, samples[OWN])
    return BenchReport(
        name=plan.graph.info.name,
        form=form,
        fused=plan.settings.fuse and not plan.exact,
        threads=plan.settings.team.threads,
        effort=effort,
        conditions=conditions,
        ceilings=ceilings,
        network=network,
        histogram=Histogram.of(latencies),
        parallel=parallel,
        throughput=parallel.throughput if parallel else per_second(len(latencies), sum(latencies)),
        steps=tuple(report_steps(program, plan.graph, timer.samples)),
        memory=_memory(program, outputs),
        peers=tuple(_compared(p, outputs, network, samples.get(p.name)) for p in peers),
    )


def _parallel(
    plans: Sequence[Plan], inputs: Feeds, effort: Effort, clock: Clock, alone: Sequence[Sample]
) -> tuple[ParallelReport | None, list[float]]:
    """Run several plans at once and return their wall times; of one plan those of `alone`."""
    if len(plans) == 1:
        return None, [sample.wall for sample in alone]
    with progress.stage(f"measuring {len(plans)} requests"), progress.listening(None):
        return in_parallel([_run(p, inputs) for p in plans], effort, clock)


def _run(plan: Plan, inputs: Feeds) -> Call:
    plan.run(inputs)  # compile for these shapes now
    return lambda: plan.run(inputs)


def _calls(plan: Plan, inputs: Feeds, timer: StepTimer, peers: Sequence[Peer]) -> dict[str, Call]:
    others = {p.name: p.run for p in peers if p.run is not None}
    return {OWN: lambda: plan.run(inputs), STEPS: timer, **others}


def require_measurable(effort: Effort, peers: Sequence[str], threads: int | None) -> int:
    """Raise UsageError for what cannot be measured; return the number of threads.

    That is by default the number of processors, or 1 beside peers.
    """
    if not 0 <= effort.time <= MOST_SECONDS:
        raise misused(f"time is {effort.time:g}: 0 to {MOST_SECONDS} seconds")
    least = {"rounds": effort.rounds, "iterations": effort.iterations, "requests": effort.requests}
    wrong = [f"{name} is {n}" for name, n in least.items() if n is not None and n < 1]
    if wrong:
        raise misused(f"{', '.join(wrong)}: at least 1")
    if effort.warm_up < 0:
        raise misused(f"warm_up is {effort.warm_up}: at least 0")
    if effort.requests > MOST_REQUESTS:
        raise misused(f"{effort.requests} requests: at most {MOST_REQUESTS}")
    if peers and threads not in (None, 1):
        message = f"peers run on one thread, irdeconv would on {threads}"
        raise misused(message, "--threads 1")
    for name in peers:
        require_peer(name)
    return threads if threads is not None else 1 if peers else processors()


def _memory(program: Program, outputs: dict[str, Array]) -> MemoryReport:
    return MemoryReport(
        tensors=program.arena,
        most_alive=program.most_alive,
        evaluated=program.evaluated,
        scratch=max((s.scratch for s in program.steps), default=0),
        scratch_used=program.team.peak,
        outputs=sum(array.nbytes for array in outputs.values()),
    )


def _compared(
    peer: Peer, outputs: dict[str, Array], network: Timing, samples: list[Sample] | None
) -> PeerReport:
    if peer.run is None or not samples:
        return PeerReport(name=peer.name, version=peer.version, problem=peer.problem)
    timing = Timing.of(samples)
    other = timing.cpu.minimum
    ratio = network.cpu.minimum / other if other > 0 else None
    return PeerReport(
        name=peer.name,
        version=peer.version,
        timing=timing,
        ratio=ratio,
        difference=difference(outputs.values(), peer.run()),
    )
