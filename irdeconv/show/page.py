"""The graph page: one HTML file with its styles, scripts and data, which loads nothing.

It also shows measurements, times, differences and values, on the graphs that they belong to.

Its Content-Security-Policy allows the style and the script by their hashes, so no text of a model
can be executed. Repeated data are written once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from irdeconv import __version__
from irdeconv.base import work
from irdeconv.base.errors import count, misused
from irdeconv.base.hints import hinted
from irdeconv.base.json_form import Record, json_form
from irdeconv.base.markup import line, plain
from irdeconv.base.tables import escaped_json
from irdeconv.ir.graph import Graph
from irdeconv.ops.bodies import bodies_of
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.lower_deconv import LoweringReport
from irdeconv.runtime.bench import BenchReport
from irdeconv.runtime.measure import StepReport
from irdeconv.show.anatomy import page_style
from irdeconv.show.drawn import Difference, difference, drawing
from irdeconv.show.layers import LayerFacts, layers
from irdeconv.show.page_details import (
    FACTS,
    PICTURE_BYTES,
    Overlay,
    ValueCollector,
    details_of,
    memory,
)
from irdeconv.show.scene import Change
from irdeconv.verify.certificates import Certificates
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.difference import TensorDifference
from irdeconv.verify.partner import layer_keys


def node_content(graph: Graph, facts: LayerFacts, kind: str, number: int | None) -> dict[str, Any]:
    """Return one layer: empty and usual values are left out, and the script puts them back."""
    content: dict[str, Any] = {"id": facts.id, "name": facts.name, "type": facts.type}
    more = json_form(
        facts,
        "version attributes outputs place macs bytes memory parameters deconvolution"
        " constant origins tensors bodies change",
        outputs=[str(o.spec) for o in facts.outputs],
        memory=memory(facts),
        origins=[n for n in facts.origins if n != facts.name],
        tensors=[n for o in facts.outputs for n in o.tensor_names if n != facts.name],
        bodies=[body.tag for body in bodies_of(graph.node(facts.id))],
        change="" if kind == "same" else kind,
    )
    more["inputs"] = [[i.producer, i.port, i.text] for i in facts.inputs]
    # None is unknown, 0 is usual
    unknown = [key for key in ("macs", "memory") if more[key] is None]
    content |= {key: value for key, value in more.items() if value or key in unknown}
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
        self._numbers: dict[str | tuple[str], int] = {}

    def number(self, value: Any) -> int:
        key = value if isinstance(value, str) else (json.dumps(value),)
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
        steps = ([b - a for a, b in zip(p, p[2:], strict=False)] for p in points)
        links["steps"] = [self.number(step) for step in steps]
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


def framed(
    template: str, styles: Sequence[str], scripts: Sequence[str], more: str = "", **texts: str
) -> str:
    """Return a page made of assets and `texts`; `more` is a part of its style.

    Its policy allows the style and the script by their hashes.
    """
    style = "".join(map(_asset, styles)) + more
    script = f'(function () {{\n"use strict";\n{"".join(map(_asset, scripts))}}})();\n'
    policy = _POLICY.format(style=_hash(style), script=_hash(script))
    parts = {"policy": policy, "version": __version__, "style": style, "script": script, **texts}
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m.group(1)], _asset(template))


def json_text(data: Any) -> str:
    """Return JSON that no HTML parser takes for anything but text."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate, which some file names contain, has no UTF-8.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return escaped_json(_UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text))


@cache
def _asset(name: str) -> str:
    return files("irdeconv.show").joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


PAGE_SCHEMA = "irdeconv/show/1"


