"""Diagnostics for people (with colours), SARIF and JUnit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree

from irdeconv import __version__
from irdeconv.base.codes import CODES
from irdeconv.base.tables import WIDTH, printable

if TYPE_CHECKING:
    from irdeconv.base.errors import Diagnostic, IrdeconvError
    from irdeconv.cli.console import Console, Part

_HEAD = re.compile(r"(error|warning|note)(\[[EW]\d+\])")
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
# Characters that XML 1.0 cannot hold.


def parts(diagnostic: Diagnostic, width: int = WIDTH) -> list[Part]:
    """Return the rendered diagnostic as styled parts; the source line is clipped to a width."""
    head, _, rest = diagnostic.render(width).partition("\n")
    found = _HEAD.search(head)
    out: list[Part] = [head]
    if found:
        style = _STYLES[found.group(1)]
        out = [head[: found.start()], (found.group(), style), (head[found.end() :], "bold")]
    for line in rest.split("\n") if rest else []:
        caret = line.rstrip().endswith("^") and not line.strip(" |^")
        out += ["\n", (line, "green") if caret else line]
    return out


def print_diagnostics(console: Console, diagnostics: Iterable[Diagnostic]) -> None:
    """Write diagnostics to stderr, also with `--quiet`."""
    for diagnostic in diagnostics:
        console.error(*parts(diagnostic, console.log_width))


def report_error(verb: str, console: Console, error: IrdeconvError) -> int:
    """Print what an exception carries and return its exit code; JSON goes to stdout as well."""
    code = code_of(error.diagnostics) or error.exit_code
    if console.wants_json:
        found = [d.to_dict() for d in error.diagnostics]
        console.json(verb, {"error": str(error), "exit_code": code, "diagnostics": found})
    print_diagnostics(console, error.diagnostics)
    return code


def code_of(diagnostics: Iterable[Diagnostic]) -> int | None:
    """Return the exit code that the codes of the errors themselves tell, None where none does.

    6: a file cannot be read or written, 5: a limit, 4: nothing but unknown operations, 3: nothing
    but lacking weights.
    """
    codes = {d.code for d in diagnostics if d.severity == "error"}
    if codes & {"E100", "E701"}:
        return 6
    if any(c.startswith("E6") for c in codes):
        return 5
    if codes and codes <= {"E206", "E207", "E214"}:
        return 4
    return 3 if codes and all(c.startswith("E12") for c in codes) else None


def sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a SARIF 2.1.0 log."""
    used = sorted({d.code for d in diagnostics})
    driver = {
        "name": "irdeconv",
        "version": __version__,
        "rules": [
            {"id": c, "shortDescription": {"text": CODES[c].title}, "help": {"text": CODES[c].hint}}
            for c in used
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(d, used.index(d.code)) for d in diagnostics],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=1) + "\n"


def _sarif_result(d: Diagnostic, rule: int) -> dict[str, Any]:
    text = f"{d.message} ({d.hint})" if d.hint else d.message
    result: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": rule,
        "level": d.severity,
        "message": {"text": text},
    }
    place: dict[str, Any] = {}
    if d.location is not None:
        place["physicalLocation"] = physical(d.location.file, d.location.position)
    if d.layer is not None:
        place["logicalLocations"] = [{"name": d.layer, "kind": "element"}]
    if place:
        result["locations"] = [place]
    related = [
        {
            "id": i,
            "message": {"text": n.message},
            "physicalLocation": physical(n.location.file, n.location.position),
        }
        for i, n in enumerate(d.notes)
        if n.location is not None
    ]
    if related:
        result["relatedLocations"] = related
    return result


def physical(file: str, position: tuple[int, int] | None) -> dict[str, Any]:
    """Return a place as SARIF spells it; `position` is a line and a column."""
    out: dict[str, Any] = {
        "artifactLocation": {"uri": quote(Path(file).as_posix(), errors="surrogateescape")}
    }
    if position is not None:
        out["region"] = {"startLine": position[0], "startColumn": position[1]}
    return out


def junit(by_file: dict[str, list[Diagnostic]]) -> str:
    """Return a JUnit report: a suite per file, a failed case per error, warnings as output."""
    errors = {f: [d for d in ds if d.severity == "error"] for f, ds in by_file.items()}
    root = ElementTree.Element("testsuites", name="irdeconv validate")
    for file, found in by_file.items():
        cases = max(1, len(errors[file]))
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=xml_text(file),
            tests=str(cases),
            failures=str(len(errors[file])),
        )
        for d in errors[file]:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=xml_text(file),
                name=xml_text(f"{d.code} {d.layer or ''}"),
            )
            failure = ElementTree.SubElement(
                case, "failure", type=d.code, message=xml_text(d.message)
            )
            failure.text = xml_text(d.render())
        if not errors[file]:
            ElementTree.SubElement(suite, "testcase", classname=xml_text(file), name="valid")
        rest = [d.render() for d in found if d.severity != "error"]
        if rest:
            ElementTree.SubElement(suite, "system-out").text = xml_text("\n".join(rest))
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def xml_text(text: str) -> str:
    """Return the text with escapes for what XML 1.0 cannot hold, and for all that does not show."""
    return printable(text).strip()
