"""The two sides of a proof: each a model of the core, and what is known of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from irdeconv.errors import Diagnostic
from irdeconv.graph import Graph
from irdeconv.proof.model import Fact, Model, Port
from irdeconv.verify.proof.adapter import FactOf, adapted, believed, facts, fitting, paired
from irdeconv.verify.proof.certified import Stamp


@dataclass(frozen=True)
class ProofSide:
    """A model and the facts of its values; `stamp` has the hashes of its files, if it has any.

    `believed` tells which facts may follow from what a file declares of an operation that irdeconv
    does not know. `warnings` tell where it declares what is not so. `inside` gives the sides of the
    bodies of a layer.
    `sizes` are the shapes that were asked for, by the names of inputs; `refused` says why the core
    does not read the files, whose model is then empty.
    """

    model: Model
    fact: FactOf
    stamp: Stamp | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    believed: Callable[[Port], bool] = lambda port: False
    warnings: tuple[Diagnostic, ...] = ()
    inside: Callable[[int, str], ProofSide] | None = None

    def body(self, place: int, tag: str) -> ProofSide:
        """Return a body of the layer at a place as a side."""
        assert self.inside is not None
        return self.inside(place, tag)


def side_of(graph: Graph) -> ProofSide:
    """Return an inferred graph as a side."""
    made = adapted(graph)
    return model_side(graph, made.model, made.nodes, made.model)


def _unread(model: Model) -> ProofSide:
    """Return a body of a layer that the graph keeps as text: nothing is known of its values."""
    return ProofSide(
        model,
        lambda port: Fact(None, None),
        inside=lambda place, tag: _unread(dict(model.layers[place].bodies)[tag]),
    )


def model_side(
    graph: Graph, model: Model, nodes: Mapping[int, int], adapted: Model | None = None
) -> ProofSide:
    """Return a model as a side; `nodes` has the node of the inferred graph for each layer."""
    doubted = believed(graph, nodes)

    def inside(place: int, tag: str) -> ProofSide:
        op: Any = graph.node(nodes[place]).op
        inner = dict(model.layers[place].bodies)[tag]
        body = next((b.graph for b in getattr(op, "bodies", ()) if b.tag == tag), None)
        if body is None:
            return _unread(inner)
        read = adapted is None  # of a file, by the core
        side = model_side(body, inner, paired(body, inner)) if read else side_of(body)
        if any(map(doubted, model.layers[place].inputs)):
            return replace(side, believed=lambda port: True)
        return side

    fact = fitting(model, facts(graph, nodes, adapted))
    return ProofSide(model, fact, believed=doubted, inside=inside)
