"""What version 10 says otherwise: names of inputs and outputs, and their element types."""

from __future__ import annotations

from dataclasses import replace

from irdeconv.dtypes import ElementType, f32, i32
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.basic import Parameter
from irdeconv.ops.convert import Convert
from irdeconv.spec import Spec


def as_version_11(graph: Graph) -> None:
    """Give a version 10 model the names and the element types at its ends that OpenVINO gives it.

    f16 inputs are f32 outside. Outputs are f32 or i32: i64, u64 and u32 become i32, all others
    f32. A Convert behind the input or in front of the Result stands for it.
    """
    _name_ends(graph)
    for node in graph.parameters:
        if isinstance(node.op, Parameter) and node.op.element_type.name == "f16":
            _open_input(graph, node, node.op)
    converted: dict[Value, Value] = {}
    for node in graph.results:
        for value in graph.inputs_of(node.id):
            inside = graph.spec(value)
            outside = _outside(inside.dtype)
            if outside == inside.dtype or outside is None:
                continue
            if value not in converted:
                converted[value] = _close_output(graph, value, outside)
            graph.set_input(node.id, 0, converted[value])
            node.declared_inputs = (Spec(outside, inside.shape),)


def as_version_10(graph: Graph) -> Graph:
    """Return the graph without the Converts that version 10 implies: as it is written."""
    out = graph.copy()
    for node in list(out.nodes("Convert")):
        (source,) = out.inputs_of(node.id)
        if isinstance(node.op, Convert) and node.op.at_end and _implied(out, node, source):
            out.replace_uses(Value(node.id), source)
            out.node(source.node).add_names(source.port, node.names_of(0))
            out.remove(node.id)
    return out


def _implied(graph: Graph, node: Node, source: Value) -> bool:
    """Whether a Convert still stands at an end; an input becomes f16 again."""
    producer, inside = graph.node(source.node), node.spec().dtype
    if inside is None or inside.name != "f16":
        return all(graph.node(user).type == "Result" for user in graph.successors(node.id))
    if not isinstance(producer.op, Parameter) or producer.op.element_type != f32:
        return False
    graph.replace_op(producer.id, replace(producer.op, element_type=inside))
    producer.declared, producer.specs = node.declared, node.specs
    return True


def _name_ends(graph: Graph) -> None:
    """Name unnamed inputs and outputs."""
    ends = [Value(node.id) for node in graph.parameters]
    ends += [v for node in graph.results for v in graph.inputs_of(node.id)]
    for node_id, port in ends:
        node = graph.node(node_id)
        names = list(node.tensor_names)
        if port < len(names) and not names[port]:
            names[port] = (node.name if len(names) == 1 else f"{node.name}.{port}",)
            node.tensor_names = tuple(names)


def _outside(inside: ElementType | None) -> ElementType | None:
    """Return the element type of an output; None where nothing is known or nothing converts."""
    if inside is None or inside.kind == "string":
        return None
    return i32 if inside.name in ("i32", "i64", "u64", "u32") else f32


def _open_input(graph: Graph, node: Node, op: Parameter) -> None:
    """Let an input be f32 and convert it to what the model has inside."""
    inside, shape = op.element_type, op.shape
    uses = graph.users(Value(node.id))
    graph.replace_op(node.id, replace(op, element_type=f32))
    node.declared = (Spec(f32, shape),)
    value = _convert(graph, Value(node.id), inside, shape_of=Spec(inside, shape))
    for user, port in uses:
        graph.set_input(user, port, value)


def _close_output(graph: Graph, value: Value, outside: ElementType) -> Value:
    """Convert an output; the tensor's names go with it."""
    producer = graph.node(value.node)
    out = _convert(graph, value, outside, shape_of=graph.spec(value))
    names = list(producer.tensor_names)
    if value.port < len(names):
        graph.node(out.node).tensor_names = (names[value.port],)
        names[value.port] = ()
        producer.tensor_names = tuple(names)
    return out


def _convert(graph: Graph, value: Value, dtype: ElementType, *, shape_of: Spec) -> Value:
    producer = graph.node(value.node)
    name = f"{producer.output_key(value.port)}/{dtype}"
    node = graph.add(Convert(dtype, at_end=True), [value], name=name, location=producer.location)
    node.declared = (Spec(dtype, shape_of.shape),)
    return Value(node.id)
