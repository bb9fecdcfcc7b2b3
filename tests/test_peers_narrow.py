"""f16 and bf16: sums in f32, stored rounded once, within one unit of OpenVINO's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from support.layers import constant, parameter, result

ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

CORE = ov.Core()
TYPES = [np.float16, ml_dtypes.bfloat16]
LAYERS: dict[str, tuple[Any, ...]] = {
    "Convolution 3x3": ("Convolution", (1, 8, 12, 10), (6, 8, 3, 3), (1, 1), (1, 1)),
    "Convolution 1x1": ("Convolution", (2, 16, 7, 9), (5, 16, 1, 1), (1, 1), (0, 0)),
    "Convolution stem": ("Convolution", (1, 3, 20, 18), (8, 3, 5, 5), (2, 2), (2, 1)),
    "depthwise": ("GroupConvolution", (1, 6, 9, 11), (6, 1, 1, 3, 3), (1, 2), (1, 0)),
    "Deconvolution k4s2": ("ConvolutionBackpropData", (1, 8, 6, 5), (8, 6, 4, 4), (2, 2), (1, 1)),
    "Deconvolution k2s2": ("ConvolutionBackpropData", (2, 8, 6, 5), (8, 3, 2, 2), (2, 2), (0, 0)),
    "grouped": ("GroupConvolutionBackpropData", (1, 6, 7, 4), (2, 3, 5, 3, 3), (3, 2), (0, 1)),
}


def steps_apart(a: Any, b: Any) -> Any:
    """Count the representable numbers from a to b, element by element."""
    keys = []
    for v in (a, b):
        bits = np.ascontiguousarray(v).view(np.int16).astype(np.int64)
        keys.append(np.where(bits < 0, -(bits & 0x7FFF), bits))
    return np.abs(keys[0] - keys[1])


@pytest.mark.parametrize("dtype", TYPES, ids=["f16", "bf16"])
@pytest.mark.parametrize("name", LAYERS)
def test_one_unit_from_openvino(name: str, dtype: Any, tmp_path: Path) -> None:
    kind, shape, filter_shape, strides, pads = LAYERS[name]
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal(shape).astype(dtype)
    terms = np.prod(filter_shape) / max(filter_shape[0], 1)
    w = (rng.standard_normal(filter_shape) / np.sqrt(terms)).astype(dtype)
    g = Graph()
    data = parameter(g, shape, dtype, "x")
    op = REGISTRY[kind, "opset1"](strides=strides, pads_begin=pads, pads_end=pads, dilations=(1, 1))
    y = Value(g.add(op, [data, constant(g, w, "w")], name="layer").id)
    result(g, Value(g.add(REGISTRY["ReLU", "opset1"](), [y], name="relu").id))
    path = tmp_path / "net.xml"
    ird.write(g, path)
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    request = CORE.compile_model(CORE.read_model(path), "CPU", config).create_infer_request()
    element = ov.Type.f16 if dtype is np.float16 else ov.Type.bf16
    request.set_input_tensor(ov.Tensor(x.view(np.uint16), list(shape), element))
    request.infer()
    want = request.get_output_tensor().data
    want = np.frombuffer(want.tobytes(), dtype).reshape(want.shape)
    for fuse in (True, False):
        got = ird.run(ird.infer(g), {"x": x}, fuse=fuse)["y"]
        assert got.dtype == dtype
        # Sums near zero cancel: there one unit is that of the terms, not of the sum.
        unit = float(ml_dtypes.finfo(dtype).eps) * float(np.abs(want.astype(np.float32)).max())
        near = np.abs(got.astype(np.float32) - want.astype(np.float32)) <= unit * 2.0**-10
        assert np.all(near | (steps_apart(got, want) <= 1)), (name, fuse)
