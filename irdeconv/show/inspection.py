"""The inspection of a graph: its facts as text, JSON, DOT, and as a table in a notebook."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import Annotated, Any, Literal, TypedDict

from irdeconv.base.errors import count, misused, other_pattern
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, line
from irdeconv.base.tables import WIDTH, Table, flat, number, one_line, ratio, scaled, table, wrap
from irdeconv.base.tables import share as percentage
from irdeconv.ir.graph import Graph, Node, unique
from irdeconv.ir.op import attributes
from irdeconv.ops.basic import Opaque
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import Target, executed
from irdeconv.show.drawn import LARGEST_FLAT, box_facts, picture
from irdeconv.show.layers import (
    DeconvolutionFacts,
    LayerFacts,
    Listing,
    comment,
    deconvolutions,
    layers,
)

_DECONVOLUTION_NODE = 'style="filled,rounded,bold" fillcolor="#ffd9a8" color="#b35900"'
_MODEL_END = 'style="filled" fillcolor="#dcecff" shape=ellipse'
_CONSTANT_NODE = 'style="dashed" color="#888888" fontcolor="#555555"'


def _style(row: LayerFacts) -> str:
    if row.deconvolution:
        return _DECONVOLUTION_NODE + " "
    if row.type in ("Parameter", "Result"):
        return _MODEL_END + " "
    return _CONSTANT_NODE + " " if row.constant else ""


def quoted(*lines: str) -> str:
    """Return a DOT string; backslashes are kept and start no escape."""
    texts = (one_line(text).replace("\\", "\\\\").replace('"', '\\"') for text in lines)
    return '"' + "\\n".join(texts) + '"'


@dataclass(frozen=True)
class TypeSummary:
    """Sums over layers of one type."""

    type: str  # of the operation
    count: int  # of layers
    parameters: int  # elements of their constants
    macs: int  # multiply-accumulates that are known
    unknown: int  # layers whose multiply-accumulates are not known


@dataclass(frozen=True)
class Totals:
    """Sums over a graph."""

    layers: int  # in all
    parameters: int  # elements of constants that are weights
    bytes: int  # of constants
    macs: int  # multiply-accumulates that are known
    unknown: int  # layers whose multiply-accumulates are not known
    deconvolutions: int  # in all


class ModelEnd(TypedDict):
    """An input or output of the model."""

    id: int  # of the Parameter or Result
    name: str  # of the input or output


class KeptSection(TypedDict):
    """XML that is kept as it is."""

    tag: str  # of the element
    xml: str  # its text


class BackEdge(TypedDict):
    """A value that is carried to the next iteration."""

    result: int  # id of the Result
    parameter: int  # id of the Parameter


class InspectedBody(Record, keys="... rt_info?"):
    """A body of a layer."""

    tag: str  # such as body, then_body
    # the connections of its Parameters to the outside
    inputs: Annotated[tuple[BodyInput, ...], list[dict[str, Any]]]
    # the connections of its Results to the outside
    outputs: Annotated[tuple[BodyOutput, ...], list[dict[str, Any]]]
    edges: list[BackEdge]  # from one iteration to the next
    layers: list[InspectedLayer]  # of the body
    rt_info: Annotated[str | None, Any] = None  # rt_info of the body, as XML


_NODE_KEYS = "*facts opaque? stateful? sections? bodies? fields? rt_info? port_rt_info? extra?"


class InspectedLayer(Record, keys=_NODE_KEYS):
    """A layer."""

    facts: LayerFacts
    opaque: bool = False  # whether its operation is not known
    stateful: bool = False  # whether it has a state
    sections: list[KeptSection] = field(default_factory=list)  # XML that is kept as it is
    bodies: list[InspectedBody] = field(default_factory=list)  # of Loop, TensorIterator and If
    # properties that no attribute spells
    fields: dict[str, Any] = field(default_factory=dict)
    rt_info: Annotated[str | None, Any] = None  # rt_info of the layer, as XML
    port_rt_info: Annotated[tuple[Any, ...], Any] = ()  # rt_info of its outputs, as XML
    # other attributes of the XML element
    extra: dict[str, Any] = field(default_factory=dict)


def _ends(names: list[str], nodes: list[Node]) -> list[ModelEnd]:
    return [{"id": n.id, "name": name} for name, n in zip(names, nodes, strict=True)]


def _layer(node: Node, r: LayerFacts) -> InspectedLayer:
    more = _beyond_attributes(node)
    rt_info, extra = node.rt_info or None, dict(node.extra)
    return InspectedLayer(r, **more, rt_info=rt_info, port_rt_info=node.port_rt_info, extra=extra)


def _beyond_attributes(node: Node) -> dict[str, Any]:
    """Return an operation's other properties: bodies, and fields that no XML attribute has."""
    op = node.op
    if isinstance(op, Opaque):
        texts = ((s.tag, s.xml.decode("utf-8", "surrogateescape")) for s in op.sections)
        sections = [KeptSection(tag=tag, xml=text) for tag, text in texts]
        return {"opaque": True, "stateful": op.stateful, "sections": sections}
    if isinstance(op, BodyOp):
        return {"bodies": [_body(body) for body in op.bodies]}
    spelled = {a.name for a in attributes(type(op)).values()}
    fields = (f for f in dataclasses.fields(op) if f.name not in spelled)
    values = {f.name: (getattr(op, f.name), f.default) for f in fields if f.name != "data"}
    more = {k: v for k, (v, default) in values.items() if v != default}
    return {"fields": {k: v if isinstance(v, bool) else str(v) for k, v in more.items()}}


