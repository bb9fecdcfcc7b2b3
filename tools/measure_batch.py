"""Measure what a batch costs beside its items, and how items that compute scale with workers.

    python tools/measure_batch.py [--items N] [--seconds S] [--workers 1,2,4]

Prints, for each way to do items and each number of workers: processor time of the command (and of
Dask's scheduler, which is in it) per item that does nothing, and the time that items of S seconds
take together, beside the time that they would take if nothing were lost. Then what passes through a
scheduler, and what a line in the journal costs. Processor time does not depend on what else the
machine does; the time on the clock does.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import checkout  # noqa: F401

from irdeconv.batches.child import Errand
from irdeconv.batches.dask_cluster import Cluster
from irdeconv.batches.executors import InProcess, ItemExecutor, Processes
from irdeconv.batches.journal import opened
from irdeconv.inspection.table import table
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


def own_time() -> float:
    """Return the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def nothing(make: Callable[[], ItemExecutor], items: int, workers: int) -> float:
    """Return the processor time of the command per item; the start is not counted."""
    with closing(make().results([{"how": "well"}] * (items + workers))) as results:
        for _ in range(workers):
            next(results)
        start = own_time()
        for _ in results:
            pass
        return (own_time() - start) / items


def burning(make: Callable[[], ItemExecutor], seconds: float, workers: int) -> tuple[float, float]:
    """Return seconds on the clock from the first items on, and what they took of processors."""
    payloads = [{"how": "well"}] * workers + [{"how": "burn", "seconds": seconds}] * BURNING
    spent = 0.0
    with closing(make().results(payloads)) as results:
        next(results)
        start = time.perf_counter()
        for _, row in results:
            spent += float(row["summary"]) if row["summary"] != "well" else 0.0
        return time.perf_counter() - start, spent


def bytes_of_an_item() -> int:
    row = batch_calls.row("0 errors, 0 warnings")
    payload = {"verb": "run", "words": ["x" * 60], "folder": "x" * 80, "stage": "x" * 60}
    return len(pickle.dumps([payload, row]))


def journal_lines() -> tuple[float, float]:
    """Return the processor time of a line that is written, and of one that is read again."""
    row = batch_calls.row("0 errors, 0 warnings")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        with opened(path, resume=False, force=False) as journal:
            start = own_time()
            for index in range(LINES):
                journal.add(f"{index:064}", row, LIMITS)
            written = own_time() - start
        start = own_time()
        with opened(path, resume=True, force=False):
            return written / LINES, (own_time() - start) / LINES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000, help="that do nothing")
    parser.add_argument("--seconds", type=float, default=0.5, help="of an item that computes")
    parser.add_argument("--workers", default="1,2,4")
    a = parser.parse_args()
    cores, rows = os.cpu_count() or 1, []
    for name, workers, make in ways([int(n) for n in a.workers.split(",")]):
        per_item = 1000 * nothing(make, a.items, workers)
        took, spent = burning(make, a.seconds, workers)
        least = spent / min(workers, cores)
        numbers = (f"{per_item:.2f}", f"{spent:.1f}", f"{least:.1f}", f"{took:.1f}")
        rows.append([name, str(workers), *numbers, f"{least / took:.0%}"])
        print(*rows[-1], flush=True)
    head = ("who", "workers", "ms per item", "computing s", "at least s", "took s", "used")
    print(table(head, rows, head[1:]))
    written, read = journal_lines()
    print(f"{cores} processors; {BURNING} items of {a.seconds:g} s compute")
    print(f"through the scheduler: {bytes_of_an_item()} bytes an item")
    print(f"a line of the journal: {1e6 * written:.0f} us, read again {1e6 * read:.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
