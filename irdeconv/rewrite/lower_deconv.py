"""Lowering: dialects to core.Deconvolution, that to the chosen form, and a report.

An Add of one number per output channel behind a deconvolution is its bias. Ordinary convolutions
that a target cannot run are rewritten by the rules of legalising.py.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from operator import attrgetter
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.errors import (
    Collector,
    Diagnostic,
    LimitError,
    LoweringError,
    Note,
    OpError,
    TargetError,
    count,
    first_names,
    misused,
    other_pattern,
)
from irdeconv.base.form_names import AUTO, FALLBACK
from irdeconv.base.hints import hinted
from irdeconv.base.json_form import Record
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.markup import html_table, line
from irdeconv.base.tables import Table, number, printable, ratio
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.geometry import IntVector, filled
from irdeconv.ir.graph import Graph, Node, Value, reached
from irdeconv.ir.op import SugarOp, infer_op
from irdeconv.ir.spec import Spec, is_static
from irdeconv.ops import core
from irdeconv.ops.basic import Convert, Opaque
from irdeconv.ops.bodies import bodies_of, change_bodies, every_node
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_openvino import BackpropData
from irdeconv.ops.movement import Unsqueeze
from irdeconv.rewrite import builder, emit, forms, targets
from irdeconv.rewrite.channel_folding import FusedLayer, fuse_channels
from irdeconv.rewrite.compressed_filters import stored
from irdeconv.rewrite.emit import (
    AXIS_0,
    ConvolutionLayer,
    Decision,
    DeconvolutionInputs,
    FormBuilder,
    Style,
    X,
)
from irdeconv.rewrite.infer_specs import (
    beyond,
    infer_specs,
    inferred,
    is_stale,
    layer_count,
    report,
    warning,
)
from irdeconv.rewrite.legalising import OPERATIONS as NATIVE_OPERATIONS
from irdeconv.rewrite.planning import (
    CostTables,
    FormCost,
    PlannedValue,
    Planner,
    PlanningTask,
    chosen,
    cost_table,
)
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import Target, Violation, check_graph, facts_of, load_target


class LoweredLayer(Record, keys="... costs? spread?", repr=False):
    """The result of lowering one deconvolution."""

    name: str  # of the layer
    type: str  # of its operation
    form: str | None  # that was chosen; null if the layer stays
    reason: str | None  # why it stays, or why the form is not the requested one
    macs_direct: int | None  # multiply-accumulates of the definition; null if sizes are open
    macs_lowered: int | None  # multiply-accumulates afterwards, inserted zeros included
    nodes: tuple[str, ...] = ()  # the types of the layers that it became
    costs: tuple[FormCost, ...] = ()  # of the forms, with --form auto, --target or --explain-costs
    # how far non-finite constants spread, if there are any
    spread: forms.NonFiniteReport | None = None

    def __repr__(self) -> str:
        text = f"{self.type} -> {self.form}" if self.form else f"{self.type} stays: {self.reason}"
        return line(self, self.name, text)


class LoweringReport(Record, keys="form target? fused? layers diagnostics", repr=False):
    """One record per deconvolution, and warnings."""

    form: str  # that was requested; auto chooses one for each layer
    layers: tuple[LoweredLayer, ...]  # one for each deconvolution
    diagnostics: tuple[Diagnostic, ...] = ()  # warnings
    target: str | None = None  # the target's description, with --target
    fused: tuple[FusedLayer, ...] = ()  # layers with others beside them, with --fuse

    @property
    def verdict(self) -> str:
        """One line: the number of deconvolutions that were lowered, and their forms."""
        if not self.layers:
            return "no deconvolutions, nothing to lower"
        done = [r for r in self.layers if r.form]
        text = f"{count(len(done), 'deconvolution')} of {len(self.layers)} lowered"
        if self.form == "auto":
            return f"{text} as auto for {self.target}"
        counts = Counter(r.form for r in done)
        if {*counts} <= {self.form}:
            return f"{text} as {self.form}"
        other = f" instead of {self.form}"
        parts = (f"{n} as {form}{other * (form != self.form)}" for form, n in counts.items())
        return f"{text}, {', '.join(parts)}"

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        return html_table(self.verdict, *layer_table(self))

    def __iter__(self) -> Iterator[LoweredLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __str__(self) -> str:
        lines = [
            f"{r.name}: {r.type} -> {', '.join(r.nodes)}"
            if r.form
            else f"{r.name}: {r.type} stays: {r.reason}"
            for r in self.layers
        ]
        return printable("\n".join(lines) or "no deconvolutions")


def layer_table(report: LoweringReport) -> Table:
    """Return a row for each deconvolution."""
    rows = []
    for r in report:
        macs = number(r.macs_direct), number(r.macs_lowered) if r.form else ""
        becomes = ", ".join(r.nodes) if r.form else r.reason or ""
        sizes = *macs, ratio(r.macs_lowered, r.macs_direct)
        rows.append((r.name, r.type, r.form or "stays", *sizes, becomes))
    right = ("direct MACs", "lowered MACs", "ratio")
    return ("deconvolution", "type", "form", *right, "becomes"), rows, right


@hinted
class Lowered(NamedTuple):
    """The lowered graph and the report: `graph, report = ...`."""

    graph: Graph
    report: LoweringReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self.report.verdict, layer_count(self.graph))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@dataclass(frozen=True)
class LoweringRequest:
    """The arguments of a lowering.

    `explain` requests the costs of forms, `explain_costs` those of all that cannot be the cheapest,
    too. `only` is a pattern of layer names. With `convolutions` ordinary convolutions that violate
    conditions are rewritten, too; with `best_effort` violations become warnings. `fuse` first folds
    scales and biases into the layers beside them. With `quantized` the layers run in int8.
    """

    form: str
    target: Target
    targeted: bool
    explain: bool
    explain_costs: bool = False
    best_effort: bool = False
    only: str | None = None
    convolutions: bool = False
    fuse: bool = False
    quantized: bool = False

    @staticmethod
    def of(
        form: str | None, target: str | PathLike[str] | Target | None, **options: Any
    ) -> LoweringRequest:
        """Return a request; the default form is zero-insertion, with a target auto.

        Raises UsageError for an unknown form or target.
        """
        targeted = target is not None
        form = form or (AUTO if targeted else FALLBACK)
        targets.require_form_for(form, target)
        explain = options.get("explain_costs", False) or targeted or form == AUTO
        return LoweringRequest(form, load_target(target), targeted, explain, **options)

    @property
    def named(self) -> str | None:
        """The name of the target, if costs are known."""
        return self.target.name if self.explain else None

    def selects(self, name: str) -> bool:
        """Whether the layer of a name is to be lowered."""
        return self.only is None or fnmatchcase(name, self.only)

    def require_match(self, names: Iterable[str]) -> None:
        """Raise UsageError if `only` matches none of the layers that may be lowered."""
        known = list(names)
        if not any(map(self.selects, known)):
            words = re.split("[,; ]+", str(self.only))
            one = f"write one of {first_names(known)}" if known else "the model has none to lower"
            hint = other_pattern([str(self.only)], known) or one
            if len(words) > 1 and {*words} & {*known}:
                start = os.path.commonprefix(words)  # noqa: RUF071 -- of names
                hint = f'it is one pattern, not a list, such as "{start}*"'
            raise misused(f'--only "{self.only}": no layer to lower has this name', hint)

    def styled(self, style: Style) -> Style:
        """Return a style with as many axes as the target allows, and for its operations alone."""
        listed = self.target.operations is not None
        rank = 5 if listed and (self.target.max_rank or 5) >= 5 else style.max_rank
        return replace(style, folded=listed and not self.best_effort, max_rank=rank)


def is_quantized(graph: Graph, node: Node) -> bool:
    """Whether a layer will run in int8: its data are quantized, or its filter is stored so."""
    data, filter, *_ = graph.inputs_of(node.id)
    known = stored(graph, filter)
    if known is not None and known.dtype.kind != "float":
        return True
    producer = graph.node(data.node)
    while producer.type in ("Convert", "Multiply", "Subtract"):
        producer = graph.node(graph.inputs_of(producer.id)[0].node)
        dtype = producer.spec().dtype
        if dtype is not None and dtype.name in ("i8", "u8"):
            return True
    return producer.type == "FakeQuantize"


@dataclass(frozen=True)
class ConvolutionPlan:
    """The decisions that rewrite a convolution, or the conditions that no rewriting meets."""

    op: ConvolutionBase
    bias: forms.ChannelBias | None
    decisions: tuple[Decision, ...] = ()
    violations: tuple[str, ...] = ()

    def build(self, b: FormBuilder[X], x: X, w: X, bias: X | None) -> X:
        """Emit the convolution of data (N, C, *I) with a filter as the operation has it."""
        if not self.op.grouped:
            w = b.add(Unsqueeze(), w, b.const(AXIS_0))
        shape, size = b.spec(w).shape, b.spec(x).shape
        if not is_static(shape) or size is None:
            raise OpError("the filter's shape is known only at run time", code="E400")
        axes = len(size) - 2
        pads = filled(self.op.pads_begin, axes, 0), filled(self.op.pads_end, axes, 0)
        if self.op.auto_pad != "explicit":
            if not is_static(size):
                raise OpError("auto_pad follows from sizes known only at run time", code="E400")
            pads = self.op.effective_pads(size[2:], shape[3:])
        strides, dilations = (filled(v, axes, 1) for v in (self.op.strides, self.op.dilations))
        begin, end = map(IntVector, pads)
        return ConvolutionLayer(x, w, strides, dilations, begin, end, bias).emit(b)


def plan_convolution(
    graph: Graph, node: Node, target: Target, style: Style
) -> ConvolutionPlan | None:
    """Return how to rewrite a convolution, None if the target can run it as it is."""
    op, bias = node.op, forms.bias_behind(graph, node)
    assert isinstance(op, ConvolutionBase)
    inputs, values = graph.input_specs(node.id), graph.inputs_of(node.id)
    constants = (False, stored(graph, values[1]) is not None)
    found = facts_of(op, inputs, (node.spec(),), constants, bias is not None)
    failures = tuple(target.failures(*found))
    if not failures:
        return None
    data, filter = inputs
    b = Planner(target, style, data.dtype or ELEMENT_TYPES["f32"])
    shape = tuple(n if isinstance(n, int) else 32 for n in data.shape or ())
    size = b.memo.one(Spec(data.dtype, shape))
    x = PlannedValue(size if is_static(data.shape) else data, size)
    w, added = PlannedValue(filter, filter, constant=constants[1]), None
    if bias is not None:
        count = 1 if bias.constant is None else bias.constant.size
        added = b.const(np.zeros((1, count, *(1,) * (bias.rank - 2)), b.dtype.container))
    try:
        ConvolutionPlan(op, bias).build(b, x, w, added)
    except OpError as e:
        return ConvolutionPlan(op, bias, violations=(*failures, str(e)))
    violations = tuple(dict.fromkeys(f for o in b.operations for f in o.failures))
    return ConvolutionPlan(op, bias, tuple(b.decisions), violations)


def legalised(
    graph: Graph, node: Node, plan: ConvolutionPlan, budget: builder.NodeBudget, style: Style
) -> list[Node]:
    """Replace a convolution, and the bias behind it, as planned; return the new nodes."""
    x, w = graph.inputs_of(node.id)
    end = node if plan.bias is None else plan.bias.add

    def build(_: object, b: Any, *__: Value) -> Value:
        value: Value = plan.build(b, x, w, None if plan.bias is None else plan.bias.value(b))
        return value

    change = builder.replace_node(graph, end, build, budget, style, plan.decisions)
    return [graph.node(i) for i in change.made]


@dataclass
class _State:
    graph: Graph
    request: LoweringRequest
    style: Style
    budget: builder.NodeBudget
    problems: Collector = field(default_factory=Collector)
    layers: list[LoweredLayer] = field(default_factory=list)
    tables: CostTables = field(default_factory=dict)
    costs_only: bool = False


def lower(
    graph: Graph,
    form: str | None = None,
    target: str | PathLike[str] | Target | None = None,
    **options: Any,
) -> Lowered:
    """Return a copy of the graph in which every deconvolution is lowered; see `irdeconv.lower`.

    `options` are fields of LoweringRequest. Also raises UsageError for an unknown form or target,
    InferenceError if the graph does not fit together, TargetError if a layer that is written
    violates a condition, LimitError beyond the budget of nodes and for tensors beyond the limits.
    """
    request = LoweringRequest.of(form, target, **options)
    if request.only is not None:
        kind = "Convolution" if request.convolutions else "ConvolutionBackprop"
        nodes = (n for n in every_node(graph) if n.op.deconvolution or kind in n.type)
        request.require_match(n.name for n in nodes)
    low = lower_for(graph, request, builder.NodeBudget(current().lowered_total))
    if request.target.operations is None:
        return low
    found = check_graph(standardize(low.graph), request.target, lambda node: bool(node.origins))
    problems = Collector(list(low.report.diagnostics))
    report_violations(problems, found, request)
    return low._replace(report=replace(low.report, diagnostics=tuple(problems.diagnostics)))


@work.gc_paused()
def lower_for(
    graph: Graph,
    request: LoweringRequest,
    budget: builder.NodeBudget,
    style: Style = builder.DEFAULT_STYLE,
    costs_only: bool = False,
) -> Lowered:
    """Lower a graph on request; the budget of nodes may be one of several graphs.

    The written form is not checked against the target. With `costs_only` the deconvolutions stay.
    """
    state = _State(inferred(graph), request, request.styled(style), budget, costs_only=costs_only)
    fused = fuse_channels(state.graph) if request.fuse else ()
    forms.require_room(state.graph, request.form, budget)
    _lower_graph(state)
    require_lowered(state.problems)
    _require_sizes(state.graph)
    state.graph.lint()
    diagnostics = tuple(state.problems.diagnostics)
    report = LoweringReport(request.form, tuple(state.layers), diagnostics, request.named, fused)
    return Lowered(state.graph, report)


def require_lowered(problems: Collector) -> None:
    """Raise the error of layers that could not be lowered, if there are any."""
    codes = "".join({re.sub("E6..", "E6", d.code) for d in problems.errors})
    problems.require_none({"E421": TargetError, "E6": LimitError}.get(codes, LoweringError))


def report_violations(
    problems: Collector, found: Sequence[Violation], request: LoweringRequest
) -> None:
    """Add layers that were written and violate conditions; TargetError unless on best effort."""
    by_layer: dict[str, list[Violation]] = {}
    for violation in found:
        by_layer.setdefault(violation.layer, []).append(violation)
    for layer, violations in by_layer.items():
        code, first = "W402" if request.best_effort else "E421", violations[0]
        text = f'{first.operation} "{layer}" violates conditions of {request.target.name}'
        notes = [Note(v.text) for v in violations]
        problems.add(code, text, location=first.location, layer=layer, notes=notes)
    problems.require_none(TargetError)


def _lower_graph(state: _State) -> Graph:
    """Lower a graph in place, and its bodies; returns it."""
    graph = state.graph
    change_bodies(graph, lambda body: _lower_graph(replace(state, graph=body.copy())))
    first = graph.next_id
    dead = {n.id for n in graph.nodes()} - graph.live()
    for node in progress.each(
        "lowering",
        [n for n in graph.topological() if n.op.deconvolution and state.request.selects(n.name)],
        name=attrgetter("name"),
    ):
        _lower_one(state, node)
    if state.request.convolutions and state.request.targeted:
        _lower_convolutions(state)
    _warn_of_unknown(state)
    if not state.problems.errors and not state.costs_only:
        builder.remove_dead(graph, dead)
        _check_language(graph, state.request, first)
        builder.unique_names(graph)
    return graph


def _require_sizes(graph: Graph) -> None:
    """Infer a lowered graph; LimitError (E602) if a tensor that it needs is too large."""
    problems = Collector([d for d in infer_specs(graph) if d.code == "E602"])
    for node in graph.nodes("ZeroInsertion"):
        if not isinstance(node.op, core.ZeroInsertion):  # an unknown operation of that name
            continue
        # Its result before the crop, if it is spelled as Pads.
        padded = core.ZeroInsertion(node.op.strides, trailing=True)
        (spread,) = infer_op(padded, graph.input_specs(node.id))
        found = beyond(spread)
        if found and not problems.errors:
            hint = raise_hint(found[1]) if found[1] else None
            text = f"{node.label}: the padded {spread} {found[0]}"
            problems.add_at(node, "E602", text, hint=hint)
    problems.require_none(LimitError)


# The operations that lowering may emit: the convolution, its surroundings, arithmetic on sizes.
LANGUAGE = {
    *NATIVE_OPERATIONS,
    *("ZeroInsertion", "DepthToSpace", "Broadcast", "Pad", "Convolution", "GroupConvolution"),
    *("Const", "Convert", "ShapeOf", "Gather", "Concat", "Slice", "StridedSlice", "Tile"),
    *("Interpolate", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Add", "Subtract"),
    *("Multiply", "Divide", "Maximum", "ReLU", "Tanh", "Sigmoid", "PReLU", "Clamp", "HardSigmoid"),
}


def _check_language(graph: Graph, request: LoweringRequest, first: int) -> None:
    """Raise LoweringError if a deconvolution or an unexpected operation is left; new from first."""
    problems = Collector()
    for node in graph.nodes():
        native = node.origins and node.type in NATIVE_OPERATIONS
        left = node.op.deconvolution and not native and request.selects(node.name)
        if left or (node.id >= first and node.type not in LANGUAGE):
            problems.add_at(node, "E401", f"{node.label} does not belong in a lowered graph")
    problems.require_none(LoweringError)


def canonicalize(graph: Graph, node: Node, budget: builder.NodeBudget | None = None) -> Node:
    """Replace a dialect's deconvolution by core.Deconvolution and return that node."""
    if not isinstance(node.op, SugarOp):
        return node
    change = builder.replace_node(graph, node, builder.expand, budget)
    return next(n for n in map(graph.node, change.made) if isinstance(n.op, core.Deconvolution))


