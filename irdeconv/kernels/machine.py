"""The speed of this machine's matrix products, its BLAS, locks that survive a fork.

The rates of the kernels' cost formulas were fitted on one processor. On another one those of matrix
products are multiplied by one number, which depends on the vectors that OpenBLAS uses there.

After a fork the child process renews its locks, because the other threads do not exist there.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock, Thread, local
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np


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


def _functions(library: Any, *names: str) -> list[Any] | None:
    """Return functions of an OpenBLAS by their names without prefix and suffix; None if unknown."""
    for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
        found = [getattr(library.dynlib, f"{prefix}{name}{suffix}", None) for name in names]
        if None not in found:
            return found
    return None


def _direct(library: Any) -> Any:
    """Return an object that sets a library's number of threads at once, in every thread."""
    if getattr(library, "threading_layer", None) != "pthreads":
        return library
    found = _functions(library, *(f"openblas_{verb}_num_threads" for verb in ("get", "set")))
    return library if found is None else _OpenBlas(*found)


@cache
def matrix_product() -> tuple[int, bool] | None:
    """Return the address of NumPy's `cblas_sgemm` and whether its integers have 64 bits, if known.

    Compiled code calls it, so that a product needs no call from Python.
    """
    folder = str(Path(np.__file__).parent)  # beside it is numpy.libs
    for library in _libraries():
        if getattr(library, "internal_api", None) != "openblas":
            continue
        if not str(library.filepath).startswith(folder):
            continue
        found = _functions(library, "cblas_sgemm", "openblas_get_config")
        if found is not None:
            product, describe = found
            describe.restype = ctypes.c_char_p
            place = ctypes.cast(product, ctypes.c_void_p).value
            return (place, b"USE64BITINT" in describe()) if place else None
    return None


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


# OpenBLAS names the kernels that it chose by a processor. How many bits the vectors of these have,
# and how long a product takes, as a multiple of that on the fitted processor.
USUAL_BITS = 256
CORES = {
    512: frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"}),
    128: frozenset({"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Athlon"}),
}
PRODUCTS = {512: 0.52, USUAL_BITS: 1.0, 128: 2.8}


@cache
def multiplies_in_place() -> bool:
    """Whether OpenBLAS multiplies small matrices in place; its other kernels pack them all.

    Rows that lie a multiple of 4 KiB apart then compete for the same places in the first cache.
    """
    return bool(CORES[512] & blas_cores())


def vector_bits() -> int:
    """Return the bits of a vector in the products of OpenBLAS."""
    found = (bits for bits, names in CORES.items() if names & blas_cores())
    return next(found, USUAL_BITS)


def product_time() -> float:
    """Return the time of a matrix product, as a multiple of that on the fitted processor."""
    return PRODUCTS[vector_bits()]


def installed(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


R = TypeVar("R")
PRODUCT = "product"


def product_rate(value: float) -> Any:
    """Declare a rate that grows with the time of a matrix product."""
    return field(default=value, metadata={PRODUCT: True})


@cache
def scaled(rates: R) -> R:
    """Return a record's rates on this machine, always the same object."""
    here: R = times(rates, product_time())
    return here


def times(rates: Any, factor: float) -> Any:
    """Return a record with other rates of matrix products."""
    own = {f.name: getattr(rates, f.name) for f in fields(rates) if PRODUCT in f.metadata}
    return replace(rates, **{name: value * factor for name, value in own.items()})
