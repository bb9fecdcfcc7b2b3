"""What explains a refusal of a whole graph: loops, states, constants; no layer alone does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from irdeconv.graph import Graph, Node
from irdeconv.ops.basic import Const
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.state import ReadingOp, VariableOp
from support.differential.judging import Finding

REFUSED = "only irdeconv|OpenVINO crashes"


@dataclass(frozen=True)
class Whole:
    """The title, kinds of findings, words of OpenVINO's message, and what holds of the graph."""

    title: str
    kinds: str
    message: str
    holds: Callable[[Graph], bool]

    def fits(self, finding: Finding, graph: Graph) -> bool:
        said = re.fullmatch(self.kinds, finding.kind) and re.search(self.message, finding.detail)
        return bool(said) and self.holds(graph)


def nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes, those of bodies included."""
    for node in graph.nodes():
        yield node
        for body in bodies_of(node):
            yield from nodes(body.graph)


def _first(graph: Graph, node: Node, port: int) -> int | None:
    """Return what a Loop counts to or begins with, where that is known."""
    known = graph.spec(graph.inputs_of(node.id)[port]).known
    return None if known is None or not known.size else int(known.reshape(-1)[0])


def _counts_below(graph: Graph) -> bool:
    """Whether a Loop has a trip_count below -1."""
    return any((_first(graph, n, 0) or 0) < -1 for n in graph.nodes("Loop"))


def _never_begins(graph: Graph) -> bool:
    """Whether a Loop runs its body in no iteration."""
    return any(0 in (_first(graph, n, 0), _first(graph, n, 1)) for n in graph.nodes("Loop"))


def _may_end_early(graph: Graph) -> bool:
    """Whether a Loop counts to a known number and asks its body whether to go on."""
    return any((_first(graph, n, 0) or 0) > 0 for n in graph.nodes("Loop"))


def _has_other_bytes(graph: Graph) -> bool:
    """Whether a constant of booleans has another byte than 0 and 1."""
    constants = [n.op for n in nodes(graph) if isinstance(n.op, Const)]
    flags = [op.data.raw() for op in constants if op.element_type.kind == "bool"]
    return any(max(bytes(raw), default=0) > 1 for raw in flags)


def _reads_only(graph: Graph) -> bool:
    """Whether a variable is read that nothing assigns."""
    held = [n.op for n in nodes(graph) if isinstance(n.op, VariableOp)]
    written = {op.variable_id for op in held if not isinstance(op, ReadingOp)}
    return any(op.variable_id not in written for op in held)


WHOLES = (
    Whole("states that are only read", REFUSED, "doesn't have sibling output", _reads_only),
    Whole(
        "a Loop of a trip_count below -1",
        REFUSED,
        "overflow while multiplying|Shape mismatch for tensor iterator",
        _counts_below,
    ),
    Whole("a Loop that never begins", REFUSED, "Shape mismatch for tensor iterator", _never_begins),
    Whole(
        "a Loop that ends before its trip_count",
        REFUSED,
        "has incorrect output shape.* after iteration for concatenation",
        _may_end_early,
    ),
    Whole("booleans that are neither 0 nor 1", f"{REFUSED}|values", "", _has_other_bytes),
)


def of_a_whole(finding: Finding, graph: Graph) -> str:
    """Return the title of what explains a finding of no layer alone; empty where nothing does."""
    return next((w.title for w in WHOLES if w.fits(finding, graph)), "")
