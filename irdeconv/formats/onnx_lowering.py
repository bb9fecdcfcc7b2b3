"""Lower the deconvolutions of an ONNX model in place; the other nodes stay as they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base import errors, progress, work
from irdeconv.base.arguments import checked
from irdeconv.base.hints import hinted
from irdeconv.base.limits import current
from irdeconv.base.markup import line
from irdeconv.formats import (
    onnx_spelling,  # noqa: F401 -- importing fills RULES
    onnx_types,
)
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.onnx_container import (
    OnnxFile,
    OnnxSource,
    Scope,
    load_file,
    names,
    scopes,
    stage_file,
    uses,
)
from irdeconv.formats.onnx_node import STANDARD, title_of
from irdeconv.formats.onnx_reader import label
from irdeconv.formats.onnx_spelling import OLDEST, NodeWriter
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import FreshNames, Graph, Value
from irdeconv.ir.spec import Shape
from irdeconv.rewrite.builder import NodeBudget, replace_node
from irdeconv.rewrite.emit import Style, spell_zero_insertion
from irdeconv.rewrite.infer_specs import ShapeLike, parse_shape_like
from irdeconv.rewrite.lower_deconv import (
    LoweredLayer,
    LoweringReport,
    LoweringRequest,
    lower_for,
    report_violations,
    require_lowered,
)
from irdeconv.rewrite.targets import Target

ONNX_STYLE = Style(own_pads=True, pads_in_pairs=False, block_ranks=(4,))
PIECE = 4 * work.NODE  # units of a node that is imported once more, by itself
OF_CALLS = "each call gives its attributes; inline the functions first (onnx.inliner)"


@hinted
@dataclass(frozen=True)
class LoweredOnnx:
    """An ONNX model without deconvolutions, and a report of each; unpacks to proto and report.

    `model` is the original object, changed in place; `added` are the tensors that are new.
    """

    model: OnnxFile
    report: LoweringReport
    added: tuple[Any, ...] = ()

    @property
    def proto(self) -> Any:
        """The lowered model as an onnx.ModelProto."""
        return self.model.proto

    def __iter__(self) -> Iterator[Any]:
        return iter((self.proto, self.report))

    def __repr__(self) -> str:
        done = sum(r.form is not None for r in self.report)
        nodes = errors.count(len(self.proto.graph.node), "node")
        of = f"{done} of {errors.count(len(self.report), 'deconvolution')} lowered"
        return line(self, self.model.name, of, nodes)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@dataclass
class _Replaced:
    """The replacement of a node in a scope: nodes and tensors."""

    at: int
    nodes: list[Any]
    tensors: list[Any]


@dataclass
class _Rewriting:
    model: OnnxFile
    types: onnx_types.Types
    request: LoweringRequest
    semantics: Semantics
    problems: errors.Collector = field(default_factory=errors.Collector)
    layers: list[LoweredLayer] = field(default_factory=list)
    budget: NodeBudget = field(default_factory=lambda: NodeBudget(current().lowered_total))


def lower_model(
    model: OnnxFile,
    request: LoweringRequest,
    *,
    shapes: Mapping[str, Shape | None] | None = None,
    semantics: Semantics = "runtime",
) -> LoweredOnnx:
    """Lower the ConvTranspose nodes of a model in place; all other nodes stay as they are.

    `shapes` replaces the shapes of inputs, in the model too. A layer that cannot be lowered stays,
    and the report says why; for a target that is LoweringError. Raises UsageError for an unknown
    input, InferenceError if inputs of a node do not fit, InputError if external data is missing,
    TargetError for layers that violate the target's conditions, LimitError beyond `lowered_total`
    nodes.
    """
    onnx_types.set_shapes(model, shapes or {})
    every = list(scopes(model.proto))
    types = onnx_types.infer_types(model)
    if types.misfits:
        raise errors.InferenceError(types.misfits)
    if request.only is not None:
        kind = "Conv" if request.convolutions else onnx_types.CONV_TRANSPOSE
        nodes = (n for scope in every for n in scope.body.node if kind in n.op_type)
        request.require_match(map(title_of, nodes))
    state = _Rewriting(model, types, request, semantics)
    changes = _replacements(state, every)
    require_lowered(state.problems)
    made = {node.name for done in changes.values() for change in done for node in change.nodes}
    added = _change(changes)
    if request.target.operations is not None:
        found = onnx_types.check_nodes(model.proto, request.target, lambda n: n.name in made)
        report_violations(state.problems, found, request)
    diagnostics = tuple(state.problems.diagnostics)
    report = LoweringReport(request.form, tuple(state.layers), diagnostics, request.named)
    return LoweredOnnx(model, report, tuple(added))


def _replacements(state: _Rewriting, every: Sequence[Scope]) -> dict[Scope, list[_Replaced]]:
    """Return the replacements of nodes, by scope; nothing is changed yet."""
    taken = {s: FreshNames(names(s.body)) for s in every if s.parent is None}
    calls = {(f.domain, f.name) for f in state.model.proto.functions}
    found = [
        (s, at, n)
        for s in every
        for at, n in enumerate(s.body.node)
        if _counts(n, calls, state.request) and state.request.selects(title_of(n))
    ]
    changes: dict[Scope, list[_Replaced]] = {}
    with progress.stage("lowering", total=len(found)) as step:
        for scope, at, node in found:
            change = _one(state, scope, at, node, taken[scope.outermost])
            if change is not None:
                changes.setdefault(scope, []).append(change)
            step(detail=title_of(node))
    return changes


def _change(changes: Mapping[Scope, Sequence[_Replaced]]) -> list[Any]:
    """Put replacements into the model, drop constants that nothing reads; returns new tensors."""
    read = [(s, list(s.body.node[c.at].input)) for s, done in changes.items() for c in done]
    for scope, done in changes.items():
        nodes = scope.body.node
        for change in sorted(done, key=lambda c: c.at, reverse=True):
            del nodes[change.at]
            for node in reversed(change.nodes):
                nodes.insert(change.at, node)
    _drop(read)
    added: list[Any] = []
    for scope, done in changes.items():
        tensors = [t for c in done for t in c.tensors]
        if tensors:  # a function has no initializers
            kept = scope.body.initializer
            kept.extend(tensors)
            added += kept[len(kept) - len(tensors) :]
    return added


def _counts(node: Any, calls: Set[tuple[str, str]], request: LoweringRequest) -> bool:
    """Whether a node belongs into the report: a deconvolution, known or not, but no `calls`.

    For a function of the model the nodes in it count; exporters name functions after modules.
    """
    if request.convolutions and request.targeted and node.op_type == "Conv":
        return node.domain in STANDARD
    return onnx_types.CONV_TRANSPOSE in node.op_type and (node.domain, node.op_type) not in calls


def _one(
    state: _Rewriting, scope: Scope, at: int, node: Any, taken: FreshNames
) -> _Replaced | None:
    """Lower one node; None if it stays."""
    try:
        if not (node.output and node.output[0]):
            raise errors.OpError("it has no output", code="E208")
        lost = next((i for i in node.input if i and scope.owner(i) is None), None)
        if lost is not None:
            raise errors.OpError(f'its input "{lost}" has no producer', code="E204")
        if not onnx_types.is_deconvolution(node) and node.op_type != "Conv":
            unknown = f"irdeconv does not know {label(node)}"
            text = errors.asking(unknown, node.op_type, (onnx_types.CONV_TRANSPOSE,))
            raise errors.OpError(text, code="E206")
        if any(a.ref_attr_name for a in node.attribute):
            raise errors.OpError(OF_CALLS, code="E206")
        row, graph = _lowered(state, scope, node)
        if row is None:
            return None
        writer = _written(state, scope, node, graph, taken)
    except errors.TargetError as e:
        state.problems.diagnostics += e.diagnostics
    except errors.IrdeconvError as e:
        if isinstance(e, errors.LimitError) and not state.budget.left:
            raise
        _stays(state, node, e.diagnostics[0])
    else:
        where = f" ({scope.title})" if scope.title else ""
        nodes = tuple(n.op_type for n in writer.nodes if n.op_type != "Constant")
        state.layers.append(replace(row, name=f"{title_of(node)}{where}", nodes=nodes))
        return _Replaced(at, writer.nodes, writer.tensors)
    return None


def _stays(state: _Rewriting, node: Any, why: errors.Diagnostic) -> None:
    title, reason = title_of(node), why.message
    for prefix in (f'{node.op_type} "{title}": ', f"{node.op_type} "):
        reason = reason.removeprefix(prefix)
    if state.request.targeted and not state.request.best_effort:
        message = f'{node.op_type} "{title}": {reason}'
        state.problems.add(why.code, message, layer=title, hint=why.hint)
        if why.code == "E602":  # the other layers want the same
            require_lowered(state.problems)
    state.layers.append(
        LoweredLayer(
            name=title,
            type=node.op_type,
            form=None,
            reason=reason,
            macs_direct=None,
            macs_lowered=None,
        )
    )


def _lowered(state: _Rewriting, scope: Scope, node: Any) -> tuple[LoweredLayer | None, Graph]:
    """Lower a node in a graph of its own; there is no row for a convolution that may stay."""
    work.take(PIECE)
    known = onnx_types.inputs_of(scope, node, state.types)
    made = onnx_types.piece(state.model, scope, [node], [node.output[0]], known)
    source = onnx_types.graph_of(state.model, made, state.semantics)
    budget = state.budget
    last = source.inputs_of(source.results[0].id)[0].node
    budget.take(source.node(last), len(made.graph.node) - 1)  # nodes that compute constants
    makers = map(scope.producer, node.input[:2])  # of the data and the filter
    quantized = any(m is not None and m.op_type == "DequantizeLinear" for m in makers)
    request = replace(state.request, only=None, quantized=quantized)
    low = lower_for(source, request, budget, ONNX_STYLE)
    for d in low.report.diagnostics:
        state.problems.add(
            d.code, d.message, severity=d.severity, layer=d.layer, notes=d.notes, hint=d.hint
        )
    if any(k.declared for k in known.values()):
        title = title_of(node)
        text = f'{node.op_type} "{title}": the shape of its data is taken as declared'
        state.problems.add("W204", text, layer=title)
    return next(iter(low.report.layers), None), low.graph


def _written(
    state: _Rewriting, scope: Scope, node: Any, graph: Graph, taken: FreshNames
) -> NodeWriter:
    """Return the nodes that replace one; the last of them has its name and output."""
    for made in list(graph.nodes("ZeroInsertion")):
        change = replace_node(graph, made, spell_zero_insertion, state.budget, ONNX_STYLE)
        if change.skipped:
            raise errors.OpError(change.skipped, code="E400")
    base = title_of(node)
    given = {n.id: n.tensor_names[0][0] for n in graph.parameters}
    # Before IR version 4 initializers are no constants by themselves, but inputs.
    old = state.model.proto.ir_version < 4
    as_nodes = scope.is_function or scope.outermost.is_function or old
    writer = NodeWriter(graph, scope.opsets.get("", 0), taken, base, given, as_nodes)
    writer.require(OLDEST, "the nodes of a lowering")
    end_with(writer, graph.inputs_of(graph.results[0].id)[0], node)
    return writer


def end_with(writer: NodeWriter, value: Value, node: Any) -> None:
    """Write nodes that compute a value; the last of them gets the name and output of `node`."""
    result, taken = writer.value(value), writer.names
    if not writer.nodes or writer.nodes[-1].output[0] != result:
        result = writer.add("Identity", result)
    last = writer.nodes[-1]
    last.output[0] = node.output[0]
    if onnx_types.CONV_TRANSPOSE not in node.name:
        last.name = node.name
    else:
        last.name = taken.fresh(node.name.replace(onnx_types.CONV_TRANSPOSE, last.op_type))
    if isinstance(node.doc_string, str):  # text that is no UTF-8 comes as bytes, and cannot be set
        last.doc_string = node.doc_string
    last.metadata_props.extend(node.metadata_props)


def _drop(unused: Sequence[tuple[Scope, Sequence[str]]]) -> None:
    """Remove constants, and the nodes that computed them, if nothing reads them any more."""
    counts: dict[Scope, Counter[str]] = {}
    gone: defaultdict[Scope, set[str]] = defaultdict(set)
    for scope, inputs in unused:
        top = scope.outermost
        if top not in counts:
            counts[top] = uses(top.body)
        left, todo = counts[top], list(inputs[1:])
        while todo:
            name = todo.pop()
            owner = scope.owner(name) if name else None
            if owner is None or left[name] or name in gone[owner]:
                continue
            if name in owner.initializers:
                gone[owner].add(name)
                continue
            node = owner.constants.get(name)
            if node is not None and not any(left[o] for o in node.output):
                gone[owner].update(filter(None, node.output))
                read = [i for i in node.input if i]
                left.subtract(read)
                todo += read
    for scope, given in gone.items():
        _remove(scope, given)


def _remove(scope: Scope, gone: Set[str]) -> None:
    """Remove the initializers and nodes of a scope that give names their values."""
    body = scope.body
    computed = gone - scope.initializers.keys()
    delete(body.node, lambda item: not computed.isdisjoint(item.output))
    if scope.is_function:
        return
    for named in (body.initializer, body.input, body.value_info):
        delete(named, lambda item: item.name in gone)
    delete(body.sparse_initializer, lambda item: item.values.name in gone)
    delete(body.quantization_annotation, lambda item: item.tensor_name in gone)


def delete(items: Any, unwanted: Callable[[Any], bool]) -> None:
    """Remove the items of a list in a message that are unwanted, in place."""
    for at in reversed([i for i, item in enumerate(items) if unwanted(item)]):
        del items[at]


SUFFIX = ".onnx"


@checked
@work.counted
def lower_onnx(
    model: OnnxSource,
    path: str | PathLike[str] | None = None,
    form: str | None = None,
    target: str | PathLike[str] | Target | None = None,
    *,
    explain_costs: bool = False,
    best_effort: bool = False,
    only: str | None = None,
    convolutions: bool = False,
    shapes: Mapping[str, ShapeLike] | None = None,
    semantics: Semantics = "runtime",
) -> LoweredOnnx:
    """Lower the ConvTranspose nodes of an ONNX file and leave everything else as it is.

    `model` is a path, bytes or a ModelProto, of operation set 11 or later; `path` is where the
    result is written, with copies of external data if that is another folder. The others are
    those of `lower`; `shapes` replaces shapes of inputs, in the model too. Returns the new
    ModelProto (`proto`) and a `report`, in which deconvolutions that stay have no form. Raises
    UsageError for wrong arguments, InputError for a bad file, UnsupportedError without onnx.

    >>> from onnx import TensorProto, helper
    >>> value = helper.make_tensor_value_info
    >>> shapes = {"x": [1, 3, 8, 8], "w": [3, 2, 2, 2]}
    >>> inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    >>> node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2])
    >>> graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.FLOAT, None)])
    >>> low = lower_onnx(helper.make_model(graph).SerializeToString(), form="gemm")
    >>> print(*low.report.layers[0].nodes[-2:])
    Conv DepthToSpace
    """
    flags = {"explain_costs": explain_costs, "best_effort": best_effort}
    request = LoweringRequest.of(form, target, only=only, convolutions=convolutions, **flags)
    given = {name: parse_shape_like(s) for name, s in (shapes or {}).items()}
    low = lower_model(load_file(model), request, shapes=given, semantics=semantics)
    if path is not None:
        with together() as files:
            stage_onnx(low, Path(path), files)
    return low


def stage_onnx(lowered: LoweredOnnx, path: Path, files: Files, *, force: bool = False) -> OnnxFile:
    """Write a lowered model; it takes its place with all others of `files`, and is read back."""
    if path.suffix != SUFFIX:
        hint = f"name it {path.with_suffix(SUFFIX)}; an IR is written by write(lower(model), path)"
        raise errors.misused(f"{path}: an ONNX model is written as {SUFFIX}", hint)
    return stage_file(lowered.model, lowered.added, path, files, force=force)
