"""The public functions by topic; `irdeconv` offers them all."""

from __future__ import annotations

from irdeconv.ir.graph import Graph


def _picture(graph: Graph) -> str | None:
    from irdeconv.show.drawn import LARGEST_FLAT, picture

    return picture(graph, most=LARGEST_FLAT)


# The class Graph cannot draw operations. Graphs from public functions are drawn by `show`.
Graph.painter = staticmethod(_picture)