@dataclass(frozen=True)
class GraphContent:
    """One graph: its layers, and their places in the drawing.

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
        found = {**vars(self), "nodes": list(self.nodes), "scene": dict(self.scene)}
        return {k: v for k, v in found.items() if v is not None}


class ChangeContent(Record, keys="title before after form? reason? certificate?"):
    """The change of one layer: keys of nodes ("before/12") on either side.

    `form` is the lowering's, `certificate` the sentence that describes the proof.
    """

    title: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    form: str | None = None
    reason: str | None = None
    certificate: str | None = None


@hinted
@dataclass(frozen=True, repr=False)
class PageContent:
    """A page: graphs, the changes between them, and details of their layers by node key.

    `overlays` paint a number of each layer on the graph, beside those that every page has;
    `details` describe the computation of a layer, `values` its data in a run. `notes` are sentences
    about the whole, `headline` the one at the top. `file` is the path that the model was read
    from.
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
        title, content = escape(plain(self.title)), json_text(packed(self.to_dict()))
        return framed("page.html", STYLES, SCRIPTS, page_style(), title=title, data=content)

    def __repr__(self) -> str:
        headline = [self.headline] * bool(self.headline)
        return line(self, self.title, count(len(self.changes), "change"), *headline)

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its styles and scripts stay in it."""
        style = "width:100%;height:40em;border:1px solid #8888"
        return f'<iframe srcdoc="{escape(self.to_html())}" style="{style}"></iframe>'


@work.gc_paused()
def graph_page(
    before: Graph,
    after: Graph | None = None,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
    titles: tuple[str, str] = ("before", "after"),
) -> PageContent:
    """Return the page of a graph, or of two graphs, the second made from the first.

    `titles` are those of the two, `report` has the form of each deconvolution, `certificates` its
    proof.
    """
    title, file = _file_name(before), before.info.file
    if after is None:
        graphs = tuple(_graphs(before, "graph", before.info.name, {}, {}))
        return PageContent(title, graphs, details=details_of({"graph": before}), file=file)
    compared = list(_compared("before", "after", before, after))
    changes = tuple(_changes(compared, report, certificates))
    numbers = {key: n for n, c in enumerate(changes) for key in (*c.before, *c.after)}
    sides = [s for a, b, found in compared for s in ((a, found.before), (b, found.after))]
    kinds = {f"{key}/{i}": kind for key, side in sides for i, kind in side.items()}
    graphs = (
        *_graphs(before, "before", titles[0], kinds, numbers),
        *_graphs(after, "after", titles[1], kinds, numbers),
    )
    notes = () if certificates is None else tuple(certificates.remarks)
    details = details_of({"before": before, "after": after}, report, kinds)
    return PageContent(title, graphs, changes, details=details, notes=notes, file=file)


def _file_name(graph: Graph) -> str:
    """Return the name of a model's file, or of the model if there is none."""
    return Path(graph.info.file or "").name or graph.info.name


_Compared = tuple[str, str, Difference]


def _bodies(graph: Graph, key: str) -> Iterator[tuple[str, int, int, Graph]]:
    """Yield the key, the node, the number and the graph of every body in a graph."""
    for node in graph.nodes():
        for number, body in enumerate(bodies_of(node)):
            yield f"{key}/{node.id}/{body.tag}", node.id, number, body.graph


def _compared(a: str, b: str, before: Graph, after: Graph) -> Iterator[_Compared]:
    """Yield keys and difference of two graphs, and of bodies in the same operation of both."""
    yield a, b, difference(before, after)
    theirs = {(node, number): (key, g) for key, node, number, g in _bodies(after, b)}
    for key, node, number, graph in _bodies(before, a):
        if (node, number) in theirs:
            other, inner = theirs[node, number]
            yield from _compared(key, other, graph, inner)


def _changes(
    compared: Sequence[_Compared], report: LoweringReport | None, certificates: Certificates | None
) -> Iterator[ChangeContent]:
    """Yield the changes of the source layers; forms and proofs belong to their names."""
    forms = {r.name: (r.form, r.reason) for r in report or ()}
    proofs = {c.layer: str(c) for c in certificates or ()}
    for a, b, found in compared:
        for group in found.groups:
            before, after = (f"{a}/{i}" for i in group.before), (f"{b}/{i}" for i in group.after)
            form, reason = forms.get(group.title, (None, None))
            proof = proofs.get(group.title)
            yield ChangeContent(group.title, tuple(before), tuple(after), form, reason, proof)


def _graphs(
    graph: Graph,
    key: str,
    title: str,
    kinds: Mapping[str, Change],
    numbers: Mapping[str, int],
    parent: str | None = None,
) -> Iterator[GraphContent]:
    facts = layers(graph)
    changes = {f.id: kinds.get(f"{key}/{f.id}", "same") for f in facts}
    content = (node_content(graph, f, changes[f.id], numbers.get(f"{key}/{f.id}")) for f in facts)
    drawn = drawing(graph, facts, changes=changes).to_dict()
    yield GraphContent(key, title, tuple(content), drawn, parent)
    for inner, node, _, body in _bodies(graph, key):
        name = inner.rpartition("/")[2]
        yield from _graphs(body, inner, name, kinds, numbers, f"{key}/{node}")


