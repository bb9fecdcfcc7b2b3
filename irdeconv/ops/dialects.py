"""Deconvolutions of the systems: attributes, limits and the rule of the window, in one template."""

from irdeconv.ops import (
    dialect_onednn as onednn,
)
from irdeconv.ops import (
    dialect_onnx as onnx,
)
from irdeconv.ops import (
    dialect_openvino as openvino,
)
from irdeconv.ops import (
    dialect_ort_nhwc as ort_nhwc,
)
from irdeconv.ops import (
    dialect_tensorrt as tensorrt,
)

# What `explain` compares, in the order of its table.
READINGS = (
    *openvino.READINGS,
    *onednn.READINGS,
    *onnx.READINGS,
    *ort_nhwc.READINGS,
    *tensorrt.READINGS,
)

__all__ = ["READINGS", "onednn", "onnx", "openvino", "ort_nhwc", "tensorrt"]
