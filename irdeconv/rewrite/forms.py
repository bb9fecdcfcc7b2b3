"""The lowering forms of core.Deconvolution, a lower bound on the nodes that they make, bad values.

How far an infinity or a NaN spreads is predicted from geometry. By the definition a bad tap spoils
the outputs it reaches from an input element. A zero that was inserted or padded, times an infinity
or a NaN, is NaN. So a form spreads it further, as far as `reach` of the form's record computes.

If gemm joins zeros to data that may be too short (subpixel.py), a bad tap spoils their outputs too.
In several dimensions an output is spoilt if it is along every axis. For finite data the prediction
for bad constants is exact unless sums overflow. Kernels with padding of their own (running without
lowering) may behave like phases at the border; exact mode is the definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.base.form_names import FALLBACK, GEMM, PHASES, STACKED
from irdeconv.base.json_form import Record
from irdeconv.base.limits import current
from irdeconv.ir import geometry
from irdeconv.ir.geometry import IntVector
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array, Spec
from irdeconv.ops import core
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.core import sizes, vector
from irdeconv.ops.dialect_template import CanonicalRecorder, DialectDeconvolution
from irdeconv.ops.elementwise import Add
from irdeconv.rewrite import subpixel
from irdeconv.rewrite.builder import GraphBuilder, NodeBudget
from irdeconv.rewrite.compressed_filters import constant_of, stored
from irdeconv.rewrite.emit import (
    ConvolutionLayer,
    DeconvolutionInputs,
    FormBuilder,
    Skip,
    X,
    channels_swapped,
    flip,
    insert_zeros,
)
from irdeconv.rewrite.legalising import OPERATIONS, native
from irdeconv.rewrite.subpixel import AxisReach, DeconvolutionSite, site_of, tap_by_definition
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
    reach: AxisReach
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
    Form(name=FALLBACK, rule=zero_insertion, reach=subpixel.every_output),
    Form(
        name=PHASES,
        rule=subpixel.phases,
        skips=subpixel.skip_open_axes,
        least_nodes=subpixel.least_nodes,
        reach=subpixel.outputs_of_residue,
    ),
    Form(
        name=STACKED,
        rule=subpixel.stacked,
        skips=subpixel.skip_stacked,
        reach=subpixel.outputs_of_residue,
    ),
    Form(name=GEMM, rule=subpixel.gemm, skips=subpixel.skip_gemm, reach=tap_by_definition),
)
FORMS = {form.name: form for form in _FORMS}
# For targets that have a deconvolution of their own; it is never chosen without a target.
NATIVE = Form(name="native", rule=native, reach=tap_by_definition)


def forms_for(target: Target) -> dict[str, Form]:
    """Return the forms that a target may use."""
    listed = target.operations or {}
    return {**FORMS, NATIVE.name: NATIVE} if any(op in listed for op in OPERATIONS) else FORMS


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
    recorder = CanonicalRecorder()
    try:
        recorder.expand(op, inputs)
    except OpError:  # lowering reports it
        return 0
    if recorder.op is None or form.skips(recorder.op, *recorder.inputs[1:]):
        return 0
    return form.least_nodes(recorder.op, recorder.inputs[1])


DEFINITION = "definition"
COUNTED = 2**24  # outputs that differ, or products of outputs and taps: more are not looked at
REACHES = {DEFINITION: tap_by_definition, **{name: form.reach for name, form in FORMS.items()}}


@dataclass(frozen=True)
class ChannelBias:
    """An Add behind a deconvolution, and its constant [M], or its value [1, M, 1, ...]."""

    add: Node
    other: Value
    constant: Array | None
    rank: int

    def value(self, b: GraphBuilder) -> Value:
        """Return the bias as a value [1, M, 1, ...]."""
        if self.constant is None:
            return self.other
        shape = (1, -1, *(1,) * (self.rank - 2))
        return b.const(self.constant.reshape(shape), b.spec(self.other).dtype)


def bias_behind(graph: Graph, node: Node) -> ChannelBias | None:
    """Return the bias of a deconvolution of which nothing else reads the output."""
    users, output = graph.users(Value(node.id)), node.spec()
    if len(users) != 1 or not isinstance(graph.node(users[0][0]).op, Add) or not output.shape:
        return None
    add, channels = graph.node(users[0][0]), output.shape[1]
    other = graph.inputs_of(add.id)[1 - users[0][1]]
    spec, rank = graph.spec(other), len(output.shape)
    if other.node == node.id or not isinstance(channels, int) or spec.shape is None:
        return None
    values = constant_of(graph, other)
    if values is None:
        # Made by the expansion of the same layer as the Add.
        own = bool(add.origins) and graph.node(other.node).origins == add.origins
        same = spec.shape == (1, channels, *(1,) * (rank - 2))
        return ChannelBias(add, other, None, rank) if same and own else None
    shape = (1,) * (rank - values.ndim) + values.shape
    along = [a for a, n in enumerate(shape) if n != 1]
    if len(shape) != rank or along not in ([], [1]) or values.size not in (1, channels):
        return None
    row = np.broadcast_to(values.reshape(-1), (channels,))
    return ChannelBias(add, other, np.ascontiguousarray(row), rank)


class NonFiniteReport(Record):
    """The non-finite constants of one deconvolution and the outputs that they spoil."""

    filter_bad: int  # values of the filter that are not finite
    filter_size: int  # all values of the filter
    bias_bad: int  # values of the bias that are not finite
    bias_size: int  # all values of the bias
    outputs: int | None  # elements of the output
    # how many of them are spoiled, by form and by the definition; empty if that is not counted
    affected: dict[str, int]
    assumed: bool = False  # whether sizes stand in for unknown ones


def examine(graph: Graph, node: Node) -> NonFiniteReport | None:
    """Scan the filter and bias of a core.Deconvolution; None if all of it is finite."""
    value = graph.inputs_of(node.id)[1]
    filter = None if _is_finite(graph, value) else _bad(constant_of(graph, value))
    bias = _bad(_bias(graph, node))
    filter_bad, bias_bad = (0 if bad is None else int(bad.sum()) for bad in (filter, bias))
    if not filter_bad and not bias_bad:
        return None
    filter = _bad(constant_of(graph, value)) if filter is None else filter
    site, affected = site_of(graph, node), {}
    if site is not None and _countable(site):
        for form, reach in REACHES.items():
            affected[form] = site.batch * _count(reach, site, filter, bias)
    return NonFiniteReport(
        filter_bad=filter_bad,
        filter_size=0 if filter is None else filter.size,
        bias_bad=bias_bad,
        bias_size=0 if bias is None else bias.size,
        outputs=None if site is None else site.batch * site.outputs * int(np.prod(site.output)),
        affected=affected,
        assumed=site is not None and site.assumed,
    )


def _countable(site: DeconvolutionSite) -> bool:
    """Whether there are few enough outputs that differ, and products that decide it."""
    numbers = [site.class_number(axis) for axis in range(site.rank)]
    pairs = sum(n * k for n, k in zip(numbers, site.kernel, strict=True))
    return max(pairs, site.outputs * math.prod(numbers)) <= COUNTED


def _count(reach: AxisReach, site: DeconvolutionSite, w: Array | None, bias: Array | None) -> int:
    """Return the number of spoilt outputs (M, *O); outputs that are alike are computed once."""
    places, counts = zip(*map(site.classes, range(site.rank)), strict=True)
    spoilt: Array = footprint(reach, site, w, bias, places).astype(np.int64)
    for each in reversed(counts):
        spoilt = (spoilt * each).sum(-1)
    return int(spoilt.sum())


@np.errstate(all="ignore")  # BLAS may raise flags on elements that it reads beyond short rows
def footprint(
    reach: AxisReach,
    site: DeconvolutionSite,
    filter: Array | None,
    bias: Array | None = None,
    places: Sequence[Array] | None = None,
) -> Array:
    """Return a mask of spoilt outputs [M, *O] of finite data, or of those at `places` of each axis.

    `filter` [g, C/g, M/g, *K] and `bias` ([M] or broadcast) are true for non-finite values.
    """
    at = places or [np.arange(size) for size in site.output]
    spoilt: Array = np.zeros((site.outputs, *map(len, at)), bool)
    if filter is not None and filter.any():
        taps: Array = filter.any(axis=1).reshape(site.outputs, *site.kernel).astype(np.float32)
        for axis in range(site.rank):
            # Counts of spoiling taps; the axis in front moves to the end.
            taps = np.tensordot(taps, reach(site, axis, at[axis]), ((1,), (1,)))
        spoilt = spoilt | (taps > 0)
    if bias is not None and bias.any():
        per_channel = bias.reshape(-1) if bias.size > 1 else np.repeat(bias, site.outputs)
        spoilt = spoilt | per_channel.reshape(-1, *(1,) * site.rank)
    return spoilt


def _is_finite(graph: Graph, value: Value) -> bool:
    """Whether all of a constant filter is finite; it is scanned part by part."""
    found = stored(graph, value)
    if found is None:
        return False
    finite = all(p.dtype.kind in "biuO" or np.isfinite(p).all() for p in found.parts())
    found.data.release()
    return bool(finite)


def _bad(values: Array | None) -> Array | None:
    if values is None:
        return None
    if values.dtype.kind in "biuO":
        return np.zeros(values.shape, bool)
    bad: Array = ~np.isfinite(values)
    return bad


def _bias(graph: Graph, node: Node) -> Array | None:
    """Return the constant that an Add right behind a deconvolution adds, one number a channel."""
    bias = bias_behind(graph, node)
    if bias is None or bias.constant is None or graph.spec(bias.other).size != bias.constant.size:
        return None
    return bias.constant
