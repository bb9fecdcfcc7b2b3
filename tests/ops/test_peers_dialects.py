"""OpenVINO computes every system's layers with that system's numbers from what irdeconv writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.dialect_layers import INEXACT, VERSIONS, DialectLayer, build, data, expected, problems
from support.dialect_random import random_layer
from support.rows import parts
from support.runtime_truth import outputs_of_each

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


Written = tuple[Path, Any, Any, DialectLayer]  # a model, its input and output


def written(rng: np.random.Generator, version: str, folder: Path) -> list[Written]:
    """Write one layer as it stands and lowered, if OpenVINO computes them rightly."""
    layer = random_layer(rng, version, budget=1200)
    while problems(layer):
        layer = random_layer(rng, version, budget=1200)
    arrays = data(layer, rng, np.float32)
    want = expected(layer, *arrays)
    graph, _ = build(layer, arrays)
    paths = []
    if not native_defect(layer):
        ird.write(graph, path := folder / "native.xml")
        paths.append(path)
    low = ird.lower(graph).graph
    if not lowered_defect(layer):
        ird.write(low, path := folder / "lowered.xml")
        assert "BackpropData" not in path.read_text("utf-8")
        paths.append(path)
    return [(path, arrays[0], want, layer) for path in paths]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chunk", parts(1, CHUNKS))
@pytest.mark.parametrize("version", VERSIONS)
def test_openvino_runs_what_is_written(version: str, chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([91, VERSIONS.index(version), chunk])
    made = []
    for case in range(CASES):
        (folder := tmp_path / str(case)).mkdir()
        made.append(written(rng, version, folder))
    assert [len(files) for files in made].count(2) >= CASES - 3
    assert all(made)
    every = [file for files in made for file in files]
    outputs = outputs_of_each([(path, [x]) for path, x, *_ in every])
    for (path, _, want, layer), (got,) in zip(every, outputs, strict=True):
        assert agrees(layer, got, want), (path.stem, layer)
