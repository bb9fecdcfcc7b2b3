"""Graphs as models of the trusted core, the sides of a proof, and provers.

A side is a model and the known values in it. An obligation has the layers between given values and
a computed one. Provers record the questions, and which answers depend on a file's declarations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import Diagnostic
from irdeconv.base.form_names import FALLBACK, GEMM, PHASES, STACKED
from irdeconv.base.limits import raise_hint
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Dim, Interval, Spec, format_shape
from irdeconv.ir.spec import Shape as SpecShape
from irdeconv.proof.definition import CONVOLUTIONS, OWN, define, is_deconvolution
from irdeconv.proof.model import (
    COUNTERS,
    Array,
    Fact,
    Layer,
    Model,
    Obligation,
    Port,
    Proof,
    TypedArray,
    Unproved,
    region,
)
from irdeconv.verify.certificates import Stamp


def _count(units: int) -> None:
    """Draw the work of a proof on the account of the command."""
    if not work.room(units, whole=True):
        limit = f"{work.limit_text()}; {raise_hint('work')}"
        raise Unproved(f"the proof takes more than {limit}")


COUNTERS.append(_count)


_DIGESTS = WeakKeyDictionary[Any, str]()  # of the weights that bodies refer to


def kept_parts(node: Node) -> list[object]:
    """Return the version and children of an unknown layer, in a form to be compared; else nothing.

    Constants of bodies are places in weights, which are compared as a whole.
    """
    op: Any = node.op
    sections = getattr(op, "sections", None)
    if sections is None:
        return []
    digest, weights = "", op.weights
    if any(b"offset" in s.xml for s in sections) and weights is not None and weights.available:
        if weights.source not in _DIGESTS:
            _DIGESTS[weights.source] = hashlib.blake2b(memoryview(weights.raw())).hexdigest()
        digest = _DIGESTS[weights.source]
    return [op.version, digest, *((s.tag, s.xml.strip()) for s in sections)]


FactOf = Callable[[Port], Fact]
DOCUMENT = "/document"  # behind the version of a deconvolution with the document's meaning


def adapted(graph: Graph) -> tuple[Model, dict[int, int]]:
    """Return the model of all nodes that outputs and states need, and the node of each layer.

    Constants are views.
    """
    live, parameters = graph.live(), graph.parameters
    inside = [n for n in graph.topological() if n.id in live and n.type != "Parameter"]
    places: dict[int, int] = {}
    layers: list[Layer] = []
    for node in (*parameters, *inside):
        places[node.id] = len(layers)
        layers.append(layer_of(graph, node, places))
    results = tuple(places[n.id] for n in graph.results)
    model = Model(tuple(layers), tuple(range(len(parameters))), results)
    return model, {place: node for node, place in places.items()}


def layer_of(graph: Graph, node: Node, places: Mapping[int, int]) -> Layer:
    """Return the layer of a node; `places` has those of the nodes that it reads."""
    op: Any = node.op
    elements = None
    typed = hasattr(op, "element_type")  # unlike a layer that is known by its text only
    if node.type == "Const" and typed and op.data.available:
        elements = TypedArray(_elements(op), op.element_type.name)
    ports = range(max(node.outputs, graph.highest_port(node.id) + 1))
    names = [node.names_of(port) for port in ports]
    outputs = [] if node.type == "Result" else [_fact(node, port) for port in ports]
    if node.type == "Result":
        source = graph.inputs_of(node.id)[0]
        said = next((text for key, text in node.extra if key == "output_names" and text), None)
        names = [tuple(said.split(",")) if said else graph.node(source.node).names_of(source.port)]
    document = getattr(op, "semantics", "runtime") == "document"
    (maps, bodies), kept = _bodies(node), kept_parts(node)
    # Such a convolution is written as layers that OpenVINO has (rewrite/standardize.py).
    version = OWN if getattr(op, "unrestricted", False) else op.version
    return Layer(
        name=node.name,
        type=node.type,
        version=version + DOCUMENT * document,
        attributes=op.to_attributes() | dict(node.extra_data),
        inputs=tuple(Port(places[v.node], v.port) for v in graph.inputs_of(node.id)),
        outputs=tuple(outputs),
        names=tuple(tuple(sorted(n)) for n in names),
        elements=elements,
        rest=(repr(kept[1:]) if kept else "") + maps,
        bodies=bodies,
    )


def _bodies(node: Node) -> tuple[str, tuple[tuple[str, Model], ...]]:
    """Return the text of the connections of bodies to the outside, and the bodies' models."""
    op: Any = node.op
    lines, inner = [], []
    for body in sorted(getattr(op, "bodies", ()), key=lambda b: str(b.tag)):
        parameters = {n.id: number for number, n in enumerate(body.graph.parameters)}
        results = {n.id: number for number, n in enumerate(body.graph.results)}
        takes = [(parameters[i.parameter], *_said(i)) for i in body.inputs]
        gives = [(results[o.result], *_said(o)) for o in body.outputs]
        edges = [(results[a], parameters[b]) for a, b in body.edges]
        lines.append(repr((body.tag, takes, gives, edges)))
        inner.append((str(body.tag), unnamed(adapted(body.graph)[0])))
    return "\n".join(lines), tuple(inner)


