"""Covering arrays: few rows in which every pair of values that may occur together does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Allows = Callable[[Mapping[str, Any]], bool]
"""Whether a row may be, of which some factors may have no value yet: False is for ever."""

TRIES = 3000  # partial rows that are looked at to complete one
_Choice = tuple[str, int]  # a factor and the position of its value


@dataclass(frozen=True)
class Covering:
    """The rows, and the combinations of values for which no row was found."""

    rows: list[Row]
    impossible: list[Row]


def covering(factors: Mapping[str, Sequence[Any]], allows: Allows, strength: int = 2) -> Covering:
    """Return rows in which every allowed combination of `strength` values occurs, greedily.

    1: every value; 2: every pair. The same arguments give the same rows.
    """
    return _Greedy(factors, allows, strength).run()


def crossed(factors: Mapping[str, Sequence[Any]], allows: Allows) -> Iterator[Row]:
    """Yield every allowed row."""
    for values in itertools.product(*factors.values()):
        row = dict(zip(factors, values, strict=True))
        if allows(row):
            yield row


def combinations(factors: Mapping[str, Sequence[Any]]) -> int:
    """Return how many rows there are without limits."""
    return math.prod(len(values) for values in factors.values())


@dataclass
class _Greedy:
    factors: Mapping[str, Sequence[Any]]
    allows: Allows
    strength: int
    open: dict[frozenset[_Choice], None] = field(default_factory=dict)
    tries: int = 0

    def run(self) -> Covering:
        self.open = dict.fromkeys(self._targets())
        found = Covering([], [])
        while self.open:
            wanted = next(iter(self.open))
            self.tries = TRIES
            chosen = self._complete(dict(sorted(wanted, key=self._order)))
            if chosen is None:
                del self.open[wanted]
                found.impossible.append(self._row(dict(sorted(wanted, key=self._order))))
                continue
            for target in itertools.combinations(chosen.items(), self.strength):
                self.open.pop(frozenset(target), None)
            found.rows.append({name: self._row(chosen)[name] for name in self.factors})
        return found

    def _order(self, choice: _Choice) -> int:
        return list(self.factors).index(choice[0])

    def _targets(self) -> Iterator[frozenset[_Choice]]:
        for names in itertools.combinations(self.factors, self.strength):
            for places in itertools.product(*(range(len(self.factors[n])) for n in names)):
                yield frozenset(zip(names, places, strict=True))

    def _row(self, chosen: Mapping[str, int]) -> Row:
        return {name: self.factors[name][place] for name, place in chosen.items()}

    def _complete(self, chosen: dict[str, int]) -> dict[str, int] | None:
        """Choose the other values, those first that cover most; None where there is no way."""
        self.tries -= 1
        if self.tries < 0 or not self.allows(self._row(chosen)):
            return None
        name = next((n for n in self.factors if n not in chosen), None)
        if name is None:
            return chosen
        places = range(len(self.factors[name]))
        for place in sorted(places, key=lambda p: (-self._gain(chosen, (name, p)), p)):
            found = self._complete({**chosen, name: place})
            if found is not None:
                return found
        return None

    def _gain(self, chosen: Mapping[str, int], new: _Choice) -> int:
        others = itertools.combinations(chosen.items(), self.strength - 1)
        return sum(frozenset((new, *rest)) in self.open for rest in others)
