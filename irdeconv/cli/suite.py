"""`suite`: make test vectors for hardware and compilers, and judge the results."""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from irdeconv.base.errors import count, misused
from irdeconv.base.json_form import Record
from irdeconv.base.tables import scaled, wrap
from irdeconv.cli.checks import require_folder
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import JunitCase, junit_report
from irdeconv.formats.kinds import SAVED
from irdeconv.verify import suite as vectors
from irdeconv.verify.suite import file_of, gathered
from irdeconv.verify.suite_layer import SuiteCase, base, label, terms
from irdeconv.verify.suite_manifest import Suite, require_place, save_results
from irdeconv.verify.suite_report import CaseReport, SuiteReport, check
from irdeconv.verify.suite_writing import MAX_SIZE, Recipe, make, require_room


class PlannedCase(Record):
    """A case of a suite."""

    name: str  # of the case
    set: str  # the set of cases that it belongs to
    tests: str  # what the case tests
    layer: dict[str, Any]  # the settings of the layer


class SuiteList(Record, document="suite/1"):
    """`suite list`: the cases."""

    cases: list[PlannedCase]  # in order


class WrittenSet(TypedDict):
    """How many cases were written."""

    dialect: str  # of the layers
    set: str  # name of the set
    cases: int  # that were written


class WrittenSuite(Record, document="suite/1"):
    """`suite make`: the files written."""

    folder: str  # of the suite
    cases: int  # in all
    sets: list[WrittenSet]  # by dialect and set


class SuiteVerdict(Record, document="suite/1", keys="folder results *report"):
    """`suite run` and `suite check`: the verdicts."""

    folder: str  # of the suite
    results: str | None  # the results that were judged
    report: SuiteReport


def run_suite(args: argparse.Namespace, console: Console) -> Answer:
    """Perform ACTION; UsageError without its arguments."""
    action = args.action
    if args.dir is None and action != "list":
        hint = f"for example: irdeconv suite {action} vectors"
        raise misused(f"suite {action} needs a folder", hint)
    if args.dir is not None and Path(args.dir).is_file():
        example = f"irdeconv suite {action} vectors"
        raise misused(f"{args.dir} is a file; a suite is a folder", f"for example: {example}")
    if action == "make":
        require_folder(Path(args.dir))
    if action == "check" and args.results is None:
        raise misused("suite check needs results", f"irdeconv suite check {args.dir} RESULTS")
    if action == "run" and args.peer is None:
        raise misused("suite run needs --with: irdeconv, openvino or onnxruntime")
    if args.format == "junit" and action in ("make", "list"):
        raise misused(f"--format junit: suite {action} judges nothing")
    if action == "check":
        return _report(check(Suite.open(Path(args.dir)), Path(args.results)), args, console)
    return {"make": _make, "run": _run, "list": _list}[action](args, console)


def _gathered(args: argparse.Namespace, console: Console) -> list[SuiteCase]:
    which = args.dialect, args.set, args.only, args.layers
    cases, skipped = gathered(*which, full_size=args.full_size)
    for text in skipped:
        console.log(f"left out: {text}")
    return cases


def _make(args: argparse.Namespace, console: Console) -> Answer:
    cases = _gathered(args, console)
    limit = MAX_SIZE if args.max_size is None else args.max_size
    total = require_room(cases, limit)
    console.log(f"{count(len(cases), 'case')}, at most about {scaled(total, 'B')} of arrays")
    recipe = Recipe(data=args.data, seed=args.seed, form=args.form, onnx=args.onnx)
    made = make(Path(args.dir), cases, recipe, force=args.force)
    sets = Counter((c.facts["dialect"], c.facts["set"]) for c in made.cases)
    rows: list[WrittenSet] = [{"dialect": d, "set": s, "cases": n} for (d, s), n in sets.items()]

    def text() -> None:
        for row in rows:
            console.text(f"{row['dialect']} {row['set']}: {count(row['cases'], 'case')}")
        forms = Counter(c.facts["lowered"]["form"] for c in made.cases if "lowered" in c.facts)
        if forms:
            console.text("lowered: " + ", ".join(f"{n} as {form}" for form, n in forms.items()))
        console.text(f"{args.dir}: ", (count(len(cases), "case"), "bold green"))

    return Answer(lambda: WrittenSuite(args.dir, len(cases), rows), text)


def _run(args: argparse.Namespace, console: Console) -> Answer:
    if args.output is not None:
        require_place(Path(args.output), force=args.force)
        if not args.output.endswith(SAVED):
            require_folder(Path(args.output))
    suite = Suite.open(Path(args.dir))
    arrays, problems = vectors.run(suite, args.peer, lowered=args.lowered_models)
    if args.output is not None:
        save_results(Path(args.output), arrays)
        console.log(f"wrote {args.output}")
    blame = (args.peer, file_of(args.peer, lowered=args.lowered_models))
    return _report(check(suite, arrays, problems, blame), args, console)


def _report(report: SuiteReport, args: argparse.Namespace, console: Console) -> Answer:
    def text() -> None:
        if console.format == "junit":
            console.raw(junit(args.dir, report))
            return
        for line in report.lines(everything=args.all):
            bad = line.startswith(("DIFF", "MISSING", "BAD"))
            console.text((line, "red" if bad else ""))
        for line in report.summary():
            console.text(line)
        console.text((report.verdict, "bold green" if report.passed else "bold red"))

    document = partial(SuiteVerdict, args.dir, args.results, report)
    return Answer(document, text, 0 if report.passed else 1)


def _list(args: argparse.Namespace, console: Console) -> Answer:
    if args.dir is None:
        planned = _gathered(args, console)
        rows = [PlannedCase(c.name, c.set, c.tests, terms(c.layer)) for c in planned]
    else:
        cases = Suite.open(Path(args.dir)).cases
        facts = ((c.name, c.facts["set"], c.facts["tests"], terms(c.layer)) for c in cases)
        rows = [PlannedCase(*fact) for fact in facts]

    def text() -> None:
        for row in rows:
            console.text((row.name, "bold"))
            console.text(_described(row, console.width))
        console.text(count(len(rows), "case"))

    return Answer(lambda: SuiteList(rows), text)


def _described(row: PlannedCase, width: int) -> str:
    """Return the purpose of a case and its layer's unusual attributes."""
    usual = base(row.layer["dialect"])
    unusual = [
        f"{name} {value}"
        for name, value in row.layer.items()
        if name in ("size", "kernel", "strides") or (name in usual and value != label(usual[name]))
    ]
    layer = ", ".join(text.replace(" ", "\0") for text in unusual)  # kept on one line
    lines = (wrap(f"  {text}", width, indent=2) for text in (row.tests, layer))
    return "\n".join(lines).replace("\0", " ")


def junit(folder: str, report: SuiteReport) -> str:
    """Return a suite with a test case per case; the failures' common traits are its output."""

    def case_of(case: CaseReport) -> JunitCase:
        lines = [] if case.passed else case.lines()
        own = len(lines) - len(case.known)
        status = "" if case.passed else case.status
        first = lines[own - 1 if own > 1 else 0] if lines else ""
        group = f"{case.dialect}.{case.set}"
        return JunitCase(group, case.name, status, first, "\n".join(lines))

    summary = "\n".join([*report.summary(), report.verdict])
    cases = [*map(case_of, report.cases)]
    counts = {"tests": len(cases), "failures": sum(bool(case.type) for case in cases)}
    return "".join(junit_report("irdeconv suite", [(folder, counts, cases, summary)]))