def _body(body: Body) -> InspectedBody:
    """Return a body: its layers, and the connections of its Parameters and Results."""
    edges: list[BackEdge] = [{"result": r, "parameter": p} for r, p in body.edges]
    rows = [_layer(body.graph.node(r.id), r) for r in layers(body.graph)]
    info = body.graph.info.rt_info or None
    return InspectedBody(body.tag, body.inputs, body.outputs, edges, rows, info)


def _lines(content: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield JSON with an object of a list on a line: quick to write, and `grep` finds layers."""
    yield "{"
    for n, (key, value) in enumerate(content.items()):
        yield f"{',' if n else ''}\n{indent} {json.dumps(key)}: "
        if isinstance(value, dict) and "schema" in value:
            yield from _lines(value, indent + " ")
        elif isinstance(value, list) and value:
            items = f",\n{indent}  ".join(map(_encode, value))
            yield f"[\n{indent}  {items}\n{indent} ]"
        else:
            yield _encode(value)
    yield f"\n{indent}}}"


_encode = json.JSONEncoder(allow_nan=False).encode


def violations(graph: Graph, target: Target) -> dict[int, tuple[str, ...]]:
    """Return the conditions that layers do not meet, by id.

    The standard operations that a layer becomes count for it, and so do layers of its bodies.
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


Order = Literal["macs", "bytes", "params"]
SEVERAL = "these are several names: give each by itself"

_PATTERN = re.compile(r"[*?\[]")


def matching(layers: Sequence[LayerFacts], only: Iterable[str]) -> dict[str, set[int]]:
    """Return, for each type or name pattern (`*`, `?`, `[...]`), the ids of its layers."""
    by_name: dict[str, set[int]] = {}
    by_type: dict[str, set[int]] = {}
    for r in layers:
        by_name.setdefault(r.name, set()).add(r.id)
        by_type.setdefault(r.type, set()).add(r.id)
    out = {text: by_type.get(text, set()) | by_name.get(text, set()) for text in only}
    for text in filter(_PATTERN.search, out):
        fits = re.compile(translate(text)).match
        out[text] |= {i for name, ids in by_name.items() if fits(name) for i in ids}
    return out


def ordered(layers: Iterable[LayerFacts], sort: str | None) -> list[LayerFacts]:
    """Return the layers in the order asked for: the largest first, unknown numbers last."""
    if sort is None:
        return list(layers)

    def key(r: LayerFacts) -> tuple[bool, int, int]:
        value = getattr(r, "parameters" if sort == "params" else sort)
        return value is None, -(value or 0), r.id

    return sorted(layers, key=key)


def _added(weights: Iterable[LayerFacts], rows: Sequence[LayerFacts]) -> dict[str, int]:
    parameters = sum(r.parameters for r in weights)
    macs, unknown = sum(r.macs or 0 for r in rows), sum(r.macs is None for r in rows)
    return {"parameters": parameters, "macs": macs, "unknown": unknown}


_NUMBERS = ("parameters", "MACs")
DEAREST = 20  # layers that are listed of a large graph
SUMMARY_ROWS = 8  # of a table in the summary of a large graph


_INSPECTION_KEYS = """name=graph.info.name ir_version=graph.info.ir_version file=graph.info.file
rt_info? extra? inputs outputs totals layers=inspected summary deconvolutions target? lowered?"""


class Inspection(Record, document="inspect/2", keys=_INSPECTION_KEYS, repr=False):
    """The result of `inspect`; `str()` is a table.

    `shown` are the requested layers, in the requested order. The JSON form has all of the graph but
    the values of constants, unless `only` left layers out (docs/inspect.md).
    """

    graph: Graph
    layers: tuple[LayerFacts, ...]
    shown: tuple[LayerFacts, ...]
    deconvolutions: tuple[DeconvolutionFacts, ...]  # among those that are shown, all rules applied
    lowered: Inspection | None = None  # after lowering, with --lower
    target: str | None = None  # name of the target that the layers were checked for, with --target

    @property
    def totals(self) -> Totals:
        """Sums over all layers; shared constants count once."""
        constants = [r for r in self.layers if r.type == "Const"]
        return Totals(
            layers=len(self.layers),
            bytes=sum(r.bytes for r in constants),
            deconvolutions=len(self.deconvolutions),
            **_added(constants, self.layers),
        )

    @property
    def summary(self) -> list[TypeSummary]:
        """One row per operation type that is shown, the most MACs first; constants are left out."""
        by_type: dict[str, list[LayerFacts]] = {}
        for r in self.shown:
            if not r.constant:
                by_type.setdefault(r.type, []).append(r)
        rows = [TypeSummary(t, len(rs), **_added(rs, rs)) for t, rs in by_type.items()]
        return sorted(rows, key=lambda r: (-r.macs, -r.parameters, r.type))

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self._sums(len(self.shown)))

    def _repr_html_(self) -> str:
        layers = []
        for r in (r for r in self.shown if not r.constant):
            specs = " ".join(str(output.spec) for output in r.outputs)
            sizes = ("" if n == 0 else number(n) for n in (r.parameters, r.macs))
            layers.append((r.id, r.name, r.type, specs, *sizes))
        title = f"{self.graph.info.name}: {self._sums(len(self.shown))}"
        head = ("id", "name", "type", "outputs", *_NUMBERS)
        parts = [html_table(title, head, layers, ("id", *_NUMBERS))]
        parts.append(html_table("Operations", *self._summary_rows(len(self.layers))))
        if self.deconvolutions:
            rows = self._deconvolution_rows(len(self.deconvolutions))
            parts.append(html_table("Deconvolutions", *rows))
        return "\n".join(parts)

    def to_text(
        self, *, constants: bool = False, everything: bool = False, width: int = WIDTH
    ) -> str:
        """Return plain text: a summary, then layers.

        Of more than 20 layers the ones with the most multiply-accumulates and bytes are listed,
        unless `everything` is true, or some were asked for. Constants stand in the rows of their
        readers; with `constants`, or if nothing else is shown, they have rows of their own. Lines
        have at most `width` columns if names allow it.
        """
        rows = [r for r in self.shown if not r.constant]
        listed = self.shown if constants or not rows else rows
        head, most = "", len(self.layers)
        asked = everything or constants or [r.id for r in self.shown] != [r.id for r in self.layers]
        if not asked and len(listed) > DEAREST:
            whole = count(len(listed), "layer")
            head = f"the {DEAREST} of {whole} with the most MACs and bytes\n\n"
            listed = sorted(listed, key=lambda r: (-(r.macs or 0), -r.bytes, r.id))[:DEAREST]
            most = SUMMARY_ROWS
        title = wrap(f"{flat(self.graph.info.name)}: {self._sums(len(listed))}", width)
        more = _more(self.summary, most, "type")
        parts = [title, table(*self._summary_rows(most), width=width) + more]
        if self.target is not None:
            parts.append(wrap(self._on_target(), width))
        if self.lowered is not None:
            parts.append(self._before_after(width))
        if self.deconvolutions:
            more = _more(self.deconvolutions, most, "deconvolution")
            parts.append(table(*self._deconvolution_rows(most), width=width) + more)
        parts.append(head + str(Listing(self.graph, listed, constants=constants, width=width)))
        return "\n\n".join(parts)

    __str__ = to_text

    def _sums(self, listed: int) -> str:
        t = self.totals
        hidden = sum(r.constant for r in self.layers)
        unknown = f" and {t.unknown} of unknown MACs" if t.unknown else ""
        shown = f"; shown: {count(listed, 'layer')}" if len(self.shown) < t.layers else ""
        held = f"{number(t.parameters)} parameters ({scaled(t.bytes, 'B')})"
        macs = f"{scaled(t.macs, 'MAC')}{unknown}{shown}"
        return f"{t.layers} layers ({hidden} constant), {held}, {macs}"

    def _summary_rows(self, most: int) -> Table:
        total, summary = self.totals.macs, self.summary
        rows = []
        for r in summary[:most]:
            macs, part = number(r.macs) + " + ?" * bool(r.unknown), percentage(r.macs, total)
            if r.unknown and not r.macs:
                macs, part = "?", ""
            rows.append((r.type, str(r.count), number(r.parameters), macs, part))
        right = ("count", *_NUMBERS, "share")
        return ("type", *right), rows, right

    def _deconvolution_rows(self, most: int) -> Table:
        right = ("direct MACs", "zero-insertion MACs", "ratio")
        resolved = ("C->M", "g", "kernel", "strides", "dilations", "pads", "output")
        head = ("deconvolution", "type", *resolved, *right)
        rows = []
        for d in self.deconvolutions[:most]:
            known = (v or "?" for v in (d.groups, d.kernel, d.strides, d.dilations))
            channels = f"{d.channels_in or '?'}->{d.channels_out or '?'}"
            pads, output = f"{d.pads_begin or '?'} / {d.pads_end or '?'}", d.problem or d.output
            direct, inserted = d.macs_direct, d.macs_zero_insertion
            cells = (number(direct), number(inserted), ratio(inserted, direct))
            rows.append((d.name, d.type, channels, *known, pads, output or "?", *cells))
        return head, rows, right

    def _on_target(self) -> str:
        """Return how many layers the target cannot execute."""
        graphs = [self] if self.lowered is None else [self, self.lowered]
        texts = []
        for rows in ([r for r in g.layers if not r.constant] for g in graphs):
            bad = sum(bool(r.violations) for r in rows)
            texts.append(f"{bad} of {count(len(rows), 'layer')} that are not constant")
        return f"{self.target} cannot execute {', after lowering '.join(texts)}"

    def _before_after(self, width: int) -> str:
        assert self.lowered is not None
        before, after = vars(self.totals), vars(self.lowered.totals)
        both = {k: (before[k], after[k]) for k in before}
        shown = {k: pair for k, pair in both.items() if k != "unknown" or any(pair)}
        rows = [(k, number(a), number(b), ratio(b, a)) for k, (a, b) in shown.items()]
        right = ("before", "after", "ratio")
        return table(("lowering", "before", "after", "ratio"), rows, right, width=width)

    @property
    def rt_info(self) -> Annotated[str | None, Any]:
        """rt_info of the model, as XML."""
        return self.graph.info.rt_info or None

    @property
    def extra(self) -> dict[str, Any] | None:
        """Other attributes of the XML element."""
        return dict(self.graph.info.extra) or None

    @property
    def inputs(self) -> list[ModelEnd]:
        """The inputs of the model in order."""
        return _ends(self.graph.inputs, self.graph.parameters)

    @property
    def outputs(self) -> list[ModelEnd]:
        """The outputs of the model in order."""
        g = self.graph
        names = unique(g.output_name(n) if g.inputs_of(n.id) else n.name for n in g.results)
        return _ends(names, g.results)

    @property
    def inspected(self) -> list[InspectedLayer]:
        """The layers that are shown."""
        return [_layer(self.graph.node(r.id), r) for r in self.shown]

    def to_json(self) -> str:
        """Return the JSON text, a layer on a line."""
        return "".join(_lines(self.to_dict())) + "\n"

    def comments(self) -> dict[int, str]:
        """Return a line for each layer: its data's sources and readers, its place in a file."""
        return {r.id: comment(r) for r in self.layers}

    def to_dot(self, *, constants: bool = False) -> str:
        """Return the graph (not the lowered one) in Graphviz's language, shapes on the edges.

        Constants stand in their readers; with `constants` they are nodes.
        """
        shown = [r for r in self.layers if constants or not r.constant]
        ids = {r.id for r in shown}
        lines = [
            f"digraph {quoted(self.graph.info.name)} {{",
            "  rankdir=TB;",
            '  node [shape=box style=rounded fontname="Helvetica" fontsize=10];',
            '  edge [fontname="Helvetica" fontsize=8];',
        ]
        for r in shown:
            facts = box_facts(self.graph, r, folded=not constants)
            lines.append(f"  n{r.id} [{_style(r)}label={quoted(flat(r.name), r.type, *facts)}];")
        for r in shown:
            for port, i in enumerate(r.inputs):
                if i.producer in ids:
                    ports = f"{i.port} -> {port}" if i.port or port else ""
                    text = quoted(f"{i.spec} {ports}".rstrip())
                    lines.append(f"  n{i.producer} -> n{r.id} [label={text}];")
        return "\n".join([*lines, "}"]) + "\n"

    def to_svg(self, *, constants: bool = False) -> str:
        """Return a picture of the graph; beside it the lowered graph, if there is one.

        Constants stand in the boxes of their readers; with `constants` they have boxes. Needs no
        Graphviz and no browser. Groups of a large graph are closed.
        """
        return self._picture(constants, None) or ""

    def _repr_svg_(self) -> str | None:
        return self._picture(False, LARGEST_FLAT)

    def _picture(self, constants: bool, most: int | None) -> str | None:
        lowered = None if self.lowered is None else self.lowered.graph
        return picture(self.graph, self.layers, lowered, constants=constants, most=most)


