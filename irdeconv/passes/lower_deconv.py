"""Lowering: dialects to core.Deconvolution, that to the chosen form, and a report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from os import PathLike

from irdeconv import garbage, progress
from irdeconv.errors import Collector, LimitError, LoweringError, OpError
from irdeconv.graph import Graph, Node
from irdeconv.limits import current, raise_hint
from irdeconv.op import SugarOp
from irdeconv.ops import core
from irdeconv.ops.basic import Opaque
from irdeconv.ops.bodies import bodies_of, change_bodies, every_node
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convert import Convert
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.passes.builder import NodeBudget
from irdeconv.passes.choose import FormCost, chosen, cost_table
from irdeconv.passes.declared import is_stale, warning
from irdeconv.passes.foreseen import require_room
from irdeconv.passes.form_names import AUTO, FALLBACK, require_form
from irdeconv.passes.forms import FORMS
from irdeconv.passes.infer_specs import beyond, infer_specs, inferred, report
from irdeconv.passes.nonfinite import DEFINITION, NonFiniteReport, examine
from irdeconv.passes.records import Lowered, LoweredLayer, LoweringReport
from irdeconv.passes.rewrite import expand, products, remove_dead, replace_node, unique_names
from irdeconv.passes.subpixel import spell_depth_to_space
from irdeconv.targets.profile import Target, load_target


@dataclass
class _State:
    graph: Graph
    form: str
    profile: Target
    explain: bool
    targeted: bool
    budget: NodeBudget
    problems: Collector = field(default_factory=Collector)
    layers: list[LoweredLayer] = field(default_factory=list)


@garbage.paused()
def lower(
    graph: Graph,
    form: str = FALLBACK,
    target: str | PathLike[str] | Target | None = None,
    *,
    explain_costs: bool = False,
    budget: NodeBudget | None = None,
) -> Lowered:
    """Return a copy of the graph in which every deconvolution is lowered in the given form.

    With the form "auto" each takes the cheapest form that the target admits, the target being a
    packaged target's name, a .toml file or a Target. `explain_costs` puts the costs of all forms
    into the report for other forms as well. Raises UsageError for an unknown form or target,
    InferenceError where the graph does not fit together, LoweringError where a deconvolution cannot
    be lowered (all of them are listed), LimitError beyond the budget of nodes (`lowered_total`) and
    for tensors of the lowered graph that are larger than the limits.
    """
    require_form(form)
    budget = budget or NodeBudget(current().lowered_total)
    profile = load_target(target)
    targeted = target is not None
    explain = explain_costs or targeted or form == AUTO
    state = _State(inferred(graph), form, profile, explain, targeted, budget)
    require_room(state.graph, form, budget)
    _lower_graph(state)
    if state.problems.errors:
        raise LoweringError(state.problems.diagnostics)
    _require_sizes(state.graph)
    state.graph.lint()
    named = profile.name if explain else None
    diagnostics = tuple(state.problems.diagnostics)
    return Lowered(state.graph, LoweringReport(form, tuple(state.layers), diagnostics, named))


def _lower_graph(state: _State) -> Graph:
    """Lower a graph in place, and its bodies; returns it."""
    graph = state.graph
    change_bodies(graph, lambda body: _lower_graph(replace(state, graph=body.copy())))
    dead = {n.id for n in graph.nodes()} - graph.live()
    for node in progress.each(
        "lowering",
        [n for n in graph.topological() if n.op.deconvolution],
        name=attrgetter("name"),
    ):
        _lower_one(state, node)
    _warn_of_bodies(state)
    _warn_of_declared(state)
    if not state.problems.errors:
        remove_dead(graph, dead)
        _check_language(graph)
        unique_names(graph)
    return graph


def _require_sizes(graph: Graph) -> None:
    """Infer a lowered graph; LimitError (E602) where a tensor that it needs is too large."""
    problems = Collector([d for d in infer_specs(graph) if d.code == "E602"])
    for node in graph.nodes("ZeroInsertion"):
        if not isinstance(node.op, core.ZeroInsertion):  # an unknown operation of that name
            continue
        # What it is before it is cropped, where it is spelled as Pads.
        spread = core.ZeroInsertion(node.op.strides, True).infer(*graph.input_specs(node.id))
        found = beyond(spread)
        if found and not problems.errors:
            text = f'{node.type} "{node.name}": the padded {spread} {found[0]}'
            hint = raise_hint(found[1]) if found[1] else None
            problems.add("E602", text, location=node.location, layer=node.name, hint=hint)
    if problems.errors:
        raise LimitError(problems.diagnostics)


# What the lowering may emit: the convolution, its surroundings, arithmetic on sizes.
LANGUAGE = frozenset(
    [
        "ZeroInsertion",
        "DepthToSpace",
        "Broadcast",
        "Pad",
        "Convolution",
        "GroupConvolution",
        "Const",
        "Convert",
        "ShapeOf",
        "Gather",
        "Concat",
        "Slice",
        "Transpose",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Add",
        "Subtract",
        "Multiply",
        "Divide",
        "Maximum",
        "ReLU",
        "Tanh",
        "Sigmoid",
        "PReLU",
        "Clamp",
        "HardSigmoid",
    ]
)


def _check_language(graph: Graph) -> None:
    """Raise LoweringError where a deconvolution or anything unforeseen is left."""
    problems = Collector()
    for node in graph.nodes():
        if node.op.deconvolution or (node.origins and node.type not in LANGUAGE):
            problems.add(
                "E401",
                f'{node.type} "{node.name}" does not belong in a lowered graph',
                location=node.location,
                layer=node.name,
            )
    if problems.errors:
        raise LoweringError(problems.diagnostics)


def canonicalize(graph: Graph, node: Node, budget: NodeBudget | None = None) -> Node:
    """Replace a dialect's deconvolution by core.Deconvolution and return that node."""
    op = node.op
    if not isinstance(op, SugarOp):
        return node
    change = replace_node(graph, node, expand, budget)
    return next(n for n in map(graph.node, change.made) if isinstance(n.op, core.Deconvolution))


