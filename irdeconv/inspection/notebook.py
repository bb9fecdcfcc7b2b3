"""An inspection in a notebook: its tables as a part of a page."""

from __future__ import annotations

from irdeconv.inspection.facts import LayerFactsTable
from irdeconv.inspection.table import number
from irdeconv.markup import html_table

_NUMBERS = ("parameters", "MACs")


def fragment(facts: LayerFactsTable, title: str) -> str:
    """Return the layers (not the constants), the sums by type, and the deconvolutions as HTML."""
    layers = [
        (
            r.id,
            r.name,
            r.type,
            " ".join(str(output.spec) for output in r.outputs),
            number(r.parameters) if r.parameters else "",
            number(r.macs) if r.macs != 0 else "",
        )
        for r in facts.shown
        if not r.constant
    ]
    head = ("id", "name", "type", "outputs", *_NUMBERS)
    parts = [html_table(title, head, layers, ("id", *_NUMBERS))]
    types = [(r.type, r.count, number(r.parameters), number(r.macs)) for r in facts.summary]
    columns = ("type", "count", *_NUMBERS)
    parts.append(html_table("Operations", columns, types, ("count", *_NUMBERS)))
    if facts.deconvolutions:
        parts.append(_deconvolutions(facts))
    return "\n".join(parts)


def _deconvolutions(facts: LayerFactsTable) -> str:
    rows = []
    for d in facts.deconvolutions:
        geometry = (d.kernel, d.strides, d.pads_begin, d.pads_end, d.problem or d.output)
        macs = (number(d.macs_direct), number(d.macs_zero_insertion))
        rows.append((d.name, d.type, *(text or "?" for text in geometry), *macs))
    right = ("direct MACs", "zero-insertion MACs")
    head = ("name", "type", "kernel", "strides", "pads begin", "pads end", "output", *right)
    return html_table("Deconvolutions", head, rows, right)
