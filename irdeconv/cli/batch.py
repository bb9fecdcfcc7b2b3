"""Do what a verb does with many models, or with many inputs of one model, on several workers.

PATH is a model, a folder (all .xml, .onnx and .ird below it) or a pattern. Each item is done in a
process of a pool: one that fails, crashes, takes too long or too much memory gets its line in the
report, and the others go on. --jobs 0 does all in this process. With --scheduler or --cluster, Dask
spreads the items over machines (extra "distributed").

-o keeps what each item makes in a folder of its own: the verb's JSON document, models,
certificates, arrays. Results stand in the order of PATH, and the report has the same bytes whoever
did the work. --resume goes on after an interruption: what has been done, with the same files and
options, is not done again.

--inputs runs one model on many files, or on parts of large ones (--rows). `batch join DIR... -o
FILE` puts their outputs together. --shard K/N does only a part of the items, as one of N machines.

In --against and in the options of the verb, {file}, {folder}, {stem} and {item} stand for the
model, its folder, its name without suffix, and the item's folder below -o.

Exit code: the worst of the items', in this order: 70 (also crashes), 2, 6, 3, 4, 5 (also time), 1,
7, 0.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.cli.batch_options import JOIN, TASKS, add_passed, refuse_idle, shard
from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser, add_format, limits_around, real, size, whole

if TYPE_CHECKING:
    from irdeconv.cli.batch_executors import ItemExecutor
    from irdeconv.cli.batch_items import BatchItem, Journal, Limits, Row

MOST_JOBS = 4096
CALL = "irdeconv.cli.batch_answer:execute"


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("task", metavar="VERB", choices=TASKS, help=", ".join(TASKS))
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="models, folders, patterns; of join: the folders of -o of a batch run --inputs",
    )
    parser.add_argument(
        "--inputs",
        metavar="PATH",
        action="append",
        default=[],
        help="with run and one model: .npy, .npz or .zarr files, folders, patterns; each is an "
        "item, and its arrays are the inputs, by name or in order; may be repeated; with join: "
        "only the outputs of these, in this order",
    )
    parser.add_argument(
        "--rows",
        type=whole(1),
        metavar="N",
        help="with --inputs: cut each file along the first axis into items of N rows",
    )
    parser.add_argument(
        "--against",
        metavar="WHERE",
        help="what compare and check-certificate hold each model against: a file name such as "
        "'{folder}/{stem}_lowered.xml', the folder of -o of a batch lower, or openvino",
    )
    _add_work(parser)
    _add_places(parser)
    parser.add_argument("--all", action="store_true", help="list items that are well, too")
    add_format(parser)
    add_passed(parser)


def _add_work(parser: OptionParser) -> None:
    """Add who does the items, and what they may take."""
    parser.add_argument(
        "--jobs",
        type=whole(0, MOST_JOBS),
        metavar="N",
        help="processes (default: as many as processors); 0: all in this process, without limits",
    )
    parser.add_argument(
        "--shard",
        type=shard,
        metavar="K/N",
        help="of all items, do only the K-th of N parts of equal size: 1/4, 2/4, 3/4, 4/4",
    )
    parser.add_argument(
        "--timeout", type=real(0.001), metavar="SECONDS", help="the time that an item may take"
    )
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="the address space that an item may take beyond that of an idle process: 512M, 2G "
        "(Linux)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="a scheduler of Dask, such as tcp://host:8786"
    )
    parser.add_argument(
        "--cluster", choices=("local",), help="start a scheduler of Dask and --jobs workers here"
    )
    parser.add_argument(
        "--retries",
        type=whole(0, 1000),
        metavar="N",
        default=10,
        help="how often an item is given to another worker of Dask when its worker dies or falls "
        "silent, before it counts as crashed (default: %(default)s)",
    )


def _add_places(parser: OptionParser) -> None:
    """Add what is written, and what becomes of what is there."""
    parser.add_argument(
        "-o",
        "--output",
        dest="folder",
        metavar="DIR",
        help="a folder for what the items make; of join: the .npz or .npy",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="write the report here: .json, .junit (or .xml), .sarif, .html; may be repeated",
    )
    parser.add_argument("--resume", action="store_true", help="go on with what the journal has")
    parser.add_argument("--force", action="store_true", help="begin anew, whatever is there")
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="keep what is done here (default: batch.journal in DIR, or beside the report)",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Do all items and report."""
    from irdeconv.base.errors import count
    from irdeconv.cli.batch_items import held, opened
    from irdeconv.cli.batch_plan import journal_of, planned
    from irdeconv.cli.batch_report import finish, require_formats
    from irdeconv.formats.atomic import failures, folder_beside, require_writable

    refuse_idle(args)
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
    from irdeconv.cli.batch_items import Digests
    from irdeconv.cli.batch_plan import cleared, complete, settled
    from irdeconv.cli.batch_report import Pace

    limits: Limits = {"memory": args.memory, "timeout": args.timeout}
    keys: list[str] = []
    if journal is not None:
        digests = Digests()
        keys = [item.key(digests) for item in items]
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
    work = _executor(args, console).results(payloads)
    with closing(work) as results, Pace(rest, console) as pace:
        for place, row in results:
            index = rest[place]
            rows[index] = row = settled(items[index], row, stage)
            if journal is not None:
                journal.add(keys[index], row, limits)
            pace.step(items[index].file)


def _executor(args: argparse.Namespace, console: Console) -> ItemExecutor:
    from irdeconv.cli.batch_executors import Errand, InProcess, Processes
    from irdeconv.kernels.threads import processors

    jobs = processors() if args.jobs is None else args.jobs
    work = Errand(CALL, str(Path.cwd()), args.memory, args.timeout)
    if args.scheduler or args.cluster:
        from irdeconv.cli.dask_cluster import Cluster

        shared = args.paths[0] if args.inputs and not args.paths[0].endswith(".onnx") else None
        return Cluster(work, args.scheduler, jobs, args.retries, shared, console.log)
    if jobs == 0:
        from irdeconv.cli.batch_answer import execute

        return InProcess(execute)
    return Processes(work, jobs)
