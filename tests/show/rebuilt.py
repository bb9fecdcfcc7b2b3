"""A graph made of the JSON of an inspection alone, and what of a graph that JSON has."""

from __future__ import annotations

from typing import Any

from irdeconv.formats.document import NoWeights
from irdeconv.ir.constant import FileData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import Op, lookup, parse_attributes
from irdeconv.ir.spec import Dim, Spec, parse_dim
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput, Slicing


def rebuilt(document: dict[str, Any]) -> Graph:
    """Build the graph; constants have no data, no spec has a value."""
    graph = Graph(
        Info(
            name=document["name"],
            ir_version=document["ir_version"],
            file=document["file"],
            rt_info=document.get("rt_info"),
            extra=tuple(document.get("extra", {}).items()),
        )
    )
    _add_layers(graph, document["layers"])
    return graph


def _add_layers(graph: Graph, layers: list[dict[str, Any]]) -> None:
    for layer in layers:
        node = graph.add(
            _operation(layer), name=layer["name"], id=layer["id"], origins=tuple(layer["origins"])
        )
        node.specs = tuple(map(_spec, layer["outputs"]))
        node.tensor_names = tuple(tuple(o["tensor_names"]) for o in layer["outputs"])
        node.rt_info = layer.get("rt_info")
        node.port_rt_info = tuple(map(tuple, layer.get("port_rt_info", ())))
        node.extra = tuple(layer.get("extra", {}).items())
    for layer in layers:
        for port, i in enumerate(layer["inputs"]):
            graph.connect(Value(i["producer"], i["port"]), layer["id"], port)


def _body(written: dict[str, Any]) -> Body:
    graph = Graph(Info(name=written["tag"], rt_info=written.get("rt_info")))
    _add_layers(graph, written["layers"])
    for entry in (*written["inputs"], *written["outputs"]):
        entry["slicing"] = entry["slicing"] and Slicing(**entry["slicing"])
    return Body(
        graph,
        tuple(BodyInput(**i) for i in written["inputs"]),
        tuple(BodyOutput(**o) for o in written["outputs"]),
        tuple((e["result"], e["parameter"]) for e in written["edges"]),
        written["tag"],
    )


def skeleton(graph: Graph) -> Graph:
    """Return a copy without what JSON leaves out: values, and what a file declares besides."""
    out = graph.copy()
    for node in out.nodes():
        specs = tuple(s.without_value() for s in node.specs or node.declared)
        while graph.users(Value(node.id, len(specs))):
            specs += (Spec(None, None),)  # nobody knows what it is, but it is read
        node.specs = specs
        node.tensor_names = (*node.tensor_names, *((),) * len(specs))[: len(specs)]
        node.declared = node.declared_inputs = ()
        op = node.op
        if isinstance(op, Const):
            size = op.data.size if isinstance(op.data, FileData) else len(op.data.raw())
            out.replace_op(node.id, _const(op.element_type, op.shape, size))
        elif isinstance(op, Opaque):
            made = Opaque(op.kind, op.opset, op.data, specs, op.sections, None, op.stateful)
            out.replace_op(node.id, made)
        elif isinstance(op, BodyOp):
            out.replace_op(node.id, op.with_graphs(skeleton))
    return out


def _const(element_type: Any, shape: Any, size: int) -> Const:
    data = FileData(NoWeights("?"), 0, size, element_type, shape)
    return Const(element_type=element_type, shape=shape, data=data)


def _operation(layer: dict[str, Any]) -> Op:
    attributes = layer["attributes"]
    if layer.get("opaque"):
        return Opaque(
            kind=layer["type"],
            opset=layer["version"],
            data=tuple(attributes.items()),
            declared=tuple(map(_spec, layer["outputs"])),
            sections=tuple(
                Section(s["tag"], s["xml"].encode("utf-8", "surrogateescape"))
                for s in layer.get("sections", ())
            ),
            stateful=layer.get("stateful", False),
        )
    cls = lookup(layer["type"], layer["version"])
    assert cls is not None
    place = ("offset", "size") if cls is Const else ()
    values, problems = parse_attributes(
        cls, {k: v for k, v in attributes.items() if k not in place}
    )
    assert [p for p in problems if p.severity == "error"] == []
    if cls is Const:
        return _const(values["element_type"], values["shape"], layer["bytes"])
    if issubclass(cls, BodyOp):
        return cls(**values, bodies=tuple(map(_body, layer["bodies"])))
    fields = layer.get("fields", {})
    return cls(**values, **{k: ELEMENT_TYPES.get(str(v), v) for k, v in fields.items()})


def _spec(written: dict[str, Any]) -> Spec:
    kind, shape = written["element_type"], written["shape"]
    dims: list[Dim] = [d if isinstance(d, int) else parse_dim(d) for d in shape or ()]
    return Spec(kind and ELEMENT_TYPES[kind], None if shape is None else tuple(dims))
