"""The public functions by what they are for; `irdeconv` offers them all."""

from __future__ import annotations

from irdeconv.ir.graph import Graph


def _picture(graph: Graph) -> str | None:
    from irdeconv.show.drawn import LARGEST_FLAT, picture

    return picture(graph, most=LARGEST_FLAT)


# Graphs know nothing of operations. Whoever gets one from a public function sees it drawn.
Graph.painter = staticmethod(_picture)
