"""The samples are what tools/make_samples.py writes, stay small, and mean what they are for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "ir_samples"
GOOD = sorted((SAMPLES / "openvino").glob("*.xml"))
BROKEN = {
    "wrong_channels": ["E302"],
    "typos": ["E106", "E202", "W100", "W101"],
    "short_weights": ["E121"],
}


def test_the_tool_writes_these_bytes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_samples", ROOT / "tools/make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.main(tmp_path)
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.*")}
    kept = {p.relative_to(SAMPLES): p.read_bytes() for p in SAMPLES.rglob("*.*")}
    assert made.keys() == kept.keys()
    assert [str(k) for k in made if made[k] != kept[k]] == []


def test_samples_are_small() -> None:
    assert sum(p.stat().st_size for p in SAMPLES.rglob("*.*")) < 300_000


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_good_samples(path: Path) -> None:
    codes = [d.code for d in ird.validate(path)]
    assert codes == (["W300"] if path.stem == "same_upper_output_shape" else [])
    graph = ird.read(path)
    shape = [s if isinstance(s, int) else 7 for s in graph.parameters[0].spec().shape or ()]
    x = (np.arange(np.prod(shape)) % 11 - 5).astype(np.float32).reshape(shape)
    direct, lowered = ird.run(graph, [x], form=None), ird.run(graph, [x])
    assert list(direct) == list(lowered) == graph.outputs
    for name, y in direct.items():
        assert np.array_equal(y, lowered[name])
        assert np.ptp(y) > 0


@pytest.mark.parametrize("stem", BROKEN)
def test_broken_samples(stem: str) -> None:
    found = ird.validate(SAMPLES / "broken" / f"{stem}.xml")
    assert sorted(d.code for d in found) == BROKEN[stem]
    assert all(d.location is not None for d in found)
    with pytest.raises(ird.InputError if stem != "wrong_channels" else ird.InferenceError):
        ird.infer(ird.read(SAMPLES / "broken" / f"{stem}.xml"))


def test_every_broken_sample_is_listed() -> None:
    assert {p.stem for p in (SAMPLES / "broken").glob("*.xml")} == set(BROKEN)
