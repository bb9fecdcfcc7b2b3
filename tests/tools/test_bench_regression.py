"""The scripts that measure kernels: lists of layers, verdicts and rates, on made-up times."""

import json
import random
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Estimate
from irdeconv.ops.basic import Const
from irdeconv.runtime.measure import Clock
from support import oracle
from support.commands import Capture, Patch
from support.scripts import script

tool = script("bench_regression")
LAYERS = tool.read_layers(tool.LAYERS)
SMALL = tool.layer_of(
    {"input": [2, 4, 5, 3], "outputs": 6, "kernel": [3, 2], "strides": [2, 3], "pads": [1, 0]}
    | {"output_padding": [1, 2], "dilations": [1, 2], "groups": 2}
)


def test_every_layer_is_a_layer() -> None:
    assert len(LAYERS) >= 20
    rows = json.loads(tool.LAYERS.read_text("utf-8"))
    assert [row["name"] for row in rows] == list(LAYERS)  # each name is there once
    for row, (name, layer) in zip(rows, LAYERS.items(), strict=True):
        (node,) = tool.graph_of(layer).find("deconv")
        shape = node.spec().shape
        assert shape[:2] == (row["input"][0], row["outputs"]), name
        assert min(shape) > 0


def test_a_layer_computes_what_it_says() -> None:
    graph = tool.graph_of(SMALL)
    (w,) = [n.op.data.array() for n in graph.nodes() if isinstance(n.op, Const) and n.name == "w"]
    x = np.random.default_rng(1).standard_normal(SMALL.data_shape, np.float32)
    (got,) = tool.call_of(SMALL)().values()
    sizes = [2 * 4 + 2 + 1 - 2 + 1, 3 * 2 + 2 + 1 + 2]
    assert list(got.shape[2:]) == sizes
    want = oracle.deconvolution(x, w, (2, 3), (1, 2), [1, 0], sizes)
    size = oracle.deconvolution(np.abs(x), np.abs(w), (2, 3), (1, 2), [1, 0], sizes)
    terms = w.shape[1] * w[0, 0, 0].size
    assert np.all(np.abs(got - want) <= 2 * terms * 2.0**-24 * size)


# tools/compare_picks.py: its lists of layers and its verdicts, on made-up times.


picks = script("compare_picks")
listed = cache(picks.listed)


def test_the_lists_differ_and_the_drawn_one_depends_on_the_seed() -> None:
    public, held_out = (listed(p) for p in (picks.bench_regression.LAYERS, picks.HELD_OUT))
    assert len(public) >= 20
    assert len(held_out) >= 20
    problems = {t.problem for t in public}
    assert not any(t.problem in problems for t in held_out)
    first, again, other = (picks.drawn(6, seed) for seed in (1, 1, 2))
    assert [t.problem for t in first] == [t.problem for t in again] != [t.problem for t in other]
    assert {t.deconvolution for t in first} == {True, False}


@pytest.mark.parametrize(("most", "code"), [("1.0", 1), ("1e9", 0)])
def test_a_mean_above_the_limit_fails(most: str, code: int, capsys: Capture) -> None:
    """A clock whose steps become shorter makes the first candidate the worst."""
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) ** 0.5)
    layers = listed(picks.bench_regression.LAYERS)
    name = min(
        (t for t in layers if len(t.candidates) > 1), key=lambda t: t.candidates[0].cost
    ).name
    args = ["--list", "public", "--only", name, "--rounds", "1", "--seconds", "0"]
    assert picks.main([*args, "--most", most], clock) == code
    assert "geometric mean of pick over best" in capsys.readouterr().out


def test_what_the_picks_cost_without_a_family(capsys: Capture) -> None:
    """Only layers whose pick changes are timed; the first one takes longer by this clock."""
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) ** 0.5)
    layers = listed(picks.bench_regression.LAYERS)
    pick = min((t for t in layers), key=lambda t: t.candidates[0].cost)
    args = ["--list", "public", "--only", pick.name, "--rounds", "1", "--seconds", "0"]
    families = [*pick.candidates[0].name.split(), "no-such-kernel"]
    assert picks.main([*args, "--without", *families], clock) == 1
    printed = capsys.readouterr().out
    assert f"{pick.candidates[0].name} " in printed.partition(", all: ")[2]
    assert "1 changed" in printed
    assert picks.main([*args, "--without", "no-such-kernel"], clock) == 0
    assert "0 changed" in capsys.readouterr().out


