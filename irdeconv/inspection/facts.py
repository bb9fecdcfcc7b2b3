"""What there is to say about a graph, before it becomes text, DOT or a page."""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.graph import Graph
from irdeconv.inspection.deconvolutions import DeconvolutionFacts
from irdeconv.inspection.layers import LayerFacts


@dataclass(frozen=True)
class TypeSummary:
    """One operation type: layers, parameters, MACs (of the layers where they are known)."""

    type: str
    count: int
    parameters: int
    macs: int
    unknown: int


@dataclass(frozen=True)
class Totals:
    """Sums over a graph; `unknown` layers have no known MACs."""

    layers: int
    parameters: int
    bytes: int
    macs: int
    unknown: int
    deconvolutions: int


@dataclass(frozen=True)
class LayerFactsTable:
    """A graph's layers and deconvolutions; `lowered` is the same for the lowered graph.

    `shown` are the layers asked for, in the order asked for; `deconvolutions` are those among them.
    `target` is the name of the target that the layers were checked for.
    """

    graph: Graph
    layers: tuple[LayerFacts, ...]
    shown: tuple[LayerFacts, ...]
    deconvolutions: tuple[DeconvolutionFacts, ...]
    lowered: LayerFactsTable | None = None
    target: str | None = None

    @property
    def totals(self) -> Totals:
        """Sums over all layers; shared constants count once."""
        constants = [r for r in self.layers if r.type == "Const"]
        return Totals(
            layers=len(self.layers),
            parameters=sum(r.parameters for r in constants),
            bytes=sum(r.bytes for r in constants),
            macs=sum(r.macs or 0 for r in self.layers),
            unknown=sum(r.macs is None for r in self.layers),
            deconvolutions=len(self.deconvolutions),
        )

    @property
    def summary(self) -> list[TypeSummary]:
        """One row per operation type that is shown, the most MACs first; constants are left out."""
        by_type: dict[str, list[LayerFacts]] = {}
        for r in self.shown:
            if not r.constant:
                by_type.setdefault(r.type, []).append(r)
        rows = [
            TypeSummary(
                type=t,
                count=len(rs),
                parameters=sum(r.parameters for r in rs),
                macs=sum(r.macs or 0 for r in rs),
                unknown=sum(r.macs is None for r in rs),
            )
            for t, rs in by_type.items()
        ]
        return sorted(rows, key=lambda r: (-r.macs, -r.parameters, r.type))
