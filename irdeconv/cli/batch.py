"""`batch`: do the same with many models, or with many inputs of one; report in many formats."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from html import escape
from pathlib import Path
from typing import Annotated, Any

from irdeconv.base import progress
from irdeconv.base.errors import IrdeconvError, count, did_you_mean, misused
from irdeconv.base.json_form import Record, finite
from irdeconv.base.markup import plain
from irdeconv.base.opening import first_bytes, missing
from irdeconv.base.tables import printable
from irdeconv.cli import batch_executors, checks
from irdeconv.cli.batch_answer import MOST_DIAGNOSTICS, execute, failed, parts
from irdeconv.cli.batch_items import (
    CRASHED,
    GOOD,
    PAGE,
    STATUS,
    BatchItem,
    BatchRow,
    Journal,
    Lazy,
    Limits,
    Row,
    content_of,
    digest_of,
    found_files,
    held,
    name_of,
    opened,
    sources,
    trace_of,
    with_data,
    within,
    worst,
)
from irdeconv.cli.console import Console
from irdeconv.cli.diagnostics import JunitCase, json_pieces, junit_report, physical, sarif_log
from irdeconv.cli.options import JOIN, MADE, PASSED, RECORDS, limits_around
from irdeconv.cli.screen import duration
from irdeconv.cli.verbs import verb_parser
from irdeconv.formats.atomic import failures, folder_beside, require_writable, together
from irdeconv.kernels.threads import processors

CALL = "irdeconv.cli.batch_answer:execute"
JOURNAL = "batch.journal"
PLACEHOLDERS = ("{file}", "{folder}", "{stem}", "{item}")


def require_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for options that the verb of the items does not have, or that it lacks."""
    task, names = args.task, [word.partition("=")[0] for word in args.words]
    for name in names:
        if name not in PASSED.get(task, "").split():
            verbs = ", ".join(t for t in PASSED if name in PASSED[t].split())
            raise misused(f'batch {task} has no option "{name}"', f"it belongs to batch {verbs}")
    for name in () if args.folder else (*names, task):
        if name in ("--certify", "--dump", "convert"):
            raise misused(f"{name} needs -o DIR, where the files go", "name a folder")
    if task == "check-certificate" and not args.against:
        hint = "name the folder that batch lower -o has written"
        raise misused("check-certificate needs --against", hint)
    if args.scheduler and not re.search(r":\d+|^(?!tcp|tls)\w+://", args.scheduler):
        host = args.scheduler.removeprefix("tcp://")
        raise misused(f"--scheduler {args.scheduler} has no port", f"such as tcp://{host}:8786")
    if args.memory and not sys.platform.startswith("linux"):
        raise misused("--memory needs Linux", "leave it out")


def run_batch(args: argparse.Namespace, console: Console) -> int:
    """Do all items and report."""
    require_arguments(args)
    if args.task == JOIN:
        from irdeconv.cli.batch_answer import join

        return join(args, console)
    args.words = [*(f"--limit={name}={value}" for name, value in limits_around()), *args.words]
    for report in args.report:
        if Path(report).suffix not in FORMATS:
            message = f"--report {report}: its suffix names no format"
            raise misused(message, f"write {', '.join(FORMATS)}")
    *first, last = args.paths
    if first and not (args.folder or Path(last).exists() or Path(last).suffix):
        raise misused(f'"{last}" names no model', f"-o {last} writes the results there")
    path = journal_of(args)
    items = planned(args)
    for folder in [Path(args.folder)] if args.folder else []:
        with failures(folder):
            folder.mkdir(parents=True, exist_ok=True)  # a report may go there, too
    for report in args.report:
        require_writable(Path(report))
    with ExitStack() as stack:
        stage = None
        if args.folder is not None:
            stack.enter_context(held(Path(args.folder)))
        journal = stack.enter_context(opened(path, items, resume=args.resume, force=args.force))
        if args.folder is not None:
            stage = stack.enter_context(folder_beside(Path(args.folder, "item"), 0o777))
        try:
            _do(args, journal, stage, console)
            return finish(args, journal, console)
        except KeyboardInterrupt:
            more = "" if path is None else "; the same command with --resume goes on"
            done = journal.states.total()
            console.log(f"interrupted: {done:,} of {count(len(items), 'item')} done{more}")
            raise


