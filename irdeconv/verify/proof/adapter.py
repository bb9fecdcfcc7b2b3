"""A Graph as a Model of the trusted core: for graphs in memory, and files that are no IR."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.proof.definition import OWN, define, is_deconvolution
from irdeconv.proof.model import Array, Fact, Layer, Model, Port, TypedArray, Unproved
from irdeconv.spec import Dim, Interval, Spec
from irdeconv.spec import Shape as SpecShape
from irdeconv.verify.proof.kept import kept_parts, kept_text

FactOf = Callable[[Port], Fact]
DOCUMENT = "/document"  # behind the version of a deconvolution that means what its document says


@dataclass(frozen=True)
class Adapted:
    """A graph's model, and which node each of its layers is."""

    model: Model
    nodes: Mapping[int, int]


def adapted(graph: Graph) -> Adapted:
    """Return the model of a graph: its inputs and what outputs and states need.

    Constants are views of the graph's.
    """
    live, parameters = graph.live(), graph.parameters
    inside = [n for n in graph.topological() if n.id in live and n.type != "Parameter"]
    places: dict[int, int] = {}
    layers: list[Layer] = []
    for node in (*parameters, *inside):
        layer = _layer(graph, node, places)
        if node.type == "Pad":
            layer = _padded_first(graph, node, layer, layers)
        places[node.id] = len(layers)
        layers.append(layer)
    results = tuple(places[n.id] for n in graph.results)
    model = Model(tuple(layers), tuple(range(len(parameters))), results)
    return Adapted(model, {place: node for node, place in places.items()})


def _padded_first(graph: Graph, node: Node, pad: Layer, layers: list[Layer]) -> Layer:
    """Pad first and crop behind it, where one Pad may do both: a crop may take what was padded.

    In a file such a Pad reads foreign memory; what writes graphs splits it as well. Only the crop
    has the node's name: what bears it is compared with the original, at some sizes the padded data
    equals this as well.
    """
    specs = [graph.spec(v) for v in graph.inputs_of(node.id)[1:3]]
    begin, end = (s.known for s in specs)
    if begin is not None and end is not None:
        both = (np.minimum(begin, end) < 0) & (np.maximum(begin, end) > 0)
        if not both.any():
            return pad
    kind = specs[0].dtype.name if specs[0].dtype else "i64"
    zero = TypedArray(np.zeros(1, np.int64 if kind == "i64" else np.int32), kind)
    value: dict[str, Any] = {"names": ((),), "outputs": (fact_of(specs[0]),)}
    one = value | {"outputs": (Fact(kind, (1,)),)}

    def add(layer: Layer) -> Port:
        layers.append(layer)
        return Port(len(layers) - 1)

    at = add(Layer(f"{pad.name}/zero", "Const", "opset1", elements=zero, **one))
    data, first, last, *fill = pad.inputs

    def made(type: str, a: Port, b: Port) -> Port:
        said = {"auto_broadcast": "numpy"}
        return add(Layer(f"{pad.name}/{type}", type, "opset1", said, inputs=(a, b), **value))

    zeros = [made("Maximum", v, at) for v in (first, last)]
    unknown = (Fact(pad.outputs[0].type, None),)
    whole = replace(pad, name=f"{pad.name}/Pad", names=((),), outputs=unknown)
    padded = add(replace(whole, inputs=(data, *zeros, *fill)))
    crops = [made("Subtract", v, z) for v, z in zip((first, last), zeros, strict=True)]
    return replace(pad, inputs=(padded, *crops, *fill))


def _layer(graph: Graph, node: Node, places: Mapping[int, int]) -> Layer:
    op: Any = node.op
    elements = None
    typed = hasattr(op, "element_type")  # unlike what only its text says of a layer
    if node.type == "Const" and typed and op.data.available:
        elements = TypedArray(_elements(op), op.element_type.name)
    ports = range(max(node.outputs, graph.highest_port(node.id) + 1))
    names = [node.names_of(port) for port in ports]
    outputs = [fact_of(node.spec(port)) for port in ports]
    if node.type == "Parameter" and typed and node.specs is None:
        outputs = [fact_of(Spec(op.element_type, op.shape))]
    if node.type == "Result":
        outputs.clear()
        source = graph.inputs_of(node.id)[0]
        said = next((text for key, text in node.extra if key == "output_names" and text), None)
        names = [tuple(said.split(",")) if said else graph.node(source.node).names_of(source.port)]
    document = getattr(op, "semantics", "runtime") == "document"
    maps, bodies = _bodies(node)
    # Such a convolution is written as layers that OpenVINO has (passes/standardize.py).
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
        rest=kept_text(node) + maps,
        bodies=bodies,
    )


