"""The search for a smaller variant that still fails: what was tried, what is best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, TypeVar

from irdeconv.plural import count
from irdeconv.progress import Advance
from irdeconv.reducing.variant import Hasher, Variant

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What a check said of a variant.

    `fails` says that the fault shows, `said` what was seen, in a line. `suspects` are names of
    layers that the check itself names. `valid` is False where it could say nothing.
    """

    fails: bool
    said: str
    suspects: tuple[str, ...] = ()
    valid: bool = True


class Check(Protocol):
    """Says whether the fault that is looked for shows in a variant.

    `hint` says what helps where the fault does not show in the model itself.
    """

    hint: str

    def __call__(self, variant: Variant) -> Outcome:
        """Check one variant."""


class Exhausted(Exception):
    """A limit is reached; `str` says which."""


@dataclass
class Search:
    """The best variant so far, and the rules by which another one takes its place.

    `max_checks` and `seconds` are limits (None: none), `clock` tells the time in seconds. What was
    tried before is not checked again; variants that do not fit together never are.
    """

    check: Check
    best: Variant
    outcome: Outcome
    max_checks: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    step: Advance | None = None
    checks: int = 0
    repeated: int = 0
    undecided: int = 0
    _hasher: Hasher = field(default_factory=Hasher)
    _seen: dict[bytes, Outcome] = field(default_factory=dict)
    _start: float = 0.0

    def __post_init__(self) -> None:
        self._start = self.clock()
        self._seen[self._hasher.of(self.best)] = self.outcome

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self.clock() - self._start

    def fails(self, variant: Variant | None) -> bool:
        """Whether the fault shows in a variant, which then is the best one.

        Raises Exhausted where a limit is reached.
        """
        if variant is None:
            return False
        key = self._hasher.of(variant)
        outcome = self._seen.get(key)
        if outcome is None:
            outcome = self._seen[key] = self._checked(variant)
        else:
            self.repeated += 1
        if outcome.fails:
            self.best, self.outcome = variant, outcome
        return outcome.fails

    def _checked(self, variant: Variant) -> Outcome:
        self._require_room()
        self.checks += 1
        if self.step is not None:
            self.step(detail=f"{count(len(self.best.layers), 'layer')} left")
        outcome = self.check(variant)
        self.undecided += not outcome.valid
        return outcome

    def _require_room(self) -> None:
        if self.max_checks is not None and self.checks >= self.max_checks:
            raise Exhausted(f"the limit of {count(self.max_checks, 'check')} is reached")
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise Exhausted(f"the limit of {self.seconds:g} s is reached")


def first_failing(length: int, fails: Callable[[int], bool]) -> int:
    """Return the least n in 1..length for which `fails(n)`, taking it for monotone.

    `fails(length)` is known. What is returned did fail.
    """
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def minimized(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of the items that fails, and of which no single one can be left out (ddmin).

    All items together are known to fail; `fails` is asked for parts in the order of the items.
    """
    left, pieces = list(items), 2
    while len(left) > 1:
        pieces = min(pieces, len(left))
        bounds = [len(left) * i // pieces for i in range(pieces + 1)]
        chunks = [left[a:b] for a, b in pairwise(bounds)]
        alone = next((c for c in chunks if fails(c)), None)
        if alone is not None:
            left, pieces = alone, 2
            continue
        rests = (
            [x for chunk in chunks[:i] + chunks[i + 1 :] for x in chunk]
            for i in range(len(chunks) if pieces > 2 else 0)
        )
        rest = next((r for r in rests if fails(r)), None)
        if rest is not None:
            left, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(left):
            break
        else:
            pieces *= 2
    return left
