"""The attributes in `<rt_info>` that OpenVINO 2026.4.1 reads, and the texts that it refuses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lxml import etree

from irdeconv.base.errors import Diagnostic
from irdeconv.formats.document import SAFE_PARSER
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node

# How many of them OpenVINO reads in the rt_info of a layer or a port. With more it reads no model.
_MOST = dict.fromkeys(("nms_selected_indices", "strides_propagation"), 0) | dict.fromkeys(
    "decompression fused_names layout old_api_map_element_type old_api_map_order precise "
    "preprocessing primitives_priority".split(),
    1,
)
_LAYOUT = "attribute[@version='0'][@name='layout']"
_AXES = {"BATCH": "N", "CHANNEL": "C", "CHANNELS": "C", "DEPTH": "D", "HEIGHT": "H", "WIDTH": "W"}
_NUMBER = re.compile(r"\s*([0-9]{1,40})", re.ASCII)


def faults(info: Any) -> Iterator[tuple[str, str]]:
    """Yield code and message of what OpenVINO refuses in the rt_info of a layer or a port."""
    found = info.findall("attribute[@version='0']")
    for name, times in Counter(a.get("name") for a in found).items():
        if times > _MOST.get(name, times):
            text = f'{times} attributes "{name}" in <rt_info>'
            yield "E108", f"{text}; OpenVINO reads {_MOST[name]}"
    for e in found:
        name = e.get("name", "")
        text = e.get("layout" if name == "layout" else "value")
        if text is not None and (why := _misread(name, text)):
            yield "E106", f'the attribute "{name}" in <rt_info> is "{text}": {why}'


def _misread(name: str, text: str) -> str:
    """Return what is wrong with the value of an attribute; empty if nothing is."""
    if name == "old_api_map_order" and text:
        numbers = map(_NUMBER.match, text.removesuffix(",").split(","))
        return "" if all(n and int(n[1]) < 2**64 for n in numbers) else "it must be a list of axes"
    if name == "old_api_map_element_type":
        known = text.lower() in (*ELEMENT_TYPES, "dynamic", "undefined")
        return "" if known else "it is not an element type"
    if name == "layout":
        try:
            layout_axes(text)
        except ValueError as e:
            return str(e)
    return ""


def layout_axes(text: str) -> tuple[int, bool]:
    """Return how many axes a layout names, and whether there may be more; ValueError.

    >>> layout_axes("NCHW"), layout_axes("[batch,...,width]")
    ((4, False), (2, True))
    """
    layout = text.strip()
    if layout == "**SCALAR**":
        return 0, False
    if len(layout) > 1 and layout[0] + layout[-1] == "[]":
        items = [item.strip() for item in layout[1:-1].split(",")]
        if len(items) > 1 and not items[-1] and items[-2] != "...":
            items.pop()
    else:
        items = re.findall(r"\.\.\.|.", layout, re.DOTALL)
    names = [_AXES.get(i.upper(), i.upper()) for i in items if i not in ("...", "?")]
    for name in names:
        if not re.fullmatch("_*[A-Z0-9][A-Z0-9_]*", name, re.ASCII):
            raise ValueError(f'"{name}" is no name of an axis')
    if len(set(names)) < len(names) or items.count("...") > 1 or (text and not items):
        raise ValueError("it must name different axes, with ... once at most")
    return len(items) - items.count("..."), not text or "..." in items


def layout_misfits(graph: Graph) -> Iterator[Diagnostic]:
    """Yield an error (E301) for each input or output whose layout is of another rank."""
    for node, port in _ends(graph):
        shape = node.spec(port).shape
        for side, number, xml in node.port_rt_info:
            if shape is None or (side, number) != ("output", port):
                continue
            for e in etree.fromstring(xml, SAFE_PARSER).findall(_LAYOUT):
                text = e.get("layout", "")
                if not _fits(text, len(shape)):
                    why = f'the layout "{text}" does not fit {node.spec(port)}'
                    what = f'{node.type} "{node.name}": {why}'
                    yield Diagnostic("E301", "error", what, node.location, node.name)


def _fits(layout: str, rank: int) -> bool:
    try:
        axes, more = layout_axes(layout)
    except ValueError:  # reported by `faults`
        return True
    return axes <= rank if more else axes == rank


def _ends(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Yield the layers and output ports that are inputs or outputs of the model."""
    yield from ((node, 0) for node in graph.parameters)
    for result in graph.results:
        for value in graph.inputs_of(result.id):
            yield graph.node(value.node), value.port
