"""Certificates of a lowered ONNX model.

Rewritten regions are proved as graphs, all else is compared as it is in the messages, element for
element. The proof uses nothing of the rewriting: it reads both files, compares the messages, and
imports the nodes that replace a deconvolution like any other ONNX model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from irdeconv.base import progress
from irdeconv.base.errors import IrdeconvError, count
from irdeconv.base.opening import open_file
from irdeconv.formats.onnx_container import (
    OnnxFile,
    OnnxSource,
    Scope,
    load_file,
    names,
    place_of,
    scopes,
    uses,
)
from irdeconv.formats.onnx_node import STANDARD, bodies, first_output, onnx_module, title_of
from irdeconv.formats.onnx_types import (
    Types,
    graph_of,
    infer_types,
    inputs_of,
    is_deconvolution,
    piece,
)
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.verify import probe
from irdeconv.verify.adapter import side_of
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, LayerCheck, Stamp
from irdeconv.verify.check import contradicted, examined, judged, probed

COMPARED_BYTES = 1 << 24  # bytes that are compared at once


@dataclass(frozen=True)
class RewrittenNode:
    """A deconvolution of the first model, and the nodes of the second one in its place."""

    scope: Scope
    node: Any
    other: Scope
    nodes: tuple[Any, ...]


@dataclass
class Pairs:
    """What was found: `others` counts the nodes that are the same in both."""

    regions: list[RewrittenNode] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    others: int = 0


def pair(a: OnnxFile, b: OnnxFile) -> Pairs:
    """Compare two models; the first one has the deconvolutions."""
    out = Pairs()
    out.problems += _unlike("the model", a.proto, b.proto, ("graph", "functions"))
    mine, theirs = ([s for s in scopes(m.proto) if s.parent is None] for m in (a, b))
    by_key = {_key(s): s for s in theirs}
    for scope in mine:
        other = by_key.pop(_key(scope), None)
        if other is None:
            out.problems.append(f"{scope.title} is missing")
            continue
        _Outermost(a, b, out, frozenset(names(scope.body)), uses(other.body)).compare(scope, other)
    out.problems += [f"{scope.title} is new" for scope in by_key.values()]
    return out


def _key(scope: Scope) -> tuple[str, ...]:
    if not scope.is_function:
        return ()
    return scope.body.domain, scope.body.name, getattr(scope.body, "overload", "")


@dataclass
class _Outermost:
    """Compares a graph or a function with all graphs inside it."""

    a: OnnxFile
    b: OnnxFile
    out: Pairs
    known: frozenset[str]  # every name of the first model
    read: Mapping[str, int]  # every name that the second model reads

    def compare(self, scope: Scope, other: Scope) -> None:
        """Compare two scopes that stand for each other."""
        apart = ("node", "initializer", "input", "value_info", "quantization_annotation")
        title = scope.title or "the graph"
        if scope.is_function:
            self.out.problems += _unlike(title, scope.body, other.body, ("node",))
        else:
            self.out.problems += _unlike(title, scope.body, other.body, apart)
            self._entries(scope, other)
            self._tensors(scope, other)
        for name in _repeated(other):
            self._report(scope, f'"{name}" stands for two things')
        self._nodes(scope, other)

    def _report(self, scope: Scope, text: str) -> None:
        self.out.problems.append(f"{scope.title}: {text}" if scope.title else text)

    def _entries(self, scope: Scope, other: Scope) -> None:
        """Compare inputs, declarations and quantization annotations, by name."""
        gone = {n for n in scope.initializers if not self.read[n]}
        gone |= {n for n in scope.producers if not self.read[n]} - set(other.producers)
        for kind, key in (
            ("input", "name"),
            ("value_info", "name"),
            ("quantization_annotation", "tensor_name"),
        ):
            pairs = [
                [(getattr(i, key), _bytes(i)) for i in getattr(s.body, kind)]
                for s in (scope, other)
            ]
            there = {name for name, _ in pairs[1]}
            wanted = [p for p in pairs[0] if p[0] not in gone or p[0] in there]
            if wanted != pairs[1]:
                self._report(scope, f"its {kind} is not the same")

    def _tensors(self, scope: Scope, other: Scope) -> None:
        """Compare initializers, by name; what is not read any more may be missing."""
        mine, theirs = ({t.name: t for t in s.body.initializer} for s in (scope, other))
        for name, tensor in mine.items():
            if name in theirs:
                if not self._same_tensor(tensor, theirs[name]):
                    self._report(scope, f'initializer "{name}" is another one')
            elif self.read[name]:
                self._report(scope, f'initializer "{name}" is missing')
        for name in set(theirs) - set(mine):
            if name in self.known:
                self._report(scope, f'initializer "{name}" has the name of something else')

    def _same_tensor(self, mine: Any, theirs: Any) -> bool:
        files = self.a.file_of(mine), self.b.file_of(theirs)
        if _bytes(mine) == _bytes(theirs) and (files == (None, None) or _same_part(mine, *files)):
            return True
        plain = [(t.name, t.data_type, tuple(t.dims)) for t in (mine, theirs)]
        if plain[0] != plain[1]:
            return False
        helper = onnx_module("onnx.numpy_helper")
        try:
            arrays = [helper.to_array(m.tensor(t)) for m, t in ((self.a, mine), (self.b, theirs))]
        except (
            ValueError,
            TypeError,
        ):  # too few bytes for the shape, an element type of no meaning
            return False
        return bool(arrays[0].tobytes() == arrays[1].tobytes())

    def _nodes(self, scope: Scope, other: Scope) -> None:
        """Compare the nodes: each has its partner, or was rewritten; the rest is new."""
        places = {o: i for i, n in enumerate(other.body.node) for o in n.output if o}
        seen, last = set(), -1
        silent = [i for i, n in enumerate(other.body.node) if not first_output(n)]
        for at, node in enumerate(scope.body.node):
            place = places.get(first_output(node))
            if not first_output(node) and silent:
                place = silent.pop(0)
            if place is None:
                if any(self.read[o] for o in node.output if o) or not _is_constant(scope, node):
                    self._report(scope, f"{_named(node)} is missing")
                continue
            if place < last:
                self._report(scope, f"{_named(node)} stands at another place")
            last = max(place, last)
            seen |= self._node(scope, at, other, place)
        for place, node in enumerate(other.body.node):
            if place not in seen:
                self._report(scope, f"{_named(node)} is new and belongs to no rewritten layer")

    def _node(self, scope: Scope, at: int, other: Scope, place: int) -> set[int]:
        """Compare two nodes; returns which nodes of the second scope belong to it."""
        node, partner = scope.body.node[at], other.body.node[place]
        same = _same_node(node, partner)
        if (is_deconvolution(node) or _is_convolution(node)) and not same:
            if list(partner.output) != [node.output[0]]:
                self._report(scope, f"{_named(partner)} has other outputs than {_named(node)}")
            inside = self._region(other, place)
            nodes = tuple(other.body.node[i] for i in sorted(inside))
            self.out.regions.append(RewrittenNode(scope, node, other, nodes))
            return inside
        if is_deconvolution(node):
            self.out.kept.append(title_of(node))
        elif same:
            self.out.others += 1
            for mine, theirs in zip(scope.inside(at), other.inside(place), strict=True):
                self.compare(mine, theirs)
        else:
            self._report(scope, f"{_named(node)} is not the same")
        return {place}

    def _region(self, scope: Scope, last: int) -> set[int]:
        """Return the nodes that compute a node's output from what the first model has as well."""
        nodes = scope.body.node
        places = {o: i for i, n in enumerate(nodes) for o in n.output if o not in self.known}
        found, todo = {last}, [last]
        while todo:
            new = {places[i] for i in nodes[todo.pop()].input if i in places} - found
            found |= new
            todo += new
        return found


