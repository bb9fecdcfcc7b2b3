"""Selection by text: a layer, a tensor, one port of a layer; a graph with these as outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Literal

from irdeconv.base.errors import Collector, UsageError, did_you_mean, misused
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.basic import Opaque, Result
from irdeconv.ops.bodies import bodies_of, every_node

_OUTPUT = re.compile(r"(?P<name>.*):(?P<port>\d{1,9})", re.DOTALL)
_INPUT = re.compile(r"(?P<port>\d{1,9}):(?P<name>.*)", re.DOTALL)
_INNER_NAME = re.compile(r'<layer [^>]*?\bname="([^"]*)"')


@dataclass(frozen=True)
class Place:
    """A part of a graph: a whole layer, or the tensor at one of its ports."""

    node: int
    side: Literal["layer", "input", "output"] = "layer"
    port: int = 0


class Selection:
    """Finds the layers and tensors that texts name; made once for a graph.

    A text is the name of a layer or else of a tensor; if both exist, `layer:NAME` and `tensor:NAME`
    say which is meant. `NAME:PORT` is an output of a layer, `PORT:NAME` the tensor at one of its
    inputs. A whole text that is a name comes first, so names may contain colons.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._layers: dict[str, list[int]] = {}
        self._tensors: dict[str, list[Value]] = {}
        for node in graph.nodes():
            self._layers.setdefault(node.name, []).append(node.id)
            for port, names in enumerate(node.tensor_names):
                for name in names:
                    self._tensors.setdefault(name, []).append(Value(node.id, port))

    def collect(self, texts: Iterable[tuple[str, str]], problems: Collector) -> list[Place]:
        """Return the place that each text, given to an option, names; report others (E503)."""
        found = [self._place(text, option, problems) for option, text in texts]
        return [place for place in found if place is not None]

    def places(self, texts: Iterable[str], option: str) -> list[Place]:
        """Return the place that each text names; UsageError (E503) lists the texts without one."""
        problems = Collector()
        found = self.collect(((option, text) for text in texts), problems)
        problems.require_none(UsageError)
        return found

    def layers(self, patterns: Iterable[str], option: str) -> set[int]:
        """Return the ids of layers: `all`, `type:T`, or any text, a tensor's being its producer's.

        A name that several layers share means all of them. UsageError (E503) with every pattern
        that names nothing.
        """
        problems, ids = Collector(), set()
        types: dict[str, set[int]] = {}
        for node in self._graph.nodes():
            types.setdefault(f"type:{node.type}", set()).add(node.id)
            types.setdefault("all", set()).add(node.id)
        for pattern in patterns:
            named = self._layers.get(pattern, [])
            made = [v.node for v in self._tensors.get(pattern, [])]
            if pattern in types or named or made:
                ids |= {*types.get(pattern, ()), *named, *made}
            else:
                place = self._place(pattern, option, problems, types)
                ids |= set() if place is None else {place.node}
        problems.require_none(UsageError)
        return ids

    def _place(
        self, text: str, option: str, problems: Collector, more: Iterable[str] = ()
    ) -> Place | None:
        """Return the place that a text names; None after reporting a text with none or several."""
        found = self._candidates(text)
        if len(found) == 1:
            return found[0]
        if found:
            problems.add(
                "E503",
                f'{option} "{text}": {len(found)} layers or tensors have this name',
                hint="give them names of their own, or ask for another name of the tensor",
            )
            return None
        problems.add(
            "E503",
            f'{option} "{text}": the model has no {self._kind(text, more)}',
            hint=self._hint(text, more),
        )
        return None

    def _candidates(self, text: str) -> list[Place]:
        kind, _, name = text.partition(":")
        named = self._named(text, "layer", "tensor") or self._named(name, kind)
        return named or self._port(text, _OUTPUT, "output") or self._port(text, _INPUT, "input")

    def _named(self, name: str, *kinds: str) -> list[Place]:
        """Return the layers, else the tensors, of that name, if their kind is among these."""
        layers = self._layers.get(name, []) if "layer" in kinds else []
        tensors = self._tensors.get(name, []) if "tensor" in kinds else []
        return [Place(i) for i in layers] or [Place(v.node, "output", v.port) for v in tensors]

    def _port(
        self, text: str, form: re.Pattern[str], side: Literal["input", "output"]
    ) -> list[Place]:
        match = form.fullmatch(text)
        if match is None:
            return []
        port, nodes = int(match["port"]), self._layers.get(match["name"], [])
        return [Place(i, side, port) for i in nodes if port < self._ports(i, side)]

    def _ports(self, node: int, side: str) -> int:
        return (
            len(self._graph.inputs_of(node)) if side == "input" else self._graph.node(node).outputs
        )

    def _kind(self, text: str, types: Iterable[str]) -> str:
        kind = text.partition(":")[0]
        if kind == "type" and types:
            return "layer of this type"
        return f"such {kind}" if kind in ("layer", "tensor") else "such layer or tensor"

    def _hint(self, text: str, more: Iterable[str]) -> str | None:
        for form, side in ((_OUTPUT, "output"), (_INPUT, "input")):
            match = form.fullmatch(text)
            nodes = self._layers.get(match["name"], []) if match else []
            if nodes:
                ports = self._ports(nodes[0], side)
                numbers = "none" if not ports else "0" if ports == 1 else f"0..{ports - 1}"
                return f"the {side} ports of this layer: {numbers}"
        kind, _, name = text.partition(":")
        name, parts = name if kind in ("layer", "tensor") and name else text, text.split(",")
        if len(parts) > 1 and all(map(self._candidates, parts)):
            return f"these are {len(parts)} names: give each by itself"
        owner = self._body_with(name)
        if owner is not None:
            return f'it lies inside a body of {owner.type} "{owner.name}", which is taken whole'
        inside = [n for n in self._layers if name in n.split("/")]
        every = [*self._layers, *self._tensors, *more]
        return did_you_mean(name, inside, 0) or did_you_mean(name, every)

    def _body_with(self, name: str) -> Node | None:
        """Return the layer that has a layer of this name in a body."""
        for node in self._graph.nodes():
            inner = (n.name for body in bodies_of(node) for n in every_node(body.graph))
            if name in inner:
                return node
            for section in node.op.sections if isinstance(node.op, Opaque) else ():
                if name in map(unescape, _INNER_NAME.findall(str(section.xml, "utf-8"))):
                    return node
        return None


def with_outputs(
    graph: Graph, texts: Iterable[str], option: str = "outputs"
) -> tuple[Graph, list[str]]:
    """Return a copy whose outputs are these layers and tensors, and the names of the outputs.

    Names of the model's outputs come first, all other texts are those of `Selection`; a layer of
    several outputs gives them all, called NAME.0, NAME.1, ... Inputs that no layer needs any more
    are left out. Raises UsageError (E503) for unknown names; its message names the `option` that
    they were given to.
    """
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
    values = values_at(graph, place) or [Value(place.node)]
    keys = [graph.node(v.node).output_key(v.port) for v in values]
    return list(zip(keys if len(values) > 1 else [text], values, strict=True))


def values_at(graph: Graph, place: Place) -> list[Value]:
    """Return the tensors at a place: outputs of a layer, the input of a Result or of a port."""
    node = graph.node(place.node)
    if place.side == "input" or node.type == "Result":
        return [graph.inputs_of(node.id)[place.port]]
    ports = [place.port] if place.side == "output" else range(node.outputs)
    return [Value(node.id, port) for port in ports]


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
