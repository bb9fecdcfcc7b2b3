"""Measure a plan: the network as a whole, each of its steps, other runtimes beside it."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.base import progress
from irdeconv.base.errors import misused
from irdeconv.ir.spec import Array
from irdeconv.runtime.bench_report import BenchReport, MemoryReport, PeerReport
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.machine import Ceilings, Conditions, measure_ceilings
from irdeconv.runtime.measure import (
    Call,
    Clock,
    Effort,
    Histogram,
    ParallelReport,
    Sample,
    StepTimer,
    Timing,
    in_parallel,
    interleaved,
    report_steps,
)
from irdeconv.runtime.peers import Peer, difference, require_peer
from irdeconv.runtime.plan import Plan
from irdeconv.runtime.program import Program

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

    Each round runs the network, the network with a clock around each step, and every peer; in the
    end all `plans` of that network run at once. `ceilings` are measured where they are not given.
    Raises UsageError for a bad number and what `Plan.run` raises.
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
        threads=program.team.threads,
        effort=effort,
        conditions=conditions,
        ceilings=ceilings,
        network=network,
        histogram=Histogram.of(latencies),
        parallel=parallel,
        throughput=parallel.throughput if parallel else rate(latencies),
        steps=tuple(report_steps(program, plan.graph, timer.samples)),
        memory=_memory(program, outputs),
        peers=tuple(_compared(p, outputs, network, samples.get(p.name)) for p in peers),
    )


def rate(latencies: Sequence[float]) -> float:
    """Return the runs a second of one run after the other, 0 below the clock's resolution."""
    total = sum(latencies)
    return len(latencies) / total if total > 0 else 0.0


def _parallel(
    plans: Sequence[Plan], inputs: Feeds, effort: Effort, clock: Clock, alone: Sequence[Sample]
) -> tuple[ParallelReport | None, list[float]]:
    """Run several plans at once and return their wall times; those `alone` where there is one."""
    if len(plans) == 1:
        return None, [sample.wall for sample in alone]
    with progress.stage(f"measuring {len(plans)} requests"), progress.listening(None):
        return in_parallel([_run(p, inputs) for p in plans], effort, clock)


def _run(plan: Plan, inputs: Feeds) -> Call:
    plan.run(inputs)  # what is made for these shapes is made now
    return lambda: plan.run(inputs)


def _calls(plan: Plan, inputs: Feeds, timer: StepTimer, peers: Sequence[Peer]) -> dict[str, Call]:
    others = {p.name: p.run for p in peers if p.run is not None}
    return {OWN: lambda: plan.run(inputs), STEPS: timer, **others}


def require_measurable(effort: Effort, peers: Sequence[str], threads: int) -> None:
    """Raise UsageError for impossible numbers, absent peers, and peers beside several threads."""
    if effort.rounds < 1 or not 0 <= effort.time <= MOST_SECONDS:
        message = (
            f"{effort.time:g} seconds in {effort.rounds} rounds: 0 to {MOST_SECONDS} seconds in "
        )
        raise misused(f"{message}at least 1 round")
    least = {"iterations": effort.iterations, "requests": effort.requests}
    wrong = [f"{name} is {n}" for name, n in least.items() if n is not None and n < 1]
    if wrong or effort.warm_up < 0:
        raise misused(", ".join([*wrong, f"warm-up is {effort.warm_up}"]) + ": at least 1, 0")
    if effort.requests > MOST_REQUESTS:
        raise misused(f"{effort.requests} requests: at most {MOST_REQUESTS}")
    if peers and threads != 1:
        message = f"peers run on one thread, irdeconv would on {threads}"
        raise misused(message, "threads=1 or --threads 1")
    for name in peers:
        require_peer(name)


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
