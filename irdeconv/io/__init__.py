"""Python library and command line for OpenVINO-style IR with a verified deconvolution lowering."""