def bench_page(report: BenchReport) -> PageContent:
    """Return the page of a measurement: the time of each layer on the graph that was executed.

    A step's time stands on all of the layers that it covers. A layer that was lowered has the time
    of all steps that it became. Raises UsageError for a report without graphs.
    """
    if report.source is None or report.executed is None:
        raise misused("the report does not know its graphs", "bench returns one that does")
    page, key = _sides(report.source, report.executed)
    covered = {f"{key}/{i}": step for step in report.steps for i in step.ids}
    times: dict[str, float | None] = {k: report.time(s.timing) for k, s in covered.items()}
    lines = {k: _step_lines(report, step) for k, step in covered.items()}
    for change in page.changes:
        steps = {s.index: s for k in change.after if (s := covered.get(k)) is not None}
        if steps and change.before:
            source = change.before[0]
            times[source] = sum(report.time(s.timing) for s in steps.values())
            lines[source] = [f"the time of {count(len(steps), 'step')} that it became"]
    clock = "processor" if report.clock == "cpu" else "wall"
    overlay = Overlay(key="time", title="time", unit="s", values=times, lines=lines, shown=True)
    shortest = f"Times are the shortest {clock} times of {report.network.runs} runs."
    notes = (*page.notes, shortest, *_peer_notes(report))
    own = f"{report.time(report.network) * 1e3:.3g} ms"
    others = [f"{p.name} {p.timing.cpu.minimum * 1e3:.3g} ms" for p in report.peers if p.timing]
    return replace(page, overlays=(overlay,), notes=notes, headline=", ".join([own, *others]))


def _sides(
    source: Graph,
    executed: Graph,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
) -> tuple[PageContent, str]:
    """Return a page of one graph, or of two if it was lowered, and the executed graph's key."""
    if source is not executed and any(n.op.deconvolution for n in source.nodes()):
        page = graph_page(inferred(source), executed, report, certificates)
        if page.changes:
            return page, "after"
    return graph_page(executed), "graph"


def _step_lines(report: BenchReport, step: StepReport) -> list[str]:
    figures = report.figures(step)
    share = f"{100 * (figures['share'] or 0):.1f} % of all steps"
    why = f" ({step.why})" if step.why else ""
    lines = [f"{report.time(step.timing) * 1e3:.3f} ms, {share}"]
    lines.append(f"step {step.index}, kernel {step.kernel}{why}")
    rates = ((figures["gflops"], "GF/s"), (figures["gbytes"], "GB/s"))
    known = [f"{rate:.3g} {unit}" for rate, unit in rates if rate is not None]
    lines += [", ".join(known)] * bool(known)
    if len(step.nodes) > 1:
        layers = ", ".join(f"{type} {name}" for type, name in step.nodes)
        lines.append(f"One step computes {count(len(step.nodes), 'layer')}: {layers}")
    return lines


def _peer_notes(report: BenchReport) -> Iterator[str]:
    for peer in report.peers:
        name = f"{peer.name} {peer.version}"
        if peer.timing is None:
            yield f"{name} cannot run it: {peer.problem}"
            continue
        ratio = "" if peer.ratio is None else f"; irdeconv takes {peer.ratio:.2f} times as long"
        gap = f"; outputs differ by {peer.difference:.1e}" if peer.difference else ""
        yield f"{name}: {peer.timing.cpu.minimum * 1e3:.3g} ms{ratio}{gap}"


