"""How many nodes a lowering makes at least, told before it makes any."""

from __future__ import annotations

from collections.abc import Iterator

from irdeconv.dialects.template import DialectDeconvolution
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.limits import current
from irdeconv.op import Op, SpecBuilder, SugarOp
from irdeconv.ops import core
from irdeconv.ops.bodies import bodies_of
from irdeconv.passes.builder import NodeBudget
from irdeconv.passes.forms import FORMS, Form
from irdeconv.spec import Spec


class _CoreFinder(SpecBuilder):
    """Keeps the core.Deconvolution that a dialect's expands to, with the specs of its inputs."""

    def __init__(self) -> None:
        self.found: tuple[core.Deconvolution, tuple[Spec, ...]] | None = None

    def add(self, op: Op, *inputs: Spec) -> Spec:
        """Infer one operation."""
        if isinstance(op, core.Deconvolution):
            self.found = op, inputs
        return super().add(op, *inputs)


def require_room(graph: Graph, form: str, budget: NodeBudget) -> None:
    """Raise LimitError where an inferred graph, lowered in a form, gets more nodes than are left.

    What is foreseen is a lower bound, none for `auto`: what is made is counted as well.
    """
    layers = list(_deconvolutions(graph))
    if form not in FORMS or len(layers) * current().lowered_nodes <= budget.left:
        return
    nodes, known = 0, dict[object, int]()
    for inside, node in layers:
        op, inputs = node.op, inside.input_specs(node.id)
        key = op.alike(inputs) if isinstance(op, DialectDeconvolution) else None
        least = known.get(key) if key else None
        if least is None:
            least = known[key] = _least(op, inputs, FORMS[form])
        nodes += least
        budget.require(nodes, node)


def _deconvolutions(graph: Graph) -> Iterator[tuple[Graph, Node]]:
    for node in graph.nodes():
        for body in bodies_of(node):
            yield from _deconvolutions(body.graph)
        if node.op.deconvolution:
            yield graph, node


def _least(op: Op, inputs: tuple[Spec, ...], form: Form) -> int:
    finder = _CoreFinder()
    try:
        if isinstance(op, SugarOp):
            op.expand(finder, *inputs)
        else:
            finder.add(op, *inputs)
    except OpError:  # lowering reports it
        return 0
    if finder.found is None:
        return 0
    core_op, (_, filter, begin, end) = finder.found
    return 0 if form.skips(core_op, filter, begin, end) else form.least_nodes(core_op, filter)
