"""Which layers depend on constants alone, and how many a graph has of them."""

from __future__ import annotations

from collections.abc import Mapping

from irdeconv.graph import Graph, Value
from irdeconv.ops.basic import Const
from irdeconv.plural import count


def constant_layers(
    graph: Graph, inputs: Mapping[int, tuple[Value, ...]] | None = None
) -> dict[int, list[int]]:
    """Return the producers of every node that depends on constants alone, producers first.

    `inputs` are those of all nodes, where they are known already.
    """
    found: dict[int, list[int]] = {}
    for node in graph.reading_order():
        values = graph.inputs_of(node.id) if inputs is None else inputs[node.id]
        producers = [v.node for v in values]
        if isinstance(node.op, Const) or (
            producers and node.type != "Result" and all(p in found for p in producers)
        ):
            found[node.id] = producers
    return found


def layer_count(graph: Graph) -> str:
    """Return `19 layers (5 constant)`."""
    return f"{count(len(graph), 'layer')} ({len(constant_layers(graph))} constant)"