def _is_convolution(node: Any) -> bool:
    return node.op_type == "Conv" and node.domain in STANDARD


def _repeated(scope: Scope) -> list[str]:
    """Return the names that a scope gives to more than one tensor, which is no valid model."""
    body = scope.body
    tensors = [] if scope.is_function else [t.name for t in body.initializer]
    given = [o for n in body.node for o in n.output if o]
    inputs = set(scope.entries) - set(tensors)
    return [n for n, times in Counter((*tensors, *given, *inputs)).items() if times > 1]


def _is_constant(scope: Scope, node: Any) -> bool:
    outputs = [o for o in node.output if o]
    return bool(outputs) and all(scope.is_constant(o) for o in outputs)


def _named(node: Any) -> str:
    return f'{node.op_type} "{title_of(node)}"'


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _same_node(a: Any, b: Any) -> bool:
    """Whether two nodes are the same but for the graphs that they hold, which must pair."""
    if not any(bodies(a)):
        return _bytes(a) == _bytes(b)
    shells = [_shell(n) for n in (a, b)]
    return shells[0] == shells[1] and [n for n, _ in bodies(a)] == [n for n, _ in bodies(b)]


def _shell(node: Any) -> list[Any]:
    plain = [_bytes(a) for a in node.attribute if not a.HasField("g") and not a.graphs]
    graphs = [(a.name, a.type, a.doc_string) for a in node.attribute if a.HasField("g") or a.graphs]
    return [plain, graphs, *_fields(node, ("attribute",))]