def _do(args: argparse.Namespace, journal: Journal, stage: Path | None, console: Console) -> None:
    items, lasting = journal.items, journal_of(args) is not None
    limits: Limits = {"memory": args.memory, "timeout": args.timeout}
    content: Callable[[str], str | None] = cache(content_of if lasting else str)
    if args.resume and journal.lines:
        _keep(journal, limits, content)
        journal.lines.clear()
    if journal.states:
        console.log(f"{journal.states.total():,} of {len(items):,} items are done already")
    rest = journal.rest()
    cleared(items[index] for index in (rest if args.folder is not None else ()))

    def payload(index: int) -> batch_executors.Payload:
        item = items[index]
        return {**item.payload, "stage": str(stage), "sources": item.sources if lasting else ()}

    if not rest:
        return
    work = _results(args, Lazy(payload, rest), console)
    with closing(work) as results, paced(rest, console) as step:
        for number, row in results:
            item, traces = items[rest[number]], row.pop("sources")
            row = settled(item, row, stage)
            journal.add(rest[number], row, item.key(content), limits, traces)
            step(item.file)


def _keep(journal: Journal, limits: Limits, content: Callable[[str], str | None]) -> None:
    """Keep the rows of items that are done. Several threads read the files that they have made."""
    items = journal.items

    def submit(index: int) -> Future[Row]:
        item = items[index]
        return threads.submit(still, item, journal.known(item.key(content), limits))

    with ThreadPoolExecutor(processors()) as threads:
        for index, line in batch_executors.each_done(
            len(items), submit, lambda found, _: found.result(), 256
        ):
            if line:
                journal.note(index, line["place"], line["item"])


def still(item: BatchItem, line: Row | None) -> Row:
    """Return the line of an item whose files are as it says, or else an empty one."""
    for path, trace in line["sources"].items() if line else ():
        if trace_of(path, trace).rpartition(" ")[2] != trace.rpartition(" ")[2]:
            return {}
    return line if line and complete(item, line["item"]) else {}


def _results(
    args: argparse.Namespace, payloads: Sequence[batch_executors.Payload], console: Console
) -> batch_executors.Results:
    usual = 1 if args.task == "bench" else processors()
    jobs = usual if args.jobs is None else args.jobs
    work = batch_executors.Errand(CALL, str(Path.cwd()), args.memory, args.timeout)
    if args.scheduler or args.cluster:
        from irdeconv.cli.batch_executors import Cluster

        shared = args.paths[0] if args.inputs and not args.paths[0].endswith(".onnx") else None
        cluster = Cluster(work, args.scheduler, jobs, args.retries, shared, console.log)
        return cluster.results(payloads)
    if jobs == 0:
        return batch_executors.in_process(execute, payloads)
    return batch_executors.in_processes(work, jobs, payloads)


def journal_of(args: argparse.Namespace) -> Path | None:
    """Return the journal's path: as given, in -o, or beside the first report."""
    if args.folder is not None:
        checks.require_folder(Path(args.folder))
    if args.journal is not None:
        return Path(args.journal)
    if args.folder is not None:
        return Path(args.folder, JOURNAL)
    return Path(f"{args.report[0]}.journal") if args.report else None


