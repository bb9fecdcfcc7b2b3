"""The models of a seed by their numbers: random graphs, or mutants of IRs."""

from __future__ import annotations

from collections.abc import Callable

from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.rewrite.infer_specs import inferred
from support.differential.graphs import random_graph
from support.differential.trial import Model

Maker = Callable[[int], Model | None]


def maker(seed: int, *, mutants: bool) -> Maker:
    """Return what makes the model of a number; None where nothing came of it."""
    if mutants:
        from support.differential.mutants import mutant

        return lambda number: mutant(seed, number)
    return lambda number: random_model(seed, number)


def random_model(seed: int, number: int) -> Model | None:
    """Return a random graph as an IR."""
    made = random_graph(seed, number)
    if not made.graph.results:
        return None
    return Model(*ir_bytes(inferred(made.graph)), made.feeds)
