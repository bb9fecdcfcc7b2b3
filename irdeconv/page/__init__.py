"""The graph page: one HTML file that shows a graph, or what lowering made of it."""