def canonicalized(graph: Graph) -> Graph:
    """Return an inferred graph whose deconvolutions are all core.Deconvolution.

    Those with values from inference stay: they are not computed again. If there is nothing to do,
    it is the graph itself. Raises OpError if a layer cannot be expanded.
    """
    layers = (n for n in graph.topological() if n.op.deconvolution)
    sugar = [n for n in layers if isinstance(n.op, SugarOp) and n.spec().known is None]
    if not sugar:
        return graph
    out = graph.copy()
    for node in sugar:
        canonicalize(out, out.node(node.id))
    infer_specs(out, given={n.id: n.spec() for n in out.parameters})  # it may be a body
    return out


def _lower_one(state: _State, node: Node) -> None:
    graph, source, first = state.graph, node, state.graph.next_id
    direct = builder.products(graph, [node])
    try:
        canonical = canonicalize(graph, node, state.budget)
        spread = forms.examine(graph, canonical)
        bias = forms.bias_behind(graph, canonical)
        costs = _costs(state, canonical, bias is not None, spread)
        if state.costs_only:
            state.layers.append(replace(_row(graph, source, "", direct, ()), costs=costs))
            return
        form, skipped, made = _apply(state, canonical, bias, costs)
    except OpError as e:
        if node.id in graph:
            report(state.problems, graph, node, e.problem)
        else:
            code = e.problem.code if e.problem.code.startswith("E6") else "E400"
            state.problems.add_at(source, code, f"{source.label}: {e}", hint=e.problem.hint)
        return
    _rename(graph, source, [graph.node(i) for i in range(first, graph.next_id) if i in graph])
    if spread is not None:
        _warn_of_spreading(state, source, spread, form)
    row = _row(graph, source, form, direct, made)
    state.layers.append(replace(row, reason=skipped, costs=costs, spread=spread))