def _more(rows: Sequence[object], most: int, what: str) -> str:
    """Return a last line with the number of rows that are not shown."""
    return f"\nand {count(len(rows) - most, f'more {what}')}" if len(rows) > most else ""


def inspect(
    graph: Graph,
    lowered: Graph | None = None,
    *,
    only: Iterable[str] = (),
    sort: Order | None = None,
    target: Target | None = None,
) -> Inspection:
    """Return layers, parameters, MACs and deconvolutions of a graph, inferred or not.

    With `lowered` it also compares before and after. `only` are types and patterns of names; in the
    lowered graph they also select the replacements of such layers. Raises UsageError for one that
    fits nothing, and for an unknown `sort`. A `target` marks the layers that it cannot execute.
    """
    whole = _whole(graph, target)
    other = None if lowered is None else _whole(lowered, target)
    only = tuple(only)
    if only:
        fits = matching(whole.layers, only)
        ids = set().union(*fits.values())
        if other is not None:
            fits_lowered = matching(other.layers, only)
            fits = {text: fits[text] | fits_lowered[text] for text in only}
            names = {r.name for r in whole.layers if r.id in ids}
            made = {r.id for r in other.layers if not names.isdisjoint(r.origins)}
            other = _narrowed(other, made.union(*fits_lowered.values()))
        for text in only:
            if not fits[text]:
                known = dict.fromkeys(word for r in whole.layers for word in (r.type, r.name))
                many = known.keys() >= {*text.split(",")}
                near = SEVERAL if many else other_pattern([text], known)
                hint = near or "a pattern such as 'block1/*' fits whole names"
                raise misused(f'--only "{text}": no layer has this type or name', hint)
        whole = _narrowed(whole, ids)
    if other is not None:
        other = replace(other, shown=tuple(ordered(other.shown, sort)))
    return replace(whole, shown=tuple(ordered(whole.shown, sort)), lowered=other)


def _whole(graph: Graph, target: Target | None) -> Inspection:
    bad = {} if target is None else violations(graph, target)
    found = tuple(replace(r, violations=bad[r.id]) if r.id in bad else r for r in layers(graph))
    name = None if target is None else target.name
    return Inspection(graph, found, found, tuple(deconvolutions(graph)), target=name)


def _narrowed(whole: Inspection, ids: set[int]) -> Inspection:
    return replace(
        whole,
        shown=tuple(r for r in whole.layers if r.id in ids),
        deconvolutions=tuple(d for d in whole.deconvolutions if d.id in ids),
    )
