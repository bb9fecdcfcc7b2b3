"""Strings from a model input to its outputs, written, and the same in OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird

pytestmark = pytest.mark.oracles
ov = pytest.importorskip("openvino")


def test_strings_are_taken_apart_and_put_together(tmp_path: Path) -> None:
    o = pytest.importorskip("openvino.opset16")
    text = o.parameter([-1, 2], ov.Type.string)
    parts = o.string_tensor_unpack(text)
    whole = o.string_tensor_pack(*(parts.output(i) for i in range(3)))
    turned = o.gather(whole, o.constant([1, 0]), o.constant(0))
    results = [o.result(turned.output(0)), o.result(parts.output(2))]
    ov.save_model(ov.Model(results, [text]), tmp_path / "m.xml")
    graph = ird.read(tmp_path / "m.xml")
    assert ird.validate(graph) == []
    ird.write(graph, tmp_path / "written.xml")
    given = np.array([["ab", "é"], ["", "xyz"]])
    theirs = ov.Core().compile_model(tmp_path / "written.xml", "CPU")([given])
    ours = ird.run(graph, [given]).values()
    assert [a.tolist() for a in ours] == [a.tolist() for a in theirs.values()]
    assert [a.tolist() for a in ours] == [[["", "xyz"], ["ab", "é"]], [*"abéxyz".encode()]]