def _costs(
    state: _State, node: Node, biased: bool, spread: forms.NonFiniteReport | None
) -> tuple[FormCost, ...]:
    """Return the costs of the forms of a core.Deconvolution, or of the requested form."""
    request = state.request
    if not request.explain:
        return ()
    alone = None if request.explain_costs or request.form == AUTO else request.form
    every = request.explain_costs or alone is not None
    sums = request.target.wide_sums or not (request.quantized or is_quantized(state.graph, node))
    how: dict[str, Any] = {"bias": biased, "spread": spread, "alone": alone, "all_costs": every}
    how |= {"sums": sums, "best_effort": request.best_effort}
    task = PlanningTask(state.graph, node, request.target, state.style, **how)
    return cost_table(task, state.tables)


def _row(
    graph: Graph, source: Node, form: str, direct: int | None, made: Sequence[Node]
) -> LoweredLayer:
    """Return the record of a layer that new nodes replace."""
    summed = [n for n in made if isinstance(n.op, ConvolutionBase | BackpropData)]
    types = tuple(n.type for n in made if n.type != "Const")
    lowered = builder.products(graph, summed)
    return LoweredLayer(source.name, source.type, form, None, direct, lowered, types)


def _apply(
    state: _State, node: Node, bias: forms.ChannelBias | None, costs: tuple[FormCost, ...]
) -> tuple[str, str | None, list[Node]]:
    """Rewrite a core.Deconvolution; return the form, why it is not the wanted one, the nodes."""
    form, skipped = _wanted(state, node, costs)
    made = _replaced(state, node, bias, form, costs)
    if isinstance(made, emit.Skip):
        form, skipped = FALLBACK, made.reason
        if all(r.form != FALLBACK for r in costs):
            state = replace(state, request=replace(state.request, form=FALLBACK), tables={})
            costs = _costs(state, node, bias is not None, None)
        made = _replaced(state, node, bias, form, costs)
        assert not isinstance(made, emit.Skip)
    return form, skipped, made


