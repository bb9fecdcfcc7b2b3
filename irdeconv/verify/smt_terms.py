"""Integer terms over sizes, positions and taps: simplified, evaluated, written as SMT-LIB.

A term is a sum of atoms with integer factors, and a constant. Atoms are variables, quotients and
remainders by positive constants, the larger or smaller of two terms. Quotients round down, as `div`
and `mod` of SMT-LIB do. Products of two open terms are not linear and raise Unproved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.proof.model import Unproved

Values = Mapping[str, Any]  # integers or NumPy arrays of them, by the names of variables
Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, eq=False)
class Atom:
    """A variable (`kind` is "var"), or a quotient, remainder, larger or smaller of terms."""

    kind: str
    name: str = ""
    terms: tuple[SizeTerm, ...] = ()
    by: int = 0
    low: int | None = None
    high: int | None = None

    @cached_property
    def text(self) -> str:
        """The atom in SMT-LIB; atoms are equal where their texts are."""
        if self.kind == "var":
            return self.name
        if self.kind in ("div", "mod"):
            return f"({self.kind} {self.terms[0].text} {self.by})"
        return f"({self.kind} {self.terms[0].text} {self.terms[1].text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def value(self, values: Values) -> Any:
        """Return the atom's value."""
        if self.kind == "var":
            return values[self.name]
        first, *more = (t.value(values) for t in self.terms)
        if self.kind == "div":
            return first // self.by
        if self.kind == "mod":
            return first % self.by
        return (np.maximum if self.kind == "larger" else np.minimum)(first, more[0])

    def rebuilt(self, terms: Mapping[str, SizeTerm]) -> SizeTerm:
        """Return the atom with variables replaced."""
        if self.kind == "var":
            return terms.get(self.name, SizeTerm({self: 1}))
        inner = [t.replaced(terms) for t in self.terms]
        if self.kind == "div":
            return inner[0] // self.by
        if self.kind == "mod":
            return inner[0] % self.by
        return larger(*inner) if self.kind == "larger" else smaller(*inner)


