"""The drawing: nested scenes of boxes and links with whole coordinates; scenes as SVG.

Units are CSS pixels. A group is a box of its parent's scene and has a scene of its own, laid out
alone, so a group opens in place without a new layout: both axes of the parent's scene are
stretched. Let a group that opens grow by d along an axis. Then the stretch is a function that
grows with slope 1 outside of boxes that open, by at least d/2 from the group's near edge to its
middle, and by at least d/2 from there to its far edge. The middle of every box moves by it and the
box keeps its size; so do all points of links but those at which they touch boxes, which move along
with these, or to the ports of an open group. As no two places come nearer to one another, boxes
that did not touch do not touch afterwards, and groups above one another share the room.

The SVG has no scripts, links or fonts; light and dark colours are a style sheet in it. The rules
name one class each, for readers of SVG with little CSS. Text has a contrast of at least 4.5. Kinds
and changes differ in shape as well as in colour. The same scene gives the same bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain, pairwise
from math import ceil
from typing import Any, Literal, get_args

from irdeconv.base.errors import count
from irdeconv.show.groups import LayerGroup, beginning, find_repeats, scopes
from irdeconv.show.layout import LABEL_GAP, Diagram, Layout, Point, lay_out
from irdeconv.show.ranks import Net
from irdeconv.show.text import ADVANCE, FONT, measure, name_lines, one_line, shown

Kind = Literal[
    "layer", "deconvolution", "input", "output", "constant", "body", "group", "repeat", "port"
]
Change = Literal["same", "added", "rewritten", "removed"]
Style = Literal["type", "name", "fact"]

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
    own scene, 0 for other boxes. A port is a point on the upper or lower edge of a group's
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
class Wire:
    """An input of a layer: output number `output` of the item `source` flows into `target`.

    If the box at an end is a group, its port is the number of the port's box in the group's scene,
    else -1.
    """

    source: int
    target: int
    output: int = 0
    label: str = ""
    node: int | None = None
    source_port: int = -1
    target_port: int = -1


@dataclass(frozen=True, slots=True)
class Link(Wire):
    """A value on its way from one box to another, numbers in the scene's `boxes`.

    `node` and `output` identify the value. At the first and last two points the
    link is vertical: they move along with the box. Between two other points that are not above one
    another it is an S whose ends are vertical (`svg.py` draws it, `canvas` likewise).
    """

    points: tuple[Point, ...] = ()


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

    `flat` is the number of the scene without groups: 0 if there are none.
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
        "points": [[*chain.from_iterable(k.points)] for k in links],
    }


BORDER = 16
_LABELLED = 6  # outputs of one box that still have labels


@dataclass(frozen=True, slots=True)
class LayerBox:
    """A layer to be drawn; `title` is its tooltip, its name if that is empty.

    `signature` is the same for layers that do the same, `weighty` is true if it has weights.
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


def scene_of(items: Sequence[LayerBox], wires: Sequence[Wire], title: str = "") -> Scene:
    """Return a scene with a box for each item and a link for each value that an item reads.

    An item that reads a value twice has one link for it. Ports of values that come in are in the
    first row, ports of values that leave in the last one. Many values with the same many readers
    meet in one point.
    """
    links = {
        (w.source, w.output, w.source_port, w.target): w for w in wires if w.source != w.target
    }
    values: dict[tuple[int, int, int], list[Wire]] = {}
    for (source, output, port, _), wire in links.items():
        values.setdefault((source, output, port), []).append(wire)
    return _Composition(*_bundled(items, list(values.values())), title).scene()


_BUNDLED = 16  # links are bundled if this leaves fewer than one of so many


