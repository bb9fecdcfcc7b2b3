"""Where the layers of a graph are drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from irdeconv.inspection.layers import LayerFacts

WIDE, HIGH, GAP_X, GAP_Y = 190, 44, 24, 40
KINDS = (
    "layer", "deconvolution", "input", "output", "constant", "body", "group", "repeat", "port",
)  # fmt: skip
_FONT = {
    "family": 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
    "advance": 0.62,
    "size": 12,
    "label": 10,
    "line": 16,
    "padding": [10, 6],
}


def drawing(layers: Sequence[LayerFacts], kinds: dict[int, str]) -> dict[str, Any]:
    """Return boxes in rows, every layer below what it reads; constants are not drawn."""
    shown = {f.id: f for f in layers if not f.constant}
    row: dict[int, int] = {}
    for f in shown.values():
        row[f.id] = 1 + max((row.get(i.producer, 0) for i in f.inputs), default=0)
    rows: dict[int, list[int]] = defaultdict(list)
    for i, r in row.items():
        rows[r].append(i)
    widest = max(map(len, rows.values()), default=1)
    at = {}
    for r, ids in rows.items():
        left = (widest - len(ids)) * (WIDE + GAP_X) // 2
        for n, i in enumerate(ids):
            at[i] = (left + n * (WIDE + GAP_X), (r - 1) * (HIGH + GAP_Y))
    scene = {
        "title": "",
        "width": widest * (WIDE + GAP_X),
        "height": max(rows, default=1) * (HIGH + GAP_Y),
        "labels": [""],
        "boxes": _boxes(shown, at, kinds),
        "links": _links(shown, at),
    }
    return {
        "font": _FONT,
        "kinds": list(KINDS),
        "changes": ["same", "added", "rewritten", "removed"],
        "styles": ["type", "name", "fact"],
        "flat": 0,
        "scenes": [scene],
    }


def _boxes(
    shown: dict[int, LayerFacts], at: dict[int, tuple[int, int]], kinds: dict[int, str]
) -> dict[str, list[Any]]:
    changes = ["same", "added", "rewritten", "removed"]
    return {
        "x": [at[i][0] for i in shown],
        "y": [at[i][1] for i in shown],
        "width": [WIDE] * len(shown),
        "height": [HIGH] * len(shown),
        "kind": [int(f.deconvolution) for f in shown.values()],
        "change": [changes.index(kinds.get(i, "same")) for i in shown],
        "node": list(shown),
        "scene": [0] * len(shown),
        "lines": [[f.type[:22], f.name[-22:]] for f in shown.values()],
        "styles": ["01"] * len(shown),
    }


def _links(shown: dict[int, LayerFacts], at: dict[int, tuple[int, int]]) -> dict[str, list[Any]]:
    number = {i: n for n, i in enumerate(shown)}
    edges = [
        (number[i.producer], number[f.id], i.producer, i.port)
        for f in shown.values()
        for i in f.inputs
        if i.producer in number
    ]
    ids = list(shown)
    points = []
    for a, b, _, _ in edges:
        (x0, y0), (x1, y1) = at[ids[a]], at[ids[b]]
        points.append([x0 + WIDE // 2, y0 + HIGH, x1 + WIDE // 2, y1])
    return {
        "source": [e[0] for e in edges],
        "target": [e[1] for e in edges],
        "source_port": [-1] * len(edges),
        "target_port": [-1] * len(edges),
        "node": [e[2] for e in edges],
        "output": [e[3] for e in edges],
        "label": [0] * len(edges),
        "points": points,
    }
