"""The verdict on a rewritten model and on each of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irdeconv.errors import Diagnostic
from irdeconv.markup import html_table, plain
from irdeconv.plural import count
from irdeconv.verify.proof.certificate import IF_ASSUMED, remarks, whole_remarks


@dataclass(frozen=True, kw_only=True)
class LayerCheck:
    """The verdict on one layer: `proved` says for which sizes, `reason` why it is not.

    `every` says that these are all sizes that the model allows, `partly` why not. `rounding` is the
    largest relative change of a weight, `assumed` what was taken for granted. A probe has `unclear`
    where it cannot tell, which is not the same as a difference.
    """

    layer: str
    type: str
    form: str
    proved: str | None
    reason: str | None = None
    every: bool = True
    partly: str | None = None
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
    unclear: bool = False

    @property
    def passed(self) -> bool:
        """Whether the layer was proved equal for every size, and nothing was taken for granted."""
        return self.reason is None and self.every and not self.assumed

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "layer": self.layer,
            "type": self.type,
            "form": self.form,
            "passed": self.passed,
            "proved": self.proved,
            "every": self.every and self.reason is None,
            "partly": self.partly,
            "rounding": self.rounding,
            "assumed": list(self.assumed),
            "unclear": self.unclear,
            "reason": self.reason,
        }

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{'not ' if self.unclear else 'FAIL'} {plain(self.layer)}: {self.reason}"
        title = "ok  " if self.passed else "part"
        first = f"{title} {plain(self.layer)}: {self.type} = {self.form} for {self.proved}"
        return "\n".join([first, *remarks(self)])


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckReport:
    """The verdict on a lowered model.

    `layers` are the rewritten layers, `problems` other differences from the original, `kept`
    deconvolutions that were not rewritten, `others` is the number of equal layers. `sizes` are the
    input shapes that were asked for. `rounding` is the largest relative change of any weight,
    `assumed` has all assumptions. `warnings` name wrong declarations of shapes and types in a file;
    they do not change the verdict. A probe has its `seed` and the `error_probability`: how likely
    it is that a layer passes although it differs at the sizes that were evaluated.
    """

    layers: tuple[LayerCheck, ...]
    problems: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    others: int = 0
    sizes: tuple[tuple[str, str], ...] = ()
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    seed: int | None = None
    error_probability: float | None = None

    @property
    def equal(self) -> bool:
        """Whether a layer was rewritten and all are equal, be it for some sizes only.

        What is assumed has to be so.
        """
        return (
            bool(self.layers) and not self.problems and all(r.reason is None for r in self.layers)
        )

    @property
    def passed(self) -> bool:
        """Whether a layer was rewritten, all are proved for every size, all others are the same.

        Nothing is assumed.
        """
        return self.equal and all(self.layers) and not self.assumed

    @property
    def differs(self) -> bool:
        """Whether anything was found that is not equal, or not proved to be."""
        return bool(self.problems) or any(r.reason and not r.unclear for r in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        layers = [r.to_dict() for r in self.layers]
        changed = {"layers": layers, "problems": list(self.problems), "kept": list(self.kept)}
        verdict = {"passed": self.passed, "equal": self.equal}
        return {
            **verdict,
            **vars(self),
            **changed,
            "sizes": dict(self.sizes),
            "assumed": list(self.assumed),
            "warnings": [d.to_dict() for d in self.warnings],
        }

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<CheckReport: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            (r.layer, r.type, r.form if r.reason is None else "", r.reason or r.proved)
            for r in self.layers
        ]
        rows += [(name, "", "", "not rewritten") for name in self.kept]
        rows += [("", "", "", problem) for problem in self.problems]
        rows += [(r.layer, "", "", line.strip()) for r in self.layers for line in remarks(r)]
        rows += [("", "", "", line) for line in self._whole()]
        return html_table(self.verdict, ("layer", "type", "form", "equal for"), rows)

    @property
    def verdict(self) -> str:
        """One line: how many layers are equal."""
        done, few = 0, 0
        for r in self.layers:
            done, few = done + (r.reason is None), few + (r.reason is None and not r.every)
        some = f", {few} for some sizes only" if few else ""
        some += IF_ASSUMED if done and self.assumed else ""
        others = count(self.others, "other")
        return f"{done} of {len(self.layers)} rewritten layers equal{some}, {others} unchanged"

    def _whole(self) -> list[str]:
        """Return what is to be said of the two models as a whole."""
        lines = [f"with the inputs {', '.join(n + s for n, s in self.sizes)}"] * bool(self.sizes)
        return lines + whole_remarks(self.layers, self.rounding, self.assumed)

    def __str__(self) -> str:
        lines = [str(r) for r in self.layers]
        lines += [f"kept {name}: not rewritten" for name in self.kept]
        lines += [f"FAIL {p}" for p in self.problems]
        return "\n".join([*lines, *self._whole(), self.verdict])
