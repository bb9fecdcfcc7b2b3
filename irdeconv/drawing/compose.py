"""Make scenes of what a caller wants to have drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from irdeconv.drawing.layout import Layout, lay_out
from irdeconv.drawing.ranks import Net
from irdeconv.drawing.routes import LABEL_GAP, Diagram
from irdeconv.drawing.scene import (
    LABEL_SIZE,
    LINE_HEIGHT,
    PADDING,
    SHEET,
    SHEETS,
    SIZES,
    Box,
    Change,
    Kind,
    Link,
    Point,
    Scene,
    TextLine,
)
from irdeconv.drawing.text import measure

BORDER = 16
_LABELLED = 6  # outputs of one box that still have labels


@dataclass(frozen=True, slots=True)
class LayerBox:
    """A layer to be drawn; `title` is said of it under the mouse, its name where that is empty.

    `signature` is the same for layers that do the same, `weighty` says whether it has weights.
    """

    lines: tuple[TextLine, ...]
    name: str
    node: int | None = None
    kind: Kind = "layer"
    change: Change = "same"
    type: str = ""
    signature: str = ""
    weighty: bool = False
    title: str = ""
    scene: int = 0


@dataclass(frozen=True, slots=True)
class Wire:
    """An input of a layer: output number `output` of the item `source` flows into `target`.

    `source_port` and `target_port` are those of a `Link`.
    """

    source: int
    target: int
    output: int = 0
    label: str = ""
    node: int | None = None
    source_port: int = -1
    target_port: int = -1


def scene_of(items: Sequence[LayerBox], wires: Sequence[Wire], title: str = "") -> Scene:
    """Return a scene with a box for each item and a link for each value that an item reads.

    An item that reads a value twice has one link for it. Ports are placed in the first row where a
    value comes in, in the last one where it leaves.
    """
    links = {
        (w.source, w.output, w.source_port, w.target): w for w in wires if w.source != w.target
    }
    values: dict[tuple[int, int, int], list[Wire]] = {}
    for (source, output, port, _), wire in links.items():
        values.setdefault((source, output, port), []).append(wire)
    return _Composition(items, list(values.values()), title).scene()


class _Composition:
    """The sizes of boxes, and the scene of their layout; `values` are the wires of each value."""

    def __init__(self, items: Sequence[LayerBox], values: list[list[Wire]], title: str) -> None:
        self._items = items
        self._values = values
        self._title = title
        self._labels = self._shown_labels()
        self._beside: dict[int, list[int]] = {}
        for wires, text in zip(values, self._labels, strict=True):
            self._beside.setdefault(wires[0].source, []).append(label_width(text) + LABEL_GAP)
        self._sizes = [self._size(n) for n in range(len(items))]

    def scene(self) -> Scene:
        """Lay out and return the scene."""
        layout = lay_out(self._diagram())
        boxes = [self._box(n, layout) for n in range(len(self._items))]
        links = [
            link
            for wires, label, routes in zip(self._values, self._labels, layout.routes, strict=True)
            for link in self._links(wires, label, routes)
        ]
        return Scene(
            width=layout.width + 2 * BORDER,
            height=layout.height + 2 * BORDER,
            boxes=tuple(boxes),
            links=tuple(links),
            title=self._title,
        )

    def _diagram(self) -> Diagram:
        ports = [n for n, item in enumerate(self._items) if item.kind == "port"]
        read = {w.target for wires in self._values for w in wires}
        return Diagram(
            widths=[w for w, _ in self._sizes],
            heights=[h for _, h in self._sizes],
            nets=[Net(ws[0].source, tuple(w.target for w in ws)) for ws in self._values],
            labels=[label_width(text) for text in self._labels],
            top=frozenset(n for n in ports if n not in read),
            bottom=frozenset(n for n in ports if n in read),
        )

    def _shown_labels(self) -> list[str]:
        """Return the label of each value: none where a box has many of them, or nothing to say."""
        count: dict[int, int] = {}
        for wires in self._values:
            count[wires[0].source] = count.get(wires[0].source, 0) + 1
        return [
            next((w.label for w in ws if w.label), "") if count[ws[0].source] <= _LABELLED else ""
            for ws in self._values
        ]

    def _size(self, number: int) -> tuple[int, int]:
        item = self._items[number]
        if item.kind == "port":
            return 0, 0
        width = max((measure(t.text) * SIZES[t.style] for t in item.lines), default=0)
        labels = self._beside.get(number, [])
        beside = max(labels) * len(labels) if len(labels) > 1 else 0
        behind = SHEETS.get(item.kind, 0) * SHEET
        inner = max(width + 2 * PADDING[0] + behind, beside)
        return 2 * math.ceil(inner / 2), LINE_HEIGHT * len(item.lines) + 2 * PADDING[1] + behind

    def _box(self, number: int, layout: Layout) -> Box:
        item = self._items[number]
        (width, height), (x, y) = self._sizes[number], layout.corners[number]
        return Box(
            x=x + BORDER,
            y=y + BORDER,
            width=width,
            height=height,
            lines=item.lines,
            kind=item.kind,
            change=item.change,
            title=item.title or item.name,
            node=item.node,
            scene=item.scene,
        )

    def _links(
        self, wires: Sequence[Wire], label: str, routes: Sequence[Sequence[Point]]
    ) -> Iterator[Link]:
        """Yield the links of a value; the first that leads down has the label."""
        for wire, points in zip(wires, routes, strict=True):
            down = points[0][1] <= points[1][1] and points[0][1] < points[-1][1]
            yield Link(
                source=wire.source,
                target=wire.target,
                points=tuple((x + BORDER, y + BORDER) for x, y in points),
                label=label if down else "",
                node=wire.node,
                output=wire.output,
                source_port=wire.source_port,
                target_port=wire.target_port,
            )
            label = "" if down else label


def label_width(text: str) -> int:
    """Return the pixels that a label of a link takes."""
    return math.ceil(measure(text) * LABEL_SIZE)
