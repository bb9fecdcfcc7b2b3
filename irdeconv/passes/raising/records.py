"""What raising returns: the graph and a record of every decomposition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from irdeconv.graph import Graph
from irdeconv.markup import html_table, line
from irdeconv.passes.layer_counts import layer_count
from irdeconv.plural import count
from irdeconv.wrapping import printable

PATTERNS = {
    "zero-insertion": "zeros inserted into the data of a convolution",
    "phases": "several convolutions joined along the channels, then interleaved in space",
    "depth-to-space": "a convolution, its channels then interleaved in space",
    "resize": "data enlarged by repeating elements, then a convolution",
    "upsample": "data enlarged by repeating or weighing neighbours, alone",
}
# A resize alone multiplies nothing: it becomes a deconvolution only for who asks for it.
USUAL = tuple(name for name in PATTERNS if name != "upsample")


@dataclass(frozen=True, repr=False)
class RaisedLayer:
    """What became of one decomposition.

    `pattern` is None where it stayed (`reason` says why); then `type` is that of the convolution or
    the Concat of several, else that of the new deconvolution. MACs are products, None where sizes
    are unknown. `note` tells what besides the equality of the formulas there is to know.
    """

    name: str
    type: str
    pattern: str | None
    reason: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    macs_before: int | None = None
    macs_raised: int | None = None
    exact: bool = True
    note: str | None = None

    def __repr__(self) -> str:
        what = f"{self.pattern} -> {self.type}" if self.pattern else f"stays: {self.reason}"
        return line(self, self.name, what)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        names = ("name", "type", "pattern", "reason", "macs_before", "macs_raised", "exact", "note")
        return {
            **{name: getattr(self, name) for name in names},
            "attributes": dict(self.attributes),
        }


@dataclass(frozen=True, repr=False)
class RaisingReport:
    """One record per decomposition: the raised ones, then those that stay."""

    layers: tuple[RaisedLayer, ...]

    @property
    def verdict(self) -> str:
        """One line: how many decompositions were raised."""
        if not self.layers:
            return "no decompositions, nothing to raise"
        done = sum(r.pattern is not None for r in self.layers)
        return f"{count(done, 'decomposition')} of {len(self.layers)} raised"

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        rows = [(r.name, r.pattern or "", r.type, r.reason or r.note or "") for r in self.layers]
        return html_table(self.verdict, ("layer", "pattern", "becomes", "remarks"), rows)

    def __iter__(self) -> Iterator[RaisedLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"layers": [r.to_dict() for r in self.layers]}

    def __str__(self) -> str:
        lines = [
            f"{r.name}: {r.pattern} -> {r.type}" if r.pattern else f"{r.name} stays: {r.reason}"
            for r in self.layers
        ]
        return printable("\n".join(lines) or "no decompositions of deconvolutions")


class Raised(NamedTuple):
    """The graph with deconvolutions and the report: `graph, report = ...`."""

    graph: Graph
    report: RaisingReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self.report.verdict, layer_count(self.graph))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
