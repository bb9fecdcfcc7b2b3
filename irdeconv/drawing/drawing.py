"""The drawing of a whole graph."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.drawing.compose import LayerBox, Wire, scene_of
from irdeconv.drawing.scene import GraphDrawing


def draw(items: Sequence[LayerBox], wires: Sequence[Wire], title: str = "") -> GraphDrawing:
    """Return the drawing of a graph: the same input always gets the same drawing."""
    return GraphDrawing((scene_of(items, wires, title),))
