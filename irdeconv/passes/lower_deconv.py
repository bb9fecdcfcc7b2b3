"""Lowering: dialects to core.Deconvolution, that to the chosen form, and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.errors import (
    Collector,
    Diagnostic,
    InferenceError,
    LoweringError,
    OpError,
    UsageError,
)
from irdeconv.graph import Graph, Node
from irdeconv.op import SugarOp
from irdeconv.ops import core
from irdeconv.ops.basic import Const, Opaque
from irdeconv.passes.forms import FORMS
from irdeconv.passes.infer_specs import infer_specs, report
from irdeconv.passes.rewrite import remove_dead, replace_node, unique_names
from irdeconv.suggest import did_you_mean


@dataclass(frozen=True)
class LoweredLayer:
    """What became of one deconvolution.

    `form` is None where it stayed (`reason` says why). MACs are products: `direct` those of the
    scatter, `lowered` those of the emitted convolution, inserted zeros included; None where sizes
    are unknown. `nodes` are the types of the new nodes.
    """

    name: str
    type: str
    form: str | None
    reason: str | None
    macs_direct: int | None
    macs_lowered: int | None
    nodes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "type": self.type,
            "form": self.form,
            "reason": self.reason,
            "macs_direct": self.macs_direct,
            "macs_lowered": self.macs_lowered,
            "nodes": list(self.nodes),
        }


@dataclass(frozen=True)
class LoweringReport:
    """One record per deconvolution, and warnings."""

    form: str
    layers: tuple[LoweredLayer, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    def __iter__(self) -> Any:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "form": self.form,
            "layers": [r.to_dict() for r in self.layers],
            "diagnostics": [d.to_dict() for d in self.diagnostics],
        }

    def __str__(self) -> str:
        lines = [
            f"{r.name}: {r.type} -> {', '.join(r.nodes)}"
            if r.form
            else f"{r.name}: {r.type} stays: {r.reason}"
            for r in self.layers
        ]
        return "\n".join(lines) or "no deconvolutions"


@dataclass(frozen=True)
class Lowered:
    """The lowered graph and the report."""

    graph: Graph
    report: LoweringReport


@dataclass
class _State:
    graph: Graph
    form: str
    found: Collector = field(default_factory=Collector)
    layers: list[LoweredLayer] = field(default_factory=list)


def is_deconvolution(node: Node) -> bool:
    """Whether a node is a deconvolution of any dialect or the canonical one."""
    return isinstance(node.op, core.Deconvolution) or (
        isinstance(node.op, SugarOp) and node.op.deconvolution
    )


def lower(graph: Graph, form: str = "zero-insertion") -> Lowered:
    """Return a copy of the graph in which every deconvolution is lowered in the given form.

    Raises UsageError for an unknown form, InferenceError where the graph does not fit together,
    LoweringError where a deconvolution cannot be lowered (all of them are listed).
    """
    if form not in FORMS:
        hint = did_you_mean(form, FORMS)
        raise UsageError(
            Diagnostic(
                "E700",
                "error",
                f'there is no lowering form "{form}": {", ".join(FORMS)}',
                hint=hint,
            )
        )
    state = _State(inferred(graph), form)
    dead = {n.id for n in state.graph.nodes()} - state.graph.live()
    for node in [n for n in state.graph.topological() if is_deconvolution(n)]:
        _lower_one(state, node)
    _warn_of_bodies(state)
    if state.found.errors:
        raise LoweringError(state.found.diagnostics)
    remove_dead(state.graph, dead)
    _check_language(state.graph)
    unique_names(state.graph)
    infer_specs(state.graph)
    state.graph.lint()
    return Lowered(
        state.graph, LoweringReport(form, tuple(state.layers), tuple(state.found.diagnostics))
    )


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
        "FloorMod",
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
    found = Collector()
    for node in graph.nodes():
        if is_deconvolution(node) or (node.origins and node.type not in LANGUAGE):
            found.add(
                "E401",
                f'{node.type} "{node.name}" does not belong in a lowered graph',
                location=node.location,
                layer=node.name,
            )
    if found.errors:
        raise LoweringError(found.diagnostics)


def inferred(graph: Graph) -> Graph:
    """Return a copy with every spec inferred; InferenceError with everything that does not fit."""
    out = graph.copy()
    if any(n.specs is None for n in out.nodes()):
        problems = infer_specs(out)
        if any(d.severity == "error" for d in problems):
            raise InferenceError(problems)
    return out


def canonicalize(graph: Graph, node: Node) -> Node:
    """Replace a dialect's deconvolution by core.Deconvolution and return that node."""
    op = node.op
    if not isinstance(op, SugarOp):
        return node
    change = replace_node(graph, node, lambda o, b, *inputs: o.expand(b, *inputs))
    return next(n for n in map(graph.node, change.made) if isinstance(n.op, core.Deconvolution))


