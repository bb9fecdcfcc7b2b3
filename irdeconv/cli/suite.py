"""Test vectors for hardware and compilers: make them, run them, judge the results.

  suite make DIR             write layers as IR, with inputs and expected outputs
  suite check DIR RESULTS    judge the results of a device; exit code 1 unless all pass
  suite run DIR --with PEER  run the layers in a runtime on this machine, and judge the results
  suite list [DIR]           list the cases that make would write, or those of a suite

RESULTS is a folder of CASE.npz or CASE.npy, or one .npz with CASE/y for every case. Each case has
model.xml (the layer in OpenVINO's operations, whatever its dialect), inputs.npz, constants.npz and
expected.npz. manifest.json has attributes, shapes, allowed differences with their rules, and what
runtimes are known to compute differently.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from irdeconv.base.errors import count
from irdeconv.base.form_names import AUTO, CONDITIONS
from irdeconv.cli.console import Console
from irdeconv.cli.diagnostics import xml_text
from irdeconv.cli.options import OptionParser, add_format, add_seed, size

if TYPE_CHECKING:
    from irdeconv.verify.suite_cases import SuiteCase
    from irdeconv.verify.suite_report import SuiteReport


ACTIONS = ("make", "check", "run", "list")
# Which actions an option belongs to; the others belong to all.
_CHOOSING = ("make", "list")
_BELONGS = {
    "dialect": _CHOOSING,
    "set": _CHOOSING,
    "only": _CHOOSING,
    "layers": _CHOOSING,
    "full_size": _CHOOSING,
    "data": ("make",),
    "seed": ("make",),
    "form": ("make",),
    "onnx": ("make",),
    "max_size": ("make",),
    "force": ("make", "run"),
    "peer": ("run",),
    "lowered_models": ("run",),
    "output": ("run",),
    "all": ("run", "check"),
}
_SPELLED = {"peer": "--with", "output": "-o", "lowered_models": "--lowered"}


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    parser.add_argument("dir", metavar="DIR", nargs="?", help="the folder of the suite")
    parser.add_argument("results", metavar="RESULTS", nargs="?", help="check: a folder or an .npz")
    _choosing(parser.add_argument_group("make and list"))
    making = parser.add_argument_group("make")
    making.add_argument(
        "--data",
        choices=("integers", "floats"),
        default="integers",
        help="integers so small that results are exact (default), or floats with bounds",
    )
    add_seed(parser, "the data")
    parser.set_defaults(form_none=False)
    making.add_argument(
        "--form",
        help=f"also write each case lowered, as lowered.xml: {', '.join(CONDITIONS)}, {AUTO}",
    )
    making.add_argument(
        "--onnx", action="store_true", help="also write model.onnx of the cases of ONNX"
    )
    making.add_argument(
        "--max-size", type=size, metavar="SIZE", default=None,
        help="refuse (exit code 5) to write more: 512M, 4G (default: 1G)",
    )  # fmt: skip
    making.add_argument(
        "--force", action="store_true", help="replace a suite, or the results of run"
    )
    running = parser.add_argument_group("run and check")
    running.add_argument("--with", dest="peer", metavar="PEER", help="irdeconv, openvino, "
                         "onnxruntime (needs --onnx)")  # fmt: skip
    running.add_argument(
        "--lowered", dest="lowered_models", action="store_true", help="run: the lowered models"
    )
    running.add_argument("-o", "--output", metavar="RESULTS", help="run: keep the results here")
    running.add_argument("--all", action="store_true", help="list cases that pass as well")
    add_format(parser, "junit")


def _choosing(group: Any) -> None:
    group.add_argument(
        "--dialect",
        type=_names,
        default=(),
        metavar="LIST",
        help="openvino (default), onednn, onnx, ort-nhwc, tensorrt, or all",
    )
    group.add_argument(
        "--set",
        type=_names,
        default=(),
        metavar="LIST",
        help="quick (every value once), pairs (every pair of values), edges, networks, or full: "
        "all but quick (default)",
    )
    group.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="cases by name: '*-edge-*'"
    )
    group.add_argument("--layers", metavar="FILE.toml", help="layers of your own")
    group.add_argument(
        "--full-size",
        action="store_true",
        help="layers of networks with all channels and elements",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def run(args: argparse.Namespace, console: Console) -> int:
    """Do what ACTION says."""
    _refuse_idle(args)
    actions = {"make": _make, "check": _check, "run": _run, "list": _list}
    return actions[args.action](args, console)


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse what says nothing about the action, and what the action lacks."""
    from irdeconv.base.errors import misused

    action = args.action
    usual = {"data": "integers", "seed": 0}
    idle = [
        _SPELLED.get(name, f"--{name.replace('_', '-')}")
        for name, actions in _BELONGS.items()
        if action not in actions
        and getattr(args, name) not in (usual.get(name), None, False, (), [])
    ]
    if idle:
        raise misused(f"{' and '.join(idle)}: nothing to suite {action}")
    if args.dir is None and action != "list":
        raise misused(f"suite {action} needs the folder of a suite: suite {action} DIR")
    if action == "check" and args.results is None:
        raise misused("suite check needs results: suite check DIR RESULTS")
    if action != "check" and args.results is not None:
        raise misused(f"suite {action} takes one folder, not {args.results} as well")
    if action == "run" and args.peer is None:
        raise misused("suite run needs --with: irdeconv, openvino or onnxruntime")
    if args.format == "junit" and action in _CHOOSING:
        raise misused(f"--format junit: suite {action} judges nothing")


