"""The JSON of an inspection: all of a graph but the values of its constants."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from irdeconv.graph import Graph, Node, unique
from irdeconv.inspection.facts import LayerFactsTable
from irdeconv.inspection.layers import LayerFacts, OutputFacts, layers
from irdeconv.op import attributes
from irdeconv.ops.basic import Opaque
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput
from irdeconv.spec import Spec

INSPECTION_SCHEMA = "irdeconv/inspect/2"


def document(facts: LayerFactsTable) -> dict[str, Any]:
    """Return the JSON form; docs/inspect.md says what the keys mean."""
    graph = facts.graph
    info = graph.info
    out: dict[str, Any] = {
        "schema": INSPECTION_SCHEMA,
        "name": info.name,
        "ir_version": info.ir_version,
        "file": info.file,
        **_present(rt_info=info.rt_info, extra=dict(info.extra)),
        "inputs": _ends(graph.inputs, graph.parameters),
        "outputs": _ends(_output_names(graph), graph.results),
        "totals": vars(facts.totals),
        "layers": [_layer(graph.node(r.id), r) for r in facts.shown],
        "summary": [vars(r) for r in facts.summary],
        "deconvolutions": [vars(d) for d in facts.deconvolutions],
    }
    if facts.target is not None:
        out["target"] = facts.target
    if facts.lowered is not None:
        out["lowered"] = document(facts.lowered)
    return out


def _output_names(graph: Graph) -> list[str]:
    fed = (bool(graph.inputs_of(n.id)) for n in graph.results)
    return unique(
        graph.output_name(n) if is_fed else n.name
        for n, is_fed in zip(graph.results, fed, strict=True)
    )


def _ends(names: list[str], nodes: list[Node]) -> list[dict[str, Any]]:
    return [{"id": n.id, "name": name} for name, n in zip(names, nodes, strict=True)]


def _layer(node: Node, r: LayerFacts) -> dict[str, Any]:
    return {
        "id": r.id,
        "name": r.name,
        "type": r.type,
        "version": r.version,
        "attributes": r.attributes,
        "inputs": [
            {"producer": i.producer, "port": i.port, "name": i.name, **_spec(i.spec)}
            for i in r.inputs
        ],
        "outputs": [_output(o) for o in r.outputs],
        "parameters": r.parameters,
        "bytes": r.bytes,
        "macs": r.macs,
        "deconvolution": r.deconvolution,
        "constant": r.constant,
        "origins": r.origins,
        "file": r.file,
        "line": r.line,
        **_present(violations=r.violations),
        **_beyond_attributes(node),
        **_present(rt_info=node.rt_info, port_rt_info=node.port_rt_info, extra=dict(node.extra)),
    }


def _output(o: OutputFacts) -> dict[str, Any]:
    return {
        **_spec(o.spec),
        "tensor_names": o.tensor_names,
        "consumers": [vars(c) for c in o.consumers],
        **_present(declared=o.declared and _spec(o.declared)),
    }


def _spec(spec: Spec) -> dict[str, Any]:
    shape = spec.shape and [d if isinstance(d, int) else str(d) for d in spec.shape]
    return {"element_type": spec.dtype and spec.dtype.name, "shape": shape}


def _beyond_attributes(node: Node) -> dict[str, Any]:
    """Return what an operation has besides attributes: bodies, and fields that no XML spells."""
    op = node.op
    if isinstance(op, Opaque):
        sections = [
            {"tag": s.tag, "xml": s.xml.decode("utf-8", "surrogateescape")} for s in op.sections
        ]
        return {"opaque": True, **_present(stateful=op.stateful, sections=sections)}
    if isinstance(op, BodyOp):
        return {"bodies": [_body(body) for body in op.bodies]}
    spelled = {a.name for a in attributes(type(op)).values()}
    fields = (f for f in dataclasses.fields(op) if f.name not in spelled)
    values = {f.name: (getattr(op, f.name), f.default) for f in fields if f.name != "data"}
    more = {k: v for k, (v, default) in values.items() if v != default}
    return _present(fields={k: v if isinstance(v, bool) else str(v) for k, v in more.items()})


def _body(body: Body) -> dict[str, Any]:
    """Return a body: its layers, and what joins its Parameters and Results to the outside."""
    rows = layers(body.graph)
    return {
        "tag": body.tag,
        "inputs": [_entry(i) for i in body.inputs],
        "outputs": [_entry(o) for o in body.outputs],
        "edges": [{"result": result, "parameter": parameter} for result, parameter in body.edges],
        "layers": [_layer(body.graph.node(r.id), r) for r in rows],
        **_present(rt_info=body.graph.info.rt_info),
    }


def _entry(entry: BodyInput | BodyOutput) -> dict[str, Any]:
    slicing = entry.slicing and dict(vars(entry.slicing))
    return {**vars(entry), "slicing": slicing}


def _present(**items: Any) -> dict[str, Any]:
    """Return the items that are there; most layers have none of them."""
    return {k: v for k, v in items.items() if v}


def to_json(content: Mapping[str, Any], indent: int = 0) -> str:
    """Return JSON with an object of a list on a line: quick to write, and `grep` finds layers."""
    return "".join(_lines(content, " " * indent))


def _lines(content: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield "{"
    for n, (key, value) in enumerate(content.items()):
        yield f"{',' if n else ''}\n{indent} {json.dumps(key)}: "
        if isinstance(value, dict) and "schema" in value:
            yield from _lines(value, indent + " ")
        elif isinstance(value, list) and value:
            items = f",\n{indent}  ".join(map(_encode, value))
            yield f"[\n{indent}  {items}\n{indent} ]"
        else:
            yield _encode(value)
    yield f"\n{indent}}}"


_encode = json.JSONEncoder(allow_nan=False).encode
