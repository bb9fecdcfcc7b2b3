"""Layers that compute the same: one of them is enough."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable

from irdeconv.editing.names_kept import feeds_result, give_names
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.basic import Const, Opaque


def merge_duplicates(graph: Graph) -> int:
    """Let one layer stand for all that have the same operation and inputs; return how many went.

    Constants are the same where their bytes are. What a Result reads stays, so that outputs keep
    their names; operations known only by their declaration stay, as they may be random.
    """
    sizes = Counter(_size(n.op) for n in graph.nodes() if isinstance(n.op, Const))
    first: dict[Hashable, Node] = {}
    merged = 0
    for node in graph.topological():
        key = _key(graph, node, sizes)
        if key is None:
            continue
        other = first.setdefault(key, node)
        if other is node or feeds_result(graph, node):
            continue
        for port in range(node.outputs):
            give_names(graph, Value(node.id, port), Value(other.id, port))
            graph.replace_uses(Value(node.id, port), Value(other.id, port))
        graph.remove(node.id)
        merged += 1
    return merged


def _size(op: Const) -> Hashable:
    return op.element_type, op.shape


def _key(graph: Graph, node: Node, sizes: Counter[Hashable]) -> Hashable:
    """Return what is equal for layers that compute the same; None where that cannot be said."""
    op = node.op
    if isinstance(op, Opaque) or not op.pure or node.type in ("Parameter", "Result"):
        return None
    if isinstance(op, Const):
        if sizes[_size(op)] < 2 or not op.data.available:
            return None
        return _size(op), hashlib.blake2b(memoryview(op.data.raw())).digest()
    try:
        hash(op)
    except TypeError:
        return None
    return op, graph.inputs_of(node.id)
