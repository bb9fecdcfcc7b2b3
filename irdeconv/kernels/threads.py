"""Threads that share the blocks of a kernel.

A kernel splits its output into blocks whose results do not depend on the number of threads. NumPy
releases the interpreter's lock in matrix products and in loops over arrays. Compiled calls need no
interpreter, so threads share many of them at a time: those who have nothing to do stand by.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock, get_ident, get_native_id
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels.machine import renew_in_children, use_one_blas_thread
from irdeconv.kernels.scratch import CommonMemory, Space, address

T = TypeVar("T")
BUFFER = 512  # elements
NEVER_SHARED = (
    5e-5  # seconds of work that no thread is worth waking up for, on the machine of the rates
)
ALWAYS_SHARED = 2e-3  # seconds of work that is always worth it
SHARED_TRIALS, TRIALS = 4, 6  # first runs of a kernel, then the faster way is taken
FADING = 1.1  # by which the least time counts more from run to run, for a lucky one to fade
WORTH_SHARING = 0.95  # of the time alone, or less
# Of so many runs so many go the other way. The first of them wakes threads up, so one is too few.
AGAIN, RUNS_TRIED = 60, 3
SOON = 12  # instead of AGAIN, while a call that was slower when it was shared is new


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _ArithmeticState(AbstractContextManager[None]):
    """See `arithmetic`. Entered in every run of a plan, which may take microseconds."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        self._state = np.errstate(all="ignore")
        self._state.__enter__()
        np.setbufsize(BUFFER)  # errstate restores it as well

    def __exit__(self, *error: Any) -> None:
        self._state.__exit__(*error)


def arithmetic() -> AbstractContextManager[None]:
    """Compute as IEEE 754 says, silently, with small buffers for operands that broadcast.

    NumPy copies such operands through a buffer, by default of 8192 elements, which then leaves the
    level 1 cache.
    """
    return _ArithmeticState()


def _with_arithmetic(job: list[Callable[[Space], None]], space: Space) -> None:
    with arithmetic():  # the caller's setting does not reach its threads
        for loop in job:
            loop(space)


def _finish(futures: Sequence[Future[None]], rest: Iterator[Any]) -> None:
    """Wait until all are done, also if interrupted, since they write to memory; begin no more."""
    interrupt: BaseException | None = None
    while True:
        try:
            wait(futures)
            break
        except BaseException as e:
            interrupt = e
            for _ in rest:
                pass
    if interrupt is not None:
        raise interrupt


class Turn:
    """A lock that raises RuntimeError instead of waiting if its owner asks for it again.

    Memory is shared by everything that a team computes, so a lock that its owner may take again
    would let one run overwrite what the other still needs. The owner's callback may also wait for
    another thread that waits for the lock: that thread gets an error if one `callback` lasts more
    than `patience` seconds.
    """

    def __init__(self) -> None:
        self.patience = 2.0
        self._lock = Lock()
        self._owner: int | None = None
        self._callback: object = None  # a new one for each call

    def __enter__(self) -> None:
        if self._owner == get_ident():  # only this thread can have written that
            raise RuntimeError(
                "a plan is run from a callback (trace, watch or observe) of its own run, which "
                "still needs its memory: compile a second plan for the callback"
            )
        before = None
        while not self._lock.acquire(timeout=self.patience):
            if before is not None and self._callback is before:
                raise RuntimeError(
                    "a plan is run while a callback (trace, watch or observe) of its run in "
                    f"another thread has not returned for {self.patience:g} s; should the callback "
                    "wait for this run, compile a second plan for one of them"
                )
            before = self._callback
        self._owner = get_ident()

    @contextmanager
    def callback(self) -> Iterator[None]:
        """Say that the owner is inside one call of a callback."""
        self._callback = object()
        try:
            yield
        finally:
            self._callback = None

    def __exit__(self, *error: object) -> None:
        self._owner = None
        self._lock.release()

    def after_fork(self) -> None:
        """Free the lock in a child, where its owner does not exist, unless that has forked."""
        if self._owner != get_ident():
            self._lock, self._owner, self._callback = Lock(), None, None


class CompiledCalls(Protocol):
    """Compiled calls that threads can share."""

    def job(self, space: Space) -> tuple[int, Any]:
        """Return the address of what a thread does, see `compiled_sharing`, and its memory."""

    def alone(self, space: Space) -> None:
        """Make all calls on one thread."""


class Team(Protocol):
    """The threads that run a kernel; its blocks share the memory `space`."""

    space: Space

    def begin(self) -> None:
        """Start a kernel: the shared memory is free again."""

    def each(self, items: Iterable[T], work: Callable[[T, Space], None]) -> None:
        """Call `work(item, space)` for independent items; raises after the others have ended."""

    def together(self, calls: CompiledCalls) -> None:
        """Share compiled calls."""


