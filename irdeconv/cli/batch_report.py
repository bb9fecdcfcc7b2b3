"""The report of a batch as text, JSON, JUnit, SARIF or HTML, and its progress on the terminal."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated, Any

from irdeconv.base import progress
from irdeconv.base.errors import IrdeconvError, count, misused
from irdeconv.base.json_form import Record, finite
from irdeconv.base.markup import plain
from irdeconv.base.tables import printable
from irdeconv.cli.batch_answer import MOST_DIAGNOSTICS
from irdeconv.cli.batch_items import CRASHED, GOOD, STATUS, BatchRow, Journal, worst
from irdeconv.cli.console import Console
from irdeconv.cli.diagnostics import JunitCase, json_pieces, junit_report, physical, sarif_log
from irdeconv.cli.rich_bars import duration
from irdeconv.formats.atomic import together


class BatchReport(Record, document="batch/1"):
    """The results of all items."""

    verb: str  # that ran on each item
    options: list[str]  # the options of the verb
    counts: dict[str, int]  # how many items have each status
    exit_code: int  # the worst of all items
    items: Annotated[Iterable[dict[str, Any]], list[BatchRow]]  # in the order of the paths


MOST_LINES = 5  # diagnostics of an item on the screen


def require_formats(paths: list[str]) -> None:
    """Refuse reports whose suffix names no format, before anything is done."""
    for path in paths:
        if Path(path).suffix not in FORMATS:
            message = f"--report {path}: its suffix names no format"
            raise misused(message, f"write {', '.join(FORMATS)}")


def finish(args: argparse.Namespace, journal: Journal, console: Console) -> int:
    """Write the report, show the result, and return the exit code."""
    report = document(args, journal)
    text = partial(_text, report, console, everything=args.all)
    try:
        _write(args.report, report, args.folder)
    except IrdeconvError:
        if not console.wants_json:  # the answer is there, and may have taken days
            text()
        raise
    for path in args.report:
        console.log(f"wrote {path}")
    if not console.wants_json:
        text()
    for piece in _as_json(report) if console.wants_json else ():
        console.raw(piece)
    return report.exit_code


def _write(paths: list[str], report: BatchReport, folder: str | None) -> None:
    """Write the report in all its formats, or in none; HTML links to the files in `folder`."""
    with together() as files:
        for path in paths:
            place = Path(os.path.relpath(folder, Path(path).parent)).as_posix() if folder else ""
            write = FORMATS[Path(path).suffix]
            pieces = _html(report, place) if write is _html else write(report)
            files.write(Path(path), (p.encode("utf-8", "backslashreplace") for p in pieces))


def document(args: argparse.Namespace, journal: Journal) -> BatchReport:
    """Return the report; it says nothing of times, places and workers."""
    found = journal.states
    order = [*STATUS.values(), *sorted(found.keys() - set(STATUS.values()))]
    return BatchReport(
        verb=args.task,
        options=[*args.words, *([f"--against={args.against}"] if args.against else [])],
        counts={status: found[status] for status in order if found[status]},
        exit_code=worst(journal.exit_codes),
        items=journal,
    )


def verdict(report: BatchReport) -> str:
    """Return the states of all items in one line."""
    states = ", ".join(f"{n:,} {status}" for status, n in report.counts.items())
    return f"{report.verb}: {count(sum(report.counts.values()), 'item')}: {states}"


def _text(report: BatchReport, console: Console, *, everything: bool) -> None:
    shown = everything or any(status not in GOOD for status in report.counts)
    for item in report.items if shown else ():
        good = item["status"] in GOOD
        if good and not everything:
            continue
        style = "" if good else "red"
        # Without a summary that the first diagnostic repeats anyway.
        messages = [d["message"] for d in item["diagnostics"][:1]]
        answer = "" if not good and item["summary"] in messages else f": {item['summary']}"
        console.text((item["status"], style), plain(f"  {_title(item)}{answer}"))
        for d in item["diagnostics"][: 0 if good else MOST_LINES]:
            console.text(plain(f"    {_line(d)}"))
            if d["hint"]:
                console.text(plain(f"      = {d['hint']}"))
        more = len(item["diagnostics"]) - MOST_LINES
        if more > 0 and not good:
            least = "at least " if len(item["diagnostics"]) == MOST_DIAGNOSTICS else ""
            console.text(f"    and {least}{count(more, 'more diagnostic')}")
    colour = "bold red" if report.exit_code not in (0, 7) else "bold green"
    console.text((verdict(report), colour))


def _title(item: dict[str, Any]) -> str:
    rows = item.get("rows")
    return str(item["file"]) if rows is None else f"{item['file']}[{rows[0]}:{rows[1]}]"


def _line(d: dict[str, Any]) -> str:
    place = ":".join(str(d[k]) for k in ("file", "line", "column") if d[k] is not None)
    return f"{place + ': ' if place else ''}{d['severity']}[{d['code']}]: {d['message']}"


def _as_json(report: BatchReport) -> Iterator[str]:
    return json_pieces(replace(report, items=[]).to_dict(), map(finite, report.items))


def _junit(report: BatchReport) -> Iterator[str]:
    """Yield a suite with a case per item; crashes and bugs are errors, the rest failures."""

    def case_of(item: dict[str, Any]) -> JunitCase:
        good = item["status"] in GOOD
        return JunitCase(
            report.verb,
            plain(_title(item)),
            "" if good else item["status"],
            plain(item["summary"]),
            "\n".join(plain(_line(d)) for d in item["diagnostics"]),
            "error" if item["exit_code"] == 70 else "failure",
        )

    total = sum(report.counts.values())
    errors = report.counts.get(STATUS[70], 0) + report.counts.get(CRASHED, 0)
    failures = total - errors - sum(report.counts.get(status, 0) for status in GOOD)
    counts = {"tests": total, "failures": failures, "errors": errors}
    suite = f"irdeconv {report.verb}", counts, map(case_of, report.items), verdict(report)
    return junit_report("irdeconv batch", [suite])


def _sarif(report: BatchReport) -> Iterator[str]:
    """Yield a SARIF 2.1.0 log with a result per diagnostic."""
    found = ((d["code"], _result(item, d)) for item in report.items for d in item["diagnostics"])
    return sarif_log({d["code"] for item in report.items for d in item["diagnostics"]}, found)


def _result(item: dict[str, Any], d: dict[str, Any]) -> dict[str, Any]:
    text = f"{d['message']} ({d['hint']})" if d["hint"] else d["message"]
    position = None if d["line"] is None else (d["line"], d["column"])
    place: dict[str, Any] = {"physicalLocation": physical(d["file"] or item["file"], position)}
    if d["layer"] is not None:
        place["logicalLocations"] = [{"name": plain(d["layer"]), "kind": "element"}]
    return {"level": d["severity"], "message": {"text": printable(text)}, "locations": [place]}


def _html(report: BatchReport, place: str = "") -> Iterator[str]:
    """Yield a page that loads nothing; `place` is the way to the items' folders, if there are any.

    Its script makes the table of the items, one JSON document a line.
    """
    from irdeconv.show.page import framed, json_text

    title = escape(plain(" ".join(["irdeconv batch", report.verb, *report.options])))
    texts = {"title": title, "place": escape(place), "data": "\0"}
    styles, scripts = ("page.css", "batch.css"), ("texts.js", "batch.js")
    head, tail = framed("batch.html", styles, scripts, **texts).split("\0")
    yield head
    yield from (json_text(item) + "\n" for item in report.items)
    yield tail


FORMATS: dict[str, Callable[[BatchReport], Iterator[str]]] = {
    ".json": _as_json,
    ".junit": _junit,
    ".xml": _junit,
    ".sarif": _sarif,
    ".html": _html,
}


LINE_EVERY = 60.0  # seconds


@contextmanager
def paced(
    items: Sized, console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Yield a function that counts one more item as done and gets its file's name."""
    total, done = len(items), 0
    since = said = clock()

    def step(file: str) -> None:
        nonlocal done, said
        done += 1
        now = clock()
        rate = done / max(now - since, 1e-9)
        speed = f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each"
        advance(1, f"{speed}  {file}")
        if now - said >= LINE_EVERY and not console.err.isatty():
            said = now
            left = duration((total - done) / rate)
            console.log(f"{done:,} of {total:,} items, {speed}, {left} left")

    with progress.stage("batch", total) as advance:
        yield step
