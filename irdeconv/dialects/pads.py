"""How the pads of a layer come about: the rule in words, its total, the split of an odd element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irdeconv.dialects.setting import Setting
from irdeconv.spec import Dim, maximum


@dataclass(frozen=True)
class PadsTotal:
    """The sum of both pads on one axis: its formula, the same with numbers, its value."""

    formula: str
    numbers: str
    value: Dim


@dataclass(frozen=True)
class PadsRule:
    """How the pads come about. `larger_begin` is None where nothing is split."""

    text: str
    totals: tuple[PadsTotal, ...] = ()
    larger_begin: bool | None = None

    def split(self, axis: int) -> str:
        """Return how the total of an axis is divided."""
        if self.larger_begin is None:
            return ""
        total = self.totals[axis].value
        if total == 0:
            return "nothing to split"
        if isinstance(total, int) and total % 2 == 0:
            return "half at each side"
        side = "begin" if self.larger_begin else "end"
        if isinstance(total, int):
            return f"odd, the larger half at the {side}"
        return f"the larger half at the {side} where it is odd"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "text": self.text,
            "totals": [
                vars(t) | {"value": t.value if isinstance(t.value, int) else str(t.value)}
                for t in self.totals
            ],
            "odd": None if self.larger_begin is None else "begin" if self.larger_begin else "end",
        }


def as_given(s: Setting) -> PadsRule:
    """Return the rule of pads that are taken as they are, or are none."""
    if s.auto_pad == "valid":
        return PadsRule("auto_pad is valid: pads are 0, given ones are ignored")
    return PadsRule("as given")


def from_extent(s: Setting, attribute: str) -> PadsRule:
    """Return the rule by which same_* splits max(DK - S, 0), the smaller half first for upper."""
    if not s.same:
        return as_given(s)
    totals = tuple(
        PadsTotal("max(DK - S, 0)", f"max({dk} - {stride}, 0)", maximum(dk - stride, 0))
        for dk, stride in zip(s.extent, s.strides, strict=True)
    )
    text = f"{attribute} {s.auto_pad}: given pads are ignored"
    return PadsRule(text, totals, s.auto_pad == "same_lower")


def from_output(s: Setting, *, clamp: bool) -> tuple[PadsTotal, ...]:
    """Return the totals that follow from output_shape; `clamp` makes a negative one 0."""
    assert s.output_shape is not None
    totals = []
    for full, op, size in zip(s.full, s.output_padding, s.output_shape, strict=True):
        value = full + op - size
        formula, numbers = "FULL + op - O", f"{full} + {op} - {size}"
        if clamp:
            formula, numbers = f"max({formula}, 0)", f"max({numbers}, 0)"
            value = maximum(value, 0)
        totals.append(PadsTotal(formula, numbers, value))
    return tuple(totals)
