"""Random graphs: several layers, branches, shared constants, several inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from support.differential import native
from support.differential.deconvolutions import deconvolution
from support.differential.making import Making, pick
from support.differential.sampled import add_sampled
from support.live_operations.mutate import numbers

TYPES = ("f32", "f32", "f32", "f32", "f16", "f64", "i32", "i64", "u8", "i8", "bf16", "boolean",
         "i16", "u16", "u32", "u64")  # fmt: skip
TRIES = 6  # for each layer that is wanted


@dataclass(frozen=True)
class RandomGraph:
    """A graph and the values of its inputs by name."""

    graph: Graph
    feeds: dict[str, Array]


def random_graph(seed: int, number: int) -> RandomGraph:
    """Make a graph with one to a dozen layers; the same for the same numbers."""
    rng = np.random.default_rng([seed, number])
    m = Making(rng, float(pick(rng, (0.0, 0.0, 0.3, 1.0))))
    for i in range(1 + m.below(3)):
        _begin(m, "f32" if not i and m.chance(0.7) else pick(rng, TYPES))
    wanted, deconvolutes = 1 + m.below(12), m.chance(0.4)
    before, tries = len(m.graph), 0
    while len(m.graph) - before < 2 * wanted and tries < TRIES * wanted:
        tries += 1
        share = m.rng.random()
        if deconvolutes and share < 0.3:
            deconvolution(m)
        elif share < 0.6:
            add_sampled(m)
        else:
            pick(rng, native.MAKERS)(m)
    m.finish(float(pick(rng, (0.0, 0.2, 1.0))))
    return RandomGraph(_tidied(m), m.feeds)


def _begin(m: Making, kind: str) -> None:
    """Add an input; images more often than the rest."""
    rank = pick(m.rng, (4, 4, 4, 3, 5, 2, 1, 0))
    top = 6 if rank < 5 else 4
    shape = [1 + m.below(top) for _ in range(rank)]
    if rank > 2:
        shape[0] = 1 + m.below(2)
    dtype = ELEMENT_TYPES[kind]
    m.parameter(numbers(m.rng, dtype, shape, 6).values, dtype)


def _tidied(m: Making) -> Graph:
    """Leave out constants that only layers read which were not kept."""
    for node in list(m.graph.nodes("Const")):
        if not m.graph.users(Value(node.id)):
            m.graph.remove(node.id)
    return m.graph
