"""Graphviz output."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.graph import Graph
from irdeconv.inspection.drawn import box_facts
from irdeconv.inspection.layers import LayerFacts
from irdeconv.inspection.table import flat
from irdeconv.wrapping import one_line

_DECONVOLUTION_NODE = 'style="filled,rounded,bold" fillcolor="#ffd9a8" color="#b35900"'
_MODEL_END = 'style="filled" fillcolor="#dcecff" shape=ellipse'
_CONSTANT_NODE = 'style="dashed" color="#888888" fontcolor="#555555"'


def dot(graph: Graph, layers: Sequence[LayerFacts], *, constants: bool = False) -> str:
    """Return a digraph: deconvolutions filled, specs on the edges, constants in their readers.

    With `constants` these are nodes with a dashed border.
    """
    shown = [r for r in layers if constants or not r.constant]
    ids = {r.id for r in shown}
    lines = [
        f"digraph {quoted(graph.info.name)} {{",
        "  rankdir=TB;",
        '  node [shape=box style=rounded fontname="Helvetica" fontsize=10];',
        '  edge [fontname="Helvetica" fontsize=8];',
    ]
    for r in shown:
        facts = box_facts(graph, r, folded=not constants)
        lines.append(f"  n{r.id} [{_style(r)}label={label(flat(r.name), r.type, *facts)}];")
    for r in shown:
        for port, i in enumerate(r.inputs):
            if i.producer not in ids:
                continue
            where = f"{i.port} -> {port}" if i.port or port else ""
            text = f"{i.spec} {where}".rstrip()
            lines.append(f"  n{i.producer} -> n{r.id} [label={quoted(text)}];")
    return "\n".join([*lines, "}"]) + "\n"


def _style(row: LayerFacts) -> str:
    if row.deconvolution:
        return _DECONVOLUTION_NODE + " "
    if row.type in ("Parameter", "Result"):
        return _MODEL_END + " "
    return _CONSTANT_NODE + " " if row.constant else ""


def label(*lines: str) -> str:
    """Return a label of several lines."""
    inner = "\\n".join(quoted(line)[1:-1] for line in lines)
    return f'"{inner}"'


def quoted(text: str) -> str:
    """Return a DOT string; backslashes stay what they are instead of starting an escape."""
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
