"""Facts about every layer of a graph, inferred or not."""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv import progress
from irdeconv.constant import FileData
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node, Value
from irdeconv.inspection.constants import ConstantSources
from irdeconv.op import Op
from irdeconv.ops.basic import Const, Opaque
from irdeconv.source import Location
from irdeconv.spec import Spec


@dataclass(frozen=True)
class InputFacts:
    """An input: the node, output port and name that it comes from, and what flows in.

    `parameters` are the elements of the constants behind it, None where it is no constant.
    """

    producer: int
    port: int
    name: str
    spec: Spec
    parameters: int | None


@dataclass(frozen=True)
class ConsumerFacts:
    """A layer that reads an output, at this input port."""

    id: int
    port: int
    name: str


@dataclass(frozen=True)
class OutputFacts:
    """An output and its readers; `declared` is what the file says where that differs."""

    spec: Spec
    tensor_names: tuple[str, ...]
    consumers: tuple[ConsumerFacts, ...]
    declared: Spec | None


@dataclass(frozen=True)
class LayerFacts:
    """One layer; ports count from 0 on either side. `macs` is None where sizes are unknown.

    `parameters` and `bytes` count the constants that reach the layer without passing another layer
    with other inputs, so weights behind a Convert belong to the convolution. `attributes` are those
    of the IR, `origins` the layers that a rewritten one stands for, `file` and `line` its place.
    `violations` are the conditions of a target that it does not meet.
    """

    id: int
    name: str
    type: str
    version: str
    attributes: dict[str, str]
    inputs: tuple[InputFacts, ...]
    outputs: tuple[OutputFacts, ...]
    parameters: int
    bytes: int
    macs: int | None
    deconvolution: bool
    constant: bool
    origins: tuple[str, ...]
    location: Location | None
    violations: tuple[str, ...] = ()

    @property
    def file(self) -> str | None:
        """The file that the layer comes from; None for a graph that was built."""
        return None if self.location is None else self.location.file

    @property
    def line(self) -> int | None:
        """The line there, found on demand."""
        place = None if self.location is None else self.location.position
        return None if place is None else place[0]


def layers(graph: Graph) -> list[LayerFacts]:
    """Return the facts of all nodes in id order."""
    reader = _Reader(graph)
    with progress.stage("inspecting layers", total=len(graph)) as step:
        return [reader.layer(n, step) for n in graph.nodes()]


class _Reader:
    """Reads the facts of one graph; every edge is looked at once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._inputs = {n.id: graph.inputs_of(n.id) for n in graph.nodes()}
        self._sources = ConstantSources(graph, self._inputs)
        self._users: dict[Value, list[ConsumerFacts]] = {}
        self._ports: dict[int, int] = {}
        for node in graph.nodes():
            for port, value in enumerate(self._inputs[node.id]):
                user = ConsumerFacts(node.id, port, node.name)
                self._users.setdefault(value, []).append(user)
                self._ports[value.node] = max(self._ports.get(value.node, 0), value.port + 1)

    def layer(self, node: Node, step: progress.Advance) -> LayerFacts:
        """Return one layer's facts."""
        step()
        inputs = tuple(self._input(v) for v in self._inputs[node.id])
        specs = node.specs if node.specs is not None else node.declared
        parameters, stored = self._held(node)
        return LayerFacts(
            id=node.id,
            name=node.name,
            type=node.op.type,
            version=node.op.version,
            attributes=attributes(node.op),
            inputs=inputs,
            outputs=self._outputs(node, specs),
            parameters=parameters,
            bytes=stored,
            macs=macs(node.op, tuple(i.spec for i in inputs), specs),
            deconvolution=node.op.deconvolution,
            constant=node.id in self._sources,
            origins=node.origins,
            location=node.location,
        )

    def _held(self, node: Node) -> tuple[int, int]:
        if node.id in self._sources:
            return self._sources.own.get(node.id, (0, 0))
        return self._sources.behind(v.node for v in self._inputs[node.id])

    def _input(self, value: Value) -> InputFacts:
        producer = self._graph.node(value.node)
        constant = value.node in self._sources
        held = self._sources.behind([value.node])[0] if constant else None
        return InputFacts(value.node, value.port, producer.name, producer.spec(value.port), held)

    def _outputs(self, node: Node, specs: tuple[Spec, ...]) -> tuple[OutputFacts, ...]:
        known = max(len(specs), self._ports.get(node.id, 0), len(node.tensor_names))
        return tuple(self._output(node, port, node.spec(port)) for port in range(known))

    def _output(self, node: Node, port: int, spec: Spec) -> OutputFacts:
        declared = node.declared[port] if port < len(node.declared) else None
        same = declared is None or (declared.dtype, declared.shape) == (spec.dtype, spec.shape)
        return OutputFacts(
            spec=spec,
            tensor_names=node.names_of(port),
            consumers=tuple(self._users.get(Value(node.id, port), ())),
            declared=None if same else declared,
        )


def attributes(op: Op) -> dict[str, str]:
    """Return the attributes as an IR spells them, a constant's place in the `.bin` among them."""
    texts = op.to_attributes()
    if isinstance(op, Const) and isinstance(op.data, FileData):
        texts |= {"offset": str(op.data.offset), "size": str(op.data.size)}
    return texts


def macs(op: Op, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
    """Return the multiply-accumulates of a layer; None where they are unknown."""
    if isinstance(op, Opaque) or type(op).macs is Op.macs:
        return None if isinstance(op, Opaque) else 0
    try:
        return op.macs(inputs, outputs)
    except (IndexError, OpError):
        return None  # an unfinished graph: ports or declarations are missing
