"""Sums of multiples of numbered elements, which are scaled and added to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from irdeconv.proof.call import FLOATS, normal, room
from irdeconv.proof.definition import Activation
from irdeconv.proof.model import Array, Ints, need
from irdeconv.proof.weights import product

MOST_TERMS = 256
NONE = -1  # the number of no element, and the place where nothing is read


class Term(NamedTuple):
    """The number of each element (NONE: it is 0), and its factor in float64 (None: 1)."""

    number: Array
    factor: Array | None = None


class Linear(NamedTuple):
    """A sum of terms of one shape; `last` are activations behind it, with their parameters."""

    type: str | None
    terms: tuple[Term, ...]
    last: tuple[Activation, ...] = ()

    @property
    def shape(self) -> Ints:
        """The shape of the value."""
        return tuple(self.terms[0].number.shape)

    def each(self, move: Callable[[Array], Array]) -> Linear:
        """Return the value after a movement of its elements."""
        moved = [
            Term(move(n), None if factor is None else move(factor)) for n, factor in self.terms
        ]
        return self._replace(terms=tuple(moved))


def scaled(value: Linear, factor: Array) -> Linear:
    """Return a value times a constant, which is broadcast to it."""
    need(not value.last and value.type in FLOATS, f"{value.type} or an activation is multiplied")
    need(((factor == 0) | normal(factor)).all(), f"{value.type} is multiplied by odd numbers")
    return value._replace(terms=tuple(_scaled(t, factor) for t in value.terms))


def _scaled(term: Term, factor: Array) -> Term:
    index = np.where(factor == 0, NONE, term.number)
    new = np.where(index == NONE, 1.0, product(np.broadcast_to(factor, index.shape), term.factor))
    return Term(index, None if (new == 1).all() else new)


def added(a: Linear, b: Linear) -> Linear:
    """Return the sum of two values of one shape; terms that nowhere meet become one."""
    terms = list(a.terms)
    for t in b.terms:
        for i, u in enumerate(terms):
            if not ((u.number != NONE) & (t.number != NONE)).any():
                both = [1.0 if v.factor is None else v.factor for v in (t, u)]
                plain = t.factor is None and u.factor is None
                factor = None if plain else np.where(t.number != NONE, *both)
                terms[i] = Term(np.where(t.number != NONE, t.number, u.number), factor)
                break
        else:
            terms.append(t)
    room((len(terms),), MOST_TERMS, "terms of a sum")
    room((len(terms), *a.shape))
    return a._replace(terms=tuple(terms))
