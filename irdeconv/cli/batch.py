"""`batch`: do the same with many models, or with many inputs of one, on several workers."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

from irdeconv.base.errors import count, misused
from irdeconv.cli.batch_executors import Errand, Payload, Results, in_process, in_processes
from irdeconv.cli.batch_items import BatchItem, Journal, Limits, Row, content_of, held, opened
from irdeconv.cli.batch_plan import cleared, complete, journal_of, planned, settled
from irdeconv.cli.batch_report import finish, paced, require_formats
from irdeconv.cli.console import Console
from irdeconv.cli.options import limits_around
from irdeconv.cli.records_tools import JOIN, PASSED
from irdeconv.formats.atomic import failures, folder_beside, require_writable
from irdeconv.kernels.threads import processors

CALL = "irdeconv.cli.batch_answer:execute"


def require_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for options that the verb of the items does not have, or that it lacks."""
    task, names = args.task, [word.partition("=")[0] for word in args.words]
    for name in names:
        if name not in PASSED.get(task, "").split():
            verbs = [t for t in PASSED if name in PASSED[t].split()]
            raise misused(f'{task} has no option "{name}"', f"it is one of {', '.join(verbs)}")
        if name in ("--certify", "--dump") and not args.folder:
            raise misused(f"{name} needs -o DIR, where the files go", "name a folder")
    if task == "check-certificate" and not args.against:
        hint = "name the folder that batch lower -o has written"
        raise misused("check-certificate needs --against", hint)
    if args.memory and not sys.platform.startswith("linux"):
        raise misused("--memory needs Linux", "leave it out")


def run(args: argparse.Namespace, console: Console) -> int:
    """Do all items and report."""
    require_arguments(args)
    if args.task == JOIN:
        from irdeconv.cli.batch_join import join

        return join(args, console)
    args.words[:0] = [f"--limit={name}={value}" for name, value in limits_around()]
    require_formats(args.report)
    path = journal_of(args)
    items = planned(args)
    for folder in [Path(args.folder)] if args.folder else []:
        with failures(folder):
            folder.mkdir(parents=True, exist_ok=True)  # a report may go there, too
    for report in args.report:
        require_writable(Path(report))
    with ExitStack() as stack:
        journal = stage = None
        if args.folder is not None:
            stack.enter_context(held(Path(args.folder)))
        if path is not None:
            journal = stack.enter_context(opened(path, resume=args.resume, force=args.force))
        if args.folder is not None:
            stage = stack.enter_context(folder_beside(Path(args.folder, "item"), 0o777))
        rows: dict[int, Row] = {}
        try:
            _do(args, items, journal, stage, rows, console)
            return finish(args, items, [rows[index] for index in range(len(items))], console)
        except KeyboardInterrupt:
            more = "" if journal is None else "; the same command with --resume goes on"
            console.log(f"interrupted: {len(rows):,} of {count(len(items), 'item')} done{more}")
            raise


def _do(
    args: argparse.Namespace,
    items: list[BatchItem],
    journal: Journal | None,
    stage: Path | None,
    rows: dict[int, Row],
    console: Console,
) -> None:
    """Fill in what became of all items, by their places."""
    limits: Limits = {"memory": args.memory, "timeout": args.timeout}
    keys: list[str] = []
    if journal is not None:
        content = cache(content_of)  # items share files
        keys = [item.key(content) for item in items]
        for index, (item, key) in enumerate(zip(items, keys, strict=True)):
            row = journal.known(key, limits)
            if row is not None and complete(item, row):
                rows[index] = row
    rest = [index for index in range(len(items)) if index not in rows]
    if rows:
        console.log(f"{len(rows):,} of {len(items):,} items are done already")
    cleared(items[index] for index in rest)
    payloads = [{**items[index].payload, "stage": str(stage)} for index in rest]
    if not rest:
        return
    with closing(_results(args, payloads, console)) as results, paced(rest, console) as step:
        for place, row in results:
            index = rest[place]
            rows[index] = row = settled(items[index], row, stage)
            if journal is not None:
                journal.add(keys[index], row, limits)
            step(items[index].file)


def _results(args: argparse.Namespace, payloads: list[Payload], console: Console) -> Results:
    jobs = processors() if args.jobs is None else args.jobs
    work = Errand(CALL, str(Path.cwd()), args.memory, args.timeout)
    if args.scheduler or args.cluster:
        from irdeconv.cli.dask_cluster import Cluster

        shared = args.paths[0] if args.inputs and not args.paths[0].endswith(".onnx") else None
        cluster = Cluster(work, args.scheduler, jobs, args.retries, shared, console.log)
        return cluster.results(payloads)
    if jobs == 0:
        from irdeconv.cli.batch_answer import execute

        return in_process(execute, payloads)
    return in_processes(work, jobs, payloads)
