"""Checking results: comparison of graphs, layer by layer."""
