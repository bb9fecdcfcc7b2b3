"""The number of threads of NumPy's BLAS while a plan runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Any

from irdeconv.kernels.shared.forks import renew_in_children


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas")
    return list(found.lib_controllers)


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
    """Return for which processors the BLAS has chosen its kernels, as far as it says so."""
    found = (getattr(library, "architecture", None) for library in _libraries())
    return frozenset(filter(None, found))


@cache
def _by_kind() -> tuple[list[Any], list[Any]]:
    """Return the libraries with a number for each thread, and those with one for the process."""
    kinds: tuple[list[Any], list[Any]] = [], []
    for library in _libraries():
        kinds[0 if _has_own_number(library) else 1].append(library)
    return kinds


def _has_own_number(library: Any) -> bool:
    """Whether a thread keeps its number of threads when another one sets it (OpenBLAS 0.3.31)."""
    count = library.get_num_threads()
    library.set_num_threads(count)  # from now on it is this thread's own, if there is such a thing
    _elsewhere(library, 2 if count == 1 else 1)
    own: bool = library.get_num_threads() == count
    _elsewhere(library, count)  # what new threads begin with
    return own


def _elsewhere(library: Any, count: int) -> None:
    thread = Thread(target=library.set_num_threads, args=(count,))
    thread.start()
    thread.join()


class _OneThread:
    """How many threads want products on one thread of libraries whose number is the process's."""

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
        """Free the lock in a child. What threads wanted that it does not have stays wanted."""
        self._lock = Lock()


_ONE = _OneThread()


def _set_to_one(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Set numbers of threads to one; returns those that were another.

    Where one is set already, it may be what new threads begin with: now it is this thread's own.
    """
    counts = [(library, library.get_num_threads()) for library in libraries]
    for library in libraries:
        library.set_num_threads(1)
    return [(library, count) for library, count in counts if count != 1]


def _set_back(changed: list[tuple[Any, int]]) -> None:
    for library, count in changed:
        library.set_num_threads(count)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products of this thread use one thread inside.

    With more, the BLAS adds in another order. Where the number is the process's, it stays until the
    last thread that is inside leaves: two plans may run at the same time. Threads that a plan
    begins call `use_one_blas_thread`.
    """
    own = _set_to_one(_by_kind()[0])
    _ONE.enter()
    try:
        yield
    finally:
        _ONE.leave()
        _set_back(own)


def use_one_blas_thread() -> None:
    """Let all products of this thread use one thread, whatever others set meanwhile."""
    for library in _by_kind()[0]:
        library.set_num_threads(1)
