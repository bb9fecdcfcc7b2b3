"""Graphs: element types, shapes, attributes, constants, nodes; what an operation is; geometry."""
