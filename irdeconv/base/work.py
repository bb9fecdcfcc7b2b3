"""The account of work: everything that a command computes while it folds, infers and rewrites.

Passes over the contents of a file are free. Loops that a number in the file makes long draw on the
account, and those that grow faster than the file: bytes of folded constants, multiply-accumulates,
known values, iterations of bodies, repeated inference of bodies, imported nodes, operations that
are planned or emitted, what is read again for a proof, its steps, layers on a page, their order and
explanations. The limit `work` is its size; files that are read add to it. A unit is about 10
nanoseconds. Reading, rewriting and planning pause the collector.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

from irdeconv.base.errors import OpError
from irdeconv.base.limits import current, raise_hint

PER_INTERVAL = 256  # units of an element that is known as an interval
PER_TENSOR = 1024  # units of an input or output of an operation that is computed
NODE = 4096  # of a node of a body that is inferred or executed again
IMPORTED = 7_168  # of a node that is imported or read as text, with all that follows
EARNED = 32  # for each byte of the files that are read
PASS = 4  # one inference may use this part of the account, so that the next finds the same values
T = TypeVar("T", bound=Callable[..., Any])


@dataclass(eq=False)
class Account:
    """The work of a command; with `whole` that of one of its inferences."""

    whole: Account | None = None
    used: int = 0
    read: int = 0  # bytes of files
    files: set[str] = field(default_factory=set)  # that have been read

    def left(self) -> int:
        """Return the units that are left."""
        size = current().work + EARNED * (self.whole or self).read
        if self.whole is None:
            return size - self.used
        return min(size // PASS - self.used, self.whole.left())


_ACCOUNT: ContextVar[Account | None] = ContextVar("account", default=None)
_FOLDING: ContextVar[bool] = ContextVar("folding", default=False)


def _within(choose: Callable[[Account | None], Account | None]) -> Callable[[T], T]:
    """Return a decorator: the function uses the account that `choose` returns for the open one."""

    def decorate(function: T) -> T:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            account = _ACCOUNT.get()
            token = _ACCOUNT.set(choose(account))
            try:
                return function(*args, **options)
            finally:
                _ACCOUNT.reset(token)

        return call  # type: ignore[return-value]

    return decorate


# Opens an account unless one is open; opens one of its own, with the files read so far; uses a part
# of the account, unless it is called by such a function.
counted = _within(lambda open: open or Account())
fresh = _within(lambda open: replace((open.whole or open) if open else Account(), used=0))
one_pass = _within(lambda open: open if open and open.whole else Account(open or Account()))


def earn(size: int, file: str = "", *, first: bool = False) -> None:
    """Add the bytes of a file, by its name once; with `first` only if nothing was added yet."""
    account = _ACCOUNT.get()
    account = account and (account.whole or account)
    if account is not None and not (first and account.read) and file not in account.files:
        account.read += size
        account.files |= {file} - {""}


def is_new() -> bool:
    """Whether an account is open to which nothing has been added yet."""
    account = _ACCOUNT.get()
    return account is not None and not (account.whole or account).read


def room(units: int, *, whole: bool = False) -> bool:
    """Count units if they are left; whether they were. Half is only for those who ask `whole`."""
    account = _ACCOUNT.get()
    if account is None:
        return True
    reserve = 0 if whole else current().work // (2 * PASS if account.whole else 2)
    if units > account.left() - reserve:
        return False
    for each in {account, account.whole or account}:
        each.used += units
    return True


def left() -> int:
    """Return the units that are left of the open account; without one, of a new one."""
    return (_ACCOUNT.get() or Account()).left()


def take(units: int, what: str = "with it the command") -> None:
    """Count units; OpError (E602) if fewer are left: `what` exceeds the limit."""
    if not room(units, whole=True):
        text = f"{what} exceeds {limit_text()}"
        raise OpError(text, code="E602", hint=raise_hint("work"))


def limit_text() -> str:
    """Name the limit of the open account."""
    account, limit = _ACCOUNT.get(), f"the limit of work, {current().work:,} units"
    return f"a quarter of {limit}, for one inference" if account and account.whole else limit


@contextmanager
def folding() -> Iterator[None]:
    """Let bodies that are executed inside count their work."""
    token = _FOLDING.set(True)
    try:
        yield
    finally:
        _FOLDING.reset(token)


def is_folding() -> bool:
    """Whether bodies are executed to fold a constant."""
    return _FOLDING.get()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's cyclic collector, which would search a million new objects to no effect.

    The code inside leaves almost no cycles, and reference counting goes on.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
