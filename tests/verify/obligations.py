"""Obligations of graphs in memory: a source graph, what became of it, and their results."""

from __future__ import annotations

from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import bounds
from irdeconv.ops.basic import Const
from irdeconv.proof.model import Fact, Layer, Model, Obligation, Port, TypedArray


def model_of(graph: Graph) -> Model:
    """Return a graph as the proof's model."""
    nodes = list(graph.topological())
    places = {n.id: i for i, n in enumerate(nodes)}
    layers = []
    for n in nodes:
        elements, semantics = None, getattr(n.op, "semantics", "runtime")
        if isinstance(n.op, Const):
            elements = TypedArray(n.op.data.array(), str(n.op.element_type))
        layers.append(
            Layer(
                name=n.name,
                type=n.type,
                version=n.op.version + "/document" * (semantics == "document"),
                attributes={} if elements else n.op.to_attributes(),
                inputs=tuple(Port(places[v.node], v.port) for v in graph.inputs_of(n.id)),
                elements=elements,
            )
        )
    parameters = tuple(places[n.id] for n in graph.parameters)
    return Model(tuple(layers), parameters, tuple(places[n.id] for n in graph.results))


def obligations(source: Graph, lowered: Graph) -> list[Obligation]:
    """Return one obligation per deconvolution of `source`, an inferred graph.

    What replaced it bears its name, or that of the Add behind it if that is a bias that became a
    part of it; layers of equal name and type in front of it are twins.
    """
    a, b = model_of(source), model_of(lowered)
    nodes = list(source.topological())

    def fact(port: Port) -> Fact:
        spec = source.spec(Value(nodes[port.layer].id, port.port))
        if spec.shape is None:
            return Fact(str(spec.dtype), None)
        shape = tuple(d if isinstance(d, int) else bounds(d) for d in spec.shape)
        return Fact(str(spec.dtype), shape)

    names = {x.name: i for i, x in enumerate(b.layers)}
    same = {(x.name, x.type): i for i, x in enumerate(b.layers) if x.elements is None}
    out = []
    for at, node in enumerate(nodes):
        if not node.op.deconvolution:
            continue
        if node.name not in names:
            ((user, _),) = source.users(Value(node.id))
            node = source.node(user)
            assert node.type == "Add"
            at = nodes.index(node)
        twins = {
            Port(same[x.name, x.type]): Port(i)
            for i, x in enumerate(a.layers[:at])
            if (x.name, x.type) in same and not nodes[i].op.deconvolution
        }
        wanted = Port(at), Port(names[node.name])
        out.append(Obligation(a, b, *wanted, twins, fact))
    return out
