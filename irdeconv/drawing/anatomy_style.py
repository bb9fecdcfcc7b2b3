"""The style sheet of drawn axes, for a picture by itself and for the page.

Colours stand in the rules and not in variables: programs that convert SVG know no variables.
"""

from __future__ import annotations

from functools import cache
from string import Template

_SHAPES = """\
.anatomy { font-family: system-ui, sans-serif; font-size: 12px; }
.anatomy .name { font: bold 14px ui-monospace, monospace; }
.anatomy .head { font-weight: bold; font-size: 13px; }
.anatomy .mono, .anatomy .in { font-family: ui-monospace, monospace; }
.anatomy .in { font-size: 10px; text-anchor: middle; }
.anatomy rect { stroke-width: 1; }
.anatomy .fine rect { stroke-width: .4; }
.anatomy .padded, .anatomy .cut, .anatomy .lost { stroke-dasharray: 2 2; }
.anatomy rect.extra { stroke-width: 2.5; }
.anatomy .fine rect.extra { stroke-width: 1.5; }
"""

_COLOURS = Template("""\
.anatomy text { fill: $ink; }
.anatomy .soft { fill: $soft; }
.anatomy rect { stroke: $line; fill: $empty; }
.anatomy .paper { stroke: none; fill: $paper; }
.anatomy .input { fill: $input; }
.anatomy .inserted, .anatomy .padded, .anatomy .idle { fill: none; }
.anatomy .cut, .anatomy .lost, .anatomy .cross { fill: none; stroke: $cut; }
.anatomy .count { stroke: none; fill: none; }
.anatomy .p0 { fill: $p0; }
.anatomy .p1 { fill: $p1; }
.anatomy .p2 { fill: $p2; }
.anatomy .p3 { fill: $p3; }
.anatomy .p4 { fill: $p4; }
.anatomy .p5 { fill: $p5; }
.anatomy .p6 { fill: $p6; }
.anatomy .p7 { fill: $p7; }
.anatomy .extra { stroke: $ink; }
.anatomy .focus { fill: none; stroke: $ink; stroke-width: 1.5; }
.anatomy .o0 { fill: $o0; }
.anatomy .o1 { fill: $o1; }
.anatomy .o2 { fill: $o2; }
.anatomy .o3 { fill: $o3; }
.anatomy .o4 { fill: $o4; }
""")

_LIGHT = {
    "paper": "#ffffff", "ink": "#1c2330", "soft": "#5b6575", "line": "#8b95a5",
    "empty": "#f1f3f6", "input": "#d7e3f8", "cut": "#b3261e",
    "p0": "#9ecbf2", "p1": "#f7c77e", "p2": "#a5dbab", "p3": "#f2aeb5",
    "p4": "#cdb9ee", "p5": "#eae08a", "p6": "#96dcda", "p7": "#d9c2a7",
    "o0": "#f3f5f8", "o1": "#dbe7fb", "o2": "#b4d0f7", "o3": "#85b2ee", "o4": "#5a93e2",
}  # fmt: skip
_DARK = {
    "paper": "#14181f", "ink": "#e8ecf2", "soft": "#a2acbb", "line": "#6b7686",
    "empty": "#232a35", "input": "#2f4468", "cut": "#ff8a80",
    "p0": "#1f5788", "p1": "#7a5210", "p2": "#28642f", "p3": "#85343d",
    "p4": "#5b4390", "p5": "#67600f", "p6": "#14605e", "p7": "#65502f",
    "o0": "#1c222c", "o1": "#22344f", "o2": "#27456e", "o3": "#2d588f", "o4": "#346bb4",
}  # fmt: skip


@cache
def picture_style() -> str:
    """Return the style of a picture by itself, dark where the reader's system is."""
    light, dark = _COLOURS.substitute(_LIGHT), _COLOURS.substitute(_DARK)
    return f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


@cache
def page_style() -> str:
    """Return the style for the page, which says itself whether it is dark; paper is light."""
    dark = _COLOURS.substitute(_DARK).replace(".anatomy", ':root[data-theme="dark"] .anatomy')
    return f"{_SHAPES}{_COLOURS.substitute(_LIGHT)}@media screen {{\n{dark}}}\n"