def _gathered(args: argparse.Namespace, console: Console) -> list[SuiteCase]:
    from irdeconv.verify.suite import gathered

    cases, skipped = gathered(
        args.dialect, args.set, args.only, args.layers, full_size=args.full_size
    )
    for text in skipped:
        console.log(f"left out: {text}")
    return cases


def _make(args: argparse.Namespace, console: Console) -> int:
    from irdeconv.base.tables import scaled
    from irdeconv.verify.suite_writing import MAX_SIZE, Recipe, make, require_room

    cases = _gathered(args, console)
    limit = MAX_SIZE if args.max_size is None else args.max_size
    total = require_room(cases, limit)
    console.log(f"{count(len(cases), 'case')}, at most about {scaled(total, 'B')} of arrays")
    recipe = Recipe(data=args.data, seed=args.seed, form=args.form, onnx=args.onnx)
    made = make(Path(args.dir), cases, recipe, force=args.force)
    tally = _tally([(c.facts["dialect"], c.facts["set"]) for c in made.cases])
    if console.wants_json:
        rows = [{"dialect": d, "set": s, "cases": n} for (d, s), n in tally.items()]
        console.json("suite", {"folder": args.dir, "cases": len(cases), "sets": rows})
        return 0
    for (dialect, name), number in tally.items():
        console.text(f"{dialect} {name}: {count(number, 'case')}")
    forms = Counter(c.facts["lowered"]["form"] for c in made.cases if "lowered" in c.facts)
    if forms:
        console.text("lowered: " + ", ".join(f"{n} as {form}" for form, n in forms.items()))
    console.text(f"{args.dir}: ", (count(len(cases), "case"), "bold green"))
    return 0


