"""Build the graph of a piece: new inputs and outputs around copies of the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from irdeconv.constant import ArrayData
from irdeconv.editing.cut import Region
from irdeconv.graph import FreshNames, Graph, Node, Value
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.passes.infer_specs import require_specs

_OF_THE_GRAPH = ("id", "op", "name")


def adopt(graph: Graph, node: Node, inputs: Sequence[Value]) -> Node:
    """Add a copy of another graph's node, with all that belongs to it but its id."""
    made = graph.add(node.op, inputs, name=node.name)
    for field in fields(Node):
        if field.name not in _OF_THE_GRAPH:
            setattr(made, field.name, getattr(node, field.name))
    return made


def assemble(
    whole: Graph,
    region: Region,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[Value, int | None]],
    order: Mapping[int, int],
) -> Graph:
    """Return the graph of a region of an inferred graph.

    `inputs` and `outputs` stand in their order; an output may keep a Result of the whole graph.
    `order` is that of the layers. Raises InferenceError where they do not fit together.
    """
    piece = _Assembly(whole, region)
    for value in inputs:
        piece.input(value)
    for value in sorted(region.known):
        piece.known(value)
    for i in sorted(region.layers, key=order.__getitem__):
        piece.layer(i, set(inputs))
    for value, result in outputs:
        piece.output(value, result)
    require_specs(piece.graph)
    piece.graph.lint()
    return piece.graph


class _Assembly:
    def __init__(self, whole: Graph, region: Region) -> None:
        self.whole = whole
        self.graph = Graph(replace(whole.info))
        self.made: dict[Value, Value] = {}
        kept = [whole.node(i) for i in region.layers]
        self.names = FreshNames({n.name for n in kept})
        self.tensors = {t for n in kept for port in n.tensor_names for t in port}

    def input(self, value: Value) -> None:
        """Add an input of the whole graph, or a new one for a tensor."""
        producer = self.whole.node(value.node)
        if producer.type == "Parameter":
            made = adopt(self.graph, producer, ())
            self.names.taken.add(made.name)
        else:
            spec = self.whole.spec(value)
            assert spec.dtype is not None
            name = self.names.fresh(producer.output_key(value.port))
            made = self.graph.add(Parameter(spec.shape, spec.dtype), name=name)
            made.location, made.origins = producer.location, producer.origins
            made.tensor_names = (self._tensor_names(producer, value.port),)
        self.made[value] = Value(made.id)

    def known(self, value: Value) -> None:
        """Add the constant that a tensor from outside is known to be."""
        producer, spec = self.whole.node(value.node), self.whole.spec(value)
        array, dtype = spec.known, spec.dtype
        assert array is not None
        assert dtype is not None
        op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
        made = self.graph.add(op, name=self.names.fresh(producer.output_key(value.port)))
        made.location, made.origins = producer.location, producer.origins
        made.tensor_names = (self._tensor_names(producer, value.port),)
        self.made[value] = Value(made.id)

    def layer(self, node: int, cut: set[Value]) -> None:
        """Add a layer; a tensor of it that flows in from outside leaves its names to the input."""
        old = self.whole.node(node)
        new = adopt(self.graph, old, [self.made[v] for v in self.whole.inputs_of(node)])
        names = tuple(
            () if Value(node, port) in cut else names for port, names in enumerate(old.tensor_names)
        )
        new.tensor_names = names
        for port in range(old.outputs):
            self.made.setdefault(Value(node, port), Value(new.id, port))

    def output(self, value: Value, result: int | None) -> None:
        """Add a Result, the one of the whole graph or a new one."""
        source, producer = self.made[value], self.whole.node(value.node)
        if result is not None:
            adopt(self.graph, self.whole.node(result), [source])
            return
        end = self.graph.node(source.node)
        if not end.names_of(source.port):
            end.add_names(source.port, self._tensor_names(producer, value.port))
        name = self.names.fresh(f"{producer.name}/sink_port_{value.port}")
        self.graph.add(Result(), [source], name=name)

    def _tensor_names(self, producer: Node, port: int) -> tuple[str, ...]:
        """Return a tensor's names; one that has none is called after its layer."""
        names = producer.names_of(port)
        if not names and producer.output_key(port) not in self.tensors:
            names = (producer.output_key(port),)
        self.tensors |= set(names)
        return names
