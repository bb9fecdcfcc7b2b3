"""Certificates of a lowered ONNX model.

Both models are imported and compared as graphs. Parts that the importer does not cover are compared
as text. Producer, metadata, names of nodes, and declared shapes that inference confirms decide
nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from irdeconv.base.arguments import checked
from irdeconv.base.errors import IrdeconvError, count
from irdeconv.formats import onnx_opaque
from irdeconv.formats.onnx_container import OnnxFile, OnnxSource, load_file
from irdeconv.formats.onnx_node import NHWC, declared_shape, onnx_module, opsets_of, to_array
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape, compatible, format_shape, merge_shapes
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.verify.adapter import ProofSide, side_of, unnamed
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, Stamp
from irdeconv.verify.check import examined, judged
from irdeconv.verify.shape_vectors import spelled_alike

FIRST_WITH_CONSTANTS = 4  # IR version; before it each initializer is an input


class OnnxReport(CheckReport):
    """The verdict on two ONNX models, which may be equal without a rewritten layer."""

    @property
    def equal(self) -> bool:
        """Whether the models are equal, possibly for some sizes only or under assumptions."""
        return not self.problems and all(r.reason is None for r in self.layers)


@dataclass(frozen=True)
class OnnxProof:
    """Two models as sides of a proof, with their certificates and the report.

    `problems` are the differences that no graph has.
    """

    source: ProofSide
    lowered: ProofSide
    made: Certificates
    report: OnnxReport
    problems: tuple[str, ...]


def compare_models(a: OnnxFile, b: OnnxFile, semantics: Semantics = "runtime") -> OnnxProof:
    """Compare two models; raises as `read_onnx` does.

    Declared shapes behind operations that are not covered count only if there is no other way.
    """
    models = [onnx_opaque.loaded(m) for m in (a, b)]
    declared = any(map(onnx_opaque.declarations, (m.graph for m in models)))
    found: list[tuple[bool, int, OnnxProof]] = []
    for believe, alike in ((False, False), (False, True), (True, False))[: 2 + declared]:
        try:
            proof = _compared(models, (a, b), semantics, believe=believe, alike=alike)
        except IrdeconvError:
            if not found:
                raise
            continue
        if proof.report.passed:
            return proof
        found.append((not proof.report.equal, len(found), proof))
    return min(found, key=lambda row: row[:2])[-1]


def _compared(
    models: Sequence[Any],
    files: Sequence[OnnxFile],
    semantics: Semantics,
    *,
    believe: bool,
    alike: bool,
) -> OnnxProof:
    ranks, graphs, sides = onnx_opaque.implied(models[0].graph), [], []
    assumed: list[str] = []
    wrong: list[list[str]] = []
    for model, file in zip(models, files, strict=True):
        reader = onnx_opaque.LenientReader(file.location, {}, semantics)
        reader.ranks, reader.believe = ranks, believe
        graphs.append(inferred(reader.read(model).graph))
        side = side_of(spelled_alike(graphs[-1]) if alike else graphs[-1])
        bare = unnamed(side.model)  # the interface is compared as ONNX has it
        sides.append(replace(side, model=replace(bare, rest="\n".join(reader.silent))))
        assumed += reader.assumed
        wrong.append(reader.wrong)
    more = _Interface(files[0].proto, files[1].proto, graphs[0]).compare()
    for known, texts in (wrong, map(onnx_opaque.misfits, models)):
        more.problems += [text for text in dict.fromkeys(texts) if text not in known]
    new = onnx_opaque.unused(models[1]) - onnx_opaque.unused(models[0])
    if new:
        more.problems.append(f"{count(new.total(), 'new node')} that no output needs")
    made, report = examined(*sides)
    # Both graphs rest on the declarations, too.
    every = tuple(dict.fromkeys([*made.assumed, *assumed, *more.assumed]))
    report = OnnxReport(**vars(replace(report, assumed=every)))
    made = replace(made, assumed=every)
    return OnnxProof(sides[0], sides[1], made, report, tuple(more.problems))


@dataclass
class _Interface:
    """Compares inputs, default values and outputs of two ModelProtos."""

    a: Any
    b: Any
    graph: Graph  # of the first one
    problems: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    def compare(self) -> _Interface:
        """Find all differences; symbols of open sizes are none."""
        for what, of in _ENDS.items():
            mine, theirs = of(self.a), of(self.b)
            if list(mine.items()) != list(theirs.items()):
                said = (", ".join(f"{n} {v}" for n, v in m.items()) for m in (theirs, mine))
                self.problems.append(f"its {what} are {' instead of '.join(said)}")
        self._versions()
        if list(self.a.training_info) != list(self.b.training_info):
            self.problems.append("its training is not the same")
        ends = zip(self.a.graph.output, self.b.graph.output, self.graph.results, strict=False)
        for first, second, result in ends:
            self._shapes(first, second, self.graph.node(result.id).spec().shape)
        return self

    def _versions(self) -> None:
        """Find versions that are newer than those of the first model and of the package onnx.

        No runtime reads these. Of domains that onnx lacks, the first model has the newest version.
        """
        oldest = min(self.a.ir_version, FIRST_WITH_CONSTANTS)
        if not oldest <= self.b.ir_version <= max(self.a.ir_version, onnx_module().IR_VERSION):
            self.problems.append(f"its IR version is {self.b.ir_version}")
        mine, theirs = (opsets_of(m.opset_import) for m in (self.a, self.b))
        ranges = onnx_module("onnx.defs").C.schema_version_map()
        newest = {domain: last for domain, (_, last) in ranges.items()}
        newest[NHWC] = newest[""]
        for domain, version in theirs.items():
            if domain and version > max(mine.get(domain, 1), newest.get(domain, 1)):
                self.problems.append(f"its operation set {domain} is {version}")

    def _shapes(self, a: Any, b: Any, inferred: Shape | None) -> None:
        """Compare the declared shapes of an output; if they differ, inference decides."""
        mine, theirs = (declared_shape(o.type.tensor_type) for o in (a, b))
        if mine == theirs or theirs is None:
            return
        text = f'output "{a.name}" has the shape {format_shape(theirs)}'
        known = merge_shapes(mine, inferred) if compatible(mine, inferred) else inferred
        if not compatible(known, theirs):
            self.problems.append(f"{text} instead of {format_shape(known)}")
        elif merge_shapes(known, theirs) != known:
            self.assumed.append(f"{text}, as its file declares")


def _inputs(model: Any) -> dict[str, str]:
    """Return type and shape of each input, in order; a constant of an old model is none."""
    constants = {t.name for t in model.graph.initializer} if model.ir_version < 4 else set()
    inputs = (i for i in model.graph.input if i.name not in constants)
    return {i.name: _type(i.type) + _shape(i.type) for i in inputs}


def _type(type: Any) -> str:
    """Return the text of a TypeProto without shapes."""
    kind = type.WhichOneof("value") or "untyped"
    if kind == "untyped":
        return kind
    inner = getattr(type, kind)
    if kind == "map_type":
        return f"map of {inner.key_type} to {_type(inner.value_type)}"
    held = inner.elem_type
    return f"{kind} of {held if isinstance(held, int) else _type(held)}"


def _shape(type: Any) -> str:
    return format_shape(declared_shape(type.tensor_type)) if type.HasField("tensor_type") else ""


def _defaults(model: Any) -> dict[str, str]:
    """Return type, shape and a hash of the values of inputs that have a default."""
    inputs, out = _inputs(model), {}
    for tensor in model.graph.initializer:
        if tensor.name in inputs:
            array, dtype = to_array(tensor)
            data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
            digest = hashlib.sha256(data).hexdigest()
            out[tensor.name] = f"{dtype}{list(array.shape)} {digest}"
    return dict(sorted(out.items()))


_ENDS: dict[str, Callable[[Any], dict[str, str]]] = {
    "inputs": _inputs,
    "default values": _defaults,
    "outputs": lambda model: {o.name: _type(o.type) for o in model.graph.output},
}


def check_models(
    proof: OnnxProof,
    certificates: Sequence[Certificate] | None = None,
    stamps: tuple[Stamp | None, Stamp | None] = (None, None),
) -> CheckReport:
    """Return the verdict on a lowered model: each rewritten layer proved, all else the same.

    With `certificates` there must be exactly one for each rewritten layer, which states the
    contents of the two models; `stamps` are those of the files.
    """
    made = replace(proof.made, source=stamps[0], lowered=stamps[1])
    problems = (*proof.problems, *proof.report.problems)
    return judged(made, certificates, replace(proof.report, problems=problems))


@checked
def check_onnx(
    original: OnnxSource,
    lowered: OnnxSource,
    certificates: Sequence[Certificate] | None = None,
    *,
    semantics: Semantics = "runtime",
) -> CheckReport:
    """Prove a lowered ONNX file to be the original one: every deconvolution that was rewritten.

    Both are paths, the bytes of files or ModelProtos. Everything else must compute the same. The
    report has `passed`, `layers` with the proof of each, and `problems`.
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