def planned(args: argparse.Namespace) -> Sequence[BatchItem]:
    """Return the items, in the order of the paths; UsageError for words that cannot be right."""
    files = found_files(args.paths, without=_own(args))
    _require_words(args, files[0])
    items = Lazy(lambda index: _item(args, files[index]), range(len(files)))
    read: Iterable[str] = (path for file in files for path in sources(*_read(args, file)))
    if args.inputs:
        items, read = parts(args, files)
    _require_apart(args, read)
    number, of = args.shard or (1, 1)
    begin, end = (len(items) * n // of for n in (number - 1, number))
    return Lazy(items.make, range(begin, end))


def _own(args: argparse.Namespace) -> list[str]:
    """Return the batch's outputs and the second models, which a search for models skips.

    Raises UsageError if the results would be among the models.
    """
    for path in args.paths if args.folder is not None else ():
        if os.path.isdir(path) and os.path.realpath(path) == os.path.realpath(args.folder):
            message = f"-o {args.folder}: the results would be among the models"
            raise misused(message, f"name another folder, such as {os.path.join(path, 'results')}")
    second = [args.against] if args.against and os.path.isdir(args.against) else []
    own = [args.folder, args.journal, *args.report, *second]
    return [path for path in own if path is not None]


def _require_apart(args: argparse.Namespace, read: Iterable[str]) -> None:
    """Raise UsageError if a report or the journal would replace another one, or an input."""
    journal = journal_of(args)
    outputs = [] if journal is None else [("--journal", str(journal))]
    outputs += [("--report", path) for path in args.report]
    reals = [os.path.realpath(path) for _, path in outputs]
    names = {os.path.basename(path) for path in reals}
    folder = lru_cache(maxsize=1024)(os.path.realpath)  # many files are in one folder
    taken = set()
    for path in read if outputs else ():
        onnx = folder(os.path.dirname(path)) if path.endswith(".onnx") else None
        for file in with_data([path]) if onnx and any(within(r, onnx) for r in reals) else [path]:
            if os.path.basename(file) in names or os.path.islink(file):
                taken.add(os.path.realpath(file))
    for (name, path), real in zip(outputs, reals, strict=True):
        if real in taken or (real.endswith(".xml") and not _is_report(real)):
            raise misused(f"{name} {path} would replace what is there", "name a new file")
        taken.add(real)


def _require_words(args: argparse.Namespace, file: str) -> None:
    """Let the verb's own parser look at the words, before anything is done."""
    second = [file] if args.task == "check-certificate" else []
    made = [f"{name}={path}" for name, path in _made(args.task, file, args.words)]
    options = verb_parser(args.task).parse([_word(file), *second, *args.words, *made])
    checks.check_together(RECORDS[args.task], options)
    if args.against is not None and not any(mark in args.against for mark in PLACEHOLDERS):
        _require_against(args)
    if args.task == "compare":
        from irdeconv.cli.running import refuse_idle

        options.other = args.against
        refuse_idle(options)
    for name in ("file", "files", "lowered", "other"):
        setattr(options, name, None)
    if not any(mark in word for word in args.words for mark in PLACEHOLDERS):
        checks.check_options(RECORDS[args.task], options)
        for path in (*options.extension, *filter(None, [getattr(options, "certificate", None)])):
            if not os.path.exists(path):
                raise missing(path)


def _require_against(args: argparse.Namespace) -> None:
    """Raise UsageError if --against is neither a file or folder nor a runtime."""
    runtime, file = checks.runtime_and_file(args.against)
    if runtime is None and not os.path.exists(file):
        where = "the folder of -o of batch lower, or a name such as '{folder}/{stem}_lowered.xml'"
        near = did_you_mean(file, checks.RUNTIMES) if args.task == "compare" else None
        raise misused(f'--against: there is no file or folder "{file}"', near or f"write {where}")
    checks.require_other(args.against, runtimes=args.task == "compare")


def _is_report(path: str) -> bool:
    """Whether an .xml is a report of a batch, or not there: no model may get lost for a report."""
    with suppress(OSError):
        return b"<testsuites " in first_bytes(path, 100)
    return True


def _item(args: argparse.Namespace, file: str) -> BatchItem:
    name = name_of(file)
    folder = None if args.folder is None else os.path.join(args.folder, name)
    models, words = _read(args, file)
    shared = tuple(sources((), args.words))
    own = tuple(path for path in sources(models, words) if path not in shared)
    given = [*map(_word, models), *words]
    linked = any(path.endswith(".html") for path in args.report)  # reports with links to pages
    pages = {"--report": PAGE} if args.task in ("lower", "compare") and linked else {}
    payload = {
        "verb": args.task,
        "words": [*given, *_usual(args.task, words)],
        "folder": folder,
        "made": {} if folder is None else dict(_made(args.task, file, words)) | pages,
    }
    return BatchItem(name, file, payload, own, shared, depends=[*given, *pages])


def _read(args: argparse.Namespace, file: str) -> tuple[list[str], list[str]]:
    """Return the models of an item, and the options of its verb."""
    other = [] if args.against is None else [_against(args.against, file)]
    return [file, *other], [_filled(word, file) for word in args.words]


def _word(path: str) -> str:
    """Return a path as an argument, which does not look like an option."""
    return os.path.join(".", path) if path.startswith("-") else path


def _filled(text: str, file: str) -> str:
    if "{" not in text:
        return text
    values = (file, str(Path(file).parent), Path(file).stem, name_of(file))
    for mark, value in zip(PLACEHOLDERS, values, strict=True):
        text = text.replace(mark, value)
    return text


def _against(where: str, file: str) -> str:
    """Return the second model: of a pattern, or the result of `batch lower -o` for this file."""
    if checks.runtime_and_file(where)[0] is None and os.path.isdir(where):
        return os.path.join(where, name_of(file), dict(_made("lower", file, []))["--output"])
    return _filled(where, file)


def _usual(task: str, words: list[str]) -> Iterator[str]:
    """Yield options for equal results in each run, and for sharing the processors."""
    names = {word.partition("=")[0] for word in words}
    if task in ("run", "bench") and "--threads" not in names:
        yield "--threads=1"
    if "--probe" in names and "--seed" not in names:
        yield "--seed=0"


def _made(task: str, file: str, words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the output options of the verb, and the names of its output files."""
    if task in MADE and "--no-weights" not in words:
        suffix = ".onnx" if file.endswith(".onnx") else ".xml"
        yield "--output", MADE[task].format(suffix=suffix)
    if "--certify" in words:
        yield "--certify", "certificates.json"


def complete(item: BatchItem, row: Row) -> bool:
    """Whether all files that an item has made are still there, with the same contents."""
    folder = item.payload["folder"]
    if folder is None:
        return True
    if row["result"] is not None and not row["files"]:
        return False  # done without -o
    with suppress(OSError):
        paths = (os.path.join(folder, f["name"]) for f in row["files"])
        return all(
            os.lstat(path).st_size == f["bytes"] and digest_of(path) == f["sha256"]
            for path, f in zip(paths, row["files"], strict=True)
        )
    return False


def cleared(items: Iterable[BatchItem]) -> None:
    """Remove the files of earlier runs of these items from their folders."""
    for item in items:
        folder = item.payload["folder"]
        if folder is None or not os.path.lexists(folder):
            continue
        if os.path.islink(folder) or not os.path.isdir(folder):
            raise misused(f"{folder} is in the way", "name another folder with -o")
        shutil.rmtree(folder)


def settled(item: BatchItem, row: Row, stage: Path | None) -> Row:
    """Let the folder that an item has made below `stage` take its place; return the row then."""
    made = row.pop("place", None)
    if made is None or stage is None:
        return row
    folder = item.payload["folder"]
    try:
        with failures(Path(folder)):
            cleared([item])
            os.rename(stage / made, folder)
    except IrdeconvError as e:
        return failed(e, None)
    return row


class BatchReport(Record, document="batch/1"):
    """The results of all items."""

    verb: str  # that ran on each item
    options: list[str]  # the options of the verb
    counts: dict[str, int]  # how many items have each status
    exit_code: int  # the worst of all items
    items: Annotated[Iterable[dict[str, Any]], list[BatchRow]]  # in the order of the paths


MOST_LINES = 5  # diagnostics of an item on the screen


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
    if args.folder is None and args.task in ("lower", "convert", "simplify"):
        console.log("no models are kept; -o FOLDER keeps them")
    if args.task == "compare" and args.against is None:
        console.log("each model was compared with its own lowering; --against names other models")
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
