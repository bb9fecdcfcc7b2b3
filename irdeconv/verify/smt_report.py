"""What a solver says of the rewritten layers of two models, beside the first checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from irdeconv.base import progress
from irdeconv.proof.model import Obligation, Unproved
from irdeconv.verify.smt_formula import obligation
from irdeconv.verify.smt_solver import PROVED, REFUTED, UNKNOWN, Discharge, prove


@dataclass(frozen=True)
class SecondTask:
    """A layer to prove a second time; weights may differ by `rounding`, relative to the larger.

    `proved` says whether the first checker proved it.
    """

    layer: str
    obligation: Obligation
    proved: bool
    rounding: float = 0.0


@dataclass(frozen=True)
class SecondCheck:
    """The solver's answer for one layer; `text` is the obligation, empty where not followed."""

    layer: str
    proved: bool
    answer: Discharge
    text: str

    @property
    def contradicts(self) -> bool:
        """Whether the first checker proved what the solver refutes."""
        return self.proved and self.answer.verdict == REFUTED

    def __str__(self) -> str:
        return f"{self.layer}: {self.answer}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "layer": self.layer,
            "verdict": self.answer.verdict,
            "counterexample": dict(self.answer.values),
            "reason": None if self.answer.verdict == PROVED else self.answer.text,
        }


def second_checks(tasks: Sequence[SecondTask], seconds: float) -> list[SecondCheck]:
    """Ask z3 about every layer, each within a time; UnsupportedError (E520) without z3."""
    made = []
    for task in progress.each("asking z3", list(tasks), name=attrgetter("layer")):
        answer, text = prove(task.obligation, seconds, task.rounding)
        made.append(SecondCheck(task.layer, task.proved, answer, text))
    return made


def written(tasks: Sequence[SecondTask]) -> list[SecondCheck]:
    """Return the obligations alone, for other solvers; z3 is not needed."""
    made = []
    for task in tasks:
        try:
            text, why = obligation(task.obligation, task.rounding), "not asked"
        except Unproved as e:
            text, why = "", str(e)
        made.append(SecondCheck(task.layer, task.proved, Discharge(UNKNOWN, text=why), text))
    return made
