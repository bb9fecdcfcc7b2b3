"""Executors of batch items: this process, a pool of processes, a cluster of Dask.

Parent and child exchange lines of JSON over two pipes: nothing is pickled, and a crash of a child
spoils no data of others. Workers of Dask do each item in such a process, too: they are daemons and
cannot start a `multiprocessing.Process`. A child ends when its pipe is closed, and ends all
processes that it has started.

Dask pickles all data between this process, the scheduler and the workers, so the scheduler has
to be trusted. Only the words of items and their rows pass through it, and once for each worker the
files that all items share. A task whose worker dies is given to another one; it may have been done
already, and gives the same result again.

The scheduler waits for minutes before it gives up a worker, and queries all of them together: a
mute one delays the answers of the others. Here each one is queried by itself, for a bounded time,
and the items of a mute one go to others meanwhile. Its late results are dropped.

Workers send rows as events. The results of Dask's tasks are not used: they stay on the workers, and
to collect them waits for all workers that have some.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from typing import Any, BinaryIO

from irdeconv import __version__
from irdeconv.base.errors import count, misused
from irdeconv.base.extras import needed
from irdeconv.base.progress import repeating
from irdeconv.cli.batch_items import CRASHED, TIMED_OUT, Row, crashed, is_row, stopped, traced

BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from irdeconv.cli.batch_executors import child; child()"
)
MOST_ANSWER = 1 << 26  # bytes; rows are cut long before
STARTS = 3  # of a process that is killed before it can take an item
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
        code: int | None = None
        for _ in range(STARTS):
            process = self._begun()
            if _asked(process, asdict(self.work)) is not None:
                return process
            code = self._drop()
            if code is None or code >= 0:  # it has ended by itself, and would do so again
                break
        doctor = "irdeconv doctor may show the reason"
        hint = "allow more with --memory" if self.work.memory else doctor
        raise misused(f"a process for items does not start (exit code {code})", hint)

    def _begun(self) -> subprocess.Popen[bytes]:
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


ANSWER_TIME = 30.0  # seconds in which a scheduler has to answer
ASKED_TIME = 10.0  # seconds in which a worker has to answer a question, which takes it no time
ASKED_AT_ONCE = 50  # workers; each takes a connection
LOOK_EVERY = 2.0  # seconds between two looks at the signs of life
MUTE_LOOKS = 5  # looks without one; a number, as time also goes by while all this is stopped
Say = Callable[[str], None]


def versions(client: Any) -> dict[str, Any]:
    """Return the irdeconv of each worker, or the error of its import; None for no answer."""
    import asyncio  # children do without it

    turns = asyncio.Semaphore(ASKED_AT_ONCE)
    name = "irdeconv:__version__"

    async def one(worker: str) -> Any:
        async with turns:
            call = client.run(pkgutil.resolve_name, name, workers=[worker], on_error="return")
            try:
                answer = (await asyncio.wait_for(call, ASKED_TIME))[worker]
            except (OSError, KeyError):  # also TimeoutError; it may be gone
                return None
            return None if isinstance(answer, OSError) else answer

    async def each() -> dict[str, Any]:
        workers = [*(await client.scheduler.identity())["workers"]]
        return dict(zip(workers, await asyncio.gather(*map(one, workers)), strict=True))

    found: dict[str, Any] = client.sync(each)
    return found


@dataclass
class Watch:
    """Knows which workers are mute; `end` may end one, so that another takes its place."""

    client: Any
    say: Say
    end: Say
    _mute: set[str] = field(default_factory=set)
    _signs: dict[str, tuple[float, int]] = field(default_factory=dict)  # the last, looks since it
    _scheduler_mute: bool = False

    def others(self) -> dict[str, Any]:
        """Return arguments by which Dask prefers workers that are not mute, if some are mute."""
        live = [worker for worker in self._signs if worker not in self._mute]
        return {"workers": live, "allow_other_workers": True} if live and self._mute else {}

    def look(self) -> None:
        """Poll the workers."""
        identity = self.client.scheduler.identity
        try:
            found = self.client.sync(identity, callback_timeout=ANSWER_TIME)["workers"]
        except TimeoutError:
            if not self._scheduler_mute:
                self._scheduler_mute = True
                self.say(f"the scheduler of Dask has not answered for {ANSWER_TIME:g} s")
            return
        self._scheduler_mute = False
        self._mute &= found.keys()
        self._signs = {worker: self._sign(worker, facts) for worker, facts in found.items()}
        most = MUTE_LOOKS + len(found) // 40  # with many workers each gives signs less often
        for worker, (_, looks) in self._signs.items():
            if looks == 0 and worker in self._mute:
                self._mute.remove(worker)
                self.say(f"the worker {worker} of Dask answers again")
            elif looks >= most and worker not in self._mute:
                self.loses(worker)

    def _sign(self, worker: str, facts: Mapping[str, Any]) -> tuple[float, int]:
        last, looks = self._signs.get(worker, (facts["last_seen"], 0))
        return facts["last_seen"], looks + 1 if last == facts["last_seen"] else 0

    def loses(self, worker: str) -> None:
        """Take a worker for mute."""
        self._mute.add(worker)
        self.say(f"the worker {worker} of Dask does not answer; its items go to others")
        self.end(worker)

    def stuck(self) -> set[str]:
        """Return the tasks of mute workers, if other workers could do them."""
        if not self.others():
            return set()
        given: Mapping[str, list[str]] = self.client.processing()
        return {key for worker in self._mute for key in given.get(worker, ())}

    def step(self, take_back: Callable[[set[str]], None]) -> None:
        """Look, and pass on the tasks that are stuck."""
        with suppress(Exception):  # the scheduler is gone, which the batch itself sees
            self.look()
            take_back(self.stuck())


AHEAD = 4  # tasks per thread of the workers that the scheduler knows of
LEAST_AHEAD = 64
WHOLE_EVERY = 2.0  # seconds between two looks at whether the workers are all there
WORKER_TIME = 60.0  # seconds in which the first worker has to come
SHIPPED = 10e6  # bytes a second that a model takes at most to all workers
HINT = "install the same on all machines"
_local = threading.local()


@dataclass
class Cluster:
    """Does items on the workers of the scheduler at `address`; without one, on `jobs` of its own.

    `shared` is a model whose files the workers get, instead of reading them. `say` gets messages
    about workers for the user.
    """

    work: Errand
    address: str | None
    jobs: int
    retries: int
    shared: str | None
    say: Say = lambda text: None
    _own: Any = None

    def __post_init__(self) -> None:
        self._distributed = needed("a batch on Dask", "distributed", "Client")

    def results(self, payloads: Sequence[Payload]) -> Results:
        """Yield the number of each payload, and its row, as soon as it is done."""
        with ExitStack() as stack:
            client = stack.enter_context(self._client(stack))
            try:
                client.wait_for_workers(1, timeout=WORKER_TIME)
            except TimeoutError:
                message = f"no worker has come to the scheduler of Dask in {WORKER_TIME:g} s"
                hint = f"dask worker {client.scheduler.address} starts one"
                raise misused(message, hint) from None
            mute = _require_version(client, alone=self._own is None)
            watch = Watch(client, self.say, self._end)
            for worker in mute:
                watch.loses(worker)
            watch.look()
            yield from self._each_done(client, payloads, self._ship(client), watch)

    def _client(self, stack: ExitStack) -> Any:
        import dask

        for name in ("distributed", "distributed.client"):  # Dask gives both a level
            log = logging.getLogger(name)
            stack.callback(log.setLevel, log.level)
            log.setLevel(logging.CRITICAL)  # deaths of workers are expected, and dealt with
        settings = {
            "distributed.scheduler.allowed-failures": self.retries,
            "distributed.scheduler.worker-ttl": None,  # of a cluster here; `Watch` sees to it
        }
        stack.enter_context(dask.config.set(settings))
        address: Any = self.address
        if address is None:
            address = self._own = stack.enter_context(self._local_cluster())
            stack.enter_context(kept_whole(address, self.jobs))
        made: Future[Any] = Future()

        def connect() -> None:
            try:
                made.set_result(self._distributed.Client(address, timeout=ANSWER_TIME))
            except Exception as e:
                made.set_exception(e)

        # In a thread, because Client waits for ever for a mute address that accepts connections.
        threading.Thread(target=connect, daemon=True).start()
        try:
            return made.result(2 * ANSWER_TIME)
        except (OSError, ValueError) as e:  # also TimeoutError
            reason = str(e) or "what is there does not talk as a scheduler does"
            message = f"no scheduler of Dask answers at {self.address}: {reason}"
            raise misused(message, "dask scheduler starts one; --cluster local needs none") from e

    def _local_cluster(self) -> Any:
        """Start a scheduler and workers here that only this machine reaches."""
        return self._distributed.LocalCluster(
            n_workers=self.jobs,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )

    def _ship(self, client: Any) -> tuple[str, int] | None:
        """Send the files that all items share to each worker, also to those that come later.

        Return the name and the size of the model there.
        """
        model = Path(self.shared or "")
        if not model.is_file():
            return None
        paths = [p for p in (model.with_suffix(".bin"), model) if p.is_file()]  # the model last
        plugins = [self._distributed.diagnostics.plugin.UploadFile(p, load=False) for p in paths]
        digest = hashlib.sha256(b"".join(p.data for p in plugins)).hexdigest()
        for path, plugin in zip(paths, plugins, strict=True):
            plugin.filename = f"irdeconv-{digest}{path.suffix}"
            plugin.idempotent = True  # a child may have mapped the file of an earlier batch

        async def register() -> None:
            for plugin in plugins:
                await client.register_plugin(plugin, plugin.filename)

        # A worker without them reads the files until they arrive.
        seconds = ASKED_TIME + sum(len(p.data) for p in plugins) / SHIPPED
        with suppress(TimeoutError):
            client.sync(register, callback_timeout=seconds)
        return plugins[-1].filename, len(plugins[-1].data)

    def _end(self, worker: str) -> None:
        """End a worker of an own cluster, which starts another one."""
        for nanny in [] if self._own is None else self._own.workers.values():
            if nanny.worker_address == worker:
                with suppress(OSError):
                    os.kill(nanny.pid, signal.SIGKILL)

    def _each_done(
        self, client: Any, payloads: Sequence[Payload], shared: tuple[str, int] | None, watch: Watch
    ) -> Results:
        given: dict[str, tuple[Any, Payload]] = {}
        rows: dict[str, Row] = {}
        topic = f"irdeconv-{client.id}"
        client.subscribe_topic(topic, lambda event: rows.update(json.loads(event[1])))

        def submit(index: int) -> Any:
            payload = {**payloads[index], "shared": shared}
            args = payload, self.work, topic, __version__
            future = client.submit(work_on, *args, pure=False, **watch.others())
            given[future.key] = future, payload
            return future

        def answer(future: Any, attempt: int) -> Row | None:
            payload = given.pop(future.key)[1]
            row = rows.pop(future.key, None)
            return row or self._failure(client, future, attempt, payload)

        def take_back(keys: set[str]) -> None:
            client.cancel([found[0] for key in keys if (found := given.get(key))])

        ahead = max(LEAST_AHEAD, AHEAD * sum(client.nthreads().values()))
        # At the end a look may wait for a scheduler that is mute.
        with repeating(lambda: watch.step(take_back), LOOK_EVERY, patience=2.0):
            yield from each_done(len(payloads), submit, answer, ahead)

    def _failure(self, client: Any, future: Any, attempt: int, payload: Payload) -> Row | None:
        """Return the row of a task that has sent none; None if another worker has to do it."""
        if client.status != "running":
            message = "the scheduler of Dask is gone"
            raise misused(message, "start it again, and the same command with --resume")
        cause = future.exception() if future.status == "error" else None
        if isinstance(cause, Exception) and not isinstance(cause, self._distributed.KilledWorker):
            raise cause
        if attempt < self.retries:
            return None
        message = f"{attempt + 1} workers of Dask died or fell silent while they had this item"
        return traced(lambda _: stopped(CRASHED, "E710", message), payload, self.work.folder)


def kept_whole(cluster: Any, jobs: int) -> AbstractContextManager[None]:
    """Replace workers that died while they started: their nannies give up, and the cluster too."""

    def look() -> None:
        for name, nanny in list(cluster.workers.items()):
            if nanny.status.name in ("closed", "failed"):
                cluster.workers.pop(name, None)
        cluster.scale(jobs)

    return repeating(look, WHOLE_EVERY)


def _require_version(client: Any, *, alone: bool) -> set[str]:
    """Raise UsageError if a worker cannot have these modules: it would die of each item.

    Return the workers that do not answer; UsageError if none does, and nothing replaces them.
    """
    found = versions(client)
    mute = {worker for worker, version in found.items() if version is None}
    for worker, version in found.items():
        if worker not in mute and version != __version__:
            broken = isinstance(version, Exception)
            has = f"no irdeconv ({version})" if broken else f"irdeconv {version}"
            message = f"the worker {worker} of Dask has {has}, the command has {__version__}"
            raise misused(message, HINT)
    if alone and mute and mute == found.keys():
        message = f"{count(len(mute), 'worker')} of Dask, and none answers in {ASKED_TIME:g} s"
        raise misused(message, f"dask worker {client.scheduler.address} starts another one")
    return mute


def work_on(payload: Payload, work: Errand, topic: str, version: str) -> None:
    """Do an item on a worker, in a process that the worker's thread keeps for the next one.

    Its row is an event of the topic, before the task ends.
    """
    from distributed import get_worker

    if version != __version__:  # it came later
        message = f"a worker of Dask has irdeconv {__version__}, the command has {version}"
        raise misused(message, HINT)

    worker = get_worker()
    child: Child | None = getattr(_local, "child", None)
    if child is None or child.work != work:
        if child is not None:
            child.close()
        child = _local.child = Child(work)
    shared = payload.pop("shared", None)
    if shared is not None:
        name, size = shared
        path = Path(worker.local_directory, name)
        if path.is_file() and path.stat().st_size == size:
            payload = {**payload, "model": str(path)}
    row = traced(child.run, payload, work.folder)
    worker.log_event(topic, json.dumps({worker.get_current_task(): row}))
