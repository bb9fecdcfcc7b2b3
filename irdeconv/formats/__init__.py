"""Reading and writing models: OpenVINO IR of all versions, ONNX, oneDNN Graph, the text form."""
