"""The number of threads of NumPy's BLAS, and locks that survive a fork.

After a fork the child process renews its locks, because the other threads do not exist there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from threading import Lock, Thread, local
from typing import Any, Protocol
from weakref import WeakValueDictionary


class Renewable(Protocol):
    """An object with locks or threads of its own."""

    def after_fork(self) -> None:
        """In the child, replace the locks that another thread may have held."""


# By identity: who is equal to another one is still renewed.
_KNOWN: WeakValueDictionary[int, Renewable] = WeakValueDictionary()


def renew_in_children(one: Renewable) -> None:
    """Call `one.after_fork` in every child that is forked while it lives."""
    _KNOWN[id(one)] = one


def _renew() -> None:
    for one in list(_KNOWN.values()):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def blas_name() -> str:
    """Return name, version and processor type of the BLAS that NumPy uses, as far as known."""
    found = (
        [str(getattr(library, key, None) or "") for key in ("internal_api", "version")]
        + [str(getattr(library, "architecture", None) or "")]
        for library in _libraries()
    )
    return "; ".join(" ".join(filter(None, parts)) for parts in found) or "unknown"


@cache
def blas_cores() -> frozenset[str]:
    """Return the processors for which the BLAS has chosen its kernels, as far as known."""
    found = (getattr(library, "architecture", None) for library in _libraries())
    return frozenset(filter(None, found))


@dataclass(frozen=True)
class _OpenBlas:
    """The functions of OpenBLAS that threadpoolctl calls.

    It looks them up in every call, and its newer versions set nothing in a thread while another one
    that has set something lives.
    """

    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], object]


def _direct(library: Any) -> Any:
    """Return an object that sets a library's number of threads at once, in every thread."""
    if getattr(library, "threading_layer", None) != "pthreads":
        return library
    for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
        names = (f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set"))
        found: list[Any] = [getattr(library.dynlib, name, None) for name in names]
        if None not in found:
            return _OpenBlas(*found)
    return library


@cache
def _by_kind() -> tuple[list[Any], list[Any]]:
    """Return the libraries with a number for each thread, and those with one for the process."""
    kinds: tuple[list[Any], list[Any]] = [], []
    for library in map(_direct, _libraries()):
        kinds[0 if _has_own_number(library) else 1].append(library)
    return kinds


def _has_own_number(library: Any) -> bool:
    """Whether a thread keeps its number of threads when another one sets it (OpenBLAS 0.3.31)."""
    count = library.get_num_threads()
    library.set_num_threads(count)  # from now on it is this thread's own, if there is such a thing
    _elsewhere(library, 2 if count == 1 else 1)
    own: bool = library.get_num_threads() == count
    _elsewhere(library, count)  # the number for new threads
    return own


def _elsewhere(library: Any, count: int) -> None:
    thread = Thread(target=library.set_num_threads, args=(count,))
    thread.start()
    thread.join()


class _OneThread:
    """Counts threads that want products on one thread of libraries with one number per process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted = 0
        self._before: list[tuple[Any, int]] = []
        renew_in_children(self)

    def enter(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._before = _set_to_one(_by_kind()[1])

    def leave(self) -> None:
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                _set_back(self._before)

    def after_fork(self) -> None:
        """Free the lock in a child. Requests of threads that the child does not have remain."""
        self._lock = Lock()


_ONE = _OneThread()


class _ThisThread(local):
    """The state of one thread; `owns`: it has set its own numbers."""

    owns = False


_HERE = _ThisThread()


def _set_to_one(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Set numbers of threads to one; returns those that were another.

    If it is one already, it may be the default of new threads: now it is this thread's own.
    """
    counts = [(library, library.get_num_threads()) for library in libraries]
    for library in libraries:
        library.set_num_threads(1)
    return [(library, count) for library, count in counts if count != 1]


def _set_back(changed: list[tuple[Any, int]]) -> None:
    for library, count in changed:
        library.set_num_threads(count)


class _OnOneThread(AbstractContextManager[None]):
    """See `one_blas_thread`. Entered in every run of a plan, which may take microseconds."""

    __slots__ = ("_before", "_kinds")

    def __enter__(self) -> None:
        own, shared = self._kinds = _by_kind()
        if _HERE.owns and all(library.get_num_threads() == 1 for library in own):
            self._before: list[tuple[Any, int]] = []
        else:
            self._before = _set_to_one(own)
            _HERE.owns = True
        if shared:
            _ONE.enter()

    def __exit__(self, *error: object) -> None:
        if self._kinds[1]:
            _ONE.leave()
        if self._before:
            _set_back(self._before)


def one_blas_thread() -> AbstractContextManager[None]:
    """Run matrix products of this thread on one thread inside.

    With more, the BLAS adds in another order. If the number is the process's, it stays until the
    last thread that is inside leaves: two plans may run at the same time. Threads that a plan
    begins call `use_one_blas_thread`.
    """
    return _OnOneThread()


def use_one_blas_thread() -> None:
    """Run all products of this thread on one thread, even if others set numbers meanwhile."""
    for library in _by_kind()[0]:
        library.set_num_threads(1)
