"""Checks that compare: a variant in irdeconv and in OpenVINO, or the same piece of two models."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from irdeconv.errors import IrdeconvError
from irdeconv.graph import Graph, Node
from irdeconv.io.xml_writer import write_ir
from irdeconv.kernels.shared.team import Threads
from irdeconv.ops.basic import Parameter
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.standardize import standardize
from irdeconv.reducing.search import Outcome
from irdeconv.reducing.variant import Variant
from irdeconv.runtime.plan import Plan, build_plan
from irdeconv.runtime.schedule import Settings
from irdeconv.spec import Array
from irdeconv.verify.compare.comparison import Comparison, compare_plan
from irdeconv.verify.compare.lockstep import PlanPartner
from irdeconv.verify.compare.partner import Fetched, Partner
from irdeconv.verify.compare.peer import AS_STATED, OpenVinoPartner, openvino, refused


def plan_of(graph: Graph, feeds: dict[str, Array]) -> Plan:
    """Return a plan that executes node by node, open inputs having the shapes of their values."""
    ready = graph.copy()
    for node in ready.parameters:
        if isinstance(node.op, Parameter) and not node.spec().static:
            ready.replace_op(node.id, replace(node.op, shape=feeds[node.name].shape))
            node.specs = None
    if any(n.specs is None for n in ready.nodes()):
        infer_specs(ready)
    return build_plan(ready, settings=Settings(False, Threads(1)))


@dataclass
class Judgement:
    """Turns comparisons into outcomes; once a mistake is known by its kind, only that one counts.

    Otherwise cutting sizes would end at two numbers that differ, whatever the mistake was.
    """

    kind: str | None = None

    def of(self, compare: Callable[[], Comparison]) -> Outcome:
        """Return what a comparison says; one that cannot be made says nothing."""
        try:
            result = compare()
        except IrdeconvError as e:
            first = next(iter(e.diagnostics), None)
            return Outcome(False, first.message if first else type(e).__name__, valid=False)
        found = result.first_difference
        if found is None:
            said = result.verdict if result.missing else "both sides agree"
            return Outcome(bool(result.missing), said)
        kind = _NUMBERS.sub("", found.kind or "")
        if self.kind is None:
            self.kind = kind
        suspects = (found.name, found.name.rpartition(".")[0])
        return Outcome(self.kind in ("", kind), str(found), suspects)


AGREES = "other inputs (-i) or a smaller --tolerance may show it"
_NUMBERS = re.compile(r"[-+(]*\d.*")  # sizes and values change while a mistake stays the same


@dataclass
class PairCheck:
    """Two graphs differ by more than rounding explains, layer by layer or in an output."""

    tolerance: float | None = None
    judgement: Judgement = field(default_factory=Judgement)
    hint: str = AGREES

    def __call__(self, variant: Variant) -> Outcome:
        """Compare the variant's two graphs on its inputs."""
        return self.judgement.of(lambda: self.compare(variant))

    def compare(self, variant: Variant) -> Comparison:
        """Return the comparison; raises what `compare` raises."""
        a, b = (plan_of(g, variant.feeds) for g in variant.graphs)
        start = partial(PlanPartner, a.graph, b, variant.feeds)
        return compare_plan(a, start, variant.feeds, self.tolerance)


@dataclass
class OpenVinoCheck:
    """A graph gives other numbers in OpenVINO than here, by more than rounding explains.

    First every layer is looked at by itself. Where all of them agree, `whole` lets OpenVINO execute
    the graph in one piece, with its fusions, and looks at the outputs.
    """

    tolerance: float | None = None
    whole: bool = False
    judgement: Judgement = field(default_factory=Judgement)
    hint: str = AGREES

    def __call__(self, variant: Variant) -> Outcome:
        """Compare the variant's graph with what OpenVINO makes of it."""
        return self.judgement.of(lambda: self.compare(variant))

    def compare(self, variant: Variant) -> Comparison:
        """Return the comparison; raises what `compare` raises."""
        plan = plan_of(variant.graph, variant.feeds)
        with TemporaryDirectory(prefix="irdeconv-") as folder:
            file = Path(folder, "model.xml")
            write_ir(standardize(plan.graph), file)
            arrays = plan.binder.bind(variant.feeds)
            if self.whole:
                outputs = _outputs(file, arrays)
                start: Callable[[], Partner] = partial(OutputsOnly, outputs)
            else:
                feeds = dict(zip(plan.graph.inputs, arrays, strict=True))
                start = partial(OpenVinoPartner, plan, file, feeds)
            return compare_plan(plan, start, variant.feeds, self.tolerance)


@dataclass
class OutputsOnly(Partner):
    """A side of which only the outputs are known."""

    arrays: list[Array | None]

    def fetch(self, node: Node) -> Fetched | None:
        """Return None: no layer is known."""
        return None

    def outputs(self) -> list[Array | None]:
        """Return the outputs."""
        return self.arrays

    def close(self) -> None:
        """Nothing is open."""


def _outputs(file: Path, arrays: list[Array]) -> list[Array | None]:
    """Execute a file in OpenVINO as it stands; UnsupportedError where it refuses."""
    core: Any = openvino().Core()
    try:
        compiled = core.compile_model(core.read_model(str(file)), "CPU", AS_STATED)
        found = compiled(arrays)
        return [np.array(found[i]) for i in range(len(compiled.outputs))]
    except RuntimeError as e:
        raise refused(f"OpenVINO does not execute {file}: {e}") from None
