"""Symbolic sizes: arithmetic, what follows from facts, and cases, against counting."""

import itertools
import random

import numpy as np
import pytest

from irdeconv.proof.model import Unproved
from irdeconv.proof.sizes import Case, every_case, refuted

CUBE = np.array(list(itertools.product(range(-8, 9), repeat=3))).T


def test_arithmetic_gives_ints_where_no_symbol_is_left() -> None:
    n = Case().symbol("n")
    assert n - n == 0
    assert type(n - n) is int
    assert str(n * 2 + 3 - n) == "n+3"
    assert str((n * 4 + 6) // 2) == "2*n+3"
    assert str(np.int64(3) * n - np.int64(1)) == "3*n-1"
    assert (n * 2 + 5) % 2 == 1


def test_a_floor_division_keeps_what_is_known_of_it() -> None:
    case = Case()
    n = case.symbol("n")
    half = n // 2
    assert case.implies(n - half * 2)
    assert case.implies(half * 2 + 1 - n)
    assert not case.implies(half * 2 - n)
    assert case.is_zero((n + 1) // 2 - (n - n // 2))
    assert not case.is_zero((n + 1) // 2 - n // 2)
    assert half - n // 2 == 0  # the same division is the same symbol
    assert n // 2 + (n + 1) // 2 == n  # the smaller and the larger half
    assert (3 - n) // 2 + (4 - n) // 2 == 3 - n


@pytest.mark.parametrize("divisor", [0, -2])
def test_other_divisors_are_refused(divisor: int) -> None:
    n = Case().symbol("n")
    with pytest.raises(Unproved, match="division"):
        n // divisor


def test_names_that_layers_share_are_different_symbols() -> None:
    case = Case()
    assert not case.is_zero(case.symbol("x[0]") - case.symbol("x[0]"))


def test_undecided_comparisons_split_the_sizes() -> None:
    seen = []

    def show(case: Case) -> None:
        n = case.symbol("n", 0, 20)
        seen.append(str(max(n * 2 - 9, 0)))

    assert every_case(show) == 2
    assert sorted(seen) == ["0", "2*n-9"]


def test_too_many_cases_are_refused() -> None:
    def show(case: Case) -> None:
        for i in range(20):
            bool(case.symbol(f"n{i}") >= 3)

    with pytest.raises(Unproved, match="cases"):
        every_case(show)


def test_what_has_a_solution_is_never_refuted() -> None:
    """Against all integers of a cube; most of what has none there is refuted."""
    rng, refuted_ones = random.Random(1), 0
    for _ in range(1500):
        rows = tuple(
            (
                tuple(((v,), rng.randint(-3, 3)) for v in "xyz" if rng.random() < 0.7),
                rng.randint(-6, 6),
            )
            for _ in range(rng.randint(2, 6))
        )
        if refuted(rows):
            refuted_ones += 1
            solved = np.ones(17**3, bool)
            for terms, constant in rows:
                solved &= sum(c * CUBE["xyz".index(m)] for (m,), c in terms) + constant >= 0
            assert not solved.any()
    assert refuted_ones > 300


def test_integers_between_bounds_are_found_by_parity() -> None:
    """w = 2q + 1, 4 <= w <= 6: only 5 is left, though 6 is a rational solution."""
    case = Case()
    w = case.symbol("w", 4, 6)
    case.facts += [w - 1 - w // 2 * 2]
    assert case.is_zero(w - 5)


@pytest.mark.parametrize(("low", "high"), [(2**24 + 1, None), (2**25, 2**25 + 8)])
def test_sizes_beyond_the_largest_are_refused(low: int, high: int | None) -> None:
    """Of facts without a solution everything would follow."""
    with pytest.raises(Unproved, match=f"x is {low} at least; sizes are followed up to {2**24}"):
        Case().symbol("x", low, high)
    with pytest.raises(Unproved, match="up to 65536"):
        Case(largest=2**16).symbol("x", 2**16 + 1)
    assert Case().symbol("x", 2**24, high=2**30) == 2**24


def test_facts_that_are_said_again_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    monkeypatch.setattr("irdeconv.proof.model.COUNTERS", [used.append])
    case = Case()
    n = case.symbol("n")

    def work() -> int:
        used.clear()
        assert case.implies(n + 1)
        assert not case.implies(n - 1)
        return sum(used)

    work()  # what is refuted once is kept
    before = work()
    case.facts += [n + 0] * 999
    assert work() == before
    case.facts.append(n - 1)
    assert case.implies(n - 1)
    assert case.implies(0)
    assert not case.implies(-1)
