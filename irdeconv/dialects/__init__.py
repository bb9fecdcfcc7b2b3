"""Deconvolutions of the systems: attributes, checks and one `expand` each."""

from irdeconv.dialects import onednn, onnx, openvino, ort_nhwc, tensorrt

__all__ = ["onednn", "onnx", "openvino", "ort_nhwc", "tensorrt"]
