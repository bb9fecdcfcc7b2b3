"""Names that stay when one tensor takes the place of another."""

from __future__ import annotations

from irdeconv.graph import Graph, Node, Value


def feeds_result(graph: Graph, node: Node) -> bool:
    """Whether an output of the model is an output of the node."""
    return any(graph.node(i).type == "Result" for i in graph.successors(node.id))


def names_of(graph: Graph, value: Value) -> tuple[str, ...]:
    """Return the tensor names of a value."""
    names = graph.node(value.node).tensor_names
    return names[value.port] if value.port < len(names) else ()


def may_stand_for(graph: Graph, old: Node, new: Value) -> bool:
    """Whether a tensor may take the place of a node's output without a change of the interface.

    An output of the model keeps its name and stays another tensor than all other ends.
    """
    if not feeds_result(graph, old):
        return True
    producer = graph.node(new.node)
    free = producer.type != "Parameter" and not feeds_result(graph, producer)
    return free and not names_of(graph, new)


def give_names(graph: Graph, old: Value, new: Value) -> None:
    """Let a tensor answer to another one's names as well, unless programs ask for it by its own."""
    more, have, producer = names_of(graph, old), names_of(graph, new), graph.node(new.node)
    is_end = producer.type == "Parameter" or (bool(have) and feeds_result(graph, producer))
    if not more or is_end:
        return
    names = list(producer.tensor_names) + [()] * (new.port + 1 - len(producer.tensor_names))
    names[new.port] = (*have, *more)
    producer.tensor_names = tuple(names)
