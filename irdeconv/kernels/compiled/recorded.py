"""Compiled calls whose memory stays where it is, written down once and made together.

A step of a plan is such a list of calls where all that it does is compiled; steps that follow each
other then take one call from Python. See `kernels.compiled.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np

from irdeconv.kernels.shared.candidate import Piece
from irdeconv.kernels.shared.scratch import SCRATCH, ScratchPlace, Space, address
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True, eq=False)
class Recorded:
    """Compiled calls, one after the other.

    `table` has the addresses of a function and a record for each; `kept` is the memory that they
    use; `scratch` counts bytes. Several threads may make them at once.
    """

    table: tuple[int, ...]
    kept: tuple[Any, ...] = field(repr=False)
    scratch: int = 0

    @staticmethod
    def of(step: str, *arguments: Any) -> Recorded:
        """Write down a call of a function of `kernels.compiled.steps`; numba is imported."""
        steps = import_module("irdeconv.kernels.compiled.steps")
        function, record = steps.recorded(step, arguments)
        places = (a for a in arguments if isinstance(a, ScratchPlace))
        ends = [place.end for place in places if place.base == SCRATCH]
        return Recorded((function, address(record)), (record, *arguments), max(ends, default=0))

    @staticmethod
    def joined(parts: Iterable[Recorded]) -> Recorded:
        """Return the calls of all parts, which may use the same scratch memory."""
        some = list(parts)
        return Recorded(
            table=tuple(n for part in some for n in part.table),
            kept=tuple(k for part in some for k in part.kept),
            scratch=max((part.scratch for part in some), default=0),
        )

    def keeping(self, arrays: Iterable[Array]) -> Recorded:
        """Return the same calls; the arrays are there for as long as they are."""
        return replace(self, kept=(*self.kept, *arrays))

    @cached_property
    def _run(self) -> Callable[..., None]:
        run: Callable[..., None] = import_module("irdeconv.kernels.compiled.records").run_table
        return run

    @cached_property
    def _run_on(self) -> Callable[..., None]:
        run: Callable[..., None] = import_module("irdeconv.kernels.compiled.records").run_table_on
        return run

    @cached_property
    def _words(self) -> Array:
        return np.array(self.table, np.int64)

    def __call__(self, space: Space) -> None:
        """Make the calls."""
        bases, _held = space.again(self, lambda: _bases(space, self.scratch))
        self.run(bases)

    def run(self, bases: Array) -> None:
        """Make the calls, with places counted from these; see `_bases`."""
        self._run(self._words, bases)

    def run_on(self, x: Array, out: Array, space: Space) -> None:
        """Make calls that read and write the f32 of contiguous arrays which are given."""
        memory = space.array((self.scratch,), np.uint8) if self.scratch else _NO_BYTES
        self._run_on(self._words, memory, x.reshape(-1), out.reshape(-1))


_NO_BYTES = np.zeros(0, np.uint8)


def _bases(space: Space, scratch: int) -> tuple[Array, Array]:
    """Return from where calls count places, nothing and scratch memory, and that memory."""
    memory = space.array((scratch,), np.uint8)
    return np.array([0, address(memory)], np.int64), memory


@runtime_checkable
class FixedCall(Protocol):
    """A call of an operation that can be prepared for memory that stays where it is."""

    def fixed(self, *arrays: Array, out: Array) -> Callable[[Team], None] | None:
        """Return what the call would do with these arrays; None where it cannot know."""


def _do(work: Piece, space: Space) -> None:
    work(space)


@dataclass(frozen=True)
class Repeated:
    """Pieces of work with memory that stays where it is, which threads may share."""

    pieces: tuple[Piece, ...]

    def __call__(self, team: Team) -> None:
        """Do them all."""
        team.each(self.pieces, _do)

    @staticmethod
    def of(pieces: Iterable[Piece | None]) -> Repeated | None:
        """Return pieces as one; None where one is None."""
        some = list(pieces)
        return None if None in some else Repeated(tuple(p for p in some if p is not None))

    @property
    def recorded(self) -> Recorded | None:
        """All pieces as one; None where some of them are not compiled."""
        found = [p for p in self.pieces if isinstance(p, Recorded)]
        return Recorded.joined(found) if len(found) == len(self.pieces) else None


@dataclass(frozen=True, eq=False)
class _InTurn:
    """Pieces of work, some of them compiled, of which those use the same scratch memory."""

    parts: tuple[Piece, ...]

    @cached_property
    def _scratch(self) -> int:
        return max((part.scratch for part in self.parts if isinstance(part, Recorded)), default=0)

    def __call__(self, space: Space) -> None:
        bases, _held = space.again(self, lambda: _bases(space, self._scratch))
        for part in self.parts:
            if isinstance(part, Recorded):
                part.run(bases)
            else:
                part(space)


def in_turn(pieces: Iterable[Piece | None]) -> Piece:
    """Return several pieces of work, one after the other, as one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and isinstance(piece, Recorded) and isinstance(found[-1], Recorded):
            found[-1] = Recorded.joined([found[-1], piece])
        elif piece is not None:
            found.append(piece)
    return found[0] if len(found) == 1 else _InTurn(tuple(found))
