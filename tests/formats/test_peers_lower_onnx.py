"""ONNX Runtime computes the same integers before and after deconvolutions are lowered."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird
from support.onnx_models import FORMS, Layer, checked, run_onnx, types

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.oracles

CHUNKS, CASES = 6, 16
NEWEST = onnx.defs.onnx_opset_version()


def random_layer(r: random.Random) -> Layer:
    """A layer with every attribute at random; ONNX Runtime may refuse it."""
    axes, groups = r.choice([1, 2, 2, 2, 3]), r.choice([1, 1, 2, 4])
    kernel = [r.randint(1, 4) for _ in range(axes)]
    strides = [r.randint(1, 3) for _ in range(axes)]
    attributes: dict[str, Any] = {"strides": strides, "group": groups}
    attributes["dilations"] = [r.choice([1, 1, 2]) for _ in range(axes)]
    attributes["output_padding"] = [r.randint(0, s - 1) for s in strides]
    size = [r.randint(2, 6) for _ in range(axes)]
    mode = r.choice(["pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "output_shape"])
    if mode == "pads":
        attributes["pads"] = [r.randint(0, k - 1) for k in kernel * 2]
    elif mode == "output_shape":
        attributes["output_shape"] = [n * s for n, s in zip(size, strides, strict=True)]
        attributes["auto_pad"] = r.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER"])
    else:
        attributes["auto_pad"] = mode
    rank = axes + 2
    return Layer(
        data=(r.randint(1, 2), 4, *size),
        filter=(4, r.randint(1, 3), *kernel),
        open=tuple(a for a in range(rank) if a != 1 and r.random() < 0.4),
        bias=r.random() < 0.6,
        computed=r.random() < 0.3,
        opset=r.randint(11, NEWEST),
        ir=10,
        dtype=r.choice([TensorProto.FLOAT] * 4 + [TensorProto.FLOAT16]),
        attributes=attributes,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_same_integers(chunk: int) -> None:
    r = random.Random(chunk)
    done = 0
    for _ in range(CASES):
        layer, form = random_layer(r), r.choice(FORMS)
        made = layer.model()
        try:
            (before,) = run_onnx(made, layer.feeds)
        except Exception:  # what the runtime refuses, nobody has to lower
            continue
        low, report = ird.lower_onnx(made.SerializeToString(), form=form)
        assert report.layers[0].form, (layer, report.layers[0].reason)
        assert "ConvTranspose" not in types(checked(low))
        (after,) = run_onnx(low, layer.feeds)
        assert np.array_equal(before, after), (layer, form)
        verdict = ird.check_onnx(made.SerializeToString(), low.SerializeToString())
        assert verdict.passed, (layer, form, str(verdict))
        done += 1
    assert done >= CASES / 2


def test_a_loop_and_operations_that_irdeconv_does_not_know(tmp_path: Path) -> None:
    """x -> SampleOp of ONNX Runtime -> Loop of a deconvolution, twice -> out."""
    layer = Layer(data=(1, 4, 5), filter=(4, 4, 3), open=(2,), attributes={"strides": [2]})
    made = layer.model()
    up = made.graph.node[0]
    inner = onnx.NodeProto()
    inner.CopyFrom(up)
    inner.input[0], inner.output[0] = "state", "grown"
    flag = helper.make_tensor_value_info
    body = helper.make_graph(
        [inner, helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [flag("i", TensorProto.INT64, []), flag("go", TensorProto.BOOL, []),
         layer.info("state", [1, 4, None])],
        [flag("on", TensorProto.BOOL, []), layer.info("grown", [1, 4, None])],
    )  # fmt: skip
    made.graph.initializer.extend([numpy_helper.from_array(np.array(2, np.int64), "times")])
    made.graph.input[0].CopyFrom(layer.info("x", [1, 4, 5]))
    sample = helper.make_node("SampleOp", ["x"], ["x1"], "sample", domain="com.microsoft")
    loop = helper.make_node("Loop", ["times", "", "x1"], ["y"], "loop", body=body)
    made.opset_import.add(domain="com.microsoft", version=1)
    last = made.graph.node[1]
    nodes = [sample, loop, onnx.NodeProto.FromString(last.SerializeToString())]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    with pytest.raises(ird.UnsupportedError, match="SampleOp"):
        ird.convert(path)
    (before,) = run_onnx(str(path), layer.feeds)
    for form in FORMS:
        low = ird.lower_onnx(path, tmp_path / "low.onnx", form)
        assert [r.name for r in low.report] == ['up/ConvTranspose (body of Loop "loop")']
        verdict = ird.check_onnx(path, tmp_path / "low.onnx")
        assert verdict.equal
        assert [a.partition(" is ")[0] for a in verdict.assumed] == ['"x1"']  # declared by the body
        (after,) = run_onnx(str(tmp_path / "low.onnx"), layer.feeds)
        assert before.shape == after.shape == (1, 4, 23)
        assert np.max(np.abs(before - after)) <= 1e-6 * np.max(np.abs(before))