def unnamed(model: Model) -> Model:
    """Return a model without the names of inputs and outputs, which meet others by number."""
    ends = {*model.parameters, *model.results}
    rows = enumerate(model.layers)
    layers = (replace(y, names=((),) * len(y.names)) if i in ends else y for i, y in rows)
    return replace(model, layers=tuple(layers))


def _said(entry: Any) -> list[object]:
    """Return the other fields of a port map's entry, besides the Parameter or Result."""
    return [v for k, v in vars(entry).items() if k not in ("parameter", "result")]


def _elements(op: Any) -> Array:
    """Return a constant's elements: types that NumPy lacks as float32, strings as their bytes."""
    if op.element_type.name == "string":
        return np.frombuffer(op.data.raw(), np.uint8)
    array: Array = op.data.array()
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def fact_of(spec: Spec) -> Fact:
    """Return the facts of a value."""
    shape = None if spec.shape is None else tuple(map(_dim, spec.shape))
    return Fact(spec.dtype.name if spec.dtype else None, shape)


def _fact(node: Node, port: int) -> Fact:
    """Return the facts of an output; an input that is not inferred has those that it declares."""
    op: Any = node.op
    if node.type == "Parameter" and node.specs is None and hasattr(op, "element_type"):
        return fact_of(Spec(op.element_type, op.shape))
    return fact_of(node.spec(port))


def _dim(dim: Dim) -> int | tuple[int, int | None]:
    return (dim.lo, dim.hi) if isinstance(dim, Interval) else dim


def believed(graph: Graph, nodes: Mapping[int, int]) -> Callable[[Port], bool]:
    """Return a test for facts that may follow from declarations of unknown operations."""
    behind: set[int] = set()
    for node in graph.topological():
        if _declares(node) or any(v.node in behind for v in graph.inputs_of(node.id)):
            behind.add(node.id)
    return lambda port: nodes.get(port.layer) in behind


def _declares(node: Node) -> bool:
    """Whether a node is an unknown operation, or has one in its bodies."""
    op: Any = node.op
    inner = (n for body in getattr(op, "bodies", ()) for n in body.graph.nodes())
    unknown = getattr(op, "sections", None) is not None and op.declares
    return unknown or any(map(_declares, inner))


def fitting(model: Model, fact: FactOf) -> FactOf:
    """Return facts with as many channels of data as filters have; otherwise nothing is computed."""
    known: dict[Port, Fact] = {}
    for layer in filter(is_deconvolution, model.layers):
        data, weights = fact(layer.inputs[0]), fact(layer.inputs[1])
        if data.shape is None or weights.shape is None:
            continue
        try:
            d = define(layer, len(data.shape))
        except Unproved:
            continue
        axis, parts = d.data_axes[1], d.filter_axes[: 1 if d.groups else 2]
        sizes = [weights.shape[a] for a in parts if a < len(weights.shape)]
        exact = [n for n in sizes if isinstance(n, int)]
        if len(exact) == len(parts) and not isinstance(data.shape[axis], int):
            channels = (*data.shape[:axis], math.prod(exact), *data.shape[axis + 1 :])
            known.setdefault(layer.inputs[0], Fact(data.type, channels))
    return lambda port: known[port] if port in known else fact(port)


