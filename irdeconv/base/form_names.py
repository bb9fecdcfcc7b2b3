"""The names of the lowering forms, for modules that need the names but no operations."""

from __future__ import annotations

from collections.abc import Iterable

from irdeconv.base.errors import Spelling, did_you_mean, misused

FALLBACK = "zero-insertion"  # it applies to every deconvolution
PHASES, STACKED, GEMM = "phases", "stacked", "gemm"
AUTO = "auto"  # each deconvolution in the cheapest form that the target admits
# On which layers each form of forms.FORMS applies, empty for all of known sizes.
CONDITIONS = {FALLBACK: "", PHASES: "", STACKED: "", GEMM: "kernel equal to the stride"}


def require_form(form: str, more: Iterable[str] = ()) -> None:
    """Raise UsageError if there is no lowering form of that name, and it is none of `more`."""
    names = dict.fromkeys((*CONDITIONS, AUTO, *more))
    if form not in names:
        hint = did_you_mean(form, names) or f"there are {', '.join(names)}"
        if form.lower() == "none" and not Spelling.options:
            hint = "write form=None"
        raise misused(f'there is no lowering form "{form}"', hint)
