"""Proving that a lowered ONNX model is the original but for proved regions."""
