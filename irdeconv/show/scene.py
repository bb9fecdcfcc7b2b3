"""What is drawn: boxes and links with whole coordinates, in scenes that nest.

Units are CSS pixels. A group is a box of its parent's scene and has a scene of its own, laid out
alone, so a group opens in place without a new layout: both axes of the parent's scene are
stretched. Let a group that opens grow by d along an axis. Then the stretch is a function that
grows with slope 1 outside of boxes that open, by at least d/2 from the group's near edge to its
middle, and by at least d/2 from there to its far edge. The middle of every box moves by it and the
box keeps its size; so do all points of links but those at which they touch boxes, which move along
with these, or to the ports of an open group. As no two places come nearer to one another, boxes
that did not touch do not touch afterwards, and groups above one another share the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from irdeconv.show.text import ADVANCE, FONT

Kind = Literal[
    "layer", "deconvolution", "input", "output", "constant", "body", "group", "repeat", "port"
]
Change = Literal["same", "added", "rewritten", "removed"]
Style = Literal["type", "name", "fact"]
Point = tuple[int, int]

KINDS: tuple[Kind, ...] = get_args(Kind)
CHANGES: tuple[Change, ...] = get_args(Change)
STYLES: tuple[Style, ...] = get_args(Style)

SIZES: dict[Style, int] = {"type": 12, "name": 12, "fact": 10}
LABEL_SIZE = 10
LINE_HEIGHT = 16
SHEETS: dict[Kind, int] = {"group": 1, "repeat": 2}  # that are drawn behind the first one
SHEET = 3  # pixels by which each stands out at the right and below, inside the box
PADDING = (10, 6)  # between the border of a box and its text, beside and above


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line in a box: the type (bold), the name, or a fact such as a folded constant (small)."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Box:
    """A layer, a group or a port of a scene; `x`, `y` are its upper left corner.

    `node` is the caller's number of a layer, None for a group. `scene` is the number of a group's
    own scene, 0 for what is no group. A port is a point on the upper or lower edge of a group's
    scene at which links from and to the outside end; its `node` is the layer that the value is of.
    """

    x: int
    y: int
    width: int
    height: int
    lines: tuple[TextLine, ...]
    kind: Kind
    change: Change = "same"
    title: str = ""
    node: int | None = None
    scene: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A value on its way from one box to another, numbers in the scene's `boxes`.

    `node` and `output` say which value it is. Where the box at an end is a group, its port is the
    number of the port's box in the group's scene, else -1. At the first and last two points the
    link is vertical: they move along with the box. Between two other points that are not above one
    another it is an S whose ends are vertical (`svg.py` draws it, `canvas` likewise).
    """

    source: int
    target: int
    points: tuple[Point, ...]
    label: str = ""
    node: int | None = None
    output: int = 0
    source_port: int = -1
    target_port: int = -1


@dataclass(frozen=True, slots=True)
class Scene:
    """Boxes and links in a rectangle from (0, 0) to (`width`, `height`)."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """Scenes of one graph: the first is the whole with its groups closed, others are of groups.

    `flat` is the number of the scene without groups: 0 where there are none.
    """

    scenes: tuple[Scene, ...]
    flat: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form for the page: one list per column, whole numbers."""
        return {
            "font": {
                "family": FONT,
                "advance": ADVANCE,
                "sizes": [SIZES[style] for style in STYLES],
                "label": LABEL_SIZE,
                "line": LINE_HEIGHT,
                "padding": list(PADDING),
            },
            "kinds": list(KINDS),
            "changes": list(CHANGES),
            "styles": list(STYLES),
            "flat": self.flat,
            "scenes": [_scene(s) for s in self.scenes],
        }


def _scene(scene: Scene) -> dict[str, Any]:
    labels = list(dict.fromkeys(("", *(k.label for k in scene.links))))
    numbers = {text: n for n, text in enumerate(labels)}
    return {
        "title": scene.title,
        "width": scene.width,
        "height": scene.height,
        "labels": labels,
        "boxes": _boxes(scene.boxes),
        "links": _links(scene.links, numbers),
    }


def _boxes(boxes: Sequence[Box]) -> dict[str, list[Any]]:
    """Return the columns; `styles` has a digit for every line, its number in the table."""
    return {
        **{name: [getattr(b, name) for b in boxes] for name in ("x", "y", "width", "height")},
        "kind": [KINDS.index(b.kind) for b in boxes],
        "change": [CHANGES.index(b.change) for b in boxes],
        "node": [-1 if b.node is None else b.node for b in boxes],
        "scene": [b.scene for b in boxes],
        "lines": [[t.text for t in b.lines] for b in boxes],
        "styles": ["".join(str(STYLES.index(t.style)) for t in b.lines) for b in boxes],
    }


_ENDS = ("source", "target", "source_port", "target_port")


def _links(links: Sequence[Link], labels: dict[str, int]) -> dict[str, list[Any]]:
    return {
        **{name: [getattr(k, name) for k in links] for name in _ENDS},
        "node": [-1 if k.node is None else k.node for k in links],
        "output": [k.output for k in links],
        "label": [labels[k.label] for k in links],
        "points": [list(_flattened(k.points)) for k in links],
    }


def _flattened(points: Sequence[Point]) -> Iterator[int]:
    for x, y in points:
        yield from (x, y)
