"""Certificates of a lowered ONNX model.

Both models are imported and compared as graphs. Parts that the importer does not cover are compared
as text. Producer, metadata, names of nodes, and declared shapes that inference confirms decide
nothing.

Before, equal shapes are spelled alike: integer vectors become sums of products of sizes. Exporters
and optimizers compute the same shape element by element, by a part of a shape, by 0 or -1 in a
Reshape. A size counts as 1 or more, so that -1 is a quotient. Integers that are data are not
followed: they may be 0 or -1, or too large for a narrower type.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.base.errors import IrdeconvError, OpError, count
from irdeconv.formats import onnx_opaque
from irdeconv.formats.onnx_container import OnnxFile, OnnxSource, load_file
from irdeconv.formats.onnx_node import NHWC, declared_shape, onnx_module, opsets_of, to_array
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import compatible, format_shape, ints, merge_shapes
from irdeconv.ops.basic import Convert
from irdeconv.ops.elementwise import Add, Multiply, Subtract, Unary
from irdeconv.ops.generation import Identity
from irdeconv.ops.movement import Concat, Reshape, ShapeOf, Squeeze, Squeeze1, Transpose, Unsqueeze
from irdeconv.ops.slicing import Gather, Slice
from irdeconv.proof.sizes import Case, Expr, Monomial, Size, is_int
from irdeconv.rewrite.builder import GraphBuilder, remove_dead
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.standardize import with_split_pads
from irdeconv.runtime.simplify import simplify
from irdeconv.verify.adapter import ProofSide, side_of, unnamed
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, Stamp
from irdeconv.verify.check import Compared, compared, examined, judged

OLDEST_SET = 7  # that ONNX Runtime has
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
    found: Compared | None  # for a probe


def compare_models(a: OnnxFile, b: OnnxFile, semantics: Semantics = "runtime") -> OnnxProof:
    """Compare two models; raises as `read_onnx` does.

    Declared shapes behind operations that are not covered count only if there is no other way.
    """
    models = [onnx_opaque.loaded(m) for m in (a, b)]
    declared = any(map(onnx_opaque.declarations, (m.graph for m in models)))
    misfits = [onnx_opaque.misfits(m) for m in models]
    found: list[tuple[bool, int, OnnxProof]] = []
    for believe, alike in ((False, False), (False, True), (True, False))[: 2 + declared]:
        try:
            proof = _compared(models, (a, b), misfits, semantics, believe=believe, alike=alike)
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
    misfits: Sequence[list[str]],
    semantics: Semantics,
    *,
    believe: bool,
    alike: bool,
) -> OnnxProof:
    ranks, graphs, sides = onnx_opaque.implied(models[0].graph), [], []
    assumed: list[str] = []
    wrong: list[list[str]] = []
    lacking: list[dict[str, str]] = []
    for model, file in zip(models, files, strict=True):
        reader = onnx_opaque.LenientReader(file.location, {}, semantics)
        reader.ranks, reader.believe = ranks, believe
        graphs.append(with_split_pads(inferred(reader.read(model).graph)))
        side = side_of(spelled_alike(graphs[-1]) if alike else graphs[-1])
        bare = unnamed(side.model)  # the interface is compared as ONNX has it
        sides.append(replace(side, model=replace(bare, rest="\n".join(reader.silent))))
        assumed += reader.assumed
        wrong.append(reader.wrong)
        lacking.append(reader.lacking)
    problems, declared = _interface(files[0].proto, files[1].proto, graphs[0])
    for known, texts in (wrong, misfits):
        problems += [text for text in dict.fromkeys(texts) if text not in known]
    problems += [text for kind, text in lacking[1].items() if kind not in lacking[0]]
    new = onnx_opaque.unused(models[1]) - onnx_opaque.unused(models[0])
    if new:
        problems.append(f"{count(new.total(), 'new node')} that no output needs")
    found = compared(sides[0], sides[1])
    made, report = examined(sides[0], sides[1], found)
    # Both graphs rest on the declarations, too.
    every = tuple(dict.fromkeys([*made.assumed, *assumed, *declared]))
    report = OnnxReport(**vars(replace(report, assumed=every)))
    made = replace(made, assumed=every)
    return OnnxProof(sides[0], sides[1], made, report, tuple(problems), found)


def _interface(a: Any, b: Any, graph: Graph) -> tuple[list[str], list[str]]:
    """Return all differences of two ModelProtos outside of the nodes, and what is assumed.

    `graph` is that of the first one. Symbols of open sizes are no difference.
    """
    problems, assumed = [], []
    for what, of in _ENDS.items():
        mine, theirs = of(a), of(b)
        if list(mine.items()) != list(theirs.items()):
            said = (", ".join(f"{n} {v}" for n, v in m.items()) for m in (theirs, mine))
            problems.append(f"its {what} are {' instead of '.join(said)}")
    problems += _versions(a, b)
    more = [[*m.training_info, *m.graph.sparse_initializer] for m in (a, b)]
    if more[0] != more[1]:
        problems.append("its training, or its sparse tensors, are not the same")
    for first, second, result in zip(a.graph.output, b.graph.output, graph.results, strict=False):
        # If the declared shapes differ, inference decides.
        old, new = (declared_shape(o.type.tensor_type) for o in (first, second))
        found = graph.node(result.id).spec().shape
        known = merge_shapes(old, found) if compatible(old, found) else found
        text = f'output "{first.name}" has the shape {format_shape(new)}'
        if old == new or new is None:
            continue
        if not compatible(known, new):
            problems.append(f"{text} instead of {format_shape(known)}")
        elif merge_shapes(known, new) != known:
            assumed.append(f"{text}, as its file declares")
    return problems, assumed


def _versions(a: Any, b: Any) -> Iterator[str]:
    """Yield versions that are newer than those of the first model and of the package onnx.

    No runtime reads these, nor sets before 7. Of domains that onnx lacks, the first model has the
    newest version.
    """
    oldest = min(a.ir_version, FIRST_WITH_CONSTANTS)
    if not oldest <= b.ir_version <= max(a.ir_version, onnx_module().IR_VERSION):
        yield f"its IR version is {b.ir_version}"
    mine, theirs = (opsets_of(m.opset_import) for m in (a, b))
    ranges = onnx_module("onnx.defs").C.schema_version_map()
    newest = {domain: last for domain, (_, last) in ranges.items()}
    newest[NHWC] = newest[""]
    for domain, version in theirs.items():
        low = not domain and version < min(mine.get("", 1), OLDEST_SET)
        if low or (domain and version > max(mine.get(domain, 1), newest.get(domain, 1))):
            yield f"its operation set {domain} is {version}"


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
@work.counted
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


LONGEST_SHAPE = 32  # elements of a vector that is followed
Sizes = tuple[Size, ...]  # an open one is a symbol: place of a value, and "place.port.axis"
SAME = (Unary, Convert, Identity)  # shapes pass through these


def spelled_alike(graph: Graph) -> Graph:
    """Return a simplified copy in which all readers of a vector of sizes read one spelling."""
    out = simplify(graph).graph
    _SizeVectors(out).respell()
    remove_dead(out, set())
    return simplify(out).graph


def _terms(size: Size) -> list[tuple[Monomial, int]]:
    """Return the products of a sum with their factors, the number first."""
    terms, constant = (size.terms, size.constant) if isinstance(size, Expr) else ({}, size)
    return [((), constant)] * bool(constant) + [*terms.items()]


def divided(a: Size, b: Size) -> Size | None:
    """Return a quotient of two products without remainder, else None."""
    if len(_terms(a)) != 1 or len(_terms(b)) != 1:
        return None
    [(above, k)], [(below, n)] = _terms(a), _terms(b)
    left = Counter(above)
    left.subtract(below)
    if k % n or min(left.values(), default=0) < 0:
        return None
    return math.prod((Expr(a.case, {(atom,): 1}, 0) for atom in left.elements()), start=k // n)


@dataclass
class _SizeVectors:
    """The integer vectors of a simplified graph as sums of products of sizes."""

    graph: Graph
    known: dict[Value, Sizes] = field(default_factory=dict)
    shapes: dict[Value, Sizes] = field(default_factory=dict)
    made: dict[str, Value] = field(default_factory=dict)  # by the text of the sizes
    case: Case = field(default_factory=Case)

    def respell(self) -> None:
        """Let every node that computes no such vector read the vectors in their one spelling."""
        nodes = self.graph.topological()
        self._places = {n.id: at for at, n in enumerate(nodes)}
        self._ids = [n.id for n in nodes]
        for node in nodes:
            inputs = self.graph.inputs_of(node.id)
            sizes = self._computed(node, inputs)
            if sizes is not None:
                self.known[Value(node.id)] = sizes
            self._pass_shape(node, inputs)
        for node in nodes:
            if Value(node.id) not in self.known:
                for port, value in enumerate(self.graph.inputs_of(node.id)):
                    self._replace(node, port, value)

    def _replace(self, node: Node, port: int, value: Value) -> None:
        sizes = self.known.get(value)
        if isinstance(node.op, Reshape) and port == 1 and sizes is not None:
            sizes = self.shapes.get(Value(node.id))
            if sizes is None:
                return
            self.graph.replace_op(node.id, Reshape(special_zero=False))
        if not sizes:
            return
        spec = self.graph.spec(value)
        kind = spec.dtype.container if spec.dtype else np.int64
        if kind != np.int64 or spec.rank != 1:
            return
        builder = GraphBuilder(self.graph, node)
        if repr(sizes) not in self.made:
            self.made[repr(sizes)] = self._built(builder, sizes)
        self.graph.set_input(node.id, port, self.made[repr(sizes)])

    def _atom(self, value: Value, axis: int) -> Size:
        place = self._places[value.node]
        return Expr(self.case, {((place, f"{place}.{value.port}.{axis}"),): 1}, 0)

    def _shape(self, value: Value) -> Sizes | None:
        """Return the sizes of a tensor's axes."""
        if value in self.shapes:
            return self.shapes[value]
        shape = self.graph.spec(value).shape
        if shape is None:
            return None
        rows = enumerate(shape)
        return tuple(d if isinstance(d, int) else self._atom(value, axis) for axis, d in rows)

    def _computed(self, node: Node, inputs: Sequence[Value]) -> Sizes | None:
        """Return the elements of an integer vector or scalar; None of any other value."""
        spec = node.spec() if node.outputs == 1 else None
        fits = spec is not None and spec.dtype is not None and spec.dtype.name in ("i64", "i32")
        if spec is None or not fits or spec.size is None or spec.size > LONGEST_SHAPE:
            return None
        if (spec.rank or 0) > 1:
            return None
        number = ints(spec.certain())
        if number is not None:
            return tuple(number)
        found = self._followed(node, inputs)
        # Runtimes wrap what is beyond 64 bits.
        small = all(abs(k) < 1 << 31 for size in found or () for _, k in _terms(size))
        return found if found is not None and small and len(found) == spec.size else None

    def _followed(self, node: Node, inputs: Sequence[Value]) -> Sizes | None:
        op: Any = node.op
        if isinstance(op, ShapeOf):
            return self._shape(inputs[0])
        given = [self.known.get(v) for v in inputs]
        if not given or any(g is None for g in given):
            return None
        first, *rest = (g for g in given if g is not None)
        if isinstance(op, Convert | Identity | Reshape | Squeeze | Squeeze1 | Unsqueeze):
            return first
        if isinstance(op, Concat):
            return sum((g for g in given if g is not None), ())
        if isinstance(op, Add | Subtract | Multiply):
            both = max(len(first), len(rest[0]))
            a, b = (g * both if len(g) == 1 else g for g in (first, rest[0]))
            if isinstance(op, Multiply):
                return tuple(x * y for x, y in zip(a, b, strict=True))
            sign = 1 if isinstance(op, Add) else -1
            return tuple(x + sign * y for x, y in zip(a, b, strict=True))
        if isinstance(op, Gather | Slice):
            return self._picked(op, first, inputs[1:])
        return None

    def _picked(self, op: Any, data: Sizes, rest: Sequence[Value]) -> Sizes | None:
        """Return the elements that an operation with constant indices moves."""
        others = [self.graph.spec(v).certain().known for v in rest]
        if any(o is None for o in others) or getattr(op, "batch_dims", False):
            return None
        try:
            numbers = op.evaluate(np.arange(1, len(data) + 1), *others)
        except (OpError, ValueError, TypeError, IndexError):
            return None
        picked = np.asarray(numbers).reshape(-1).tolist()
        return tuple(data[k - 1] for k in picked) if all(picked) else None

    def _pass_shape(self, node: Node, inputs: Sequence[Value]) -> None:
        """Note the sizes of a result that follow from those of its first input."""
        if not inputs or node.outputs != 1:
            return
        before = self._shape(inputs[0])
        if before is None:
            return
        if isinstance(node.op, SAME):
            self.shapes[Value(node.id)] = before
        elif isinstance(node.op, Transpose):
            order = ints(self.graph.spec(inputs[1]).certain())
            if order:
                self.shapes[Value(node.id)] = tuple(before[i] for i in order)
        elif isinstance(node.op, Reshape) and inputs[1] in self.known:
            target = self._target(node.op, before, self.known[inputs[1]])
            if target is not None:
                self.shapes[Value(node.id)] = target

    def _target(self, op: Reshape, before: Sizes, target: Sizes) -> Sizes | None:
        """Return the sizes that a Reshape makes, 0 and -1 replaced; None if -1 stays open."""
        out = list(target)
        if any(isinstance(t, Expr) and any(k < 0 for _, k in _terms(t)) for t in target):
            return None  # a difference may be 0 or -1
        if op.special_zero:
            if any(is_int(t, 0) and i >= len(before) for i, t in enumerate(target)):
                return None
            out = [before[i] if is_int(t, 0) else t for i, t in enumerate(target)]
        rest = [i for i, t in enumerate(out) if is_int(t, -1)]
        if len(rest) > 1:
            return None
        for at in rest:
            left = divided(math.prod(before), math.prod(out[:at] + out[at + 1 :]))
            if left is None:
                return None
            out[at] = left
        return tuple(out)

    def _built(self, b: GraphBuilder, sizes: Sizes) -> Value:
        """Return a vector of sizes: one constant for a run of numbers, else nodes for each."""
        parts: list[Value] = []
        numbers: list[int] = []
        for size in (*sizes, None):
            if isinstance(size, int):
                numbers.append(size)
                continue
            if numbers:
                parts.append(b.const(np.array(numbers, np.int64)))
                numbers = []
            if size is not None:
                parts.append(self._sum(b, size))
        return parts[0] if len(parts) == 1 else b.add(Concat(0), *parts)

    def _sum(self, b: GraphBuilder, size: Size) -> Value:
        terms = []
        for atoms, k in _terms(size):
            factors = [self._read(b, name) for _, name in atoms]
            factors += [b.const(np.array([k], np.int64))] if k != 1 or not atoms else []
            terms.append(reduce(partial(b.add, Multiply()), factors))
        return reduce(partial(b.add, Add()), terms)

    def _read(self, b: GraphBuilder, atom: str) -> Value:
        place, port, axis = map(int, atom.split("."))
        shape = b.add(ShapeOf(), Value(self._ids[place], port))
        return b.add(Gather(), shape, b.const(np.array([axis])), b.const(np.array(0)))