def _lower_convolutions(state: _State) -> None:
    """Rewrite the convolutions of the model that violate conditions of the target."""
    graph, request = state.graph, state.request
    nodes = [n for n in graph.topological() if isinstance(n.op, ConvolutionBase) and not n.origins]
    for node in (n for n in nodes if request.selects(n.name)):
        plan = plan_convolution(graph, node, request.target, state.style)
        if plan is None:
            continue
        row = FormCost("as it is", None, None, "; ".join(plan.violations) or None)
        if plan.violations:
            _unmet(state, node, (row,), "convolution")
            continue
        direct = builder.products(graph, [node])
        made = legalised(graph, node, plan, state.budget, state.style)
        state.layers.append(_row(graph, node, "legal", direct, made))


def _replaced(
    state: _State,
    node: Node,
    bias: forms.ChannelBias | None,
    form: str,
    costs: tuple[FormCost, ...],
) -> list[Node] | emit.Skip:
    """Replace a core.Deconvolution, and the Add behind it that moves in front of interleaving."""
    graph = state.graph
    decisions = next((r.decisions for r in costs if r.form == form), ())
    rule = forms.forms_for(state.request.target)[form]
    absorbed = bias if bias is not None and (form != FALLBACK or state.request.targeted) else None
    op, (x, w, begin, end) = node.op, graph.inputs_of(node.id)
    assert isinstance(op, core.Deconvolution)
    last = node if absorbed is None else absorbed.add

    def build(_: object, b: builder.GraphBuilder, *__: Value) -> Value | emit.Skip:
        added = None if absorbed is None else absorbed.value(b)
        return rule.lower(op, b, DeconvolutionInputs(x, w, begin, end, added))

    change = builder.replace_node(graph, last, build, state.budget, state.style, decisions)
    if change.skipped:
        return emit.Skip(change.skipped)
    if absorbed is not None:
        builder.sweep(graph, [node.id])
    return [graph.node(i) for i in change.made]


