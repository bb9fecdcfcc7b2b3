"""tools/compare_picks.py: its lists of layers and its verdicts, on made-up times."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from irdeconv.runtime.measure import Clock
from support.scripts import script

tool = script("compare_picks")


def test_the_lists_differ_and_the_drawn_one_depends_on_the_seed() -> None:
    public, held_out = (tool.listed(p) for p in (tool.bench_regression.LAYERS, tool.HELD_OUT))
    assert len(public) >= 20
    assert len(held_out) >= 20
    problems = {t.problem for t in public}
    assert not any(t.problem in problems for t in held_out)
    first, again, other = (tool.drawn(6, seed) for seed in (1, 1, 2))
    assert [t.problem for t in first] == [t.problem for t in again] != [t.problem for t in other]
    assert {t.deconvolution for t in first} == {True, False}


def test_problems_are_those_of_the_layers() -> None:
    for layer in tool.bench_regression.read_layers(tool.HELD_OUT):
        graph = layer.graph()
        (node,) = [n for n in graph.nodes() if n.name == layer.name]
        assert tool.problem_of(layer).out_shape == node.spec().shape


def test_candidates_are_sorted_and_the_far_ones_left_out() -> None:
    for task in tool.listed(tool.bench_regression.LAYERS):
        costs = [c.cost for c in task.candidates]
        assert costs == sorted(costs)
        assert costs[-1] <= tool.FAR * costs[0]


def picked(*times: float) -> Any:
    task = tool.listed(tool.bench_regression.LAYERS)[0]
    return tool.Picked(task, times)


def test_the_pick_is_compared_with_the_best() -> None:
    assert picked(3.0, 2.0, 5.0).ratio == 1.5
    assert picked(2.0, 3.0).ratio == 1.0


@pytest.mark.parametrize(("most", "code"), [("1.0", 1), ("1e9", 0)])
def test_a_mean_above_the_limit_fails(
    most: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock whose steps become shorter makes the first candidate the worst."""
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) ** 0.5)
    layers = tool.listed(tool.bench_regression.LAYERS)
    name = min(
        (t for t in layers if len(t.candidates) > 1), key=lambda t: t.candidates[0].cost
    ).name
    args = ["--list", "public", "--only", name, "--rounds", "1", "--seconds", "0"]
    assert tool.main([*args, "--most", most], clock) == code
    assert "geometric mean of pick over best" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "code"), [([], 1), (["--most", "1e9"], 0)])
def test_the_pick_beside_that_of_numpy_alone(
    most: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one that is measured takes longest by this clock."""
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) ** 0.5)
    task = tool.listed(tool.HELD_OUT)[0].beside_numpy()
    assert len(task.candidates) == 2
    args = ["--list", "held-out", "--numpy", "--only", task.name, "--rounds", "1", "--seconds", "0"]
    assert tool.main([*args, *most], clock) == code
    assert "worst" in capsys.readouterr().out


def test_what_the_picks_cost_without_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    """Only layers whose pick changes are timed; the first one takes longer by this clock."""
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) ** 0.5)
    layers = tool.listed(tool.bench_regression.LAYERS)
    pick = min((t for t in layers), key=lambda t: t.candidates[0].cost)
    args = ["--list", "public", "--only", pick.name, "--rounds", "1", "--seconds", "0"]
    families = [*pick.candidates[0].name.split(), "no-such-kernel"]
    assert tool.main([*args, "--without", *families], clock) == 1
    printed = capsys.readouterr().out
    assert f"{pick.candidates[0].name} " in printed.partition(", all: ")[2]
    assert "1 changed" in printed
    assert tool.main([*args, "--without", "no-such-kernel"], clock) == 0
    assert "0 changed" in capsys.readouterr().out


def test_kernels_are_left_out_wherever_they_are_listed() -> None:
    families = ["direct", "winograd*", "single"]
    for task in tool.drawn(12, 3):
        first, *rest = task.beside_others(families).candidates
        assert not set(first.name.split()) & {"direct", "single"}
        assert "winograd" not in first.name
        assert rest == ([] if first.label == task.candidates[0].label else [task.candidates[0]])


def test_nothing_to_measure_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--list", "held-out", "--only", "no such layer"]) == 2
    assert "no layer" in capsys.readouterr().err