@dataclass(frozen=True, eq=False)
class SizeTerm:
    """The sum of `parts`, atoms with their factors, and of `constant`."""

    parts: Mapping[Atom, int] = field(default_factory=dict)
    constant: int = 0

    @cached_property
    def text(self) -> str:
        """The term in SMT-LIB; terms are equal where their texts are."""
        plus, minus = self.sides
        if not minus:
            return _sum(plus)
        return f"(- {_sum(plus)} {' '.join(minus)})" if plus else f"(- {_sum(minus)})"

    @cached_property
    def sides(self) -> tuple[list[str], list[str]]:
        """What is added and what is subtracted, each as texts."""
        items = sorted(self.parts.items(), key=lambda p: p[0].text)
        sides: tuple[list[str], list[str]] = [], []
        for a, f in items:
            sides[f < 0].append(a.text if abs(f) == 1 else f"(* {abs(f)} {a.text})")
        if self.constant:
            sides[self.constant < 0].append(str(abs(self.constant)))
        return sides

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return not self.parts and self.constant == other
        return isinstance(other, SizeTerm) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text

    @property
    def known(self) -> int | None:
        """The term's value, where it is a constant."""
        return None if self.parts else self.constant

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the variables in it."""
        found: set[str] = set()
        for atom in self.parts:
            found |= {atom.name} if atom.kind == "var" else set()
            found.update(*(t.variables for t in atom.terms))
        return frozenset(found)

    @cached_property
    def bounds(self) -> Bounds:
        """The least and the largest value that follow from those of the variables."""
        low: int | None = self.constant
        high: int | None = self.constant
        for atom, f in self.parts.items():
            ends = _bounds(atom)
            a, b = ends if f > 0 else (ends[1], ends[0])
            low = None if low is None or a is None else low + f * a
            high = None if high is None or b is None else high + f * b
        return low, high

    def value(self, values: Values) -> Any:
        """Return the term's value for values of its variables, arrays or integers."""
        return sum((f * a.value(values) for a, f in self.parts.items()), self.constant)

    def replaced(self, terms: Mapping[str, SizeTerm]) -> SizeTerm:
        """Return the term with variables replaced."""
        if not self.variables & terms.keys():
            return self
        return sum(
            (a.rebuilt(terms) * f for a, f in self.parts.items()), SizeTerm({}, self.constant)
        )

    def __add__(self, other: Any) -> SizeTerm:
        other = term(other)
        parts = dict(self.parts)
        for a, f in other.parts.items():
            parts[a] = parts.get(a, 0) + f
            if not parts[a]:
                del parts[a]
        return SizeTerm(parts, self.constant + other.constant)

    def __mul__(self, other: Any) -> SizeTerm:
        other = term(other)
        if self.known is None and other.known is None:
            raise Unproved(f"the product of {self.text} and {other.text} is not linear")
        open_term, by = (
            (self, other.constant) if other.known is not None else (other, self.constant)
        )
        parts = {a: f * by for a, f in open_term.parts.items()} if by else {}
        return SizeTerm(parts, open_term.constant * by)

    def __floordiv__(self, other: Any) -> SizeTerm:
        by = divisor(other)
        whole = SizeTerm(
            {a: f // by for a, f in self.parts.items() if f % by == 0}, self.constant // by
        )
        rest = SizeTerm({a: f for a, f in self.parts.items() if f % by}, self.constant % by)
        low, high = rest.bounds
        if low is not None and high is not None and low // by == high // by:
            return whole + low // by
        if by == 1:
            return self
        return whole + SizeTerm({Atom("div", terms=(rest,), by=by): 1})

    def __mod__(self, other: Any) -> SizeTerm:
        by = divisor(other)
        rest = SizeTerm({a: f % by for a, f in self.parts.items() if f % by}, self.constant % by)
        low, high = rest.bounds
        if low is not None and high is not None and low // by == high // by:
            return rest - low // by * by
        return SizeTerm({Atom("mod", terms=(rest,), by=by): 1})

    def __neg__(self) -> SizeTerm:
        return self * -1

    def __sub__(self, other: Any) -> SizeTerm:
        return self + term(other) * -1

    def __rsub__(self, other: Any) -> SizeTerm:
        return term(other) - self

    __radd__ = __add__
    __rmul__ = __mul__


def _bounds(atom: Atom) -> Bounds:
    if atom.kind == "var":
        return atom.low, atom.high
    if atom.kind == "mod":
        return 0, atom.by - 1
    (low, high), *more = (t.bounds for t in atom.terms)
    if atom.kind == "div":
        return (None if low is None else low // atom.by), (
            None if high is None else high // atom.by
        )
    a, b = more[0]
    if atom.kind == "larger":
        return _most(low, a, max), (None if high is None or b is None else max(high, b))
    return (None if low is None or a is None else min(low, a)), _most(high, b, min)


def _most(a: int | None, b: int | None, choose: Any) -> int | None:
    known = [v for v in (a, b) if v is not None]
    return choose(known) if known else None


def _sum(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"(+ {' '.join(texts)})" if texts else "0"


def term(value: Any) -> SizeTerm:
    """Return an integer as a term; a term as it is."""
    return value if isinstance(value, SizeTerm) else SizeTerm({}, int(value))


def variable(name: str, low: int | None = None, high: int | None = None) -> SizeTerm:
    """Return a variable that lies between two bounds, a constant where these are equal."""
    if low is not None and low == high:
        return term(low)
    return SizeTerm({Atom("var", name, low=low, high=high): 1})


def divisor(value: Any) -> int:
    """Return the constant that something is divided by; Unproved where it is open or below 1."""
    by = term(value).known
    if by is None or by < 1:
        raise Unproved(f"a division by {term(value).text}, which is no positive constant")
    return by


def larger(a: Any, b: Any) -> SizeTerm:
    """Return the larger of two terms."""
    return _extreme("larger", term(a), term(b))


def smaller(a: Any, b: Any) -> SizeTerm:
    """Return the smaller of two terms."""
    return _extreme("smaller", term(a), term(b))


def _extreme(kind: str, a: SizeTerm, b: SizeTerm) -> SizeTerm:
    low, high = (a - b).bounds
    if low is not None and low >= 0:
        return a if kind == "larger" else b
    if high is not None and high <= 0:
        return b if kind == "larger" else a
    return SizeTerm({Atom(kind, terms=(a, b)): 1})


@dataclass(frozen=True)
class SmtCondition:
    """That a term is at least 0, or with `equal` exactly 0."""

    term: SizeTerm
    equal: bool = False

    @property
    def known(self) -> bool | None:
        """Whether it holds, where that follows from the bounds."""
        low, high = self.term.bounds
        if self.equal:
            if low == high == 0:
                return True
            return False if (low or 0) > 0 or (high or 0) < 0 else None
        if low is not None and low >= 0:
            return True
        return False if high is not None and high < 0 else None

    @property
    def text(self) -> str:
        """The condition in SMT-LIB."""
        plus, minus = self.term.sides
        return f"({'=' if self.equal else '>='} {_sum(plus)} {_sum(minus)})"

    def value(self, values: Values) -> Any:
        """Return whether it holds."""
        found = self.term.value(values)
        return found == 0 if self.equal else found >= 0

    def replaced(self, terms: Mapping[str, SizeTerm]) -> SmtCondition:
        """Return the condition with variables replaced."""
        return SmtCondition(self.term.replaced(terms), self.equal)


def at_least(a: Any, b: Any) -> SmtCondition:
    """Return a >= b."""
    return SmtCondition(term(a) - b)


def equal(a: Any, b: Any) -> SmtCondition:
    """Return a == b."""
    return SmtCondition(term(a) - b, equal=True)


def within(a: Any, size: Any) -> tuple[SmtCondition, SmtCondition]:
    """Return 0 <= a < size."""
    return at_least(a, 0), at_least(term(size) - 1, a)


def all_of(conditions: Iterable[SmtCondition]) -> str:
    """Return the conjunction in SMT-LIB, without what is known to hold."""
    texts = list(dict.fromkeys(c.text for c in conditions if c.known is not True))
    if not texts:
        return "true"
    return texts[0] if len(texts) == 1 else f"(and {' '.join(texts)})"
