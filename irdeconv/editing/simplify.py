"""Take away what a graph can do without: the same results of fewer layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from irdeconv import progress
from irdeconv.editing.duplicates import merge_duplicates
from irdeconv.editing.folding import FoldingLimits, fold
from irdeconv.editing.identities import joined_with_producer, passed_on
from irdeconv.editing.names_kept import give_names, may_stand_for
from irdeconv.graph import Graph, Node, Value
from irdeconv.markup import html_table, line
from irdeconv.ops.basic import Const
from irdeconv.passes.infer_specs import infer_specs, inferred
from irdeconv.passes.rewrite import remove_dead, unique_names

MAX_GROWTH = 1 << 20  # bytes
_PASSES_AT_MOST = 20
STEPS = ("folded", "without effect", "joined", "duplicate", "dead")


@dataclass(frozen=True)
class SimplificationReport:
    """Layers by type before and after, how many each step took, bytes of constants.

    Steps: "folded" into constants, "without effect", "joined" with the layer in front, "duplicate",
    "dead" (no result needs it).
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    steps: Mapping[str, int]
    bytes_before: int
    bytes_after: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "types": {
                kind: {"before": self.before.get(kind, 0), "after": self.after.get(kind, 0)}
                for kind in sorted({*self.before, *self.after})
            },
            "steps": dict(self.steps),
            "constant_bytes": {"before": self.bytes_before, "after": self.bytes_after},
        }

    def __repr__(self) -> str:
        return line(self, None, str(self))

    def _repr_html_(self) -> str:
        kinds = sorted({*self.before, *self.after})
        rows = [(kind, self.before.get(kind, 0), self.after.get(kind, 0)) for kind in kinds]
        right = ("before", "after")
        return html_table(str(self), ("type", *right), rows, right)

    def __str__(self) -> str:
        layers = f"{sum(self.before.values())} layers became {sum(self.after.values())}"
        steps = ", ".join(f"{n} {step}" for step, n in self.steps.items() if n)
        return f"{layers}: {steps or 'nothing to take away'}"


class Simplified(NamedTuple):
    """The simplified graph and the report: `graph, report = ...`."""

    graph: Graph
    report: SimplificationReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, str(self.report))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def simplify(graph: Graph, *, max_growth: int = MAX_GROWTH, decompress: bool = False) -> Simplified:
    """Return a copy with the same inputs, outputs, names and state that computes the same bits.

    Constants are folded, as is what follows from shapes; layers that change nothing, duplicates and
    what no result needs go; pairs of Reshape, Transpose or Convert are joined. A folded constant is
    at most `max_growth` bytes larger than what it is computed of. Weights stay compressed unless
    `decompress` is set. The bits are those of running node by node: of a graph that fuses otherwise
    they may differ by rounding. Nothing follows from the shapes that a file declares for unknown
    operations. Raises InferenceError where the graph does not fit together.
    """
    work = inferred(graph)
    infer_specs(work, believe=False)
    before, bytes_before = _counts(work), _constant_bytes(work)
    limits, steps = FoldingLimits(max_growth, decompress), Counter(dead=remove_dead(work, set()))
    for _ in range(_PASSES_AT_MOST):
        done = _round(work, limits)
        steps += done
        infer_specs(work, believe=False)
        if not done:
            break
    infer_specs(work)
    work.lint()
    unique_names(work)
    report = SimplificationReport(
        before, _counts(work), {s: steps[s] for s in STEPS}, bytes_before, _constant_bytes(work)
    )
    return Simplified(work, report)


def _round(graph: Graph, limits: FoldingLimits) -> Counter[str]:
    """Look at every node once, then at duplicates and dead ones."""
    done: Counter[str] = Counter()
    nodes = graph.topological()
    with progress.stage("simplifying", total=len(nodes)) as step:
        for node in nodes:
            step()
            if node.id not in graph:
                continue
            if fold(graph, node, limits):
                done["folded"] += 1
            elif _pass_on(graph, node):
                done["without effect"] += 1
            elif joined_with_producer(graph, node):
                done["joined"] += 1
    done["duplicate"] += merge_duplicates(graph)
    remove_dead(graph, set())  # what was read by the layers that went
    return +done


def _pass_on(graph: Graph, node: Node) -> bool:
    value = passed_on(graph, node)
    if value is None or not may_stand_for(graph, node, value):
        return False
    if graph.spec(value).shape != node.spec().shape:
        return False  # of open shapes the layer says more
    give_names(graph, Value(node.id), value)
    graph.replace_uses(Value(node.id), value)
    graph.remove(node.id)
    return True


def _counts(graph: Graph) -> dict[str, int]:
    return dict(Counter(n.type for n in graph.nodes()))


def _constant_bytes(graph: Graph) -> int:
    sizes = [
        op.element_type.nbytes(n.spec().size or 0)
        for n in graph.nodes("Const")
        if isinstance(op := n.op, Const)
    ]
    return sum(sizes)
