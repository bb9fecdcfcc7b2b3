"""Models that compute the same in other ways; OpenVINO says that they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ov = pytest.importorskip("openvino")

from support import (  # noqa: E402, F401
    rewritings_around,
    rewritings_files,
    rewritings_filters,
    rewritings_parts,
    rewritings_sums,
    rewritings_zeros,
)
from support.rewritings import KINDS, Case, Kind  # noqa: E402

pytestmark = pytest.mark.oracles

CORE = ov.Core()
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


def outputs(path: Path, feeds: list[dict[str, Any]]) -> list[Any]:
    compiled = CORE.compile_model(CORE.read_model(path), "CPU", CONFIG)
    found = [compiled(feed) for feed in feeds]
    return [np.array(f[i]) for f in found for i in range(len(compiled.outputs))]


def feeds(path: Path, case: Case) -> list[dict[str, Any]]:
    """Integers for each shape of the case."""
    rng = np.random.default_rng(12)
    inputs = CORE.read_model(path).inputs
    made = []
    for shape in case.shapes():
        shapes = {i.any_name: shape if i.any_name == "x" else tuple(i.shape) for i in inputs}
        made.append({n: rng.integers(-4, 5, s).astype(np.float32) for n, s in shapes.items()})
    return made


def differ(a: list[Any], b: list[Any], rounds: bool) -> bool:
    """Whether results differ, by more than 2^-10 of the largest one where weights are rounded."""
    if [v.shape for v in a] != [v.shape for v in b]:
        return True
    limits = [float(np.abs(v).max()) * 2**-10 * rounds for v in a]
    return any(np.abs(v - w).max() > e for v, w, e in zip(a, b, limits, strict=True))


def truth(kind: Kind, cases: tuple[Case, ...], folder: Path) -> None:
    """Equal pairs compute the same numbers, near misses others, on integers, at several sizes."""
    for case in cases:
        for what, target in kind.variants(case).items():
            first, second = kind.write(case, target, folder)
            given = feeds(first, case)
            differs = differ(outputs(first, given), outputs(second, given), kind.rounds)
            assert differs == (what != "equal"), (what, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_openvino_agrees(name: str, tmp_path: Path) -> None:
    truth(KINDS[name], KINDS[name].cases, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(KINDS)[::6])
def test_openvino_agrees_on_some(name: str, tmp_path: Path) -> None:
    truth(KINDS[name], KINDS[name].cases[-1:], tmp_path)


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 100
