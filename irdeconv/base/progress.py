"""Progress reporting of long work.

    with progress.stage("inferring shapes", total=len(nodes)) as step:
        for node in nodes:
            step()

Stages nest. Without a listener a stage reads one variable and a step is an empty call; with one a
step is an addition, because listeners poll. Threads other than the listener's report nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Event, Thread
from typing import Protocol, TypeVar

T = TypeVar("T")


class Advance(Protocol):
    """Moves a stage on."""

    def __call__(self, n: int = 1, detail: str = "") -> None:
        """Count `n` more as done; `detail` names the next or the last item."""


class Stage:
    """Work in progress: `done` of `total` (None: the amount is unknown)."""

    def __init__(self, what: str, total: int | None, listener: Listener) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.detail = ""
        self._listener = listener

    def __call__(self, n: int = 1, detail: str = "") -> None:
        """Count `n` more as done; `detail` names the next or the last item."""
        self.done += n
        if detail:
            self.detail = detail

    def __enter__(self) -> Advance:
        self._listener.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.end(self)


class Listener(Protocol):
    """Gets a call when a stage begins and ends; the innermost one ends first."""

    def begin(self, stage: Stage) -> None:
        """Record a stage; its `done` and `detail` change while it is open."""

    def end(self, stage: Stage) -> None:
        """Record that a stage is over, also after an exception."""


def _unheard(n: int = 1, detail: str = "") -> None:
    """Take a step of work without a listener."""


_UNHEARD = nullcontext(_unheard)
_listener: ContextVar[Listener | None] = ContextVar("irdeconv.base.progress", default=None)


def stage(what: str, total: int | None = None) -> AbstractContextManager[Advance]:
    """Open a stage: `what` goes on ("reading net.xml"), in `total` steps if that is known."""
    listener = _listener.get()
    return _UNHEARD if listener is None else Stage(what, total, listener)


def each(
    what: str, items: Collection[T], name: Callable[[T], str] = lambda item: ""
) -> Iterable[T]:
    """Return the items; taking each is a step of a stage, with `name` as its detail."""
    listener = _listener.get()
    return items if listener is None else _stepping(Stage(what, len(items), listener), items, name)


def _stepping(stage: Stage, items: Iterable[T], name: Callable[[T], str]) -> Iterator[T]:
    with stage as step:
        for item in items:
            step(0, name(item))
            yield item
            step(1)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Report all stages that this context opens to a listener; None: to none."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def repeating(
    act: Callable[[], None], seconds: float, patience: float | None = None
) -> Iterator[None]:
    """Act every so many seconds in a thread; at the end wait for it, `patience` seconds at most."""
    over = Event()

    def acts() -> None:
        while not over.wait(seconds):
            act()

    thread = Thread(target=acts, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(patience)