def _bodies(node: Node) -> tuple[str, tuple[tuple[str, Model], ...]]:
    """Return the text of what joins bodies to the outside, and the models of these."""
    op: Any = node.op
    lines, inner = [], []
    for body in sorted(getattr(op, "bodies", ()), key=lambda b: str(b.tag)):
        parameters = {n.id: number for number, n in enumerate(body.graph.parameters)}
        results = {n.id: number for number, n in enumerate(body.graph.results)}
        takes = [(parameters[i.parameter], *_said(i)) for i in body.inputs]
        gives = [(results[o.result], *_said(o)) for o in body.outputs]
        edges = [(results[a], parameters[b]) for a, b in body.edges]
        lines.append(repr((body.tag, takes, gives, edges)))
        inner.append((str(body.tag), adapted(body.graph).model))
    return "\n".join(lines), tuple(inner)


def _said(entry: Any) -> list[object]:
    """Return what an entry of a port map says besides the Parameter or Result."""
    return [v for k, v in vars(entry).items() if k not in ("parameter", "result")]


def _elements(op: Any) -> Array:
    """Return a constant's elements: types that NumPy lacks as float32, strings as their bytes."""
    if op.element_type.name == "string":
        return np.frombuffer(op.data.raw(), np.uint8)
    array: Array = op.data.array()
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def fact_of(spec: Spec) -> Fact:
    """Return what is known of a value."""
    shape = None if spec.shape is None else tuple(map(_dim, spec.shape))
    return Fact(spec.dtype.name if spec.dtype else None, shape)


def _dim(dim: Dim) -> int | tuple[int, int | None]:
    return (dim.lo, dim.hi) if isinstance(dim, Interval) else dim


def facts(graph: Graph, nodes: Mapping[int, int], adapted: Model | None = None) -> FactOf:
    """Return what inference knows of the values of a model; `nodes` has the node of each layer.

    What an `adapted` model has besides them says itself what it computes.
    """

    def fact(port: Port) -> Fact:
        node = nodes.get(port.layer)
        if node is None:
            return adapted.of(port).outputs[port.port] if adapted else Fact(None, None)
        op: Any = graph.node(node).op
        if op.type == "Parameter" and graph.node(node).specs is None:
            return fact_of(Spec(op.element_type, op.shape))
        return fact_of(graph.spec(Value(node, port.port)))

    return fact


def believed(graph: Graph, nodes: Mapping[int, int]) -> Callable[[Port], bool]:
    """Return what tells facts that may follow from what is declared of operations nobody knows."""
    behind: set[int] = set()
    for node in graph.topological():
        if _declares(node) or any(v.node in behind for v in graph.inputs_of(node.id)):
            behind.add(node.id)
    return lambda port: nodes.get(port.layer) in behind


def _declares(node: Node) -> bool:
    """Whether a node is an operation that nobody knows, or has one in its bodies."""
    op: Any = node.op
    inner = (n for body in getattr(op, "bodies", ()) for n in body.graph.nodes())
    return bool(kept_parts(node)) or any(map(_declares, inner))


def fitting(model: Model, fact: FactOf) -> FactOf:
    """Return facts in which the data of deconvolutions have as many channels as their filters.

    With any other number of channels the model computes nothing.
    """
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
        text = "..." if shape is None else ",".join(map(_text, shape))
        fact = Fact(old.outputs[0].type, fact_of(Spec(None, shape)).shape)
        said = {**old.attributes, "shape": text}
        layers[at] = replace(old, attributes=said, outputs=(fact,))
    return replace(model, layers=tuple(layers))


def _text(dim: Dim) -> str:
    if not isinstance(dim, Interval):
        return str(dim)
    high = "" if dim.hi is None else str(dim.hi)
    return f"{dim.lo}..{high}" if dim.lo or high else "?"


def meant(model: Model, *, document: bool) -> Model:
    """Return a model whose deconvolutions mean what their document says, if that is wanted."""
    if not document:
        return model
    layers = (
        replace(y, version=y.version + DOCUMENT) if is_deconvolution(y) else y for y in model.layers
    )
    return replace(model, layers=tuple(layers))


def paired(graph: Graph, model: Model) -> dict[int, int]:
    """Return which node of a graph a layer of a model is, both read from one file.

    They are walked side by side from the outputs; what one of them has and the other has not is
    left out.
    """
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
