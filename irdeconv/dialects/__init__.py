"""Deconvolutions of the systems: attributes, limits and the rule of the window, in one template."""

from irdeconv.dialects import onednn, onnx, openvino, ort_nhwc, tensorrt

# What `explain` compares, in the order of its table.
READINGS = (
    *openvino.READINGS,
    *onednn.READINGS,
    *onnx.READINGS,
    *ort_nhwc.READINGS,
    *tensorrt.READINGS,
)

__all__ = ["READINGS", "onednn", "onnx", "openvino", "ort_nhwc", "tensorrt"]
