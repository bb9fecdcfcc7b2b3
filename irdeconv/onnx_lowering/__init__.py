"""Lowering the deconvolutions of an ONNX model in place; everything else stays as it is."""
