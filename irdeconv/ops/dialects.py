"""Deconvolutions of the systems: attributes, limits and the rule of the window, in one template."""

from irdeconv.ops import dialect_onednn, dialect_onnx, dialect_openvino, dialect_tensorrt

# The systems that `explain` compares, in the order of its table.
READINGS = (
    *dialect_openvino.READINGS,
    *dialect_onednn.READINGS,
    *dialect_onnx.READINGS,
    *dialect_tensorrt.READINGS,
)