# tools/fit_rates.py: known rates are found again from made-up times of the package's formulas.


rates = script("fit_rates")
FAMILIES = rates.families()
COMPILED = {"depthwise", "direct", "residues", "winograd"}
needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")
COUNT = 90
# A frame is copied row by row. Products of points, of inputs, and of the points beyond the inputs
# are no three numbers.
ALIKE = {
    "depthwise": ("runs", "looped"),
    "winograd-numpy": ("interpolated", "overlapped", "written"),
    "wide": ("items", "calls"),
}


class Machine:
    """A clock that only trials move on: each call takes what its estimate says for given rates."""

    def __init__(self, rates: dict[str, Any], disturbed: bool = False) -> None:
        self.now, self.rates, self.calls, self.disturbed = 0.0, rates, 0, disturbed
        self.clock = Clock(wall=lambda: self.now, cpu=lambda: self.now)

    def run(self, family: str, estimate: Estimate) -> None:
        self.calls += 1
        self.now += 1e-9 * estimate.nanoseconds(self.rates[family])
        if self.disturbed and self.calls % 7 == 0:
            self.now += 1e-3

    def on_it(self, family: str, trials: list[Any]) -> list[Any]:
        def prepare(estimate: Estimate) -> Any:
            return lambda: lambda: self.run(family, estimate)

        return [replace(t, prepare=prepare(t.estimate)) for t in trials]


def other(rates: Any, seed: int) -> Any:
    """Return rates of another processor."""
    rng = random.Random(seed)
    return replace(rates, **{n: max(v, 0.01) * rng.uniform(0.3, 3) for n, v in vars(rates).items()})


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[needs_numba] if n in COMPILED else []) for n in FAMILIES]
)
def test_known_rates_are_found(name: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(rates, "KEPT", 1e-12)
    if name in ("winograd-numpy", "banded"):
        monkeypatch.setenv("IRDECONV_FAST", "0")
    family = FAMILIES[name]
    machine = Machine({name: other(family.rates, 3)}, disturbed=True)
    trials = machine.on_it(name, family.trials(COUNT, 1))
    assert len(trials) == COUNT
    times = rates.measure(trials, rounds=4, seconds=0.0, clock=machine.clock)
    fit = rates.fit(family.rates, [t.estimate for t in trials], times)
    truth = vars(machine.rates[name])
    seen = [
        rate
        for rate in truth
        if any(
            t.estimate.nanoseconds(replace(family.rates, **{rate: 1e6})) != t.estimate.cost
            for i, t in enumerate(trials)
            if i % rates.HELD_OUT
        )
    ]
    assert len(seen) > min(5, len(truth) // 2)
    for rate, value in vars(fit.fitted).items():
        want = truth[rate] if rate in seen else vars(family.rates)[rate]
        assert value == pytest.approx(want, rel=1e-3) or rate in ALIKE.get(name, ()), rate
    assert len(fit.after) == COUNT // rates.HELD_OUT
    if seen == list(truth):
        assert fit.after == pytest.approx([1] * len(fit.after), rel=1e-3)
    assert max(abs(v - 1) for v in fit.before) > 0.05


@pytest.mark.parametrize("seed", range(20))
def test_no_rate_is_negative_and_none_could_be_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.uniform(0, 1, (30, 6)) * 10.0 ** rng.integers(-4, 5, 6)
    b = (a * rng.uniform(-1, 1, 6) / a.mean(0)).sum(1) + 0.1 * rng.standard_normal(30)
    x = rates.non_negative(a, b)
    gradient = (a / np.sqrt((a * a).sum(0)) * (b - (a * x).sum(1))[:, None]).sum(0)
    assert (x >= 0).all()
    assert np.abs(gradient[x > 0]).max(initial=0) < 1e-8
    assert (gradient[x == 0] < 1e-8).all()
