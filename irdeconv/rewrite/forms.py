"""The lowering forms of core.Deconvolution, and a lower bound on the nodes that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from irdeconv.base.errors import OpError
from irdeconv.base.form_names import FALLBACK, GEMM, PHASES, STACKED
from irdeconv.base.limits import current
from irdeconv.ir import geometry
from irdeconv.ir.geometry import IntVector
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, SpecBuilder, SugarOp
from irdeconv.ir.spec import Spec
from irdeconv.ops import core
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.vectors import sizes, vector
from irdeconv.rewrite import site, subpixel
from irdeconv.rewrite.builder import NodeBudget, Skip
from irdeconv.rewrite.emit import (
    ConvolutionLayer,
    DeconvolutionInputs,
    FormBuilder,
    X,
    channels_swapped,
    flip,
)
from irdeconv.rewrite.interleaving import insert_zeros
from irdeconv.rewrite.native import OPERATIONS, native
from irdeconv.rewrite.targets import Target


class FormRule(Protocol):
    """Builds the operations that replace a core.Deconvolution."""

    def __call__(
        self, op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X], /
    ) -> X | Skip:
        """Return the output (N, M, *O), plus the bias [1, M, 1, ...]."""


# Says by the specs of filter and pads, without building anything, why a form does not apply.
FormCheck = Callable[[core.Deconvolution, Spec, Spec, Spec], Skip | None]


@dataclass(frozen=True)
class Form:
    """A lowering form, called as in form_names.py.

    `rule` builds it unless `skips` returns a reason not to. `reach` is the spread of a bad value in
    it. `least_nodes` is a lower bound on its nodes, from the filter's spec.
    """

    name: str
    rule: FormRule
    reach: site.AxisReach
    skips: FormCheck = lambda *_: None
    least_nodes: Callable[[core.Deconvolution, Spec], int] = lambda *_: 0

    def lower(
        self, op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]
    ) -> X | Skip:
        """Build the form or return why it does not apply."""
        skip = self.skips(op, b.spec(of.w), b.spec(of.pads_begin), b.spec(of.pads_end))
        if skip is not None:
            return skip
        return self.rule(op, b, of)


def zero_insertion(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X:
    """core.Deconvolution -> ZeroInsertion, Pad, Convolution (filter flipped and regrouped)."""
    axes = len(op.strides)
    window = geometry.Window(vector(b, of.pads_begin), vector(b, of.pads_end))
    surplus = IntVector(op.strides) - 1  # zeros behind the last element: S*I elements, also of none
    kernel, dilations = sizes(b, of.w, 3, axes), IntVector(op.dilations)
    begin, end = geometry.zero_insertion_pads(window, kernel, dilations, surplus)
    filter = channels_swapped(b, flip(b, of.w, axes), axes)
    x, ones = insert_zeros(b, of.x, op.strides), (1,) * axes
    layer = ConvolutionLayer(x, filter, ones, op.dilations, begin, end, of.bias, pads_apart=True)
    return layer.emit(b)


_FORMS = (
    Form(name=FALLBACK, rule=zero_insertion, reach=site.every_output),
    Form(
        name=PHASES,
        rule=subpixel.phases,
        skips=subpixel.skip_open_axes,
        least_nodes=subpixel.least_nodes,
        reach=site.outputs_of_residue,
    ),
    Form(
        name=STACKED,
        rule=subpixel.stacked,
        skips=subpixel.skip_stacked,
        reach=site.outputs_of_residue,
    ),
    Form(name=GEMM, rule=subpixel.gemm, skips=subpixel.skip_gemm, reach=site.tap_by_definition),
)
FORMS = {form.name: form for form in _FORMS}
# For targets that have a deconvolution of their own; it is never chosen without a target.
NATIVE = Form(name="native", rule=native, reach=site.tap_by_definition)


def forms_for(target: Target) -> dict[str, Form]:
    """Return the forms that a target may use."""
    listed = target.operations or {}
    return {**FORMS, NATIVE.name: NATIVE} if any(op in listed for op in OPERATIONS) else FORMS


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
    """Raise LimitError if an inferred graph, lowered in a form, gets more nodes than are left.

    The estimate is a lower bound, and there is none for `auto`. New nodes are counted as well.
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
            least = known[key] = _foreseen_least(op, inputs, FORMS[form])
        nodes += least
        budget.require(nodes, node)


def _deconvolutions(graph: Graph) -> Iterator[tuple[Graph, Node]]:
    for node in graph.nodes():
        for body in bodies_of(node):
            yield from _deconvolutions(body.graph)
        if node.op.deconvolution:
            yield graph, node


def _foreseen_least(op: Op, inputs: tuple[Spec, ...], form: Form) -> int:
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
