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
from importlib import import_module
from itertools import islice
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from typing import Any, BinaryIO

from irdeconv.base.errors import misused
from irdeconv.cli.batch_items import TIMED_OUT, Row, crashed, is_row, stopped, traced

BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from irdeconv.cli.batch_executors import child; child()"
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


_FORKED: list[bool] = []  # not empty in a copy of the process


def child() -> None:
    """Do items in a process of a pool until the pipe is closed."""
    questions, answers = _pipes()
    _keep_from_forks(questions, answers)
    work = json.loads(questions.readline())
    os.chdir(work["folder"])
    module, _, name = work["call"].partition(":")
    call: Callable[[Any], Any] = getattr(import_module(module), name)
    _limit(work["memory"])
    lines: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read, args=(questions, lines), daemon=True).start()
    _say(answers, {})
    while True:
        _say(answers, call(json.loads(lines.get())))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes; other reads of stdin get nothing, other output is dropped."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    return questions, answers


def _keep_from_forks(*pipes: BinaryIO) -> None:
    """Take the pipes from a copy of this process that an item forks: it must not answer, too."""

    def take() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in pipes:
            os.dup2(null, pipe.fileno(), inheritable=False)
        _FORKED.append(True)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=take)


def _read(questions: BinaryIO, lines: SimpleQueue[bytes]) -> None:
    """Pass lines on; at the end of the pipe the parent is gone, and this process ends."""
    with suppress(OSError):
        for line in questions:
            lines.put(line)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that it has started
    os._exit(0)


def _say(answers: BinaryIO, content: Any) -> None:
    if _FORKED:
        os._exit(0)
    answers.write(json.dumps(content).encode() + b"\n")
    answers.flush()


def _limit(memory: int | None) -> None:
    """Limit the address space to the present one and `memory` bytes."""
    if memory is None:
        return
    import resource  # without it a batch refuses --memory

    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = taken + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