@cache
def _give_way() -> int:
    """Return the address of the function that lets other threads have the processor, or 0."""
    for library, name in ((None, "sched_yield"), ("kernel32", "SwitchToThread")):
        with suppress(OSError, AttributeError, TypeError):
            function = getattr(ctypes.CDLL(library), name)
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


@cache
def _sharing() -> tuple[Callable[..., None], Callable[..., None]]:
    module: Any = import_module("irdeconv.kernels.compiled_sharing")
    return module.sharing()  # type: ignore[no-any-return]


def _stand_by(words: Array, number: int, ticket: int) -> None:
    # An argument keeps the memory alive: the team may be deleted while this thread still runs.
    _sharing()[1](address(words), number, ticket, _give_way())


@cache
def _processor() -> Callable[[], int] | None:
    """Return the function that gives the number of the caller's processor, if there is one."""
    with suppress(OSError, AttributeError, TypeError):
        if hasattr(os, "sched_setaffinity"):
            return ctypes.CDLL(None).sched_getcpu
    return None


Processors = dict[int, set[int]]  # that a thread may use


def _enter(own: Processors) -> None:
    use_one_blas_thread()
    own[get_native_id()] = os.sched_getaffinity(0) if _processor() else set()


def _anywhere(own: Processors, job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    allowed = own[get_native_id()]
    with suppress(OSError):
        if allowed:
            os.sched_setaffinity(0, allowed)
    job(*arguments)


class _Workers:
    """Threads that wake up on other processors than the one that wakes them.

    Linux may wake a thread on the waker's processor, and leave it there for milliseconds: in a
    virtual machine, idle processors seem to be taken. So each thread is allowed some of the others
    until it runs.
    """

    def __init__(self, count: int) -> None:
        self._own: Processors = {}
        self._count = count
        # Its threads keep the arguments, which must not refer to the pool: it ends when
        # nothing refers to it.
        self._pool = ThreadPoolExecutor(count, initializer=_enter, initargs=(self._own,))

    def submit(self, job: Callable[..., None], *arguments: Any) -> Future[None]:
        """Let a thread do a job."""
        return self._pool.submit(_anywhere, self._own, job, arguments)

    def part(self) -> None:
        """Let threads that sleep wake up apart from the caller and from each other."""
        here = _processor()
        if here is None:
            return
        used, each = here(), 1 / self._count
        for i, (thread, allowed) in enumerate(list(self._own.items())):
            others = sorted(allowed - {used})
            first, last = (int(len(others) * each * k) for k in (i, i + 1))
            with suppress(OSError):  # of a thread that has ended, or a system that forbids it
                if first < last:
                    os.sched_setaffinity(thread, others[first:last])


class _Post:
    """Where threads stand by for compiled calls, see `compiled_sharing`."""

    EXPIRED, JOBS = 2, 8  # words

    def __init__(self, pool: _Workers, count: int) -> None:
        self.words, self.pool = np.zeros(self.JOBS + count, np.int64), pool
        self._ticket, self._sending = 1, False
        self._standing: list[Future[None] | None] = [None] * count

    @property
    def awake(self) -> bool:
        """Whether all threads stand there."""
        return all(thread is not None and not thread.done() for thread in self._standing)

    def lead(self, jobs: Sequence[int]) -> None:
        """Do the first job, while those who stand by do the others."""
        do, _ = _sharing()  # compiled here, once
        self.words[self.JOBS :] = jobs[1:]
        if not self.awake:
            self.pool.part()
        self.stand_by()
        do(jobs[0], address(self.words), _give_way())

    def stand_by(self) -> None:
        """Let threads that have nothing else to do wait for jobs."""
        if self._sending:  # an exception came between, so some thread may stand there unknown
            self.leave()
        self._sending = True
        for number, thread in enumerate(self._standing):
            if thread is None or thread.done():
                given = self.words, number, self._ticket
                self._standing[number] = self.pool.submit(_stand_by, *given)
        self._sending = False

    def leave(self) -> bool:
        """Let them do something else; returns whether they stood there."""
        self.words[self.EXPIRED] = self._ticket
        self._ticket += 1
        stood = any(self._standing)
        self._standing = [None] * len(self._standing)
        return stood


class Threads:
    """A team of threads, each with scratch memory; it runs one kernel for the holder of `lock`."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = max(1, threads)
        self.space = Space()
        self.lock = Turn()
        self._common = CommonMemory()
        self._spaces = [Space(self._common) for _ in range(self.threads)]
        self._begin()
        renew_in_children(self)

    def _begin(self) -> None:
        self._pool: _Workers | None = None
        if self.threads > 1:
            self._pool = _Workers(self.threads - 1)
            self._post = _Post(self._pool, self.threads - 1)

    def after_fork(self) -> None:
        """Begin anew in a child: threads are not inherited, and may have held locks."""
        self._begin()
        self.lock.after_fork()

    def begin(self) -> None:
        """See `Team`."""
        self.space.reset()

    def each(self, items: Iterable[T], work: Callable[[T, Space], None]) -> None:
        """See `Team`; the caller works as well, so it does not wait for threads to wake up."""
        self.run(list(items), work, self.threads)

    def together(self, calls: CompiledCalls, threads: int | None = None) -> None:
        """See `Team`."""
        if self._pool is None or threads == 1:
            self._spaces[0].reset()
            calls.alone(self._spaces[0])
            return
        for space in self._spaces:
            space.reset()
        held = [calls.job(space) for space in self._spaces]
        self._post.lead([own for own, _ in held])

    def run(self, items: list[T], work: Callable[[T, Space], None], threads: int) -> None:
        """Work on the items with at most so many threads."""
        others = self._spaces[1 : min(threads, len(items))]
        if self._pool is None or not others:
            own = self._spaces[0]
            for item in items:
                own.reset()
                work(item, own)
            return
        if not self._post.awake:
            self._pool.part()
        stood = self._post.leave()
        rest = iter(items)  # next() on a list's iterator is atomic

        def loop(space: Space) -> None:
            try:
                for item in rest:
                    space.reset()
                    work(item, space)
            finally:  # after a failure nothing more is begun
                for _ in rest:
                    pass

        job: list[Callable[[Space], None]] = [loop]
        futures: list[Future[None]] = []
        try:
            for space in others:
                futures.append(self._pool.submit(_with_arithmetic, job, space))
            if stood:
                self._post.stand_by()  # after that
            loop(self._spaces[0])
        finally:
            begun = [f for f in futures if not f.cancel()]
            _finish(begun, rest)
            job.clear()  # items that never began are still queued, and must not keep arrays alive
        for future in begun:
            future.result()

    def member(self) -> Team:
        """Return this team for a kernel of its own; it learns which work is not worth sharing."""
        return self if self.threads == 1 else _Member(self)

    def single(self) -> Threads:
        """Return one thread that has the same lock, for work too short to be shared."""
        one = Threads()
        one.lock = self.lock
        return one

    @property
    def peak(self) -> int:
        """The most bytes of scratch memory in use at once."""
        return self.space.peak + sum(s.peak for s in self._spaces) + self._common.memory.nbytes


@dataclass
class _CallTimes:
    """The latest times of a kernel's calls, in seconds, alone and shared."""

    alone: float = math.inf
    shared: float = math.inf
    runs: int = 0

    def share(self, always: float) -> bool:
        """Whether to share it now: always work of so many seconds, else the faster way.

        Both are tried again.
        """
        self.runs += 1
        if self.alone < NEVER_SHARED:
            return False
        if self.runs <= TRIALS:
            return self.runs <= SHARED_TRIALS
        share = self.alone > always or self.shared < WORTH_SHARING * self.alone
        again = AGAIN if share or self.runs > 2 * AGAIN else SOON
        return share != (self.runs % again < RUNS_TRIED)


class _Member:
    """A team as one kernel sees it that runs again and again, with the same work every time.

    Waking threads up takes time, and so does waiting for the interpreter between short calls of
    NumPy, how much depends on the machine. So a kernel measures whether sharing its work pays;
    results do not depend on it.
    """

    def __init__(self, team: Threads) -> None:
        self._team, self.space = team, team.space
        self._times: list[_CallTimes] = []  # of each call of a run
        self._calls = 0

    def begin(self) -> None:
        """See `Team`."""
        self._team.begin()
        self._calls = 0

    def each(self, items: Iterable[T], work: Callable[[T, Space], None]) -> None:
        """See `Team`."""
        blocks = list(items)
        if len(blocks) < 2:
            self._team.run(blocks, work, 1)
        else:
            self._measured(lambda threads: self._team.run(blocks, work, threads), ALWAYS_SHARED)

    def together(self, calls: CompiledCalls) -> None:
        """See `Team`."""
        self._measured(lambda threads: self._team.together(calls, threads), math.inf)

    def _measured(self, run: Callable[[int], None], always: float) -> None:
        """Run with all threads or with one."""
        if self._calls == len(self._times):
            self._times.append(_CallTimes())
        times = self._times[self._calls]
        self._calls += 1
        share, start = times.share(always), perf_counter()
        run(self._team.threads if share else 1)
        seconds = perf_counter() - start
        if share:
            times.shared = min(seconds, FADING * times.shared)
        else:
            times.alone = min(seconds, FADING * times.alone)
