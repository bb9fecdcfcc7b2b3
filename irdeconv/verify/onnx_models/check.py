"""Certificates of a lowered ONNX model: regions proved as graphs, all else compared as it stands.

Nothing of the rewriting is used. The two models are read from their files, what differs is found by
comparing messages, and what took a deconvolution's place is imported like any other ONNX model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from irdeconv import progress
from irdeconv.errors import IrdeconvError
from irdeconv.geometry import Semantics
from irdeconv.graph import Graph
from irdeconv.onnx_files.container import OnnxFile, OnnxSource, load_file
from irdeconv.onnx_files.pieces import graph_of, inputs_of, piece
from irdeconv.onnx_files.scopes import scopes, title_of
from irdeconv.onnx_files.types import Types, infer_types
from irdeconv.verify.onnx_models.pairs import Pairs, RewrittenNode, pair
from irdeconv.verify.proof import probe
from irdeconv.verify.proof.certificate import Certificate
from irdeconv.verify.proof.certified import Certificates, Stamp
from irdeconv.verify.proof.check import contradicted, examined, judged, probed
from irdeconv.verify.proof.report import CheckReport, LayerCheck
from irdeconv.verify.proof.sides import side_of


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
    if len(made) != 1:
        return replace(blank, reason="it is not one deconvolution of the original")
    if report.problems:
        return replace(made[0], holds_for=None, every=False, reason=report.problems[0])
    return made[0]


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
