"""The tables of docs/forms.md: layers of published networks in all lowering forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.form_names import AUTO
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.forms import FORMS
from pages import DOCS, table, with_parts
from support.layers import Layer, build, expected, numbers
from support.public_layers import PUBLISHED, THEORY, Published, macs_by_theory

TARGETS = ("generic", "no-depth-to-space", "zero-insertion-hardware")
COLUMNS = (
    "network|form|MACs by theory|by cost|counted|x direct|large I|wasted|nodes|proof|probe|equal"
).split("|")


def graph_of(layer: Layer) -> tuple[Graph, dict[str, Any]]:
    """Return the inferred graph of a layer and its feeds."""
    rng = np.random.default_rng([len(layer.size), *layer.size])
    # Of integers up to 3, sums of 2**20 products are exact.
    x, w = (numbers(rng, s, np.float32, 3) for s in (layer.data_shape, layer.filter_shape))
    graph, feeds = build(layer, x, w)
    return ird.infer(graph), feeds


def whole(y: Any) -> Any:
    """Return the integers that results are, but for the rounding of kernels."""
    out = np.rint(y)
    return out if np.abs(y - out).max(initial=0) <= 0.01 else np.full_like(out, np.nan)


def limit(layer: Layer, form: str) -> float:
    """Return what MACs over direct MACs tend to for many inputs."""
    macs = macs_by_theory(replace(layer, size=(10**9,) * layer.axes))
    return macs[form] / macs["direct"]


def form_row(published: Published, form: str, full: Any, small: Any) -> list[str]:
    """Return the table's row of one form; a form that does not apply says why."""
    layer, (graph, feeds, direct) = published.layer, full
    low = ird.lower(graph, form, explain_costs=True)
    (record,) = low.report
    if record.reason is not None:
        reason = f"does not apply: {record.reason}"
        return [form, reason, *[""] * (len(COLUMNS) - 3)]
    cost = next(c for c in record.costs if c.form == form).cost
    assert cost is not None
    theory = macs_by_theory(layer)
    counted = record.macs_lowered or 0
    with ird.Limits(work=2**30).applied():  # a probe computes all outputs
        proof, probe = (ird.check_certificate(graph, low.graph, probe=p) for p in (False, True))
    same = np.array_equal(whole(ird.run(low.graph, feeds, form=None)["y"]), whole(direct))
    little, little_feeds, want = small
    as_defined = ird.run(ird.lower(little, form).graph, little_feeds, form=None)["y"]
    return [
        form,
        f"{theory[form]:,}",
        f"{cost.macs:,}",
        f"{counted:,}",
        f"{counted / theory['direct']:.3f}",
        f"{limit(layer, form):.3f}",
        f"{100 * cost.wasted:.1f} %",
        str(cost.nodes),
        "proved" if proof.passed else "FAILED",
        "equal" if probe.passed else "FAILED",
        "yes" if same and np.array_equal(as_defined, want) else "NO",
    ]


def form_rows(published: Published) -> Iterator[list[str]]:
    """Yield the rows of a layer in all forms."""
    graph, feeds = graph_of(published.layer)
    full = graph, feeds, ird.run(graph, feeds, form=None)["y"]
    little, little_feeds = graph_of(published.small)
    (filter,) = (n for n in little.nodes("Const") if n.name == "w")
    w = filter.op.data.array()  # type: ignore[attr-defined]
    want = expected(published.small, little_feeds["x"], w)
    for form in FORMS:
        row = form_row(published, form, full, (little, little_feeds, want))
        yield [published.network, *row]


def choice_row(published: Published) -> list[str]:
    """Return which form each packaged target takes."""
    graph, _ = graph_of(published.layer)
    taken = [published.network]
    for target in TARGETS:
        (record,) = ird.lower(graph, AUTO, target, best_effort=True).report
        taken.append("-" if record.reason else str(record.form))
    return taken


def layer_row(published: Published) -> tuple[str, ...]:
    """Return a layer's hyper-parameters and MACs."""
    graph, _ = graph_of(published.layer)
    (node,) = graph.find("deconv")
    direct = node.op.macs(graph.input_specs(node.id), node.specs or ())
    assert direct == macs_by_theory(published.layer)["direct"]
    return published.network, published.text, f"{direct:,}"


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    forms = [row for published in PUBLISHED for row in form_rows(published)]
    theory = [(name, macs, ratio) for name, (macs, ratio, _) in THEORY.items()]
    by_axis = "MACs / (N * C/g * M), for each axis", "ratio to the direct MACs where I is large"
    parts = {
        "layers": table(("network", "layer", "direct MACs"), map(layer_row, PUBLISHED)),
        "theory": table(("form", *by_axis), theory),
        "forms": table(COLUMNS, forms),
        "choices": table(("network", *TARGETS), map(choice_row, PUBLISHED)),
    }
    return with_parts(DOCS / "forms.md", parts)
