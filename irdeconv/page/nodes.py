"""The layers of a graph as the page has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irdeconv.graph import Graph
from irdeconv.inspection.layers import LayerFacts
from irdeconv.ops.bodies import bodies_of
from irdeconv.page.overlays import memory


def node_content(graph: Graph, facts: LayerFacts, kind: str, number: int | None) -> dict[str, Any]:
    """Return one layer: what is empty or usual is left out, and the script puts it back."""
    content: dict[str, Any] = {"id": facts.id, "name": facts.name, "type": facts.type}
    more: Mapping[str, Any] = {
        "version": facts.version,
        "attributes": facts.attributes,
        "inputs": [[i.producer, i.port, str(i.spec)] for i in facts.inputs],
        "outputs": [str(o.spec) for o in facts.outputs],
        "place": _place(facts),
        "macs": facts.macs,
        "bytes": facts.bytes,
        "memory": memory(facts),
        "parameters": facts.parameters,
        "deconvolution": facts.deconvolution,
        "constant": facts.constant,
        "origins": [n for n in facts.origins if n != facts.name],
        "tensors": [n for o in facts.outputs for n in o.tensor_names if n != facts.name],
        "bodies": [body.tag for body in bodies_of(graph.node(facts.id))],
        "change": "" if kind == "same" else kind,
    }
    content |= {key: value for key, value in more.items() if value or key in ("macs", "memory")}
    for key in ("macs", "memory"):  # None is unknown, 0 is usual
        if content[key] == 0:
            del content[key]
    return content if number is None else {**content, "number": number}


def _place(facts: LayerFacts) -> str:
    return f"{facts.file}:{facts.line}" if facts.line is not None else facts.file or ""
