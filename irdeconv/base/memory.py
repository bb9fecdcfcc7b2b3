"""The bytes that a run holds at a time, counted before they are allocated if there is a limit."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from irdeconv.base.errors import OpError
from irdeconv.base.limits import LARGEST_INT, current

ALLOW = "allow more with --max-memory, or use smaller inputs"


def memory_limit(max_memory: int | None) -> int | None:
    """Return the bytes that a run may take: `max_memory`, else the limit in force, if any."""
    if max_memory is not None:
        return max_memory
    return current().memory if current().memory < LARGEST_INT else None


@dataclass
class RunMemory:
    """What a program and those of its bodies hold; without a `limit` nothing is counted.

    `fixed` are the bytes of constants, `scratch` the most of a program, `arrays` those of arrays
    until they are freed.
    """

    limit: int | None = None
    fixed: int = 0
    scratch: int = 0
    arrays: int = 0
    _known: dict[int, tuple[weakref.ref[Any] | None, int]] = field(default_factory=dict, repr=False)
    _lent: list[Any] = field(default_factory=list, repr=False)

    @property
    def held(self) -> int:
        """All of them together."""
        return self.fixed + self.scratch + self.arrays

    def require(self, size: int, what: str) -> None:
        """Raise OpError (E602) if `what` cannot take `size` more bytes."""
        if self.limit is not None and size + self.held > self.limit:
            beside = f" beside {self.held:,} in use" if self.held else ""
            text = f"{what} takes {size:,} bytes{beside}; the limit is {self.limit:,}"
            raise OpError(text, code="E602", hint=ALLOW)

    def hold(self, array: Any, *, counted: bool = True) -> None:
        """Count an array, or what it is a view of, once; else it is `counted` in another way."""
        if self.limit is not None:
            array = _owner(array)
            self._add(array, int(array.nbytes) if counted else 0)

    def lend(self, arrays: Iterable[Any]) -> None:
        """Count the caller's arrays without what they are views of, until they are given back."""
        if self.limit is None:
            return
        self._lent = list(arrays)
        for array in self._lent:
            self._add(array, int(array.nbytes))
        for owner in map(_owner, self._lent[:]):
            self._add(owner, 0)
            self._lent.append(owner)

    def give_back(self) -> None:
        """Count the lent arrays no longer."""
        for array in self._lent:
            self._forget(id(array))
        self._lent = []

    def release(self, arrays: Iterable[Any]) -> None:
        """Count arrays no longer: they belong to the caller."""
        for array in arrays if self.limit is not None else ():
            self._forget(id(_owner(array)))

    def _add(self, array: Any, size: int) -> None:
        key = id(array)
        if key not in self._known:
            with suppress(TypeError):  # a scalar of NumPy
                self._known[key] = weakref.ref(array, lambda _: self._forget(key)), size
                self.arrays += size

    def _forget(self, key: int) -> None:
        self.arrays -= self._known.pop(key, (None, 0))[1]


def _owner(array: Any) -> Any:
    """Return the array that has the memory."""
    while isinstance(getattr(array, "base", None), type(array)):
        array = array.base
    return array
