"""Batches on a cluster of Dask: its workers do each item in a process of their own.

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

import asyncio
import hashlib
import json
import logging
import os
import pkgutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irdeconv import __version__
from irdeconv.base.errors import count, misused
from irdeconv.base.extras import needed
from irdeconv.base.progress import repeating
from irdeconv.cli.batch_executors import Child, Errand, Payload, Results, each_done
from irdeconv.cli.batch_items import CRASHED, Row, stopped, traced

ANSWER_TIME = 30.0  # seconds in which a scheduler has to answer
ASKED_TIME = 10.0  # seconds in which a worker has to answer a question, which takes it no time
ASKED_AT_ONCE = 50  # workers; each takes a connection
LOOK_EVERY = 2.0  # seconds between two looks at the signs of life
MUTE_LOOKS = 5  # looks without one; a number, as time also goes by while all this is stopped
Say = Callable[[str], None]


def versions(client: Any) -> dict[str, Any]:
    """Return the irdeconv of each worker, or the error of its import; None for no answer."""
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