def canonicalized(graph: Graph) -> Graph:
    """Return an inferred graph whose deconvolutions are all core.Deconvolution.

    Those whose values inference knows stay: they are not computed again. The graph itself where
    nothing is to be done; OpError where a layer cannot be expanded.
    """
    sugar = [
        n
        for n in graph.topological()
        if n.op.deconvolution and isinstance(n.op, SugarOp) and n.spec().known is None
    ]
    if not sugar:
        return graph
    out = graph.copy()
    for node in sugar:
        canonicalize(out, out.node(node.id))
    infer_specs(out, given={n.id: n.spec() for n in out.parameters})  # it may be a body
    return out


def _lower_one(state: _State, node: Node) -> None:
    graph, source, first = state.graph, node, state.graph.next_id
    direct = products(graph, [node])
    try:
        canonical = canonicalize(graph, node, state.budget)
        spread = examine(graph, canonical)
        costs = cost_table(graph, canonical, state.profile, spread) if state.explain else ()
        form, skipped, made = _apply(state, canonical, costs)
    except OpError as e:
        if node.id in graph:
            report(state.problems, graph, node, e.problem)
        else:
            state.problems.add(
                "E400",
                f'{source.type} "{source.name}": {e}',
                layer=source.name,
                location=source.location,
            )
        return
    _rename(graph, source, [graph.node(i) for i in range(first, graph.next_id) if i in graph])
    if spread is not None:
        _warn_of_spreading(state, source, spread, form)
    state.layers.append(
        LoweredLayer(
            name=source.name,
            type=source.type,
            form=form,
            reason=skipped,
            macs_direct=direct,
            macs_lowered=products(graph, [n for n in made if isinstance(n.op, ConvolutionBase)]),
            nodes=tuple(n.type for n in made if n.type != "Const"),
            costs=costs,
            spread=spread,
        )
    )


def _apply(
    state: _State, node: Node, costs: tuple[FormCost, ...]
) -> tuple[str, str | None, list[Node]]:
    """Rewrite a core.Deconvolution; return the form, why it is not the wanted one, the nodes."""
    form, skipped = _wanted(state, node, costs)
    change = replace_node(state.graph, node, FORMS[form].lower, state.budget)
    if change.skipped:
        form, skipped = FALLBACK, change.skipped
        change = replace_node(state.graph, node, FORMS[form].lower, state.budget)
    made: list[int] = []
    for new in map(state.graph.node, change.made):
        spell = isinstance(new.op, DepthToSpace) and not state.profile.has("DepthToSpace")
        if spell:
            made += replace_node(state.graph, new, spell_depth_to_space, state.budget).made
        else:
            made.append(new.id)
    return form, skipped, [state.graph.node(i) for i in made]


