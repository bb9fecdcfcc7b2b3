"""Who does the items: this process, or a pool of processes; `dask_cluster.py` has a third."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any, Protocol

from irdeconv.batches.child import Child, Errand
from irdeconv.batches.rows import Row

Payload = dict[str, Any]
Results = Generator[tuple[int, Row], None, None]  # ends at any time by `close`


class ItemExecutor(Protocol):
    """Does items, in any order."""

    def results(self, payloads: Sequence[Payload]) -> Results:
        """Yield the number of each payload, and what became of it, as soon as it is done."""


class InProcess:
    """Does one item after the other in this process, without limits."""

    def __init__(self, call: Callable[[Payload], Row]) -> None:
        self._call = call

    def results(self, payloads: Sequence[Payload]) -> Results:
        """Yield the number of each payload, and what became of it."""
        for index, payload in enumerate(payloads):
            row = self._call(payload)
            row.pop("last", None)
            yield index, row


class Processes:
    """Does items in `jobs` processes, each fed by a thread of this one."""

    def __init__(self, work: Errand, jobs: int) -> None:
        self._work = work
        self._jobs = jobs

    def results(self, payloads: Sequence[Payload]) -> Results:
        """Yield the number of each payload, and what became of it, as soon as it is done."""
        children = [Child(self._work) for _ in range(min(self._jobs, len(payloads)))]
        idle: SimpleQueue[Child] = SimpleQueue()
        for child in children:
            idle.put(child)

        def run(payload: Payload) -> Row:
            child = idle.get()
            try:
                return child.run(payload)
            finally:
                idle.put(child)

        threads = ThreadPoolExecutor(len(children) or 1)
        try:
            yield from _as_done(payloads, lambda p: threads.submit(run, p), 2 * len(children))
        finally:  # also after Ctrl-C, or when nobody asks for the rest
            threads.shutdown(wait=False, cancel_futures=True)
            for child in children:
                child.close()
            threads.shutdown(wait=True)


def _as_done(
    payloads: Sequence[Payload], submit: Callable[[Payload], Future[Row]], ahead: int
) -> Results:
    """Submit payloads, `ahead` of what is done, and yield what is."""
    waiting: dict[Future[Row], int] = {}
    rest = iter(enumerate(payloads))
    while True:
        for index, payload in rest:
            waiting[submit(payload)] = index
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            yield waiting.pop(future), future.result()
