"""Executors of batch items: this process, or a pool of processes.

`dask_cluster.py` has a third one. Parent and child exchange lines of JSON over two pipes: nothing
is pickled, and a crash of a child spoils no data of others. Workers of Dask are daemons and cannot
start a `multiprocessing.Process`, but they can start these children. A child ends when its pipe is
closed, and ends all processes that it has started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from queue import SimpleQueue
from threading import Event, Lock, Timer
from typing import Any

from irdeconv.base.errors import misused
from irdeconv.cli.batch_items import TIMED_OUT, Row, crashed, is_row, stopped, traced

BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from irdeconv.cli.child_main import main; main()"
)
MOST_ANSWER = 1 << 26  # bytes; rows are cut long before
ENDING_TIME = 2.0  # seconds that a process has to end once its pipe is closed


@dataclass(frozen=True)
class Errand:
    """The work of a process.

    `call` names the function ("module:function") that takes payloads; `memory` bytes and `timeout`
    seconds limit each item, relative paths begin in `folder`.
    """

    call: str
    folder: str
    memory: int | None = None
    timeout: float | None = None


class Child:
    """A process for items; it is started when the first one comes, and again after each death."""

    def __init__(self, work: Errand) -> None:
        self.work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._closed = False

    def run(self, payload: dict[str, Any]) -> Row:
        """Return the row of an item; UsageError if no process can be started."""
        process = self._process or self._started()
        with _deadline(process, self.work.timeout) as late:
            answer = _asked(process, payload)
        if answer is None or not is_row(answer):
            code = self._drop()
            if not late.is_set():
                return crashed(code)
            return stopped(TIMED_OUT, "E610", f"not finished after {self.work.timeout:g} s")
        if answer.pop("last", False) or late.is_set():  # it died, or its memory is in no good state
            self._drop(ENDING_TIME if late.is_set() else 0)
        return answer

    def close(self) -> None:
        """End the process, also while it works."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            _kill(process)
            self._drop()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise InterruptedError("the batch is over")
            process = self._process = subprocess.Popen(  # noqa: S603 - this Python, fixed words
                [sys.executable, "-P", "-c", BEGIN, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that the user has started
            )
        if _asked(process, asdict(self.work)) is None:
            code = self._drop()
            doctor = "irdeconv doctor may show the reason"
            hint = "allow more with --memory" if self.work.memory else doctor
            raise misused(f"a process for items does not start (exit code {code})", hint)
        return process

    def _drop(self, grace: float = ENDING_TIME) -> int | None:
        """Forget the process, which is dead or has nothing to do; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        _kill(process)  # it lives on with its pipes closed, or has left processes of its own
        return process.wait()


@contextmanager
def _deadline(process: subprocess.Popen[bytes], seconds: float | None) -> Iterator[Event]:
    """Kill a process after some seconds unless the block ends first; the event is set then."""
    late = Event()
    if seconds is None:
        yield late
        return

    def stop() -> None:
        late.set()
        _kill(process)

    timer = Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()  # it may be about to kill


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process, and on POSIX all that it has started and that has not left its group."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _asked(process: subprocess.Popen[bytes], content: dict[str, Any]) -> dict[str, Any] | None:
    """Send a line and wait for the answer; None if the process dies or answers nonsense."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(content).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline(MOST_ANSWER)
        answer = json.loads(line) if line.endswith(b"\n") else None
    except (OSError, ValueError, RecursionError):  # the pipe is broken, or closed by `close`
        return None
    return answer if isinstance(answer, dict) else None


Payload = dict[str, Any]
Results = Generator[tuple[int, Row], None, None]  # ends at any time by `close`


def in_process(call: Callable[[Payload], Row], payloads: Sequence[Payload]) -> Results:
    """Do one item after the other in this process, without limits."""
    for index, payload in enumerate(payloads):
        row = traced(call, payload, "")
        row.pop("last", None)
        yield index, row


def in_processes(work: Errand, jobs: int, payloads: Sequence[Payload]) -> Results:
    """Do items in `jobs` processes, each fed by a thread of this one.

    Yield the number of each payload, and its row, as soon as it is done.
    """
    children = [Child(work) for _ in range(min(jobs, len(payloads)))]
    idle: SimpleQueue[Child] = SimpleQueue()
    for child in children:
        idle.put(child)

    def run(payload: Payload) -> Row:
        child = idle.get()
        try:
            return traced(child.run, payload, work.folder)
        finally:
            idle.put(child)

    threads = ThreadPoolExecutor(len(children) or 1)
    try:
        yield from each_done(
            len(payloads),
            lambda index: threads.submit(run, payloads[index]),
            lambda future, attempt: future.result(),
            2 * len(children),
        )
    finally:  # also after Ctrl-C, or if the caller stops early
        threads.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.close()
        threads.shutdown(wait=True)


def each_done(
    total: int, submit: Callable[[int], Any], answer: Callable[[Any, int], Row | None], ahead: int
) -> Results:
    """Submit items by number, `ahead` of the finished ones, and yield each row as it comes.

    `submit` returns a future, of Python or of Dask; `answer` its row, or None to submit it again.
    """
    done: SimpleQueue[tuple[int, int, Any]] = SimpleQueue()

    def begin(index: int, attempt: int = 0) -> None:
        submit(index).add_done_callback(lambda future: done.put((index, attempt, future)))

    rest = iter(range(total))
    for index in islice(rest, ahead):
        begin(index)
    for _ in range(total):
        index, attempt, future = done.get()
        while (row := answer(future, attempt)) is None:
            begin(index, attempt + 1)
            index, attempt, future = done.get()
        yield index, row
        for following in islice(rest, 1):
            begin(following)