def _wanted(state: _State, node: Node, costs: tuple[FormCost, ...]) -> tuple[str, str | None]:
    """Return the form to try, and for auto why it is none that the target admits."""
    name = state.profile.name
    if state.form != AUTO:
        for row in costs if state.targeted else ():
            if row.form == state.form and row.refused and row.cost is not None:
                _warn_of_target(state, node, f"{row.form} does not suit {name}: {row.refused}")
        return state.form, None
    choice = chosen(costs)
    if choice is not None:
        return choice, None
    reasons = "; ".join(f"{r.form}: {r.refused}" for r in costs)
    _warn_of_target(state, node, f"no form suits {name}, {FALLBACK} is taken ({reasons})")
    return FALLBACK, f"no form suits {name}"


def _warn_of_target(state: _State, node: Node, message: str) -> None:
    message = f'deconvolution "{node.name}": {message}'
    state.problems.add("W402", message, location=node.location, layer=node.name)


def _warn_of_spreading(state: _State, node: Node, spread: NonFiniteReport, form: str) -> None:
    """Warn of infinities and NaNs in filter and bias: how many outputs they spoil in each form."""
    counts = [
        f"{bad} of {size} {what} values"
        for what, bad, size in (
            ("filter", spread.filter_bad, spread.filter_size),
            ("bias", spread.bias_bad, spread.bias_size),
        )
        if bad
    ]
    message = f'{node.type} "{node.name}": {" and ".join(counts)} are not finite'
    if spread.affected:
        by_form = ", ".join(f"{n} as {f}" for f, n in spread.affected.items() if f in FORMS)
        message += (
            f"; {form} spoils {spread.affected[form]} of {spread.outputs} outputs, the definition "
            f"{spread.affected[DEFINITION]} ({by_form}"
            f"{'; for sizes that stand in for unknown ones' if spread.assumed else ''})"
        )
    elif spread.outputs is not None:
        message += f"; which of the {spread.outputs} outputs they spoil is too much to count"
    state.problems.add("W401", message, location=node.location, layer=node.name)


def _rename(graph: Graph, source: Node, made: list[Node]) -> None:
    """Let new nodes that are called after the type of the old operation tell the new one.

    Frontends name layers like "up.0/ConvolutionBackpropData", which would be a lie afterwards. An
    output of version 10 is called as its layer, whose name therefore stays.
    """
    called = graph.info.ir_version == 10 and any(_at_end(graph, n) for n in made)
    if source.type not in source.name or called:
        return
    new = source.name.replace(source.type, source.type.removesuffix("BackpropData"))
    for node in made:
        node.name = node.name.replace(source.name, new, 1)


def _at_end(graph: Graph, node: Node) -> bool:
    """Whether a Result reads a node, or the Convert that version 10 implies."""
    users = [graph.node(i) for i in graph.successors(node.id)]
    return any(u.type == "Result" or (isinstance(u.op, Convert) and u.op.at_end) for u in users)


def _warn_of_declared(state: _State) -> None:
    """Warn of operations that only the file declares, where new nodes rely on their shapes."""
    graph = state.graph
    todo = [n.id for n in graph.nodes() if n.origins]
    seen = set(todo)
    while todo:
        for value in graph.inputs_of(todo.pop()):
            if value.node not in seen:
                seen.add(value.node)
                todo.append(value.node)
    for node in map(graph.node, sorted(seen)):
        inner = (n for body in bodies_of(node) for n in every_node(body.graph))
        if is_stale(node):
            state.problems.diagnostics.append(warning(graph, node))
        elif any(isinstance(n.op, Opaque) for n in (node, *inner)):
            state.problems.add(
                "W204",
                f'{node.type} "{node.name}": irdeconv does not know the operation; shapes behind '
                "it rest on those that the file declares",
                location=node.location,
                layer=node.name,
            )


def _warn_of_bodies(state: _State) -> None:
    """Warn of deconvolutions in bodies of operations that are not known."""
    for node in state.graph.nodes():
        if isinstance(node.op, Opaque) and any(
            b"ConvolutionBackpropData" in s.xml for s in node.op.sections
        ):
            state.problems.add(
                "W400",
                f'{node.type} "{node.name}": its body contains deconvolutions, which stay '
                "as they are",
                location=node.location,
                layer=node.name,
            )
