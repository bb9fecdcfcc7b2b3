"""Diagnostics for people (with colours), SARIF and JUnit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from irdeconv import __version__
from irdeconv.base.codes import CODES
from irdeconv.base.json_form import Record
from irdeconv.base.tables import WIDTH, printable

if TYPE_CHECKING:
    from irdeconv.base.errors import Diagnostic, IrdeconvError
    from irdeconv.cli.console import Console, Part

_HEAD = re.compile(r"(error|warning|note)(\[[EW]\d+\])")
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


class ErrorDocument(Record, keys="... file? diagnostics"):
    """The document of a verb that fails, instead of its result."""

    schema: Annotated[str, re.compile("^irdeconv/[a-z-]+/[0-9]+$")]  # irdeconv/VERB/1
    error: str  # the text that is printed
    exit_code: int  # of the command
    diagnostics: Sequence[Diagnostic]  # every problem
    file: str | None = None  # of `batch run --inputs`: the file of the rows


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
    """Print an exception's diagnostics and return its exit code; JSON goes to stdout as well."""
    code = code_of(error.diagnostics) or error.exit_code
    if console.wants_json:
        schema = f"irdeconv/{verb}/1"
        console.json(ErrorDocument(schema, str(error), code, error.diagnostics))
    print_diagnostics(console, error.diagnostics)
    return code


def code_of(diagnostics: Iterable[Diagnostic]) -> int | None:
    """Return the exit code that the codes of the errors mean, None if they mean none.

    6: a file cannot be read or written, 5: a limit, 4: nothing but unknown operations, 3: nothing
    but missing weights.
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
    results = ((d.code, _sarif_facts(d)) for d in diagnostics)
    return "".join(sarif_log({d.code for d in diagnostics}, results))


def sarif_log(codes: set[str], found: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Yield a SARIF 2.1.0 log of results with their codes, of which `codes` has all."""
    used = sorted(codes)
    rules = [
        {"id": c, "shortDescription": {"text": CODES[c].title}, "help": {"text": CODES[c].hint}}
        for c in used
    ]
    results = ({"ruleId": code, "ruleIndex": used.index(code), **facts} for code, facts in found)
    driver = {"name": "irdeconv", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": []}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    yield from json_pieces({"$schema": schema, "version": "2.1.0", "runs": [run]}, results)


def json_pieces(document: dict[str, Any], values: Iterable[Any]) -> Iterator[str]:
    """Yield the JSON text of a document; the values are those of its last list, which is empty."""
    head, end = json.dumps(document, indent=1).rsplit("[]", 1)
    line = head.rpartition("\n")[2]
    inside = "\n" + " " * (len(line) - len(line.lstrip()))
    before, after = "[", "[]"
    yield head
    for value in values:
        yield f"{before}{inside} " + json.dumps(value, indent=1).replace("\n", f"{inside} ")
        before, after = ",", f"{inside}]"
    yield f"{after}{end}\n"


def _sarif_facts(d: Diagnostic) -> dict[str, Any]:
    text = f"{d.message} ({d.hint})" if d.hint else d.message
    result: dict[str, Any] = {"level": d.severity, "message": {"text": text}}
    place: dict[str, Any] = {}
    if d.location is not None:
        place["physicalLocation"] = physical(d.location.file, d.location.position)
    if d.layer is not None:
        place["logicalLocations"] = [{"name": d.layer, "kind": "element"}]
    if place:
        result["locations"] = [place]
    for i, n in enumerate(d.notes):
        if n.location is not None:
            there = physical(n.location.file, n.location.position)
            related = {"id": i, "message": {"text": n.message}, "physicalLocation": there}
            result.setdefault("relatedLocations", []).append(related)
    return result


def physical(file: str, position: tuple[int, int] | None) -> dict[str, Any]:
    """Return a place as SARIF spells it; `position` is a line and a column."""
    uri = quote(Path(file).as_posix(), errors="surrogateescape")
    keys = ("startLine", "startColumn")
    region = {} if position is None else {"region": dict(zip(keys, position, strict=True))}
    return {"artifactLocation": {"uri": uri}, **region}


class JunitCase(NamedTuple):
    """A test case of a JUnit report; one that failed has a type, a message and a text.

    A failure with the tag `error` counts as one.
    """

    classname: str
    name: str
    type: str = ""
    message: str = ""
    text: str = ""
    tag: str = "failure"


def junit_report(
    name: str, suites: Iterable[tuple[str, dict[str, int], Iterable[JunitCase], str]]
) -> Iterator[str]:
    """Yield a JUnit report of suites: name, counts, cases, output."""
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="{name}">'
    for title, counts, cases, output in suites:
        facts = {"name": xml_text(title)} | {key: str(n) for key, n in counts.items()}
        yield _xml(ElementTree.Element("testsuite", facts), 1).replace(" />", ">")
        for case in cases:
            facts = {"classname": xml_text(case.classname), "name": xml_text(case.name)}
            node = ElementTree.Element("testcase", facts)
            if case.type:
                facts = {"type": case.type, "message": xml_text(case.message)}
                ElementTree.SubElement(node, case.tag, facts).text = xml_text(case.text)
            yield _xml(node, 2)
        if output:
            node = ElementTree.Element("system-out")
            node.text = xml_text(output)
            yield _xml(node, 2)
        yield "\n </testsuite>"
    yield "\n</testsuites>\n"


def _xml(node: ElementTree.Element, level: int) -> str:
    ElementTree.indent(node, " ", level)
    return f"\n{' ' * level}{ElementTree.tostring(node, encoding='unicode')}"


def junit(by_file: dict[str, list[Diagnostic]]) -> str:
    """Return a JUnit report: a suite per file, a failed case per error, warnings as output."""

    def suite(
        file: str, found: list[Diagnostic]
    ) -> tuple[str, dict[str, int], list[JunitCase], str]:
        cases = [
            JunitCase(file, f"{d.code} {d.layer or ''}", d.code, d.message, d.render())
            for d in found
            if d.severity == "error"
        ]
        rest = [d.render() for d in found if d.severity != "error"]
        counts = {"tests": len(cases) or 1, "failures": len(cases)}
        return file, counts, cases or [JunitCase(file, "valid")], "\n".join(rest)

    suites = (suite(*item) for item in by_file.items())
    return "".join(junit_report("irdeconv validate", suites))


def xml_text(text: str) -> str:
    """Return the text with escapes for invisible characters and those that XML 1.0 excludes."""
    return printable(text).strip()
