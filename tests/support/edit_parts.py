"""Kinds of edits of a written IR: results, states, bodies (see edit_kinds)."""

from __future__ import annotations

from typing import Any

import numpy as np
from lxml import etree

from support import irbuild as ib
from support.edit_kinds import Edit, pick, said
from support.ir_edit import Ir


def results(ir: Ir, rng: np.random.Generator) -> str | None:
    """A result is missing, there is one more, one shows another value."""
    kind, found = int(rng.integers(3)), ir.of_type("Result")
    layer = pick(rng, found)
    if kind == 0:
        ir.remove(layer)
        return f"without {said(layer)}"
    edge = ir.edges_to(layer)[0]
    ports = [(la, p) for la in ir.not_of_type("Const") for p in la.findall("output/port")]
    other, port = pick(rng, ports)
    if kind == 1:
        edge.set("from-layer", other.get("id"))
        edge.set("from-port", port.get("id"))
        return f"{said(layer)} shows {said(other)}"
    id = ir.new_id()
    dims = etree.tostring(port, encoding="unicode").replace("names=", "nothing=")
    added = ir.add_layer(ib.layer(id, "extra", "Result", inputs=[dims]), layer)
    added.find("input/port").set("id", "0")
    ir.add_edge(other.get("id"), port.get("id"), id, "0")
    return f"one more result, of {said(other)}"


def state(ir: Ir, rng: np.random.Generator) -> str | None:
    """A variable has another name or shape, another value is stored, or none."""
    layer = pick(rng, ir.of_type("Assign", "ReadValue"))
    if layer is None:
        return None
    kind = int(rng.integers(3))
    if kind == 0 and layer.get("type") == "Assign":
        ir.remove(layer)
        return "no Assign"
    if kind == 1 and layer.get("type") == "Assign":
        edge = ir.edges_to(layer)[0]
        source = ir.edges_to(ir.layer(edge.get("from-layer")))
        if not source:
            return None
        edge.set("from-layer", source[0].get("from-layer"))
        edge.set("from-port", source[0].get("from-port"))
        return "Assign stores another value"
    data = layer.find("data")
    name = pick(rng, data.keys())
    values = {"variable_id": "w", "variable_type": "f16", "variable_shape": "3,2"}
    data.set(name, values.get(name, "x"))
    return f"{said(layer)} {name}={data.get(name)}"


def body(ir: Ir, rng: np.random.Generator) -> str | None:
    """Something in a body: a layer's type, an attribute, a constant, an edge, the port map."""
    found = [la for la in ir.layers if la.find("body") is not None]
    layer = pick(rng, found)
    if layer is None:
        return None
    inner, kind = layer.find("body"), int(rng.integers(5))
    if kind == 0:
        at = pick(rng, [i for i in inner.iter("layer") if i.get("type") in ("Add", "ReLU")])
        at.set("type", {"Add": "Subtract", "ReLU": "Abs"}[at.get("type")])
        return f"{said(at)} in a body"
    if kind == 1:
        data = pick(rng, [d for d in inner.iter("data") if d.get("offset")])
        start = int(data.get("offset"))
        values = np.frombuffer(bytes(ir.blob), np.float32, int(data.get("size")) // 4, start).copy()
        values[int(rng.integers(len(values)))] += 1
        data.set("offset", str(len(ir.blob)))
        ir.blob += values.tobytes()
        return "a constant in a body"
    if kind == 2:
        name = pick(rng, list(inner.iter("layer")))
        name.set("name", "renamed")
        return "a name in a body"
    if kind == 3:
        entry = pick(rng, list(layer.find("port_map")))
        name = pick(rng, [n for n in ("axis", "start", "end", "stride") if n in entry.attrib])
        if name is None:
            return None
        entry.set(name, {"axis": "1", "start": "1", "end": "-2", "stride": "-1"}[name])
        return f"port map {name}={entry.get(name)}"
    edges: list[Any] = list(inner.find("edges"))
    a, b = (edges[i] for i in rng.choice(len(edges), 2, replace=False))
    ends = [(e.get("from-layer"), e.get("from-port")) for e in (a, b)]
    for edge, (source, port) in zip((a, b), ends[::-1], strict=True):
        edge.set("from-layer", source)
        edge.set("from-port", port)
    return "two edges in a body exchanged"


KINDS: tuple[Edit, ...] = (results, state, body)
