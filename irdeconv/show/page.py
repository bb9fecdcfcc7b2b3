"""The graph page: one HTML file with its styles, scripts and data, which loads nothing.

Its Content-Security-Policy allows the style and the script by their hashes, so no text of a model
can be executed. docs/page.md describes the keys of its data. Repeated data are written once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from irdeconv import __version__
from irdeconv.base.json_form import json_form
from irdeconv.base.markup import plain
from irdeconv.base.tables import escaped_json
from irdeconv.ir.graph import Graph
from irdeconv.ops.bodies import bodies_of
from irdeconv.rewrite.records import LoweringReport
from irdeconv.show.anatomy import page_style
from irdeconv.show.changes import Difference, difference
from irdeconv.show.drawn import drawing
from irdeconv.show.layers import LayerFacts, layers
from irdeconv.show.page_details import FACTS, Overlay, details_of, memory
from irdeconv.show.scene import Change
from irdeconv.verify.certificates import Certificates


def node_content(graph: Graph, facts: LayerFacts, kind: str, number: int | None) -> dict[str, Any]:
    """Return one layer: what is empty or usual is left out, and the script puts it back."""
    content: dict[str, Any] = {"id": facts.id, "name": facts.name, "type": facts.type}
    more: Mapping[str, Any] = {
        "version": facts.version,
        "attributes": facts.attributes,
        "inputs": [[i.producer, i.port, str(i.spec)] for i in facts.inputs],
        "outputs": [str(o.spec) for o in facts.outputs],
        "place": facts.place,
        "macs": facts.macs,
        "bytes": facts.bytes,
        "memory": memory(facts),
        "parameters": facts.parameters,
        "deconvolution": facts.deconvolution,
        "constant": facts.constant,
        "origins": [n for n in facts.origins if n != facts.name],
        "tensors": [n for o in facts.outputs for n in o.tensor_names if n != facts.name],
        "bodies": [body.tag for body in bodies_of(graph.node(facts.id))],
        "change": "" if kind == "same" else kind,
    }
    content |= {key: value for key, value in more.items() if value or key in ("macs", "memory")}
    for key in ("macs", "memory"):  # None is unknown, 0 is usual
        if content[key] == 0:
            del content[key]
    return content if number is None else {**content, "number": number}


_OPERATION = ("type", "version", "attributes")  # fields of layers that many have alike


def packed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with `shared`, a list of values for which their numbers stand elsewhere.

    A layer that lowering left alone is its id alone in the graph after it. A column of a scene with
    the same value for all is that value, but for `x`, which says how many there are.
    """
    shared = _Shared()
    written: dict[int, Mapping[str, Any]] = {}
    graphs = []
    for graph in data["graphs"]:
        nodes, scene = graph["nodes"], graph["scene"]
        if graph["key"] == "before":
            written = {node["id"]: node for node in nodes}
        elif graph["key"] == "after":
            nodes = [n["id"] if written.get(n["id"]) == n else n for n in nodes]
        nodes = [n if isinstance(n, int) else shared.node(n) for n in nodes]
        scenes = [shared.scene(s) for s in scene["scenes"]]
        graphs.append({**graph, "nodes": nodes, "scene": {**scene, "scenes": scenes}})
    return {**data, "graphs": graphs, "shared": shared.values}