def comparison_page(result: Comparison) -> PageContent:
    """Return the page of a comparison: each layer's error as a share of the allowed one.

    With a second model both stand side by side. Raises UsageError for a comparison without graphs.
    """
    if result.graph is None:
        raise misused("the comparison does not know its graphs", "compare returns one that does")
    names = _file_name(result.graph), _file_name(result.other or result.graph)
    titles = names if names[0] != names[1] else ("model", "other")
    page = graph_page(result.graph, result.other, titles=titles)
    keys = {} if result.other is None else _partners(result.graph, result.other)
    side = page.graphs[0].key
    records = _by_node(result, side, keys)
    first = result.first_difference
    start = None if first is None or first.node is None else f"{side}/{first.node}"
    marks = {} if start is None else {start: "the first layer that differs"}
    for k, found in records.items():
        if not all(t.passed for t in found):
            marks.setdefault(k, "differs")
    error = Overlay(
        key="error",
        title="error",
        values={k: max(_used(t) for t in found) for k, found in records.items()},
        # Without the mark, which the page has as a sign.
        lines={k: [str(t)[5:] for t in found] for k, found in records.items()},
        marks=marks,
        first=start,
        shown=True,
    )
    apart = {k: max(_bad(t.max_abs) for t in found) for k, found in records.items()}
    difference = Overlay(key="difference", title="|a-b|", values=apart)
    meaning = "The error of a layer is relative to what rounding allows it: above 1 it differs."
    missing = (f"Output {name} is missing on one side." for name in result.missing)
    notes = (*page.notes, meaning, *map(str, result.diagnostics), *missing)
    return replace(page, overlays=(error, difference), notes=notes, headline=result.verdict)


def _partners(a: Graph, b: Graph) -> dict[int, int]:
    """Return which layers of the second graph were compared with those of the first."""
    theirs = {name: i for i, name in layer_keys(b).items()}
    pairs = {i: theirs[name] for i, name in layer_keys(a).items() if name in theirs}
    return pairs | {x.id: y.id for x, y in zip(a.results, b.results, strict=False)}


def _by_node(
    result: Comparison, side: str, partners: Mapping[int, int]
) -> dict[str, list[TensorDifference]]:
    """Return the differences of each layer, on both sides of the page."""
    found: dict[str, list[TensorDifference]] = defaultdict(list)
    for one in result.tensors:
        if one.node is not None:
            found[f"{side}/{one.node}"].append(one)
            if one.node in partners:
                found[f"after/{partners[one.node]}"].append(one)
    return dict(found)


def _used(found: TensorDifference) -> float:
    """Return a layer's own difference relative to the allowed one: above 1 it differs."""
    if found.shape_a != found.shape_b:
        return math.inf
    if found.own == 0:
        return 0.0
    return _bad(found.own / found.tolerance if found.tolerance else math.inf)


def _bad(number: float) -> float:
    """Return a difference to compare with others: NaN is further off than any number."""
    return math.inf if math.isnan(number) else number


def run_page(
    source: Graph,
    values: ValueCollector,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
) -> PageContent:
    """Return the page of a run: extremes, histograms and pictures of every tensor."""
    page, key = _sides(source, values.graph, report, certificates)
    largest: dict[str, float | None] = {}
    marks = {}
    for node, tensor in values.tensors(key):
        if tensor.non_finite:
            marks[node] = f"{count(tensor.non_finite, 'value')} not finite"
        if tensor.largest is not None:
            largest[node] = max(tensor.largest, largest.get(node) or 0)
    first = next(iter(marks), None)
    aliases = dict(_aliases(page, key, values))
    largest |= {k: largest[other] for k, other in aliases.items() if other in largest}
    painted: dict[str, Any] = {"values": largest, "marks": marks, "first": first}
    overlay = Overlay(key="values", title="max |x|", **painted, shown=True)
    level = values.level
    size = f"at most {level.channels} channels of {level.side} x {level.side} pixels"
    limit = f"{PICTURE_BYTES / 1e6:g} MB of them"
    notes = (*page.notes, f"Pictures show {size}; a page has at most {limit}.")
    bad = f", {count(len(marks), 'layer')} with values that are not finite" if marks else ""
    known, headline = {**values.to_dict(key), **aliases}, f"values of a run{bad}"
    return replace(page, overlays=(overlay,), values=known, notes=notes, headline=headline)


def _aliases(page: PageContent, key: str, values: ValueCollector) -> Iterator[tuple[str, str]]:
    """Yield layers without values of their own, with the layer that computes their output."""
    for change in page.changes:
        last = [k for k in change.after if int(k.rpartition("/")[2]) in values.found]
        if last and change.before:
            yield change.before[0], last[-1]
    for node in values.graph.results:
        (source,) = values.graph.inputs_of(node.id)
        if source.node in values.found:
            yield f"{key}/{node.id}", f"{key}/{source.node}"
