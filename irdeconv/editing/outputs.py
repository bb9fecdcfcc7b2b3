"""A graph with other outputs: those that somebody asks for, and what they need."""

from __future__ import annotations

from collections.abc import Iterable

from irdeconv.editing.selection import Place, Selection
from irdeconv.errors import misused
from irdeconv.graph import Graph, Value
from irdeconv.ops.basic import Result


def with_outputs(
    graph: Graph, texts: Iterable[str], option: str = "outputs"
) -> tuple[Graph, list[str]]:
    """Return a copy whose outputs are these layers and tensors, and the names of the outputs.

    Names of the model's outputs come first, all other texts are those of `Selection`; a layer of
    several outputs gives them all, called NAME.0, NAME.1, ... Inputs that nothing needs any more
    are left out. Raises UsageError (E503) for names that nothing has, `option` being where they
    come from.
    """
    if isinstance(texts, str):
        raise misused(f'{option} is a list of names, not the text "{texts}"', f'["{texts}"]')
    names = list(texts)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise misused(f"{option} holds {odd[0]!r}, which is no name", "names are texts")
    wanted = list(dict.fromkeys(names))
    known = dict(zip(graph.outputs, (graph.inputs_of(r.id)[0] for r in graph.results), strict=True))
    others = [text for text in wanted if text not in known]
    found = dict(zip(others, Selection(graph).places(others, option), strict=True))
    values = {
        name: value
        for text in wanted
        for name, value in _values(graph, text, known.get(text), found.get(text))
    }
    if not values:
        raise misused(f"{option} names nothing", "leave it out for all outputs of the model")
    return _rebuilt(graph, values), list(values)


def _values(
    graph: Graph, text: str, output: Value | None, place: Place | None
) -> list[tuple[str, Value]]:
    """Return the tensors that a text names, each with the name of its output."""
    if output is not None:
        return [(text, output)]
    assert place is not None
    node = graph.node(place.node)
    if place.side == "input" or node.type == "Result":
        return [(text, graph.inputs_of(node.id)[place.port])]
    if place.side == "output" or node.outputs <= 1:
        return [(text, Value(node.id, place.port))]
    return [(node.output_key(port), Value(node.id, port)) for port in range(node.outputs)]


def _rebuilt(graph: Graph, values: dict[str, Value]) -> Graph:
    out = graph.copy()
    for result in out.results:
        out.remove(result.id)
    for name, value in values.items():
        result = out.add(Result(), [value], name=f"{name}/result")
        result.specs = (out.spec(value),)
    live = out.live()
    for node in reversed(out.topological()):
        if node.id not in live:
            out.remove(node.id)
    return out
