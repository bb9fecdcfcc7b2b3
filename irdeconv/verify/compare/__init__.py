"""Comparison of a graph, layer by layer, with another one, saved arrays or OpenVINO."""