def reshaped(model: Model, shapes: Mapping[int, SpecShape | None]) -> Model:
    """Return a model whose inputs have other shapes, by their number."""
    layers = list(model.layers)
    for number, shape in shapes.items():
        at = model.parameters[number]
        old = layers[at]
        text = format_shape(shape)[1:-1]
        fact = Fact(old.outputs[0].type, fact_of(Spec(None, shape)).shape)
        layers[at] = replace(old, attributes={**old.attributes, "shape": text}, outputs=(fact,))
    return replace(model, layers=tuple(layers))


def meant(model: Model, *, document: bool) -> Model:
    """Return a model whose deconvolutions have their document's meaning, if that is wanted."""
    if not document:
        return model
    every = model.layers
    layers = (replace(y, version=y.version + DOCUMENT) if is_deconvolution(y) else y for y in every)
    return replace(model, layers=tuple(layers))


def paired(graph: Graph, model: Model) -> dict[int, int]:
    """Return the node of each layer, walking both from the outputs; others are left out."""
    found = dict(zip(model.parameters, (n.id for n in graph.parameters), strict=False))
    todo = list(zip(model.results, (n.id for n in graph.results), strict=False))
    while todo:
        place, node = todo.pop()
        layer, inputs = model.layers[place], graph.inputs_of(node)
        alike = graph.node(node).type == layer.type and len(inputs) == len(layer.inputs)
        if place in found or not alike:
            continue
        found[place] = node
        pairs = zip(layer.inputs, inputs, strict=True)
        todo += [(p.layer, v.node) for p, v in pairs if p.port == v.port]
    return found


@dataclass(frozen=True)
class ProofSide:
    """A model and the facts of its values; `stamp` has the hashes of its files, if it has any.

    `believed` marks the facts that may follow from a file's declaration of an operation that
    irdeconv does not know. `warnings` name wrong declarations. `inside` gives the sides of the
    bodies of a layer. `sizes` are the requested shapes, by the names of inputs; `refused` is the
    reason why the core does not read the files, whose model is then empty.
    """

    model: Model
    fact: FactOf
    stamp: Stamp | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    believed: Callable[[Port], bool] = lambda port: False
    warnings: tuple[Diagnostic, ...] = ()
    inside: Callable[[int, str], ProofSide] | None = None

    def body(self, place: int, tag: str) -> ProofSide:
        """Return a body of the layer at a place as a side."""
        assert self.inside is not None
        return self.inside(place, tag)


def side_of(graph: Graph) -> ProofSide:
    """Return an inferred graph as a side."""
    return model_side(graph, *adapted(graph))


def _unread(model: Model) -> ProofSide:
    """Return a body of a layer that the graph keeps as text: nothing is known of its values."""
    return ProofSide(
        model,
        lambda port: Fact(None, None),
        inside=lambda place, tag: _unread(dict(model.layers[place].bodies)[tag]),
    )


def model_side(graph: Graph, model: Model, nodes: Mapping[int, int]) -> ProofSide:
    """Return a model as a side; `nodes` has the node of the inferred graph for each layer."""
    doubted = believed(graph, nodes)

    def fact(port: Port) -> Fact:
        node = nodes.get(port.layer)
        return Fact(None, None) if node is None else _fact(graph.node(node), port.port)

    def inside(place: int, tag: str) -> ProofSide:
        op: Any = graph.node(nodes[place]).op
        inner = dict(model.layers[place].bodies)[tag]
        body = next((b.graph for b in getattr(op, "bodies", ()) if b.tag == tag), None)
        if body is None:
            return _unread(inner)
        side = model_side(body, inner, paired(body, inner))
        if any(map(doubted, model.layers[place].inputs)):
            return replace(side, believed=lambda port: True)
        return side

    return ProofSide(model, fitting(model, fact), believed=doubted, inside=inside)


def rewritten(ob: Obligation) -> list[Layer]:
    """Return the layers of the lowered model that replace the source's, without constants."""
    places, _ = region(ob.lowered, ob.output, lambda p, _: p in ob.twins)
    return [ob.lowered.layers[i] for i in places if ob.lowered.layers[i].type != "Const"]


