"""Loops and branches in live OpenVINO, from the files that irdeconv writes."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from support import body_models as bm

pytestmark = pytest.mark.oracles
ov = pytest.importorskip("openvino")


@pytest.mark.parametrize("given", bm.MODELS.values(), ids=list(bm.MODELS))
def test_openvino_agrees(given: bm.BodyModel) -> None:
    graph = ird.infer(ird.parse(given.text))
    xml, weights = ir_bytes(graph)
    feeds = [given.feeds[name] for name in graph.inputs]
    core = ov.Core()
    model = core.read_model(xml, ov.Tensor(np.frombuffer(weights or b"\0", np.uint8)))
    try:
        made = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(feeds)
    except RuntimeError:
        assert given.peer
        return
    pairs = list(zip(made.values(), given.outputs, strict=True))
    if given.peer:
        assert not all(np.array_equal(got, want) for got, want in pairs)
        return
    for got, want in pairs:
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("name", ["nested", "carried", "while", "growing"])
def test_compare_runs_a_loop_as_one_layer(name: str) -> None:
    given = bm.MODELS[name]
    report = ird.compare(ird.parse(given.text), "openvino", given.feeds)
    assert report.passed, str(report)


def test_compare_gives_openvino_the_layers_that_assign_what_is_read() -> None:
    for text in (bm.state(), bm.state(bm.const(1, [[10.0, 20.0]]), "(%1)")):
        report = ird.compare(ird.parse(text), "openvino", {"x": bm.ONE})
        assert report.passed, str(report)
