"""The explanations of a graph's deconvolutions as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.dialects.setting import shape_text
from irdeconv.errors import misused
from irdeconv.explanation.anatomy import anatomy_svg
from irdeconv.explanation.layer import FORMULA, LayerExplanation, explain_layer
from irdeconv.explanation.verdicts import Verdict
from irdeconv.graph import Graph, Node
from irdeconv.inspection.table import table
from irdeconv.markup import html_text, plain
from irdeconv.markup import line as one_line
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.plural import count
from irdeconv.spec import Shape
from irdeconv.suggest import did_you_mean
from irdeconv.wrapping import printable

EXPLANATION_SCHEMA = "irdeconv/explain/1"
MOST_AT_ONCE = 8


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found; `str()` is the text."""

    layers: tuple[LayerExplanation, ...]

    @property
    def accepted(self) -> bool:
        """Whether no layer is refused by its own system."""
        return all(e.problem is None for e in self.layers)

    def __repr__(self) -> str:
        refused = [plain(e.name) for e in self.layers if e.problem is not None]
        verdict = f"refused {', '.join(refused)}" if refused else "all accepted"
        return one_line(self, None, count(len(self.layers), "deconvolution"), verdict)

    def _repr_html_(self) -> str:
        return html_text(str(self)) + self.to_svg()

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        text = "\n\n".join("\n".join(_text(e)) for e in self.layers) or "no deconvolutions"
        return printable(text)

    def to_svg(self) -> str:
        """Return a picture: every axis with its zeros, pads, taps and phases, and overlap maps."""
        return anatomy_svg(self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form (`irdeconv/explain/1`); unknown sizes are texts or null."""
        return {"schema": EXPLANATION_SCHEMA, "layers": [e.to_dict() for e in self.layers]}


def explain(
    graph: Graph,
    layer: str | None = None,
    solve: int | Sequence[int] | None = None,
    shapes: Mapping[int, Shape | None] | None = None,
) -> Explanation:
    """Explain one deconvolution by its name, or all where there are few.

    With `solve` (a size for all axes, or one per axis) every explanation lists attributes that give
    this output size; `shapes` replaces those of Parameters by node id. Raises UsageError for a name
    that is no deconvolution, for too many to be explained at once, and for sizes that do not fit
    the axes.
    """
    copy = graph.copy()
    infer_specs(copy, shapes)
    wanted = None if solve is None else (solve,) if isinstance(solve, int) else tuple(solve)
    found = []
    for node in _chosen(copy, layer):
        sizes = _checked(wanted, copy, node)
        # Other input shapes make what the file declares meaningless.
        found.append(explain_layer(copy, node, sizes, declared=not shapes))
    return Explanation(tuple(found))


def _chosen(graph: Graph, layer: str | None) -> list[Node]:
    known = [n for n in graph.nodes() if n.op.deconvolution]
    names = ", ".join(f'"{n.name}"' for n in known[:MOST_AT_ONCE]) + (
        ", ..." if len(known) > MOST_AT_ONCE else ""
    )
    if layer is None:
        if len(known) > MOST_AT_ONCE:
            raise misused(f"there are {len(known)} deconvolutions; name one: {names}")
        return known
    found = [n for n in known if n.name == layer]
    if not found:
        other = next(iter(graph.find(layer)), None)
        what = f'"{layer}" is a {other.type}' if other else f'there is no layer "{layer}"'
        hint = did_you_mean(layer, [n.name for n in known])
        raise misused(f"{what}; the deconvolutions are {names or 'none'}", hint)
    return found


def _checked(wanted: tuple[int, ...] | None, graph: Graph, node: Node) -> tuple[int, ...] | None:
    if wanted is None:
        return None
    if min(wanted, default=0) < 1:
        raise misused(f"the wanted size {shape_text(wanted)} must be at least 1 on every axis")
    rank = graph.input_specs(node.id)[0].rank if graph.inputs_of(node.id) else None
    if rank is not None and len(wanted) not in (1, rank - 2):
        raise misused(
            f'{len(wanted)} wanted sizes for the {rank - 2} axes of "{node.name}"; give one for '
            "all or one per axis"
        )
    return wanted


def _text(e: LayerExplanation) -> Iterator[str]:
    yield f"{e.name}: {e.type} ({e.version}), {e.system}"
    attributes = " ".join(f"{k}={v}" for k, v in e.attributes.items() if v)
    yield f"  {attributes}"
    yield f"  {' x '.join(e.inputs[:2])} -> {e.output}"
    if e.problem is not None:
        yield f"  rejected [{e.problem.code}]: {e.problem.message}"
    yield from (f"  hint: {h}" for h in e.hints)
    yield from (f"  warning [{r.code}]: {r.message}" for r in e.remarks)
    yield from (f"  known fault of {fault}" for fault in e.faults)
    if e.setting is None:
        yield "  the number of axes or the pads are unknown, so there is no more to say"
        return
    yield ""
    yield from _size_text(e)
    if e.picture:
        yield "\nfirst axis: w0, w1, ... are the taps, - is a tap over a zero"
        yield from (f"  {line}".rstrip() for line in e.picture)
    yield "\nwhat would the others compute from these attributes"
    yield "(begin, end: how many elements are cut off there; negative: zeros are added)"
    yield _verdict_table(e.verdicts)
    if e.solutions is not None:
        yield from _solutions_text(e)


def _size_text(e: LayerExplanation) -> Iterator[str]:
    assert e.rule is not None
    yield f"output size: {FORMULA}"
    yield f"  pads: {e.rule.text}"
    for a in e.axes:
        first, second = a.equation
        yield f"  axis {a.index}: O = {first}"
        yield f"            = {second}"
        if e.rule.totals and e.crop is not None:
            t = e.rule.totals[a.index]
            split = e.rule.split(a.index)
            yield f"          total = {t.formula} = {t.numbers} = {t.value}; {split}"


def _verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for v in verdicts:
        c = v.crop
        cells = [shape_text(d) for d in (c.size, c.begin, c.end)] if c else ["", "", ""]
        rows.append((v.title, *cells))
    # A row is a line, however long its numbers are.
    lines = table(("system", "output", "begin", "end"), rows, width=1 << 16).splitlines()
    width = max(map(len, lines))
    out = [f"  {lines[0].ljust(width)}  numbers", f"  {lines[1].ljust(width)}  -------"]
    for line, v in zip(lines[2:], verdicts, strict=True):
        out.append(f"  {line.ljust(width)}  {v.text}")
        if v.instead is not None:
            out.append(f"  {' ' * width}    the same with {_attributes(v.instead)}")
    return "\n".join(out)


def _attributes(attributes: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in attributes.items())


def _solutions_text(e: LayerExplanation) -> Iterator[str]:
    s = e.solutions
    assert s is not None
    yield f"\nattributes with which {e.system} gives {shape_text(s.wanted)}"
    if s.reason or not s.found:
        yield f"  {s.reason or 'none'}"
        return
    rows = [
        (_attributes(f.attributes), shape_text(f.crop.begin), shape_text(f.crop.end))
        for f in s.found
    ]
    wide = max(len(r[0]) for r in rows)
    yield f"  {'attributes':<{wide}}  begin  end"
    for text, begin, end in rows:
        yield f"  {text:<{wide}}  {begin:<5}  {end}"
    if s.more or not s.complete:
        yield f"  and {'at least ' if not s.complete else ''}{s.more} more"
