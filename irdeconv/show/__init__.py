"""Showing models: tables, JSON, Graphviz, explanations, pictures, the graph page."""
