"""The verdict on a rewritten graph and on each of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irdeconv.markup import html_table
from irdeconv.plural import count


@dataclass(frozen=True, kw_only=True)
class LayerCheck:
    """The verdict on one layer: `proved` says for which sizes, `reason` why it is not."""

    layer: str
    type: str
    form: str
    proved: str | None
    reason: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the layer was proved equal."""
        return self.reason is None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "layer": self.layer,
            "type": self.type,
            "form": self.form,
            "passed": self.passed,
            "proved": self.proved,
            "reason": self.reason,
        }

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if not self.passed:
            return f"FAIL {self.layer}: {self.reason}"
        return f"ok   {self.layer}: {self.type} = {self.form} for {self.proved}"


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckReport:
    """The verdict on a lowered graph.

    `layers` are the rewritten ones, `problems` what else is not as in the source graph, `kept`
    deconvolutions that were not rewritten, `others` the number of equal layers.
    """

    layers: tuple[LayerCheck, ...]
    problems: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    others: int = 0
    error_probability: float | None = None

    @property
    def passed(self) -> bool:
        """Whether a layer was rewritten, all such are proved, and all others are the same."""
        return bool(self.layers) and not self.problems and all(r.passed for r in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        layers = [r.to_dict() for r in self.layers]
        changed = {"layers": layers, "problems": list(self.problems), "kept": list(self.kept)}
        return {"passed": self.passed, **vars(self), **changed}

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<CheckReport: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            (r.layer, r.type, r.form if r.passed else "", r.proved if r.passed else r.reason)
            for r in self.layers
        ]
        rows += [(name, "", "", "not rewritten") for name in self.kept]
        rows += [("", "", "", problem) for problem in self.problems]
        return html_table(self.verdict, ("layer", "type", "form", "equal for"), rows)

    @property
    def verdict(self) -> str:
        """One line: how many layers are equal."""
        done, others = sum(r.passed for r in self.layers), count(self.others, "other")
        return f"{done} of {len(self.layers)} rewritten layers equal, {others} unchanged"

    def __str__(self) -> str:
        lines = [str(r) for r in self.layers]
        lines += [f"kept {name}: not rewritten" for name in self.kept]
        lines += [f"FAIL {p}" for p in self.problems]
        return "\n".join([*lines, self.verdict])
