"""Scenes as SVG, without scripts, links or fonts; light and dark colours are a style sheet in it.

The rules name one class each, for readers of SVG with little CSS. Text has a contrast of at least
4.5. Kinds and changes differ in shape as well as in colour. The same scene gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil

from irdeconv.show.layout import Point
from irdeconv.show.scene import LABEL_SIZE, LINE_HEIGHT, PADDING, SHEET, SHEETS, SIZES, Box, Scene
from irdeconv.show.text import FONT, measure, one_line, shown

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
