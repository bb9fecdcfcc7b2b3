"""Shapes that follow from constants: inference has OpenVINO's or none, and proofs rest on no other.

`support.facts` draws the expressions. OpenVINO says which shape they decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

import irdeconv as ird
from irdeconv.base.errors import UnsupportedError
from irdeconv.rewrite.infer_specs import infer_specs
from support.facts import SHAPE, Drawn, alike, contradicts, drawn, fact_pair, truth
from support.live.runtime import Runtime
from support.verdicts import ACCEPTED, CRASHED, REFUSED, answer

pytestmark = pytest.mark.oracles
DATA = (np.arange(72, dtype=np.float32) % 13 + 1).reshape(SHAPE)
VECTOR = np.arange(12, dtype=np.float32)
# OpenVINO has other numbers for these than NumPy, which decide a shape.
OTHERWISE = {
    "quotients": "i64 -7 Divide:2|i32 -9 Divide:4|i64 -1 Divide:2|i64 7 Divide:-2|i32 -99 Divide:7",
    "conversions": (
        "f64 300.2 Convert:i8 Convert:i16|f64 -1000.5 Convert:u8 Convert:i16|f64 200 Convert:i8|"
        "f64 1e300 Convert:i32|f64 inf Convert:i8"
    ),
    "functions of integers": "i64 1 Exp|i32 4 Exp|i64 4 Exp|i32 5 Log|i64 13 Log",
    "overflow": (
        "i16 30000 Multiply:3|u16 3 Subtract:5|i16 -30000 Subtract:9000|u16 60000 Multiply:2|"
        "i16 200 Multiply:200"
    ),
    "rounding": (
        "f32 0.3 Tanh Multiply:16777216|f32 0.9 Tanh Multiply:16777216|"
        "f32 0.7 Sigmoid Multiply:16777216|f32 0.2 Sigmoid Multiply:16777216|"
        "f32 -0.8 Exp Multiply:16777216"
    ),
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def _sweep(numbers: range, folder: Path, runtime: Runtime) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number in numbers:
        d = drawn(11, number)
        if isinstance(d, Drawn):
            wrong = contradicts(d, truth(d.graph, folder / "m.xml", runtime, VECTOR))
            assert not wrong, f"number {number}: {wrong}"
            seen["static" if d.inferred else "open"] += 1
    return seen


def _judge(pair: Any, folder: Path, runtime: Runtime) -> tuple[str, str]:
    """Return what OpenVINO and irdeconv say of a pair."""
    paths = folder / "a.xml", folder / "b.xml"
    graphs = pair.original, pair.lowered
    a, b = (truth(g, p, runtime, DATA) for g, p in zip(graphs, paths, strict=True))
    real = "same" if alike(a, b) else "none" if a.kind == b.kind == "refused" else "differ"
    return real, answer(*paths)[0]


def _sweep_pairs(numbers: range, folder: Path, runtime: Runtime) -> Counter[tuple[str, str]]:
    seen: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        pair = fact_pair(12, number)
        if pair is not None:
            found = _judge(pair, folder, runtime)
            assert found != ("differ", ACCEPTED), f"number {number}: {pair.steps}"
            assert found[1] != CRASHED, f"number {number}: {pair.steps}"
            seen[found] += 1
    return seen


def test_inferred_shapes_are_openvinos(tmp_path: Path, runtime: Runtime) -> None:
    seen = _sweep(range(60), tmp_path, runtime)
    assert min(seen["static"], seen["open"]) > 9


def test_no_pair_that_differs_is_accepted(tmp_path: Path, runtime: Runtime) -> None:
    seen = _sweep_pairs(range(16), tmp_path, runtime)
    assert seen["same", ACCEPTED] > 3


@pytest.mark.slow
def test_inferred_shapes_are_openvinos_in_the_sweep(tmp_path: Path, runtime: Runtime) -> None:
    _sweep(range(2_000), tmp_path, runtime)


@pytest.mark.slow
def test_no_pair_of_the_sweep_is_accepted(tmp_path: Path, runtime: Runtime) -> None:
    _sweep_pairs(range(2_000), tmp_path, runtime)


@pytest.mark.parametrize("cause", OTHERWISE)
def test_numbers_that_openvino_has_otherwise(cause: str, tmp_path: Path, runtime: Runtime) -> None:
    """No proof decides by them, and no run, but those that irdeconv folds as OpenVINO does."""
    rows = OTHERWISE[cause].split("|")
    for number, row in enumerate(rows):
        pair = fact_pair(13, number, row)
        assert pair is not None
        assert _judge(pair, tmp_path, runtime) == ("differ", REFUSED), row
        if cause == "quotients":
            theirs = truth(pair.original, tmp_path / "a.xml", runtime, DATA)
            assert np.array_equal(ird.run(pair.original, {"x": DATA})["y"], theirs.arrays[0])
            continue
        with pytest.raises(UnsupportedError, match="E305"):
            ird.run(pair.original, {"x": DATA})
        found = infer_specs(pair.original.copy(), remarks=True)
        assert "W304" in {d.code for d in found}
    assert len(rows) == 5
