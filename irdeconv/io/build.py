"""A Document becomes a Graph; every structural problem is reported on the way."""

from __future__ import annotations

from irdeconv import progress
from irdeconv.graph import Graph, Info
from irdeconv.io.bodies import read_bodies
from irdeconv.io.context import Context
from irdeconv.io.document import Document, XmlPort
from irdeconv.io.liveness import check_liveness, find_cycles, live_layers
from irdeconv.io.names import check_names
from irdeconv.io.operations import OperationReader, unknown_attributes
from irdeconv.io.port_counts import check_inputs
from irdeconv.io.port_specs import declared_specs, tensor_names
from irdeconv.io.version10 import as_version_11
from irdeconv.io.wiring import Wiring, wire
from irdeconv.ops.basic import Opaque


def build(document: Document, context: Context) -> Graph | None:
    """Return the graph of a document or body; None where it has a cycle.

    Layers that cannot be built are Opaque nodes with their declared specs.
    """
    wiring = wire(document, context)
    live = live_layers(wiring)
    graph = Graph()
    operations = OperationReader(context)
    for index, layer in enumerate(progress.each("building the graph", document.layers)):
        outputs = declared_specs(layer, layer.outputs, True, context)
        inputs = declared_specs(layer, layer.inputs, False, context)
        bodies = read_bodies(layer, context, build) if layer.bodies or layer.maps else None
        op = operations.read(layer, outputs, index in live or wiring.broken, bodies)
        if not check_inputs(wiring, index, op, context) and not isinstance(op, Opaque):
            op = operations.opaque(layer, outputs)
        node = graph.add(op, name=layer.name or f"layer {layer.id}", id=index)
        node.location = context.place(layer.anchor)
        node.tensor_names = tensor_names(layer.outputs)
        node.declared, node.declared_inputs = outputs, inputs
        node.rt_info, node.extra = layer.rt_info, layer.extra
        node.extra_data = unknown_attributes(layer, op)
        if layer.inputs or layer.outputs:
            ins, outs = layer.inputs, layer.outputs
            node.port_elements = tuple([p.sub for p in ins]), tuple([p.sub for p in outs])
            if [p for p in (*ins, *outs) if p.rt_info]:
                node.port_rt_info = _port_rt_info("input", ins) + _port_rt_info("output", outs)
    check_names(document, context)
    check_liveness(document, wiring, live, context)
    if find_cycles(wiring, context):
        return None
    _connect(graph, wiring)
    if document.version is not None and document.version.strip() == "10":
        as_version_11(graph)
    return graph


def _port_rt_info(side: str, ports: tuple[XmlPort, ...]) -> tuple[tuple[str, int, str], ...]:
    found = [(side, i, p.rt_info) for i, p in enumerate(ports) if p.rt_info is not None]
    return tuple(found)


def _connect(graph: Graph, wiring: Wiring) -> None:
    for index, sources in enumerate(wiring.sources):
        port = 0
        for value in sources:
            if value is not None:
                graph.connect(value, index, port)
                port += 1


def model_info(document: Document, file: str | None) -> Info:
    """Return what belongs to the whole model."""
    version = document.version
    return Info(
        name=document.name or "model",
        ir_version=10 if version is not None and version.strip() == "10" else 11,
        rt_info=document.rt_info,
        file=file,
        extra=document.extra,
    )
