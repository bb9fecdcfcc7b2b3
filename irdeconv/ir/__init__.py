"""Graphs: element types, shapes, attributes, constants, operations, nodes, geometry."""
