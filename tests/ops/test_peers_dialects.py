"""OpenVINO computes every system's layers with that system's numbers from what irdeconv writes."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.dialect_layers import INEXACT, VERSIONS, DialectLayer, build, data, expected, problems
from support.dialect_random import random_layer
from support.runtime_truth import outputs
from support.sweeps import parts

pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

CHUNKS, CASES = 3, 9


def lowered_defect(layer: DialectLayer) -> bool:
    """3D Convolution with C = M = 1 and unlike dilations on the first two axes: garbage."""
    single = layer.axes == 3 and layer.groups == layer.c == layer.m == 1
    return single and layer.dilations[0] != layer.dilations[1]


def native_defect(layer: DialectLayer) -> bool:
    """A kernel of size 1 at stride 1 ignores pads where the output has the data's size."""
    pointwise = set(layer.kernel) == set(layer.strides) == {1} and layer.output_size == layer.size
    return pointwise and any(begin for begin, _ in layer.window())


def agrees(layer: DialectLayer, got: Any, want: Any) -> bool:
    if layer.get("activation") is None:
        return np.array_equal(got, want)
    limit = 16 * 2.0**-24 if layer.get("activation") in INEXACT else 2 * 2.0**-24
    top = max(1.0, float(np.abs(want).max()))
    return got.shape == want.shape and np.allclose(got, want, rtol=0, atol=limit * top)


def check_layer(rng: np.random.Generator, version: str, folder: Path) -> str:
    """Write one layer as it stands and lowered, run both in OpenVINO; say what was compared."""
    layer = random_layer(rng, version, budget=1200)
    while problems(layer):
        layer = random_layer(rng, version, budget=1200)
    arrays = data(layer, rng, np.float32)
    want = expected(layer, *arrays)
    graph, _ = build(layer, arrays)
    x, compared = arrays[0], []
    if not native_defect(layer):
        ird.write(graph, folder / "native.xml")
        assert agrees(layer, outputs(folder / "native.xml", [x])[0], want), layer
        compared.append("native")
    low = ird.lower(graph).graph
    if not lowered_defect(layer):
        ird.write(low, folder / "lowered.xml")
        assert "BackpropData" not in (folder / "lowered.xml").read_text("utf-8")
        assert agrees(layer, outputs(folder / "lowered.xml", [x])[0], want), layer
        compared.append("lowered")
    return " and ".join(compared)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chunk", parts(1, CHUNKS))
@pytest.mark.parametrize("version", VERSIONS)
def test_openvino_runs_what_is_written(version: str, chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([91, VERSIONS.index(version), chunk])
    seen = Counter(check_layer(rng, version, tmp_path) for _ in range(CASES))
    assert seen["native and lowered"] >= CASES - 3, seen
    assert not seen[""], seen
