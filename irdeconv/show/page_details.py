"""Details of single layers on the page: deconvolutions, statistics of constants, overlays.

Pictures and overlap maps are left out: the browser makes them of the integers of an axis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from html import unescape
from typing import Any, Literal

from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.base.json_form import json_form
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, attributes
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import bodies_of
from irdeconv.rewrite.lower_deconv import lower
from irdeconv.rewrite.planning import FormCost
from irdeconv.rewrite.records import LoweringReport
from irdeconv.show.explanation import (
    Explanation,
    LayerExplanation,
    anatomies,
    explain_layer,
    overlap,
)
from irdeconv.show.layers import LayerFacts
from irdeconv.show.page_values import array_statistics, rounded

SHOWN_VALUES = 16  # a larger constant is summed up
HISTOGRAM_BINS = 24
HEIGHTS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of a bin, the highest one z
LONGEST_TEXT = 200  # characters of the values of a constant of strings
ELEMENTS_READ = 1 << 25  # on a page; the constants after these are not looked at


@dataclass
class Budget:
    """How many elements may still be read."""

    left: int = ELEMENTS_READ

    def take(self, count: int) -> bool:
        """Whether so many more may be read."""
        fits = count <= self.left
        self.left -= count * fits
        return fits


def constant_detail(op: Const, budget: Budget) -> dict[str, Any] | None:
    """Return a constant's data for the page; None if they are missing or too large."""
    if not op.data.available or not is_static(op.shape) or not budget.take(math.prod(op.shape)):
        return None
    try:
        array = op.data.array()
    except (OpError, ValueError):  # the .bin is too short, or NumPy has no such array
        return None
    if array.size <= SHOWN_VALUES:
        values = array.ravel().tolist()
        texts = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
        return {"values": ", ".join(texts)[:LONGEST_TEXT]}
    if array.dtype == object or array.dtype.kind in "SUb":
        return None
    return _summary(array)