def _wanted(state: _State, node: Node, costs: tuple[FormCost, ...]) -> tuple[str, str | None]:
    """Return the form to try, and why it is not the wanted one."""
    if state.request.form != AUTO:
        row = next((r for r in costs if r.form == state.request.form and r.violations), None)
        if row is not None and state.request.targeted:
            _unmet(state, node, (row,))
        return state.request.form, None
    choice = chosen(costs)
    if choice is not None:
        return choice.form, None
    _unmet(state, node, costs)
    planned = [r for r in costs if r.cost is not None]
    least = min(planned, key=lambda r: len(r.violations), default=None)
    return least.form if least else FALLBACK, f"no form meets {state.request.target.name}"


def _unmet(
    state: _State, node: Node, rows: Sequence[FormCost], kind: str = "deconvolution"
) -> None:
    """Report the conditions that forms of a layer violate."""
    name = state.request.target.name
    verdict = f"no form meets the conditions of {name}"
    if len(rows) == 1:
        verdict = f"{rows[0].form} violates conditions of {name}"
    title = node.origins[0] if node.origins else node.name
    best = state.request.best_effort
    code, hint = ("W402", None) if best else ("E421", "--best-effort writes it all the same")
    notes = [Note(f"{r.form}: {r.refused}") for r in rows if r.refused]
    text = f'{kind} "{title}": {verdict}'
    state.problems.add(code, text, location=node.location, layer=title, notes=notes, hint=hint)


