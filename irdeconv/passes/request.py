"""What a caller wants to be lowered, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from os import PathLike

from irdeconv.passes.emit import Style
from irdeconv.passes.form_names import AUTO, FALLBACK, require_form
from irdeconv.targets.profile import Target, load_target


@dataclass(frozen=True)
class LoweringRequest:
    """The arguments of a lowering.

    `explain` asks for the costs of forms, `all_costs` also for those that cannot be the cheapest.
    `only` is a pattern of layer names. With `convolutions` ordinary convolutions that violate
    conditions are rewritten, too; with `best_effort` violations become warnings. `quantized` says
    that the layers run in int8.
    """

    form: str
    target: Target
    targeted: bool
    explain: bool
    all_costs: bool = False
    best_effort: bool = False
    only: str | None = None
    convolutions: bool = False
    quantized: bool = False

    @staticmethod
    def of(
        form: str | None,
        target: str | PathLike[str] | Target | None,
        explain_costs: bool = False,
        best_effort: bool = False,
        only: str | None = None,
        convolutions: bool = False,
    ) -> LoweringRequest:
        """Return a request; the default form is zero-insertion, with a target auto.

        Raises UsageError for an unknown form or target.
        """
        targeted = target is not None
        form = form or (AUTO if targeted else FALLBACK)
        require_form(form)
        explain = explain_costs or targeted or form == AUTO
        loaded = load_target(target)
        flags = (explain_costs, best_effort, only, convolutions)
        return LoweringRequest(form, loaded, targeted, explain, *flags)

    @property
    def named(self) -> str | None:
        """The name of the target, if costs are known."""
        return self.target.name if self.explain else None

    def selects(self, name: str) -> bool:
        """Whether the layer of a name is to be lowered."""
        return self.only is None or fnmatchcase(name, self.only)

    def styled(self, style: Style) -> Style:
        """Return a style with as many axes as the target allows."""
        wide = self.target.operations is not None and (self.target.max_rank or 5) >= 5
        return replace(style, max_rank=5) if wide else style
