"""The verdict on a device's results: a line per case, what failures share, JSON, JUnit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irdeconv import progress
from irdeconv.conformance.causes import Cause, causes
from irdeconv.conformance.judging import judge
from irdeconv.conformance.manifest import StoredCase, Suite
from irdeconv.conformance.results import Results, UnreadableResult, open_results
from irdeconv.conformance.vectors import is_number
from irdeconv.markup import html_table, html_title, line
from irdeconv.plural import count
from irdeconv.verify.compare.difference import TensorDifference
from irdeconv.wrapping import wrap

PASSED, DIFFERS, MISSING, UNREADABLE = "passed", "differs", "missing", "unreadable"


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """One case: its status, the difference where it was compared, `problem` where it was not.

    `known` are defects of peers on this layer. `features` say what the layer is.
    """

    name: str
    status: str
    set: str
    dialect: str
    features: tuple[str, ...]
    known: tuple[str, ...] = ()
    difference: TensorDifference | None = None
    problem: str | None = None

    def __repr__(self) -> str:
        return line(self, self.name, self.status, *self.reasons())

    @property
    def passed(self) -> bool:
        """Whether the result is there and within its bound."""
        return self.status == PASSED

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "status": self.status,
            "set": self.set,
            "dialect": self.dialect,
            "features": list(self.features),
            "known": list(self.known),
            "problem": self.problem,
            "difference": None if self.difference is None else self.difference.to_dict(),
        }

    def lines(self) -> list[str]:
        """Return a few lines of at most 80 characters, names apart."""
        marks = {PASSED: "ok", DIFFERS: "DIFF", MISSING: "MISSING", UNREADABLE: "BAD"}
        out = [f"{marks[self.status]:<4} {self.name}", *(f"     {r}" for r in self.reasons())]
        if not self.passed:
            out += [f"     known of {text}" for text in self.known]
        return [part for text in out for part in wrap(text, indent=5).split("\n")]

    def reasons(self) -> list[str]:
        """Return why it has not passed."""
        out = [] if self.problem is None else [self.problem]
        if self.difference is not None and not self.passed:
            out += numbers(self.difference)
        return out


def _general(kind: str | None) -> str | None:
    """Return a mistake without its numbers, for those that are alike."""
    return None if kind is None else re.sub(r"\(\d[^)]*\)|\d+", "...", kind)


def numbers(d: TensorDifference) -> Iterator[str]:
    """Yield what is different and by how much, then the mistake that explains it."""
    if d.shape_a != d.shape_b:
        yield f"shape {list(d.shape_b)}, expected {list(d.shape_a)}"
    else:
        place = "" if d.own_at is None else f" at {list(d.own_at)}"
        yield f"off by {d.own:.6g}{place}, allowed {d.tolerance:.3g}"
        yield d.rule
    if d.kind:
        yield d.kind


@dataclass(frozen=True, kw_only=True)
class SuiteReport:
    """All cases in the suite's order; `unknown` are results that no case asks for."""

    cases: tuple[CaseReport, ...]
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        failed = [c for c in self.cases if not c.passed]
        if not failed:
            return html_title(self.verdict)
        rows = [(c.name, c.status, "; ".join(c.reasons())) for c in failed]
        return html_table(self.verdict, ("case", "status", "reason"), rows)

    @property
    def passed(self) -> bool:
        """Whether every case has a result within its bound."""
        return bool(self.cases) and all(c.passed for c in self.cases)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many cases have each status."""
        found = Counter(c.status for c in self.cases)
        return {status: found[status] for status in (PASSED, DIFFERS, MISSING, UNREADABLE)}

    @property
    def kinds(self) -> dict[str, int]:
        """Return how many differences each known mistake explains, the commonest first."""
        differing = (c.difference for c in self.cases if c.difference and not c.passed)
        found = Counter(_general(d.kind) for d in differing)
        return {kind: number for kind, number in found.most_common() if kind is not None}

    def causes(self, kind: str | None = None) -> list[Cause]:
        """Return what all cases that differ have in common, or those that one mistake explains."""
        failed = [c for c in self.cases if c.status == DIFFERS]
        if kind is not None:
            failed = [c for c in failed if c.difference and _general(c.difference.kind) == kind]
        passed = [c.features for c in self.cases if c.passed]
        return causes([c.features for c in failed], passed)

    @property
    def verdict(self) -> str:
        """One line."""
        counts = self.counts
        parts = [f"{counts[PASSED]} of {count(len(self.cases), 'case')} passed"]
        parts += [
            f"{counts[s]} {text}"
            for s, text in ((DIFFERS, "differ"), (MISSING, "missing"), (UNREADABLE, "unreadable"))
            if counts[s]
        ]
        return ", ".join(parts)

    def lines(self, *, everything: bool = False) -> list[str]:
        """Return what every case that has not passed has to say, or every case."""
        shown = [c for c in self.cases if everything or not c.passed]
        return [text for c in shown for text in c.lines()]

    def summary(self) -> list[str]:
        """Return what failures have in common, and results that no case asks for."""
        out = [f"{cause}" for cause in self.causes()]
        for kind, number in self.kinds.items():
            shared = [] if out or number == 1 else [f"     {c}" for c in self.causes(kind)]
            out += [f"{count(number, 'case')}: {kind}", *shared]
        if self.unknown:
            some = ", ".join(self.unknown[:3]) + (", ..." if len(self.unknown) > 3 else "")
            out.append(f"{count(len(self.unknown), 'result')} without a case: {some}")
        return [part for text in out for part in wrap(text, indent=5).split("\n")]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.summary(), self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "passed": self.passed,
            "counts": self.counts,
            "kinds": self.kinds,
            "causes": [c.to_dict() for c in self.causes()],
            "causes_by_kind": {k: [c.to_dict() for c in self.causes(k)] for k in self.kinds},
            "unknown": list(self.unknown),
            "cases": [c.to_dict() for c in self.cases],
        }


def check(
    suite: Suite,
    source: str | Path | Mapping[str, Any],
    problems: Mapping[str, str] | None = None,
    blame: tuple[str, str] | None = None,
) -> SuiteReport:
    """Judge results; FileAccessError and UsageError where they, or the suite, cannot be read.

    `problems` says why there is no result. `blame` is a peer and the file of each case that it ran:
    then only its known defects are told.
    """
    results = open_results(source)
    try:
        reports = []
        with progress.stage("judging results", total=len(suite.cases)) as step:
            for case in suite.cases:
                reports.append(_judged(case, results, problems or {}, blame))
                step(detail=case.name)
    finally:
        results.close()
    unknown = sorted(results.names - {case.name for case in suite.cases})
    return SuiteReport(cases=tuple(reports), unknown=tuple(unknown))


def _judged(
    case: StoredCase,
    results: Results,
    problems: Mapping[str, str],
    blame: tuple[str, str] | None,
) -> CaseReport:
    status, found, problem = PASSED, None, None
    try:
        theirs = results.get(case.name)
        if theirs is None:
            status, problem = MISSING, problems.get(case.name, "there is no result")
        elif theirs.dtype.kind not in "fiub" and not is_number(theirs, case.layer.dtype):
            raise UnreadableResult(f"elements of type {theirs.dtype} are no real numbers")
        else:
            found = judge(case, theirs)
            status = PASSED if found.passed else DIFFERS
    except UnreadableResult as e:
        status, problem = UNREADABLE, str(e)
    return CaseReport(
        name=case.name,
        status=status,
        set=str(case.facts["set"]),
        dialect=case.layer.dialect,
        features=tuple(case.features),
        known=tuple(_known(case, blame)),
        difference=found,
        problem=problem,
    )


def _known(case: StoredCase, blame: tuple[str, str] | None) -> Iterator[str]:
    """Yield the known defects: all of them, or those of a peer with one of the files."""
    for k in case.known:
        if blame is None:
            yield f"{k['peer']} ({k['file']}): {k['text']}"
        elif k["peer"] in (blame[0], "any") and k["file"] == blame[1]:
            yield f"{blame[0]}: {k['text']}"