def _warn_of_spreading(state: _State, node: Node, spread: forms.NonFiniteReport, form: str) -> None:
    """Warn of infinities and NaNs in filter and bias, with the outputs spoilt in each form."""
    counts = [
        f"{bad} of {size} {kind} values"
        for kind, bad, size in (
            ("filter", spread.filter_bad, spread.filter_size),
            ("bias", spread.bias_bad, spread.bias_size),
        )
        if bad
    ]
    message = f"{node.label}: {' and '.join(counts)} are not finite"
    if spread.affected:
        by_form = ", ".join(f"{n} as {f}" for f, n in spread.affected.items() if f in forms.FORMS)
        message += (
            f"; {form} spoils {spread.affected[form]} of {spread.outputs} outputs, the definition "
            f"{spread.affected[forms.DEFINITION]} ({by_form}"
            f"{'; for sizes that stand in for unknown ones' if spread.assumed else ''})"
        )
    elif spread.outputs is not None:
        message += f"; which of the {spread.outputs} outputs they spoil is too much to count"
    state.problems.add_at(node, "W401", message)


def _rename(graph: Graph, source: Node, made: list[Node]) -> None:
    """Replace the old operation's type in the names of new nodes by the new type.

    Frontends name layers like "up.0/ConvolutionBackpropData", which would be wrong afterwards. An
    output of version 10 has its layer's name, which therefore stays.
    """
    readers = (graph.node(i) for n in made for i in graph.successors(n.id))
    # The Convert that version 10 implies in front of a Result.
    ends = (u.type == "Result" or (isinstance(u.op, Convert) and u.op.at_end) for u in readers)
    called = graph.info.ir_version == 10 and any(ends)
    if source.type not in source.name or called:
        return
    new = source.name.replace(source.type, source.type.removesuffix("BackpropData"))
    for node in made:
        node.name = node.name.replace(source.name, new, 1)


def _warn_of_unknown(state: _State) -> None:
    """Warn of deconvolutions in bodies of operations that are not known.

    Also of operations that only the file declares, if new nodes rely on their shapes.
    """
    graph = state.graph
    for node in graph.nodes():
        sections = node.op.sections if isinstance(node.op, Opaque) else ()
        if any(b"ConvolutionBackpropData" in s.xml for s in sections):
            text = "its body contains deconvolutions, which stay as they are"
            state.problems.add_at(node, "W400", f"{node.label}: {text}")
    behind = reached((n.id for n in graph.nodes() if n.origins), graph.producers)
    for node in map(graph.node, sorted(behind)):
        inner = (n for body in bodies_of(node) for n in every_node(body.graph))
        if is_stale(node):
            state.problems.diagnostics.append(warning(graph, node))
        elif any(isinstance(n.op, Opaque) for n in (node, *inner)):
            text = "shapes behind it rest on those that the file declares"
            message = f"{node.label}: irdeconv does not know the operation; {text}"
            state.problems.add_at(node, "W204", message)
