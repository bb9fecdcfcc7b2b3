"""Names that stay when one tensor takes the place of another."""

from __future__ import annotations

from irdeconv.graph import Graph, Node, Value


def feeds_result(graph: Graph, node: Node) -> bool:
    """Whether an output of the model is an output of the node."""
    return any(graph.node(i).type == "Result" for i in graph.successors(node.id))


def may_stand_for(graph: Graph, old: Node, new: Value) -> bool:
    """Whether a tensor may take the place of a node's output without a change of the interface.

    An output of the model keeps its name and stays another tensor than all other ends.
    """
    if not feeds_result(graph, old):
        return True
    producer = graph.node(new.node)
    free = producer.type != "Parameter" and not feeds_result(graph, producer)
    return free and not producer.names_of(new.port)


def give_names(graph: Graph, old: Value, new: Value) -> None:
    """Let a tensor answer to another one's names as well, unless programs ask for it by its own."""
    more, producer = graph.node(old.node).names_of(old.port), graph.node(new.node)
    named_end = bool(producer.names_of(new.port)) and feeds_result(graph, producer)
    if more and producer.type != "Parameter" and not named_end:
        producer.add_names(new.port, more)
