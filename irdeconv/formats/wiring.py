"""Ids, ports and edges of a Document, resolved and checked: who feeds which input."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from irdeconv.base.errors import Note, some
from irdeconv.formats.document import (
    Context,
    Document,
    Edge,
    XmlLayer,
    XmlPort,
    identifier,
    integer,
    why_no_identifier,
)
from irdeconv.ir.graph import Value

Positions = dict[int, int]
_ENDS = ("from-layer", "from-port", "to-layer", "to-port")


@dataclass
class Wiring:
    """Layers by their position in the document.

    `sources[i]` has the producer of each input port of layer i, None where there is none.
    `doubtful` are layers with a reported problem of ids, ports or edges: what follows from it is
    not reported again. `broken` says that some edge could not be resolved.
    """

    layers: tuple[XmlLayer, ...]
    ids: dict[int, int] = field(default_factory=dict)
    sources: list[list[Value | None]] = field(default_factory=list)
    doubtful: set[int] = field(default_factory=set)
    broken: bool = False
    # Layers whose ids or ports have been reported; an edge that misses them is no news.
    odd: set[int] = field(default_factory=set)
    # Whether some layer has no id of its own, and how many edges lead nowhere.
    lost: bool = False
    loose: int = 0
    # Port id -> position, for the inputs and the outputs of each layer.
    ports: list[tuple[Positions, Positions]] = field(default_factory=list)


def wire(document: Document, context: Context) -> Wiring:
    """Resolve the edges of a document and report every inconsistency of ids, ports and edges."""
    wiring = Wiring(document.layers)
    for index, layer in enumerate(document.layers):
        wiring.sources.append([None] * len(layer.inputs))
        _add_id(wiring, index, layer, context)
        _check_ports(wiring, index, layer, context)
    feeders: dict[tuple[int, int], Edge] = {}
    for edge in document.edges:
        ends = _numbers(edge, wiring, context)
        if ends is not None:
            _connect(wiring, edge, ends, feeders, context)
        else:
            wiring.broken = True
    _excuse_unfed(wiring)
    return wiring


def _excuse_unfed(wiring: Wiring) -> None:
    """Where edges lead nowhere, do not report as well the inputs that they were meant for."""
    unfed = [i for i, row in enumerate(wiring.sources) for v in row if v is None]
    unfed = [i for i in unfed if i not in wiring.doubtful]
    wiring.broken = wiring.broken or bool(unfed)
    if len(unfed) <= wiring.loose:
        wiring.doubtful |= set(unfed)


def _ids(ports: tuple[XmlPort, ...]) -> tuple[str | None, ...]:
    return tuple([p[0] for p in ports])


@lru_cache(maxsize=4096)
def _port_ids(
    inputs: tuple[str | None, ...], outputs: tuple[str | None, ...]
) -> tuple[Positions, Positions, bool]:
    """Return id -> position on both sides, and whether every id is an integer of its own.

    Most layers of a model number their ports alike, so few of these are ever made.
    """
    sides: list[Positions] = []
    for texts in (inputs, outputs):
        side: Positions = {}
        for position, text in enumerate(texts):
            number = identifier(text)
            if number is not None:
                side.setdefault(number, position)
        sides.append(side)
    fine = len(sides[0] | sides[1]) == len(inputs) + len(outputs)
    return sides[0], sides[1], fine


def _add_id(wiring: Wiring, index: int, layer: XmlLayer, context: Context) -> None:
    number = identifier(layer.id)
    if number is None:
        wiring.doubtful.add(index)
        wiring.broken = wiring.lost = True
        if layer.id is None:
            context.add("E105", 'the attribute "id" is missing', layer=layer)
        else:
            text = f'the id "{layer.id}" {why_no_identifier(layer.id)}'
            context.add("E106", text, attribute="id", layer=layer)
        return
    first = wiring.ids.setdefault(number, index)
    if first != index:
        wiring.doubtful |= {index, first}
        wiring.odd |= {index, first}
        wiring.broken = wiring.lost = True
        other = wiring.layers[first]
        context.add(
            "E200",
            f"the id {number} is already that of {other.label}",
            attribute="id",
            layer=layer,
            notes=[context.stands(other, "id")],
            hint="OpenVINO silently drops the first of the two",
        )


def _check_ports(wiring: Wiring, index: int, layer: XmlLayer, context: Context) -> None:
    ins, outs, fine = _port_ids(_ids(layer.inputs), _ids(layer.outputs))
    wiring.ports.append((ins, outs))
    if fine:
        return
    inputs: dict[int, str] = {}
    outputs: dict[int, str] = {}
    for ports, mine, other, what in (
        (layer.inputs, inputs, outputs, "input"),
        (layer.outputs, outputs, inputs, "output"),
    ):
        for port in ports:
            text, number = port.id, identifier(port.id)
            if text is None or number is None:
                wiring.doubtful.add(index)
                wiring.odd.add(index)
                _bad_port_id(layer, port, context)
                continue
            if number in mine:
                wiring.doubtful.add(index)
                wiring.odd.add(index)
                message = f"two {what} ports have the id {text}"
                context.add("E201", message, attribute="id", layer=layer, sub=port.sub)
            elif number in other:
                message = f"an input and an output port have the id {text}"
                context.add(
                    "E201", message, attribute="id", layer=layer, sub=port.sub, severity="warning"
                )
            mine[number] = text


def _bad_port_id(layer: XmlLayer, port: XmlPort, context: Context) -> None:
    if port.id is None:
        context.add("E105", 'a port has no attribute "id"', layer=layer, sub=port.sub)
    else:
        text = f'the port id "{port.id}" {why_no_identifier(port.id)}'
        context.add("E106", text, attribute="id", layer=layer, sub=port.sub)


def _numbers(edge: Edge, wiring: Wiring, context: Context) -> tuple[int, int, int, int] | None:
    """Return the four numbers of an edge, or None after reporting what is wrong with them."""
    a, b = integer(edge.from_layer), integer(edge.from_port)
    c, d = integer(edge.to_layer), integer(edge.to_port)
    if a is not None and b is not None and c is not None and d is not None and not edge.extra:
        return a, b, c, d
    out = []
    for name, text in zip(_ENDS, edge[:4], strict=True):
        number = integer(text)
        if text is None:
            context.add("E105", f'<edge> has no attribute "{name}"', edge.anchor)
        elif number is None:
            context.add("E106", f'{name}="{text}" is not an integer', edge.anchor, attribute=name)
        else:
            out.append(number)
    context.unknown_attributes(dict(edge.extra), _ENDS, "<edge>", edge.anchor)
    if len(out) == 4:
        return out[0], out[1], out[2], out[3]
    # Whoever the edge was meant for lacks an input because of it.
    target = integer(edge.to_layer)
    if target in wiring.ids:
        wiring.doubtful.add(wiring.ids[target])
    else:
        wiring.loose += 1
    return None


def _connect(
    wiring: Wiring,
    edge: Edge,
    ends: tuple[int, int, int, int],
    feeders: dict[tuple[int, int], Edge],
    context: Context,
) -> None:
    from_layer, from_port, to_layer, to_port = ends
    target = _end(wiring, edge, to_layer, to_port, False, context)
    source = _end(wiring, edge, from_layer, from_port, True, context)
    if target is None:
        wiring.broken = True
        wiring.loose += 1
        return
    index, port = target
    if source is None:
        wiring.broken = True
        wiring.doubtful.add(index)
        return
    first = feeders.setdefault(target, edge)
    if first is not edge:
        layer = wiring.layers[index]
        context.add(
            "E203",
            f"input port {to_port} has two producers: "
            f"{first.from_layer}:{first.from_port} and {from_layer}:{from_port}",
            edge.anchor,
            layer=layer,
            notes=[Note("the other edge stands here", context.place(first.anchor))],
        )
        wiring.doubtful.add(index)
        wiring.broken = True
        return
    wiring.sources[index][port] = Value(*source)


def _end(
    wiring: Wiring, edge: Edge, number: int, port: int, start: bool, context: Context
) -> tuple[int, int] | None:
    """Return (layer, position of the port) of one end of an edge; None after reporting."""
    index = wiring.ids.get(number)
    side = "from" if start else "to"
    if index is None and wiring.lost:
        return None
    if index is None:
        message = f"an edge {side} layer {number}, which does not exist"
        context.add("E202", message, edge.anchor, attribute=f"{side}-layer")
        return None
    inputs, outputs = wiring.ports[index]
    mine, others = (outputs, inputs) if start else (inputs, outputs)
    layer = wiring.layers[index]
    ends = start and layer.type == "Result"
    if port in mine and not ends:
        return index, mine[port]
    if index in wiring.odd:
        return None
    kind, other = ("output", "input") if start else ("input", "output")
    if ends:
        message = "the edge starts at a Result, which has no outputs"
    elif port in others:
        verb = "starts" if start else "ends"
        message = f"the edge {verb} at port {port}, which is an {other} port"
    else:
        message = f"no {kind} port {port} (there are: {some(mine)})"
    notes = [context.stands(layer)]
    context.add("E202", message, edge.anchor, attribute=f"{side}-port", layer=layer, notes=notes)
    if not start:
        wiring.doubtful.add(index)
    return None
