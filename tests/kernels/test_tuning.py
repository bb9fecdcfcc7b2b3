"""--tune: all ways to cut the work that may be the fastest are measured, and found again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels.candidate import Candidate, ConvProblem, best_of, every_cut, shared
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.threads import Threads
from irdeconv.runtime import choice
from irdeconv.runtime.choice import CLOSE, REPEATS, RIVAL, WORTH, Tuner
from support.kernels import convolved, deconvolved, integers, run

LAYER = ConvProblem((1, 2, 9), 3, 1, (3,), (1,), (1,), (1,), (9,))
FILTER = np.ones((1, 3, 2, 3), np.float32)
COST = 2 * WORTH


def way(name: str, cost: float, items: int = 1) -> Candidate:
    return Candidate(name, cost, 0, lambda w: lambda x, out, epilogue, team: None, items)


class Watch:
    """Takes times from a table; counts runs by what was measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.seconds, self.runs = seconds, dict[str, int]()
        monkeypatch.setattr(choice, "_time", self.time)
        monkeypatch.setattr(choice, "_MEASURED", {})

    def time(self, candidate: Candidate, *more: Any) -> float:
        key = f"{candidate.name}{candidate.items}"
        self.runs[key] = self.runs.get(key, 0) + more[-1]
        return self.seconds[key]


def choose(tuner: Tuner, candidates: list[Candidate]) -> Candidate:
    return tuner.choose("convolution", LAYER, candidates, FILTER, Threads()).candidate


def candidates() -> list[Candidate]:
    cuts = [way("a", COST), way("a", 1.5 * COST, 2), way("a", 2 * RIVAL * COST, 4)]
    return [best_of(cuts[0], cuts), way("b", 1.2 * COST), way("c", 2 * RIVAL * COST)]


def test_a_cut_wins_and_is_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watch = Watch(monkeypatch, a1=3.0, a2=1.0, b1=1.1)
    path = tmp_path / "folder" / "kernels.json"
    mask = os.umask(0o002)  # a file that the group may change would not be read again
    try:
        assert choose(Tuner(True, path), candidates()).items == 2
    finally:
        os.umask(mask)
    # Those beyond twice the least estimate are not measured, the slow one only once.
    assert watch.runs == {"a1": 1, "a2": 1 + REPEATS, "b1": 1 + REPEATS}
    watch.runs.clear()
    assert choose(Tuner(True), candidates()).items == 2  # from memory
    monkeypatch.setattr(choice, "_MEASURED", {})
    assert choose(Tuner(True, path), candidates()).items == 2  # from the file
    assert not watch.runs
    monkeypatch.setattr(choice, "_MEASURED", {})
    monkeypatch.setattr(choice, "processor", lambda: "another")
    assert choose(Tuner(True, path), candidates()).items == 2
    assert watch.runs


def test_a_single_fast_one_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch, a1=1.0, a2=1.1 * CLOSE, b1=1.2 * CLOSE)
    assert choose(Tuner(True), candidates()).items == 1
    assert watch.runs == {"a1": 1, "a2": 1, "b1": 1}


def test_what_is_gone_is_measured_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watch = Watch(monkeypatch, a1=3.0, a2=1.0, b1=2.0)
    path = tmp_path / "kernels.json"
    choose(Tuner(True, path), candidates())
    monkeypatch.setattr(choice, "_MEASURED", {})
    a, b, c = candidates()
    watch.runs.clear()
    assert choose(Tuner(True, path), [replace(a, cuts=()), b, c]).name == "b"
    assert set(watch.runs) == {"a1", "b1"}


def test_without_measuring_cuts_change_nothing() -> None:
    assert choose(Tuner(), candidates()).items == 1


def test_the_best_cut_knows_the_others() -> None:
    cuts = [way("a", COST, n) for n in (1, 2, 4)]
    best = shared(iter(cuts))
    assert best.items == 4
    assert [c.items for c in best.cuts] == [1, 2]
    assert [c.items for c in every_cut([best, way("a", COST, 2)])] == [4, 2]
    doubled = best.changed(lambda c: replace(c, cost=2 * c.cost))
    assert {c.cost for c in (doubled, *doubled.cuts)} == {2 * COST}


def test_cuts_that_threads_cannot_share_are_left_out() -> None:
    cuts = [way("a", COST, n) for n in (1, 2, 4, 8, 16)]
    assert [c.items for c in every_cut([best_of(cuts[3], cuts)])] == [8, 4, 16]
    assert [c.items for c in every_cut([best_of(cuts[1], cuts)])] == [2, 4, 8, 16]
    assert [c.items for c in every_cut([best_of(cuts[0], cuts)])] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_cut_computes_the_definition(dtype: str) -> None:
    strided = ConvProblem((2, 6, 7, 9), 4, 2, (3, 4), (2, 2), (1, 1), (1, 1), (13, 18), dtype)
    plain = ConvProblem((2, 6, 9, 8), 4, 2, (3, 3), (1, 1), (1, 1), (1, 1), (9, 8), dtype)
    deep = ConvProblem((1, 40, 12, 12), 40, 1, (2, 2), (2, 2), (1, 1), (0, 0), (24, 24), dtype)
    for problem in (strided, plain, deep):
        x, w = integers(problem, top=3)
        want = deconvolved(problem, x, w)
        for cut in every_cut(for_deconvolution(problem)):
            assert computed(cut, problem, x, w) == pytest.approx(want, abs=2e-2), cut.label
    point = replace(deep, kernel=(1, 1), strides=(1, 1), sizes=(12, 12))
    x, w = integers(point, top=3, convolution=True)
    want = convolved(point, x, w)
    for cut in every_cut(for_convolution(point)):
        assert computed(cut, point, x, w) == pytest.approx(want, abs=2e-2), cut.label


def computed(cut: Candidate, problem: ConvProblem, x: Any, w: Any) -> Any:
    out = np.empty(problem.out_shape, problem.dtype)
    run(cut, x, w, out)
    return out.astype(np.float64)
