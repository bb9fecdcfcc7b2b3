"""tools/fit_rates.py: known rates are found again from made-up times of the package's formulas."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Estimate
from irdeconv.kernels.machine import unscaled
from irdeconv.runtime.measure import Clock
from support.scripts import script

tool = script("fit_rates")
FAMILIES = tool.families()
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
def test_known_rates_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "KEPT", 1e-12)
    if name in ("winograd-numpy", "banded"):
        monkeypatch.setenv("IRDECONV_FAST", "0")
    family = FAMILIES[name]
    machine = Machine({name: other(family.rates, 3)}, disturbed=True)
    trials = machine.on_it(name, family.trials(COUNT, 1))
    assert len(trials) == COUNT
    times = tool.measure(trials, rounds=4, seconds=0.0, clock=machine.clock)
    fit = tool.fit(family.rates, [t.estimate for t in trials], times)
    truth = vars(machine.rates[name])
    seen = [
        rate
        for rate in truth
        if any(
            t.estimate.nanoseconds(replace(family.rates, **{rate: 1e6})) != t.estimate.cost
            for i, t in enumerate(trials)
            if i % tool.HELD_OUT
        )
    ]
    assert len(seen) > min(5, len(truth) // 2)
    for rate, value in vars(fit.fitted).items():
        want = truth[rate] if rate in seen else vars(family.rates)[rate]
        assert value == pytest.approx(want, rel=1e-3) or rate in ALIKE.get(name, ()), rate
    assert len(fit.after) == COUNT // tool.HELD_OUT
    if seen == list(truth):
        assert fit.after == pytest.approx([1] * len(fit.after), rel=1e-3)
    assert max(abs(v - 1) for v in fit.before) > 0.05


@pytest.mark.parametrize("seed", range(20))
def test_no_rate_is_negative_and_none_could_be_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.uniform(0, 1, (30, 6)) * 10.0 ** rng.integers(-4, 5, 6)
    b = (a * rng.uniform(-1, 1, 6) / a.mean(0)).sum(1) + 0.1 * rng.standard_normal(30)
    x = tool.non_negative(a, b)
    gradient = (a / np.sqrt((a * a).sum(0)) * (b - (a * x).sum(1))[:, None]).sum(0)
    assert (x >= 0).all()
    assert np.abs(gradient[x > 0]).max(initial=0) < 1e-8
    assert (gradient[x == 0] < 1e-8).all()


def test_what_is_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({"product": other(FAMILIES["product"].rates, 5)})
    draw = FAMILIES["product"].draw
    fake = replace(FAMILIES["product"], draw=lambda rng: machine.on_it("product", draw(rng)))
    monkeypatch.setattr(tool, "families", lambda: {"product": fake})
    monkeypatch.setattr(tool, "KEPT", 1e-12)
    path = tmp_path / "rates.json"
    argv = ["--only", "product", "--trials", "200", "--seconds", "0", "--json", str(path)]
    assert tool.main(argv, machine.clock) == 0
    document = json.loads(path.read_text())
    assert document["schema"] == tool.SCHEMA
    assert document["conditions"]["cpu"]
    found, truth = document["families"]["product"], unscaled(machine.rates["product"])
    assert found["rates"]["packed"][0] == unscaled(fake.rates).packed
    assert found["rates"]["packed"][1] == pytest.approx(truth.packed, rel=1e-3)
    assert found["ratio_after"] == {"median": pytest.approx(1, 1e-3), "p90": pytest.approx(1, 1e-3)}
    out = capsys.readouterr().out
    assert document["conditions"]["cpu"] in out
    assert "products.py: PRODUCT" in out
    assert f"{unscaled(fake.rates).packed:.4g}" in out
    assert "1.000" in out


def test_a_family_without_kernels_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IRDECONV_FAST", "0")
    monkeypatch.setattr(tool, "DRAWS", 1)
    assert tool.main(["--only", "residues", "--trials", "3"]) == 2
    assert "residues" in capsys.readouterr().err


def test_drawn_kernels_run() -> None:
    trials = [t for name in ("product", "convolution") for t in FAMILIES[name].trials(2, 7)]
    times = tool.measure(trials, rounds=1, seconds=0.0, clock=Machine({}).clock)
    assert times == [0.0] * 4
