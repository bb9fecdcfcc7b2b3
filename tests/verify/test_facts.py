"""Shapes that follow from constants: inference has OpenVINO's or none, and proofs rest on no other.

`support.facts` draws the expressions. OpenVINO says which shape they decide.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UnsupportedError
from irdeconv.ir.spec import is_static
from irdeconv.rewrite.infer_specs import infer_specs
from support.facts import SHAPE, alike, contradicts, drawn, fact_pair, truth
from support.live.runtime import Runtime
from support.sweeps import parts
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


def _judge(pair: Any, folder: Path, runtime: Runtime) -> tuple[str, str]:
    """Return what OpenVINO and irdeconv say of a pair."""
    paths = folder / "a.xml", folder / "b.xml"
    a, b = (truth(g, p, runtime, DATA) for g, p in zip(pair, paths, strict=True))
    # Nothing is claimed of an original that does not run.
    real = "same" if alike(a, b) else "differ" if a.kind == "ran" else "none"
    return real, answer(*paths)[0]


def _shapes(numbers: range, folder: Path, runtime: Runtime) -> Counter[bool]:
    seen: Counter[bool] = Counter()
    for number in numbers:
        found = drawn(11, number)
        if found is not None:
            shape = found[0].spec(found[1]).shape
            theirs = truth(found[0], folder / "m.xml", runtime, VECTOR)
            assert not contradicts(shape, theirs), number
            seen[is_static(shape)] += 1
    return seen


def _pairs(numbers: range, folder: Path, runtime: Runtime) -> Counter[tuple[str, str]]:
    pairs = {number: fact_pair(12, number) for number in numbers}
    judged = {n: _judge(pair, folder, runtime) for n, pair in pairs.items() if pair is not None}
    wrong = [n for n, v in judged.items() if v == ("differ", ACCEPTED) or v[1] == CRASHED]
    assert not wrong
    return Counter(judged.values())


def test_inferred_shapes_are_openvinos(tmp_path: Path, runtime: Runtime) -> None:
    assert min(_shapes(range(25), tmp_path, runtime).values()) > 3


def test_no_pair_that_differs_is_accepted(tmp_path: Path, runtime: Runtime) -> None:
    assert _pairs(range(8), tmp_path, runtime)["same", ACCEPTED] > 0


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [_shapes, _pairs])
def test_two_thousand(sweep: Any, tmp_path: Path, runtime: Runtime) -> None:
    sweep(range(2_000), tmp_path, runtime)


@pytest.mark.parametrize("most", parts(1, (2, 5)))
@pytest.mark.parametrize("cause", OTHERWISE)
def test_numbers_that_openvino_has_otherwise(
    cause: str, most: int, tmp_path: Path, runtime: Runtime
) -> None:
    """No proof decides by them, and no run, but those that irdeconv folds as OpenVINO does."""
    rows = OTHERWISE[cause].split("|")
    for number, row in enumerate(rows[:most]):
        pair = fact_pair(13, number, row)
        assert pair is not None
        assert _judge(pair, tmp_path, runtime) == ("differ", REFUSED), row
        if cause == "quotients":
            theirs = truth(pair[0], tmp_path / "a.xml", runtime, DATA)
            assert np.array_equal(ird.run(pair[0], {"n0": DATA})["y"], theirs.arrays[0])
            continue
        with pytest.raises(UnsupportedError, match="E305"):
            ird.run(pair[0], {"n0": DATA})
        assert "W304" in {d.code for d in infer_specs(pair[0].copy(), remarks=True)}
    assert len(rows) == 5
