"""What the page says of single layers: deconvolutions explained, constants in numbers.

All that the browser can work out by itself is left out: pictures and overlap maps follow from the
integers of an axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import unescape
from typing import Any

from irdeconv.errors import IrdeconvError
from irdeconv.explanation.anatomy import anatomies, overlap
from irdeconv.explanation.layer import LayerExplanation, explain_layer
from irdeconv.explanation.report import Explanation
from irdeconv.graph import Graph, Node
from irdeconv.op import Op, attributes
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import bodies_of
from irdeconv.page.constants import Budget, constant_detail
from irdeconv.passes.choose import FormCost
from irdeconv.passes.lower_deconv import lower
from irdeconv.passes.records import LoweringReport

LONGEST_INFO = 300  # characters of one value
_ATTRIBUTE = re.compile(r"<attribute\b[^>]*>")
_FIELD = re.compile(r"""(?<!\w)(\w+)\s*=\s*["']([^"']*)["']""")
DRAWABLE = 1 << 20  # the numbers of an axis that the browser goes through one by one


def details_of(
    graphs: Mapping[str, Graph],
    report: LoweringReport | None = None,
    kinds: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what there is to say of the layers of a page, by the keys of nodes.

    `graphs` are those of the page by key. A layer of "after" that `kinds` does not tell is
    described with "before". "defaults" has those of attributes by the type and version of layers.
    """
    teller = _Teller(report)
    for key, graph in graphs.items():
        for name, node, holder in _every(graph, key):
            if key != "after" or (kinds or {}).get(name, "same") != "same":
                teller.tell(name, node, holder, graph)
    defaults = {kind: texts for kind, texts in teller.defaults.items() if texts}
    return {"defaults": defaults, **teller.told}


class _Teller:
    """Collects the details of layers."""

    def __init__(self, report: LoweringReport | None) -> None:
        self.told: dict[str, dict[str, Any]] = {}
        self.defaults: dict[str, dict[str, str]] = {}
        self._budget = Budget()
        self._report = report
        self._costs: dict[str, tuple[FormCost, ...]] | None = None

    def tell(self, name: str, node: Node, holder: Graph, whole: Graph) -> None:
        """Collect what there is to say of a layer in `holder`, which `whole` is or contains."""
        kind = f"{node.type} {node.op.version}"
        if kind not in self.defaults:
            self.defaults[kind] = _defaults(node.op)
        detail: dict[str, Any] = {}
        if node.op.deconvolution:
            if self._costs is None:
                self._costs = _costs(whole, self._report)
            detail = _deconvolution(holder, node, self._costs.get(node.name, ()))
        elif isinstance(node.op, Const):
            detail = constant_detail(node.op, self._budget) or {}
        more = {"declared": _declared(node), "info": _info(node)}
        detail |= {k: v for k, v in more.items() if v}
        if detail:
            self.told[name] = detail


def _defaults(op: Op) -> dict[str, str]:
    """Return the texts of an operation's defaults; nobody knows those of unknown types."""
    if isinstance(op, Opaque):
        return {}
    texts = {}
    for a in attributes(type(op)).values():
        if not a.required and a.default is not None:
            texts[a.xml] = a.kind.format(a.default)
    return {k: v for k, v in texts.items() if v}


def _declared(node: Node) -> list[str]:
    """Return what the file states of the outputs where inference found something else."""
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
    """Return the costs of all forms by layer; none where the graph cannot be lowered."""
    if report is None or not any(r.costs for r in report):
        try:
            report = lower(graph, explain_costs=True).report
        except IrdeconvError:
            return {}
    return {r.name: r.costs for r in report}


def _deconvolution(graph: Graph, node: Node, costs: tuple[FormCost, ...]) -> dict[str, Any]:
    # The drawing in letters gives way to the drawn one.
    e = replace(explain_layer(graph, node), picture=())
    return {
        "explain": str(Explanation((e,))),
        **_axes(e),
        **({"costs": list(map(_cost, costs))} if costs else {}),
    }


def _axes(e: LayerExplanation) -> dict[str, Any]:
    """Return the integers of every axis and what the overlap map says."""
    axes = anatomies(e)
    if not axes:
        return {}
    rows = [
        [
            None if isinstance(equation.size, str) else a.size, a.kernel, a.stride, a.dilation,
            a.begin, a.end, a.extra,
        ]
        for a, equation in zip(axes, e.axes, strict=True)
    ]  # fmt: skip
    found: dict[str, Any] = {"overlap": overlap(e).sentences()}
    if all(abs(n) < DRAWABLE for row in rows for n in row if n is not None):
        found["axes"] = rows
    return found


def _cost(row: FormCost) -> dict[str, Any]:
    """Return the row of a form, without what is empty."""
    c = row.cost
    numbers = {} if c is None else {
        "macs": c.macs, "bytes": c.bytes, "scratch": c.scratch, "nodes": c.nodes,
        "wasted": round(c.wasted, 3),
    }  # fmt: skip
    said = {"refused": row.refused, "chosen": row.chosen, "assumed": row.assumed}
    return {"form": row.form, **numbers, **{k: v for k, v in said.items() if v}}


def _every(graph: Graph, key: str) -> Iterator[tuple[str, Node, Graph]]:
    """Yield every layer with its key and graph, those in bodies included."""
    for node in graph.nodes():
        name = f"{key}/{node.id}"
        yield name, node, graph
        for body in bodies_of(node):
            yield from _every(body.graph, f"{name}/{body.tag}")
