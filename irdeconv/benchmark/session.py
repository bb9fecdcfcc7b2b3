"""Measure a plan: the network as a whole, each of its steps, other runtimes beside it."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.benchmark.machine import Ceilings, Conditions, measure_ceilings
from irdeconv.benchmark.measure import Call, Clock, Sample, Timing, interleaved
from irdeconv.benchmark.peers import Peer, difference, require_peer
from irdeconv.benchmark.report import BenchReport, MemoryReport, PeerReport
from irdeconv.benchmark.steps import StepTimer, report_steps
from irdeconv.errors import misused
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.runtime.program import Program
from irdeconv.spec import Array

OWN, STEPS = "irdeconv", "steps"


def bench(
    plan: Plan,
    inputs: Feeds,
    *,
    form: str | None,
    rounds: int,
    seconds: float,
    peers: Sequence[Peer] = (),
    clock: Clock | None = None,
    ceilings: Ceilings | None = None,
) -> BenchReport:
    """Time a plan in interleaved rounds, beside the peers that can run the model.

    Each round runs the network, the network with a clock around each step, and every peer, for
    about `seconds` each. `ceilings` are measured first where they are not given. Raises UsageError
    for a bad number and what `Plan.run` raises.
    """
    require_measurable(rounds, seconds, peers=(), threads=1)
    clock = clock or Clock()
    outputs = plan.run(inputs)  # failures come with names of layers here
    conditions, limits = Conditions.now(), ceilings or measure_ceilings(clock)
    timer = StepTimer(plan, inputs, clock)
    calls = _calls(plan, inputs, timer, peers)
    warm_up = {STEPS: calls[OWN]}
    samples = interleaved(calls, rounds=rounds, seconds=seconds, clock=clock, warm_up=warm_up)
    network, program = Timing.of(samples[OWN]), plan.program(inputs)
    return BenchReport(
        name=plan.graph.info.name,
        form=form,
        fused=plan.settings.fuse and not plan.exact,
        threads=program.team.threads,
        rounds=rounds,
        seconds=seconds,
        conditions=conditions,
        ceilings=limits,
        network=network,
        steps=tuple(report_steps(program.graph, program.steps, timer.samples)),
        memory=_memory(program),
        peers=tuple(_compared(p, outputs, network, samples.get(p.name)) for p in peers),
    )


def _calls(plan: Plan, inputs: Feeds, timer: StepTimer, peers: Sequence[Peer]) -> dict[str, Call]:
    others = {p.name: p.run for p in peers if p.run is not None}
    return {OWN: lambda: plan.run(inputs), STEPS: timer, **others}


def require_measurable(rounds: int, seconds: float, peers: Sequence[str], threads: int) -> None:
    """Raise UsageError for numbers that no measurement can have, and for peers that are not there.

    Peers run on one thread, so irdeconv must as well.
    """
    if rounds < 1 or not 0 <= seconds <= 3600:
        message = f"{rounds} rounds of {seconds:g} seconds: at least 1 round of 0 to 3600 seconds"
        raise misused(message)
    if peers and threads != 1:
        message = f"peers run on one thread, irdeconv would on {threads}"
        raise misused(message, "threads=1 or --threads 1")
    for name in peers:
        require_peer(name)


def _memory(program: Program) -> MemoryReport:
    return MemoryReport(
        tensors=program.arena,
        most_alive=program.most_alive,
        evaluated=program.evaluated,
        scratch=max((s.scratch for s in program.steps), default=0),
        scratch_used=program.team.peak,
        outputs=sum(one.nbytes for one in program.fresh),
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