def _fields(message: Any, apart: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield every field of a message but some, unknown ones too, as it is compared."""
    unknown = onnx_module("google.protobuf.unknown_fields")
    for descriptor, value in message.ListFields():
        if descriptor.name in apart:
            continue
        parts = list(value) if hasattr(value, "extend") else [value]  # repeated fields have it
        texts = [_bytes(p) if hasattr(p, "SerializeToString") else p for p in parts]
        yield (descriptor.name, texts)
    for one in unknown.UnknownFieldSet(message):
        yield (one.field_number, one.wire_type, str(one.data))


def _unlike(title: str, a: Any, b: Any, apart: Sequence[str]) -> list[str]:
    """Return what says that fields of two messages differ, at most one line."""
    mine, theirs = (list(_fields(m, apart)) for m in (a, b))
    if mine == theirs:
        return []
    unlike = [f for f in mine if f not in theirs] + [f for f in theirs if f not in mine]
    wrong = dict.fromkeys(str(f[0]) for f in unlike)
    return [f"{title}: {count(len(wrong), 'field')} not the same: {', '.join(wrong)}"]


def _same_part(tensor: Any, a: Path | None, b: Path | None) -> bool:
    """Whether two files hold the same bytes where a tensor lies."""
    if a is None or b is None:
        return False
    if a.samefile(b):
        return True
    offset, length = place_of(tensor)
    left = max(a.stat().st_size, b.stat().st_size) if length is None else length
    with open_file(a) as mine, open_file(b) as theirs:
        for file in (mine, theirs):
            file.seek(offset)
        while left > 0:
            size = min(left, COMPARED_BYTES)
            part = mine.read(size)
            if part != theirs.read(size):
                return False
            if not part:
                break
            left -= size
    return True


@dataclass(frozen=True)
class OnnxProof:
    """Two models side by side, and each rewritten layer as two graphs; `failed` has the reasons."""

    pairs: Pairs
    layers: tuple[tuple[RewrittenNode, Graph | None, Graph | None, str | None], ...]

    @property
    def rest(self) -> CheckReport:
        """What is the same besides the rewritten layers, and what is not."""
        pairs = self.pairs
        problems, kept = tuple(pairs.problems), tuple(pairs.kept)
        return CheckReport(layers=(), problems=problems, kept=kept, others=pairs.others)


def compare_models(a: OnnxFile, b: OnnxFile, semantics: Semantics = "runtime") -> OnnxProof:
    """Find the rewritten layers of two models, of which the first one has the deconvolutions."""
    pairs = pair(a, b)
    types = infer_types(a.proto, list(scopes(a.proto))) if pairs.regions else Types()
    layers: list[tuple[RewrittenNode, Graph | None, Graph | None, str | None]] = []
    for region in pairs.regions:
        try:
            layers.append((region, *_graphs(a, b, region, types, semantics), None))
        except IrdeconvError as e:
            layers.append((region, None, None, e.diagnostics[0].message))
    return OnnxProof(pairs, tuple(layers))


def _graphs(
    a: OnnxFile, b: OnnxFile, region: RewrittenNode, types: Types, semantics: Semantics
) -> tuple[Graph, Graph]:
    """Return a deconvolution and what took its place, with the same inputs."""
    known = inputs_of(a, region.scope, region.node, types)
    outputs = [region.node.output[0]]
    source = piece(a, region.scope, [region.node], outputs, known)
    lowered = piece(b, region.other, region.nodes, outputs, known)
    return graph_of(a, source, semantics), graph_of(b, lowered, semantics)


def certify_models(proof: OnnxProof) -> Certificates:
    """Return a certificate for every rewritten layer; one that is not proved has a reason."""
    out = []
    with progress.stage("certifying", total=len(proof.layers)) as step:
        for region, source, lowered, failed in proof.layers:
            title = title_of(region.node)
            step(detail=title)
            made = Certificate(layer=title, type=region.node.op_type, reason=failed)
            if source is not None and lowered is not None:
                made = _certificate(made, source, lowered)
            where = f" ({region.scope.title})" if region.scope.title else ""
            out.append(replace(made, layer=f"{title}{where}"))
    return Certificates(tuple(out))


def _certificate(blank: Certificate, source: Graph, lowered: Graph) -> Certificate:
    """Certify one layer; its two graphs have nothing else that may differ."""
    made, report = examined(side_of(source), side_of(lowered))
    if report.problems:
        first = made[0] if len(made) == 1 else blank
        return replace(first, holds_for=None, every=False, reason=report.problems[0])
    if len(made) == 0:  # other attributes of the same meaning; `made` is false if it proves less
        same = replace(blank, form="the same layers", nodes=_nodes(lowered))
        return replace(same, holds_for="every size", every=True, assumed=report.assumed)
    # A layer and its bias may be two steps: what is proved of both holds for the output.
    worst = min(reversed(made), key=lambda c: (c.proved, bool(c.every)))
    if len(made) == 1:
        return worst
    rounding = max(c.rounding for c in made)
    return replace(worst, nodes=_nodes(lowered), rounding=rounding, assumed=report.assumed)


def _nodes(graph: Graph) -> tuple[dict[str, str], ...]:
    """Return name and type of the layers of a graph, without constants and ends."""
    left_out = ("Const", "Parameter", "Result")
    rows = (graph.node(n.id) for n in graph.topological())
    return tuple({"name": n.name, "type": n.type} for n in rows if n.type not in left_out)


def check_models(
    proof: OnnxProof,
    certificates: Sequence[Certificate] | None = None,
    stamps: tuple[Stamp | None, Stamp | None] = (None, None),
) -> CheckReport:
    """Return the verdict on a lowered model: each rewritten layer proved, all else the same.

    With `certificates` there must be exactly one for each rewritten layer, which states what the
    two models contain; `stamps` are those of the files.
    """
    made = replace(certify_models(proof), source=stamps[0], lowered=stamps[1])
    rest = proof.rest
    if rest.problems and not made and not rest.kept:
        hint = "the first model has no deconvolution; the original comes first: are they swapped?"
        rest = replace(rest, problems=(hint, *rest.problems))
    return judged(made, certificates, contradicted(rest, made, certificates))


def check_onnx(
    original: OnnxSource,
    lowered: OnnxSource,
    certificates: Sequence[Certificate] | None = None,
    *,
    semantics: Semantics = "runtime",
) -> CheckReport:
    """Prove a lowered ONNX file to be the original one: every deconvolution that was rewritten.

    Both are paths, the bytes of files or ModelProtos. All else must be the same, as it stands in
    the messages. The report has `passed`, `layers` with what is proved of each, and `problems`.
    Raises InputError for a bad file.

    >>> from onnx import TensorProto, helper
    >>> value, shapes = helper.make_tensor_value_info, {"x": [1, 3, 8, 8], "w": [3, 2, 2, 2]}
    >>> inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    >>> node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2])
    >>> graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.FLOAT, None)])
    >>> data = helper.make_model(graph).SerializeToString()
    >>> print(check_onnx(data, data))
    kept up: not rewritten
    0 of 0 rewritten layers equal, 0 others unchanged
    """
    return check_models(
        compare_models(load_file(original), load_file(lowered), semantics), certificates
    )


def probe_models(proof: OnnxProof, *, seed: int | None = None) -> CheckReport:
    """Evaluate every rewritten layer of both models modulo primes on random data and compare."""
    layers, bounds = [], [0.0]
    chosen = probe.fresh_seed() if seed is None else seed
    for region, source, lowered, failed in proof.layers:
        if source is None or lowered is None:
            title, type = title_of(region.node), region.node.op_type
            made = LayerCheck(layer=title, type=type, form="probe", proved=None, reason=failed)
            layers.append(made)
            continue
        found = probed(side_of(source), side_of(lowered), seed=chosen)
        layers += found.layers
        bounds.append(found.error_probability or 0.0)
    return replace(
        proof.rest, layers=tuple(layers), error_probability=max(bounds) or None, seed=chosen
    )
