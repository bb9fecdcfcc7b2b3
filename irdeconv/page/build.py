"""The content of a page, made of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from irdeconv.drawing.scene import Change
from irdeconv.graph import Graph
from irdeconv.inspection.changes import Difference, difference
from irdeconv.inspection.drawn import drawing
from irdeconv.inspection.layers import layers
from irdeconv.ops.bodies import bodies_of
from irdeconv.page.content import ChangeContent, GraphContent, PageContent
from irdeconv.page.details import details_of
from irdeconv.page.nodes import node_content
from irdeconv.passes.records import LoweringReport
from irdeconv.verify.proof.certified import Certificates


def graph_page(
    before: Graph,
    after: Graph | None = None,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
    titles: tuple[str, str] = ("before", "after"),
) -> PageContent:
    """Return the page of a graph, or of two of which the second was made of the first.

    `titles` are those of the two, `report` says which form each deconvolution took, `certificates`
    what is proved of it.
    """
    title, file = before.info.name, before.info.file
    if after is None:
        graphs = tuple(_graphs(before, "graph", title, None))
        return PageContent(title, graphs, details=details_of({"graph": before}), file=file)
    known = _Stated(report, certificates)
    found = difference(before, after)
    changes = tuple(_changes("before", "after", before, after, found, known))
    numbers = {key: n for n, c in enumerate(changes) for key in (*c.before, *c.after)}
    kinds = dict(_kinds("before", "after", before, after, found))
    graphs = (
        *_graphs(before, "before", titles[0], None, kinds, numbers),
        *_graphs(after, "after", titles[1], None, kinds, numbers),
    )
    notes = () if certificates is None else tuple(certificates.remarks)
    details = details_of({"before": before, "after": after}, report, kinds)
    return PageContent(title, graphs, changes, details=details, notes=notes, file=file)


@dataclass
class _Stated:
    """What the lowering and the proof say of a source layer, by its name."""

    report: LoweringReport | None
    certificates: Certificates | None
    forms: dict[str, tuple[str | None, str | None]] = field(init=False)
    proofs: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.forms = {r.name: (r.form, r.reason) for r in self.report or ()}
        self.proofs = {c.layer: str(c) for c in self.certificates or ()}


def _bodies(graph: Graph, key: str) -> Iterator[tuple[str, int, int, Graph]]:
    """Yield the key, the node, the number and the graph of every body in a graph."""
    for node in graph.nodes():
        for number, body in enumerate(bodies_of(node)):
            yield f"{key}/{node.id}/{body.tag}", node.id, number, body.graph


def _inner(a: str, b: str, before: Graph, after: Graph) -> Iterator[tuple[str, str, Graph, Graph]]:
    """Yield the keys and graphs of bodies that stand in the same operation on both sides."""
    theirs = {(node, number): (key, g) for key, node, number, g in _bodies(after, b)}
    for key, node, number, graph in _bodies(before, a):
        if (node, number) in theirs:
            yield key, theirs[node, number][0], graph, theirs[node, number][1]


def _changes(
    a: str, b: str, before: Graph, after: Graph, found: Difference, known: _Stated
) -> Iterator[ChangeContent]:
    for group in found.groups:
        form, reason = known.forms.get(group.title, (None, None))
        yield ChangeContent(
            title=group.title,
            before=tuple(f"{a}/{i}" for i in group.before),
            after=tuple(f"{b}/{i}" for i in group.after),
            form=form,
            reason=reason,
            certificate=known.proofs.get(group.title),
        )
    for inner_a, inner_b, x, y in _inner(a, b, before, after):
        yield from _changes(inner_a, inner_b, x, y, difference(x, y), known)


def _kinds(
    a: str, b: str, before: Graph, after: Graph, found: Difference
) -> Iterator[tuple[str, Change]]:
    yield from ((f"{a}/{i}", kind) for i, kind in found.before.items())
    yield from ((f"{b}/{i}", kind) for i, kind in found.after.items())
    for inner_a, inner_b, x, y in _inner(a, b, before, after):
        yield from _kinds(inner_a, inner_b, x, y, difference(x, y))


def _graphs(
    graph: Graph,
    key: str,
    title: str,
    parent: str | None,
    kinds: Mapping[str, Change] | None = None,
    numbers: Mapping[str, int] | None = None,
) -> Iterator[GraphContent]:
    """Yield a graph and those in it."""
    kinds, numbers = kinds or {}, numbers or {}
    facts = layers(graph)
    nodes = tuple(
        node_content(graph, f, kinds.get(f"{key}/{f.id}", "same"), numbers.get(f"{key}/{f.id}"))
        for f in facts
    )
    changes = {f.id: kinds.get(f"{key}/{f.id}", "same") for f in facts}
    drawn = drawing(graph, facts, changes=changes)
    yield GraphContent(key, title, nodes, drawn.to_dict(), parent)
    for inner, node, _, body in _bodies(graph, key):
        name = inner.rpartition("/")[2]
        yield from _graphs(body, inner, name, f"{key}/{node}", kinds, numbers)