def _summary(array: Array) -> dict[str, Any]:
    """Return least, greatest and mean value, how many are 0 or not finite, and a histogram."""
    seen = array_statistics(array, HISTOGRAM_BINS)
    odd = seen.nan + seen.infinite
    if seen.low is None or seen.high is None or seen.mean is None:
        return {"odd": odd}
    ends = {"min": seen.low, "max": seen.high}
    whole = array.dtype.kind in "iu"
    # A digit for the height of each bin; a bin that is not empty has at least 1.
    digits = (HEIGHTS[-(-n * (len(HEIGHTS) - 1) // max(seen.bins))] for n in seen.bins)
    histogram = "".join(digits) if len(seen.bins) > 1 else ""
    counts = {"zeros": seen.zeros, "odd": odd, "histogram": histogram}
    return {
        **{k: int(v) if whole else rounded(v, 5) for k, v in ends.items()},
        "mean": rounded(seen.mean, 5),
        **{k: v for k, v in counts.items() if v},
    }


LONGEST_INFO = 300  # characters of one value
_ATTRIBUTE = re.compile(r"<attribute\b[^>]*>")
_FIELD = re.compile(r"""(?<!\w)(\w+)\s*=\s*["']([^"']*)["']""")
DRAWABLE = 1 << 20  # the numbers of an axis that the browser goes through one by one


def details_of(
    graphs: Mapping[str, Graph],
    report: LoweringReport | None = None,
    kinds: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the details of the layers of a page, by the keys of nodes.

    `graphs` are those of the page by key. A layer of "after" that is not in `kinds` is described
    with "before". "defaults" has those of attributes by the type and version of layers.
    """
    details: dict[str, dict[str, Any]] = {}
    defaults: dict[str, dict[str, str]] = {}
    costs: dict[str, tuple[FormCost, ...]] | None = None
    budget = Budget()
    for key, graph in graphs.items():
        for name, node, holder in _every(graph, key):
            if key == "after" and (kinds or {}).get(name, "same") == "same":
                continue
            kind = f"{node.type} {node.op.version}"
            if kind not in defaults:
                defaults[kind] = _defaults(node.op)
            detail: dict[str, Any] = {}
            if node.op.deconvolution:
                costs = _costs(graph, report) if costs is None else costs
                detail = _deconvolution(holder, node, costs.get(node.name, ()))
            elif isinstance(node.op, Const):
                detail = constant_detail(node.op, budget) or {}
            more = {"declared": _declared(node), "info": _info(node)}
            detail |= {k: v for k, v in more.items() if v}
            if detail:
                details[name] = detail
    return {"defaults": {k: texts for k, texts in defaults.items() if texts}, **details}


def _defaults(op: Op) -> dict[str, str]:
    """Return the texts of an operation's defaults; none for an unknown type."""
    if isinstance(op, Opaque):
        return {}
    usual = [a for a in attributes(type(op)).values() if not a.required and a.default is not None]
    return {a.xml: text for a in usual if (text := a.kind.format(a.default))}


def _declared(node: Node) -> list[str]:
    """Return the file's declarations of the outputs if inference differs from one."""
    pairs = zip(node.declared, node.specs or (), strict=False)
    differ = [(d.dtype, d.shape) != (s.dtype, s.shape) for d, s in pairs]
    return list(map(str, node.declared)) if any(differ) else []


def _info(node: Node) -> dict[str, str]:
    """Return the runtime information that the file has of a layer, but for its own name."""
    texts = {}
    for element in _ATTRIBUTE.findall(node.rt_info or ""):
        fields = {k: unescape(v) for k, v in _FIELD.findall(element)}
        name, value = fields.get("name", ""), fields.get("value", "")
        if name and value != node.name:
            texts[name] = value[:LONGEST_INFO]
    return texts


def _costs(graph: Graph, report: LoweringReport | None) -> dict[str, tuple[FormCost, ...]]:
    """Return the costs of all forms by layer; none if the graph cannot be lowered."""
    if report is None or all(len(r.costs) < 2 for r in report):
        try:
            report = lower(graph, explain_costs=True).report
        except IrdeconvError:
            return {}
    return {r.name: r.costs for r in report}


def _deconvolution(graph: Graph, node: Node, costs: tuple[FormCost, ...]) -> dict[str, Any]:
    # The drawing in letters gives way to the drawn one.
    e = replace(explain_layer(graph, node), picture=())
    rows = {"costs": list(map(_cost, costs))} if costs else {}
    return {"explain": str(Explanation((e,))), **_axes(e), **rows}


def _axes(e: LayerExplanation) -> dict[str, Any]:
    """Return the numbers of every axis, an open size as text, and the overlap map in sentences."""
    axes = anatomies(e)
    if not axes:
        return {}
    rows: list[list[int | str]] = [[*astuple(a)] for a in axes]
    for row, equation in zip(rows, e.axes, strict=True):
        row[0] = equation.size if isinstance(equation.size, int) else str(equation.size)
    drawable = all(abs(n) < DRAWABLE for row in rows for n in row if not isinstance(n, str))
    return {"overlap": overlap(e).sentences(), **({"axes": rows} if drawable else {})}


def _cost(row: FormCost) -> dict[str, Any]:
    """Return the row of a form, without empty values."""
    c = row.cost
    keys = "macs bytes scratch nodes wasted"
    numbers = {} if c is None else json_form(c, keys, wasted=round(c.wasted, 3))
    said = {"refused": row.refused, "chosen": row.chosen, "assumed": row.assumed}
    return {"form": row.form, **numbers, **{k: v for k, v in said.items() if v}}


def _every(graph: Graph, key: str) -> Iterator[tuple[str, Node, Graph]]:
    """Yield every layer with its key and graph, those in bodies included."""
    for node in graph.nodes():
        name = f"{key}/{node.id}"
        yield name, node, graph
        for body in bodies_of(node):
            yield from _every(body.graph, f"{name}/{body.tag}")


Scale = Literal["log", "linear"]


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A number of each layer, by node key ("before/12"); None is an unknown one.

    Instead of `values`, `fact` names a fact of every layer that the page has anyhow. `unit` "B" and
    "s" get prefixes. `lines` are sentences about a layer, `marks` a word about those that need a
    look, which the graph shows as a sign. A layer that is on both sides of a page needs to be named
    on one. `first` is the layer to begin with; an overlay that is `shown` is painted at first.
    """

    key: str
    title: str
    unit: str = ""
    scale: Scale = "log"
    fact: str | None = None
    values: Mapping[str, float | None] = field(default_factory=dict)
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    first: str | None = None
    shown: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which has no infinity: that is the text "Infinity"."""
        values = {k: _number(v) for k, v in self.values.items()}
        lines = {k: [*v] for k, v in self.lines.items()}
        content = {**vars(self), "values": values, "lines": lines, "marks": dict(self.marks)}
        return {k: v for k, v in content.items() if v not in (None, {}, "", False)}


FACTS = (
    Overlay(key="macs", title="MACs", fact="macs"),
    Overlay(key="memory", title="memory", unit="B", fact="memory"),
    Overlay(key="parameters", title="parameters", fact="parameters"),
)


def memory(facts: LayerFacts) -> int | None:
    """Return the bytes of a layer's outputs and of the constants that reach it.

    A constant counts for its readers; by itself it takes its stored bytes. A Result
    shares the memory of the tensor that it names.
    """
    if facts.constant:
        return facts.bytes
    if facts.type == "Result":
        return 0
    sizes = [output.spec.nbytes for output in facts.outputs]
    known = [size for size in sizes if size is not None]
    return sum(known) + facts.bytes if len(known) == len(sizes) else None


def _number(value: float | None) -> float | str | None:
    if value is None or math.isnan(value):
        return None
    # Four digits are more than a colour or a label shows.
    finite = value if isinstance(value, int) else rounded(value, 4)
    return "Infinity" if math.isinf(value) else finite
