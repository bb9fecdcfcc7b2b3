"""Packed element types against a live OpenVINO: random bytes, converted to f32 by both."""

from __future__ import annotations

import numpy as np
import openvino
import pytest

from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.packing import decode

pytestmark = pytest.mark.oracles

IR = """<net name="m" version="11"><layers>
<layer id="0" name="c" type="Const" version="opset1">
<data element_type="{type}" shape="{count}" offset="0" size="{size}"/>
<output><port id="0" precision="{precision}"><dim>{count}</dim></port></output></layer>
<layer id="1" name="v" type="Convert" version="opset1"><data destination_type="f32"/>
<input><port id="0"/></input>
<output><port id="1" precision="FP32"><dim>{count}</dim></port></output></layer>
<layer id="2" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"""


@pytest.mark.parametrize(
    "name",
    ["u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0", "bf16"],
)
@pytest.mark.parametrize("count", [1, 3, 8, 13, 64, 101])
def test_decodes_like_openvino(name: str, count: int) -> None:
    dtype = ELEMENT_TYPES[name]
    raw = np.random.default_rng(count).integers(0, 256, dtype.nbytes(count), dtype=np.uint8)
    xml = IR.format(type=name, count=count, size=len(raw), precision=dtype.precision)
    core = openvino.Core()
    model = core.read_model(xml.encode(), openvino.Tensor(raw.copy()))
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = compiled([])[0]
    got = decode(raw.tobytes(), dtype, (count,)).astype(np.float32)
    # OpenVINO flushes denormal numbers to zero.
    got[np.abs(got) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(got, expected)
