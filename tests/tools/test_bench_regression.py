"""tools/bench_regression.py: its list of layers and its verdicts, on made-up times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ops.basic import Const
from irdeconv.runtime.measure import Clock, Sample
from support import oracle
from support.scripts import script

tool = script("bench_regression")
LAYERS = tool.read_layers(tool.LAYERS)
SMALL = tool.Layer("small", "none", [2, 4, 5, 3], 6, [3, 2], [2, 3], [1, 0], [1, 2], [1, 2], 2)


def test_every_layer_is_a_layer() -> None:
    assert len(LAYERS) >= 20
    assert len({layer.name for layer in LAYERS}) == len(LAYERS)
    for layer in LAYERS:
        (node,) = [n for n in layer.graph().nodes() if n.name == layer.name]
        shape = node.spec().shape
        assert shape[:2] == (layer.input[0], layer.outputs), layer.name
        assert min(shape) > 0


def test_the_list_covers_the_field() -> None:
    assert {len(layer.kernel) for layer in LAYERS} == {1, 2, 3}
    assert any(layer.groups > 1 for layer in LAYERS)
    assert any(layer.kernel == layer.strides for layer in LAYERS)
    assert any(layer.input[0] > 1 for layer in LAYERS)
    assert max(max(layer.strides) for layer in LAYERS) >= 8


def test_a_layer_computes_what_it_says() -> None:
    graph = SMALL.graph()
    (w,) = [n.op.data.array() for n in graph.nodes() if isinstance(n.op, Const) and n.name == "w"]
    x = np.random.default_rng(1).standard_normal(SMALL.input, np.float32)
    (got,) = SMALL.call("zero-insertion", False)().values()
    sizes = [2 * 4 + 2 + 1 - 2 + 1, 3 * 2 + 2 + 1 + 2]
    assert list(got.shape[2:]) == sizes
    want = oracle.deconvolution(x, w, (2, 3), (1, 2), [1, 0], sizes)
    size = oracle.deconvolution(np.abs(x), np.abs(w), (2, 3), (1, 2), [1, 0], sizes)
    terms = w.shape[1] * w[0, 0, 0].size
    assert np.all(np.abs(got - want) <= 2 * terms * 2.0**-24 * size)


def test_the_least_time_counts() -> None:
    samples = {"a": [Sample(1, 3.0), Sample(0.5, 2.0), Sample(9, 4.0)]}
    assert tool.least(samples) == {"a": 2.0}


def test_times_are_compared_in_matrix_products() -> None:
    old = {"a": 2.0, "b": 4.0, "gone": 1.0, "sgemm": 1.0}
    new = {"a": 4.0, "b": 4.0, "new": 1.0, "sgemm": 2.0}  # the processor runs at half speed
    assert tool.compare(old, new) == {"a": 1.0, "b": 0.5}
    assert tool.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_suspects_are_measured_again() -> None:
    old = {"fine": 1.0, "noisy": 1.0, "slow": 1.0, "sgemm": 1.0}
    new = {"fine": 1.05, "noisy": 1.3, "slow": 1.5, "sgemm": 1.0}
    asked: list[list[str]] = []

    def measure(names: Sequence[str]) -> dict[str, float]:
        asked.append(list(names))
        return {n: {"noisy": 1.02, "slow": 1.4, "sgemm": 1.1}[n] for n in names}

    assert tool.settle(old, new, measure, threshold=1.1, retries=2) == {"slow": 1.4}
    assert asked == [["noisy", "slow", "sgemm"], ["slow", "sgemm"]]
    assert new == {"fine": 1.05, "noisy": 1.02, "slow": 1.4, "sgemm": 1.0}
    assert tool.settle(old, dict(old), measure, threshold=1.1, retries=2) == {}
    assert len(asked) == 2


class Ticks:
    """Clocks that go on by a second a reading; processor time by `pace` seconds."""

    def __init__(self, pace: float = 1.0) -> None:
        self.times = {"wall": 0.0, "cpu": 0.0}
        self.steps = {"wall": 1.0, "cpu": pace}

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.read("wall"), cpu=lambda: self.read("cpu"))

    def read(self, name: str) -> float:
        self.times[name] += self.steps[name]
        return self.times[name]


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    row = {"name": "tiny", "network": "none", "input": [1, 2, 3], "outputs": 2, "kernel": [2],
           "strides": [2]}  # fmt: skip
    (tmp_path / "layers.json").write_text(json.dumps([row]))
    return ["--layers", str(tmp_path / "layers.json"), "--rounds", "1", "--seconds", "0"]


def test_a_measurement_and_its_comparison(small: list[str], tmp_path: Path, capsys: Any) -> None:
    first = tmp_path / "first.json"
    assert tool.main([*small, "-o", str(first)], Ticks().clock()) == 0
    content = json.loads(first.read_text())
    assert content["seconds"] == {"tiny": 1.0, "sgemm": 1.0}
    assert content["conditions"]["irdeconv"] == ird.__version__
    again = [*small, "--baseline", str(first)]
    assert tool.main(again, Ticks(2.0).clock()) == 0  # everything takes twice as long
    assert "geometric mean 1.000 of the baseline, 0 of 1 slower" in capsys.readouterr().out
    content["seconds"]["tiny"] = 0.5
    first.write_text(json.dumps(content))
    assert tool.main(again, Ticks().clock()) == 1
    assert "2.00 of the baseline  SLOWER" in capsys.readouterr().out
    assert tool.main([*again, "--threshold", "2.5"], Ticks().clock()) == 0


def test_what_cannot_be_compared(small: list[str], tmp_path: Path, capsys: Any) -> None:
    other = tmp_path / "other.json"
    conditions = {"cpu": "another processor"}
    times = {"tiny": 1.0, "sgemm": 1.0}
    content = {"schema": tool.SCHEMA, "conditions": conditions, "layers": {}, "seconds": times}
    other.write_text(json.dumps(content))
    assert tool.main([*small, "--baseline", str(other)], Ticks().clock()) == 2
    assert "another processor" in capsys.readouterr().err
    assert tool.main([*small, "--baseline", str(other), "--other-machine"], Ticks().clock()) == 0
    assert "of the baseline" not in capsys.readouterr().out  # it is of another layer "tiny"
    other.write_text("[]")
    assert tool.main([*small, "--baseline", str(other)]) == 2
    assert tool.main([*small, "--baseline", str(tmp_path / "none.json")]) == 2
    assert tool.main([*small, "--only", "huge"]) == 2
    assert tool.main([*small, "--rounds", "0"]) == 2
