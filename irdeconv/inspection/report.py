"""The inspection of a graph: text, JSON, DOT and HTML of the same facts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from irdeconv.graph import Graph
from irdeconv.inspection.dot import dot
from irdeconv.inspection.facts import Facts
from irdeconv.inspection.html import page
from irdeconv.inspection.layers import deconvolutions, layers
from irdeconv.inspection.table import flat, number, scaled, table
from irdeconv.inspection.table import share as percentage

INSPECTION_SCHEMA = "irdeconv/inspect/1"


@dataclass(frozen=True)
class Inspection(Facts):
    """What `inspect` found; `str()` is a table."""

    lowered: Inspection | None = None

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, constants: bool = False) -> str:
        """Return plain tables: layers, types, deconvolutions, and before and after lowering."""
        parts = [self._title(), self._layer_table(constants), self._summary_table()]
        if self.deconvolutions:
            parts.append(self._deconvolution_table())
        if self.lowered is not None:
            parts.append(self._before_after())
        return "\n\n".join(parts)

    def _title(self) -> str:
        t = self.totals
        hidden = sum(r.constant for r in self.layers)
        return (
            f"{flat(self.graph.info.name)}: {t.layers} layers ({hidden} constant), "
            f"{number(t.parameters)} parameters ({scaled(t.bytes, 'B')}), "
            f"{scaled(t.macs, 'MAC')}" + (f" and {t.unknown} of unknown MACs" if t.unknown else "")
        )

    def _layer_table(self, constants: bool) -> str:
        head = ("id", "name", "type", "version", "inputs", "output", "parameters", "bytes", "MACs")
        rows = [
            (
                str(r.id),
                r.name,
                ("* " if r.deconvolution else "") + r.type,
                r.version,
                " ".join(r.inputs),
                " ".join(f"{t}{s}" for t, s in zip(r.element_types, r.outputs, strict=True)),
                number(r.parameters) if r.parameters else "",
                number(r.bytes) if r.bytes else "",
                number(r.macs) if r.macs != 0 else "",
            )
            for r in self.layers
            if constants or not r.constant
        ]
        return table(head, rows, ("id", "parameters", "bytes", "MACs"))

    def _summary_table(self) -> str:
        total = self.totals.macs
        rows = [
            (
                r.type,
                str(r.count),
                number(r.parameters),
                number(r.macs) + (" + ?" if r.macs and r.unknown else "")
                if r.macs or not r.unknown
                else "?",
                percentage(r.macs, total) if r.macs or not r.unknown else "",
            )
            for r in self.summary
        ]
        right = ("count", "parameters", "MACs", "share")
        return table(("type", "count", "parameters", "MACs", "share"), rows, right)

    def _deconvolution_table(self) -> str:
        right = ("direct MACs", "zero-insertion MACs", "ratio")
        resolved = ("C->M", "g", "kernel", "strides", "dilations", "pads", "output")
        head = ("deconvolution", *resolved, *right)
        rows = [
            (
                f"{d.name} ({d.type})",
                f"{d.channels_in or '?'}->{d.channels_out or '?'}",
                *(v or "?" for v in (d.groups, d.kernel, d.strides, d.dilations)),
                f"{d.pads_begin or '?'} / {d.pads_end or '?'}",
                d.problem or d.output or "?",
                number(d.macs_direct),
                number(d.macs_zero_insertion),
                ratio(d.macs_zero_insertion, d.macs_direct),
            )
            for d in self.deconvolutions
        ]
        return table(head, rows, right)

    def _before_after(self) -> str:
        assert self.lowered is not None
        before, after = vars(self.totals), vars(self.lowered.totals)
        rows = [
            (key, number(before[key]), number(after[key]), ratio(after[key], before[key]))
            for key in before
            if key != "unknown" or before[key] or after[key]
        ]
        right = ("before", "after", "ratio")
        return table(("lowering", "before", "after", "ratio"), rows, right)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form (`irdeconv/inspect/1`); unknown numbers are null."""
        out: dict[str, Any] = {
            "schema": INSPECTION_SCHEMA,
            "name": self.graph.info.name,
            "totals": asdict(self.totals),
            "layers": [asdict(r) for r in self.layers],
            "summary": [asdict(r) for r in self.summary],
            "deconvolutions": [asdict(d) for d in self.deconvolutions],
        }
        if self.lowered is not None:
            out["lowered"] = self.lowered.to_dict()
        return out

    def to_dot(self) -> str:
        """Return the graph (not the lowered one) in Graphviz's language, shapes on the edges."""
        return dot(self.graph, self.layers)

    def to_html(self) -> str:
        """Return a self-contained page without external resources."""
        return page(self)


def ratio(a: int | None, b: int | None) -> str:
    """Return `2.25x`, empty where it is unknown."""
    return f"{a / b:.2f}x" if a is not None and b else ""


def inspect(graph: Graph, lowered: Graph | None = None) -> Inspection:
    """Return layers, parameters, MACs and deconvolutions of a graph, inferred or not.

    With `lowered` it also compares before and after.
    """
    other = None if lowered is None else inspect(lowered)
    return Inspection(graph, tuple(layers(graph)), tuple(deconvolutions(graph)), other)
