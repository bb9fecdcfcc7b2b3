"""The colours of pictures, light and dark, as a style sheet that an SVG carries in itself.

The rules name one class each, so that readers of SVG that know little CSS obey them, too. Colours
come in pairs whose text has a contrast of 4.5 or more.
"""

from __future__ import annotations

from collections.abc import Mapping

from irdeconv.drawing.scene import LABEL_SIZE, SIZES
from irdeconv.drawing.text import FONT

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
    "layer": "stroke-width:1",
    "deconvolution": "stroke-width:1.5",
    "input": "stroke-width:1",
    "output": "stroke-width:1",
    "constant": "stroke-width:1;stroke-dasharray:3 2",
    "body": "stroke-width:1",
    "group": "stroke-width:1",
    "repeat": "stroke-width:1",
    "added": "stroke-width:2.5",
    "rewritten": "stroke-width:2.5;stroke-dasharray:9 3",
    "removed": "stroke-width:2.5;stroke-dasharray:3 3",
    "sign": "fill:none;stroke-width:2",
    "link": "fill:none;stroke-width:1.2",
    "type": f"font-size:{SIZES['type']}px;font-weight:bold;text-anchor:middle",
    "name": f"font-size:{SIZES['name']}px;text-anchor:middle",
    "fact": f"font-size:{SIZES['fact']}px;text-anchor:middle",
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
