"""The two sides of a proof: each a model of the core, and what is known of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from irdeconv.errors import Diagnostic
from irdeconv.graph import Graph
from irdeconv.proof.model import Model, Port
from irdeconv.verify.proof.adapter import FactOf, adapted, believed, facts, fitting
from irdeconv.verify.proof.certified import Stamp


@dataclass(frozen=True)
class ProofSide:
    """A model and the facts of its values; `stamp` has the hashes of its files, if it has any.

    `believed` tells which facts may follow from what a file declares of an operation that irdeconv
    does not know. `warnings` tell where it declares what is not so.
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


def side_of(graph: Graph) -> ProofSide:
    """Return an inferred graph as a side."""
    made = adapted(graph)
    fact = fitting(made.model, facts(graph, made.nodes, made.model))
    return ProofSide(made.model, fact, believed=believed(graph, made.nodes))
