"""Shrinking a model that shows a fault: which layers, sizes, attributes and constants it takes."""