def source_region(ob: Obligation) -> tuple[list[int], list[Port]]:
    """Return the places of the rewritten layers of the source, in order, and what they read."""
    images = frozenset(ob.twins.values())
    return region(ob.source, ob.wanted, lambda p, _: p in images)


def subject(ob: Obligation) -> Layer:
    """Return the deconvolution that an obligation is of; without one the layer to be shown."""
    layers = (ob.source.layers[i] for i in reversed(source_region(ob)[0]))
    return next(filter(is_deconvolution, layers), ob.source.of(ob.wanted))


def form_of(ob: Obligation, proof: Proof | str) -> str:
    """Return the form in which a deconvolution was lowered, by its layers, else by its proof."""
    layers = rewritten(ob)
    types = [y.type for y in layers]
    convolutions = [i for i, t in enumerate(types) if t in CONVOLUTIONS]
    joined = {p.layer for y in layers if y.type in ("Concat", "Add") for p in y.inputs}
    if not is_deconvolution(subject(ob)) or not convolutions:
        return "resize" if "Interpolate" in types and convolutions else _form_proved(proof)
    first = layers[convolutions[0]]
    if "Interpolate" in types[: convolutions[0]]:
        return "resize"
    if len(convolutions) > 1 or any(ob.lowered.layers[p] is first for p in joined):
        return PHASES
    behind = types[convolutions[0] + 1 :]
    spread = "DepthToSpace" in behind or "Reshape" in behind
    if "ZeroInsertion" in types or not spread or set(_strides(ob)) == {1}:
        return FALLBACK
    shape = _declared(ob.lowered, first.inputs[1])
    axes = len(_strides(ob))
    return GEMM if shape and all(k == 1 for k in shape[-axes:]) else STACKED


def _form_proved(proof: Proof | str) -> str:
    """Name the proof's replacement of a deconvolution, else the method."""
    if isinstance(proof, str):
        return "unknown"
    if proof.view is None:
        return proof.method
    blocks, period = proof.view.blocks, max(a.radix for a in proof.view.axes)
    if len(blocks) != 1:
        return PHASES
    pointwise = {*blocks[0][0].weights.shape[3:]} == {1}
    return FALLBACK if period == 1 else GEMM if pointwise else STACKED


def _strides(ob: Obligation) -> tuple[int, ...]:
    layer = subject(ob)
    try:
        return define(layer, len(ob.fact(layer.inputs[0]).shape or ())).strides
    except Unproved:
        return ()


def _declared(model: Model, port: Port) -> tuple[object, ...]:
    layer = model.of(port)
    if layer.elements is not None:
        return tuple(layer.elements.array.shape)
    return tuple(layer.outputs[port.port].shape or ()) if port.port < len(layer.outputs) else ()


Prover = Callable[[Obligation], Proof]
Believed = Callable[[Port], bool]


class AskedProver:
    """A prover that records questions and knowledge; proofs list the `believed` facts they use."""

    def __init__(self, prover: Prover, believed: Believed) -> None:
        self._prover, self._believed = prover, believed
        self.asked: dict[tuple[Port, Port], Obligation] = {}
        self.unproved: dict[tuple[Port, Port], str] = {}

    def __call__(self, task: Obligation) -> Proof:
        """Prove; raises Unproved as the prover does."""
        key = task.wanted, task.output
        self.asked[key] = task
        try:
            return self._prove(task)
        except Unproved as e:
            self.unproved[key] = str(e)
            # A value that both models compute may be read by one of them only.
            _, read = source_region(task)
            fewer = {output: wanted for output, wanted in task.twins.items() if wanted in read}
            if fewer == task.twins:
                raise
            self.asked[key] = replace(task, twins=fewer)
            return self._prove(self.asked[key])

    def _prove(self, task: Obligation) -> Proof:
        assumed: dict[str, None] = {}

        def fact(port: Port) -> Fact:
            found = task.fact(port)
            if self._believed(port):
                shape = "any rank" if found.shape is None else str(list(found.shape))
                text = f"{task.source.of(port)} computes {found.type} {shape}"
                assumed[f"{text}, as its file declares"] = None
            return found

        proof = self._prover(replace(task, fact=fact))
        return replace(proof, assumed=(*proof.assumed, *assumed))
