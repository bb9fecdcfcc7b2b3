"""The verdict on a suite as JUnit."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from irdeconv.cli.diagnostics import xml_text

if TYPE_CHECKING:
    from irdeconv.conformance.report import SuiteReport


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
