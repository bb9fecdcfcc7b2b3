"""Graphs of which less is declared: no specs at all, open batch, spatial sizes, dims or ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import DYNAMIC, Dim, Shape, Spec
from irdeconv.ops.basic import Parameter

LOOSER = ("batch", "spatial", "batch and spatial", "dims", "rank")


def undeclared(graph: Graph) -> Graph:
    """A copy in which no layer declares anything."""
    out = graph.copy()
    for node in out.nodes():
        if node.op.type != "Opaque":
            node.declared = node.declared_inputs = ()
            node.specs = None
    return out


def opened(graph: Graph, what: str) -> Graph:
    """A copy in which nothing is declared and dims of the inputs are open."""
    out = undeclared(graph)
    for node in list(out.parameters):
        assert isinstance(node.op, Parameter)
        out.replace_op(node.id, replace(node.op, shape=_opened(node.op.shape, what)))
    return out


def _opened(shape: Shape | None, what: str) -> Shape | None:
    if shape is None or what == "rank":
        return None

    def is_open(axis: int) -> bool:
        return what == "dims" or (axis == 0 and "batch" in what) or (axis > 1 and "spatial" in what)

    return tuple(DYNAMIC if is_open(i) else d for i, d in enumerate(shape))


def specs(graph: Graph) -> dict[tuple[str, int], Spec]:
    """What is inferred, by the layer's name and the output."""
    return {(n.name, i): s for n in ird.infer(graph).nodes() for i, s in enumerate(n.specs or ())}


def contradictions(tight: Graph, loose: Graph) -> Iterator[str]:
    """Say where a graph of which less is known is inferred to something that excludes the other."""
    known = specs(tight)
    for place, found in specs(loose).items():
        want = known[place]
        if found.dtype != want.dtype or not holds(found.shape, want.shape):
            yield f"{place}: {found}, of exact inputs {want}"


def holds(loose: Shape | None, tight: Shape | None) -> bool:
    """Whether every size that the tight shape allows is allowed by the loose one."""
    if loose is None or tight is None:
        return loose is None
    return len(loose) == len(tight) and all(map(_inside, loose, tight))


def _inside(loose: Dim, tight: Dim) -> bool:
    if isinstance(loose, int):
        return loose == tight
    low, high = (tight, tight) if isinstance(tight, int) else (tight.lo, tight.hi)
    return loose.lo <= low and (loose.hi is None or (high is not None and high <= loose.hi))
