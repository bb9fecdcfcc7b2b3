"""Models with a mistake in a ConvTranspose, and who says so before the model runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird


def model(
    data: tuple[int, ...] = (1, 8, 6, 6),
    filter: tuple[int, ...] = (8, 4, 3, 3),
    bias: int | None = None,
    filter_type: type = np.float32,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model with one ConvTranspose; the sizes of its output are left open."""
    node = helper.make_node("ConvTranspose", ["x", "w", "b"][: 2 + (bias is not None)], ["y"])
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    constants = [numpy_helper.from_array(np.ones(filter, filter_type), "w")]
    if bias is not None:
        constants.append(numpy_helper.from_array(np.ones(bias, np.float32), "b"))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", "c", "h", "w"))],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


MISTAKES: dict[str, Callable[[], onnx.ModelProto]] = {
    "filter for other channels": partial(model, filter=(6, 4, 3, 3)),
    "channels not divisible by group": partial(model, group=3),
    "filter of another rank": partial(model, filter=(8, 4, 3)),
    "kernel_shape unlike the filter": partial(model, kernel_shape=[5, 5]),
    "too few pads": partial(model, pads=[1, 1]),
    "too few strides": partial(model, strides=[2]),
    "pads together with auto_pad": partial(model, auto_pad="SAME_UPPER", pads=[1, 1, 1, 1]),
    "an auto_pad that does not exist": partial(model, auto_pad="SAME"),
    "a dilation of 0": partial(model, dilations=[0, 1]),
    "output_padding as large as the stride": partial(model, output_padding=[1, 1]),
    "pads that leave nothing": partial(model, pads=[4, 4, 4, 4]),
    "a bias of another length": partial(model, bias=7),
    "a filter of another type": partial(model, filter_type=np.float64),
    "an attribute with a typing error": partial(model, stride=[2, 2]),
}
Judge = Callable[[onnx.ModelProto], bool]


def fails(check: Callable[[onnx.ModelProto], Any]) -> Judge:
    """Whether a check raises an exception."""

    def judge(proto: onnx.ModelProto) -> bool:
        try:
            check(proto)
        except Exception:
            return True
        return False

    return judge


def _session(proto: onnx.ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _compiled(proto: onnx.ModelProto) -> Any:
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(proto, path)
        return openvino.Core().compile_model(str(path), "CPU")


def judges() -> dict[str, Judge]:
    return {
        "onnx.checker": fails(partial(onnx.checker.check_model, full_check=True)),
        "ONNX Runtime": fails(_session),
        "OpenVINO": fails(_compiled),
        "irdeconv": lambda proto: bool(ird.validate(proto)),
    }
