"""A page's data made small: what is said again and again is written once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OPERATION = ("type", "version", "attributes")  # fields of layers that many have alike


def packed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with `shared`, a list of values for which their numbers stand elsewhere.

    A layer that lowering left alone is its id alone in the graph after it. A column of a scene with
    the same value for all is that value, but for `x`, which says how many there are.
    """
    shared = _Shared()
    written: dict[int, Mapping[str, Any]] = {}
    graphs = []
    for graph in data["graphs"]:
        nodes, scene = graph["nodes"], graph["scene"]
        if graph["key"] == "before":
            written = {node["id"]: node for node in nodes}
        elif graph["key"] == "after":
            nodes = [n["id"] if written.get(n["id"]) == n else n for n in nodes]
        nodes = [n if isinstance(n, int) else shared.node(n) for n in nodes]
        scenes = [shared.scene(s) for s in scene["scenes"]]
        graphs.append({**graph, "nodes": nodes, "scene": {**scene, "scenes": scenes}})
    return {**data, "graphs": graphs, "shared": shared.values}


class _Shared:
    """Values with numbers, equal ones having one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        key = json.dumps(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]

    def node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a layer, its type, version and attributes as `op`."""
        out = {k: v for k, v in node.items() if k not in _OPERATION}
        out["op"] = self.number([node.get(field) for field in _OPERATION])
        if "outputs" in out:
            out["outputs"] = self.number(out["outputs"])
        if "inputs" in out:
            out["inputs"] = [[node, port, self.number(spec)] for node, port, spec in out["inputs"]]
        return out

    def scene(self, scene: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scene; points of links are a first one, and the steps from each to the next."""
        boxes, links = dict(scene["boxes"]), dict(scene["links"])
        boxes["lines"] = [self.number(lines) for lines in boxes["lines"]]
        points = links.pop("points")
        links |= {"x": [p[0] for p in points], "y": [p[1] for p in points]}
        links["steps"] = [
            self.number([after - before for before, after in zip(p, p[2:], strict=False)])
            for p in points
        ]
        return {**scene, "boxes": _columns(boxes), "links": _columns(links)}


def _columns(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return columns, each a list or the value that all have."""
    return {
        name: values[0] if name != "x" and len(set(values)) == 1 else values
        for name, values in columns.items()
    }
