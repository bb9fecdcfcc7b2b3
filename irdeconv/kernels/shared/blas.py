"""The number of threads of NumPy's BLAS while a plan runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
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


class _OneThread:
    """How many threads of this process want products on one thread, and what to go back to."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted = 0
        self._before: list[tuple[Any, int]] = []
        renew_in_children(self)

    def enter(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._before = [(each, each.get_num_threads()) for each in _libraries()]
                self._set([(each, 1) for each, count in self._before if count != 1])

    def leave(self) -> None:
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                self._set([(each, count) for each, count in self._before if count != 1])

    @staticmethod
    def _set(counts: list[tuple[Any, int]]) -> None:
        for library, count in counts:
            library.set_num_threads(count)

    def after_fork(self) -> None:
        """Free the lock in a child. What threads wanted that it does not have stays wanted."""
        self._lock = Lock()


_ONE = _OneThread()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products use one thread inside.

    With more, the BLAS adds in another order. The setting is the process's, so it stays until the
    last of its threads that is inside leaves: two plans may run at the same time.
    """
    _ONE.enter()
    try:
        yield
    finally:
        _ONE.leave()
