"""TensorIterator of version 5 to 7: a body whose open input ports are its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from irdeconv.dtypes import f32
from irdeconv.graph import Graph, Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import (
    LegacyLayer,
    Outputs,
    computed,
    exact_shape,
    precision_of,
)
from irdeconv.io.context import Context, integer
from irdeconv.io.document import XmlLayer
from irdeconv.io.wiring import Wiring, wire
from irdeconv.ops.basic import Result
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.control import TensorIterator

_FROM, _TO = ("from-layer", "from-port"), ("to-layer", "to-port")
_INTERNAL = ("internal_layer_id", "internal_port_id")


class InnerLayers(Protocol):
    """What builds the layers of a body: its graph, and the values of outputs by layer and port."""

    graph: Graph
    builder: ImportBuilder
    values: dict[Value, Value | None]

    def layers(self, wiring: Wiring, fed: Mapping[Value, Value]) -> None:
        """Build all layers; `fed` are values of input ports that no edge feeds."""


def tensor_iterator(
    n: LegacyLayer, b: ImportBuilder, xml: XmlLayer, inner: InnerLayers, context: Context
) -> Outputs:
    """Read the body, the port map and the back edges of a layer."""
    if len(xml.bodies) != 1:
        raise Refusal(f"it has {len(xml.bodies)} bodies")
    wiring = wire(xml.bodies[0].document, context)
    entries = [(m.tag, e.tag, dict(e.attributes)) for m in xml.maps for e in m.entries]
    ends = _BodyEnds(wiring, inner, n)
    ends.open([e for tag, side, e in entries if side == "input"], _INTERNAL)
    ends.open([e for tag, side, e in entries if tag == "back_edges"], _TO)
    inner.layers(wiring, ends.fed)
    given = {p.id: i for i, p in enumerate(xml.inputs)}
    gives = {p.id: i for i, p in enumerate(xml.outputs)}
    inputs, outputs, edges = [], [], []
    for tag, side, entry in entries:
        if tag == "back_edges":
            edges.append((ends.result(entry, _FROM), ends.parameter(entry, _TO)))
            continue
        port = (given if side == "input" else gives).get(entry.get("external_port_id"))
        if port is None:
            raise Refusal(f"its port map names the port {entry.get('external_port_id')}")
        if side == "input":
            inputs.append(BodyInput(ends.parameter(entry, _INTERNAL), port, _slicing(entry)))
        else:
            outputs.append(BodyOutput(ends.result(entry, _INTERNAL), port, _slicing(entry)))
    body = Body(inner.graph, tuple(inputs), tuple(outputs), tuple(edges))
    return b.outputs(TensorIterator(bodies=(body,)), *n.given)


def _slicing(entry: Mapping[str, str]) -> Slicing | None:
    def number(name: str, usual: int) -> int:
        found = integer(entry.get(name, str(usual)))
        if found is None:
            raise Refusal(f'its port map has {name}="{entry[name]}"')
        return found

    axis = number("axis", -1)
    if axis < 0:
        return None
    return Slicing(
        axis,
        start=number("start", 0),
        end=number("end", -1),
        stride=number("stride", 1),
        part_size=number("part_size", 1),
    )


class _BodyEnds:
    """The inputs and outputs of a body by the layer and port that the maps name."""

    def __init__(self, wiring: Wiring, inner: InnerLayers, n: LegacyLayer) -> None:
        self._wiring, self._inner, self._layer = wiring, inner, n
        self._parameters: dict[Value, int] = {}
        self._results: dict[Value, int] = {}
        self.fed: dict[Value, Value] = {}

    def _place(self, entry: Mapping[str, str], names: tuple[str, str], side: int) -> Value | None:
        """Return the position of a layer and of its port; None where there is no such port."""
        layer, port = (integer(entry.get(name)) for name in names)
        index = self._wiring.ids.get(-1 if layer is None else layer)
        if index is None or port is None:
            raise Refusal(
                f"its body has no layer {entry.get(names[0])}, port {entry.get(names[1])}"
            )
        at = self._wiring.ports[index][side].get(port)
        return None if at is None else Value(index, at)

    def open(self, entries: list[dict[str, str]], names: tuple[str, str]) -> None:
        """Make Parameters of the open input ports that entries name."""
        for entry in entries:
            at = self._place(entry, names, 0)
            if at is None or at in self.fed or self._source(at) is not None:
                continue
            port = self._wiring.layers[at.node].inputs[at.port]
            dims = exact_shape(port)
            dtype = precision_of(port.precision) if port.precision else self._layer.precision
            name = f"{self._layer.name}/in{len(self.fed)}"
            self.fed[at] = self._inner.builder.parameter(name, computed(dtype) or f32, dims)

    def _source(self, at: Value) -> Value | None:
        return self._wiring.sources[at.node][at.port]

    def parameter(self, entry: Mapping[str, str], names: tuple[str, str]) -> int:
        """Return the Parameter of a port: an open input, or the output of an Input layer."""
        at = self._place(entry, names, 0)
        if at is not None and at in self.fed:
            return self.fed[at].node
        output = self._place(entry, names, 1) if at is None else self._source(at)
        value = None if output is None else self._inner.values.get(output)
        if value is None or self._inner.graph.node(value.node).type != "Parameter":
            where = " ".join(f"{name}={entry.get(name)}" for name in names)
            raise Refusal(f"its body has no input at {where}")
        return value.node

    def result(self, entry: Mapping[str, str], names: tuple[str, str]) -> int:
        """Return the Result of an output port, made once."""
        at = self._place(entry, names, 1)
        value = None if at is None else self._inner.values.get(at)
        if at is None or value is None:
            where = " ".join(f"{name}={entry.get(name)}" for name in names)
            raise Refusal(f"its body has no output at {where}, or it could not be read")
        if at not in self._results:
            spec = self._inner.graph.spec(value)
            name = f"{self._layer.name}/out{len(self._results)}"
            made = self._inner.graph.add(Result(), [value], name=name, specs=(spec,))
            self._results[at] = made.id
        return self._results[at]
