"""What lowering returns: the graph and a record of every deconvolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from irdeconv.errors import Diagnostic
from irdeconv.graph import Graph
from irdeconv.passes.choose import FormCost
from irdeconv.passes.nonfinite import NonFiniteReport


@dataclass(frozen=True)
class LoweredLayer:
    """What became of one deconvolution.

    `form` is None where it stayed (`reason` says why). MACs are products: `direct` those of the
    scatter, `lowered` those of the emitted convolution, inserted zeros included; None where sizes
    are unknown. `nodes` are the types of the new nodes. `costs` has a row per form where a form was
    chosen or costs were asked for, `spread` what non-finite constants do (None: there are none).
    """

    name: str
    type: str
    form: str | None
    reason: str | None
    macs_direct: int | None
    macs_lowered: int | None
    nodes: tuple[str, ...] = ()
    costs: tuple[FormCost, ...] = ()
    spread: NonFiniteReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `costs` and `spread` only where there are any."""
        more: dict[str, Any] = {}
        if self.costs:
            more["costs"] = [c.to_dict() for c in self.costs]
        if self.spread is not None:
            more["spread"] = self.spread.to_dict()
        names = ("name", "type", "form", "reason", "macs_direct", "macs_lowered")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "nodes": list(self.nodes), **more}


@dataclass(frozen=True)
class LoweringReport:
    """One record per deconvolution, and warnings; `target` names the profile that was asked for."""

    form: str
    layers: tuple[LoweredLayer, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    target: str | None = None

    def __iter__(self) -> Iterator[LoweredLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "form": self.form,
            **({} if self.target is None else {"target": self.target}),
            "layers": [r.to_dict() for r in self.layers],
            "diagnostics": [d.to_dict() for d in self.diagnostics],
        }

    def __str__(self) -> str:
        lines = [
            f"{r.name}: {r.type} -> {', '.join(r.nodes)}"
            if r.form
            else f"{r.name}: {r.type} stays: {r.reason}"
            for r in self.layers
        ]
        return "\n".join(lines) or "no deconvolutions"


@dataclass(frozen=True)
class Lowered:
    """The lowered graph and the report."""

    graph: Graph
    report: LoweringReport
