"""The drawing of a whole graph."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.drawing.compose import LayerBox, Wire, scene_of
from irdeconv.drawing.nesting import grouped
from irdeconv.drawing.scene import GraphDrawing


def draw(boxes: Sequence[LayerBox], wires: Sequence[Wire], title: str = "") -> GraphDrawing:
    """Return the drawing of a graph: the same input always gets the same drawing."""
    scenes = grouped(boxes, wires, title)
    return GraphDrawing((*scenes, scene_of(boxes, wires, title)), len(scenes))
