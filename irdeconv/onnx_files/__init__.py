"""ONNX models as their files hold them: messages, scopes, types, tensors in other files."""