def _tally(pairs: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {pair: pairs.count(pair) for pair in dict.fromkeys(pairs)}


def _check(args: argparse.Namespace, console: Console) -> int:
    from irdeconv.verify.suite_manifest import Suite
    from irdeconv.verify.suite_report import check

    suite = Suite.open(Path(args.dir))
    return _report(check(suite, Path(args.results)), args, console)


def _run(args: argparse.Namespace, console: Console) -> int:
    from irdeconv.cli.checks import require_folder
    from irdeconv.verify.suite import file_of, run
    from irdeconv.verify.suite_manifest import Suite, require_place, save_results
    from irdeconv.verify.suite_report import check

    if args.output is not None:
        require_place(Path(args.output), force=args.force)
        if not args.output.endswith(".npz"):
            require_folder(Path(args.output))
    suite = Suite.open(Path(args.dir))
    ran = run(suite, args.peer, lowered=args.lowered_models)
    if args.output is not None:
        save_results(Path(args.output), ran.arrays)
        console.log(f"wrote {args.output}")
    blame = (args.peer, file_of(args.peer, lowered=args.lowered_models))
    return _report(check(suite, ran.arrays, ran.problems, blame), args, console)


def _report(report: SuiteReport, args: argparse.Namespace, console: Console) -> int:
    if console.wants_json:
        console.json("suite", {"folder": args.dir, "results": args.results, **report.to_dict()})
    elif console.format == "junit":
        console.raw(junit(args.dir, report))
    else:
        for line in report.lines(everything=args.all):
            bad = line.startswith(("DIFF", "MISSING", "BAD"))
            console.text((line, "red" if bad else ""))
        for line in report.summary():
            console.text(line)
        console.text((report.verdict, "bold green" if report.passed else "bold red"))
    return 0 if report.passed else 1


def _list(args: argparse.Namespace, console: Console) -> int:
    rows = _stored(args.dir) if args.dir is not None else _planned(args, console)
    if console.wants_json:
        console.json("suite", {"cases": rows})
        return 0
    for row in rows:
        console.text((str(row["name"]), "bold"))
        console.text(_described(row, console.width))
    console.text(count(len(rows), "case"))
    return 0


def _stored(folder: str) -> list[dict[str, Any]]:
    from irdeconv.verify.suite_manifest import Suite

    cases = Suite.open(Path(folder)).cases
    return [_row(c.name, c.facts["set"], c.facts["tests"], c.layer) for c in cases]


def _planned(args: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    return [_row(c.name, c.set, c.tests, c.layer) for c in _gathered(args, console)]


def _row(name: str, set: str, tests: str, layer: Any) -> dict[str, Any]:
    from irdeconv.verify.suite_layer import terms

    return {"name": name, "set": set, "tests": tests, "layer": terms(layer)}


def _described(row: dict[str, Any], width: int) -> str:
    """Return what a case tests and what its layer has beyond the usual."""
    from irdeconv.base.tables import wrap
    from irdeconv.verify.suite_layer import base, label

    usual = base(row["layer"]["dialect"])
    unusual = [
        f"{name} {value}"
        for name, value in row["layer"].items()
        if name in ("size", "kernel", "strides") or (name in usual and value != label(usual[name]))
    ]
    layer = ", ".join(text.replace(" ", "\0") for text in unusual)  # kept on one line
    lines = (wrap(f"  {text}", width, indent=2) for text in (row["tests"], layer))
    return "\n".join(lines).replace("\0", " ")


def junit(folder: str, report: SuiteReport) -> str:
    """Return a suite with a test case per case; what failures share is its output."""
    failures = sum(not c.passed for c in report.cases)
    root = ElementTree.Element("testsuites", name="irdeconv suite")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=xml_text(folder),
        tests=str(len(report.cases)),
        failures=str(failures),
    )
    for case in report.cases:
        where = f"{case.dialect}.{case.set}"
        node = ElementTree.SubElement(
            suite, "testcase", classname=xml_text(where), name=xml_text(case.name)
        )
        if case.passed:
            continue
        lines = case.lines()
        message = lines[-1 - len(case.known)] if len(lines) > 1 + len(case.known) else lines[0]
        failure = ElementTree.SubElement(
            node, "failure", type=case.status, message=xml_text(message)
        )
        failure.text = xml_text("\n".join(lines))
    summary = [*report.summary(), report.verdict]
    ElementTree.SubElement(suite, "system-out").text = xml_text("\n".join(summary))
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