class _Shared:
    """Values with numbers, equal ones having one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        key = json.dumps(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]

    def node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a layer, its type, version and attributes as `op`."""
        out = {k: v for k, v in node.items() if k not in _OPERATION}
        out["op"] = self.number([node.get(field) for field in _OPERATION])
        if "outputs" in out:
            out["outputs"] = self.number(out["outputs"])
        if "inputs" in out:
            out["inputs"] = [[node, port, self.number(spec)] for node, port, spec in out["inputs"]]
        return out

    def scene(self, scene: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scene; points of links are a first one, and the steps from each to the next."""
        boxes, links = dict(scene["boxes"]), dict(scene["links"])
        boxes["lines"] = [self.number(lines) for lines in boxes["lines"]]
        points = links.pop("points")
        links |= {"x": [p[0] for p in points], "y": [p[1] for p in points]}
        links["steps"] = [
            self.number([after - before for before, after in zip(p, p[2:], strict=False)])
            for p in points
        ]
        return {**scene, "boxes": _columns(boxes), "links": _columns(links)}


def _columns(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return columns, each a list or the value that all have."""
    return {
        name: values[0] if name != "x" and len(set(values)) == 1 else values
        for name, values in columns.items()
    }


# They run in this order, all in one function.
_SCRIPTS = (
    "state texts theme painters scene groups draw camera pane pointer minimap ramp overlays "
    "legend anatomy anatomy_view details values sidebar changes search table export keys main"
)
SCRIPTS = tuple(f"{name}.js" for name in _SCRIPTS.split())
STYLES = ("page.css", "details.css", "overlays.css", "sheet.css")

_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; "
    "base-uri 'none'; form-action 'none'"
)
_UNSAFE = re.compile("[<>&]")


def html(data: dict[str, Any]) -> str:
    """Return the page of a content as HTML."""
    style = _joined(STYLES) + page_style()
    script = f'(function () {{\n"use strict";\n{_joined(SCRIPTS)}}})();\n'
    parts = {
        "policy": _POLICY.format(style=_hash(style), script=_hash(script)),
        "title": escape(plain(data["title"])),
        "version": escape(__version__),
        "style": style,
        "data": json_text(packed(data)),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m.group(1)], _asset("page.html"))


def json_text(data: Any) -> str:
    """Return JSON that no HTML parser takes for anything but text."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate, which some file names contain, has no UTF-8.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return escaped_json(_UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text))


@cache
def _asset(name: str) -> str:
    return files("irdeconv.show").joinpath("assets", name).read_text("utf-8")


def _joined(names: tuple[str, ...]) -> str:
    return "".join(map(_asset, names))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


PAGE_SCHEMA = "irdeconv/show/1"


@dataclass(frozen=True)
class GraphContent:
    """One graph: its layers, and where they are drawn.

    `key` is "graph", or "before" and "after"; a body's is the key of its operation and its tag,
    such as "before/12/body". `parent` is the key of that operation.
    """

    key: str
    title: str
    nodes: tuple[Mapping[str, Any], ...]
    scene: Mapping[str, Any]
    parent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        more = {} if self.parent is None else {"parent": self.parent}
        nodes, scene = list(self.nodes), dict(self.scene)
        return {"key": self.key, "title": self.title, **more, "nodes": nodes, "scene": scene}


@dataclass(frozen=True)
class ChangeContent:
    """What became of one layer: keys of nodes ("before/12") on either side.

    `form` is the lowering's, `certificate` the sentence that says what is proved.
    """

    title: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    form: str | None = None
    reason: str | None = None
    certificate: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is not known."""
        said = {k: v for k, v in vars(self).items() if v is not None}
        return {**said, "before": list(self.before), "after": list(self.after)}


@dataclass(frozen=True)
class PageContent:
    """A page: graphs, what changed between them, and what is known of their layers by node key.

    `overlays` paint a number of each layer on the graph, beside those that every page has;
    `details` say what a layer computes, `values` what flowed through it in a run. `notes` are
    sentences about the whole, `headline` the one that stands at the top. `file` is where the model
    was read from.
    """

    title: str
    graphs: tuple[GraphContent, ...]
    changes: tuple[ChangeContent, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    headline: str = ""
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, as the page's script reads it."""
        keys = "schema title file version graphs changes overlays details values notes headline"
        large = {"details": dict(self.details), "values": dict(self.values)}  # and plain already
        more = {"overlays": (*self.overlays, *FACTS), **dict.fromkeys(large)}
        return json_form(self, keys, schema=PAGE_SCHEMA, version=__version__, **more) | large

    def to_html(self) -> str:
        """Return one HTML file that loads nothing."""
        return html(self.to_dict())


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
