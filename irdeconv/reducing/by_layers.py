"""Fewer layers: the suspects alone, later outputs cut off, earlier layers, then any others."""

from __future__ import annotations

from irdeconv.graph import Graph, Value
from irdeconv.reducing.cutting import Knife
from irdeconv.reducing.search import Search, first_failing, minimized
from irdeconv.reducing.variant import Variant

SUSPECTS = 3  # that are tried by themselves before the search begins


def fewer_layers(search: Search) -> None:
    """Leave layers out as long as the fault shows."""
    try_suspects(search)
    cut_end(search)
    fewer_outputs(search)
    cut_begin(search)
    leave_out(search)
    bypass(search)


def try_suspects(search: Search) -> None:
    """Try the layers that the check has named, each by itself, then all together."""
    knife = Knife(search.best)
    units = knife.named(search.outcome.suspects)
    for unit in units[:SUSPECTS]:
        if search.fails(knife.piece([unit])):
            return
    if 1 < len(units) < len(knife.units):
        search.fails(knife.piece(units))


def cut_end(search: Search) -> None:
    """Find the first layer behind which the fault shows: outputs at earlier layers."""
    knife = Knife(search.best)
    units = knife.units
    first_failing(len(units), lambda n: search.fails(knife.piece(units[:n])))


def fewer_outputs(search: Search) -> None:
    """Keep as few outputs as show the fault, first of all only those of the last layer."""
    knife = Knife(search.best)
    units = knife.units
    ends = knife.ends(units)
    last = [end for end in ends if end[0] == units[-1]] if units else []
    if last != ends and search.fails(knife.piece(units, last)):
        ends = last
    minimized(ends, lambda some: search.fails(knife.piece(units, some)))


def cut_begin(search: Search) -> None:
    """Find the last layer with which the piece may begin; what flows in becomes its inputs."""
    before = search.best
    for frozen in (False, True):
        if search.best is before:
            _cut_begin(search, Knife(search.best, frozen))


def _cut_begin(search: Search, knife: Knife) -> None:
    units = knife.units
    first_failing(len(units), lambda n: search.fails(knife.piece(units[-n:])))


def leave_out(search: Search) -> None:
    """Leave out any layers that the fault does not need."""
    for frozen in (False, True):
        _leave_out(search, Knife(search.best, frozen))


def _leave_out(search: Search, knife: Knife) -> None:
    minimized(knife.units, lambda some: search.fails(knife.piece(some)))


def bypass(search: Search) -> None:
    """Connect the input of a layer with its readers, where it has the same type and shape."""
    graph = search.best.graph
    for node in reversed(search.best.layers):
        if len(search.best.layers) < 2:
            return
        for port in range(len(graph.inputs_of(node.id))):
            if search.fails(bypassed(search.best, node.name, port)):
                break


def bypassed(variant: Variant, name: str, port: int) -> Variant | None:
    """Return a copy whose graphs read an input of the named layer in place of its output."""
    graphs = [_bypassed(g, name, port) for g in variant.graphs]
    if any(g is None for g in graphs):
        return None
    shorter = Variant(tuple(g for g in graphs if g is not None), variant.feeds)
    knife = Knife(shorter)
    return knife.piece(knife.units)


def _bypassed(graph: Graph, name: str, port: int) -> Graph | None:
    found = [n for n in graph.find(name) if n.type not in ("Parameter", "Const", "Result")]
    if len(found) != 1 or found[0].outputs != 1 or port >= len(graph.inputs_of(found[0].id)):
        return None
    source, old = graph.inputs_of(found[0].id)[port], Value(found[0].id)
    a, b = graph.spec(source), graph.spec(old)
    producer = graph.node(source.node).type
    if (a.dtype, a.shape) != (b.dtype, b.shape) or producer == "Const":
        return None
    readers = [graph.node(i).type for i, _ in graph.users(old)]
    if producer == "Parameter" and "Result" in readers:
        return None  # an output that no layer makes says nothing
    out = graph.copy()
    out.replace_uses(old, source)
    out.remove(old.node)
    return out
