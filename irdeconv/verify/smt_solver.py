"""Discharge an obligation with z3, step by step."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from irdeconv.base.extras import needed
from irdeconv.proof.model import Obligation, Unproved
from irdeconv.verify.smt_formula import DEFINED, READS, obligation
from irdeconv.verify.smt_samples import Samples

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"
_STEP = re.compile(r"^; step \d+, (\w+): (.*(?:\n; .*)*)\n\(push 1\)\n", re.M)
_POSITION = re.compile(r"[oqi]\d+")
MOST_ROUNDS = 6


@dataclass(frozen=True)
class Discharge:
    """What a solver says of an obligation.

    `verdict` is "proved", "refuted" or "unknown". `values` has sizes and positions of the
    counterexample, `step` the kind of the step that has one and `text` what that says, or why the
    answer is not known.
    """

    verdict: str
    values: Mapping[str, int] = field(default_factory=dict)
    step: str = ""
    text: str = ""
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.verdict == PROVED

    def __str__(self) -> str:
        if self.verdict == PROVED:
            return f"{PROVED} in {self.seconds:.1f} s"
        where = ", ".join(f"{n} = {v}" for n, v in self.values.items())
        return f"{self.verdict}: {self.text}" + (f" ({where})" if where else "")


def discharge(text: str, seconds: float) -> Discharge:
    """Ask z3 about every step of an obligation, within a time in all.

    UnsupportedError (E520) where z3 is not installed.
    """
    z3 = needed("a second proof", "z3", "SolverFor")
    begin = time.monotonic()
    steps = list(_STEP.finditer(text))
    header = text[: steps[0].start()] if steps else text
    for at, step in enumerate(steps):
        end = steps[at + 1].start() if at + 1 < len(steps) else len(text)
        body = text[step.end() : end].replace("(check-sat)", "").replace("(pop 1)", "")
        left = seconds - (time.monotonic() - begin)
        if left <= 0:
            return Discharge(UNKNOWN, text=f"no answer within {seconds:g} s", seconds=seconds)
        solver = z3.SolverFor("QF_LIA")
        solver.set("timeout", max(int(left * 1000), 1))
        solver.from_string(header + body)
        answer = str(solver.check())
        spent = time.monotonic() - begin
        what = " ".join(step[2].replace("\n;", "").split())
        if answer == "sat":
            return _counterexample(step[1], what, solver.model(), spent)
        if answer != "unsat":
            return Discharge(UNKNOWN, text=f"no answer within {seconds:g} s: {what}", seconds=spent)
    return Discharge(PROVED, seconds=time.monotonic() - begin)


def _counterexample(kind: str, what: str, model: Any, spent: float) -> Discharge:
    values = {str(d): model[d] for d in model.decls() if d.arity() == 0}
    numbers = {n: v.as_long() for n, v in sorted(values.items()) if hasattr(v, "as_long")}
    verdict = UNKNOWN if kind in (READS, DEFINED) else REFUTED
    return Discharge(verdict, numbers, kind, what, spent)


def prove(ob: Obligation, seconds: float, rounding: float = 0.0) -> tuple[Discharge, str]:
    """Write an obligation and discharge it; returns the answer and the text.

    Where the solver finds taps that read an element together and are not listed yet, these sizes
    are looked at and the text is written anew. An obligation that is not followed is unknown.
    """
    begin, samples, text = time.monotonic(), Samples(), ""
    answer = Discharge(UNKNOWN)
    for _ in range(MOST_ROUNDS):
        try:
            text = obligation(ob, rounding, samples)
        except Unproved as e:
            return Discharge(UNKNOWN, text=str(e), seconds=time.monotonic() - begin), text
        left = seconds - (time.monotonic() - begin)
        answer = discharge(text, max(left, 0.001))
        if answer.step != READS or not answer.values:
            break
        samples = Samples([*samples.given, answer.values])
    return answer, text
