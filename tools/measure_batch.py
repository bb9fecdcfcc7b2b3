"""Measure what a batch costs beside its items, and how items that compute scale with workers.

    python tools/measure_batch.py [--items N] [--seconds S] [--workers 1,2,4]

All of it is processor time, which does not depend on what else the machine does. For each way to do
items and each number of workers: what an item that does nothing takes of the command (of Dask's
scheduler, too, which is in it) and of the processes below it; and of items that compute for S
seconds, the part of all processor time that is theirs. Then what passes through a scheduler, and
what a line in the journal costs. The time on the clock stands beside it: on a busy machine it tells
nothing.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import checkout  # noqa: F401
import psutil

from irdeconv.base.tables import table
from irdeconv.cli.batch_executors import Errand, InProcess, ItemExecutor, Processes
from irdeconv.cli.batch_items import opened
from irdeconv.cli.dask_cluster import Cluster
from support import batch_calls

BURNING = 24  # items that compute
LINES = 20_000  # of a journal
LIMITS: dict[str, float | int | None] = {"memory": None, "timeout": None}


def ways(workers: list[int]) -> list[tuple[str, int, Callable[[], ItemExecutor]]]:
    errand = Errand("support.batch_calls:call", os.getcwd())
    pools = [(n, lambda n=n: Processes(errand, n)) for n in workers]
    clusters = [(n, lambda n=n: Cluster(errand, None, n, 3, None)) for n in workers]
    return [
        ("in process", 1, lambda: InProcess(batch_calls.call)),
        *(("processes", n, make) for n, make in pools),
        *(("Dask", n, make) for n, make in clusters),
    ]


def used() -> tuple[float, float]:
    """Return the processor time of this process, and of all that are below it."""
    me = psutil.Process()
    below = 0.0
    for process in me.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below += sum(process.cpu_times()[:2])
    return time.process_time(), below


def measured(
    make: Callable[[], ItemExecutor],
    payload: dict[str, object],
    items: int,
    workers: int,
) -> tuple[float, float, float, float]:
    """Return processor time of the command, below it and of the items, and the clock's.

    What the first items take is not counted: workers start.
    """
    computing = 0.0
    with closing(
        make().results([{"how": "burn", "seconds": 0}] * 4 * workers + [payload] * items)
    ) as results:
        for _ in range(4 * workers):
            next(results)
        start, before = time.perf_counter(), used()
        for _ in range(items):  # not to their end, for there the processes are gone
            computing += float(next(results)[1]["summary"])
        after = used()
    return (
        after[0] - before[0],
        after[1] - before[1],
        computing,
        time.perf_counter() - start,
    )


def bytes_of_an_item() -> int:
    row = batch_calls.row("0 errors, 0 warnings")
    payload = {
        "verb": "run",
        "words": ["x" * 60],
        "folder": "x" * 80,
        "stage": "x" * 60,
    }
    return len(pickle.dumps([payload, row]))


def journal_lines() -> tuple[float, float]:
    """Return the processor time of a line that is written, and of one that is read again."""
    row = batch_calls.row("0 errors, 0 warnings")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        with opened(path, resume=False, force=False) as journal:
            start = time.process_time()
            for index in range(LINES):
                journal.add(f"{index:064}", row, LIMITS)
            written = time.process_time() - start
        start = time.process_time()
        with opened(path, resume=True, force=False):
            return written / LINES, (time.process_time() - start) / LINES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000, help="that do nothing")
    parser.add_argument("--seconds", type=float, default=0.5, help="of an item that computes")
    parser.add_argument("--workers", default="1,2,4")
    a = parser.parse_args()
    rows = []
    for name, workers, make in ways([int(n) for n in a.workers.split(",")]):
        own, below, _, _ = measured(make, {"how": "burn", "seconds": 0}, a.items, workers)
        each = [f"{1000 * spent / a.items:.2f}" for spent in (own, below)]
        payload: dict[str, object] = {"how": "burn", "seconds": a.seconds}
        own, below, computing, clock = measured(make, payload, BURNING, workers)
        share = f"{computing / (own + below):.1%}"
        rows.append([name, str(workers), *each, f"{computing:.1f}", share, f"{clock:.1f}"])
        print(*rows[-1], flush=True)
    head = (
        "who",
        "workers",
        "ms an item",
        "ms below",
        "computing s",
        "its share",
        "clock s",
    )
    print(table(head, rows, head[1:]))
    written, read = journal_lines()
    print(f"{os.cpu_count()} processors; {BURNING} items of {a.seconds:g} s compute")
    print(f"through the scheduler: {bytes_of_an_item()} bytes an item")
    print(f"a line of the journal: {1e6 * written:.0f} us, read again {1e6 * read:.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