def _bundled(
    items: Sequence[LayerBox], values: list[list[Wire]]
) -> tuple[Sequence[LayerBox], list[list[Wire]]]:
    """Return items and values with a point for values that the same items read: it is a port."""
    alike: dict[tuple[int, ...], list[list[Wire]]] = {}
    for wires in values:
        alike.setdefault(tuple(w.target for w in wires), []).append(wires)
    for targets, same in alike.items():
        plain = all(w.source_port == w.target_port == -1 for ws in same for w in ws)
        if plain and len(targets) * len(same) > _BUNDLED * (len(targets) + len(same)):
            point = len(items)
            items = [*items, LayerBox((), "", kind="port")]
            values = [ws for ws in values if tuple(w.target for w in ws) != targets]
            values += [[replace(ws[0], target=point)] for ws in same]
            values.append([Wire(point, t) for t in targets])
    return items, values


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
        layout = lay_out(self._diagram())
        boxes = tuple(self._box(n, layout) for n in range(len(self._items)))
        rows = zip(self._values, self._labels, layout.routes, strict=True)
        links = (self._links(*row) for row in rows)
        width, height = (size + 2 * BORDER for size in (layout.width, layout.height))
        return Scene(width, height, boxes, tuple(chain.from_iterable(links)), self._title)

    def _diagram(self) -> Diagram:
        ports = [n for n, item in enumerate(self._items) if item.kind == "port"]
        read = {w.target for wires in self._values for w in wires}
        written = {wires[0].source for wires in self._values}
        return Diagram(
            widths=tuple(w for w, _ in self._sizes),
            heights=tuple(h for _, h in self._sizes),
            nets=tuple(Net(ws[0].source, tuple(w.target for w in ws)) for ws in self._values),
            labels=tuple(label_width(text) for text in self._labels),
            top=frozenset(n for n in ports if n not in read),
            bottom=frozenset(n for n in ports if n in read and n not in written),
        )

    def _shown_labels(self) -> list[str]:
        """Return the label of each value; empty if a box has many of them, or nothing to say."""
        values = Counter(wires[0].source for wires in self._values)
        return [
            next((w.label for w in ws if w.label), "") if values[ws[0].source] <= _LABELLED else ""
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
        x, y = layout.corners[number]
        place = (x + BORDER, y + BORDER, *self._sizes[number])
        title = item.title or item.name
        return Box(*place, item.lines, item.kind, item.change, title, item.node, item.scene)

    def _links(
        self, wires: Sequence[Wire], label: str, routes: Sequence[Sequence[Point]]
    ) -> Iterator[Link]:
        """Yield the links of a value; the first that leads down has the label."""
        for wire, points in zip(wires, routes, strict=True):
            down = points[0][1] <= points[1][1] and points[0][1] < points[-1][1]
            inside = tuple((x + BORDER, y + BORDER) for x, y in points)
            own = {name: getattr(wire, name) for name in Wire.__slots__}
            yield Link(**{**own, "label": label if down else "", "points": inside})
            label = "" if down else label


def label_width(text: str) -> int:
    """Return the pixels that a label of a link takes."""
    return math.ceil(measure(text) * LABEL_SIZE)


UNGROUPED = 40  # boxes; a graph with fewer has no groups
TITLE_WIDTH = 18.6  # em: 30 characters
FACT_WIDTH = 22.3  # em of a smaller font
TYPES = 3  # that are named in the box of a group


def grouped(boxes: Sequence[LayerBox], wires: Sequence[Wire], title: str) -> list[Scene]:
    """Return the scenes of a graph with its groups closed, the whole first; none without groups."""
    if len(boxes) < UNGROUPED:
        return []
    arrows = list(dict.fromkeys((w.source, w.target) for w in wires if w.source != w.target))
    ends = {n for n, b in enumerate(boxes) if b.kind in ("input", "output")}
    root = scopes({n: "" if n in ends else b.name for n, b in enumerate(boxes)}, arrows)
    # Nothing is like an end of the model: it is in no block.
    signatures = {n: f"end {n}" if n in ends else b.signature for n, b in enumerate(boxes)}
    find_repeats(root, signatures, arrows, {n for n, b in enumerate(boxes) if b.weighty})
    root.title = title
    return _Nesting(root, boxes, wires).scenes() if root.groups() else []


class _Nesting:
    """Groups with numbers, and the way to every layer."""

    def __init__(self, root: LayerGroup, boxes: Sequence[LayerBox], wires: Sequence[Wire]) -> None:
        self._boxes = boxes
        self._groups: list[LayerGroup] = []
        self._way: dict[int, list[tuple[int, int]]] = {}  # (scene, number of the box there)
        self._number: dict[int, int] = {}
        self._enter(root)
        self._wires: list[list[Wire]] = [[] for _ in self._groups]
        self._ports: list[dict[tuple[bool, int, int], tuple[int, LayerBox]]] = [
            {} for _ in self._groups
        ]
        for wire in wires:
            self._lay(wire)

    def _enter(self, root: LayerGroup) -> None:
        """Number the groups, a group before those inside, and note the group of each layer."""
        stack: list[tuple[LayerGroup, list[tuple[int, int]]]] = [(root, [])]
        while stack:
            group, way = stack.pop()
            scene = self._number[id(group)] = len(self._groups)
            self._groups.append(group)
            for n, member in enumerate(group.members):
                if isinstance(member, LayerGroup):
                    stack.append((member, [*way, (scene, n)]))
                else:
                    self._way[member] = [*way, (scene, n)]

    def _lay(self, wire: Wire) -> None:
        """Add a link to every scene that a value passes through."""
        source, target = self._way[wire.source], self._way[wire.target]
        shared = 0
        while source[shared] == target[shared]:
            shared += 1
        value = (wire.source, wire.output)
        leaving = self._through(source[shared:], (True, *value), wire)
        entering = self._through(target[shared:], (False, *value), wire)
        (scene, start), (_, end) = source[shared], target[shared]
        inner = replace(wire, source=start, target=end, source_port=leaving, target_port=entering)
        self._wires[scene].append(inner)

    def _through(
        self, way: Sequence[tuple[int, int]], key: tuple[bool, int, int], wire: Wire
    ) -> int:
        """Link a layer with the ports of its groups; return the outermost one, -1 without."""
        port = -1
        for scene, number in reversed(way[1:]):
            before, port = port, self._port(scene, key, wire)
            ends, ports, label = (number, port), (before, -1), ""
            if not key[0]:
                ends, ports, label = ends[::-1], ports[::-1], wire.label
            self._wires[scene].append(Wire(*ends, wire.output, label, wire.node, *ports))
        return port

    def _port(self, scene: int, key: tuple[bool, int, int], wire: Wire) -> int:
        """Return the number of a port's box in a scene: those of ports follow the members."""
        ports = self._ports[scene]
        first = len(self._groups[scene].members)
        return ports.setdefault(key, (first + len(ports), LayerBox((), "", wire.node, "port")))[0]

    def scenes(self) -> list[Scene]:
        """Lay out every group."""
        out = []
        for group, ports, wires in zip(self._groups, self._ports, self._wires, strict=True):
            boxes = [self._boxes[m] if isinstance(m, int) else self._box(m) for m in group.members]
            boxes += [port for _, port in ports.values()]
            out.append(scene_of(boxes, wires, group.title))
        return out

    def _box(self, group: LayerGroup) -> LayerBox:
        inside = [self._boxes[v] for v in group.layers()]
        title = _title(group, inside)
        first = f"{group.repeats} \u00d7 {title}" if group.repeats else title
        lines = [TextLine(t, "type") for t in name_lines(first, TITLE_WIDTH)]
        lines += [TextLine(one_line(t, FACT_WIDTH), "fact") for t in _contents(group, inside)]
        group.title = title
        return LayerBox(
            lines=tuple(lines),
            name=title,
            kind="repeat" if group.repeats else "group",
            change=_change(inside),
            scene=self._number[id(group)],
        )


def _contents(group: LayerGroup, inside: Sequence[LayerBox]) -> Iterator[str]:
    """Yield the contents of a group: the number of layers, and their most frequent types."""
    layers = f"{len(inside):,} layers"
    yield f"{layers} in {group.repeats} equal blocks" if group.repeats else layers
    types = Counter(b.type for b in inside)
    most = sorted(types, key=lambda t: (-types[t], t))
    for some in range(min(TYPES, len(most)), 0, -1):
        text = ", ".join(f"{types[t]:,} {t}" for t in most[:some]) + ", ..." * (some < len(most))
        if some == 1 or measure(text) <= FACT_WIDTH:
            yield text
            break
    deconvolutions = sum(b.kind == "deconvolution" for b in inside)
    if deconvolutions:
        yield count(deconvolutions, "deconvolution")


def _title(group: LayerGroup, inside: Sequence[LayerBox]) -> str:
    """Return a group's scope, the common prefix of the names inside, or its first and last type."""
    if group.title:
        return group.title
    if group.repeats:
        block = group.members[0]
        if isinstance(block, LayerGroup) and not block.title:
            return f"{inside[0].type} ... {inside[len(inside) // group.repeats - 1].type}"
    common = beginning(min(b.name for b in inside), max(b.name for b in inside))
    end = max(common.rfind(c) for c in "/.")
    return common[:end] if end > 0 else f"{inside[0].type} ... {inside[-1].type}"


def _change(inside: Sequence[LayerBox]) -> Change:
    """Return the change of all layers of a group; "rewritten" if they differ."""
    changes = {b.change for b in inside}
    return changes.pop() if len(changes) == 1 else "rewritten"


def draw(boxes: Sequence[LayerBox], wires: Sequence[Wire], title: str = "") -> GraphDrawing:
    """Return the drawing of a graph: the same input always gets the same drawing."""
    scenes = grouped(boxes, wires, title)
    return GraphDrawing((*scenes, scene_of(boxes, wires, title)), len(scenes))


# Class -> property -> (light, dark).
_COLOURS: dict[str, dict[str, tuple[str, str]]] = {
    "page": {"fill": ("#ffffff", "#16181d")},
    "layer": {"fill": ("#f4f5f7", "#262a33"), "stroke": ("#6b7280", "#8b93a1")},
    "deconvolution": {"fill": ("#ffe3bf", "#4a3010"), "stroke": ("#b35900", "#ffab4a")},
    "input": {"fill": ("#dcecff", "#17324f"), "stroke": ("#2563b0", "#7fb4f2")},
    "output": {"fill": ("#dcecff", "#17324f"), "stroke": ("#2563b0", "#7fb4f2")},
    "constant": {"fill": ("#ffffff", "#1c1f26"), "stroke": ("#7a828e", "#8b93a1")},
    "body": {"fill": ("#efe7fb", "#33264d"), "stroke": ("#6d3fc0", "#b594ee")},
    "group": {"fill": ("#e8f3ee", "#1d3329"), "stroke": ("#3c7a5c", "#79c29d")},
    "repeat": {"fill": ("#e8f3ee", "#1d3329"), "stroke": ("#3c7a5c", "#79c29d")},
    "added": {"stroke": ("#1a7f37", "#4ac26b")},
    "rewritten": {"stroke": ("#9a5b00", "#e0a53c")},
    "removed": {"stroke": ("#cf222e", "#ff7b72")},
    "plus": {"fill": ("#1a7f37", "#4ac26b")},
    "diamond": {"fill": ("#9a5b00", "#e0a53c")},
    "minus": {"fill": ("#cf222e", "#ff7b72")},
    "sign": {"stroke": ("#ffffff", "#16181d")},
    "link": {"stroke": ("#858d99", "#79818f")},
    "head": {"fill": ("#5f6772", "#a3abb8")},
    "type": {"fill": ("#14171c", "#f2f4f8")},
    "name": {"fill": ("#3b424d", "#c6ccd6")},
    "fact": {"fill": ("#4f5763", "#b3bac6")},
    "label": {"fill": ("#4f5763", "#aab2bf")},
    "heading": {"fill": ("#14171c", "#f2f4f8")},
}

_SHARED = {
    **dict.fromkeys(("layer", "input", "output", "body", "group", "repeat"), "stroke-width:1"),
    "deconvolution": "stroke-width:1.5",
    "constant": "stroke-width:1;stroke-dasharray:3 2",
    "added": "stroke-width:2.5",
    "rewritten": "stroke-width:2.5;stroke-dasharray:9 3",
    "removed": "stroke-width:2.5;stroke-dasharray:3 3",
    "sign": "fill:none;stroke-width:2",
    "link": "fill:none;stroke-width:1.2",
    "name": f"font-size:{SIZES['name']}px;text-anchor:middle",
    "fact": f"font-size:{SIZES['fact']}px;text-anchor:middle",
    "type": f"font-size:{SIZES['type']}px;font-weight:bold;text-anchor:middle",
    "label": f"font-size:{LABEL_SIZE}px",
    "heading": "font-size:15px;font-weight:bold",
}


def style(prefix: str) -> str:
    """Return the style sheet; every class begins with `prefix`, as pages share their classes."""
    light = [f".{prefix}{c}{{{_rule(c, 0, _SHARED)}}}" for c in _COLOURS]
    dark = [f".{prefix}{c}{{{_rule(c, 1, {})}}}" for c in _COLOURS]
    return (
        f".{prefix}page,.{prefix}text{{font-family:{FONT}}}\n"
        + "\n".join(light)
        + "\n@media (prefers-color-scheme:dark){\n"
        + "\n".join(dark)
        + "\n}"
    )


def _rule(name: str, mode: int, shared: Mapping[str, str]) -> str:
    colours = [f"{key}:{pair[mode]}" for key, pair in _COLOURS[name].items()]
    return ";".join([*colours, *([shared[name]] if name in shared else [])])


PREFIX = "irdeconv-"
_CORNER = 8  # cut off a deconvolution's corners
_HEADING = 15  # size of the letters
_HEADING_LINE = 22
_LEAST = 52  # em of a heading that are shown above a narrow scene
_BETWEEN = 32  # between two scenes
_HEAD = (4, 8)  # half the width and the length of an arrow's head

# Class, shape and sign of a box, by change: the same signs as on the page.
_SIGNS = {
    "added": ("plus", "M-7,0a7,7,0,1,0,14,0a7,7,0,1,0,-14,0z", "M-4,0H4M0,-4V4"),
    "rewritten": ("diamond", "M0,-8L8,0L0,8L-8,0z", "M-1,0a1,1,0,1,0,2,0a1,1,0,1,0,-2,0z"),
    "removed": ("minus", "M-7,-7h14v14h-14z", "M-4,0H4"),
}


Panel = tuple[Scene, list[str]]  # a scene with the lines above it


def svg(panels: Sequence[Panel], title: str, description: str) -> str:
    """Return the scenes side by side; screen readers read `title` and `description`."""
    head = max((_HEADING_LINE * len(heading) for _, heading in panels), default=0)
    head += _HEADING_LINE // 2 if head else 0
    body, x, height = [], 0, 0
    for scene, heading in panels:
        texts = [one_line(t, max(_LEAST, scene.width / _HEADING)) for t in heading]
        width = max([scene.width, *(ceil(measure(t) * _HEADING) + _BETWEEN for t in texts)])
        for n, text in enumerate(texts, 1):
            body.append(_line("heading", x + _BETWEEN // 2, n * _HEADING_LINE, text))
        body.append(f'<g transform="translate({x + (width - scene.width) // 2},{head})">')
        body += _drawn(scene)
        body.append("</g>")
        x, height = x + width + _BETWEEN, max(height, scene.height)
    return _document(body, max(x - _BETWEEN, 0), height + head, title, description)


def _document(body: Sequence[str], width: int, height: int, title: str, description: str) -> str:
    size = f'width="{width}" height="{height}"'
    root = f'role="img" {size} viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {root}>',
        f"<title>{_text(title)}</title>",
        f"<desc>{_text(description)}</desc>",
        f"<style>{style(PREFIX)}</style>",
        f"<rect {_class('page')} {size}/>",
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _drawn(scene: Scene) -> Iterator[str]:
    """Yield the links, then the boxes over them, then the labels."""
    values: dict[tuple[Point, int], list[tuple[Point, ...]]] = {}
    for k in scene.links:
        values.setdefault((k.points[0], k.source), []).append(k.points)
    for links in values.values():
        yield f'<path {_class("link")} d="{tree(links)}"/>'
    heads = "".join(_head(k.points) for k in scene.links if scene.boxes[k.target].kind != "port")
    yield f'<path {_class("head")} d="{heads}"/>'
    for box in scene.boxes:
        if box.kind != "port":
            yield from _box(box)
    for link in scene.links:
        if link.label:
            x, y = link.points[0]
            yield _line("label", x + 4, y + 11, link.label)


def tree(links: Sequence[Sequence[Point]]) -> str:
    """Return the path of all links of a value: shared pieces are drawn once."""
    drawn: dict[tuple[Point, int], int] = {}  # how far down, by beginning and x of the end
    out = []
    for points in links:
        at = None
        for a, b in pairwise(points):
            start = (a[0], max(a[1], drawn.get((a, b[0]), a[1]))) if a[0] == b[0] else a
            known = b[1] <= start[1] if a[0] == b[0] else (a, b[0]) in drawn
            if not known:
                out.append(("" if at == start else f"M{start[0]},{start[1]}") + _step(start, b))
                at = b
                drawn[a, b[0]] = b[1]
    return "".join(out)


def _step(a: Point, b: Point) -> str:
    """Return a step of a path: straight down, or in an S from one line to another."""
    if a[0] == b[0]:
        return f"V{b[1]}"
    middle = f"{(a[1] + b[1]) / 2:g}"
    return f"C{a[0]},{middle},{b[0]},{middle},{b[0]},{b[1]}"


def _head(points: Sequence[Point]) -> str:
    """Return the path of an arrow's head; links that end at the lower edge of a box point up."""
    (x, y), before = points[-1], next((p[1] for p in reversed(points) if p[1] != points[-1][1]), 0)
    half, length = _HEAD
    return f"M{x},{y}l-{half},{-length if before < y else length}h{2 * half}z"


def _box(box: Box) -> Iterator[str]:
    yield "<g><title>" + "\n".join(map(_text, box.title.split("\n"))) + "</title>"
    yield from _outlines(box)
    behind = SHEETS.get(box.kind, 0) * SHEET
    x, y = box.x + (box.width - behind) // 2, box.y + PADDING[1] + 12
    for n, line in enumerate(box.lines):
        yield _line(line.style, x, y + n * LINE_HEIGHT, line.text)
    if box.change in _SIGNS:
        colour, shape, sign = _SIGNS[box.change]
        place = f"translate({box.x + box.width - behind - 2},{box.y + 2})"
        yield f'<g transform="{place}"><path {_class(colour)} d="{shape}"/>'
        yield f'<path {_class("sign")} d="{sign}"/></g>'
    yield "</g>"


def _outlines(box: Box) -> Iterator[str]:
    """Yield the shape of a kind, with the border of a change."""
    sheets = SHEETS.get(box.kind, 0)
    for n in range(sheets, 0, -1):
        yield _rectangle(box, box.kind, (sheets, n), 4)
    name = box.kind if box.change == "same" else f"{box.kind} {PREFIX}{box.change}"
    if box.kind == "deconvolution":
        yield f'<path {_class(name)} d="{_cut_corners(box)}"/>'
    else:
        round = {"input": box.height // 2, "output": box.height // 2, "constant": 0}
        yield _rectangle(box, name, (sheets, 0), round.get(box.kind, 4))
    if box.kind == "body":
        yield _rectangle(box, box.kind, (0, 0), 2, inset=3)


def _rectangle(box: Box, name: str, sheet: tuple[int, int], round: int, inset: int = 0) -> str:
    """Return a rectangle; `sheet` is how many lie below the first one, and which of them it is."""
    by = sheet[1] * SHEET + inset
    less = sheet[0] * SHEET + 2 * inset
    corner = f'x="{box.x + by}" y="{box.y + by}"'
    size = f'width="{box.width - less}" height="{box.height - less}"'
    return f'<rect {_class(name)} {corner} {size} rx="{round}"/>'


def _cut_corners(box: Box) -> str:
    c, across, down = _CORNER, box.width - 2 * _CORNER, box.height - 2 * _CORNER
    return f"M{box.x + c},{box.y}h{across}l{c},{c}v{down}l-{c},{c}h-{across}l-{c},-{c}v-{down}z"


def _line(name: str, x: int, y: int, text: str) -> str:
    return f'<text {_class(f"text {PREFIX}{name}")} x="{x}" y="{y}">{_text(text)}</text>'


def _class(name: str) -> str:
    return f'class="{PREFIX}{name}"'


def _text(text: str) -> str:
    return escape(shown(text), quote=False)
