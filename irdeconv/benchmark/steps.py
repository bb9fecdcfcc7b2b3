"""What each step of a program does: products, bytes, and its time in every run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from irdeconv.benchmark.measure import Clock, Sample, Timing, timed
from irdeconv.graph import Graph, Node, Value
from irdeconv.inspection.layers import macs as macs_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import ZeroInsertion, scatter_macs
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.runtime.program import VIEW, Program, Step, Values


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One step of a plan.

    `nodes` are the (type, name) of the layers that it covers, producers first, `ids` their ids
    in the graph that is executed. `macs` are the
    multiply-accumulates of these layers; where the step takes in a zero-insertion, those with
    inserted zeros do not count. `bytes` are inputs, outputs and constants, each once. Both are None
    where sizes are unknown before running.
    """

    index: int
    nodes: tuple[tuple[str, str], ...]
    ids: tuple[int, ...] = ()
    kernel: str
    why: str
    scratch: int
    macs: int | None
    bytes: int | None
    timing: Timing

    @property
    def layer(self) -> str:
        """The name of the layer whose output it computes."""
        return self.nodes[-1][1]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        layers = [{"type": type, "name": name} for type, name in self.nodes]
        facts = {k: v for k, v in vars(self).items() if k not in ("nodes", "ids", "timing")}
        return {**facts, "layers": layers, "timing": asdict(self.timing)}

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
    """Return the bytes that come into a step and leave it; what stays inside does not count.

    A view moves nothing.
    """
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
    """Return the layers that a step's node stands for: itself, or those that it was made of."""
    if node.id in graph and graph.node(node.id).name == node.name:
        return (node.id,)
    return tuple(n.id for name in node.origins or (node.name,) for n in graph.find(name))
