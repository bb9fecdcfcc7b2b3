"""What an IR file says, element by element and not yet interpreted.

Texts are kept as they stand in the file. Every element knows its place: a layer and an edge by an
`Anchor`, the elements inside a layer by their number below it (`sub`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from irdeconv.source import Anchor

Pairs = tuple[tuple[str, str], ...]


class XmlPort(NamedTuple):
    """A `<port>`: the texts of its `<dim>`s, unexpected attributes, the XML of its `<rt_info>`."""

    id: str | None
    precision: str | None
    names: str | None
    dims: tuple[str, ...]
    extra: Pairs
    sub: int
    rt_info: str | None = None


class Edge(NamedTuple):
    """An `<edge>` between layers; a missing attribute is None."""

    from_layer: str | None
    from_port: str | None
    to_layer: str | None
    to_port: str | None
    extra: Pairs
    anchor: Anchor


class MapEntry(NamedTuple):
    """An `<input>` or `<output>` of a port map, or an `<edge>` of `<back_edges>`."""

    tag: str
    attributes: Pairs
    sub: int


class RawSection(NamedTuple):
    """A child of `<layer>` beyond data, ports and rt_info: its tag and XML, for writing."""

    tag: str
    xml: bytes


@dataclass(frozen=True, slots=True)
class XmlBody:
    """A body of Loop, TensorIterator (`body`) or If (`then_body`, `else_body`)."""

    tag: str
    document: Document
    sub: int


@dataclass(frozen=True, slots=True)
class PortMap:
    """A `port_map`, `then_port_map`, `else_port_map` or `back_edges` with its entries."""

    tag: str
    entries: tuple[MapEntry, ...]
    sub: int


class XmlLayer(NamedTuple):
    """A `<layer>` and what it contains; missing attributes are None.

    `data` is None where the layer has no `<data>`; `data_sub` is that element's number, else 0.
    """

    id: str | None
    name: str | None
    type: str | None
    version: str | None
    extra: Pairs
    data: dict[str, str] | None
    data_sub: int
    inputs: tuple[XmlPort, ...]
    outputs: tuple[XmlPort, ...]
    rt_info: str | None
    anchor: Anchor
    sections: tuple[RawSection, ...] = ()
    bodies: tuple[XmlBody, ...] = ()
    maps: tuple[PortMap, ...] = ()

    def within(self, sub: int) -> Anchor:
        """Return the anchor of an element inside the layer; for 0 the layer's own."""
        return Anchor(self.anchor.section, self.anchor.item, sub) if sub else self.anchor

    @property
    def label(self) -> str:
        """How messages call the layer: type and name."""
        return f'{self.type or "layer"} "{self.name or self.id or "?"}"'


@dataclass(frozen=True)
class Document:
    """A `<net>` or a body: its layers and edges in file order.

    `complete` is false where `<layers>` or `<edges>` is missing, which has been reported. `mark` is
    what the file says of its weights.
    """

    layers: tuple[XmlLayer, ...]
    edges: tuple[Edge, ...]
    name: str = ""
    version: str | None = None
    rt_info: str | None = None
    extra: Pairs = ()
    anchor: Anchor = Anchor()
    complete: bool = True
    mark: dict[str, str] = field(default_factory=dict)
