"""Loops and branches in live OpenVINO, from the files that irdeconv writes."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.io.xml_writer import ir_bytes
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
