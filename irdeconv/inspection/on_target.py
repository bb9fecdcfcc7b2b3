"""Which layers of a graph a target cannot execute."""

from __future__ import annotations

from irdeconv.graph import Graph
from irdeconv.passes.standardize import standardize
from irdeconv.targets.check import executed
from irdeconv.targets.profile import Target


def violations(graph: Graph, target: Target) -> dict[int, tuple[str, ...]]:
    """Return the conditions that layers do not meet, by id.

    What a layer becomes in standard operations counts for it, and so do layers of its bodies.
    Raises UnsupportedError if a layer has no standard spelling, InferenceError if the graph does
    not fit together.
    """
    by_name = {n.name: n.id for n in graph.nodes()}
    out: dict[int, list[str]] = {}
    for top, _, operation, facts in executed(standardize(graph)):
        name = top.name
        while top.id not in graph and name and name not in by_name:
            name = name.rpartition("/")[0]
        layer = top.id if top.id in graph else by_name.get(name)
        if layer is not None:
            same = graph.node(layer).type == operation
            texts = target.failures(operation, facts)
            out.setdefault(layer, []).extend(t if same else f"{operation}: {t}" for t in texts)
    return {layer: tuple(dict.fromkeys(texts)) for layer, texts in out.items() if texts}
