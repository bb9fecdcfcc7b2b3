"""Open sizes: affine expressions in symbols, known facts, and cases (docs/proof.md, lemma 8).

Arithmetic on an `Expr` gives an `Expr`, or an int if no symbol is left. A comparison answers True
or False if the facts of the `Case`, inequalities e >= 0, decide it; otherwise the case is split:
one run goes on with True, another one with False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any

from irdeconv.proof.model import Unproved, spend

INEQUALITY = 768  # units of work for an inequality that is made; a 16th for one that is read
MOST_CASES = 1024
MOST_FACTS = 600  # of one elimination; beyond, nothing is said to follow
LARGEST_SIZES = (2**24, 2**20, 2**16)  # open sizes go up to here, the first that is possible

Monomial = tuple[tuple[int, str], ...]  # symbols: a number of its own, and its name
Size = Any  # int or Expr
Answers = tuple[bool, ...]


class SizesTooLarge(Unproved):
    """Numbers that are computed from the largest sizes do not fit their type."""


class SizesTooSmall(Unproved):
    """A size of 0 would mean something else."""


class Expr:
    """A sum of coefficient * product of symbols, plus a constant; there is at least one symbol."""

    __array_ufunc__ = None  # NumPy's scalars leave the arithmetic to this class
    __slots__ = ("case", "constant", "terms")

    def __init__(self, case: Case, terms: Mapping[Monomial, int], constant: int) -> None:
        self.case, self.constant = case, constant
        self.terms = {m: c for m, c in sorted(terms.items()) if c}

    @staticmethod
    def make(case: Case, terms: Mapping[Monomial, int], constant: int) -> Size:
        """Return an expression, or the int that it is."""
        return Expr(case, terms, constant) if any(terms.values()) else constant

    def __add__(self, other: Any) -> Size:
        terms, constant = _parts(other)
        found = dict(self.terms)
        for m, c in terms.items():
            found[m] = found.get(m, 0) + c
        return Expr.make(self.case, found, self.constant + constant)

    def __mul__(self, other: Any) -> Size:
        found: dict[Monomial, int] = {}
        (mine, a), (theirs, b) = _parts(self), _parts(other)
        for m, c in (*mine.items(), ((), a)):
            for n, d in (*theirs.items(), ((), b)):
                key = tuple(sorted(m + n))
                found[key] = found.get(key, 0) + c * d
        return Expr.make(self.case, found, found.pop((), 0))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Any) -> Size:
        return self + other * -1

    def __rsub__(self, other: Any) -> Size:
        return self * -1 + other

    def __floordiv__(self, divisor: Any) -> Size:
        return self.case.quotient(self, divisor)

    def __mod__(self, divisor: Any) -> Size:
        return self - self // divisor * divisor

    def __bool__(self) -> bool:
        return not self.case.same(self)

    def __ge__(self, other: Any) -> bool:
        return self.case.decide(self - other)

    def __gt__(self, other: Any) -> bool:
        return self.case.decide(self - other - 1)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, str):
            return False
        return self.case.same(self - other)

    def __hash__(self) -> int:
        return hash((tuple(self.terms.items()), self.constant))

    def __str__(self) -> str:
        parts = [f"{c:+d}*{'*'.join(name for _, name in m)}" for m, c in self.terms.items()]
        parts += [f"{self.constant:+d}"] * (self.constant != 0)
        return "".join(parts).replace("+1*", "+").replace("-1*", "-").removeprefix("+")

    __repr__ = __str__


def _parts(value: Any) -> tuple[Mapping[Monomial, int], int]:
    """Return the terms and the constant of an expression or integer."""
    if isinstance(value, Expr):
        return value.terms, value.constant
    return {}, value.__index__()


def is_int(n: Any, value: int) -> bool:
    """Return whether a size is known to be `value`; an open one is not compared: no case splits."""
    return type(n) is int and n == value


def is_empty(shape: Iterable[Any]) -> bool:
    """Return whether one of the sizes is known to be 0."""
    return any(is_int(n, 0) for n in shape)


def positive(n: Size) -> Size:
    """Return max(n, 0); an open size may split the case."""
    # One question for max(e, 0) and max(-e, 0), which is the former less e.
    if isinstance(n, Expr) and next(iter(n.terms.values())) < 0:
        return positive(-n) + n
    return n if n >= 0 else 0


def ratio(a: Size, b: Size) -> int:
    """Return the number that b is to be multiplied by to get a, 0 if there is none."""
    if type(b) is int:
        return a // b if type(a) is int and b and a % b == 0 else 0
    [(m, n), *_] = b.terms.items()
    f = a.terms.get(m, 0) // n if isinstance(a, Expr) else 0
    left = a - b * f
    return f if is_int(left, 0) else 0


class Case:
    """The assumptions on sizes: facts e >= 0, some of them answers that split off this case."""

    def __init__(self, answers: Answers = (), largest: int = LARGEST_SIZES[0]) -> None:
        self.largest = largest
        self.facts: list[Expr] = []
        self.count = 0
        self.answers, self.asked = answers, 0
        self.others: list[Answers] = []
        self.quotients: dict[Any, Expr] = {}
        self.places: dict[Monomial, list[int]] = {}  # of the facts with a symbol, if listed
        self.rows: list[tuple[Terms, int]] = []  # the listed facts
        self.listed: set[tuple[Terms, int]] = set()  # to find those that are said again

    def symbol(self, name: str, low: int = 0, high: int | None = None) -> Expr:
        """Return a new symbol for an integer from `low` to `high` (None: the largest)."""
        top = self.largest if high is None else min(self.largest, high)
        if low > top:  # from facts without a solution everything would follow
            raise Unproved(f"{name} is {low} at least; sizes are followed up to {top}")
        made = self.free(name)
        self.facts += [made - low, top - made]
        return made

    def free(self, name: str) -> Expr:
        """Return a new symbol of which nothing is known; several may have the same name."""
        self.count += 1
        return Expr(self, {((self.count, name),): 1}, 0)

    def quotient(self, e: Expr, divisor: Any) -> Size:
        """Return floor(e / divisor) for a positive integer."""
        if isinstance(divisor, Expr) or divisor < 1:
            raise Unproved(f"the division of {e} by {divisor} is not followed")
        c = int(divisor)
        whole = Expr.make(self, {m: f // c for m, f in e.terms.items()}, e.constant // c)
        rest = e - whole * c
        if not isinstance(rest, Expr):
            return whole  # 0 <= rest < c
        # Otherwise ceil(n/2) would be a symbol that nothing joins to floor(n/2).
        if c == 2 and rest.constant == 1:  # one symbol for both halves: they add up to the whole
            return whole + (rest - 1) - self.quotient(rest - 1, 2)
        key = (tuple(rest.terms.items()), rest.constant, c)
        if key not in self.quotients:
            q = self.quotients[key] = self.free(f"floor(({rest})/{c})")
            self.facts += [rest - q * c, q * c + (c - 1) - rest]
        return self.quotients[key] + whole

    def decide(self, e: Size) -> bool:
        """Return whether e >= 0, if need be by splitting the case."""
        if not isinstance(e, Expr):
            return bool(e >= 0)
        if self.implies(e):
            return True
        if self.implies(-1 - e):
            return False
        if self.asked == len(self.answers):
            self.others.append((*self.answers, False))
            self.answers += (True,)
        answer = self.answers[self.asked]
        self.asked += 1
        # The other answer is a case of its own in `others`, so no size is lost.
        self.facts.append(e if answer else -1 - e)
        return answer

    def same(self, e: Size) -> bool:
        """Return whether e == 0."""
        return self.decide(e) and self.decide(-e)

    def is_zero(self, e: Size) -> bool:
        """Return whether e == 0 follows, without splitting the case."""
        # Not `e == 0`, which would split the case: a proof needs this in each case anyway.
        return self.implies(e) and self.implies(-e) if isinstance(e, Expr) else bool(e == 0)

    def implies(self, e: Size, given: Iterable[Size] = ()) -> bool:
        """Return whether e >= 0 follows from the facts and `given` (expressions >= 0)."""
        return self.excludes([*given, -1 - e])

    def excludes(self, given: Iterable[Size]) -> bool:
        """Return whether the facts exclude that all of `given` are >= 0 at once."""
        given = [*given]
        if all(isinstance(e, int) for e in given):  # the facts are about symbols
            return any(e < 0 for e in given)
        rows = [_parts(e) for e in given]
        for e in self.facts[len(self.rows) :]:
            row = tuple(e.terms.items()), e.constant
            for m in () if row in self.listed else e.terms:
                self.places.setdefault(m, []).append(len(self.rows))
            self.rows.append(row)
            self.listed.add(row)
        found, reached = set[int](), set[Monomial]()
        todo = {m for terms, _ in rows for m in terms}
        while todo:  # only what shares symbols with the question can matter
            fresh = {i for m in todo for i in self.places.get(m, ())} - found
            found |= fresh
            reached |= todo
            todo = {m for i in fresh for m in self.facts[i].terms} - reached
        spend(INEQUALITY // 16 * (16 + len(found)))
        own = ((tuple(terms.items()), c) for terms, c in rows)
        return refuted((*own, *(self.rows[i] for i in sorted(found))))


Factors = Mapping[Monomial, int]
Terms = tuple[tuple[Monomial, int], ...]
Rows = dict[Terms, int]  # the terms of an inequality, its constant


def _keep(rows: Rows, terms: Factors, constant: int) -> None:
    """Add an inequality; of those with the same terms the tightest is kept."""
    left = {m: c for m, c in terms.items() if c}
    g = gcd(*left.values()) or 1
    key = tuple(sorted((m, c // g) for m, c in left.items()))
    # n >= -c/g of integers is n >= ceil(-c/g): a system without integer points becomes one without
    # rational ones, for example 2*n = 1.
    constant = constant // g if left else constant
    rows[key] = min(constant, rows.get(key, constant))


def _sum(p: int, a: Factors, q: int, b: Factors) -> dict[Monomial, int]:
    return {m: p * a.get(m, 0) + q * b.get(m, 0) for m in {*a, *b}}


@lru_cache(maxsize=4096)  # a proof asks the same of each tap, and again in each case of the sizes
def refuted(given: tuple[tuple[Terms, int], ...]) -> bool:
    """Return whether the inequalities sum(terms) + constant >= 0 have no solution in integers."""
    rows: Rows = {}
    for items, constant in given:
        _keep(rows, dict(items), constant)
    # Each round removes one symbol. Rows may grow by the square each time, hence the limit; more
    # rows than that mean "does not follow", which is never wrong.
    while len(rows) <= MOST_FACTS and rows.get((), 0) >= 0:
        found = [(dict(key), constant) for key, constant in rows.items() if key]
        if not found:
            return False
        spend(INEQUALITY * len(found))
        equation, rows = _equation(rows), {}
        if equation:  # solved for a symbol, it may be put into all others
            solved, same, gone = equation
            for terms, constant in found:
                f = -terms.get(gone, 0) * solved[gone]
                _keep(rows, _sum(1, terms, f, solved), constant + f * same)
            continue
        # The symbol that leaves the fewest rows goes first; ties go by name, so runs are alike.
        gone = min({m for terms, _ in found for m in terms}, key=lambda m: (_pairs(found, m), m))
        for terms, constant in found:
            if gone not in terms:
                _keep(rows, terms, constant)
        for low, a in (row for row in found if row[0].get(gone, 0) > 0):
            for high, b in (row for row in found if row[0].get(gone, 0) < 0):
                spend(INEQUALITY)
                p, q = -high[gone], low[gone]
                _keep(rows, _sum(p, low, q, high), p * a + q * b)
                if len(rows) > MOST_FACTS:
                    return False
    return rows.get((), 0) < 0


def _pairs(rows: list[tuple[dict[Monomial, int], int]], m: Monomial) -> int:
    """Return how many inequalities replace those that hold a symbol."""
    signs = [terms.get(m, 0) for terms, _ in rows]
    return sum(c > 0 for c in signs) * sum(c < 0 for c in signs)


def _equation(rows: Rows) -> tuple[dict[Monomial, int], int, Monomial] | None:
    """Return terms and constant of two rows that say = 0 together, and a symbol with factor 1."""
    for key, constant in rows.items():
        if rows.get(tuple((m, -c) for m, c in key)) == -constant:
            for m, c in key:
                if abs(c) == 1:
                    return dict(key), constant, m
    return None


def every_case(prove: Callable[[Case], None], largest: int = LARGEST_SIZES[0]) -> int:
    """Run a proof for all cases into which its questions split the sizes; return their number."""
    pending: list[Answers] = [()]
    done = 0
    while pending:
        case = Case(pending.pop(), largest)
        prove(case)
        pending += case.others
        done += 1
        if done + len(pending) > MOST_CASES:
            raise Unproved(f"the sizes fall into more than {MOST_CASES} cases")
    return done