FALLBACK = "zero-insertion"  # it applies to every deconvolution


def _lower_one(state: _State, node: Node) -> None:
    graph, source = state.graph, node
    if state.form in ("zero-insertion", "stacked"):
        _warn_of_spreading(state, node)
    direct = node.op.macs(graph.input_specs(node.id), node.specs or ())
    try:
        canonical = canonicalize(graph, node)
        form, skipped = state.form, None
        change = replace_node(graph, canonical, FORMS[form].build)
        if change.skipped:
            form, skipped = FALLBACK, change.skipped
            change = replace_node(graph, canonical, FORMS[form].build)
    except OpError as e:
        if node.id in graph:
            report(state.found, graph, node, e.problem)
        else:
            state.found.add(
                "E400",
                f'{source.type} "{source.name}": {e}',
                layer=source.name,
                location=source.location,
            )
        return
    made = [graph.node(i) for i in change.made]
    _rename(graph, source)
    lowered = [
        n.op.macs(graph.input_specs(n.id), n.specs or ())
        for n in made
        if n.type in ("Convolution", "GroupConvolution", "MatMul")
    ]
    total = None if any(m is None for m in lowered) else sum(m or 0 for m in lowered)
    state.layers.append(
        LoweredLayer(
            source.name,
            source.type,
            form,
            skipped,
            direct,
            total,
            tuple(n.type for n in made if n.type != "Const"),
        )
    )


def _warn_of_spreading(state: _State, node: Node) -> None:
    """Warn of infinities and NaNs in the filter: an inserted zero times one of them is NaN."""
    source = state.graph.node(state.graph.inputs_of(node.id)[1].node)
    if not isinstance(source.op, Const) or not source.op.data.available:
        return
    values = source.op.data.array()
    bad = 0 if values.dtype.kind in "biuO" else int(values.size - np.isfinite(values).sum())
    if bad:
        state.found.add(
            "W401",
            f'{node.type} "{node.name}": {bad} of {values.size} filter values are not finite; '
            "zero-insertion spreads them as NaN over every output that such a tap passes",
            location=node.location,
            layer=node.name,
        )


def _rename(graph: Graph, source: Node) -> None:
    """Let names that end in the old operation's type tell the new one; others stay as they are.

    Frontends name layers like "up.0/ConvolutionBackpropData", which would be a lie afterwards.
    """
    if source.type not in source.name:
        return
    new = source.name.replace(source.type, source.type.removesuffix("BackpropData"))
    for node in graph.nodes():
        if node.origins == (source.origins or (source.name,)):
            node.name = node.name.replace(source.name, new, 1)


def _warn_of_bodies(state: _State) -> None:
    for node in state.graph.nodes():
        if isinstance(node.op, Opaque) and any(
            b"ConvolutionBackpropData" in s.xml for s in node.op.sections
        ):
            state.found.add(
                "W400",
                f'{node.type} "{node.name}": its body contains deconvolutions, which stay '
                "as they are",
                location=node.location,
                layer=node.name,
            )
