"""The number of threads of NumPy's BLAS while a plan runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


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


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Let matrix products use `count` threads inside.

    The setting is the process's: other threads that multiply matrices meanwhile see it as well.
    """
    before = [(library, library.get_num_threads()) for library in _libraries()]
    changed = [(library, old) for library, old in before if old != count]
    for library, _ in changed:
        library.set_num_threads(count)
    try:
        yield
    finally:
        for library, old in changed:
            library.set_num_threads(old)
