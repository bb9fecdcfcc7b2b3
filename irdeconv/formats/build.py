"""Make a Graph from a Document, and report every structural problem.

The edges alone, before there is a graph, decide which layers the results need, and show cycles.
"""

from __future__ import annotations

from irdeconv.base import progress
from irdeconv.base.errors import Note
from irdeconv.formats.bodies import as_version_11, read_bodies
from irdeconv.formats.constants import check_names
from irdeconv.formats.document import Context, Document, XmlLayer, XmlPort
from irdeconv.formats.layers import STATEFUL, OperationReader, check_inputs, unknown_attributes
from irdeconv.formats.wiring import Wiring, wire
from irdeconv.formats.xml_layer import declared_specs, tensor_names
from irdeconv.ir.graph import Graph, Info
from irdeconv.ops.basic import Opaque
from irdeconv.ops.catalog import CATALOG

_LAYERS_NAMED = 12
_CYCLES = 20


def live_layers(wiring: Wiring) -> set[int]:
    """Return the positions of the layers that a Result or a layer with side effects needs."""
    sinks = ("Result", *STATEFUL)
    seen = {i for i, layer in enumerate(wiring.layers) if layer.type in sinks}
    stack = list(seen)
    while stack:
        for value in wiring.sources[stack.pop()]:
            if value is not None and value.node not in seen:
                seen.add(value.node)
                stack.append(value.node)
    return seen


def check_liveness(document: Document, wiring: Wiring, live: set[int], context: Context) -> None:
    """Report a missing Result, unused inputs, and layers that no result needs."""
    if document.complete and not any(layer.type == "Result" for layer in document.layers):
        context.add(
            "E209",
            "the model has no Result, so nothing of it is computed"
            if not document.anchor.section
            else "the body has no Result",
            document.anchor,
            severity="warning" if live else None,
        )
        return
    # Behind a broken edge everything looks dead; the edge has been reported.
    if wiring.broken or wiring.doubtful:
        return
    for i, layer in enumerate(document.layers):
        if i in live:
            continue
        if layer.type == "Parameter":
            if not document.anchor.section:
                context.add("W205", "the input is not used", layer=layer)
        elif layer.type in CATALOG:
            hint = "OpenVINO drops it; so does irdeconv when it lowers"
            context.add("W201", "no result needs it", layer=layer, hint=hint)


def find_cycles(wiring: Wiring, context: Context) -> bool:
    """Report every cycle (those that share no layer); whether there is one."""
    waiting, users = _degrees(wiring)
    ready = [i for i, n in enumerate(waiting) if n == 0]
    left = len(waiting)
    found = 0
    while found <= _CYCLES:
        while ready:
            left -= 1
            for user in users[ready.pop()]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    ready.append(user)
        if not left:
            break
        found += 1
        cycle = _walk_back(wiring, waiting)
        if cycle is None:
            break
        _report([wiring.layers[i] for i in cycle], context)
        # Take the cycle out, and go on looking behind it.
        for i in cycle:
            waiting[i] = 0
        ready = list(cycle)
        users = [[u for u in row if waiting[u] > 0] for row in users]
    return found > 0


def _degrees(wiring: Wiring) -> tuple[list[int], list[list[int]]]:
    waiting = [0] * len(wiring.layers)
    users: list[list[int]] = [[] for _ in wiring.layers]
    for i, sources in enumerate(wiring.sources):
        for value in sources:
            if value is not None:
                waiting[i] += 1
                users[value.node].append(i)
    return waiting, users


def _walk_back(wiring: Wiring, waiting: list[int]) -> list[int] | None:
    """Follow producers that are still waiting until one comes up again."""
    at = next((i for i, n in enumerate(waiting) if n > 0), None)
    order: dict[int, int] = {}
    while at is not None and at not in order:
        order[at] = len(order)
        at = next(
            (v.node for v in wiring.sources[at] if v is not None and waiting[v.node] > 0), None
        )
    if at is None:
        return None
    cycle = [i for i, n in order.items() if n >= order[at]]
    return cycle[::-1]


def _report(cycle: list[XmlLayer], context: Context) -> None:
    start = min(range(len(cycle)), key=lambda i: cycle[i].anchor)
    cycle = cycle[start:] + cycle[:start]
    names = [f'"{layer.name}"' for layer in cycle[:_LAYERS_NAMED]]
    if len(cycle) > _LAYERS_NAMED:
        names.append(f"... {len(cycle) - _LAYERS_NAMED} more")
    path = " -> ".join([*names, f'"{cycle[0].name}"'])
    context.add(
        "E205",
        f"it needs its own output: {path}" if len(cycle) == 1 else f"a cycle: {path}",
        layer=cycle[0],
        notes=[
            Note(f"{layer.label} is part of it", context.place(layer.anchor))
            for layer in cycle[1:_LAYERS_NAMED]
        ],
    )


def build(document: Document, context: Context) -> Graph | None:
    """Return the graph of a document or body, broken layers as Opaque; None for a cycle."""
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
